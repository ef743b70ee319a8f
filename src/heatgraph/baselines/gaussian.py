"""What the Gaussian methods share: moments of signals with gaps, and what a fit leaves behind."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from heatgraph.baselines.precision_solver import PrecisionFit
from heatgraph.estimators.fitted_graph import store_graph, warn_of_status
from heatgraph.estimators.hidden import node_means
from heatgraph.estimators.validation import (
    Names,
    check_signals,
    node_names,
    over_square,
    resolve_candidates,
    unit_of,
)
from heatgraph.graph import CandidateEdges
from heatgraph.models.moments import Moments, expected_moments
from heatgraph.solvers.result import Status

__all__ = [
    "EM_TOL",
    "GapsMixin",
    "GaussianSignals",
    "Solve",
    "fit_gaussian",
    "read_signals",
    "store_precision",
    "store_weights",
]

Array = NDArray[np.float64]

EM_ROUNDS = 200
EM_TOL = 1e-6  # nats per node that a round of EM still promises
# The variance of the level of all nodes, in units of the mean variance, where the model gives it
# none: large enough to say nothing, small enough to lose no digits that matter.
LEVEL_VARIANCE = 1e4


class GapsMixin:
    """Tells scikit-learn that NaN is an entry that was not observed."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = True
        return tags


@dataclass(frozen=True, eq=False)
class GaussianSignals:
    """Signals (M, N) divided by ``unit``, NaN where nothing was observed."""

    X: Array
    unit: float
    names: Names
    candidates: CandidateEdges
    means: Array


class Solve(Protocol):
    """A fit of a second moment (N, N), from an earlier fit where there is one."""

    def __call__(
        self, S: Array, /, start: PrecisionFit | None = None, max_iter: int | None = None
    ) -> PrecisionFit: ...


def read_signals(estimator: Any, X: Any) -> GaussianSignals:
    """The input of a fit, checked; a signal of which nothing was observed is left out."""
    names = node_names(X)
    observations = check_signals(estimator, X, reset=True)
    rows = observations[~np.isnan(observations).all(axis=1)]
    name = type(estimator).__name__
    if len(rows) < 2:
        raise ValueError(
            f"X has {len(rows)} sample(s) with an observed entry, a minimum of 2 signals is "
            f"required by {name}."
        )
    never = np.flatnonzero(np.isnan(rows).all(axis=0))
    if never.size:
        raise ValueError(
            f"X: column {never[0]} holds NaN only, so that nothing is known of it; drop the "
            f"{never.size} such column(s)."
        )
    candidates = resolve_candidates(getattr(estimator, "candidates", None), observations, names)
    means = node_means(rows)
    unit = unit_of(rows - means)
    return GaussianSignals((rows - means) / unit, unit, names, candidates, means)


def fit_gaussian(
    signals: GaussianSignals, solve: Solve, em_tol: float = EM_TOL
) -> tuple[PrecisionFit, Array]:
    """The fit, and the mean signal in the units of the caller.

    Gaps are filled by expectation and maximisation.  Just after an expectation, the slope of the
    fit is that of the likelihood of what was observed: the residual there is that likelihood's.
    """
    X = signals.X
    if not np.isnan(X).any():
        moments = Moments.of(X)
        return solve(moments.around(moments.mean)), signals.means
    variances = np.nanmean(np.square(X), axis=0)
    moments = expected_moments(X, np.zeros(X.shape[1]), np.diag(variances))
    fit = solve(moments.around(moments.mean))
    residual, n_iter = np.inf, fit.n_iter
    for _ in range(EM_ROUNDS):
        if fit.status is Status.INTERRUPTED:
            return replace(fit, n_iter=n_iter), signals.means + signals.unit * moments.mean
        before = moments.mean
        moments = expected_moments(X, before, _covariance(fit, moments))
        S, moved = moments.around(moments.mean), moments.mean - before
        promised = 2.0 * float(moved @ fit.T @ moved) / moved.size
        residual = solve(S, start=fit, max_iter=0).residual + promised
        if residual <= em_tol:
            break
        fit = solve(S, start=fit)
        n_iter += fit.n_iter
    status = fit.status if residual <= em_tol else Status.MAX_ITER
    fit = replace(fit, residual=residual, status=status, n_iter=n_iter)
    return fit, signals.means + signals.unit * moments.mean


def _covariance(fit: PrecisionFit, moments: Moments) -> Array:
    """``T^-1``; where a constant signal costs nothing, with a large variance of the level."""
    n = len(fit.T)
    if fit.v.size:
        return np.asarray(np.linalg.inv(fit.T))
    level = LEVEL_VARIANCE * float(np.trace(moments.scatter)) / moments.count
    return np.asarray(np.linalg.inv(fit.T + 1.0 / n) + (level - 1.0) / n)


def store_precision(
    estimator: Any, signals: GaussianSignals, fit: PrecisionFit, location: Array, n_edges: Any
) -> None:
    """Set what a Gaussian method leaves behind, in the units of the caller's signals."""
    unit, rank = signals.unit, len(fit.T) - (fit.v.size == 0)
    store_weights(estimator, signals.candidates, fit.w, signals.names, n_edges)
    estimator.precision_ = over_square(fit.T, unit)
    estimator.location_ = location
    estimator.node_means_ = signals.means
    # log det T counts the unit twice in every dimension.
    estimator.objective_ = fit.objective + 2.0 * rank * np.log(unit)
    estimator.status_ = fit.status
    estimator.residual_ = fit.residual
    estimator.n_iter_ = fit.n_iter
    warn_of_status(estimator)


def store_weights(
    estimator: Any, candidates: CandidateEdges, w: Array, names: Names, n_edges: int | None
) -> None:
    """Scale weights to trace N and set the graphs; a graph without an edge is warned of."""
    if w.any():
        w = w * (0.5 * candidates.n_nodes / w.sum())
    else:
        warnings.warn(
            f"{type(estimator).__name__}: no pair of nodes is joined, so the graph has no edge; "
            "penalise the weights less, or give more signals.",
            UserWarning,
            stacklevel=4,
        )
    store_graph(estimator, candidates, w, names, n_edges)
