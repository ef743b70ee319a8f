"""The signals of a fit, from memory or from a cluster, checked and of unit size; gaps filled."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from heatgraph.arrays import Array, Ints
from heatgraph.distributed.from_dask import (
    as_array,
    cluster_client,
    lazy_sources,
    signals_of,
    summary_of,
)
from heatgraph.distributed.signals import DaskSignals
from heatgraph.estimators.heat_covariance import HeatCovariance
from heatgraph.estimators.parameters import n_threads
from heatgraph.estimators.validation import (
    Names,
    centre_nodes,
    check_choice,
    check_signals,
    counts_of,
    is_dask,
    node_means,
    node_names,
    power_of_two,
    set_features,
    unit_of,
)
from heatgraph.solvers.result import Solution, Status
from heatgraph.solvers.signal_model import codes_of


@dataclass(frozen=True, eq=False)
class Intake:
    """Signals over ``unit``, an array (n_signals, n_nodes) or on a cluster, and the nodes' names.

    Where a level is to be fitted, they are the signals around the mean of each node, ``level``: so
    nothing but the level depends on what it is.  ``content`` is what a checkpoint knows them by;
    ``rows`` are the signals as a Dask array; ``dtype`` is the precision they came in;
    ``node_means`` are the means of what was observed, in the units of the caller, ``n_observed``
    how many values they are of.
    """

    signals: Array | DaskSignals
    unit: float
    names: Names
    content: Any
    node_means: Array
    n_observed: Array
    rows: Any = None
    dtype: Any = np.float64
    level: Array | float = 0.0

    def sources(self, solution: Solution, scale_of: Ints) -> Any:
        """The sources (n_signals, n_scales, n_nodes), those of scales that met added up."""
        if isinstance(self.signals, DaskSignals):
            masked = self.signals.masked
            return lazy_sources(self.rows, self.unit, masked, solution.codes, scale_of)
        order = np.argsort(scale_of, kind="stable")
        first = np.flatnonzero(np.diff(scale_of[order], prepend=-1))
        h = codes_of(solution)
        H = h.reshape(len(h), scale_of.size, -1)[:, order]
        return np.add.reduceat(H, first, axis=1) * self.unit


@contextmanager
def take_in(estimator: Any, X: Any) -> Iterator[Intake]:
    """The signals for the time of a fit; sets what scikit-learn keeps of them."""
    names = node_names(X)
    if not is_dask(X):
        observations = check_signals(estimator, X, reset=True)
        single = getattr(X, "dtype", None) == np.float32
        dtype = np.float32 if single else np.float64
        given = observations.astype(dtype, copy=False)
        means = node_means(observations)
        level: Array | float = 0.0
        if estimator.fit_intercept:
            level, observations = centre_nodes(observations)
        unit = unit_of(observations)
        counts = counts_of(observations)
        yield Intake(
            observations / unit, unit, names, given, means, counts, dtype=dtype, level=level
        )
        return
    with cluster_client(n_threads(estimator.n_jobs)) as client:
        rows = as_array(X)
        summary = summary_of(rows, X, client)
        set_features(estimator, rows.shape[1], names)
        n_observed = int(summary.n_observed.sum())
        unit = power_of_two(summary.top * np.sqrt(summary.squares / max(n_observed, 1)))
        signals = signals_of(rows, X, summary, unit, client)
        content = (rows.shape, summary.top, summary.checksum, n_observed)
        try:
            counts = summary.n_observed.astype(np.float64)
            yield Intake(signals, unit, names, content, summary.node_means, counts, rows)
        finally:
            signals.close()


MISSING = ("auto", "expected", "observed")
FEWEST = 3  # signals, and nodes, that a covariance is learned from
# Of the variance of an entry, the share that may be unknown once the others are seen.  A less
# certain mean would add heat that was not there.
MOST_UNKNOWN = 1.0 / 3.0


def filled_signals(estimator: Any, X: Any) -> Array | None:
    """Signals (n_signals, n_nodes) for the fit, their gaps filled; None if they are to stay gaps.

    What nothing is known of stays NaN: nodes, and signals, without an entry.
    """
    missing = check_choice("missing", estimator.missing, MISSING)
    chosen = isinstance(estimator.alpha, str) or isinstance(estimator.beta, str)
    if missing == "observed" or (missing == "auto" and not chosen):
        return None
    if not isinstance(X, np.ndarray) or not np.isnan(X).any():
        return None
    seen = ~np.isnan(X)
    some = np.ix_(seen.any(axis=1), seen.any(axis=0))
    part = X[some]
    if min(part.shape) < FEWEST or not np.any(np.nanmax(part, axis=0) > np.nanmin(part, axis=0)):
        return None
    model = HeatCovariance(kernel=estimator.kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the graph of this fit is not used
        means, std = model.fit(part).impute(part, return_std=True)
    if model.status_ is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if missing == "auto" and _unknown(part, std) > MOST_UNKNOWN:
        return None
    filled = X.copy()
    filled[some] = means
    return filled


def _unknown(X: Array, std: Array) -> float:
    """The variance of the missing entries given the others, over that of their nodes."""
    missing = np.isnan(X)
    spread = np.broadcast_to(np.nanvar(X, axis=0), X.shape)[missing].sum()
    return float(np.square(std[missing]).sum() / spread) if spread > 0.0 else np.inf
