"""Entries that were not observed, replaced by their means given those that were."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from heatgraph.arrays import Array
from heatgraph.estimators.heat_covariance import HeatCovariance
from heatgraph.estimators.validation import check_choice
from heatgraph.solvers.result import Status

MISSING = ("auto", "expected", "observed")
FEWEST = 3  # signals, and nodes, that a covariance is learned from
# Of the variance of an entry, the share that may be unknown once the others are seen.  A mean that
# is less certain than that tells the fit of heat that was not there.
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
        warnings.simplefilter("ignore")  # of a graph that nobody sees
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
