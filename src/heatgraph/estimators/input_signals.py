"""The signals of a fit, from memory or from a cluster, checked and of unit size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from heatgraph.arrays import Array, Ints
from heatgraph.distributed.from_dask import (
    as_array,
    cluster_client,
    is_dask,
    lazy_sources,
    signals_of,
    summary_of,
)
from heatgraph.distributed.signals import DaskSignals
from heatgraph.estimators.hidden import counts_of, node_means
from heatgraph.estimators.parameters import n_threads
from heatgraph.estimators.validation import (
    Names,
    centre_nodes,
    check_signals,
    node_names,
    power_of_two,
    set_features,
    unit_of,
)
from heatgraph.solvers.result import Solution
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
