"""Any kernel of a Laplacian by one eigendecomposition, in the place of heat."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heatgraph.kernels.eigen import DenseHeat
from heatgraph.kernels.spectral import APART, HeatKernel, Kernel, Power, divided_differences

__all__ = ["DenseKernel", "dense_kernel"]

Array = NDArray[np.float64]

LEAST_TIME = 1e-12  # times at and below this have no slope worth dividing by


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
        return np.array([self.kernel.slope_in_tau(self.lam, t) for t in tau.tolist()])

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
