"""Fits of LearnHeat to large graphs: the graph first, then the sources on it.

The graph is that of :class:`HeatCovariance`, whose engine for large graphs needs no sources.  On
it, scales and alpha are chosen by masked prediction, and the sources of all signals are found.

Differs from the paper: there graph and sources are learned together.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from heatgraph.arrays import Array
from heatgraph.estimators.checkpoint import fingerprint, kept_in
from heatgraph.estimators.fitted_graph import store_weights, warn_of_status
from heatgraph.estimators.heat_covariance import HeatCovariance
from heatgraph.estimators.hidden import as_given, node_means
from heatgraph.estimators.input_signals import Intake
from heatgraph.estimators.model import dictionary_on
from heatgraph.estimators.parameters import LargeParameters, resolve_large
from heatgraph.estimators.progress import Watch, watch_fit
from heatgraph.estimators.validation import Names, per_square
from heatgraph.graph import Graph
from heatgraph.graph.storage import from_arrays, to_arrays
from heatgraph.models.heat import Signals
from heatgraph.models.sparse_heat import SparseDictionary
from heatgraph.selection.source_choice import SourceChoice, SourceProblem, choose_sources
from heatgraph.solvers.driver import Keeper, Record
from heatgraph.solvers.lasso import LargeLasso, SparseCoding, joined, silent
from heatgraph.solvers.result import Monitor, Progress, Status
from heatgraph.solvers.threads import bounded_blas

ENTRIES = 50_000_000  # of sources: more are kept sparse


@dataclass(frozen=True, eq=False)
class _Learned:
    """Every edge, those that stand out, where they were cut, and the scale of the covariance."""

    weights: Graph
    graph: Graph
    cut: float
    scale: float
    status: Status
    n_iter: int

    def record(self) -> Record:
        arrays = to_arrays(self.weights, "weights.") | to_arrays(self.graph, "graph.")
        facts = {"cut": self.cut, "scale": self.scale, "status": str(self.status)}
        return Record(facts | {"n_iter": self.n_iter, "n_nodes": self.graph.n_nodes}, arrays)

    @classmethod
    def of(cls, record: Record, names: Names) -> _Learned:
        facts, arrays = record.facts, record.arrays
        weights, graph = (
            Graph(**from_arrays(arrays, facts["n_nodes"], names, f"{name}."))
            for name in ("weights", "graph")
        )
        status = Status(facts["status"])
        return cls(weights, graph, facts["cut"], facts["scale"], status, facts["n_iter"])


def fit_large(model: Any, given: Intake, groups: Any, monitor: Monitor | None) -> None:
    """Fit a LearnHeat without an array of all pairs, and set its attributes."""
    p = resolve_large(model, given.signals, given.unit, groups)
    belongs = {}
    if model.checkpoint is not None:
        belongs = fingerprint(model, given.content, given.names)
    watched = watch_fit(model.verbose, monitor, given.unit * given.unit)
    with kept_in(model.checkpoint, belongs) as keeper, watched as watch, bounded_blas():
        learned = _learn_graph(model, p, given.names, watch, keeper.within("graph"))
        choice, coding, status = _find_sources(p, learned, watch, keeper.within("sources"))
    _store(model, p, given, learned, choice, coding)
    model.status_ = status
    warn_of_status(model)
    if choice.missed + 2.0 * choice.standard_error >= 1.0:
        warnings.warn(
            "LearnHeat: no parameters predict hidden entries better than zero does, so these "
            "signals show no diffusion on a graph; do not trust graph_.",
            stacklevel=3,
        )


def _learn_graph(
    model: Any, p: LargeParameters, names: Names, watch: Watch, keeper: Keeper
) -> _Learned:
    """The graph by the covariance of the signals around their means."""
    kept = keeper.get()
    if kept is not None:
        return _Learned.of(kept, names)
    own = None if model.checkpoint is None else Path(f"{os.fspath(model.checkpoint)}.graph")
    covariance = HeatCovariance(
        solver="sparse",
        kernel=model.kernel,
        candidates=model.candidates,
        n_edges=model.n_edges,
        cut=model.cut,
        n_jobs=model.n_jobs,
        checkpoint=own,
        **({} if model.max_iter is None else {"max_iter": model.max_iter}),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status says it
        covariance = _fit_filled(covariance, _named(p.X, names), watch.step)
    learned = _Learned(
        covariance.weights_,
        covariance.graph_,
        float(covariance.cut_),
        float(covariance.scales_[-1]),
        covariance.status_,
        int(covariance.n_iter_),
    )
    if learned.status is not Status.INTERRUPTED:
        keeper.put(learned.record())
        if own is not None:
            own.unlink(missing_ok=True)
    return learned


def _fit_filled(covariance: HeatCovariance, X: Any, monitor: Monitor | None) -> HeatCovariance:
    """Fit; entries that are missing are filled by node means, then by what a first fit expects."""
    missing = np.isnan(np.asarray(X))
    if not missing.any():
        return covariance.fit(X, monitor=monitor)
    first: HeatCovariance = clone(covariance).set_params(checkpoint=None)
    by_means = np.where(missing, node_means(np.asarray(X)), X)
    first.fit(as_given(by_means, X), monitor=monitor)
    if first.status_ is Status.INTERRUPTED:
        return first
    return covariance.fit(first.impute(X), monitor=monitor)


def _named(X: Array, names: Names) -> Any:
    return X if names is None else pd.DataFrame(X, columns=pd.Index(names, tupleize_cols=False))


def _find_sources(
    p: LargeParameters, learned: _Learned, watch: Watch, keeper: Keeper
) -> tuple[SourceChoice, SparseCoding, Status]:
    """Scales and alpha, then the sources of all signals; none for those not reached by Ctrl-C."""
    signals = Signals.from_missing(np.ascontiguousarray(p.X.T))

    def on(tau: Array) -> SparseDictionary:
        return dictionary_on(learned.weights, tau, p.unit_atoms, p.n_threads, p.kernel)

    problem = SourceProblem(
        on,
        signals,
        learned.scale,
        p.n_scales,
        p.penalty,
        p.positive,
        p.alpha,
        p.tau,
        p.others,
    )
    choice, status = None, learned.status
    parts: list[SparseCoding] = []
    try:
        if status is not Status.INTERRUPTED:
            choice = _choose(problem, p, watch, keeper.within("choice"))
            lasso = LargeLasso(on(choice.tau), choice.alpha, p.penalty, p.positive, p.tol)
            _code(lasso, signals, parts, watch, keeper.within("codes"))
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    choice = problem.usual() if choice is None else choice
    done = sum(part.gap.size for part in parts)
    parts.append(silent(signals.take(slice(done, None)), choice.tau.size * len(signals.X)))
    coding = joined(parts)
    if status is Status.CONVERGED and (coding.gap > p.tol * signals.energy).any():
        status = Status.STALLED
    return choice, coding, status


def _choose(
    problem: SourceProblem, p: LargeParameters, watch: Watch, keeper: Keeper
) -> SourceChoice:
    """What masked prediction chooses, once."""
    kept = keeper.get()
    if kept is not None:
        return SourceChoice.of(kept)
    choice = choose_sources(problem, p.rng, watch.tried)
    keeper.put(choice.record())
    return choice


def _code(
    lasso: LargeLasso, signals: Signals, parts: list[SparseCoding], watch: Watch, keeper: Keeper
) -> None:
    """Add the sources of some signals after the others to ``parts``."""
    kept, M = keeper.get(), signals.X.shape[1]
    if kept is not None:
        parts.append(SparseCoding.of(kept, lasso.D.n_atoms))
    done = sum(part.gap.size for part in parts)
    for part in lasso.batches(signals.take(slice(done, None))):
        parts.append(part)
        done += part.gap.size
        if keeper.due or done == M:
            parts[:] = [joined(parts)]
            keeper.put(parts[0].record())
        if watch.step is not None:
            value, gap = float(part.value.sum()), float(part.gap.sum())
            watch.step(Progress(done, M, value, lasso.D.candidates.n_edges, gap / (value or 1.0)))


def _store(
    model: Any,
    p: LargeParameters,
    given: Intake,
    learned: _Learned,
    choice: SourceChoice,
    coding: SparseCoding,
) -> None:
    unit, M, N = given.unit, len(p.X), learned.graph.n_nodes
    store_weights(model, learned.weights)
    model.graph_, model.cut_ = learned.graph, learned.cut
    model.scales_ = choice.tau
    model.sources_ = _as_sources(coding.h * unit, (M, choice.tau.size, N))
    model.location_, model.node_means_ = np.zeros(N), given.node_means
    model.n_observed_ = given.n_observed
    value = float(coding.value.sum())
    energy = float(np.nansum(np.square(p.X)))
    model.objective_ = per_square(np.array([energy, value]), unit)
    model.residual_ = float(coding.gap.sum()) / (value or 1.0)
    model.n_iter_ = learned.n_iter
    model.alpha_, model.beta_ = choice.alpha * unit, 0.0
    model.predicting_alpha_ = choice.predicting * model.alpha_
    model.selection_, model.stretches_ = (
        None if table is None else table.assign(alpha=table["alpha"] * unit)
        for table in (choice.alphas, choice.scales)
    )
    model.held_out_ = model.comparison_ = None
    model.chosen_at_end_ = choice.ends


def _as_sources(h: sparse.csr_array, shape: tuple[int, int, int]) -> Any:
    """Sources (M, S, N) of rows (M, S N); a sparse array where they are many."""
    if np.prod(shape, dtype=np.float64) <= ENTRIES:
        return h.toarray().reshape(shape)
    listed = h.tocoo()
    scale, node = np.divmod(listed.col, shape[2])
    return sparse.coo_array((listed.data, (listed.row, scale, node)), shape=shape)
