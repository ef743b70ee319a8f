"""The three problems of a causal graph process: commuting filters, a shift, coefficients.

Filters are ``R`` (P, N, N), where ``R[i - 1]`` multiplies the signal of ``i`` steps before; series
are (T, N), one row for each time, or several that do not follow each other, (E, T, N).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.linear_model import Lasso

from heatgraph.arrays import Array
from heatgraph.solvers.result import Monitor, Progress, Status

INNER_STEPS = 500  # proximal steps of one block, at the most
INNER_TOL = 0.1  # a block is solved to this share of the tolerance of all


@dataclass(frozen=True, eq=False)
class Lags:
    """All that the fit needs of a series: products of rows at lags 0 to P, over ``count`` times.

    ``own[i, j]`` is the mean of ``x[k - i] x[k - j]^T``, (P + 1, P + 1, N, N).
    """

    own: Array
    count: int

    @classmethod
    def of(cls, X: Array, order: int) -> Lags:
        rows = lagged_rows(X, order)
        count = rows.shape[1]
        return cls(np.einsum("ikn,jkm->ijnm", rows, rows) / count, count)

    @property
    def order(self) -> int:
        return len(self.own) - 1

    def misfit(self, R: Array) -> float:
        """Half the mean square of ``x[k] - sum_i R_i x[k - i]``."""
        whole = np.concatenate([-np.eye(self.own.shape[-1])[None], R])
        pairs = np.einsum("inm,ijmp,jqp->nq", whole, self.own, whole, optimize=True)
        return 0.5 * float(np.trace(pairs))

    def slope(self, R: Array, i: int) -> Array:
        """The gradient of the misfit in ``R_i``, ``i`` from 1."""
        slope: Array = np.einsum("jnm,jmp->np", R, self.own[1:, i]) - self.own[0, i]
        return slope


def lagged_rows(X: Array, order: int) -> Array:
    """``x[k - i]`` for ``i`` from 0 to P and every ``k`` with a past, (P + 1, count, N)."""
    T, N = X.shape[-2:]
    return np.stack([X[..., order - i : T - i, :].reshape(-1, N) for i in range(order + 1)])


def _commutator(A: Array, B: Array) -> Array:
    return A @ B - B @ A


def _commuting_slope(R: Array, others: Array) -> Array:
    """The gradient of ``1/2 sum_j ||[R, R_j]||^2`` in ``R``."""
    total = np.zeros_like(R)
    for other in others:
        apart = _commutator(R, other)
        total += apart @ other.T - other.T @ apart
    return total


@dataclass(frozen=True, eq=False)
class _Block:
    """``1/2 <R, R G> - <R, B> + mu/2 sum_j ||[R, R_j]||^2 + lam ||R||_1`` in one matrix ``R``."""

    G: Array
    B: Array
    others: Array
    mu: float
    lam: float = 0.0

    def slope(self, R: Array) -> Array:
        return R @ self.G - self.B + self.mu * _commuting_slope(R, self.others)

    @cached_property
    def steepest(self) -> float:
        """A bound on the curvature: ``||[R, S]|| <= 2 ||S||_2 ||R||``."""
        sizes = [np.linalg.norm(other, 2) for other in self.others]
        bend = float(np.linalg.norm(self.G, 2)) + 4.0 * self.mu * float(np.square(sizes).sum())
        return bend or 1.0

    def step(self, R: Array) -> Array:
        """A proximal gradient step."""
        bend = self.steepest
        moved = R - self.slope(R) / bend
        return np.asarray(np.sign(moved) * np.maximum(np.abs(moved) - self.lam / bend, 0.0))

    def residual(self, R: Array) -> float:
        """The largest entry of the gradient, less what the penalty takes."""
        return self.steepest * float(np.abs(R - self.step(R)).max())

    def solve(self, R: Array, tol: float) -> Array:
        return self._sparse(R, tol) if self.lam > 0.0 else self._smooth(R, tol)

    def _smooth(self, R: Array, tol: float) -> Array:
        """By conjugate gradients on the normal equations, which are N^2 in number."""
        shape, zero = R.shape, _Block(self.G, np.zeros_like(self.B), self.others, self.mu)
        product = LinearOperator(
            (R.size, R.size),
            matvec=lambda r: zero.slope(r.reshape(shape)).ravel(),
            dtype=np.float64,
        )
        found, _ = cg(
            product, self.B.ravel(), x0=R.ravel(), rtol=0.0, atol=tol, maxiter=INNER_STEPS
        )
        return np.asarray(found.reshape(shape))

    def _sparse(self, R: Array, tol: float) -> Array:
        """By accelerated proximal steps, with a restart where they turn back."""
        ahead, t = R, 1.0
        for _ in range(INNER_STEPS):
            new = self.step(ahead)
            if self.steepest * float(np.abs(new - ahead).max()) <= tol:
                return new
            if np.vdot(ahead - new, new - R) > 0.0:
                ahead, t = new, 1.0
            else:
                t_new = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
                ahead, t = new + (t - 1.0) / t_new * (new - R), t_new
            R = new
        return R


@dataclass(frozen=True, eq=False)
class CommutingFilters:
    """The end of the first problem."""

    R: Array
    objective: Array
    residual: float
    status: Status

    @property
    def n_iter(self) -> int:
        return self.objective.size - 1


def commuting_filters(
    lags: Lags,
    lam: float,
    mu: float,
    *,
    max_iter: int,
    tol: float,
    monitor: Monitor | None = None,
) -> CommutingFilters:
    """The first problem, one ``R_i`` at a time; its objective never rises."""
    P, N = lags.order, lags.own.shape[-1]
    R = np.zeros((P, N, N))
    unit = float(np.abs(lags.own[0, 1:]).max()) or 1.0
    goal = tol * unit

    def block(i: int) -> _Block:
        others = np.delete(R, i - 1, axis=0)
        B = R[i - 1] @ lags.own[i, i] - lags.slope(R, i)
        return _Block(lags.own[i, i], B, others, mu, lam if i == 1 else 0.0)

    def value() -> float:
        pairs = [_commutator(R[i], R[j]) for i in range(P) for j in range(i)]
        return (
            lags.misfit(R)
            + lam * float(np.abs(R[0]).sum())
            + 0.5 * mu * sum(float(np.vdot(apart, apart)) for apart in pairs)
        )

    history, residual, status = [value()], np.inf, Status.MAX_ITER
    try:
        for k in range(max_iter):
            for i in range(1, P + 1):
                R[i - 1] = block(i).solve(R[i - 1], INNER_TOL * goal)
            history.append(value())
            residual = max(block(i).residual(R[i - 1]) for i in range(1, P + 1)) / unit
            if monitor is not None:
                edges = int(np.count_nonzero(R[0]))
                monitor(Progress(k + 1, max_iter, history[-1], edges, residual))
            if residual <= tol:
                status = Status.CONVERGED
                break
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    return CommutingFilters(R, np.array(history), residual, status)


def nearest_shift(R: Array, lam: float, mu: float, tol: float) -> Array:
    """The second problem: a sparse ``A`` near ``R_1`` that about commutes with the others."""
    N = R.shape[-1]
    block = _Block(np.eye(N), R[0], R[1:], mu, lam)
    return block.solve(R[0], tol * (float(np.abs(R[0]).max()) or 1.0))


def coefficients(X: Array, A: Array, order: int, share: float) -> list[Array]:
    """The third problem: ``c_i`` by a lasso, those of the first step back being (0, 1)."""
    c: list[Array] = [np.array([0.0, 1.0])]
    if order == 1:
        return c
    lagged = lagged_rows(X, order)
    left = (lagged[0] - lagged[1] @ A.T).ravel()
    powers = [np.linalg.matrix_power(A, j).T for j in range(order + 1)]
    columns = [lagged[i] @ powers[j] for i in range(2, order + 1) for j in range(i + 1)]
    D = np.stack([column.ravel() for column in columns], axis=1)
    most = float(np.abs(D.T @ left).max()) / len(left)
    if share > 0.0 and most > 0.0:
        found = (
            Lasso(share * most, fit_intercept=False, tol=1e-8, max_iter=10_000).fit(D, left).coef_
        )
    else:
        found = np.linalg.lstsq(D, left, rcond=None)[0]
    ends = np.cumsum([i + 1 for i in range(2, order + 1)])
    return [*c, *np.split(np.asarray(found, dtype=np.float64), ends[:-1])]
