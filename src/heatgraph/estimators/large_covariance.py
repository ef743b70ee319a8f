"""Fits of HeatCovariance without arrays of all pairs, for large graphs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.exceptions import ConvergenceWarning

from heatgraph.arrays import Array, Ints
from heatgraph.distributed.chunked_signals import ChunkedSource
from heatgraph.estimators.checkpoint import fingerprint, kept_in
from heatgraph.estimators.fitted_graph import check_n_edges, store_graph, warn_of_status
from heatgraph.estimators.hidden import node_means
from heatgraph.estimators.memory import available_memory
from heatgraph.estimators.parameters import edge_count, n_threads
from heatgraph.estimators.progress import watch_fit
from heatgraph.estimators.validation import (
    Names,
    check_choice,
    check_number,
    check_number_or,
    check_range,
    decaying_start,
    per_square,
    power_of_two,
    resolve_candidates,
    start_near,
    unit_of,
)
from heatgraph.graph import CandidateEdges, Graph
from heatgraph.kernels.sparse_laplacian import EdgeLayout, block_width
from heatgraph.kernels.spectral import Kernel, Power, is_auto, kernel_of
from heatgraph.models.gaussian import HEAT, HeatSpectrum
from heatgraph.models.gaussian_large import BlockSignals, SignalBlocks
from heatgraph.models.sparse_heat import HeatOperator, SparseHeat
from heatgraph.selection.cut import CUTS, just_above
from heatgraph.selection.folds import independent_share
from heatgraph.solvers.driver import NO_CHECKPOINT, Keeper, Record
from heatgraph.solvers.edge_generation import generate_edges
from heatgraph.solvers.gaussian_large import (
    PRECISION,
    PREDICT_PENALTY,
    PRIOR_SPREAD,
    VECTORS,
    Identified,
    LargeFit,
    LargeFitter,
    LargeResult,
    Report,
)
from heatgraph.solvers.graph_part import compact_part
from heatgraph.solvers.information import AT_BOUND
from heatgraph.solvers.local_information import local_edge_tests
from heatgraph.solvers.result import Monitor, Status
from heatgraph.solvers.threads import bounded_blas

LARGE = 400  # nodes from which on the sparse engine is faster than the dense one
MOST_FOR_ALL = 30_000  # nodes of which all pairs are looked at: half a billion
NEAREST = 25  # rows of each node that are candidates
LARGEST_PART = 4000  # nodes on which the noise is found, which all nodes share
MOST_LEAVING = 0.2  # of the weight of such a part: with more of it, all nodes are taken
HELD_OUT = 5  # one part in so many, the last, is held out
FEWEST = 10  # signals: with fewer none are held out
SHRINKAGE = 1e-3  # of the second moment: keeps the covariance from being too sure
TEST_SHRINKAGE = 1e-6  # the same for tests of edges, whose standard errors it would bias
DECAYING_SPREAD = 1.0  # of the prior, over the mean of the weights that fall with the distance
NOISY = 0.01  # of the variance: with less noise, the prior of the edges is that of the weights
CUT_RULE = "valley"  # that cut="auto" stands for
LEVEL = 0.05  # of the p-values of cut="significance", after the correction for many tests
DRAWS = 3  # of missing entries, each followed by a fit
MANY_PAIRS = 10_000  # by which it is measured how often two nodes were observed together
FACTORS = 14  # of divided differences, about: for the memory


@dataclass(frozen=True, eq=False)
class LargeOutcome:
    """A fit in the units of the signals that it was given."""

    result: LargeResult
    candidates: CandidateEdges
    location: Array
    selection: pd.DataFrame
    tester: EdgeTester
    n_left: int | None = None  # pairs that would become edges; None where only candidates count


@dataclass(frozen=True, eq=False)
class EdgeTester:
    """Tests of some candidates, on a fit of them alone to all signals."""

    fitter: LargeFitter
    signals: SignalBlocks
    x: Array

    def __call__(self, kept: Ints, n_signals: float) -> pd.DataFrame:
        """Without penalty and prior, as :func:`heatgraph.solvers.information.edge_tests`."""
        pairs = self.fitter.layout.candidates
        x = np.concatenate([self.x[kept], self.x[pairs.n_edges :]])
        layout = EdgeLayout.of(pairs.some(kept), self.fitter.layout.order)
        fitter = replace(self.fitter, layout=layout, rho=TEST_SHRINKAGE)
        fit = fitter.relaxed(self.signals, x)
        if fit.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        free = np.flatnonzero(fit.point.w > 0.0)
        table = pd.DataFrame(
            {"weight": 0.0, "standard_error": np.nan, "z": 0.0, "p_value": 0.5},
            index=range(kept.size),
        )
        if free.size:
            tests = local_edge_tests(
                pairs.some(kept[free]),
                np.concatenate([fit.x[free], fit.x[kept.size :]]),
                n_signals,
                n_scales=fitter.n_scales,
                kernel=fitter.kernel,
                noise_is_free=fit.point.spectrum.sigma2 > AT_BOUND * fit.point.problem.noise_floor,
                n_threads=fitter.n_threads,
            )
            table.iloc[free] = tests.to_numpy()
        return table


class Source(Protocol):
    """Signals in the units of a fit, less their location, before there is a layout."""

    @property
    def rows(self) -> Array:
        """Some or all of them, (n, N), NaN where nothing was observed."""
        ...

    def parts(self, layout: EdgeLayout, n_threads: int) -> tuple[SignalBlocks, ...]:
        """All of them; where some are held out, those that are not and those that are, too."""
        ...


@dataclass(frozen=True, eq=False)
class RowSource:
    """Complete signals in memory, (M, N)."""

    rows: Array

    def parts(self, layout: EdgeLayout, n_threads: int) -> tuple[SignalBlocks, ...]:
        X = self.rows
        n = len(X) - len(X) // HELD_OUT
        shares = [X]
        if len(X) >= FEWEST and X[:n].any() and X[n:].any():
            shares += [X[:n], X[n:]]
        return tuple(BlockSignals.of(share, layout, n_threads, PRECISION) for share in shares)


@dataclass(frozen=True, eq=False)
class ChunkSource:
    """Signals of a Dask collection; the last fifth of its chunks is held out."""

    source: ChunkedSource
    location: Array
    unit: float

    @cached_property
    def rows(self) -> Array:
        return (self.source.sample - self.location) / self.unit

    def parts(self, layout: EdgeLayout, n_threads: int) -> tuple[SignalBlocks, ...]:
        n = len(self.source.chunks)
        shares = [slice(0, n)]
        if n > 1 and self.source.n_signals >= FEWEST:
            cut = n - max(1, n // HELD_OUT)
            shares += [slice(0, cut), slice(cut, n)]
        return tuple(
            self.source.blocks(share, layout, self.location, self.unit, PRECISION)
            for share in shares
        )


def is_large(solver: str, n_nodes: int) -> bool:
    """Whether the sparse engine is to be taken."""
    check_choice("solver", solver, ("auto", "dense", "sparse"))
    return solver == "sparse" or (solver == "auto" and n_nodes >= LARGE)


def fixed_kernel(kernel: Any) -> Any:
    """The kernel of a fit that does not choose among several: "auto" stands for "heat"."""
    return "heat" if is_auto(kernel) else kernel


def fit_large(
    model: Any, X: Array, names: Names, monitor: Monitor | None, groups: Any = None
) -> None:
    """Fit a HeatCovariance to signals (M, N), NaN where nothing was observed."""
    M, N = X.shape
    settings = _settings(model, M, N, groups)
    belongs = fingerprint(model, X, names) if model.checkpoint is not None else {}
    means = node_means(X)
    location = means if model.fit_intercept else np.zeros(N)
    unit = unit_of(X - location)
    check_range(unit)
    watched = watch_fit(model.verbose, monitor)
    with kept_in(model.checkpoint, belongs) as keeper, watched as watch, bounded_blas():
        run = replace(settings, report=watch.step, keeper=keeper)
        outcome = fit_rows(run, (X - location) / unit, names, bool(model.fit_intercept))
        outcome = replace(outcome, location=location + unit * outcome.location)
        model.node_means_ = means
        share = independent_share(X) * _observed_together(X, outcome.candidates)
        _store(model, outcome, M, M * share, unit, names)
    warn_of_status(model)
    if outcome.n_left:
        warnings.warn(
            f"HeatCovariance: {outcome.n_left} pairs that are no candidates would still become "
            "edges; pass more candidates, such as a larger number of neighbours.",
            ConvergenceWarning,
            stacklevel=2,
        )


def fit_large_chunks(model: Any, X: Any, names: Names, monitor: Monitor | None) -> None:
    """The same for a Dask collection, which has to be complete."""
    if model.checkpoint is not None:
        raise ValueError("checkpoint must be None for a Dask collection with solver='sparse'.")
    source = ChunkedSource.of(X)
    M, N = source.n_signals, source.total.size
    settings = _settings(model, len(source.sample), N, None)
    means = source.total / M
    location = means if model.fit_intercept else np.zeros(N)
    variance = source.squares / (M * N) - float(np.square(location).mean())
    unit = power_of_two(float(np.sqrt(max(variance, 0.0))))
    check_range(unit)
    if not variance > 0.0:
        raise ValueError(
            "X holds no signal: no node varies. A graph can only be learned from signals that vary."
        )
    with watch_fit(model.verbose, monitor) as watch, bounded_blas():
        run = replace(settings, report=watch.step)
        outcome = fit_source(run, ChunkSource(source, location, unit), names)
        outcome = replace(outcome, location=location)
        model.node_means_ = means
        _store(model, outcome, M, float(M), unit, names)
    warn_of_status(model)


def _settings(model: Any, n_signals: int, n_nodes: int, groups: Any) -> LargeSettings:
    """Checked before the fit, and what it takes told where that is wanted."""
    _check_parameters(model, n_nodes, groups)
    threads = n_threads(model.n_jobs) if model.n_jobs is not None else os.cpu_count() or 1
    _check_memory(n_signals, n_nodes, threads)
    if model.verbose:
        Console(stderr=True).print(
            f"HeatCovariance learns {n_nodes} nodes with its sparse engine, on candidate edges; it "
            f"needs about {memory_of(n_signals, n_nodes, threads) / 1e9:.2g} GB.",
            highlight=False,
        )
    return LargeSettings(
        model.candidates,
        int(check_number("n_scales", model.n_scales, minimum=1, integer=True)),
        check_number("tol", model.tol, strict=True),
        int(check_number("max_iter", model.max_iter, minimum=1, integer=True)),
        threads,
        kernel_of(fixed_kernel(model.kernel)),
    )


def _observed_together(X: Array, pairs: CandidateEdges) -> float:
    """The mean share of signals in which both ends of a candidate were observed."""
    seen = ~np.isnan(X)
    if seen.all():
        return 1.0
    some = np.linspace(0, pairs.n_edges - 1, min(pairs.n_edges, MANY_PAIRS)).astype(np.intp)
    return float((seen[:, pairs.i[some]] & seen[:, pairs.j[some]]).mean())


def _check_parameters(model: Any, n_nodes: int, groups: Any) -> None:
    """Before the fit, not after it."""
    for name in ("shrinkage", "penalty"):
        if getattr(model, name) != "auto":
            raise ValueError(
                f"{name} must be 'auto' for the sparse engine, which {n_nodes} nodes need, got "
                f"{getattr(model, name)!r}; solver='dense' takes a number."
            )
    if model.cv is not None or groups is not None:
        raise ValueError(
            "cv and groups need solver='dense': the sparse engine holds out the last fifth of the "
            "signals."
        )
    check_number_or("cut", model.cut, ("auto", *CUTS, "significance"))
    edge_count(model.n_edges, n_nodes)


def _store(
    model: Any,
    outcome: LargeOutcome,
    n_signals: int,
    n_effective: float,
    unit: float,
    names: Names,
) -> None:
    result, pairs = outcome.result, outcome.candidates
    fit = result.fit
    w, stretch = _of_trace(fit.point.w, pairs.n_nodes)
    store_graph(model, pairs, w, names, None)
    spectrum = fit.point.spectrum
    order = np.argsort(spectrum.tau, kind="stable")
    model.solver_ = "sparse"
    model.scales_ = spectrum.tau[order] * stretch
    model.source_variances_ = per_square(spectrum.v[order], unit)
    model.noise_variance_ = float(per_square(spectrum.sigma2, unit))
    model.location_ = outcome.location
    model.n_signals_, model.n_effective_ = float(n_signals), n_effective
    model.second_moment_ = np.empty((0, 0))
    model.shrinkage_, model.penalty_, model.relaxed_ = SHRINKAGE, PREDICT_PENALTY, False
    model.kernel_ = fixed_kernel(model.kernel)
    model.selection_, model.comparison_ = outcome.selection, None
    model.objective_ = np.array(fit.history)
    model.status_, model.residual_ = result.status, float(fit.residual)
    model.n_iter_ = len(fit.history) - 1
    set_operators(model)
    _store_edges(model, outcome, names)


def _store_edges(model: Any, outcome: LargeOutcome, names: Names) -> None:
    """``graph_``, with the confidence in each edge, and the table of their tests."""
    pairs, N = outcome.candidates, outcome.candidates.n_nodes
    w, _ = _of_trace(outcome.result.edges.point.w, N)
    kept = np.flatnonzero(w > 0.0)
    n_edges = check_n_edges(edge_count(model.n_edges, N), pairs)
    rule = CUT_RULE if model.cut == "auto" else model.cut
    model.cut_, model.edge_table_ = float("nan"), None
    confidence = None
    try:
        if n_edges is not None:
            kept = np.sort(kept[np.argsort(-w[kept], kind="stable")[:n_edges]])
            model.cut_ = float(w[kept].min(initial=np.inf)) if kept.size else 0.0
        elif rule == "significance":
            if kept.size:
                p = outcome.tester(kept, model.n_effective_)["p_value"].to_numpy()
                kept = kept[significant(p, N * (N - 1) // 2)]
        else:
            model.cut_ = just_above(CUTS[rule](w)) if isinstance(rule, str) else float(rule)
            kept = kept[w[kept] >= model.cut_]
        if kept.size and model.status_ is not Status.INTERRUPTED:
            model.edge_table_ = outcome.tester(kept, model.n_effective_)
            confidence = 1.0 - model.edge_table_["p_value"].to_numpy()
    except KeyboardInterrupt:
        model.status_ = Status.INTERRUPTED
    edges = np.stack([pairs.i[kept], pairs.j[kept]], axis=1)
    model.graph_ = Graph(edges.reshape(-1, 2), w[kept], N, names, confidence)


def significant(p: Array, n_tests: int) -> Ints:
    """Which p-values are at most ``LEVEL`` after Holm's correction for so many tests."""
    order = np.argsort(p, kind="stable")
    allowed = LEVEL / (n_tests - np.arange(p.size))
    n = int(np.argmax(np.append(p[order] > allowed, True)))
    return np.sort(order[:n])


def set_operators(model: Any) -> None:
    """``covariance_`` and ``precision_`` as operators, from the other attributes of a model."""
    heat = heat_of(model)
    model.covariance_ = HeatOperator(heat, inverse=False)
    model.precision_ = HeatOperator(heat, inverse=True)


def _of_trace(w: Array, n_nodes: int) -> tuple[Array, float]:
    """Weights of sum N/2, and what they were divided by."""
    total = float(w.sum())
    stretch = 2.0 * total / n_nodes if total > 0.0 else 1.0
    return w / stretch, stretch


def _check_memory(n_signals: int, n_nodes: int, n_threads: int) -> None:
    needed, free = memory_of(n_signals, n_nodes, n_threads), available_memory()
    if free is not None and needed > free:
        raise MemoryError(
            f"HeatCovariance needs about {needed / 1e9:.2g} GB for {n_signals} signals at "
            f"{n_nodes} nodes, and {free / 1e9:.2g} GB are free; give fewer signals."
        )


def memory_of(n_signals: int, n_nodes: int, n_threads: int) -> int:
    """Bytes that a fit needs beside the signals.

    Three copies of them in double precision, while they are prepared, and two in single precision;
    probing vectors; the workspaces of each thread; for each candidate its weight, slopes, factors
    of the information, and the memory of L-BFGS.
    """
    columns = 8 * (3 * n_signals) + 4 * (2 * n_signals + VECTORS)
    columns += n_threads * 4 * block_width(PRECISION) * (2 * FACTORS + 12)
    per_candidate = 8 * (60 + 3 * FACTORS)
    return n_nodes * columns + NEAREST * n_nodes * per_candidate


@dataclass(frozen=True, eq=False)
class LargeSettings:
    """What a fit is asked to do."""

    candidates: Any
    n_scales: int
    tol: float
    max_iter: int
    n_threads: int
    kernel: Kernel = HEAT.kernel
    report: Report | None = None
    keeper: Keeper = NO_CHECKPOINT


def fit_rows(settings: LargeSettings, X: Array, names: Names, fit_intercept: bool) -> LargeOutcome:
    """Fit signals (M, N) around their location, NaN where nothing was observed.

    Missing entries are first taken to be zero.  Then, a few times, they are drawn from the model of
    the fit before, given what was observed, and the model is fitted anew (stochastic EM with one
    draw of each signal): a draw has the variance that a mean would lack.  ``location`` of what
    comes back is how far the location has moved.
    """
    missing = np.isnan(X)
    moved = np.zeros(X.shape[1])
    if not missing.any():
        return replace(fit_source(settings, RowSource(X), names), location=moved)
    seen = X
    outcome = fit_source(settings, RowSource(np.where(missing, 0.0, X)), names)
    rng = np.random.default_rng(0)
    for k in range(DRAWS):
        if outcome.result.status is Status.INTERRUPTED:
            break
        point = outcome.result.fit.point
        heat = SparseHeat(outcome.candidates, point.w, point.spectrum, settings.n_threads)
        try:
            filled = heat.drawn(seen, rng)
        except KeyboardInterrupt:
            outcome = replace(outcome, result=replace(outcome.result, status=Status.INTERRUPTED))
            break
        if fit_intercept:
            level = filled.mean(axis=0)
            filled, seen, moved = filled - level, seen - level, moved + level
        again = replace(settings, keeper=settings.keeper.within(f"draw {k + 1}"))
        outcome = fit_source(again, RowSource(filled), names)
    return replace(outcome, location=moved)


def fit_source(settings: LargeSettings, source: Source, names: Names) -> LargeOutcome:
    """Fit complete signals around their location, on candidate edges."""
    candidates, rows = settings.candidates, source.rows
    look_at_all = isinstance(candidates, str) and candidates == "all"
    if look_at_all and (rows.shape[1] > MOST_FOR_ALL or not isinstance(source, RowSource)):
        raise ValueError(
            f'candidates="all" needs signals in memory and at most {MOST_FOR_ALL} nodes for the '
            f"sparse engine, got {rows.shape[1]} nodes; pass None for the {NEAREST} nearest rows "
            "of each node, a number, or an edge list."
        )
    nearest = candidates is None or look_at_all
    pairs = resolve_candidates(NEAREST if nearest else candidates, rows, names)
    layout = EdgeLayout.of(pairs)
    fitter = LargeFitter(
        layout,
        settings.n_scales,
        SHRINKAGE,
        settings.tol,
        settings.max_iter,
        settings.n_threads,
        report=settings.report,
        kernel=settings.kernel,
    )
    everything, *divided = source.parts(layout, settings.n_threads)
    w = start_near(pairs, rows)
    found = _identified(fitter, w, rows, everything, divided, settings.keeper)

    def edge_prior(fit: LargeFit, found: Identified) -> tuple[Array, float]:
        return _edge_prior(fit, found, rows, settings.n_threads)

    result, n_left = fitter.finish(found, everything, edge_prior), None
    if look_at_all:
        generated = generate_edges(fitter, found, result, everything, edge_prior)
        fitter, result, n_left = generated.fitter, generated.result, generated.n_left
        pairs = fitter.layout.candidates
    rounds = np.arange(1, len(found.values) + 1)
    table = pd.DataFrame({"round": rounds, "log_likelihood": -0.5 * np.array(found.values)})
    tester = EdgeTester(fitter, everything, result.edges.x)
    return LargeOutcome(result, pairs, np.zeros(layout.n_nodes), table, tester, n_left)


def _edge_prior(
    fit: LargeFit, found: Identified, rows: Array, n_threads: int
) -> tuple[Array, float]:
    """Weights that fall with the distance between nodes, in what the fit takes for the signals.

    Where held-out signals preferred a start from edges found to one from the nearest nodes,
    distances say little, and the prior remains around that start; so it does where there is hardly
    any noise, as with few clean signals it finds more of the edges.
    """
    problem, spectrum = fit.point.problem, fit.point.spectrum
    if found.n_restarts or spectrum.sigma2 < NOISY * problem.signals.mean_variance:
        return found.start, PRIOR_SPREAD
    pairs = problem.candidates
    heat = SparseHeat(pairs, fit.point.w, spectrum, n_threads)
    expected = heat.function(lambda lam: 1.0 - spectrum.sigma2 / spectrum.values(lam), rows)
    w = decaying_start(pairs, expected, NEAREST)
    total = float(found.start[: w.size].sum())
    return np.concatenate([w * (total / w.sum()), found.start[w.size :]]), DECAYING_SPREAD


def _identified(
    fitter: LargeFitter,
    w: Array,
    rows: Array,
    everything: SignalBlocks,
    divided: Sequence[SignalBlocks],
    keeper: Keeper,
) -> Identified:
    """The noise and a start, kept by the checkpoint."""
    stage = keeper.within("noise")
    kept = stage.get()
    if kept is not None:
        found = kept.arrays
        values, n = tuple(found["values"].tolist()), int(found["n_restarts"])
        return Identified(found["start"], found["x"], values, n_restarts=n)
    if not divided:
        _, start = fitter.start(w, everything)
        return Identified(start, start)
    identified = _on_a_part(fitter, w, rows, everything)
    if identified is None:
        identified = fitter.identify(w, *divided)
    if not identified.is_stopped:
        names = ("start", "x", "values", "n_restarts")
        stage.put(Record(arrays={name: np.asarray(getattr(identified, name)) for name in names}))
    return identified


def _on_a_part(
    fitter: LargeFitter, w: Array, rows: Array, everything: SignalBlocks
) -> Identified | None:
    """The same from a part of a graph that is larger; None where no part stands for the graph."""
    layout = fitter.layout
    if layout.n_nodes <= LARGEST_PART:
        return None
    centre = int(layout.order[layout.n_nodes // 2])
    part = compact_part(layout.candidates, w, centre, LARGEST_PART)
    if part.share_leaving > MOST_LEAVING:
        return None
    small = replace(fitter, layout=EdgeLayout.of(part.candidates))
    divided = RowSource(rows[:, part.nodes]).parts(small.layout, fitter.n_threads)[1:]
    if not divided:
        return None
    start = w[part.inside]
    found = small.identify(start, *divided)
    stretch = float(found.start[: start.size].sum() / start.sum())
    if found.is_stopped:
        x = np.concatenate([stretch * w, found.x[start.size :]])
        return Identified(x, x, found.values, is_stopped=True)
    return fitter.follow(found, stretch, w, everything)


def heat_of(model: Any, n_threads: int = 1) -> SparseHeat:
    """The operator of a fitted HeatCovariance, from its public attributes."""
    graph: Graph = model.weights_
    pairs = CandidateEdges.of(graph.n_nodes, graph.edges)
    spectrum = HeatSpectrum(
        model.source_variances_,
        model.scales_,
        model.noise_variance_,
        Power(kernel_of(model.kernel_)),
    )
    return SparseHeat(pairs, graph.weights, spectrum, n_threads)
