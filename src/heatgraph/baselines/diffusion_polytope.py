"""DiffusionPolytope: a non-negative diffusion matrix with the eigenvectors of the covariance."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, linprog

from heatgraph.arrays import Array
from heatgraph.baselines.base import FitInput, GraphMethod, known_eigenvectors
from heatgraph.baselines.learned import Learned
from heatgraph.estimators.fitted_graph import tell
from heatgraph.estimators.validation import check_choice
from heatgraph.solvers.result import Monitor, Status

CRITERIA = ("simple", "sparse")
NO_WEIGHT = 1e-9  # HiGHS keeps its constraints to 1e-7; T has entries of order 1 / n_nodes
LIMITS_REACHED = 1  # linprog's status for a limit on iterations or time


class DiffusionPolytope(GraphMethod):
    r"""Learn a diffusion matrix that has the covariance's eigenvectors, by a linear program.

    .. math::
        \min_{\ell} \; c(T) \quad \text{subject to} \quad
        T = V \, \mathrm{diag}(\ell) \, V^\top \ge 0, \qquad \ell_1 = 1 \ge |\ell_i|

    with ``V`` the eigenvectors of the second moment of the signals, that of the largest eigenvalue
    first: the method of Pasdeloup, Gripon, Mercier, Pastor and Rabbat, "Characterization and
    inference of graph diffusion processes from observations of stationary signals" (2016).  The
    signals are noise that was multiplied by ``T`` some unknown number of times.  With "simple"
    :math:`c(T) = \mathrm{tr}\,T`, because a graph without loops has the trace 0; with "sparse"
    :math:`c(T) = \sum_{ij} T_{ij}`, the l1 norm.

    Parameters
    ----------
    criterion : {"simple", "sparse"}
        What is least.  "sparse" says nothing where the first eigenvector is constant, as it is for
        diffusion by a combinatorial Laplacian: the norm is then the same for every ``T``.
    eigenvectors : array-like (n_nodes, n_nodes), optional
        Known eigenvectors, one per column, in place of those of the covariance.  The first must be
        that of the largest eigenvalue of ``T``.
    n_edges : int, optional
        Keep this many edges in ``graph_``, fewer where fewer were learned.
    verbose : int
        1 shows the solver's own report.

    Attributes
    ----------
    graph_ : Graph
        The learned graph, cut, with the node names of ``X``.
    weights_ : Graph
        Every edge that was learned, the off-diagonals of ``T`` scaled to trace ``n_nodes``.
    laplacian_ : ndarray (n_nodes, n_nodes)
        Of ``weights_``.
    diffusion_ : ndarray (n_nodes, n_nodes)
        ``T``, with its loops.
    eigenvectors_, eigenvalues_ : ndarray
        ``V`` (n_nodes, n_nodes) and the values found for them (n_nodes,).
    objective_ : ndarray (1,)
        ``c(T)``.
    status_ : str
        "converged", or "max_iter" where HiGHS stopped at a limit.
    residual_ : float
        The largest of the duality gap and of how far an entry of ``T`` is below 0.
    n_iter_ : int

    Notes
    -----
    The model has no prediction of missing entries: any power of ``T`` has its eigenvectors.  The
    identity is always allowed.  Where the eigenvectors come from few signals it may be the only
    matrix that is: then there is no edge, and a warning says so.  Signals are not centred.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> W = np.roll(np.eye(7), 1, axis=1) + np.roll(np.eye(7), -1, axis=1)  # a ring
    >>> W[0, 3] = W[3, 0] = 1.0  # and a chord, without which eigenvalues are equal
    >>> T = W / np.sqrt(np.outer(W.sum(0), W.sum(0)))
    >>> X = rng.standard_normal((5000, 7)) @ (np.eye(7) + T)
    >>> DiffusionPolytope(n_edges=8).fit(X).graph_.edges.tolist()
    [[0, 1], [0, 3], [0, 6], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6]]
    """

    _shows_progress = False
    _remedy = "give more signals, or known eigenvectors"

    def __init__(
        self,
        criterion: str = "simple",
        eigenvectors: Any = None,
        n_edges: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.criterion = criterion
        self.eigenvectors = eigenvectors
        self.n_edges = n_edges
        self.verbose = verbose

    def _learn(self, given: FitInput, monitor: Monitor | None) -> Learned:
        criterion = check_choice("criterion", self.criterion, CRITERIA)
        V = self._eigenvectors(given.scaled()[0])
        found, T = least_diffusion(V, criterion, display=bool(self.verbose))
        w = np.maximum(given.candidates.weights(-T), 0.0)
        w[w <= NO_WEIGHT] = 0.0
        self.diffusion_, self.eigenvectors_, self.eigenvalues_ = T, V, found.x
        status = Status.MAX_ITER if found.status == LIMITS_REACHED else Status.CONVERGED
        steps, value, residual = int(found.nit), float(found.fun), _violation(found, T)
        tell(monitor, steps, steps, value, w, residual)
        return Learned(w, np.array([value]), residual, status, steps)

    def _eigenvectors(self, X: Array) -> Array:
        n = X.shape[1]
        if self.eigenvectors is None:
            if not X.any():
                raise ValueError("X holds no signal: every entry is zero.")
            _, U = np.linalg.eigh(X.T @ X / len(X))
            return np.ascontiguousarray(U[:, ::-1])
        return known_eigenvectors(self.eigenvectors, n)


def least_diffusion(
    V: Array, criterion: str, display: bool = False
) -> tuple[OptimizeResult, Array]:
    """The linear program in the eigenvalues, by HiGHS, and ``T``."""
    n = len(V)
    i, j = np.triu_indices(n)
    entries = V[i] * V[j]  # T_ij = <entries_ij, l>
    cost = np.ones(n) if criterion == "simple" else np.square(V.sum(axis=0))
    bounds = [(1.0, 1.0), *[(-1.0, 1.0)] * (n - 1)]
    limits: dict[str, Any] = {"A_ub": -entries, "b_ub": np.zeros(len(entries)), "bounds": bounds}
    found = linprog(cost, method="highs", options={"disp": display}, **limits)
    if found.x is None:  # the identity is feasible and the polytope bounded
        raise ValueError(f"eigenvectors: the linear program was not solved ({found.message}).")
    return found, (V * found.x) @ V.T


def _violation(found: OptimizeResult, T: Array) -> float:
    """The gap to the dual value, which is that of the bounds, or a negative entry."""
    lower, upper = -np.ones(found.x.size), np.ones(found.x.size)
    lower[0] = 1.0
    dual = float(found.lower.marginals @ lower + found.upper.marginals @ upper)
    return max(abs(float(found.fun) - dual), -float(T.min()), 0.0)
