"""The weight that the sparsity penalty puts on each atom: the paper's, and the unit-norm one."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from heatgraph.arrays import Array
from heatgraph.kernels.eigen import DenseHeat


class AtomWeights(Protocol):
    """``omega`` in the penalty ``alpha sum_{s,i,m} omega_si |H_sim|``, and its derivatives.

    With ``c_si = sum_m |H_sim|`` held, the penalty is ``alpha <c, omega(L, tau)>``.
    """

    def weights(self, kernel: DenseHeat, tau: Array) -> Array:
        """``omega`` (S, N)."""
        ...

    def traces(self, kernel: DenseHeat, tau: Array, omega: Array, c: Array) -> Array | None:
        """``P`` with ``d_L <c, omega> = sum_s d_L tr(U P_s U^T g(L, tau_s)^2)``, or None."""
        ...

    def gradient_tau(self, kernel: DenseHeat, tau: Array, omega: Array, c: Array) -> Array:
        """The gradient (S,) of ``<c, omega>`` in the scales."""
        ...


class RawAtoms:
    """``omega = 1``: the paper's penalty, which taxes an atom for the mass it carries."""

    def weights(self, kernel: DenseHeat, tau: Array) -> Array:
        return np.ones((tau.size, kernel.n_nodes))

    def traces(self, kernel: DenseHeat, tau: Array, omega: Array, c: Array) -> Array | None:
        return None

    def gradient_tau(self, kernel: DenseHeat, tau: Array, omega: Array, c: Array) -> Array:
        return np.zeros_like(tau)


class UnitAtoms:
    """``omega_si = ||exp(-tau_s L) delta_i||_2``: every atom costs its norm.

    Differs from the paper: with ``omega = 1`` the identity dictionary (``tau = 0``) minimises fit
    plus penalty whatever the graph, because diffusion only ever lowers the l1 norm.
    """

    def weights(self, kernel: DenseHeat, tau: Array) -> Array:
        return kernel.atom_norms(tau)

    def traces(self, kernel: DenseHeat, tau: Array, omega: Array, c: Array) -> Array | None:
        # omega^2 = diag g(L, tau)^2, so d<c, omega> = d tr(diag(c / (2 omega)) g(L, tau)^2).
        return np.stack([kernel.U.T @ (a[:, None] * kernel.U) for a in c / (2.0 * omega)])

    def gradient_tau(self, kernel: DenseHeat, tau: Array, omega: Array, c: Array) -> Array:
        # d omega_si / d tau_s = [d/dtau g(L, tau_s)^2]_ii / (2 omega_si)
        slope = kernel.power_slopes_in_tau(tau) @ np.square(kernel.U).T
        gradient: Array = 0.5 * np.sum(c * slope / omega, axis=1)
        return gradient


ATOMS: dict[str, AtomWeights] = {"raw": RawAtoms(), "unit": UnitAtoms()}
