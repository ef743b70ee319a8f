"""GraphicalLassoGraph: the edges of a sparse Gaussian model."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.covariance import GraphicalLasso, GraphicalLassoCV
from sklearn.exceptions import ConvergenceWarning

from heatgraph.estimators.fitted_graph import check_n_edges, store_graph, warn_of_status
from heatgraph.estimators.hidden import PrecisionMixin, node_means
from heatgraph.estimators.reporting import ReportMixin
from heatgraph.estimators.validation import (
    check_complete,
    check_number,
    node_names,
    over_square,
    per_square,
    unit_of,
)
from heatgraph.graph import CandidateEdges
from heatgraph.solvers.result import Monitor, Progress, Status

__all__ = ["GraphicalLassoGraph"]

Array = NDArray[np.float64]

BROKEN = (FloatingPointError, np.linalg.LinAlgError)  # what scikit-learn's solver ends in
# Shares of the largest covariance from which on penalties are tried where smaller ones break.
FALLBACK = (0.01, 0.1, 0.3)
N_PENALTIES = 8
SAME = 1e-12  # a standard deviation below this share of a column's size is rounding


class GraphicalLassoGraph(PrecisionMixin, ReportMixin, BaseEstimator):
    r"""Read a graph from the sparse precision matrix of a Gaussian model.

    .. math::
        \min_{\Theta \succ 0} \; \mathrm{tr}(S \Theta) - \log \det \Theta
        + \alpha \sum_{i \ne j} |\Theta_{ij}|

    by scikit-learn's :class:`~sklearn.covariance.GraphicalLasso`, ``S`` the sample correlation, or
    with ``standardize=False`` the sample covariance.  A negative entry off the diagonal, a positive
    partial correlation, is an edge with its absolute
    value as weight; a Laplacian has no place for positive ones, and they are left out.  The
    weights are then scaled to trace ``n_nodes``.

    Parameters
    ----------
    alpha : float or "auto"
        Weight of sparsity: without a unit, below 1, or in the squared units of ``X`` with
        ``standardize=False``.  "auto" is chosen by the likelihood of held out signals
        (:class:`~sklearn.covariance.GraphicalLassoCV`, five folds); where its solver breaks at
        small values, from larger ones.
    n_edges : int, optional
        Keep this many edges in ``graph_``, fewer where fewer were learned.
    max_iter : int
        Limit on the iterations.
    tol : float
        Stop when the duality gap is no larger.
    verbose : int
        1 shows scikit-learn's own report.
    standardize : bool
        Divide every node by its standard deviation first.  One penalty for all pairs means the
        same for all of them only then.

    Attributes
    ----------
    graph_ : Graph
        The learned graph, cut, with the node names of ``X``.
    weights_ : Graph
        Every edge that was learned, before the cut.
    laplacian_ : ndarray (n_nodes, n_nodes)
        Of ``weights_``; its trace is ``n_nodes``, or 0 where no edge was learned.
    precision_ : ndarray (n_nodes, n_nodes)
        The precision matrix, in the inverse squared units of ``X``; the weights are those of the
        standardised signals.
    location_ : ndarray (n_nodes,)
        The mean signal.
    node_means_ : ndarray (n_nodes,)
        The mean of each node, which is ``location_``.
    objective_ : ndarray
        Its value after each iteration, of the standardised signals, or of the signals divided by a
        power of two near their root mean square.
    status_ : str
        "converged" or "max_iter".
    residual_ : float
        The duality gap.
    n_iter_ : int
    alpha_ : float
        The weight of sparsity used.

    Examples
    --------
    >>> from heatgraph.datasets import make_graph, make_heat_signals
    >>> graph = make_graph("er", 8, random_state=0)
    >>> X, _ = make_heat_signals(graph, (1.0,), 100, noise_std=0.1, random_state=0)
    >>> model = GraphicalLassoGraph(alpha=0.01).fit(X)
    >>> model.graph_.n_nodes, str(model.status_)
    (8, 'converged')
    """

    def __init__(
        self,
        alpha: float | str = "auto",
        n_edges: int | None = None,
        max_iter: int = 200,
        tol: float = 1e-4,
        verbose: int = 0,
        standardize: bool = True,
    ) -> None:
        self.alpha = alpha
        self.n_edges = n_edges
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.standardize = standardize

    def fit(self, X: Any, y: Any = None, *, monitor: Monitor | None = None) -> Self:
        """Learn the precision matrix and read the graph from it.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            At least two signals.  The columns of a data frame name the nodes.
        y : ignored
        monitor : callable, optional
            Called once, with a :class:`~heatgraph.solvers.result.Progress` of the end.
        """
        names = node_names(X)
        observations = check_complete(self, X, reset=True, min_signals=2)
        candidates = CandidateEdges.complete(observations.shape[1])
        n_edges = check_n_edges(self.n_edges, candidates)
        unit, sizes = _units(self, observations)
        model = _solve(self, observations / unit / sizes, 1.0 if self.standardize else unit)
        alpha = float(model.alpha if self.standardize else per_square(model.alpha, unit))
        w = np.maximum(candidates.weights(model.precision_), 0.0)
        if w.any():
            w *= 0.5 * candidates.n_nodes / w.sum()
        else:
            warnings.warn(
                f"GraphicalLassoGraph: alpha = {alpha:.3g} leaves no pair "
                "of nodes with a positive partial correlation, so the graph has no edge; lower "
                "alpha, or give more signals.",
                UserWarning,
                stacklevel=2,
            )
        store_graph(self, candidates, w, names, n_edges)
        self.precision_ = over_square(model.precision_ / np.outer(sizes, sizes), unit)
        self.location_ = model.location_ * sizes * unit
        self.node_means_ = node_means(observations)
        costs = np.reshape(model.costs_, (-1, 2))  # one pair, not a list of them, where alpha is 0
        self.objective_ = costs[:, 0].copy()
        self.residual_ = abs(float(costs[-1, 1]))
        self.status_ = Status.CONVERGED if self.residual_ < self.tol else Status.MAX_ITER
        self.n_iter_ = len(costs)
        self.alpha_ = alpha
        if monitor is not None:
            value, edges = float(self.objective_[-1]), self.graph_.n_edges
            monitor(Progress(self.n_iter_, self.n_iter_, value, edges, self.residual_))
        warn_of_status(self)
        return self


def _units(estimator: GraphicalLassoGraph, X: Array) -> tuple[float, Array]:
    """A power of two for all nodes, and a size for each: its standard deviation, or 1."""
    unit = unit_of(X)
    spread, size = (X / unit).std(axis=0), np.abs(X / unit).max(axis=0)
    constant = np.flatnonzero(spread <= SAME * size)
    if constant.size:
        raise ValueError(
            f"X: column {constant[0]} is constant, so that it has no variance and no precision; "
            f"drop the {constant.size} such column(s), or use SmoothGraph."
        )
    if not isinstance(estimator.standardize, bool):
        raise ValueError(f"standardize must be True or False, got {estimator.standardize!r}.")
    return unit, spread if estimator.standardize else np.ones_like(spread)


def _solve(estimator: GraphicalLassoGraph, X: Array, unit: float) -> GraphicalLasso:
    """scikit-learn's fit of signals of unit size, with its own warnings told as ours."""
    limits: dict[str, Any] = {
        "max_iter": int(check_number("max_iter", estimator.max_iter, minimum=1, integer=True)),
        "tol": check_number("tol", estimator.tol, strict=True),
        "verbose": bool(estimator.verbose),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # of ill-conditioned folds
        warnings.filterwarnings("ignore", "Only one sample", UserWarning)  # in a fold
        if isinstance(estimator.alpha, str):
            if estimator.alpha != "auto":
                raise ValueError(f'alpha must be a number > 0 or "auto", got {estimator.alpha!r}.')
            return _likeliest(X, limits)
        alpha = float(over_square(check_number("alpha", estimator.alpha, strict=True), unit))
        try:
            return GraphicalLasso(alpha=alpha, **limits).fit(X)
        except BROKEN as error:
            raise ValueError(
                "alpha is too small for the covariance of X, which is nearly singular: raise "
                'alpha, use alpha="auto", give more signals, or drop columns that repeat others.'
            ) from error


def _likeliest(X: Array, limits: dict[str, Any]) -> GraphicalLasso:
    """The fit whose penalty makes held-out signals likeliest, of those at which the solver works.

    First scikit-learn's own penalties, then larger ones.  At the largest covariance between two
    nodes the solution is diagonal, and there is nothing to break.
    """
    S = np.cov(X.T, bias=True)
    most = float(np.abs(S - np.diag(np.diag(S))).max()) or float(np.diag(S).mean())
    folds = min(5, len(X))
    for least in (None, *FALLBACK):
        penalties = 4 if least is None else np.geomspace(least * most, most, N_PENALTIES).tolist()
        try:
            alpha = float(GraphicalLassoCV(alphas=penalties, cv=folds, **limits).fit(X).alpha_)
            return GraphicalLasso(alpha=alpha, **limits).fit(X)
        except (*BROKEN, ValueError):  # a fold without variance is a ValueError
            continue
    for share in FALLBACK[::-1]:
        try:
            return GraphicalLasso(alpha=most * (1.0 - share), **limits).fit(X)
        except BROKEN:
            continue
    return GraphicalLasso(alpha=most, **limits).fit(X)
