"""A Newton method that the two models of smooth signals share.

The graph steps of the smooth and of the log-degree model are, in the dual, the same problem

    minimise  rho(x) + kappa/2 sum_e max(0, <m_e, x> - c_e)^2

with one variable a node and ``m_e`` the sum of the unit vectors of the two ends of edge ``e``
(and, for a constraint on the total weight, of one more, the border).  ``rho`` is separable and
strictly convex in the node variables.  The function is convex with a piecewise linear gradient in
its second part: a semismooth Newton method with a line search converges from any start and, near
the solution, in a handful of steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heatgraph.arrays import Array
from heatgraph.graph.candidates import CandidateEdges

ARMIJO = 1e-4  # of the fall that the slope promises: a step that gives more is taken
BLURRED = 1e-10  # of the value: a fall that rounding may have made
LEAST_CURVATURE = 1e-14  # of what the active edges add: keeps the border's equation regular
FORCING = 1e-2  # largest relative residual of the linear solves; it shrinks with the gradient
PATIENCE = 4  # steps lost in rounding before giving up
SHORTEST = 1e-12  # of a step
TO_BOUNDARY = 0.95  # largest fraction of the way to x = 0 that one step may go


def _separable(x: Array, total: float) -> tuple[float, Array, Array]:
    """Value, gradient and curvature of ``rho``.

    ``total > 0``: ``rho = sum_n x_n^2 - total * x_N``, the last variable being the border.
    ``total = 0``: ``rho = -sum_n log x_n``.
    """
    if total > 0.0:
        nodes = x[:-1]
        value = float(nodes @ nodes - total * x[-1])
        return value, np.append(2.0 * nodes, -total), np.append(np.full(nodes.size, 2.0), 0.0)
    return -float(np.log(x).sum()), -1.0 / x, 1.0 / (x * x)


def _at_ends(edges: CandidateEdges, x: Array) -> Array:
    """``<m_e, x>`` of every edge; where ``x`` has one more entry than there are nodes, a border."""
    ends = x[edges.i] + x[edges.j]
    return ends + x[-1] if x.size > edges.n_nodes else ends


def _gathered(edges: CandidateEdges, u: Array, size: int) -> Array:
    """``sum_e u_e m_e`` (size,), the adjoint of :func:`_at_ends`."""
    degrees = edges.degrees(u)
    return np.append(degrees, u.sum()) if size > edges.n_nodes else degrees


@dataclass(frozen=True, eq=False)
class _Point:
    """``x``, the excesses ``u`` there, and value, gradient and curvature of the function."""

    x: Array
    u: Array
    value: float
    gradient: Array
    curvature: Array
    residual: float


@dataclass(frozen=True, eq=False)
class _Problem:
    c: Array
    edges: CandidateEdges
    kappa: float
    total: float

    def at(self, x: Array) -> _Point:
        rho, own, curvature = _separable(x, self.total)
        u = np.maximum(_at_ends(self.edges, x) - self.c, 0.0)
        gradient = own + self.kappa * _gathered(self.edges, u, x.size)
        residual = float(np.abs(gradient).max() / np.abs(own).max())
        return _Point(x, u, rho + 0.5 * self.kappa * float(u @ u), gradient, curvature, residual)

    def direction(self, point: _Point) -> Array:
        """Solve ``(diag(h) + kappa sum_{e active} m_e m_e^T) p = -g`` by conjugate gradients.

        The matrix is a signless Laplacian plus a diagonal; scaled by its own diagonal it is well
        conditioned, and a product costs one pass over the active edges.
        """
        on, size = point.u > 0.0, point.x.size
        active = CandidateEdges(self.edges.n_nodes, self.edges.i[on], self.edges.j[on])
        h = point.curvature.copy()
        if self.total > 0.0:
            # With no active edge the function is linear in the border: step by the gradient.
            h[-1] = LEAST_CURVATURE * self.kappa * active.n_edges if active.n_edges else 1.0
        diagonal = h + self.kappa * _gathered(active, np.ones(active.n_edges), size)
        p, r = np.zeros(size), -point.gradient
        s = r / diagonal
        d, rho = s, float(r @ s)
        stop = min(FORCING, point.residual) ** 2 * rho
        for _ in range(10 * size + 100):
            if rho <= stop:
                break
            q = h * d + self.kappa * _gathered(active, _at_ends(active, d), size)
            step = rho / float(d @ q)
            p, r = p + step * d, r - step * q
            s = r / diagonal
            last, rho = rho, float(r @ s)
            d = s + (rho / last) * d
        return p

    def longest_step(self, x: Array, p: Array) -> float:
        """1, or less where the domain ``x > 0`` of the logarithm asks for it."""
        falling = p < 0.0
        if self.total > 0.0 or not falling.any():
            return 1.0
        return min(1.0, float((-TO_BOUNDARY * x[falling] / p[falling]).min()))


def pair_newton(
    x0: Array,
    c: Array,
    edges: CandidateEdges,
    kappa: float,
    total: float,
    tol: float,
    max_iter: int,
) -> tuple[Array, Array, Array, float]:
    """Minimise ``rho(x) + kappa/2 sum_e max(0, <m_e, x> - c_e)^2`` from ``x0``.

    ``rho`` is chosen by ``total`` (see `_separable`).  Stops when the largest entry of the
    gradient, relative to the gradient of ``rho``, is at most ``tol``, or when no step lowers the
    function in floating point.

    Returns ``x``, ``u`` (E,) the excesses, the values from start to end (never increasing but
    for rounding), and the relative residual reached.
    """
    problem = _Problem(c, edges, kappa, total)
    point = problem.at(x0)
    values = [point.value]
    best, still, blurred = np.inf, 0, False
    for _ in range(max_iter):
        # Where neither the value nor the gradient falls any more, only rounding is left.
        still = still + 1 if point.residual > 0.5 * best and blurred else 0
        best = min(best, point.residual)
        if point.residual <= tol or still == PATIENCE:
            break
        found = _line_search(problem, point)
        if found is None:
            break
        point, blurred = found
        values.append(point.value)
    return point.x, point.u, np.array(values), point.residual


def _line_search(problem: _Problem, point: _Point) -> tuple[_Point, bool] | None:
    """The next point, and whether the decrease of the value drowns in rounding; None if none."""
    p = problem.direction(point)
    slope, t = float(point.gradient @ p), problem.longest_step(point.x, p)
    while t >= SHORTEST:
        new = problem.at(point.x + t * p)
        # Sufficient decrease; or, where the decrease drowns in rounding, the same test on
        # the slope, which keeps its digits: for a quadratic the two are equivalent.
        blurred = abs(new.value - point.value) <= BLURRED * (1.0 + abs(point.value))
        if new.value <= point.value + ARMIJO * t * slope or (
            blurred and float(new.gradient @ p) <= (2.0 * ARMIJO - 1.0) * slope
        ):
            return new, blurred
        t *= 0.5
    return None
