"""Likely precision matrices that are generalised Laplacians, by projected Newton steps.

    minimise  -log det(T + J) + <K, T>   over  T = T(w, v),  w >= 0,  v >= 0

``w`` (E,) are the weights of the edges and ``v`` what the diagonal has besides.  Four forms differ
in what ``v`` is; ``J = 11^T / N`` where ``T`` is singular, and 0 elsewhere:

    generalized    T = diag(v) - W            v (N,), the whole diagonal
    dominant       T = L(w) + diag(v)         v (N,), what exceeds the degrees
    combinatorial  T = L(w)                   no v; -log det(L + J) is minus its log pseudo-det
    shared         T = L(w) + v I             v (1,)

The problem is convex and its function self-concordant.  A penalty ``lam sum_{i != j} |T_ij|`` is
linear where off-diagonals are not positive, so that it is a part of ``K``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from heatgraph.arrays import Array, Ints, Mask
from heatgraph.baselines.learned import Learned
from heatgraph.graph import CandidateEdges
from heatgraph.models.gaussian import InformationProducts
from heatgraph.solvers.projected_newton import NewtonState, minimise_box
from heatgraph.solvers.result import Monitor, Progress

FORMS = ("generalized", "dominant", "combinatorial", "shared")
OWN_DIAGONAL = ("generalized", "dominant")  # forms in which a node may have any precision
# A bound that no solution meets: the solver takes coordinates without two finite bounds for
# logarithms, and shortens their steps.
UNBOUNDED = 1e150
LEAST_LEVEL = 1e-6  # of a node's variance: that of the level of all nodes, which may be 0
SMALLEST_SIZE = 1e-2  # a node's part in the main direction of the signals, at least
SINGULAR = 1e-14  # the smallest pivot over the largest: below it, a determinant is rounding
ROUNDING = 64.0 * float(np.finfo(np.float64).eps)  # by which variances of equal signals differ
REMEDY = "drop one of the two, leave the pair out of candidates, or penalise the weights"
ABSENT = 1e-9  # of the largest weight: less than what the tolerance of a fit is worth


class UnboundedLikelihoodError(ValueError):
    """There is no likeliest matrix: the likelihood grows for ever along the weight of a pair."""


@dataclass(frozen=True, eq=False)
class PrecisionFit(Learned):
    """The end of a fit: ``T`` (N, N), its parts ``w`` (E,) and ``v``, and how it was reached.

    ``residual`` is the fall of the objective that a scaled gradient step promises, per node.
    """

    T: Array
    v: Array


def penalised_moment(S: Array, lam: float) -> Array:
    """``K`` with ``<K, T> = <S, T> + lam sum_{i != j} |T_ij|`` for off-diagonals ``T_ij <= 0``."""
    K = S - lam
    np.fill_diagonal(K, np.diag(S))
    return K


def fit_precision(
    K: Array,
    form: str,
    candidates: CandidateEdges,
    *,
    tol: float = 1e-8,
    max_iter: int = 200,
    monitor: Monitor | None = None,
    start: PrecisionFit | None = None,
) -> PrecisionFit:
    """Minimise over the precision matrices of a form; raises ValueError where none is best."""
    problem = _Problem(K, form, candidates, _sizes(K, form))
    problem.check()
    x = problem.start() if start is None else problem.coordinates(start.w, start.v)
    free = form == "generalized"  # the diagonal of T may be less than the degrees
    lower = np.zeros_like(x)
    lower[candidates.n_edges :] = -UNBOUNDED if free else 0.0

    def report(state: NewtonState[_Point]) -> None:
        if monitor is not None:
            edges = int(np.count_nonzero(state.point.x[: candidates.n_edges]))
            value = float(state.point.value)
            monitor(Progress(state.n_iter, max_iter, value, edges, state.residual))

    state, status = minimise_box(
        problem.at,
        (lower, np.full_like(x, UNBOUNDED)),
        x,
        tol=tol,
        max_iter=max_iter,
        unit=float(candidates.n_nodes),
        report=report,
    )
    found = state.point.x.copy()
    w = found[: candidates.n_edges]
    w[w <= ABSENT * w.max(initial=0.0)] = 0.0
    T, w, v = problem.in_units(found)
    history = np.array(state.history)
    return PrecisionFit(w, history, state.residual, status, state.n_iter, T, v)


def constant_columns(still: Mask) -> ValueError:
    """The error for nodes (N,) that stand still, and get an infinite precision."""
    return ValueError(
        f"X: column {int(np.argmax(still))} is constant wherever it was observed, so that its "
        f"precision is infinite; drop the {int(still.sum())} such column(s)."
    )


def _alike_size(one: Array, other: Array, form: str) -> Array:
    """The largest covariance of two nodes of these variances, which equal signals have.

    Signals that differ in size only are equal in the generalized form.
    """
    size: Array = np.sqrt(one * other) if form == "generalized" else 0.5 * (one + other)
    return size


def check_observed_pairs(X: Array, form: str, candidates: CandidateEdges) -> None:
    """Raise where the likelihood of what was observed of signals (M, N) has no bound.

    So it is along the weight of a pair whose signals are the same, but for a level, wherever both
    were observed; a single such signal is enough.
    """
    i, j, seen = candidates.i, candidates.j, (~np.isnan(X)).astype(np.float64)
    Z = np.where(seen > 0.0, X, 0.0)
    together = seen.T @ seen
    n = np.maximum(together, 1.0)
    mean = Z.T @ seen / n  # of node i where j was observed too
    variance = np.maximum(np.square(Z).T @ seen / n - np.square(mean), 0.0)
    covariance = (Z.T @ Z / n - mean * mean.T)[i, j]
    own = np.square(Z).sum(axis=0) / np.maximum(seen.sum(axis=0), 1.0)
    rounding = ROUNDING * np.maximum(own[i], own[j])
    one, other = variance[i, j], variance[j, i]
    apart = _alike_size(one, other, form) - covariance
    # A signal that stands still there differs from one that moves in more than size.
    alike = (one > rounding) == (other > rounding)
    alike &= (together[i, j] > 0.0) & (apart <= rounding)
    if alike.any():
        e = int(np.argmax(alike))
        raise UnboundedLikelihoodError(
            f"X: columns {i[e]} and {j[e]} hold the same signal, but for a level, wherever both "
            f"were observed ({int(together[i[e], j[e]])} of {len(X)} signals), so that the weight "
            f"between them is infinite; {REMEDY}."
        )


def _sizes(K: Array, form: str) -> Array:
    """A unit for each node, in which the problem is solved.

    The generalized form stays the same problem in any units.  In those of the vector ``p`` along
    which signals vary most, ``T p`` is small, and ``v`` is not the small difference of large
    numbers.  The other forms allow one unit for all.
    """
    own = np.diag(K)
    if form != "generalized" or not (own > 0.0).all():
        return np.full(len(K), np.sqrt(float(own.mean())) or 1.0)
    root = np.sqrt(own)
    _, U = np.linalg.eigh(np.maximum(K, 0.0) / np.outer(root, root))
    perron = np.abs(U[:, -1])
    sizes: Array = root * np.maximum(perron, SMALLEST_SIZE * perron.max())
    return sizes


@dataclass(frozen=True, eq=False)
class _Problem:
    """``K`` (N, N), a form, the pairs that may be edges, and a unit ``p`` (N,) for each node.

    Coordinates are those of ``p_i T_ij p_j``, the edges' and what the diagonal exceeds the degrees
    by.
    """

    K: Array
    form: str
    candidates: CandidateEdges
    p: Array

    @cached_property
    def scaled(self) -> Array:
        """``K_ij / (p_i p_j)``."""
        scaled: Array = self.K / np.outer(self.p, self.p)
        return scaled

    @cached_property
    def slope(self) -> Array:
        """Of ``<K, T>``, which is linear."""
        return self.adjoint(self.scaled)

    @cached_property
    def constant(self) -> float:
        """Of ``-log det(T + J)``: what the units add."""
        logs = np.log(self.p)
        return 2.0 * float(logs[1:].sum() if self.form == "combinatorial" else logs.sum())

    def matrix(self, x: Array) -> Array:
        """``p_i T_ij p_j``, linear in ``x``."""
        n_edges = self.candidates.n_edges
        T = self.candidates.laplacian(x[:n_edges])
        if self.form != "combinatorial":
            np.einsum("ii->i", T)[:] += x[n_edges:]
        return T

    def in_units(self, x: Array) -> tuple[Array, Array, Array]:
        """``T``, ``w`` and ``v`` in the units of ``K``."""
        T = self.matrix(x) / np.outer(self.p, self.p)
        v = np.diag(T).copy() if self.form == "generalized" else x[self.candidates.n_edges :]
        v = v if self.form == "generalized" else v / self.p[0] ** 2
        return T, self.candidates.weights(T), v

    def coordinates(self, w: Array, v: Array) -> Array:
        """The inverse of :meth:`in_units`."""
        i, j, p = self.candidates.i, self.candidates.j, self.p
        inner = w * p[i] * p[j]
        if self.form == "generalized":
            return np.concatenate([inner, v * p**2 - self.candidates.degrees(inner)])
        return np.concatenate([inner, v * p[0] ** 2])

    def adjoint(self, G: Array) -> Array:
        """``<G, T(x)> = <adjoint(G), x>`` for symmetric ``G``."""
        pairs = self.candidates.adjoint(G)
        if self.form == "combinatorial":
            return pairs
        own = np.diag(G)
        return np.concatenate([pairs, [own.sum()] if self.form == "shared" else own])

    def curvature(self, C: Array) -> Array:
        """``tr(C T(e) C T(e))`` for every unit vector ``e``."""
        pairs = np.square(self.candidates.adjoint(C))
        if self.form == "combinatorial":
            return pairs
        own = [float(np.vdot(C, C))] if self.form == "shared" else np.square(np.diag(C))
        return np.concatenate([pairs, own])

    @property
    def shift(self) -> float:
        """Of every entry, before the determinant is taken."""
        return 1.0 / self.candidates.n_nodes if self.form == "combinatorial" else 0.0

    def at(self, x: Array) -> _Point:
        return _Point(self, x)

    def start(self) -> Array:
        """The best complete graph of equal weights, and a diagonal that is right for a constant.

        Of all pairs, ``c`` is the minimiser of ``-(N - 1) log(N c) + c sum(slope)``.  Under a
        penalty that exceeds the covariances, so that the level has no variance left, the diagonal
        is that of nodes without a neighbour.
        """
        n, n_edges = self.candidates.n_nodes, self.candidates.n_edges
        w = np.full(n_edges, (n - 1) / self.slope[:n_edges].sum())
        if self.form == "combinatorial":
            return w
        level, alone = float(self.scaled.sum()) / n, float(np.trace(self.scaled)) / n
        level = level if level > LEAST_LEVEL * alone else alone
        v = np.full(self.slope.size - n_edges, 1.0 / level)
        return np.concatenate([w, v])

    def check(self) -> None:
        """Whether there is a best matrix."""
        own = np.diag(self.K)
        still = own <= ROUNDING * float(own.max(initial=0.0))
        if self.form == "combinatorial":
            self._check_connected()
        if still.all() or (still.any() and self.form in OWN_DIAGONAL):
            raise constant_columns(still)
        i, j = self.candidates.i, self.candidates.j
        size = _alike_size(own[i], own[j], self.form)
        # Along a growing weight the objective falls for ever where two signals are the same.
        alike = size - self.K[i, j] <= ROUNDING * size
        if alike.any():
            e = int(np.argmax(alike))
            raise UnboundedLikelihoodError(
                f"X: columns {i[e]} and {j[e]} hold the same signal, so that the weight between "
                f"them is infinite; {REMEDY}."
            )

    def _check_connected(self) -> None:
        n, (i, j) = self.candidates.n_nodes, (self.candidates.i, self.candidates.j)
        pairs = coo_array((np.ones(i.size), (i, j)), shape=(n, n))
        if connected_components(pairs, directed=False)[0] > 1:
            raise ValueError(
                'candidates: they leave the graph in pieces, and constraint="combinatorial" has '
                'one piece; add pairs, or use constraint="dominant".'
            )


@dataclass(frozen=True, eq=False)
class _Point:
    """The problem at ``x``; infinite where ``T + J`` is not positive definite."""

    problem: _Problem
    x: Array

    @cached_property
    def _factor(self) -> tuple[Array, bool] | None:
        try:
            factor: tuple[Array, bool] = cho_factor(
                self.problem.matrix(self.x) + self.problem.shift, lower=True
            )
        except np.linalg.LinAlgError:
            return None
        pivots = np.square(np.diag(factor[0]))
        return factor if pivots.min() > SINGULAR * pivots.max() else None

    @cached_property
    def value(self) -> float:
        if self._factor is None:
            return float("inf")
        log_det = 2.0 * float(np.log(np.diag(self._factor[0])).sum())
        return float(self.problem.slope @ self.x) - log_det + self.problem.constant

    @cached_property
    def covariance(self) -> Array:
        """``(T + J)^-1``, in units of the nodes."""
        C: Array = cho_solve(self._factor, np.eye(self.problem.candidates.n_nodes))
        return 0.5 * (C + C.T)

    @cached_property
    def gradient(self) -> Array:
        return self.problem.slope - self.problem.adjoint(self.covariance)

    @cached_property
    def diagonal(self) -> Array:
        return self.problem.curvature(self.covariance)

    def information_between(self, some: Ints) -> InformationProducts:
        return InformationProducts(self.information, self.x.size, some)

    def information(self, d: Array) -> Array:
        """The Hessian, ``D -> C D C``, along ``d``."""
        C = self.covariance
        return self.problem.adjoint(C @ self.problem.matrix(d) @ C)
