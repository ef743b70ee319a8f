"""The objective of LearnHeat: fit, sparsity, spread; its value and its gradients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels.eigen import DenseHeat
from heatgraph.kernels.eigen_kernel import dense_kernel
from heatgraph.kernels.spectral import Kernel
from heatgraph.models.atoms import AtomWeights

__all__ = ["Dictionary", "HeatObjective", "Moments", "Signals", "spread"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Signals:
    """Observations ``X`` (N, M), zero where not observed, and the mask (N, M), or None for all."""

    X: Array
    observed: NDArray[np.bool_] | None = None

    @classmethod
    def from_missing(cls, X: Array) -> Signals:
        """NaN marks an entry that was not observed."""
        missing = np.isnan(X)
        if not missing.any():
            return cls(X)
        return cls(np.where(missing, 0.0, X), ~missing)

    def take(self, which: NDArray[np.bool_] | NDArray[np.intp] | slice) -> Signals:
        """Some of the signals."""
        observed = None if self.observed is None else self.observed[:, which]
        return Signals(np.ascontiguousarray(self.X[:, which]), observed)

    @property
    def n_observed(self) -> NDArray[np.intp]:
        """How many of the signals were observed at each node, (N,)."""
        N, M = self.X.shape
        return np.full(N, M) if self.observed is None else self.observed.sum(axis=1)

    @cached_property
    def energy(self) -> Array:
        """The squared norm of each signal's observed entries, (M,)."""
        energy: Array = np.einsum("nm,nm->m", self.X, self.X)
        return energy


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Everything that depends on the graph and the scales but not on the signals."""

    kernel: DenseHeat
    tau: Array
    decay: Array
    omega: Array

    @property
    def n_atoms(self) -> int:
        return self.decay.size

    def correlations(self, Xhat: Array) -> Array:
        """``D^T X`` (S N, M) of signals given in the eigenbasis, ``Xhat = U^T X``."""
        S, N = self.decay.shape
        spectral = self.decay[None] * Xhat.T[:, None, :]
        return (spectral.reshape(-1, N) @ self.kernel.U.T).reshape(-1, S * N).T

    def synthesis_hat(self, Hhat: Array) -> Array:
        """``U^T sum_s E_s H_s`` (N, M) of sources given in the eigenbasis (S, N, M)."""
        synthesis: Array = np.einsum("snm,sn->nm", Hhat, self.decay)
        return synthesis

    def synthesis(self, H: Array) -> Array:
        """``sum_s E_s H_s`` (N, M)."""
        return self.kernel.U @ self.synthesis_hat(self.kernel.U.T @ H)


@dataclass(frozen=True, eq=False)
class Moments:
    """What the gradients need of the signals: sums over signals, of a size that M does not enter.

    ``fit`` is ``||R||^2``; ``P[s] = U^T R H_s^T U`` (S, N, N); ``c[s, i] = sum_m |H_sim|``, each
    term times its discount where there is one.
    """

    fit: float
    P: Array
    c: Array

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.fit + other.fit, self.P + other.P, self.c + other.c)


def spread(candidates: CandidateEdges, beta: float, w: Array) -> tuple[float, Array]:
    """``beta ||L||_F^2 = beta (2 ||w||^2 + ||deg||^2)`` and its gradient in ``w``."""
    degrees = candidates.degrees(w)
    value = beta * float(2.0 * w @ w + degrees @ degrees)
    return value, beta * (4.0 * w + 2.0 * (degrees[candidates.i] + degrees[candidates.j]))


@dataclass(frozen=True, eq=False)
class HeatObjective:
    """``||X - sum_s E_s H_s||^2 + alpha sum omega_si |H_sim| + beta ||L||_F^2``.

    ``E_s = exp(-tau_s L(w))``, or ``g(L(w), tau_s)`` with another ``kernel``; the fit is over the
    observed entries, ``w >= 0`` on the candidate edges with ``sum(w) = N/2`` (so that ``tr L =
    N``), ``tau >= 0``.
    """

    candidates: CandidateEdges
    alpha: float
    beta: float
    atoms: AtomWeights
    kernel: Kernel | None = None

    @property
    def total(self) -> float:
        """The sum of the weights that gives ``tr L = N``."""
        return 0.5 * self.candidates.n_nodes

    def dictionary(self, w: Array, tau: Array) -> Dictionary:
        kernel = dense_kernel(self.candidates.laplacian(w), self.kernel)
        return Dictionary(kernel, tau, kernel.decay(tau), self.atoms.weights(kernel, tau))

    def spread(self, w: Array) -> tuple[float, Array]:
        return spread(self.candidates, self.beta, w)

    def moments(
        self,
        D: Dictionary,
        signals: Signals,
        H: Array,
        Xhat: Array,
        discount: Array | None = None,
    ) -> Moments:
        """The sums over signals at sources ``H`` (S, N, M), each code's penalty discounted."""
        U = D.kernel.U
        rows = np.ascontiguousarray(H.transpose(2, 0, 1))  # as codes are kept
        sizes = np.abs(rows)
        if discount is not None:
            sizes *= discount.transpose(2, 0, 1)
        # One product of two matrices: a stack of them would be many small products.
        Hhat = (rows.reshape(-1, rows.shape[2]) @ U).reshape(rows.shape)
        Rhat = Xhat.T.copy()
        for s, decay in enumerate(D.decay):
            Rhat -= decay * Hhat[:, s]
        if signals.observed is not None:
            explained = (Xhat.T - Rhat) @ U.T
            Rhat = np.where(signals.observed.T, signals.X.T - explained, 0.0) @ U
        fit = float(np.vdot(Rhat, Rhat))
        return Moments(fit, np.matmul(Rhat.T, Hhat.transpose(1, 0, 2)), sizes.sum(axis=0))

    def value(self, D: Dictionary, w: Array, moments: Moments) -> float:
        return self._of_signals(D, moments) + self.spread(w)[0]

    def gradient_w(self, D: Dictionary, w: Array, moments: Moments) -> Array:
        gradient: Array = self._slopes(D, moments) + self.spread(w)[1]
        return gradient

    def evaluate(self, D: Dictionary, w: Array, moments: Moments) -> tuple[float, Array]:
        """The value and the gradient in the weights."""
        spread, slopes = self.spread(w)
        slopes += self._slopes(D, moments)
        return self._of_signals(D, moments) + spread, slopes

    def _of_signals(self, D: Dictionary, moments: Moments) -> float:
        return moments.fit + self.alpha * float(np.vdot(D.omega, moments.c))

    def _slopes(self, D: Dictionary, moments: Moments) -> Array:
        """``grad_L Z = sum_s grad_L tr(A_s exp(-tau_s L))`` with ``A_s = -2 R H_s^T`` held."""
        K = D.kernel.trace_slopes(D.tau, moments.P)
        K *= -2.0
        extra = self.atoms.traces(D.kernel, D.tau, D.omega, moments.c)
        if extra is not None:
            K += self.alpha * D.kernel.power_trace_slopes(D.tau, extra)
        return self.candidates.adjoint(D.kernel.U @ K @ D.kernel.U.T)

    def gradient_tau(self, D: Dictionary, moments: Moments) -> Array:
        """``dZ / d tau_s = -2 tr(R^T dE_s/dtau_s H_s)``, plus the penalty's part."""
        modes = np.diagonal(moments.P, axis1=1, axis2=2)
        fit: Array = -2.0 * np.sum(D.kernel.slopes_in_tau(D.tau) * modes, axis=1)
        return fit + self.alpha * self.atoms.gradient_tau(D.kernel, D.tau, D.omega, moments.c)

    def gradient_H(self, D: Dictionary, signals: Signals, H: Array) -> Array:
        """``-2 E_s R`` (S, N, M): the gradient of the fit in the sources."""
        R = signals.X - D.synthesis(H)
        if signals.observed is not None:
            R = np.where(signals.observed, R, 0.0)
        S, N = D.decay.shape
        return -2.0 * D.correlations(D.kernel.U.T @ R).reshape(S, N, -1)
