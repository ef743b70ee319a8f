"""``heatgraph.compare``: every method on the same folds, the same hidden entries."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from heatgraph.arrays import Array, Mask
from heatgraph.comparison.methods import NO_GRAPH, chosen_methods
from heatgraph.comparison.table import Comparison, MethodResult, share_missed
from heatgraph.errors import ParameterError
from heatgraph.estimators.hidden import HeldOut, NodeMeans, hidden_errors
from heatgraph.estimators.progress import counting_bar
from heatgraph.estimators.time_series import with_epochs
from heatgraph.estimators.validation import check_number, check_signals, node_names
from heatgraph.graph import Graph
from heatgraph.metrics import average_precision, edge_scores
from heatgraph.solvers.result import Status

Advance = Callable[[str, float], None]  # a method, and the share of its work that is done
COMPLETE_ONLY = "failed: it takes complete signals only, and there are gaps (NaN)"


def compare(
    X: Any,
    methods: Any = None,
    truth: Graph | None = None,
    cv: int = 3,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
    groups: Any = None,
    lag: Any = 0,
) -> Comparison:
    """Compare methods by how well they predict signals that they have not seen.

    Signals are held out in contiguous blocks.  A fifth of the entries of each is hidden, the same
    ones from every method, and filled in from the others; what counts is the share of the hidden
    entries' variance, around the mean of each node, that is missed.  Every method is also fitted
    on all signals, for its graph and the time it takes, and on either half of them, to see whether
    it finds the same edges again.  Nothing is tuned by ``truth``.

    Parameters
    ----------
    X : array-like or data frame (n_signals, n_nodes)
        NaN marks an entry that was not observed; methods that take complete signals only say so
        in their row.  Signals that follow each other in time should be in order.  Time series in
        epochs, (n_epochs, n_times, n_nodes) or an xarray.DataArray, are read by
        :func:`heatgraph.time_series`.
    methods : optional
        None for all that predict, and with ``truth`` for all; a list of names
        (``"HeatCovariance"``, ``"LearnHeat"``, ``"HeatFilter"``, ``"GGL"``, ``"DDGL"``, ``"CGL"``,
        ``"LakeTenenbaum"``, ``"GraphicalLasso"``, ``"SmoothGraph"``, ``"SmoothGraph-log"``,
        ``"SpectralTemplates"``, ``"DiffusionPolytope"``, ``"neighbours"``, and without a graph
        ``"LedoitWolf"``, ``"KNN"``, ``"mean"``) or of estimators; a mapping from names to
        estimators.  "mean", the means of the nodes, is always there.
    truth : Graph, optional
        A known graph on the same nodes; adds the five scores of the paper and the average
        precision.
    cv : int
        Number of folds.
    random_state : int
        Seed of the hidden entries, and of the methods that draw at random.
    n_jobs : int, optional
        How many fits of a method run at the same time; times are longer then.
    verbose : int
        1 shows a progress bar.
    groups : array-like (n_signals,), optional
        Signals of one group are held out together; epochs are groups unless others are given.
    lag : int or sequence of int
        Put the values of so many steps before beside the present ones: see
        :func:`heatgraph.time_series`.

    Returns
    -------
    Comparison
        A method that fails is a row with its reason.  Ctrl-C ends the comparison and keeps the
        methods that are done.

    Examples
    --------
    >>> import heatgraph
    >>> from heatgraph.datasets import make_graph, make_heat_signals
    >>> graph = make_graph("er", 10, random_state=0)
    >>> X, _ = make_heat_signals(graph, [1.0], 120, 10, 0.02, random_state=0)
    >>> found = heatgraph.compare(X, ["GGL", "HeatFilter", "LedoitWolf"], truth=graph)
    >>> round(found["mean"].missed, 3), sorted(found.graphs)
    (1.0, ['GGL', 'HeatFilter'])
    """
    X, groups = with_epochs(X, groups, lag)
    task = _Task.of(X, cv, random_state, truth, groups)
    chosen = chosen_methods(methods, truth is not None)
    judged: dict[str, _Judged] = {}
    interrupted = False
    done, total = count(1), len(chosen) * len(task.sizes)
    last, begun = next((name for name in reversed(chosen) if name != "mean"), "mean"), 0.0
    with counting_bar("comparing") if verbose else nullcontext(lambda *_, **__: None) as report:

        def advance(name: str, share: float) -> None:
            # Some methods take a hundred times as long as others: the last one tells how long.
            end = begun + (time.monotonic() - begun) / share if name == last else None
            report(next(done), total, name, end=end)

        for name, estimator in chosen.items():
            begun = time.monotonic()
            try:
                judged[name] = task.judge(name, estimator, n_jobs, advance)
            except KeyboardInterrupt:
                interrupted = True
                break
    return task.compared(judged, interrupted)


@dataclass(frozen=True, eq=False)
class _Judged:
    """A method's row without what depends on others, its errors of each signal, its graph."""

    result: MethodResult
    errors: Array | None = None
    graph: Graph | None = None


@dataclass(frozen=True, eq=False)
class _Fit:
    """What one fit leaves: errors of held-out signals, or a graph."""

    seconds: float
    status: str
    errors: Array | None = None
    graph: Graph | None = None
    weights: Graph | None = None


@dataclass(frozen=True, eq=False)
class _Task:
    """Signals that are held out in turn, and what the means of the nodes miss of each."""

    held_out: HeldOut
    total: Array
    seed: int
    truth: Graph | None

    @classmethod
    def of(cls, X: Any, cv: int, seed: int, truth: Any, groups: Any = None) -> _Task:
        n_folds = int(check_number("cv", cv, minimum=2, integer=True))
        seed = int(check_number("random_state", seed, integer=True))
        rows = check_signals(NodeMeans(), X, reset=True)
        if len(rows) < 2 * n_folds:
            raise ParameterError(
                "X",
                f"has {len(rows)} signals, and cv={n_folds} folds of at least two need "
                f"{2 * n_folds}: give more signals or a smaller cv.",
            )
        if truth is not None and (not isinstance(truth, Graph) or truth.n_nodes != rows.shape[1]):
            raise ParameterError("truth", f"must be a Graph on the {rows.shape[1]} columns of X.")
        held_out = HeldOut.of(rows, node_names(X), n_folds, groups, seed)
        return cls(held_out, held_out.errors(NodeMeans())[1], seed, truth)

    @property
    def sizes(self) -> list[int]:
        """The numbers of signals that a method is fitted on: two halves, the folds, everything."""
        M = len(self.total)
        return [(M + 1) // 2, M // 2, *(len(split.train) for split in self.held_out.folds), M]

    def judge(self, name: str, estimator: Any, n_jobs: int | None, advance: Advance) -> _Judged:
        """All fits of a method; an error that a fit raises becomes the reason of the row."""
        model = clone(estimator)
        if "random_state" in model.get_params() and model.random_state is None:
            model.set_params(random_state=self.seed)
        run = Parallel(n_jobs=1 if n_jobs is None else n_jobs, return_as="generator")
        fits: list[_Fit] = []
        shares = np.cumsum(self.sizes) / np.sum(self.sizes)
        try:
            for fit in run(delayed(_fit)(model, *part) for part in self._parts()):
                advance(name, float(shares[len(fits)]))
                fits.append(fit)
        except Exception as error:  # of any kind: the methods that are done would be lost with it
            for _ in shares[len(fits) :]:
                advance(name, 1.0)
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            gaps = "NaN" in str(error) and bool(np.isnan(self.held_out.rows).any())
            return _Judged(
                MethodResult(name, status=COMPLETE_ONLY if gaps else f"failed: {kind}{error}")
            )
        return self._row(name, fits)

    def _parts(self) -> Iterator[tuple[Any, tuple[Array, Mask, float] | None]]:
        """Signals to fit, and what is predicted: two halves, the folds, everything."""
        held_out, everything = self.held_out, np.arange(len(self.total))
        for half in np.array_split(everything, 2):
            yield held_out.signals(half), None
        for split in held_out.folds:
            yield held_out.signals(split.train), held_out.part(split.test)
        # The fit that is timed comes last: what is loaded lazily is there by then.
        yield held_out.signals(everything), None

    def _row(self, name: str, fits: list[_Fit]) -> _Judged:
        first, second, *folds, whole = fits
        result = MethodResult(name, seconds=whole.seconds, status=_status(fits))
        errors = None
        if all(fit.errors is not None for fit in folds):
            errors = np.full(len(self.total), np.nan)
            for split, fit in zip(self.held_out.folds, folds, strict=True):
                errors[split.test] = fit.errors
            missed, error = share_missed(errors, self.total)
            result = replace(result, missed=missed, error=error)
        if whole.graph is None or whole.weights is None:
            return _Judged(result, errors)
        result = replace(result, n_edges=float(whole.graph.n_edges))
        if first.graph is not None and second.graph is not None:
            result = replace(result, agreement=edge_scores(first.graph, second.graph).f_measure)
        if self.truth is not None and not whole.graph.directed:
            found = whole.graph.normalized() if whole.graph.n_edges else whole.graph
            scores = edge_scores(self.truth.normalized(), found)
            ap = average_precision(self.truth, whole.weights)
            result = replace(result, **scores._asdict(), average_precision=ap)
        return _Judged(result, errors, whole.graph)

    def compared(self, judged: dict[str, _Judged], interrupted: bool) -> Comparison:
        """The rows in order, each measured against the best."""

        # Predictions by what they miss, then graphs, then failures.
        def rank(name: str) -> tuple[int, float]:
            result = judged[name].result
            if result.predicts:
                return 0, result.missed
            return (2 if result.status.startswith("failed") else 1), 0.0

        order = sorted(judged, key=rank)
        best = judged[order[0]].errors if order else None
        rows = []
        for name in order:
            result, errors = judged[name].result, judged[name].errors
            if errors is not None and best is not None:
                excess, spread = share_missed(errors - best, self.total)
                result = replace(result, excess=excess, excess_error=spread)
            rows.append(result)
        graphs = {name: graph for name in order if (graph := judged[name].graph) is not None}
        plain = tuple(n for n in order if n in NO_GRAPH or judged[n].graph is None)
        M, N = self.held_out.rows.shape
        return Comparison(tuple(rows), graphs, self.truth, M, N, plain, interrupted)


def _fit(model: Any, signals: Any, held_out: tuple[Array, Mask, float] | None) -> _Fit:
    """One fit; its warnings are left out, its status is not."""
    fitted = clone(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        fitted.fit(signals)
        seconds = time.perf_counter() - start
        status = str(getattr(fitted, "status_", "ok"))
        if status == Status.INTERRUPTED:
            raise KeyboardInterrupt
        errors = None
        if held_out is not None and hasattr(fitted, "impute"):
            errors, _ = hidden_errors(fitted, *held_out)
    graph, weights = (getattr(fitted, key, None) for key in ("graph_", "weights_"))
    return _Fit(seconds, status, errors, graph, weights)


def _status(fits: list[_Fit]) -> str:
    fine = ("ok", Status.CONVERGED, Status.CERTIFIED)
    return next((fit.status for fit in fits if fit.status not in fine), "ok")
