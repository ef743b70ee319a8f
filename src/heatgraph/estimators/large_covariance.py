"""Fits of HeatCovariance without arrays of all pairs, for large graphs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console

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
    check_range,
    is_every_pair,
    per_square,
    resolve_candidates,
    start_near,
    unit_of,
)
from heatgraph.graph import CandidateEdges, Graph
from heatgraph.kernels.sparse_laplacian import EdgeLayout, block_width
from heatgraph.models.gaussian import HeatSpectrum
from heatgraph.models.gaussian_large import BlockSignals
from heatgraph.models.sparse_heat import HeatOperator, SparseHeat
from heatgraph.selection.cut import CUTS
from heatgraph.solvers.checkpoint_protocol import Keeper, Record
from heatgraph.solvers.gaussian_large import (
    PRECISION,
    PREDICT_PENALTY,
    VECTORS,
    Identified,
    LargeFitter,
    LargeResult,
    Report,
)
from heatgraph.solvers.result import Monitor
from heatgraph.solvers.threads import bounded_blas

__all__ = ["LARGE", "fit_large", "heat_of", "is_large", "memory_of", "set_operators"]

Array = NDArray[np.float64]

LARGE = 400  # nodes from which on the sparse engine is faster than the dense one
NEAREST = 25  # rows of each node that are candidates
HELD_OUT = 5  # one part in so many, the last, is held out
FEWEST = 10  # signals: with fewer none are held out
SHRINKAGE = 1e-3  # of the second moment: keeps the covariance from being too sure
FACTORS = 14  # of divided differences, about: for the memory


@dataclass(frozen=True, eq=False)
class LargeOutcome:
    """A fit in the units of the signals that it was given."""

    result: LargeResult
    candidates: CandidateEdges
    location: Array
    selection: pd.DataFrame


def is_large(solver: str, n_nodes: int) -> bool:
    """Whether the sparse engine is to be taken."""
    check_choice("solver", solver, ("auto", "dense", "sparse"))
    return solver == "sparse" or (solver == "auto" and n_nodes >= LARGE)


def fit_large(
    model: Any, X: Array, names: Names, monitor: Monitor | None, groups: Any = None
) -> None:
    """Fit a HeatCovariance to complete signals, without an array of all pairs."""
    M, N = X.shape
    if np.isnan(X).any():
        raise ValueError(
            f"X holds NaN, and the sparse engine, which {N} nodes need, takes complete signals "
            f"in a fit: fill the gaps first, or pass solver='dense' for up to a few hundred "
            "nodes. impute() of a fitted model takes NaN at any size."
        )
    if model.kernel != "heat":
        raise ValueError(
            f"kernel must be 'heat' for the sparse engine, which {N} nodes need; for another one "
            "pass solver='dense', which takes up to a few hundred nodes."
        )
    _check_parameters(model, N, groups)
    threads = n_threads(model.n_jobs) if model.n_jobs is not None else os.cpu_count() or 1
    _check_memory(M, N, threads)
    belongs = fingerprint(model, X, names) if model.checkpoint is not None else {}
    unit = unit_of(X - X.mean(axis=0) if model.fit_intercept else X)
    check_range(unit)
    watched = watch_fit(model.verbose, monitor)
    if model.verbose:
        Console(stderr=True).print(
            f"{N} nodes: the sparse engine learns on candidate edges, "
            f"{memory_of(M, N, threads) / 1e9:.2g} GB.",
            highlight=False,
        )
    with kept_in(model.checkpoint, belongs) as keeper, watched as watch, bounded_blas():
        outcome = fit_large_covariance(
            X / unit,
            names,
            model.candidates,
            fit_intercept=bool(model.fit_intercept),
            n_scales=int(check_number("n_scales", model.n_scales, minimum=1, integer=True)),
            tol=check_number("tol", model.tol, strict=True),
            max_iter=int(check_number("max_iter", model.max_iter, minimum=1, integer=True)),
            n_threads=threads,
            report=watch.step,
            keeper=keeper,
        )
    model.node_means_ = node_means(X)
    _store(model, outcome, M, unit, names)
    warn_of_status(model)


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
    if model.cut == "significance":
        raise ValueError("cut='significance' needs solver='dense'; pass 'auto' or a weight.")
    if isinstance(model.cut, str):
        check_choice("cut", model.cut, ("auto", *CUTS))
    else:
        check_number("cut", model.cut)
    edge_count(model.n_edges, n_nodes)


def _store(model: Any, outcome: LargeOutcome, n_signals: int, unit: float, names: Names) -> None:
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
    model.location_ = outcome.location * unit
    model.n_signals_ = model.n_effective_ = float(n_signals)
    model.second_moment_ = np.empty((0, 0))
    model.shrinkage_, model.penalty_, model.relaxed_ = SHRINKAGE, PREDICT_PENALTY, False
    model.selection_, model.comparison_ = outcome.selection, None
    model.objective_ = np.array(fit.history)
    model.status_, model.residual_ = result.status, float(fit.residual)
    model.n_iter_ = len(fit.history) - 1
    set_operators(model)
    edges_w, _ = _of_trace(result.edges.point.w, pairs.n_nodes)
    kept = np.flatnonzero(edges_w > 0.0)
    graph = Graph(np.stack([pairs.i, pairs.j], axis=1)[kept], edges_w[kept], pairs.n_nodes, names)
    n_edges = check_n_edges(edge_count(model.n_edges, pairs.n_nodes), pairs)
    if n_edges is not None:
        model.graph_ = graph.cut(n_edges=n_edges)
        model.cut_ = float(model.graph_.weights.min(initial=np.inf))
    else:
        rule = "typical" if model.cut == "auto" else model.cut
        model.cut_ = CUTS[rule](edges_w) if isinstance(rule, str) else float(rule)
        model.graph_ = graph.cut(weight=model.cut_)


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


def fit_large_covariance(
    X: Array,
    names: Names,
    candidates: Any,
    *,
    fit_intercept: bool,
    n_scales: int,
    tol: float,
    max_iter: int,
    n_threads: int,
    report: Report | None,
    keeper: Keeper,
) -> LargeOutcome:
    """Fit complete signals (M, N) on candidate edges."""
    if isinstance(candidates, str) and candidates == "all":
        raise ValueError(
            f'candidates="all" needs solver="dense", which takes hours for {X.shape[1]} nodes; '
            f"pass None for the {NEAREST} nearest rows of each node, a number, or an edge list."
        )
    location = X.mean(axis=0) if fit_intercept else np.zeros(X.shape[1])
    centred = X - location
    nearest = NEAREST if is_every_pair(candidates) else candidates
    pairs = resolve_candidates(nearest, centred, names)
    layout = EdgeLayout.of(pairs)
    fitter = LargeFitter(layout, n_scales, SHRINKAGE, tol, max_iter, n_threads, 0, report)
    everything = BlockSignals.of(centred, layout, n_threads, PRECISION)
    found = _identified(fitter, centred, start_near(pairs, centred), everything, keeper)
    result = fitter.finish(found, everything)
    rounds = np.arange(1, len(found.values) + 1)
    table = pd.DataFrame({"round": rounds, "log_likelihood": -0.5 * np.array(found.values)})
    return LargeOutcome(result, pairs, location, table)


def _identified(
    fitter: LargeFitter, X: Array, w: Array, everything: BlockSignals, keeper: Keeper
) -> Identified:
    stage = keeper.within("noise")
    kept = stage.get()
    if kept is not None:
        found = kept.arrays
        return Identified(found["start"], found["x"], tuple(found["values"].tolist()))
    n_train = len(X) - len(X) // HELD_OUT
    if len(X) < FEWEST or not (X[:n_train].any() and X[n_train:].any()):
        _, start = fitter.start(w, everything)
        return Identified(start, start)
    train = BlockSignals.of(X[:n_train], fitter.layout, fitter.n_threads, PRECISION)
    held_out = BlockSignals.of(X[n_train:], fitter.layout, fitter.n_threads, PRECISION)
    identified = fitter.identify(w, train, held_out)
    if not identified.is_stopped:
        values = np.array(identified.values)
        stage.put(Record(arrays={"start": identified.start, "x": identified.x, "values": values}))
    return identified


def heat_of(model: Any, n_threads: int = 1) -> SparseHeat:
    """The operator of a fitted HeatCovariance, from its public attributes."""
    graph: Graph = model.weights_
    pairs = CandidateEdges(
        graph.n_nodes,
        np.ascontiguousarray(graph.edges[:, 0]),
        np.ascontiguousarray(graph.edges[:, 1]),
    )
    spectrum = HeatSpectrum(model.source_variances_, model.scales_, model.noise_variance_)
    return SparseHeat(pairs, graph.weights, spectrum, n_threads)
