"""Two quadratic programs over weights ``w >= 0`` of a fixed sum.

`LaplacianQP` is the step in L of the paper's Algorithm 1, solved by SCS.  `SimplexQP` has
the Frobenius norm of a Laplacian less a low rank:

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
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import get_lapack_funcs

from heatgraph.arrays import Array, Mask
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.models.simplex import project_simplex
from heatgraph.solvers.result import Status

SIGN_TOL = 1e-12  # a weight or multiplier above minus this counts as non-negative
PIVOT_TRIES = 5  # exchanges without progress before pivoting is given up
INTERIOR_STEPS = 60  # at the most, of the interior point method
INTERIOR_GAP = 1e-15  # mean product of weight and multiplier at which the interior point ends
SHY = 0.995  # share of the way to the boundary that an interior step goes
SHORTEST = 1e-8  # share of a step below which the interior point ends
ROOM = 0.1  # mean weights that every multiplier is above zero at the start


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
        """Block principal pivoting from a face."""
        face, n_iter = face.copy(), 0
        fewest, tries = h.size + 1, PIVOT_TRIES
        tol_sign = SIGN_TOL * (1.0 + np.abs(h).max())
        w = slope = np.zeros(h.size)
        K = self._products(face)
        while True:
            n_iter += 1
            try:
                w, slope, slack = self._on_face(K, h, face)
            except np.linalg.LinAlgError:  # singular: no point here, and the interior is next
                break
            leave, enter = face & (w < -tol_sign), ~face & (slack < -tol_sign)
            count = int(leave.sum() + enter.sum())
            tries = PIVOT_TRIES if count < fewest else tries - 1
            fewest = min(fewest, count)
            if count == 0 or tries < 0:
                break
            K += self._products(enter) - self._products(leave)
            face = (face & ~leave) | enter
        return self._judged(h, w, face, slope, n_iter, tol)

    def _products(self, edges: Mask) -> Array:
        """``R R^T`` over some of the edges, ``R = (S_w, B, 1)``."""
        some = self._columns[edges]
        return some.T @ some

    def _on_face(self, K: Array, h: Array, face: Mask) -> tuple[Array, Array, Array]:
        """The minimiser with ``w = 0`` off the face and no sign asked on it, its slope, ``Qw + h``.

        The multiplier of the total is taken off the last.  As in `_system` with ``d = 2``:
        ``(K + 2 diag(1, -1, 0)) p = -R h - 2 (0, 0, total)``, the two parts of the right side kept
        apart, for the part of ``h`` is the slope.
        """
        right = np.zeros((len(K), 2))
        right[:, 0] = -(np.where(face, h, 0.0) @ self._columns)
        right[-1, 1] = -2.0 * self.total
        by_h, by_total = np.linalg.solve(K + 2.0 * np.diag(self._signs), right).T
        pull_h = h + self._columns @ by_h
        # h + R^T p is Qw + h - nu - 2w: the slack off the face, and -2w on it.
        slack = pull_h + self._columns @ by_total
        return np.where(face, -0.5 * slack, 0.0), np.where(face, -0.5 * pull_h, 0.0), slack

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
        nu = float(2.0 * slope.min() - slope.max()) - ROOM * self.total / n
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
            reach = SHY * min(_reach(w, dw), _reach(s, ds))
            if not (np.isfinite(dw).all() and reach > SHORTEST):
                break
            w, s, nu = w + reach * dw, s + reach * ds, nu + reach * dnu
        return self._judged(h, w, w > s, np.zeros(n), steps, tol)

    @cached_property
    def _columns(self) -> Array:
        """The columns of ``R = (S_w, B, 1)``, one row per edge, (E, N + P + 1)."""
        edges = np.arange(self.candidates.n_edges)
        S = np.zeros((edges.size, self.candidates.n_nodes))
        S[edges, self.candidates.i] = 1.0
        S[edges, self.candidates.j] = 1.0
        return np.hstack([S, self.B.T, np.ones((edges.size, 1))])

    @cached_property
    def _signs(self) -> Array:
        return np.repeat([1.0, -1.0, 0.0], [self.candidates.n_nodes, len(self.B), 1])

    def _system(self, d: Array) -> Callable[[Array, float], tuple[Array, float]]:
        """The solver of ``(diag(d) + S_w^T S_w - B^T B) w + h = nu 1``, ``sum(w) = total``.

        With ``R = (S_w, B, 1)`` and ``p = (S_w w, -B w, -nu)``: ``w = -(h + R^T p) / d``, so
        ``(R diag(1/d) R^T + diag(1, -1, 0)) p = -R (h/d) - (0, 0, total)``.
        """
        R = self._columns.T
        K = (R / d) @ R.T + np.diag(self._signs)
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


# Of a late step, which lowers the model by little, an error longer than the step makes an ascent:
# over 3000 iterations that befell a sixth of the steps at 1e-4, SCS's default, a few at 1e-5, none
# from 1e-6 on.
EPS = 1e-7
MAX_ITERS = 20_000  # of SCS, in one program: far more than it takes
_USABLE = (1, 2)  # SCS: solved, solved inaccurately
_SIGINT = -5  # the status of SCS after Ctrl-C
# The quadratic part and the constraints never change, so that SCS need not look for its scale anew
# in every program, nor accelerate: 28 ADMM iterations a program in place of 85, at 20 nodes as at
# 60.  The minimiser is the same.
TUNED = {"adaptive_scale": False, "scale": 1.5, "acceleration_lookback": 0, "verbose": False}


class LaplacianQP:
    """The proximal step on the Laplacian, the paper's problem (updateLQP).

    Minimise ``<L - L_t, G> + d/2 ||L - L_t||_F^2 + beta ||L||_F^2`` over symmetric ``L`` with
    ``tr L = N``, ``L 1 = 0``, ``L_ij <= 0`` off the diagonal.

    The variable handed to SCS is ``vech(L)``: the N diagonal entries, then one entry a candidate
    edge; an entry that is no candidate is 0 and left out.  The three constraints are stated as
    the paper states them: N + 1 equalities and one inequality a candidate.

    Differs from the paper, which names conjugate gradients for large systems: SCS factorises its
    linear system once, and no step changes it.
    """

    def __init__(self, candidates: CandidateEdges) -> None:
        scs = _import_scs()
        n, n_edges = candidates.n_nodes, candidates.n_edges
        self.candidates = candidates
        # ||L||_F^2 counts an off-diagonal entry of vech(L) twice.
        self._count = np.concatenate([np.ones(n), np.full(n_edges, 2.0)])
        data = {
            # The objective is divided by d + 2 beta: the same minimiser, and a quadratic part
            # that d does not touch, so that SCS factorises once and only `c` is updated.
            "P": sparse.diags_array(self._count, format="csc"),
            "A": _constraints(candidates),
            "b": np.concatenate([[float(n)], np.zeros(n + n_edges)]),
            "c": np.zeros(n + n_edges),
        }
        cone = {"z": n + 1, "l": n_edges}
        self._scs: Any = scs.SCS(data, cone, eps_abs=EPS, eps_rel=EPS, max_iters=MAX_ITERS, **TUNED)
        self._warm: dict[str, Array] = {}

    def solve(self, L: Array, G: Array, d: float, beta: float) -> Array:
        """The minimiser for the linearisation ``G`` at ``L`` and the constant ``d``, both (N, N).

        The result is a valid Laplacian to rounding: see `_repair`.
        """
        self._scs.update(c=self._count * self._vech((G - d * L) / (d + 2.0 * beta)))
        answer = self._scs.solve(warm_start=bool(self._warm), **self._warm)
        status = answer["info"]["status_val"]
        if status == _SIGINT:
            # SCS catches the signal for itself and returns; the user meant the whole fit.
            raise KeyboardInterrupt
        if status not in _USABLE:
            raise RuntimeError(f"SCS failed on the step in L: {answer['info']['status']!r}")
        self._warm = {key: answer[key] for key in ("x", "y", "s")}
        return self._repair(answer["x"])

    def _vech(self, A: Array) -> Array:
        return np.concatenate([np.diagonal(A), A[self.candidates.i, self.candidates.j]])

    def _repair(self, x: Array) -> Array:
        """A valid Laplacian from SCS's answer, which meets the constraints only to ``eps``.

        Differs from the paper, which takes SCS's answer as it is: positive off-diagonal entries are
        set to 0, the rest is scaled to the trace, the diagonal is the row sums.
        """
        n = self.candidates.n_nodes
        w = np.maximum(-x[n:], 0.0)
        return self.candidates.laplacian(w * (0.5 * n / w.sum()))


def _constraints(candidates: CandidateEdges) -> sparse.csc_array:
    """``A`` of ``A vech(L) + s = b``: the trace, the N row sums (s = 0), the signs (s >= 0)."""
    n, n_edges = candidates.n_nodes, candidates.n_edges
    edges, nodes = np.arange(n_edges), np.arange(n)
    incidence = sparse.csc_array(
        (np.ones(2 * n_edges), (np.r_[candidates.i, candidates.j], np.r_[edges, edges])),
        shape=(n, n_edges),
    )
    diagonal = sparse.csc_array((np.ones(n), (nodes, nodes)), shape=(n, n))
    signs = sparse.diags_array(np.ones(n_edges), format="csc")
    trace = sparse.csc_array(np.ones((1, n)))
    return sparse.csc_array(
        sparse.block_array([[trace, None], [diagonal, incidence], [None, signs]], format="csc")
    )


def _import_scs() -> Any:
    try:
        import scs
    except ImportError as error:
        raise ImportError(
            "the paper's solver needs SCS for its step in L; install it with "
            "`pip install heatgraph[paper]`"
        ) from error
    return scs
