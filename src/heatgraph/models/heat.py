"""The objective of LearnHeat: fit, sparsity, spread; its value and its gradients.

With ``u = omega_si |H_sim|``, the size of what atom ``(s, i)`` adds to signal ``m``, the penalty is
``alpha sum p(u)``.  ``p`` is increasing and concave, with ``p(0) = 0`` and ``p'(0) = 1``.  So its
tangent at any ``u0`` lies above it, and the tangent is an l1 penalty with a price of its own on
each code: the fit with any penalty is a series of l1 fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from heatgraph.arrays import Array, Ints, Mask
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels.eigen import DenseHeat, dense_kernel
from heatgraph.kernels.spectral import Kernel


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
        return np.einsum("nm,nm->m", self.X, self.X)


def units_of(signals: Any) -> tuple[float, float]:
    """What 1 means for alpha and for beta, so that neither depends on the units of X or on M.

    The norm of a typical signal; the energy of all signals over the number of nodes, as
    ``||L||_F^2`` grows with that number.
    """
    total = signals.total_energy
    return float(np.sqrt(total / signals.n_signals)), total / signals.n_nodes


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
        flat = spectral.reshape(-1, Xhat.shape[1]) @ self.kernel.U.T
        return flat.reshape(len(Xhat), self.decay.size)

    def synthesis(self, h: Array) -> Array:
        """``D h = sum_s E_s h_s``: codes (M, S N) to signals (M, N)."""
        return np.einsum("msn,sn->mn", self.modes(h), self.decay) @ self.kernel.U.T

    def modes(self, h: Array) -> Array:
        """Codes (M, S N) in the eigenbasis, (M, S, N)."""
        # One product of two matrices: a stack of them would be many small products.
        shape = (len(h), *self.decay.shape)
        return (h.reshape(-1, shape[2]) @ self.kernel.U).reshape(shape)


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


class Penalty(Protocol):
    """``alpha p(u)`` of each code, where ``p`` may depend on alpha."""

    @property
    def is_linear(self) -> bool:
        """Whether the penalty is its own tangent everywhere, as the l1 norm is."""
        ...

    def value(self, u: Array, alpha: float) -> Array:
        """``alpha p(u)`` of each entry."""
        ...

    def slope(self, u: Array, alpha: float) -> Array:
        """``p'(u)`` of each entry, in [0, 1]: the price of a code relative to that of l1."""
        ...


def tangent(penalty: Penalty, u: Array, alpha: float) -> tuple[Array, float]:
    """The slopes of a penalty at ``u``, and ``sum alpha (p(u) - p'(u) u)``.

    The second is the constant by which the tangent passes above its own l1 term.
    """
    slopes = penalty.slope(u, alpha)
    return slopes, float(np.sum(penalty.value(u, alpha) - alpha * slopes * u))


class L1:
    """``p(u) = u``: the paper's penalty.  It finds the sources and also shrinks them."""

    is_linear = True

    def value(self, u: Array, alpha: float) -> Array:
        return alpha * u

    def slope(self, u: Array, alpha: float) -> Array:
        return np.ones_like(u)


class LogSum:
    """``p(u) = e log(1 + u / e)`` with ``e = alpha``.

    ``e`` is the size at which an atom's share of a signal is no longer taken for noise.  Larger
    codes are hardly shrunk.

    Differs from the paper, whose penalty is the l1 norm: what that takes from the codes, the graph
    makes up for.
    """

    is_linear = False

    def value(self, u: Array, alpha: float) -> Array:
        return alpha * alpha * np.log1p(u / alpha) if alpha > 0.0 else np.zeros_like(u)

    def slope(self, u: Array, alpha: float) -> Array:
        return alpha / (alpha + u) if alpha > 0.0 else np.ones_like(u)


PENALTIES: dict[str, Penalty] = {"l1": L1(), "log": LogSum()}


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
        return np.ones((tau.size, kernel.lam.size))

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
        # omega^2 = diag g(L, tau)^2
        return np.sqrt(kernel.powers(tau) @ np.square(kernel.U).T)

    def traces(self, kernel: DenseHeat, tau: Array, omega: Array, c: Array) -> Array | None:
        # d<c, omega> = d tr(diag(c / (2 omega)) g(L, tau)^2).
        return np.stack([kernel.U.T @ (a[:, None] * kernel.U) for a in c / (2.0 * omega)])

    def gradient_tau(self, kernel: DenseHeat, tau: Array, omega: Array, c: Array) -> Array:
        # d omega_si / d tau_s = [d/dtau g(L, tau_s)^2]_ii / (2 omega_si)
        slope = kernel.power_slopes_in_tau(tau) @ np.square(kernel.U).T
        return 0.5 * np.sum(c * slope / omega, axis=1)


ATOMS: dict[str, AtomWeights] = {"raw": RawAtoms(), "unit": UnitAtoms()}


def spread(candidates: CandidateEdges, beta: float, w: Array) -> tuple[float, Array]:
    """``beta ||L||_F^2 = beta (2 ||w||^2 + ||deg||^2)`` and its gradient in ``w``."""
    degrees = candidates.degrees(w)
    value = beta * float(2.0 * w @ w + degrees @ degrees)
    return value, beta * (4.0 * w + 2.0 * (degrees[candidates.i] + degrees[candidates.j]))


@dataclass(frozen=True, eq=False)
class HeatObjective:
    """``||X - sum_s E_s H_s||^2 + alpha sum p(omega_si |H_sim|) + beta ||L||_F^2``.

    The ``penalty`` has ``p``; values and gradients are those of its tangent at given slopes, an l1
    penalty with a price of its own on each code.
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

    def tangent(self, D: Dictionary, h: Array) -> tuple[Array, float]:
        """Of the penalty at codes ``h`` (M, S N): its slopes, and by how much it is above l1."""
        return tangent(self.penalty, np.abs(h) * D.omega.ravel(), self.alpha)

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
        return self.of_signals(D, moments) + spread(self.candidates, self.beta, w)[0]

    def of_signals(self, D: Dictionary, moments: Moments) -> float:
        """The part of the value that depends on signals: fit and penalty."""
        return moments.fit + self.alpha * float(np.vdot(D.omega, moments.c))

    def evaluate(self, D: Dictionary, w: Array, moments: Moments) -> tuple[float, Array]:
        """The value, and the gradient (E + S,) in the weights and the scales."""
        even, slopes = spread(self.candidates, self.beta, w)
        # grad_L Z = sum_s grad_L tr(A_s exp(-tau_s L)) with A_s = -2 R H_s^T held.
        K = D.kernel.trace_slopes(D.tau, moments.P)
        K *= -2.0
        extra = self.atoms.traces(D.kernel, D.tau, D.omega, moments.c)
        if extra is not None:
            K += self.alpha * D.kernel.power_trace_slopes(D.tau, extra)
        slopes += self.candidates.adjoint(D.kernel.U @ K @ D.kernel.U.T)
        # dZ / d tau_s = -2 tr(R^T dE_s/dtau_s H_s), plus the penalty's part.
        modes = np.diagonal(moments.P, axis1=1, axis2=2)
        in_tau = -2.0 * np.sum(D.kernel.slopes_in_tau(D.tau) * modes, axis=1)
        in_tau += self.alpha * self.atoms.gradient_tau(D.kernel, D.tau, D.omega, moments.c)
        return self.of_signals(D, moments) + even, np.concatenate([slopes, in_tau])
