"""One parameter that sets how many edges a graph has: found from their number, or by prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from heatgraph.models.heat import Signals
from heatgraph.selection.interpolation import interpolation_errors, sparsest_within_error
from heatgraph.selection.masked_prediction import hide_entries

__all__ = ["FOLDS", "HIDDEN_SHARE", "fit_for_edges", "predicted_choice"]

Array = NDArray[np.float64]
T = TypeVar("T")

FOLDS = 3
HIDDEN_SHARE = 0.25
RESOLUTION = 1e-3  # of the logarithm of the parameter


def fit_for_edges(
    fit: Callable[[float], T], count: Callable[[T], int], n_edges: int, low: float, high: float
) -> tuple[float, T]:
    """The sparsest fit with at least ``n_edges`` edges, and its parameter.

    ``count(fit(t))`` should grow with ``t``; the logarithm of ``t`` is bisected between ``low``
    and ``high`` until the number is met or ``t`` is known to `RESOLUTION`.  Where even ``high``
    gives fewer edges, that is the fit.
    """
    best = high, fit(high)
    ends = np.log(low), np.log(high)
    while count(best[1]) > n_edges and ends[1] - ends[0] > RESOLUTION:
        middle = 0.5 * (ends[0] + ends[1])
        t = float(np.exp(middle))
        trial = fit(t)
        if count(trial) >= n_edges:
            best, ends = (t, trial), (ends[0], middle)
        else:
            ends = middle, ends[1]
    return best


def predicted_choice(
    X: Array, choices: Iterable[T], form: Callable[[Array, T], Array], n_folds: int = FOLDS
) -> T:
    """The choice that predicts hidden entries, sparsest first, within a standard error of the best.

    ``form(X, choice)`` learns from the signals ``X`` (N, M) a quadratic form that is small for
    signals like them.  Each fold of the signals is predicted by what the others taught.
    """
    part = hide_entries(Signals(X, None), HIDDEN_SHARE, np.random.default_rng(0))
    fold = np.arange(X.shape[1]) % n_folds
    listed = list(choices)
    errors = np.empty((len(listed), X.shape[1]))
    for row, choice in zip(errors, listed, strict=True):
        for k in range(n_folds):
            Q = form(X[:, fold != k], choice)
            row[fold == k] = interpolation_errors(Q, part)[0][fold == k]
    return listed[sparsest_within_error(errors)]
