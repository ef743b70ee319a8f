"""What the estimators of other methods have in common."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from heatgraph.arrays import Array
from heatgraph.baselines.learned import Learned
from heatgraph.baselines.precision_solver import (
    OWN_DIAGONAL,
    ROUNDING,
    PrecisionFit,
    check_observed_pairs,
    constant_columns,
    fit_precision,
    penalised_moment,
)
from heatgraph.estimators.fitted_graph import (
    ReportMixin,
    check_n_edges,
    store_graph,
    warn_of_status,
)
from heatgraph.estimators.hidden import PrecisionMixin
from heatgraph.estimators.parameters import n_threads
from heatgraph.estimators.progress import watch_fit
from heatgraph.estimators.time_series import with_epochs
from heatgraph.estimators.validation import (
    Names,
    check_complete,
    check_number,
    check_number_or,
    check_signals,
    node_means,
    node_names,
    over_square,
    resolve_candidates,
    unit_of,
)
from heatgraph.graph import CandidateEdges
from heatgraph.models.moments import Moments, expected_moments
from heatgraph.solvers.result import Monitor, Status
from heatgraph.solvers.threads import bounded_blas


@dataclass(frozen=True, eq=False)
class FitInput:
    """What a fit was given, checked.

    Parameters
    ----------
    X : ndarray (M, N)
        The signals, NaN where nothing was observed.
    means : ndarray (N,)
        The mean of what was observed of each node.
    names : tuple or None
        The names of the nodes.
    candidates : CandidateEdges
        The pairs that may be edges.
    n_edges : int or None
        How many edges to keep.
    """

    X: Array
    means: Array
    names: Names
    candidates: CandidateEdges
    n_edges: int | None

    def scaled(self) -> tuple[Array, float]:
        """The signals in units of a power of two near their size, and that unit."""
        unit = unit_of(self.X)
        return self.X / unit, unit

    def around_means(self) -> tuple[Array, float]:
        """The same around the node means, in units of what is left."""
        centred = self.X - self.means
        unit = unit_of(centred)
        return centred / unit, unit


class GraphMethod(ReportMixin, BaseEstimator):
    """A method that learns an undirected graph.

    A subclass has the parameters ``n_edges`` and ``verbose``, and gives :meth:`_learn`, which sets
    the attributes that only this method has.
    """

    n_edges: int | None
    verbose: int

    _takes_gaps = False
    _fewest = 1  # signals that a fit needs
    _shows_progress = True  # False where the solver has a report of its own
    _remedy = "penalise the weights less, or give more signals"  # for a graph without an edge

    def fit(self, X: Any, y: Any = None, *, monitor: Monitor | None = None) -> Self:
        """Learn the graph.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            The columns of a data frame name the nodes.  NaN marks an entry that was not observed;
            a method that needs complete signals refuses it.  Time series in epochs, (n_epochs,
            n_times, n_nodes), are read by :func:`heatgraph.time_series`.
        y : ignored
        monitor : callable, optional
            Called with a :class:`~heatgraph.solvers.result.Progress` after every step of the
            solver, or once at the end where the solver tells no more.

        Returns
        -------
        Self
            The estimator, fitted.
        """
        given = self._read(X)
        watched = watch_fit(self.verbose if self._shows_progress else 0, monitor)
        threads = bounded_blas(given.candidates.n_nodes, n_threads(-1))
        with watched as watch, threads:
            learned = self._learn(given, watch.step)
        w = learned.w
        if w.any():
            w = w * (0.5 * given.candidates.n_nodes / w.sum())
        else:
            warnings.warn(
                f"{type(self).__name__}: no pair of nodes is joined, so the graph has no edge; "
                f"{self._remedy}.",
                UserWarning,
                stacklevel=2,
            )
        store_graph(self, given.candidates, w, given.names, given.n_edges)
        self._finish(given)
        store_end(self, learned)
        warn_of_status(self)
        return self

    def _learn(self, given: FitInput, monitor: Monitor | None) -> Learned:
        """The weights and how the fit ended; every method has its own."""
        raise NotImplementedError

    def _finish(self, given: FitInput) -> None:
        """Change what was stored; for a method with a cut of its own."""

    def _read(self, X: Any) -> FitInput:
        X, _ = with_epochs(X)
        names = node_names(X)
        if self._takes_gaps:
            rows = _observed(self, check_signals(self, X, reset=True), self._fewest)
        else:
            rows = check_complete(self, X, reset=True, min_signals=self._fewest)
        candidates = resolve_candidates(getattr(self, "candidates", None), rows, names)
        n_edges = check_n_edges(self.n_edges, candidates)
        return FitInput(rows, node_means(rows), names, candidates, n_edges)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_gaps
        return tags


def _observed(estimator: Any, X: Array, fewest: int) -> Array:
    """The signals of which something was observed; every node was observed in one of them."""
    rows = X[~np.isnan(X).all(axis=1)]
    if len(rows) < fewest:
        raise ValueError(
            f"X has {len(rows)} sample(s) with an observed entry, a minimum of {fewest} signals is "
            f"required by {type(estimator).__name__}."
        )
    never = np.flatnonzero(np.isnan(rows).all(axis=0))
    if never.size:
        raise ValueError(
            f"X: column {never[0]} holds NaN only, so that nothing is known of it; drop the "
            f"{never.size} such column(s)."
        )
    return rows


def store_end(estimator: Any, learned: Any) -> None:
    """Set how the fit ended: what every method tells of its solver."""
    estimator.objective_ = learned.objective
    estimator.status_ = learned.status
    estimator.residual_ = learned.residual
    estimator.n_iter_ = learned.n_iter


def check_limits(estimator: Any) -> dict[str, Any]:
    """``max_iter`` and ``tol`` of an estimator, checked."""
    return {
        "max_iter": int(check_number("max_iter", estimator.max_iter, minimum=1, integer=True)),
        "tol": check_number("tol", estimator.tol, strict=True),
    }


def known_eigenvectors(V: Any, n_nodes: int) -> Array:
    """Eigenvectors (N, N) that the caller knows, one per column."""
    found = np.array(V, dtype=np.float64)
    if found.shape != (n_nodes, n_nodes):
        raise ValueError(
            f"eigenvectors must be ({n_nodes}, {n_nodes}) for the {n_nodes} columns of X, got "
            f"{found.shape}."
        )
    if not np.abs(found.T @ found - np.eye(n_nodes)).max() <= ORTHONORMAL:  # or NaN
        raise ValueError("eigenvectors must be orthonormal columns; normalise them first.")
    return found


def number_or_auto(name: str, value: Any, *, strict: bool = True) -> float | None:
    """``value`` as a number, None for "auto"."""
    given = check_number_or(name, value, ("auto",), strict=strict)
    return None if isinstance(given, str) else given


ORTHONORMAL = 1e-6  # how far V^T V may be from the identity
EM_ROUNDS = 200  # of expectation and maximisation, at the most
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
    still = variances <= ROUNDING * float(variances.max())
    if still.any() and problem.form in OWN_DIAGONAL:
        raise constant_columns(still)
    if problem.lam == 0.0:
        check_observed_pairs(X, problem.form, problem.candidates)
    start = np.where(still, variances.mean(), variances)
    moments = expected_moments(X, np.zeros(X.shape[1]), np.diag(start))
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
        if residual <= em_tol or fit.status is Status.MAX_ITER:
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
