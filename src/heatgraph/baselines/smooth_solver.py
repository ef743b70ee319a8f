"""GL-SigRep: the graph on which denoised signals are smooth (Dong et al. 2016)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from heatgraph.arrays import Array
from heatgraph.baselines.learned import Learned, frozen, pairs_of
from heatgraph.baselines.semismooth_newton import pair_newton
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.models.simplex import project_simplex
from heatgraph.solvers.result import Status

STEP_TOL = 1e-10  # relative residual at which the Newton method of a graph step ends
STEP_ITER = 200  # its steps, of which it takes 5 to 10 as a rule


@dataclass(frozen=True)
class GraphStep:
    """The minimiser of one graph step.

    ``w`` (E,) weights; ``dual`` (N + 1,) minus half the degrees, then the multiplier of the total
    weight, all divided by ``4 b``: the start of a next, similar step; ``objective`` the value.
    """

    w: Array
    dual: Array
    objective: float


def smooth_graph_step(
    z: Array,
    a: float,
    b: float,
    candidates: CandidateEdges,
    *,
    dual: Array | None = None,
) -> GraphStep:
    """The graph of trace N nearest to smooth for the distances ``z``.

    Minimise over ``w >= 0``, ``sum(w) = total``, ``total = N/2``

        a <z, w> + b ||L(w)||_F^2,      ||L(w)||_F^2 = 2 ||w||^2 + ||S_w w||^2.

    Divided by ``4 b`` and with a multiplier ``x_n`` for each degree and ``nu`` for the total, its
    optimality conditions are ``w_e = max(0, nu + x_i + x_j - c_e)``, ``c = a z / 4b``,
    ``x = -S_w w / 2``, ``sum(w) = total``: the zero of the gradient of

        ||x||^2 - total * nu + 1/2 sum_e max(0, nu + x_i + x_j - c_e)^2,

    convex in N + 1 variables, however many edges there are.  A semismooth Newton method with a
    line search finds it: 5 to 10 steps, each a few passes over the edges.

    Parameters
    ----------
    z : array (E,)
        Squared distances of the signals at the two ends of each candidate edge.
    a, b : float
        Weights of smoothness (>= 0) and of spread (> 0).
    candidates : CandidateEdges
        The edges that may carry a weight.
    dual : array (N + 1,), optional
        Where to start, from a previous step.
    """
    n = candidates.n_nodes
    total = 0.5 * n
    c = (a / (4.0 * b)) * z
    # A constant moves between c and the multiplier of the total: from zero, small numbers.
    shift = float(c.min())
    c -= shift
    # Where nothing is known, as if every degree were the mean one.
    start = np.full(n + 1, -total / n) if dual is None else np.asarray(dual, dtype=np.float64)
    start = _with_total(start, c, candidates, total)
    x, u, _, _ = pair_newton(start, c, candidates, 1.0, total, STEP_TOL, STEP_ITER)
    w = u * (total / u.sum()) if u.any() else np.full_like(u, total / u.size)
    degrees = candidates.degrees(w)
    objective = a * float(z @ w) + b * float(2.0 * w @ w + degrees @ degrees)
    x[-1] += shift
    return GraphStep(frozen(w), frozen(x), objective)


def _with_total(x: Array, c: Array, candidates: CandidateEdges, total: float) -> Array:
    """``x`` with its best last entry: the weights then sum to ``total``, so that some are active.

    That is a projection on the simplex; far from it, no edge is active and Newton's method has
    no curvature to go by.
    """
    v = x[candidates.i] + x[candidates.j] - c
    w = project_simplex(v, total)
    top = int(np.argmax(w))
    return np.append(x[: candidates.n_nodes], w[top] - v[top])


def learn_smooth(
    X: Array,
    a: float,
    b: float,
    *,
    candidates: CandidateEdges | None = None,
    tol: float = 1e-6,
    max_iter: int = 200,
) -> Learned:
    """Learn a graph and denoise the signals so that they are smooth on it.

    Minimise over ``Y`` (N, M) and valid Laplacians ``L`` with ``tr L = N``

        ||X - Y||_F^2 + a tr(Y^T L Y) + b ||L||_F^2

    by exact alternation: ``Y = (I + a L)^-1 X``, then `smooth_graph_step` at the distances of
    ``Y``.  The best ``Y`` for a graph leaves ``a tr(X^T L (I + a L)^-1 X) + b ||L||^2``, concave
    plus convex in ``L``: the alternation linearises the concave part, so the objective never
    increases and the fixed points are the stationary points.

    Parameters
    ----------
    X : array (N, M)
        Signals, one per column.
    a, b : float
        Weights of smoothness and of spread, > 0.  The ratio ``b / a`` sets the density of the
        graph, relative to the squared distances between the rows of ``X``; ``a`` alone sets how
        much the signals are denoised.
    candidates : CandidateEdges, optional
        The edges that may carry a weight; all pairs where not given.
    tol : float
        Ends when a projected gradient step moves ``w`` by at most this fraction of its norm, the
        ``residual``.

    Returns
    -------
    Learned
        Its ``objective`` is first that with ``Y = X`` and the best graph for it.

    Examples
    --------
    Two groups of nodes, alike within, different between: no edge crosses.

    >>> import numpy as np
    >>> X = np.repeat(np.array([[1.0, -1.0], [-1.0, 1.0]]), 3, axis=0)
    >>> solution = learn_smooth(X, a=1.0, b=0.1)
    >>> print(solution.status, np.flatnonzero(solution.w > 1e-4))
    converged [ 0  1  5 12 13 14]
    """
    candidates = pairs_of(candidates, len(X))
    Y, dual, w = X, None, np.zeros(0)
    history: list[float] = []
    status, residual = Status.MAX_ITER, np.inf
    for _ in range(max_iter):
        z = candidates.squared_distances(Y)
        if history:
            residual = _stationarity(w, a * z, b, candidates)
            if residual <= tol:
                status = Status.CONVERGED
                break
        step = smooth_graph_step(z, a, b, candidates, dual=dual)
        Y_next = _denoise(X, a, candidates.laplacian(step.w))
        value = _objective(X, Y_next, step.w, a, b, candidates)
        if history and value > history[-1]:
            # Both halves are exact minimisers, so an increase is rounding: keep what was.
            status = Status.STALLED
            break
        if not history:
            history.append(step.objective)  # at Y = X
        history.append(value)
        w, dual, Y = step.w, step.dual, Y_next
    n_iter = len(history) - 1
    return Learned(frozen(w), frozen(history), float(residual), status, n_iter)


def _objective(
    X: Array, Y: Array, w: Array, a: float, b: float, candidates: CandidateEdges
) -> float:
    degrees = candidates.degrees(w)
    rough = float(candidates.squared_distances(Y) @ w)
    return float(np.sum((X - Y) ** 2)) + a * rough + b * float(2.0 * w @ w + degrees @ degrees)


def _denoise(X: Array, a: float, L: Array) -> Array:
    """``(I + a L)^-1 X``: symmetric, eigenvalues at least 1."""
    factor = cho_factor(np.eye(L.shape[0]) + a * L, overwrite_a=True, check_finite=False)
    return np.ascontiguousarray(cho_solve(factor, X, check_finite=False))


def _stationarity(w: Array, c: Array, b: float, candidates: CandidateEdges) -> float:
    """``||w - P(w - g / 4b)|| / ||w||``, ``g`` the gradient of ``<c, w> + b ||L(w)||^2``."""
    degrees = candidates.degrees(w)
    g = c / (4.0 * b) + w + 0.5 * (degrees[candidates.i] + degrees[candidates.j])
    moved = w - project_simplex(w - g, float(w.sum()))
    return float(np.linalg.norm(moved) / np.linalg.norm(w))
