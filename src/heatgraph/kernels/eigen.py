"""The heat kernel, or another, by one eigendecomposition: apply it, differentiate it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from heatgraph.arrays import Array
from heatgraph.kernels import native
from heatgraph.kernels.spectral import APART, HeatKernel, Kernel, Power, divided_differences

LEAST_TIME = 1e-12  # times at and below this have no slope worth dividing by


@dataclass(frozen=True, eq=False)
class DenseHeat:
    """``exp(-t L) = U diag(exp(-t lam)) U^T`` for every ``t``, from one ``eigh`` of ``L`` (N, N).

    ``lam`` (N,) is ascending and clipped at zero: a Laplacian has no negative eigenvalue, and
    rounding must not let heat grow.
    """

    lam: Array
    U: Array

    @classmethod
    def from_laplacian(cls, L: Array) -> DenseHeat:
        lam, U = np.linalg.eigh(L)
        return cls(np.maximum(lam, 0.0), np.ascontiguousarray(U))

    def decay(self, tau: Array) -> Array:
        """``exp(-tau_s lam_k)`` (S, N): what is left of each mode at each scale."""
        return np.exp(-np.multiply.outer(tau, self.lam))

    def operator(self, t: float) -> Array:
        """``exp(-t L)`` (N, N), symmetric to the last bit."""
        half = self.U * np.exp(-0.5 * t * self.lam)
        return half @ half.T

    def atoms(self, tau: Array) -> Array:
        """The dictionary ``[exp(-tau_1 L) ... exp(-tau_S L)]``, (N, S N)."""
        return np.hstack([self.operator(t) for t in tau])

    def gram(self, tau: Array) -> Array:
        """``D^T D`` (S N, S N): block (s, t) is ``exp(-(tau_s + tau_t) L)``."""
        N, S = self.lam.size, len(tau)
        G = np.empty((S * N, S * N))
        halves = np.exp(-np.multiply.outer(0.5 * np.add.outer(tau, tau), self.lam))
        half = np.empty_like(self.U)
        for s in range(S):
            for t in range(s, S):
                np.multiply(self.U, halves[s, t], out=half)
                block = G[s * N : (s + 1) * N, t * N : (t + 1) * N]
                np.matmul(half, half.T, out=block)
                if t > s:
                    G[t * N : (t + 1) * N, s * N : (s + 1) * N] = block
        return G

    def powers(self, tau: Array) -> Array:
        """The squares of :meth:`decay`, (S, N)."""
        return np.exp(-2.0 * np.multiply.outer(tau, self.lam))

    def slopes_in_tau(self, tau: Array) -> Array:
        """The derivative of :meth:`decay` in the scales, (S, N)."""
        return -self.lam * self.decay(tau)

    def power_slopes_in_tau(self, tau: Array) -> Array:
        """The derivative of :meth:`powers` in the scales, (S, N)."""
        return -2.0 * self.lam * np.exp(-2.0 * np.multiply.outer(tau, self.lam))

    def trace_slopes(self, tau: Array, P: Array) -> Array:
        """The gradient of ``sum_s tr(A_s exp(-tau_s L))`` in the eigenbasis, (N, N).

        ``P[s] = U^T A_s U``, (S, N, N).
        """
        return divided_difference_sum(self.lam, np.ascontiguousarray(tau), P)

    def power_trace_slopes(self, tau: Array, P: Array) -> Array:
        """The same of ``sum_s tr(A_s exp(-2 tau_s L))``."""
        return divided_difference_sum(self.lam, 2.0 * tau, P)


def divided_difference_sum(lam: Array, t: Array, P: Array) -> Array:
    """``K = sum_s -t_s sym(P_s) o B(t_s)`` (N, N).

    Proposition 1 of the paper: ``grad_L tr(A exp(-t L)) = -t U (sym(U^T A U) o B(t)) U^T`` over
    symmetric ``L``, with ``B(t)_kl`` the divided difference of ``exp`` at ``-t lam_k`` and
    ``-t lam_l``.  ``P_s = U^T A_s U``.
    """
    if len(t) != len(P):
        raise ValueError(f"there are {len(t)} times, and {len(P)} matrices.")
    Q = (P + P.transpose(0, 2, 1)) * (-0.5 * t)[:, None, None]
    K = np.empty((lam.size, lam.size))
    native.divided_differences(lam, t, Q, K)
    return K


def dense_kernel(L: Array, kernel: Kernel | None) -> DenseHeat:
    """The eigendecomposition of ``L`` (N, N) with a kernel; None is heat."""
    heat = DenseHeat.from_laplacian(L)
    return heat if kernel is None else DenseKernel(heat.lam, heat.U, kernel)


@dataclass(frozen=True, eq=False)
class DenseKernel(DenseHeat):
    """``g(L, t) = U diag(g(lam, t)) U^T`` with all that the heat kernel offers."""

    kernel: Kernel = field(default_factory=HeatKernel)

    def decay(self, tau: Array) -> Array:
        """``g(lam_k, tau_s)``, (S, N)."""
        return np.array([self.kernel.value(self.lam, t) for t in tau.tolist()])

    def operator(self, t: float) -> Array:
        """``g(L, t)``, (N, N)."""
        return (self.U * self.kernel.value(self.lam, float(t))) @ self.U.T

    def gram(self, tau: Array) -> Array:
        """``D^T D`` (S N, S N): block (s, t) is ``g(L, tau_s) g(L, tau_t)``."""
        decay = self.decay(tau)
        rows = [[(self.U * (one * other)) @ self.U.T for other in decay] for one in decay]
        return np.block(rows)

    def powers(self, tau: Array) -> Array:
        return np.square(self.decay(tau))

    def slopes_in_tau(self, tau: Array) -> Array:
        times = np.maximum(tau, LEAST_TIME).tolist()
        return np.array([self.lam / t * self.kernel.slope(self.lam, t) for t in times])

    def power_slopes_in_tau(self, tau: Array) -> Array:
        return 2.0 * self.decay(tau) * self.slopes_in_tau(tau)

    def trace_slopes(self, tau: Array, P: Array) -> Array:
        """By divided differences of ``g``, summed over the scales."""
        return self._summed([self._differences(t) for t in tau.tolist()], P)

    def power_trace_slopes(self, tau: Array, P: Array) -> Array:
        power, times = Power(self.kernel), np.maximum(tau, LEAST_TIME)
        return self._summed([power.differences(self.lam, t) for t in times.tolist()], P)

    def _differences(self, t: float) -> Array:
        return divided_differences(
            lambda lam: self.kernel.value(lam, t),
            lambda lam: self.kernel.slope(lam, t),
            self.lam,
            APART / max(t, LEAST_TIME),
        )

    def _summed(self, differences: list[Array], P: Array) -> Array:
        found = np.zeros_like(self.U)
        for B, own in zip(differences, P, strict=True):
            found += 0.5 * (own + own.T) * B
        return found
