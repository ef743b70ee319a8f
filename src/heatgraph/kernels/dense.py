"""The heat kernel by one eigendecomposition: apply it, differentiate it."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["DenseHeat", "divided_difference_sum"]

Array = NDArray[np.float64]


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

    @property
    def n_nodes(self) -> int:
        return self.lam.size

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
        N, S = self.n_nodes, len(tau)
        G = np.empty((S * N, S * N))
        for s in range(S):
            for t in range(s, S):
                block = self.operator(tau[s] + tau[t])
                G[s * N : (s + 1) * N, t * N : (t + 1) * N] = block
                G[t * N : (t + 1) * N, s * N : (s + 1) * N] = block
        return G

    def atom_norms(self, tau: Array) -> Array:
        """``omega_si = ||exp(-tau_s L) delta_i|| = sqrt([exp(-2 tau_s L)]_ii)``, (S, N)."""
        return np.sqrt(self.decay(2.0 * tau) @ np.square(self.U).T)

    def adjoint_derivative(self, t: Array, P: Array) -> Array:
        """``sum_s`` of the gradients in ``L`` of ``tr(A_s exp(-t_s L))``, (N, N), symmetric.

        ``P[s] = U^T A_s U`` (S, N, N) comes in the eigenbasis, where callers have it for less.
        ``grad_L tr(A exp(-t L)) = -t U (sym(U^T A U) o B(t)) U^T``, with ``B(t)_kl`` the divided
        difference of ``exp`` at ``-t lam_k`` and ``-t lam_l``.
        """
        K = divided_difference_sum(self.lam, np.ascontiguousarray(t), P)
        G = self.U @ K @ self.U.T
        return 0.5 * (G + G.T)


@numba.njit(cache=True)
def divided_difference_sum(lam: Array, t: Array, P: Array) -> Array:
    """``K = sum_s -t_s sym(P_s) o B(t_s)`` (N, N) for ascending ``lam``.

    With ``x = -t lam`` and ``d = |x_k - x_l|``, ``B = exp(max(x_k, x_l)) (1 - exp(-d)) / d``:
    nothing overflows, ties are exact, and the difference of the two exponentials is only taken
    where it loses no digits (d > 1).
    """
    S, N = t.size, lam.size
    K = np.zeros((N, N))
    decay = np.empty(N)
    for s in range(S):
        ts = t[s]
        for k in range(N):
            decay[k] = np.exp(-ts * lam[k])
        for k in range(N):
            K[k, k] -= ts * P[s, k, k] * decay[k]
            for m in range(k + 1, N):
                d = ts * (lam[m] - lam[k])
                if d > 1.0:
                    b = (decay[k] - decay[m]) / d
                elif d > 0.0:
                    b = decay[k] * (-np.expm1(-d) / d)
                else:
                    b = decay[k]
                K[k, m] -= 0.5 * ts * (P[s, k, m] + P[s, m, k]) * b
    for k in range(N):
        for m in range(k + 1, N):
            K[m, k] = K[k, m]
    return K
