"""The objective of LearnHeat: fit, sparsity, spread; its value and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from heatgraph.arrays import Array, Ints, Mask
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels.eigen import DenseHeat, dense_kernel
from heatgraph.kernels.spectral import Kernel
from heatgraph.models.atoms import AtomWeights
from heatgraph.models.penalties import L1, Penalty, tangent


@dataclass(frozen=True, eq=False)
class Signals:
    """Observations ``X`` (N, M), zero where not observed, and the mask (N, M), or None for all."""

    X: Array
    observed: Mask | None = None

    @classmethod
    def from_missing(cls, X: Array) -> Signals:
        """NaN marks an entry that was not observed."""
        missing = np.isnan(X)
        if not missing.any():
            return cls(X)
        return cls(np.where(missing, 0.0, X), ~missing)

    @classmethod
    def joined(cls, parts: Sequence[Signals]) -> Signals:
        """Signals one after the other; all of them have a mask, or none."""
        masks = [part.observed for part in parts if part.observed is not None]
        return cls(np.hstack([part.X for part in parts]), np.hstack(masks) if masks else None)

    def take(self, which: Mask | Ints | slice) -> Signals:
        """Some of the signals."""
        observed = None if self.observed is None else self.observed[:, which]
        return Signals(np.ascontiguousarray(self.X[:, which]), observed)

    def sample(self, which: Ints) -> Signals:
        """Some of the signals in memory, as signals elsewhere have it too."""
        return self.take(which)

    @property
    def n_observed(self) -> Ints:
        """How many of the signals were observed at each node, (N,)."""
        N, M = self.X.shape
        return np.full(N, M) if self.observed is None else self.observed.sum(axis=1)

    @property
    def n_nodes(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_signals(self) -> int:
        return int(self.X.shape[1])

    @property
    def total_energy(self) -> float:
        """The squared norm of all signals."""
        return float(self.energy.sum())

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

    @cached_property
    def gram(self) -> Array:
        """``D^T D``, (S N, S N)."""
        return self.kernel.gram(self.tau)

    def correlations(self, Xhat: Array) -> Array:
        """``D^T x`` of each signal, (M, S N); ``Xhat = X U`` (M, N) are in the eigenbasis."""
        spectral = self.decay[None] * Xhat[:, None, :]
        flat = spectral.reshape(-1, self.kernel.n_nodes) @ self.kernel.U.T
        return flat.reshape(len(Xhat), self.n_atoms)

    def synthesis(self, h: Array) -> Array:
        """``D h = sum_s E_s h_s``: codes (M, S N) to signals (M, N)."""
        return self.synthesis_hat(self.modes(h)) @ self.kernel.U.T

    def modes(self, h: Array) -> Array:
        """Codes (M, S N) in the eigenbasis, (M, S, N)."""
        # One product of two matrices: a stack of them would be many small products.
        shape = (len(h), *self.decay.shape)
        return (h.reshape(-1, shape[2]) @ self.kernel.U).reshape(shape)

    def synthesis_hat(self, modes: Array) -> Array:
        """``D h`` in the eigenbasis, (M, N), of codes that are there too."""
        signals: Array = np.einsum("msn,sn->mn", modes, self.decay)
        return signals


@dataclass(frozen=True, eq=False)
class Moments:
    """What the gradients need of the signals: sums over signals, of a size that M does not enter.

    ``fit`` is ``||R||^2``; ``P[s] = U^T R H_s^T U`` (S, N, N); ``c[s, i] = sum_m |H_sim|``, each
    term times the slope of the penalty where that is not l1.
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
    """``||X - sum_s E_s H_s||^2 + alpha sum p(omega_si |H_sim|) + beta ||L||_F^2``.

    The ``penalty`` has ``p``; values and gradients are those of its tangent at given slopes, an l1
    penalty with a price of its own on each code (:mod:`heatgraph.models.penalties`).
    ``E_s = exp(-tau_s L(w))``, or ``g(L(w), tau_s)`` with another ``kernel``; the fit is over the
    observed entries, ``w >= 0`` on the candidate edges with ``sum(w) = N/2`` (so that ``tr L =
    N``), ``tau >= 0``.
    """

    candidates: CandidateEdges
    alpha: float
    beta: float
    atoms: AtomWeights
    kernel: Kernel | None = None
    penalty: Penalty = field(default_factory=L1)

    @property
    def total(self) -> float:
        """The sum of the weights that gives ``tr L = N``."""
        return 0.5 * self.candidates.n_nodes

    def dictionary(self, w: Array, tau: Array) -> Dictionary:
        kernel = dense_kernel(self.candidates.laplacian(w), self.kernel)
        return Dictionary(kernel, tau, kernel.decay(tau), self.atoms.weights(kernel, tau))

    def spread(self, w: Array) -> tuple[float, Array]:
        return spread(self.candidates, self.beta, w)

    def sizes(self, D: Dictionary, h: Array) -> Array:
        """``u = omega_si |H_sim|`` (M, S N): the share that each atom has of each signal."""
        return np.abs(h) * D.omega.ravel()

    def tangent(self, D: Dictionary, h: Array) -> tuple[Array, float]:
        """Of the penalty at codes ``h`` (M, S N): its slopes, and by how much it is above l1."""
        return tangent(self.penalty, self.sizes(D, h), self.alpha)

    def moments(
        self,
        D: Dictionary,
        signals: Signals,
        h: Array,
        slopes: Array | None = None,
        Xhat: Array | None = None,
    ) -> Moments:
        """The sums over signals at codes ``h`` (M, S N), with slopes of the penalty or those of l1.

        ``Xhat = X U`` (M, N) are the signals in the eigenbasis, where the caller has them.
        """
        U, shape = D.kernel.U, (len(h), *D.decay.shape)
        Xhat = signals.X.T @ U if Xhat is None else Xhat
        prices = np.abs(h)
        if slopes is not None:
            prices *= slopes
        modes = D.modes(h)
        Rhat = Xhat.copy()
        for s, decay in enumerate(D.decay):
            Rhat -= decay * modes[:, s]
        if signals.observed is not None:
            explained = (Xhat - Rhat) @ U.T
            Rhat = np.where(signals.observed.T, signals.X.T - explained, 0.0) @ U
        P = np.matmul(Rhat.T, modes.transpose(1, 0, 2))
        return Moments(float(np.vdot(Rhat, Rhat)), P, prices.reshape(shape).sum(axis=0))

    def value(self, D: Dictionary, w: Array, moments: Moments) -> float:
        """Of the tangent's objective, without the constant by which it is above l1."""
        return self.of_signals(D, moments) + self.spread(w)[0]

    def of_signals(self, D: Dictionary, moments: Moments) -> float:
        """The part of the value that depends on signals: fit and penalty."""
        return moments.fit + self.alpha * float(np.vdot(D.omega, moments.c))

    def evaluate(self, D: Dictionary, w: Array, moments: Moments) -> tuple[float, Array]:
        """The value, and the gradient (E + S,) in the weights and the scales."""
        spread, slopes = self.spread(w)
        slopes += self._slopes(D, moments)
        # dZ / d tau_s = -2 tr(R^T dE_s/dtau_s H_s), plus the penalty's part.
        modes = np.diagonal(moments.P, axis1=1, axis2=2)
        in_tau = -2.0 * np.sum(D.kernel.slopes_in_tau(D.tau) * modes, axis=1)
        in_tau += self.alpha * self.atoms.gradient_tau(D.kernel, D.tau, D.omega, moments.c)
        return self.of_signals(D, moments) + spread, np.concatenate([slopes, in_tau])

    def _slopes(self, D: Dictionary, moments: Moments) -> Array:
        """``grad_L Z = sum_s grad_L tr(A_s exp(-tau_s L))`` with ``A_s = -2 R H_s^T`` held."""
        K = D.kernel.trace_slopes(D.tau, moments.P)
        K *= -2.0
        extra = self.atoms.traces(D.kernel, D.tau, D.omega, moments.c)
        if extra is not None:
            K += self.alpha * D.kernel.power_trace_slopes(D.tau, extra)
        return self.candidates.adjoint(D.kernel.U @ K @ D.kernel.U.T)
