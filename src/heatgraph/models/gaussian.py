"""Heat from Gaussian sources: the likelihood of a second moment, its gradient, its information.

Signals ``x = u + sum_s exp(-tau_s L) h_s + eps`` with ``h_s ~ N(0, v_s I)`` and
``eps ~ N(0, sigma2 I)`` have the covariance ``C = f(L)``,

    f(lam) = sum_s v_s exp(-2 tau_s lam) + sigma2,

or, with another kernel ``g``, ``g(lam, tau_s)^2`` in place of the exponential.

A point is the vector ``x = [w, log v, log r, log sigma2]``: weights (E,) of the candidate edges,
source variances (S,), scales as shares ``r = tau / tau_S`` (S - 1,) of the largest, which is held
at 1, and the noise.  Only the products ``tau w`` matter, so holding one scale loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from heatgraph.arrays import Array, Ints
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels.spectral import HeatKernel, Kernel, Power

HEAT = Power(HeatKernel())
NOISE_FLOOR = 1e-10  # of the mean variance: keeps the covariance invertible in double precision
HEAVIEST = 50.0  # an edge as heavy, times its scale, makes two nodes one in double precision
HEAVIEST_SLOW = 1e6  # the same for kernels that still fall there, by a power
NO_SLOPE = 1e-16  # of a kernel: beyond, weights grow without end and change nothing
RANK_TOL = 1e-10  # of the largest eigenvalue: smaller ones do not enter the information
COLUMNS = 32  # of the kernel of the information, which span it: its rank is about ten
# Parameters between which the information is formed as a matrix.  With more of them, the dozen
# products of a Newton step cost less than the matrix.
FEW_PARAMETERS = 200
PAIRS_AT_ONCE = 2048  # rows of the information computed together: bounds the memory
LEAST_INFORMATION = 1e-30  # what a coordinate without any is given, to divide by


def mean_variance(S: Array) -> float:
    """``tr(S) / N``."""
    return float(np.trace(S)) / len(S)


@dataclass(frozen=True, eq=False)
class HeatSpectrum:
    """``f(lam)``: source variances ``v`` (S,), scales ``tau`` (S,), noise variance ``sigma2``."""

    v: Array
    tau: Array
    sigma2: float
    power: Power = HEAT

    @classmethod
    def of(cls, y: Array, kernel: Kernel) -> HeatSpectrum:
        """From the end ``[log v, log r, log sigma2]`` (2 S,) of a point."""
        n = y.size // 2
        tau = np.append(np.exp(y[n:-1]), 1.0)
        return cls(np.exp(y[:n]), tau, float(np.exp(y[-1])), Power(kernel))

    def values(self, lam: Array) -> Array:
        """``f`` at eigenvalues of the Laplacian, (N,)."""
        return self.v @ self.power.values(lam, self.tau) + self.sigma2

    def slopes(self, lam: Array) -> Array:
        """Slopes of ``f`` there in ``log v``, ``log r`` and ``log sigma2``, (2 S, N)."""
        heat = self.v[:, None] * self.power.values(lam, self.tau)
        in_scale = self.v[:, None] * self.power.slopes_in_log_tau(lam, self.tau)
        return np.vstack([heat, in_scale[:-1], np.full((1, lam.size), self.sigma2)])


@dataclass(frozen=True, eq=False)
class LogPenalty:
    """``sum_e (2 c^2 / M) log(1 + w_e / (c se_e))``: sparsity in units of standard errors.

    ``se`` (E,) are standard errors of the weights and are held.  At zero the slope is ``c`` times
    the standard deviation of the likelihood's own slope there, so a weight has to be ``c``
    standard errors away from zero to enter.  Large weights are hardly shrunk.
    """

    c: float
    se: Array
    n_signals: float

    def value(self, w: Array) -> float:
        return 2.0 * self.c**2 / self.n_signals * float(np.log1p(w / (self.c * self.se)).sum())

    def slope(self, w: Array) -> Array:
        return 2.0 * self.c**2 / self.n_signals / (self.c * self.se + w)


@dataclass(frozen=True, eq=False)
class GaussianHeat:
    """``phi = log det C + tr(C^-1 S)``, plus a penalty on the weights where there is one.

    ``S`` (N, N) is the second moment of the signals around their location.  ``phi`` is
    ``-2 / M`` times the log-likelihood, up to a constant.
    """

    candidates: CandidateEdges
    S: Array
    n_scales: int = 1
    penalty: LogPenalty | None = None
    kernel: Kernel = HEAT.kernel

    @property
    def n_edges(self) -> int:
        return self.candidates.n_edges

    @property
    def n_parameters(self) -> int:
        return self.n_edges + 2 * self.n_scales

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """``w >= 0``, shares of the largest scale at most 1, noise above rounding."""
        lower = np.full(self.n_parameters, -np.inf)
        upper = np.full(self.n_parameters, np.inf)
        lower[: self.n_edges], upper[: self.n_edges] = 0.0, _heaviest(self.kernel)
        lower[-1] = np.log(NOISE_FLOOR * mean_variance(self.S))
        upper[self.n_edges + self.n_scales : -1] = 0.0
        return lower, upper

    def at(self, x: Array) -> GaussianPoint:
        """Everything that is needed at a point, computed when it is asked for."""
        return GaussianPoint(self, x)


@dataclass(frozen=True, eq=False)
class GaussianPoint:
    """Value, gradient and Fisher information of a :class:`GaussianHeat` at one point."""

    problem: GaussianHeat
    x: Array

    @cached_property
    def spectrum(self) -> HeatSpectrum:
        return HeatSpectrum.of(self.x[self.problem.n_edges :], self.problem.kernel)

    @property
    def w(self) -> Array:
        return self.x[: self.problem.n_edges]

    @cached_property
    def _eigen(self) -> tuple[Array, Array]:
        lam, U = np.linalg.eigh(self.problem.candidates.laplacian(self.w))
        return np.maximum(lam, 0.0), U

    @property
    def lam(self) -> Array:
        """Eigenvalues of the Laplacian, ascending."""
        return self._eigen[0]

    @property
    def U(self) -> Array:
        """Its eigenvectors, as columns."""
        return self._eigen[1]

    @cached_property
    def f(self) -> Array:
        """Eigenvalues of the covariance, (N,)."""
        return self.spectrum.values(self.lam)

    @cached_property
    def _moment(self) -> Array:
        """``U^T S U``."""
        return self.U.T @ self.problem.S @ self.U

    @cached_property
    def value(self) -> float:
        fit = float(np.log(self.f).sum() + (np.diag(self._moment) / self.f).sum())
        penalty = self.problem.penalty
        return fit if penalty is None else fit + penalty.value(self.w)

    def misfit(self, S: Array) -> float:
        """``log det C + tr(C^-1 S)`` of another second moment."""
        return float(np.log(self.f).sum()) + self._form(S)

    def rescaled_misfit(self, S: Array) -> float:
        """The least of ``log det (a C) + tr(C^-1 S) / a`` over ``a > 0``.

        That is ``log det C + N log(tr(C^-1 S) / N) + N``: how well the shape of ``C`` fits.
        """
        N = self.lam.size
        return float(np.log(self.f).sum()) + N * (float(np.log(self._form(S) / N)) + 1.0)

    def _form(self, S: Array) -> float:
        """``tr(C^-1 S)``."""
        return float((np.einsum("nk,nk->k", self.U, S @ self.U) / self.f).sum())

    @cached_property
    def differences(self) -> Array:
        """Divided differences of ``f``, (N, N): ``dC = U (F o U^T dL U) U^T``."""
        F = np.zeros((self.lam.size, self.lam.size))
        for v, tau in zip(self.spectrum.v, self.spectrum.tau, strict=True):
            F += v * self.spectrum.power.differences(self.lam, float(tau))
        return F

    @cached_property
    def spectral_slopes(self) -> Array:
        return self.spectrum.slopes(self.lam)

    @cached_property
    def inverse_products(self) -> Array:
        """``1 / (f_k f_l)``, (N, N)."""
        return np.outer(1.0 / self.f, 1.0 / self.f)

    @cached_property
    def gradient(self) -> Array:
        """In the eigenbasis ``dphi/dC`` is ``diag(1/f) - U^T S U / (f f^T)``."""
        G = -self._moment * self.inverse_products
        _diagonal(G)[:] += 1.0 / self.f
        slopes = self.slopes(G)
        penalty = self.problem.penalty
        if penalty is not None:
            slopes[: self.problem.n_edges] += penalty.slope(self.w)
        return slopes

    @cached_property
    def kernel(self) -> Array:
        """``W_kl = F_kl^2 / (f_k f_l)``, (N, N): the information between two modes."""
        W: Array = np.square(self.differences)
        W *= self.inverse_products
        return W

    def information(self, d: Array) -> Array:
        """``F d``, with ``F_ef = tr(C^-1 C_e C^-1 C_f)``: the mean Hessian of ``phi``.

        ``M / 2`` times ``F`` is the Fisher information of ``M`` signals.
        """
        E = self.problem.n_edges
        T = self.U.T @ self.problem.candidates.laplacian(d[:E]) @ self.U
        bend, precision = np.diag(self.differences), 1.0 / np.square(self.f)
        spectral = d[E:] @ self.spectral_slopes
        others = self.spectral_slopes @ ((bend * np.diag(T) + spectral) * precision)
        T *= self.kernel
        _diagonal(T)[:] += bend * spectral * precision
        return np.concatenate([self.problem.candidates.adjoint(self.U @ T @ self.U.T), others])

    def information_between(self, some: Ints) -> Array | InformationProducts:
        """``F`` between some parameters: a matrix, or what multiplies as one does.

        ``some`` are numbers of parameters, ascending.
        """
        if some.size > FEW_PARAMETERS:
            return InformationProducts(self.information, self.x.size, some)
        candidates = self.problem.candidates
        edges, others = np.split(some, [np.searchsorted(some, candidates.n_edges)])
        pairs = candidates.some(edges)
        keep = np.append(np.arange(edges.size), others - candidates.n_edges + edges.size)
        F = self.information_matrix(pairs, pairs)
        return F if keep.size == len(F) else F[np.ix_(keep, keep)]

    def information_matrix(self, rows: CandidateEdges, columns: CandidateEdges) -> Array:
        """``F`` of the weights of ``rows`` and all else, against those of ``columns`` and all else.

        (rows + other parameters, columns + other parameters).  With ``a_e = U^T (d_i - d_j)`` the
        part of two weights is ``sum_kl a_ek a_fk W_kl a_el a_fl``, which is
        ``sum_r s_r (a_e^T diag(Q_r) a_f)^2``.
        """
        A = self.U[rows.i] - self.U[rows.j]
        B = A if rows is columns else self.U[columns.i] - self.U[columns.j]
        s, Q = self.curvature_terms
        between = np.zeros((len(A), len(B)))
        for first in range(0, len(A), PAIRS_AT_ONCE):
            some = slice(first, first + PAIRS_AT_ONCE)
            for s_r, q in zip(s, Q, strict=True):
                part = (A[some] * q) @ B.T
                np.square(part, out=part)
                part *= s_r
                between[some] += part
        slopes = self.spectral_slopes / np.square(self.f)
        bend = np.diag(self.differences)
        other_rows, other_columns = np.square(A) * bend, np.square(B) * bend
        others = slopes @ self.spectral_slopes.T
        return np.block([[between, other_rows @ slopes.T], [slopes @ other_columns.T, others]])

    def slopes(self, K: Array) -> Array:
        """Slopes in every parameter of a function with slope ``K`` in ``C``, in the eigenbasis."""
        in_w = self.problem.candidates.adjoint(self.U @ (self.differences * K) @ self.U.T)
        return np.concatenate([in_w, self.spectral_slopes @ np.diag(K)])

    @cached_property
    def curvature_terms(self) -> tuple[Array, Array]:
        """``s`` (R,) and ``Q`` (R, N) with ``W_kl = sum_r s_r Q_rk Q_rl``.

        ``W`` is a smooth function of two eigenvalues, so that about ten terms do, and a few of
        its columns span the others.
        """
        W, basis = self.kernel, None
        if len(W) > COLUMNS:
            some = np.linspace(0.0, len(W) - 1.0, COLUMNS).round().astype(np.intp)
            basis = np.linalg.qr(W[:, some])[0]
            small = basis.T @ W @ basis
            missed = np.abs(basis @ small @ basis.T - W).max()
            if missed > RANK_TOL * W.max():  # not smooth enough: eigenvalues that are far apart
                basis = None
        s, Q = np.linalg.eigh(W if basis is None else small)
        large = np.abs(s) > RANK_TOL * np.abs(s).max()
        terms: Array = Q.T[large] if basis is None else (basis @ Q[:, large]).T
        return s[large], terms

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of ``F``.

        With ``a = U^T (d_i - d_j)``, ``F_ee = sum_kl a_k^2 a_l^2 W_kl``, which is
        ``sum_r s_r (a^T diag(Q_r) a)^2``.
        """
        in_w = np.zeros(self.problem.n_edges)
        for s, q in zip(*self.curvature_terms, strict=True):
            in_w += s * np.square(self.problem.candidates.adjoint((self.U * q) @ self.U.T))
        others = np.square(self.spectral_slopes / self.f).sum(axis=1)
        # Below zero only by rounding, where the information vanishes.
        return np.maximum(np.concatenate([in_w, others]), LEAST_INFORMATION)

    @property
    def covariance(self) -> Array:
        """``C = U f(lam) U^T``."""
        return _symmetric((self.U * self.f) @ self.U.T)

    @property
    def precision(self) -> Array:
        """``C^-1``."""
        return _symmetric((self.U / self.f) @ self.U.T)


@dataclass(frozen=True, eq=False)
class InformationProducts:
    """Products with the information between ``some`` of ``n`` parameters, by that of all."""

    information: Callable[[Array], Array]
    n: int
    some: Ints

    def __matmul__(self, d: Array) -> Array:
        whole = np.zeros(self.n)
        whole[self.some] = d
        return self.information(whole)[self.some]


def _heaviest(kernel: Kernel) -> float:
    """The largest weight of an edge, in units of its scale."""
    slope = float(kernel.slope(np.array([HEAVIEST]), 1.0)[0])
    return HEAVIEST if abs(slope) < NO_SLOPE else HEAVIEST_SLOW


def _diagonal(A: Array) -> Array:
    """The diagonal of a contiguous matrix, to be written to."""
    return A.reshape(-1)[:: len(A) + 1]


def _symmetric(A: Array) -> Array:
    """Of the two triangles, which differ by rounding, their mean."""
    return 0.5 * (A + A.T)
