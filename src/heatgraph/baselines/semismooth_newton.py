"""What the methods compared with LearnHeat share: input checks, distances, a Newton method.

The graph steps of the smooth and of the log-degree model are, in the dual, the same problem

    minimise  rho(x) + kappa/2 sum_e max(0, <m_e, x> - c_e)^2

with one variable a node and ``m_e`` the sum of the unit vectors of the two ends of edge ``e``
(and, for a constraint on the total weight, of one more, the border).  ``rho`` is separable and
strictly convex in the node variables.  The function is convex with a piecewise linear gradient in
its second part: a semismooth Newton method with a line search converges from any start and, near
the solution, in a handful of steps.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from heatgraph.graph.candidates import CandidateEdges

__all__ = [
    "check_positive",
    "check_signals",
    "frozen",
    "over_candidates",
    "pair_newton",
    "squared_distances",
]

Array = NDArray[np.float64]
Ints = NDArray[np.intp]

ARMIJO = 1e-4
FORCING = 1e-2  # largest relative residual of the linear solves; it shrinks with the gradient
PATIENCE = 4  # steps lost in rounding before giving up
TO_BOUNDARY = 0.95  # largest fraction of the way to x = 0 that one step may go


def check_signals(X: ArrayLike, name: str = "X") -> Array:
    """``X`` (N, M) as a finite float array with at least two nodes and one signal."""
    A = np.ascontiguousarray(X, dtype=np.float64)
    if A.ndim != 2 or A.shape[0] < 2 or A.shape[1] < 1:
        raise ValueError(
            f"{name} must be (n_nodes, n_signals) with at least 2 nodes and 1 signal, "
            f"got shape {A.shape}"
        )
    if not np.isfinite(A).all():
        raise ValueError(f"{name} has NaN or infinite entries; impute them or drop those signals")
    return A


def check_positive(value: float, name: str) -> float:
    """``value`` as a finite float above 0."""
    if not np.isfinite(value) or value <= 0.0:
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")
    return float(value)


def over_candidates(candidates: CandidateEdges | None, n_nodes: int) -> CandidateEdges:
    """The candidate edges, all pairs where none are given; they must fit ``n_nodes``."""
    if candidates is None:
        return CandidateEdges.complete(n_nodes)
    if candidates.n_nodes != n_nodes:
        raise ValueError(
            f"candidates are over {candidates.n_nodes} nodes, the signals over {n_nodes}; "
            "build them with the number of rows of the signals"
        )
    if candidates.n_edges == 0:
        raise ValueError("candidates has no edge; give at least one pair of nodes")
    return candidates


def squared_distances(X: Array, candidates: CandidateEdges) -> Array:
    """``z_e = ||x_i - x_j||^2`` (E,) over the candidate edges; ``<z, w> = tr(X^T L(w) X)``."""
    return np.asarray(_distances(np.ascontiguousarray(X), candidates.i, candidates.j))


@numba.njit(cache=True, fastmath=False)
def _distances(X: Array, i: Ints, j: Ints) -> Array:
    # Differences first: the Gram identity loses every digit between nearly equal signals.
    z = np.empty(i.size)
    for e in range(i.size):
        a, b = X[i[e]], X[j[e]]
        total = 0.0
        for m in range(X.shape[1]):
            total += (a[m] - b[m]) ** 2
        z[e] = total
    return z


@numba.njit(cache=True, fastmath=False)
def _separable(x: Array, total: float) -> tuple[float, Array, Array]:
    """Value, gradient and curvature of ``rho``.

    ``total > 0``: ``rho = sum_n x_n^2 - total * x_N``, the last variable being the border.
    ``total = 0``: ``rho = -sum_n log x_n``.
    """
    n = x.size
    grad = np.empty(n)
    curvature = np.empty(n)
    value = 0.0
    if total > 0.0:
        for k in range(n - 1):
            value += x[k] * x[k]
            grad[k] = 2.0 * x[k]
            curvature[k] = 2.0
        value -= total * x[n - 1]
        grad[n - 1] = -total
        curvature[n - 1] = 0.0
    else:
        for k in range(n):
            value -= np.log(x[k])
            grad[k] = -1.0 / x[k]
            curvature[k] = 1.0 / (x[k] * x[k])
    return value, grad, curvature


@numba.njit(cache=True, fastmath=False)
def _excess(x: Array, c: Array, i: Ints, j: Ints, border: float, u: Array, load: Array) -> float:
    """``u_e = max(0, <m_e, x> - c_e)`` and ``load = sum_e u_e m_e``; returns ``sum u^2``."""
    load[:] = 0.0
    square = 0.0
    mass = 0.0
    for e in range(c.size):
        a, b = i[e], j[e]
        t = x[a] + x[b] + border - c[e]
        if t > 0.0:
            u[e] = t
            square += t * t
            mass += t
            load[a] += t
            load[b] += t
        else:
            u[e] = 0.0
    load[-1] = mass  # the slot after the nodes; read only where there is a border
    return square


@numba.njit(cache=True, fastmath=False)
def _cg(h: Array, kappa: float, ai: Ints, aj: Ints, bordered: bool, g: Array, rtol: float) -> Array:
    """Solve ``(diag(h) + kappa sum_{e active} m_e m_e^T) p = -g`` by conjugate gradients.

    The matrix is a signless Laplacian plus a diagonal; scaled by its own diagonal it is well
    conditioned, and a product costs one pass over the active edges.
    """
    n = g.size
    diagonal = h.copy()
    for e in range(ai.size):
        diagonal[ai[e]] += kappa
        diagonal[aj[e]] += kappa
    if bordered:
        diagonal[n - 1] += kappa * ai.size
    p = np.zeros(n)
    r = -g
    s = r / diagonal
    d = s.copy()
    rho = np.dot(r, s)
    stop = rtol * rtol * rho
    for _ in range(10 * n + 100):
        if rho <= stop:
            break
        q = h * d
        border = d[n - 1] if bordered else 0.0
        mass = 0.0
        for e in range(ai.size):
            a, b = ai[e], aj[e]
            t = kappa * (d[a] + d[b] + border)
            q[a] += t
            q[b] += t
            mass += t
        if bordered:
            q[n - 1] += mass
        step = rho / np.dot(d, q)
        p += step * d
        r -= step * q
        s = r / diagonal
        new = np.dot(r, s)
        d = s + (new / rho) * d
        rho = new
    return p


@numba.njit(cache=True, fastmath=False)
def _active(u: Array, i: Ints, j: Ints) -> tuple[Ints, Ints]:
    count = 0
    for e in range(u.size):
        count += u[e] > 0.0
    ai = np.empty(count, dtype=i.dtype)
    aj = np.empty(count, dtype=j.dtype)
    count = 0
    for e in range(u.size):
        if u[e] > 0.0:
            ai[count], aj[count] = i[e], j[e]
            count += 1
    return ai, aj


@numba.njit(cache=True, fastmath=False)
def _longest_step(x: Array, p: Array, positive: bool) -> float:
    """1, or less where the domain ``x > 0`` of the logarithm asks for it."""
    t = 1.0
    if positive:
        for k in range(x.size):
            if p[k] < 0.0:
                t = min(t, -TO_BOUNDARY * x[k] / p[k])
    return t


@numba.njit(cache=True, fastmath=False)
def _evaluate(
    x: Array, c: Array, i: Ints, j: Ints, kappa: float, total: float, u: Array
) -> tuple[float, Array, Array, float]:
    """Value, gradient, curvature of ``rho`` and scale of its gradient at ``x``; fills ``u``."""
    n = x.size
    bordered = total > 0.0
    load = np.empty(n if bordered else n + 1)
    rho, grad, h = _separable(x, total)
    scale = np.abs(grad).max()
    square = _excess(x, c, i, j, x[n - 1] if bordered else 0.0, u, load)
    return rho + 0.5 * kappa * square, grad + kappa * load[:n], h, scale


@numba.njit(cache=True, fastmath=False)
def pair_newton(
    x0: Array, c: Array, i: Ints, j: Ints, kappa: float, total: float, tol: float, max_iter: int
) -> tuple[Array, Array, Array, float]:
    """Minimise ``rho(x) + kappa/2 sum_e max(0, <m_e, x> - c_e)^2`` from ``x0``.

    ``rho`` is chosen by ``total`` (see `_separable`).  Stops when the largest entry of the
    gradient, relative to the gradient of ``rho``, is at most ``tol``, or when no step lowers the
    function in floating point.

    Returns ``x``, ``u`` (E,) the excesses, the values from start to end (never increasing but
    for rounding), and the relative residual reached.
    """
    bordered = total > 0.0
    x = x0.copy()
    u = np.empty(c.size)
    values = np.empty(max_iter + 1)
    value, grad, h, scale = _evaluate(x, c, i, j, kappa, total, u)
    values[0] = value
    best, still, blurred = np.inf, 0, False
    for iteration in range(max_iter):
        residual = np.abs(grad).max() / scale
        # Where the value no longer moves and the gradient no longer falls, rounding is all there
        # is.
        still = still + 1 if residual > 0.5 * best and blurred else 0
        best = min(best, residual)
        if residual <= tol or still == PATIENCE:
            return x, u, values[: iteration + 1], residual
        ai, aj = _active(u, i, j)
        if bordered:
            # With no active edge the function is linear in the border: step by the gradient.
            h[-1] = 1e-14 * kappa * ai.size if ai.size else 1.0
        p = _cg(h, kappa, ai, aj, bordered, grad, min(FORCING, residual))
        slope = np.dot(grad, p)
        t = _longest_step(x, p, not bordered)
        while True:
            new, new_grad, h, scale = _evaluate(x + t * p, c, i, j, kappa, total, u)
            # Sufficient decrease; or, where the decrease drowns in rounding, the same test on
            # the slope, which keeps its digits: for a quadratic the two are equivalent.
            blurred = abs(new - value) <= 1e-10 * (1.0 + abs(value))
            if new <= value + ARMIJO * t * slope or (
                blurred and np.dot(new_grad, p) <= (2.0 * ARMIJO - 1.0) * slope
            ):
                break
            t *= 0.5
            if t < 1e-12:
                _evaluate(x, c, i, j, kappa, total, u)
                return x, u, values[: iteration + 1], residual
        x, value, grad = x + t * p, new, new_grad
        values[iteration + 1] = value
    return x, u, values, np.abs(grad).max() / scale


def frozen(array: Any) -> Array:
    """A read-only copy: results are values."""
    out = np.array(array, dtype=np.float64)
    out.setflags(write=False)
    return out
