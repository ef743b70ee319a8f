"""What the methods with a Gaussian likelihood share: moments of signals with gaps, the model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from heatgraph.baselines.base import FitInput, GraphMethod
from heatgraph.baselines.precision_solver import PrecisionFit, fit_precision, penalised_moment
from heatgraph.estimators.hidden import PrecisionMixin
from heatgraph.estimators.validation import over_square
from heatgraph.graph import CandidateEdges
from heatgraph.models.moments import Moments, expected_moments
from heatgraph.solvers.result import Monitor, Status

__all__ = ["EM_TOL", "GaussianFit", "GaussianMethod", "PrecisionProblem", "fit_gaussian"]

Array = NDArray[np.float64]

EM_ROUNDS = 200
EM_TOL = 1e-6  # nats per node that a round of EM still promises
# The variance of the level of all nodes, in units of the mean variance, where the model gives it
# none: large enough to say nothing, small enough to lose no digits that matter.
LEVEL_VARIANCE = 1e4


@dataclass(frozen=True)
class PrecisionProblem:
    """Which precision matrices are allowed, what sparsity costs, and when to stop."""

    form: str
    lam: float
    candidates: CandidateEdges
    tol: float
    max_iter: int = 200
    monitor: Monitor | None = None

    def solve(self, S: Array, start: PrecisionFit | None = None) -> PrecisionFit:
        """The fit of a second moment (N, N), from an earlier fit where there is one."""
        return fit_precision(
            penalised_moment(S, self.lam),
            self.form,
            self.candidates,
            tol=self.tol,
            max_iter=self.max_iter,
            monitor=self.monitor,
            start=start,
        )


@dataclass(frozen=True, eq=False)
class GaussianFit:
    """A precision matrix and a mean signal (N,), in the units of the signals that were fitted."""

    precision: PrecisionFit
    mean: Array


class GaussianMethod(PrecisionMixin, GraphMethod):
    """A method whose model is a mean signal and a precision matrix; it takes gaps."""

    _takes_gaps = True
    _fewest = 2

    def _store_model(self, given: FitInput, fit: GaussianFit, unit: float) -> PrecisionFit:
        """Set the model in the units of the caller, and give the fit with its objective in them."""
        T, v = fit.precision.T, fit.precision.v
        self.precision_ = over_square(T, unit)
        self.location_ = given.means + unit * fit.mean
        self.node_means_ = given.means
        # log det T counts the unit twice in every dimension.
        rank = len(T) - (v.size == 0)
        shift = 2.0 * rank * np.log(unit)
        return replace(fit.precision, objective=fit.precision.objective + shift)


def fit_gaussian(X: Array, problem: PrecisionProblem, em_tol: float = EM_TOL) -> GaussianFit:
    """The likeliest precision matrix and mean for signals (M, N) of unit size, some entries NaN.

    Gaps are filled by expectation and maximisation.  Just after an expectation, the slope of the
    fit is that of the likelihood of what was observed: the residual there is that likelihood's.
    """
    if not np.isnan(X).any():
        moments = Moments.of(X)
        return GaussianFit(problem.solve(moments.around(moments.mean)), moments.mean)
    variances = np.nanmean(np.square(X), axis=0)
    moments = expected_moments(X, np.zeros(X.shape[1]), np.diag(variances))
    fit = problem.solve(moments.around(moments.mean))
    residual, n_iter = np.inf, fit.n_iter
    look = replace(problem, max_iter=0)
    for _ in range(EM_ROUNDS):
        if fit.status is Status.INTERRUPTED:
            return GaussianFit(replace(fit, n_iter=n_iter), moments.mean)
        before = moments.mean
        moments = expected_moments(X, before, _covariance(fit, moments))
        S, moved = moments.around(moments.mean), moments.mean - before
        promised = 2.0 * float(moved @ fit.T @ moved) / moved.size
        residual = look.solve(S, start=fit).residual + promised
        if residual <= em_tol:
            break
        fit = problem.solve(S, start=fit)
        n_iter += fit.n_iter
    status = fit.status if residual <= em_tol else Status.MAX_ITER
    fit = replace(fit, residual=residual, status=status, n_iter=n_iter)
    return GaussianFit(fit, moments.mean)


def _covariance(fit: PrecisionFit, moments: Moments) -> Array:
    """``T^-1``; where a constant signal costs nothing, with a large variance of the level."""
    n = len(fit.T)
    if fit.v.size:
        return np.asarray(np.linalg.inv(fit.T))
    level = LEVEL_VARIANCE * float(np.trace(moments.scatter)) / moments.count
    return np.asarray(np.linalg.inv(fit.T + 1.0 / n) + (level - 1.0) / n)
