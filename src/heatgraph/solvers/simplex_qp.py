"""A quadratic program on the simplex: the Frobenius norm of a Laplacian less a low rank.

    minimise  1/2 w^T Q w + <h, w>   over  w >= 0, sum(w) = total,
    Q = 2 I + S_w^T S_w - B^T B,  positive semidefinite, ``B`` (P, E).

On a face (the weights that may be positive) the minimiser solves a linear system, which the low
rank brings down to ``N + P + 1`` unknowns.  Block principal pivoting moves from face to face,
exchanging at once every weight and multiplier of the wrong sign (Portugal, Judice and Vicente
1994): 3 to 15 faces as a rule, exact at the end.  Where it cycles, as it may for a singular
``Q``, an interior point method takes over, with linear systems of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from heatgraph.graph.candidates import CandidateEdges
from heatgraph.models.simplex import project_simplex
from heatgraph.solvers.result import Status

__all__ = ["SimplexPoint", "SimplexQP"]

Array = NDArray[np.float64]
Ints = NDArray[np.intp]
Mask = NDArray[np.bool_]
System = Callable[[Array, float], tuple[Array, float]]

SIGN_TOL = 1e-12  # a weight or multiplier above minus this counts as non-negative
PIVOT_TRIES = 5  # exchanges without progress before pivoting is given up
INTERIOR_STEPS = 60
INTERIOR_GAP = 1e-15  # mean product of weight and multiplier at which the interior point ends


@dataclass(frozen=True)
class SimplexPoint:
    """The minimiser ``w`` (E,), and how it was found.

    ``face`` (E,) where ``w`` may be positive; ``slope`` (E,) the derivative of ``w`` in ``t``
    for the linear term ``(1 + t) h``, on that face; ``residual`` the largest entry of ``w - P(w -
    Qw - h)``, ``P`` the projection on the simplex, relative to that of ``w``; ``n_iter`` the
    linear systems solved.
    """

    w: Array
    face: Mask
    slope: Array
    residual: float
    status: Status
    n_iter: int


class SimplexQP:
    """The program for a fixed ``Q`` and ``total``, to be solved for many ``h``."""

    def __init__(self, candidates: CandidateEdges, B: Array, total: float) -> None:
        self.candidates, self.total = candidates, total
        self.B = np.ascontiguousarray(B)
        # A second copy by columns: pivoting gathers the columns of the edges it exchanges.
        self._columns = np.ascontiguousarray(self.B.T)

    def apply(self, w: Array) -> Array:
        """``Q w``."""
        i, j = self.candidates.i, self.candidates.j
        degrees = self.candidates.degrees(w)
        return np.asarray(2.0 * w + degrees[i] + degrees[j] - (self.B @ w) @ self.B)

    def residual(self, w: Array, h: Array) -> float:
        """How far a projected gradient step moves ``w``, relative to its largest entry."""
        step = w - project_simplex(w - self.apply(w) - h, self.total)
        return float(np.abs(step).max() / w.max())

    def solve(self, h: Array, face: Mask | None = None, tol: float = 1e-10) -> SimplexPoint:
        """The minimiser for the linear term ``h``, tried first on ``face``."""
        point = self._pivot(h, np.ones(h.size, dtype=bool) if face is None else face, tol)
        if point.status == Status.CONVERGED:
            return point
        # An interior point stops short of its face; from that face pivoting, if it ends, adds
        # the last digits.
        inner = self._interior(h, tol)
        polished = self._pivot(h, inner.face, tol)
        best = min((polished, inner, point), key=lambda p: p.residual)
        n_iter = point.n_iter + inner.n_iter + polished.n_iter
        return SimplexPoint(best.w, best.face, best.slope, best.residual, best.status, n_iter)

    def _pivot(self, h: Array, face: Mask, tol: float) -> SimplexPoint:
        i, j = self.candidates.i, self.candidates.j
        try:
            w, slope, face, n_iter = _pivot(
                self.B, self._columns, i, j, self.candidates.n_nodes, self.total, h, face
            )
        except np.linalg.LinAlgError:  # singular on a face: no point, and the interior is next
            w, slope, n_iter = np.zeros(h.size), np.zeros(h.size), 1
        return self._judged(h, w, face, slope, n_iter, tol)

    def _judged(
        self, h: Array, w: Array, face: Mask, slope: Array, n_iter: int, tol: float
    ) -> SimplexPoint:
        """The feasible point at ``w`` and how good it is."""
        w = np.maximum(w, 0.0)
        mass = float(w.sum())
        if not np.isfinite(mass) or mass <= 0.0:
            w, mass = np.ones(h.size), float(h.size)
        w *= self.total / mass
        residual = self.residual(w, h)
        status = Status.CONVERGED if residual <= tol else Status.STALLED
        return SimplexPoint(w, face, slope, residual, status, n_iter)

    def _interior(self, h: Array, tol: float) -> SimplexPoint:
        """Mehrotra's predictor and corrector from the centre of the simplex.

        ``Qw + h - nu = s``, ``w s = mu``, ``mu`` to 0.  Eliminating ``s`` leaves ``Q +
        diag(s/w)``, again diagonal plus low rank.
        """
        n = h.size
        w = np.full(n, self.total / n)
        slope = self.apply(w) + h
        nu = float(2.0 * slope.min() - slope.max()) - 0.1 * self.total / n
        s = slope - nu
        steps = 0
        while steps < INTERIOR_STEPS and (mu := float(w @ s) / n) > INTERIOR_GAP:
            steps += 1
            system = self._system(2.0 + s / w)
            gradient = self.apply(w) + h - nu
            short = self.total - float(w.sum())
            dw, _ = system(gradient, short)
            ds = -s - s * dw / w
            reach = min(_reach(w, dw), _reach(s, ds))
            ahead = float((w + reach * dw) @ (s + reach * ds)) / n
            product = mu * (ahead / mu) ** 3 - dw * ds
            dw, dnu = system(gradient - product / w, short)
            ds = (product - s * dw) / w - s
            reach = 0.995 * min(_reach(w, dw), _reach(s, ds))
            if not (np.isfinite(dw).all() and reach > 1e-8):
                break
            w, s, nu = w + reach * dw, s + reach * ds, nu + reach * dnu
        return self._judged(h, w, w > s, np.zeros(n), steps, tol)

    @cached_property
    def _rows(self) -> Array:
        """``S_w``, ``B`` and a row of ones, (N + P + 1, E)."""
        edges = np.arange(self.candidates.n_edges)
        S = np.zeros((self.candidates.n_nodes, edges.size))
        S[self.candidates.i, edges] = 1.0
        S[self.candidates.j, edges] = 1.0
        return np.vstack([S, self.B, np.ones((1, edges.size))])

    def _system(self, d: Array) -> System:
        """The solver of ``(diag(d) + S_w^T S_w - B^T B) w + h = nu 1``, ``sum(w) = total``.

        With ``R = (S_w, B, 1)`` and ``p = (S_w w, -B w, -nu)``: ``w = -(h + R^T p) / d``, so
        ``(R diag(1/d) R^T + diag(1, -1, 0)) p = -R (h/d) - (0, 0, total)``.
        """
        R, n = self._rows, self.candidates.n_nodes
        K = (R / d) @ R.T
        K[np.diag_indices_from(K)] += np.repeat([1.0, -1.0, 0.0], [n, self.B.shape[0], 1])
        getrf, getrs = get_lapack_funcs(("getrf", "getrs"), (K,))
        factor, order, _ = getrf(K)

        def solve(h: Array, total: float) -> tuple[Array, float]:
            right = -(R @ (h / d))
            right[-1] -= total
            p = getrs(factor, order, right)[0]
            return -(h + p @ R) / d, float(-p[-1])

        return solve


def _reach(x: Array, dx: Array) -> float:
    """The longest step up to 1 that keeps ``x + t dx`` non-negative."""
    falling = dx < 0.0
    return min(1.0, float((-x[falling] / dx[falling]).min())) if falling.any() else 1.0


@numba.njit(cache=True, fastmath=False)
def _exchange(K: Array, C: Array, i: Ints, j: Ints, n: int, edges: Ints, sign: float) -> None:
    """Add (or take away) the columns of ``R = (S_w, B, 1)`` at ``edges`` to ``K = R R^T``.

    ``C`` is ``B`` by columns.  Only the block ``B B^T`` is dense work.
    """
    p = C.shape[1]
    last = n + p
    taken = np.empty((edges.size, p))
    for k in range(edges.size):
        e = edges[k]
        a, b = i[e], j[e]
        K[a, a] += sign
        K[b, b] += sign
        K[a, b] += sign
        K[b, a] += sign
        for node in (a, b):
            K[node, last] += sign
            K[last, node] += sign
        K[last, last] += sign
        for m in range(p):
            value = C[e, m]
            taken[k, m] = value
            K[a, n + m] += sign * value
            K[b, n + m] += sign * value
            K[last, n + m] += sign * value
    block = np.dot(taken.T, taken)
    for r in range(p):
        for m in range(p):
            K[n + r, n + m] += sign * block[r, m]
        for node in range(n):
            K[n + r, node] = K[node, n + r]
        K[n + r, last] = K[last, n + r]


@numba.njit(cache=True, fastmath=False)
def _on_face(
    K: Array, B: Array, i: Ints, j: Ints, n: int, total: float, h: Array, face: Mask
) -> tuple[Array, Array, Array]:
    """The minimiser with ``w = 0`` off the face and no sign asked on it, its slope, ``Qw + h``.

    The multiplier of the total is taken off the last.  As in `SimplexQP._system` with ``d = 2``:
    ``(K + 2 diag(1, -1, 0)) p = -R h - 2 (0, 0, total)``, the two parts of the right side kept
    apart, for the part of ``h`` is the slope.
    """
    p, n_edges = B.shape[0], h.size
    on = np.where(face, h, 0.0)
    right = np.zeros((n + p + 1, 2))
    for e in range(n_edges):
        right[i[e], 0] -= on[e]
        right[j[e], 0] -= on[e]
    right[n : n + p, 0] = -np.dot(B, on)
    right[n + p, 0] = -on.sum()
    right[n + p, 1] = -2.0 * total
    A = K.copy()
    for r in range(n):
        A[r, r] += 2.0
    for r in range(n, n + p):
        A[r, r] -= 2.0
    x = np.linalg.solve(A, right)
    by_h = np.ascontiguousarray(x[:, 0])
    both = by_h + x[:, 1]
    through = np.dot(both[n : n + p], B)
    through_h = np.dot(by_h[n : n + p], B)
    w, slope, slack = np.empty(n_edges), np.zeros(n_edges), np.empty(n_edges)
    for e in range(n_edges):
        a, b = i[e], j[e]
        # h + R^T p is Qw + h - nu - 2w: the slack off the face, and -2w on it.
        pull = h[e] + both[a] + both[b] + through[e] + both[n + p]
        slack[e] = pull
        w[e] = -0.5 * pull if face[e] else 0.0
        if face[e]:
            slope[e] = -0.5 * (h[e] + by_h[a] + by_h[b] + through_h[e] + by_h[n + p])
    return w, slope, slack


@numba.njit(cache=True, fastmath=False)
def _pivot(
    B: Array, C: Array, i: Ints, j: Ints, n: int, total: float, h: Array, face: Mask
) -> tuple[Array, Array, Mask, int]:
    """Block principal pivoting: the point, its slope, its face, and the faces tried."""
    n_edges = h.size
    face = face.copy()
    fewest, tries, n_iter = n_edges + 1, PIVOT_TRIES, 0
    tol = SIGN_TOL * (1.0 + np.abs(h).max())
    K = np.zeros((n + B.shape[0] + 1, n + B.shape[0] + 1))
    _exchange(K, C, i, j, n, np.flatnonzero(face), 1.0)
    while True:
        w, slope, slack = _on_face(K, B, i, j, n, total, h, face)
        n_iter += 1
        leave = np.flatnonzero(face & (w < -tol))
        enter = np.flatnonzero(~face & (slack < -tol))
        count = leave.size + enter.size
        tries = PIVOT_TRIES if count < fewest else tries - 1
        fewest = min(fewest, count)
        if count == 0 or tries < 0:
            return w, slope, face, n_iter
        _exchange(K, C, i, j, n, leave, -1.0)
        _exchange(K, C, i, j, n, enter, 1.0)
        face[leave] = False
        face[enter] = True
