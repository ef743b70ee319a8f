"""A quadratic program on the simplex whose matrix is the identity plus low rank.

    minimise  1/2 w^T Q w + <h, w>   over  w >= 0, sum(w) = total,
    Q = 2 I + T^T diag(sign) T,  positive semidefinite.

On a face (the weights that may be positive) the minimiser solves a linear system, which the low
rank brings down to the number of rows of ``T`` plus one.  Block principal pivoting moves from
face to face, exchanging at once every weight and multiplier of the wrong sign (Portugal, Judice
and Vicente 1994): 3 to 15 faces as a rule, exact at the end.  Where it cycles, as it may for a
singular ``Q``, an interior point method takes over, with linear systems of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from heatgraph.objective.simplex import project_simplex
from heatgraph.solvers.result import Status

__all__ = ["SimplexPoint", "SimplexQP"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
System = Callable[[Array, float], tuple[Array, float]]

SIGN_TOL = 1e-12  # a weight or multiplier above minus this counts as non-negative
PIVOT_TRIES = 5  # exchanges without progress before pivoting is given up
INTERIOR_STEPS = 60
INTERIOR_GAP = 1e-15  # mean product of weight and multiplier at which the interior point ends


@dataclass(frozen=True)
class SimplexPoint:
    """The minimiser ``w`` (E,), and how it was found.

    ``face`` (E,) where ``w`` may be positive; ``residual`` the largest entry of ``w - P(w - Qw -
    h)``, ``P`` the projection on the simplex, relative to that of ``w``; ``n_iter`` the linear
    systems solved.
    """

    w: Array
    face: Mask
    residual: float
    status: Status
    n_iter: int


class SimplexQP:
    """The program for a fixed ``Q`` and ``total``, to be solved for many ``h``."""

    def __init__(self, T: Array, sign: Array, total: float) -> None:
        self.T, self.sign, self.total = T, sign, total
        self.n_edges = T.shape[1]
        # The constraint sum(w) = total rides as one more row, of weight 0 in Q.
        self._rows = np.vstack([T, np.ones((1, self.n_edges))])

    def apply(self, w: Array) -> Array:
        """``Q w``."""
        return 2.0 * w + (self.sign * (self.T @ w)) @ self.T

    def residual(self, w: Array, h: Array) -> float:
        """How far a projected gradient step moves ``w``, relative to its largest entry."""
        step = w - project_simplex(w - self.apply(w) - h, self.total)
        return float(np.abs(step).max() / w.max())

    def solve(self, h: Array, face: Mask | None = None, tol: float = 1e-10) -> SimplexPoint:
        """The minimiser for the linear term ``h``, tried first on ``face``."""
        face = np.ones(self.n_edges, dtype=bool) if face is None else face
        w, face, n_iter = self._pivot(h, face)
        residual = self.residual(w, h)
        if residual > tol:
            inner, inner_face, extra = self._interior(h)
            # An interior point stops short of its face; from that face pivoting, if it ends,
            # adds the last digits.
            polished, polished_face, more = self._pivot(h, inner_face)
            n_iter += extra + more
            points = [(w, face), (inner, inner_face), (polished, polished_face)]
            residuals = [residual] + [self.residual(point, h) for point, _ in points[1:]]
            best = int(np.argmin(residuals))
            (w, face), residual = points[best], residuals[best]
        status = Status.CONVERGED if residual <= tol else Status.STALLED
        return SimplexPoint(w, face, residual, status, n_iter)

    def on_face(self, h: Array, face: Mask, total: float | None = None) -> tuple[Array, float]:
        """The minimiser with ``w = 0`` off ``face`` and no sign asked on it; its multiplier."""
        R = self._rows[:, face]
        w = np.zeros(self.n_edges)
        system = self._system(R, np.full(R.shape[1], 2.0))
        w[face], multiplier = system(h[face], self.total if total is None else total)
        return w, multiplier

    def _pivot(self, h: Array, face: Mask) -> tuple[Array, Mask, int]:
        """Block principal pivoting: a feasible point, its face, and the faces tried."""
        fewest, tries, n_iter = self.n_edges + 1, PIVOT_TRIES, 0
        tol = SIGN_TOL * (1.0 + float(np.abs(h).max()))
        while True:
            w, multiplier = self.on_face(h, face)
            n_iter += 1
            slack = self.apply(w) + h - multiplier
            wrong = np.where(face, w < -tol, slack < -tol)
            count = int(wrong.sum())
            tries = PIVOT_TRIES if count < fewest else tries - 1
            fewest = min(fewest, count)
            moved = face ^ wrong
            if count == 0 or tries < 0 or not moved.any():
                return self._feasible(w), face, n_iter
            face = moved

    def _interior(self, h: Array) -> tuple[Array, Mask, int]:
        """Mehrotra's predictor and corrector: a feasible point, its face, and the systems solved.

        ``Qw + h - nu = s``, ``w s = mu``, ``mu`` to 0.  Eliminating ``s`` leaves ``Q +
        diag(s/w)``, again diagonal plus low rank.
        """
        n = self.n_edges
        w = np.full(n, self.total / n)
        slope = self.apply(w) + h
        nu = float(2.0 * slope.min() - slope.max()) - 0.1 * self.total / n
        s = slope - nu
        steps = 0
        while steps < INTERIOR_STEPS and (mu := float(w @ s) / n) > INTERIOR_GAP:
            steps += 1
            system = self._system(self._rows, 2.0 + s / w)
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
        return self._feasible(w), w > s, steps

    def _feasible(self, w: Array) -> Array:
        w = np.maximum(w, 0.0)
        total = float(w.sum())
        if not np.isfinite(total) or total <= 0.0:
            return np.full(self.n_edges, self.total / self.n_edges)
        return np.asarray(w * (self.total / total))

    def _system(self, R: Array, d: Array) -> System:
        """The solver of ``(diag(d) + T^T diag(sign) T) w + h = nu 1``, ``sum(w) = total``.

        ``R`` is ``T`` with a row of ones below.  With ``p = (sign * T w, -nu)``: ``w = -(h + R^T
        p) / d``, so ``(R diag(1/d) R^T + diag(sign, 0)) p = -R (h/d) - (0, total)``.  Where ``R``
        has more rows than columns the system in ``w`` itself is the smaller one.
        """
        if R.shape[1] < R.shape[0]:
            return self._direct_system(R[:-1], d)
        K = (R / d) @ R.T
        rows = np.arange(K.shape[0] - 1)
        K[rows, rows] += self.sign
        inverse = _inverse(K)

        def solve(h: Array, total: float) -> tuple[Array, float]:
            right = -(R @ (h / d))
            right[-1] -= total
            p = inverse(right)
            return -(h + p @ R) / d, float(-p[-1])

        return solve

    def _direct_system(self, T: Array, d: Array) -> System:
        n = d.size
        K = np.ones((n + 1, n + 1))
        K[:n, :n] = T.T @ (self.sign[:, None] * T)
        K[np.arange(n), np.arange(n)] += d
        K[n, n] = 0.0
        inverse = _inverse(K)

        def solve(h: Array, total: float) -> tuple[Array, float]:
            x = inverse(np.append(-h, total))
            return x[:n], float(-x[n])

        return solve


def _inverse(K: Array) -> Callable[[Array], Array]:
    """Solves with ``K``, factorised once.

    A vanishing pivot is replaced by a tiny one: every answer is judged by its residual, so a
    singular system needs no exception.
    """
    getrf, getrs = get_lapack_funcs(("getrf", "getrs"), (K,))
    factor, pivots, _ = getrf(K)
    tiny = np.finfo(np.float64).eps * np.abs(K).max()
    diagonal = np.diagonal(factor).copy()
    if (np.abs(diagonal) < tiny).any():
        factor[np.diag_indices_from(factor)] = np.where(np.abs(diagonal) < tiny, tiny, diagonal)
    return lambda right: np.asarray(getrs(factor, pivots, right)[0])


def _reach(x: Array, dx: Array) -> float:
    """The longest step up to 1 that keeps ``x + t dx`` non-negative."""
    falling = dx < 0.0
    return min(1.0, float((-x[falling] / dx[falling]).min())) if falling.any() else 1.0
