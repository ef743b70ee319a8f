"""Spectral templates: the sparsest graph whose eigenvectors are given (Segarra et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import brentq

from heatgraph.arrays import Array, Ints, Mask
from heatgraph.baselines.learned import Learned, frozen, pairs_of
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.solvers.result import Status
from heatgraph.solvers.simplex_qp import SimplexPoint, SimplexQP

GAP = 1e-12  # eigenvalues nearer than this, relative to the largest, are one: see `blocks`
EPS_TOL = 1e-9  # relative precision at which the residual meets eps
MAX_BISECTIONS = 100  # of the penalty; a few are enough where the face is found
# The smallest penalty that is tried, and the one from which on none is taken to reach eps.
TINIEST_PENALTY, LARGEST_PENALTY = 1e-12, 1e10
NO_PENALTY_BETWEEN = 1e-14  # relative distance of two penalties that rounding no longer parts


@dataclass(frozen=True, eq=False)
class Templates:
    """Eigenvectors a graph should have.

    ``V`` (N, N) orthonormal columns; ``blocks`` (N,) a label for each: the vectors of one label
    span an eigenspace in which no basis is preferred.  A covariance of rank below N - 1 has one
    such block, its null space, and asking the graph for the arbitrary basis that an eigensolver
    returns there would be asking for noise.
    """

    V: Array
    blocks: Ints

    @classmethod
    def from_signals(cls, X: Array) -> Templates:
        """The eigenvectors of the sample covariance ``X X^T / M`` of ``X`` (N, M).

        Through the singular values of ``X``, which keep the digits that squaring loses.  The mean
        signal is not removed: the model's signals have mean zero.
        """
        V, s, _ = np.linalg.svd(X, full_matrices=True)
        values = np.zeros(X.shape[0])
        values[: s.size] = s
        gaps = np.abs(np.diff(values))
        blocks = np.concatenate([[0], np.cumsum(gaps > GAP * np.abs(values).max())])
        if blocks[-1] == 0:
            raise ValueError(
                "X has a covariance with all eigenvalues equal, of which every vector is an "
                "eigenvector: it says nothing of a graph; give signals that diffused on one"
            )
        return cls(frozen(V), blocks.astype(np.intp))

    @classmethod
    def from_eigenvectors(cls, V: Array) -> Templates:
        """Known eigenvectors, one per column, each its own eigenspace."""
        return cls(frozen(V), np.arange(len(V)))

    @property
    def n_nodes(self) -> int:
        return int(self.V.shape[0])

    @cached_property
    def _outside(self) -> Mask:
        return np.not_equal.outer(self.blocks, self.blocks)

    def residual(self, L: Array) -> float:
        """``||offdiag(V^T L V)||_F``: how far ``L`` is from having these eigenvectors.

        It is the least of ``||L - V diag(lam) V^T||_F`` over the eigenvalues, so these need no
        variables of their own.  Within a block every entry is free.
        """
        return float(np.linalg.norm((self.V.T @ L @ self.V)[self._outside]))

    def program(self, candidates: CandidateEdges, total: float) -> SimplexQP:
        """``1/2 residual(L(w))^2`` as a quadratic in ``w``, on ``sum(w) = total``.

        ``||L||_F^2 = 2||w||^2 + ||S_w w||^2``, less the squares of the free entries
        ``v_k^T L v_l = sum_e w_e (v_ik - v_jk)(v_il - v_jl)``.
        """
        D = np.ascontiguousarray((self.V[candidates.i] - self.V[candidates.j]).T)
        k, m = np.nonzero(np.triu(~self._outside))
        # A free entry off the diagonal stands for itself and its mirror image.
        B = D[k] * D[m] * np.where(k == m, 1.0, np.sqrt(2.0))[:, None]
        return SimplexQP(candidates, B, total)


@dataclass(frozen=True, eq=False)
class TemplatesSolution(Learned):
    """A graph near to the templates.

    ``eps`` is its distance ``||offdiag(V^T L V)||_F``; ``penalty`` the weight of
    sparsity against half the squared residual; ``objective`` one value for the start and one a
    reweighting, never increasing; ``residual`` the largest violation of the optimality conditions
    of the last convex program; ``reweights`` (E,) its linear term.
    """

    eps: float
    penalty: float
    reweights: Array


def smallest_residual(
    templates: Templates, *, candidates: CandidateEdges | None = None
) -> TemplatesSolution:
    """The graph nearest to the templates, however dense: its ``eps`` is the least feasible one.

    Minimise ``1/2 ||offdiag(V^T L(w) V)||_F^2`` over ``w >= 0``, ``sum(w) = N/2``.
    """
    search = _Search(templates, candidates, delta=1.0)
    point = search.begin(None)
    values = [search.penalised(point.w, penalty=0.0)]
    return search.finish(point, 0.0, values, np.ones(search.candidates.n_edges), point.n_iter)


def learn_templates(
    templates: Templates,
    penalty: float,
    *,
    candidates: CandidateEdges | None = None,
    n_reweights: int = 3,
    delta: float = 1e-3,
    start: Array | None = None,
) -> TemplatesSolution:
    """Weigh sparsity against the distance to the templates.

    Minimise over ``w >= 0``, ``sum(w) = N/2``

        1/2 ||offdiag(V^T L(w) V)||_F^2 + penalty * delta sum_e log(1 + w_e / delta)

    by ``n_reweights`` convex programs, the logarithm replaced by its tangent ``<r, w>``, ``r =
    delta / (w + delta)`` at the last ``w``.  The first tangent is taken at the graph of smallest
    residual.  The objective never increases.

    Differs from the paper: the paper compares with the l1 norm under a bound on the residual, as
    Segarra et al. have it (`learn_templates_within` has that bound).  From the same start the two
    forms find the edges about equally well; this one is the faster.  The trace fixed to N makes
    the plain l1 norm a constant, so that without reweighting (``n_reweights=0``) there is nothing
    to minimise but the residual, whatever the penalty.

    Parameters
    ----------
    templates : Templates
        The eigenvectors.
    penalty : float
        Weight of sparsity, >= 0.
    candidates : CandidateEdges, optional
        The edges that may carry a weight; all pairs where not given.
    n_reweights : int
        Convex programs solved.  0 is the plain l1 norm, which is void: the graph of smallest
        residual comes back, whatever the penalty.
    delta : float
        Weights well below it count as none, > 0.
    start : array (E,), optional
        Weights at which the first tangent is taken.  Exact eigenvectors, the constant one among
        them, are those of the complete graph too, and where that is the graph of smallest
        residual its tangent prefers no edge: give another start.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> path = CandidateEdges(5, np.arange(4), np.arange(1, 5)).laplacian(np.full(4, 0.625))
    >>> X = np.linalg.inv(np.eye(5) + path) @ rng.standard_normal((5, 2000))
    >>> solution = learn_templates(Templates.from_signals(X), penalty=1.0)
    >>> print(solution.status, np.flatnonzero(solution.w > 1e-4))
    converged [0 4 7 9]
    """
    search = _Search(templates, candidates, delta)
    point = search.begin(start)
    values = [search.penalised(point.w, penalty)]
    r = np.ones(search.candidates.n_edges)
    n_iter = point.n_iter
    for _ in range(n_reweights):
        r = search.tangent(point.w)
        new = search.program.solve(penalty * r, point.face)
        n_iter += new.n_iter
        values.append(search.penalised(new.w, penalty))
        point = new
    return search.finish(point, penalty, values, r, n_iter)


def learn_templates_within(
    templates: Templates,
    eps: float,
    *,
    candidates: CandidateEdges | None = None,
    n_reweights: int = 3,
    delta: float = 1e-3,
    start: Array | None = None,
) -> TemplatesSolution:
    """The sparsest graph within ``eps`` of the templates.

    Differs from the paper, and from Segarra et al.: they minimise the l1 norm of the graph, which
    is a constant here (``n_reweights=0``), as the trace is fixed to N.

    Minimise over ``w >= 0``, ``sum(w) = N/2``

        delta sum_e log(1 + w_e / delta)   subject to   ||offdiag(V^T L(w) V)||_F <= eps

    by ``n_reweights`` convex programs, as in `learn_templates`.  Each is a penalised program at
    the one penalty whose residual is ``eps``; the residual grows with the penalty, which is found
    by bisection.  On a face the weights are linear in the penalty, so the root of a quadratic
    proposes the next one, and where the face is right it is the last.

    Parameters are those of `learn_templates`, but for

    eps : float
        Largest residual allowed; at least that of `smallest_residual`.
    """
    search = _Search(templates, candidates, delta)
    point = search.begin(start)
    smallest = point if start is None else search.begin(None)
    least = search.eps(smallest.w)
    if eps < least * (1.0 - EPS_TOL):
        raise ValueError(
            f"eps = {eps:g} is infeasible: no graph comes nearer than {least:.6g} to these "
            "templates; raise eps, or widen the candidates"
        )
    values = [search.spread(point.w)]
    r, penalty = np.ones(search.candidates.n_edges), 0.0
    n_iter = point.n_iter
    for _ in range(n_reweights):
        r = search.tangent(point.w)
        point, penalty = search.at_eps(r, eps, smallest, penalty)
        n_iter += point.n_iter
        values.append(search.spread(point.w))
    return search.finish(point, penalty, values, r, n_iter)


class _Search:
    """What the two forms share: the program, the tangents, and the penalty that meets an eps."""

    def __init__(
        self, templates: Templates, candidates: CandidateEdges | None, delta: float
    ) -> None:
        self.templates = templates
        self.candidates = pairs_of(candidates, templates.n_nodes)
        self.delta = delta
        self.program = templates.program(self.candidates, 0.5 * templates.n_nodes)

    def begin(self, start: Array | None) -> SimplexPoint:
        if start is None:
            return self.program.solve(np.zeros(self.candidates.n_edges))
        w = start * (self.program.total / start.sum())
        return SimplexPoint(w, w > 0.0, np.zeros_like(w), np.inf, Status.STALLED, 0)

    def tangent(self, w: Array) -> Array:
        return self.delta / (w + self.delta)

    def spread(self, w: Array) -> float:
        return float(self.delta * np.log1p(w / self.delta).sum())

    def eps(self, w: Array) -> float:
        return self.templates.residual(self.candidates.laplacian(w))

    def penalised(self, w: Array, penalty: float) -> float:
        return 0.5 * self.eps(w) ** 2 + penalty * self.spread(w)

    def at_eps(
        self, r: Array, eps: float, smallest: SimplexPoint, guess: float
    ) -> tuple[SimplexPoint, float]:
        """Minimise ``<r, w>`` with residual at most ``eps``; the point and its penalty.

        ``low`` and ``high`` bracket the penalty: the residual is at most ``eps`` at ``low``.
        """
        point, n_iter = smallest, 0
        low, high = (0.0, smallest), (np.inf, smallest)
        # At the penalty sought, 1/2 eps^2 + penalty <r, w> is no more than its value at the graph
        # of smallest residual: that bounds the penalty from below.
        bound = 0.5 * (eps**2 - self.eps(smallest.w) ** 2) / float(r @ smallest.w)
        penalty, status = max(guess, bound, TINIEST_PENALTY), Status.MAX_ITER
        for _ in range(MAX_BISECTIONS):
            point = self.program.solve(penalty * r, point.face)
            n_iter += point.n_iter
            reached = self.eps(point.w)
            met = abs(reached - eps) <= EPS_TOL * eps
            if met or reached <= eps:
                low = (penalty, point)
            else:
                high = (penalty, point)
            if met or low[0] >= LARGEST_PENALTY:  # or no penalty, however large, reaches eps
                status = point.status
                break
            if high[0] - low[0] <= NO_PENALTY_BETWEEN * low[0]:
                low, status = (low[0], self._between(low[1], high[1], eps)), point.status
                break
            penalty = self._propose(point, penalty, reached, eps, (low[0], high[0]))
        penalty, point = low
        residual = self.program.residual(point.w, penalty * r)
        return replace(point, residual=residual, status=status, n_iter=n_iter), penalty

    def _between(self, near: SimplexPoint, far: SimplexPoint, eps: float) -> SimplexPoint:
        """The point of residual ``eps`` between two minimisers for one penalty, itself one.

        Where the minimiser is not unique the residual jumps over ``eps`` at a penalty.
        """
        t = brentq(lambda t: self.eps((1.0 - t) * near.w + t * far.w) - eps, 0.0, 1.0)
        return replace(near, w=(1.0 - t) * near.w + t * far.w, face=near.face | far.face)

    def _propose(
        self,
        point: SimplexPoint,
        penalty: float,
        reached: float,
        eps: float,
        ends: tuple[float, float],
    ) -> float:
        """The penalty at which the residual is ``eps`` if the face stays, kept in the bracket.

        At the penalty ``(1 + t) penalty`` the face has ``w + t slope``; ``t`` is the root of the
        quadratic ``(w + t slope)^T Q (w + t slope) = eps^2``.
        """
        low, high = ends
        Qv = self.program.apply(point.slope)
        square, cross = float(point.slope @ Qv), float(point.w @ Qv)
        short = eps**2 - reached**2
        root = cross**2 + square * short
        # The root on the side of increasing residual, in the form free of cancellation.
        if root >= 0.0 and (below := cross + np.sqrt(root)) > 0.0:
            trial = penalty * (1.0 + short / below)
            if low < trial < high:
                return float(min(trial, 100.0 * penalty))
        if np.isinf(high):
            return 10.0 * penalty
        return float(np.sqrt(low * high)) if low > 0.0 else 0.1 * high

    def finish(
        self, point: SimplexPoint, penalty: float, values: list[float], r: Array, n_iter: int
    ) -> TemplatesSolution:
        return TemplatesSolution(
            w=frozen(point.w),
            eps=self.eps(point.w),
            penalty=penalty,
            objective=frozen(values),
            reweights=frozen(r),
            residual=point.residual,
            status=point.status,
            n_iter=n_iter,
        )
