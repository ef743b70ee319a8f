"""The heat kernel by one eigendecomposition: apply it, differentiate it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from heatgraph.kernels.lanes import aligned

__all__ = ["DenseHeat", "divided_difference_sum"]

Array = NDArray[np.float64]

TILE = 128
BLOCK = 64  # rows of a symmetric product that are made together, from their diagonal on
# sinh(x) / x = sum_n x^(2n) / (2n + 1)!; at x = 1/2 what follows is below rounding.
SINHC = tuple(1.0 / math.factorial(2 * n + 1) for n in range(8))


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
        G = aligned((S * N) ** 2, np.float64).reshape(S * N, S * N)
        halves, half = self.decay(0.5 * np.add.outer(tau, tau)), np.empty_like(self.U)
        for s in range(S):
            for t in range(s, S):
                np.multiply(self.U, halves[s, t], out=half)
                block = G[s * N : (s + 1) * N, t * N : (t + 1) * N]
                np.matmul(half, half.T, out=block)
                if t > s:
                    G[t * N : (t + 1) * N, s * N : (s + 1) * N] = block
        return G

    def atom_norms(self, tau: Array) -> Array:
        """``omega_si = ||exp(-tau_s L) delta_i|| = sqrt([exp(-2 tau_s L)]_ii)``, (S, N)."""
        return np.sqrt(self.powers(tau) @ np.square(self.U).T)

    def powers(self, tau: Array) -> Array:
        """The squares of :meth:`decay`, (S, N)."""
        return self.decay(2.0 * tau)

    def slopes_in_tau(self, tau: Array) -> Array:
        """The derivative of :meth:`decay` in the scales, (S, N)."""
        return -self.lam * self.decay(tau)

    def power_slopes_in_tau(self, tau: Array) -> Array:
        """The derivative of :meth:`powers` in the scales, (S, N)."""
        return -2.0 * self.lam * self.powers(tau)

    def trace_slopes(self, tau: Array, P: Array) -> Array:
        """The gradient of ``sum_s tr(A_s exp(-tau_s L))`` in the eigenbasis, (N, N).

        ``P[s] = U^T A_s U``, (S, N, N).
        """
        return divided_difference_sum(self.lam, np.ascontiguousarray(tau), P)

    def power_trace_slopes(self, tau: Array, P: Array) -> Array:
        """The same of ``sum_s tr(A_s exp(-2 tau_s L))``."""
        return self.trace_slopes(2.0 * tau, P)

    def adjoint_derivative(self, t: Array, P: Array) -> Array:
        """``sum_s`` of the gradients in ``L`` of ``tr(A_s exp(-t_s L))``, (N, N), symmetric.

        ``P[s] = U^T A_s U`` (S, N, N) comes in the eigenbasis, where callers have it for less.
        ``grad_L tr(A exp(-t L)) = -t U (sym(U^T A U) o B(t)) U^T``, with ``B(t)_kl`` the divided
        difference of ``exp`` at ``-t lam_k`` and ``-t lam_l``.
        """
        G = self.from_eigenbasis(divided_difference_sum(self.lam, np.ascontiguousarray(t), P))
        return np.triu(G) + np.triu(G, 1).T

    def from_eigenbasis(self, K: Array) -> Array:
        """``U K U^T`` (N, N), ``K`` symmetric: on and above the diagonal, by blocks."""
        half, found = self.U @ K, np.empty_like(K)
        for top in range(0, self.n_nodes, BLOCK):
            rows = slice(top, top + BLOCK)
            np.matmul(half[rows], self.U[top:].T, out=found[rows, top:])
        return found


def divided_difference_sum(lam: Array, t: Array, P: Array) -> Array:
    """``K = sum_s -t_s sym(P_s) o B(t_s)`` (N, N) for ascending ``lam``.

    With ``x = -t lam`` and ``d = |x_k - x_l|``, ``B = exp((x_k + x_l) / 2) sinh(d/2) / (d/2)``,
    whose series needs eight terms where d <= 1: nothing overflows, ties are exact, and the
    difference of the two exponentials is only taken where it loses no digits (d > 1).
    """
    if len(t) != len(P):
        raise ValueError(f"there are {len(t)} times, and {len(P)} matrices.")
    return _divided_difference_sum(lam, t, P)


_compiled = numba.njit(cache=True, nogil=True, fastmath={"contract"})


@_compiled
def _divided_difference_sum(lam: Array, t: Array, P: Array) -> Array:
    K = np.zeros((lam.size, lam.size))
    for s in range(t.size):
        _add_divided_difference(K, lam, t[s], P[s])
    _mirror(K)
    return K


@_compiled
def _add_divided_difference(K: Array, lam: Array, t: float, P: Array) -> None:
    """``K -= t sym(P) o B(t)`` on and above the diagonal, by tiles: one is read transposed."""
    N = lam.size
    decay, half = np.empty(N), np.empty(N)
    for k in range(N):
        half[k] = np.exp(-0.5 * t * lam[k])
        decay[k] = np.exp(-t * lam[k])
    below = np.empty((TILE, TILE))
    for top in range(0, N, TILE):
        for left in range(top, N, TILE):
            rows, columns = min(TILE, N - top), min(TILE, N - left)
            for q in range(columns):
                for p in range(rows):
                    below[p, q] = P[left + q, top + p]
            for p in range(rows):
                k = top + p
                begin = max(left, k)
                _add_row(
                    K[k, begin : left + columns],
                    P[k, begin : left + columns],
                    below[p, begin - left : columns],
                    lam[begin : left + columns],
                    decay[begin : left + columns],
                    half[begin : left + columns],
                    t,
                    lam[k],
                    decay[k],
                    half[k],
                )


@_compiled
def _add_row(
    K: Array,
    right: Array,
    below: Array,
    lam: Array,
    decay: Array,
    half: Array,
    t: float,
    lam_k: float,
    decay_k: float,
    half_k: float,
) -> None:
    for m in range(K.size):
        d = t * (lam[m] - lam_k)
        z = 0.25 * d * d
        series = SINHC[7]
        series = series * z + SINHC[6]
        series = series * z + SINHC[5]
        series = series * z + SINHC[4]
        series = series * z + SINHC[3]
        series = series * z + SINHC[2]
        series = series * z + SINHC[1]
        series = series * z + 1.0
        apart = (decay_k - decay[m]) / max(d, 1.0)
        b = apart if d > 1.0 else half_k * half[m] * series
        K[m] -= 0.5 * t * (right[m] + below[m]) * b


@_compiled
def _mirror(K: Array) -> None:
    """Copy what is above the diagonal below it."""
    N = K.shape[0]
    for top in range(0, N, TILE):
        for left in range(top, N, TILE):
            for k in range(top, min(top + TILE, N)):
                for m in range(max(left, k + 1), min(left + TILE, N)):
                    K[m, k] = K[k, m]
