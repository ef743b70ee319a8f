"""GraphicalLassoGraph: the edges of a sparse Gaussian model."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.covariance import GraphicalLasso, GraphicalLassoCV
from sklearn.exceptions import ConvergenceWarning

from heatgraph.arrays import Array
from heatgraph.baselines.base import FitInput, GraphMethod, check_limits, number_or_auto
from heatgraph.baselines.learned import Learned
from heatgraph.estimators.fitted_graph import tell
from heatgraph.estimators.hidden import PrecisionMixin
from heatgraph.estimators.validation import over_square, per_square
from heatgraph.solvers.result import Monitor, Status

BROKEN = (FloatingPointError, np.linalg.LinAlgError)  # what scikit-learn's solver ends in
# Shares of the largest covariance from which on penalties are tried where smaller ones break.
FALLBACK = (0.01, 0.1, 0.3)
N_PENALTIES = 8
SAME = 1e-12  # a standard deviation below this share of a column's size is rounding


class GraphicalLassoGraph(PrecisionMixin, GraphMethod):
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

    _fewest = 2
    _shows_progress = False
    _remedy = "lower alpha, or give more signals"

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

    def _learn(self, given: FitInput, monitor: Monitor | None) -> Learned:
        X, unit = given.scaled()
        sizes = _sizes(X, self.standardize)
        model = _solve(self, X / sizes, 1.0 if self.standardize else unit)
        self.alpha_ = float(model.alpha if self.standardize else per_square(model.alpha, unit))
        self.precision_ = over_square(model.precision_ / np.outer(sizes, sizes), unit)
        self.location_ = model.location_ * sizes * unit
        self.node_means_ = given.means
        w = np.maximum(given.candidates.weights(model.precision_), 0.0)
        costs = np.reshape(model.costs_, (-1, 2))  # one pair, not a list of them, where alpha is 0
        value, gap, steps = costs[:, 0].copy(), abs(float(costs[-1, 1])), len(costs)
        tell(monitor, steps, steps, float(value[-1]), w, gap)
        status = Status.CONVERGED if gap < self.tol else Status.MAX_ITER
        return Learned(w, value, gap, status, steps)


def _sizes(X: Array, standardize: Any) -> Array:
    """What the nodes of signals of unit size are divided by: standard deviations, or 1."""
    spread, size = X.std(axis=0), np.abs(X).max(axis=0)
    constant = np.flatnonzero(spread <= SAME * size)
    if constant.size:
        raise ValueError(
            f"X: column {constant[0]} is constant, so that it has no variance and no precision; "
            f"drop the {constant.size} such column(s), or use SmoothGraph."
        )
    if not isinstance(standardize, bool):
        raise ValueError(f"standardize must be True or False, got {standardize!r}.")
    return spread if standardize else np.ones_like(spread)


def _solve(estimator: GraphicalLassoGraph, X: Array, unit: float) -> GraphicalLasso:
    """scikit-learn's fit of signals of unit size, with its own warnings told as ours."""
    limits = {**check_limits(estimator), "verbose": bool(estimator.verbose)}
    given = number_or_auto("alpha", estimator.alpha)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # of ill-conditioned folds
        warnings.filterwarnings("ignore", "Only one sample", UserWarning)  # in a fold
        if given is None:
            return _likeliest(X, limits)
        try:
            return GraphicalLasso(alpha=float(over_square(given, unit)), **limits).fit(X)
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
    return GraphicalLasso(alpha=most, **limits).fit(X)
