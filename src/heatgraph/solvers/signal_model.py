"""What is assumed of signals ``x = D h + u + noise``: sources of one sign, an unknown level.

The level ``u`` (N,) is the same for all signals, and not penalised.  Given a dictionary,
``phi(u) = min_H ||X - u 1^T - D H||^2 + penalty(H)`` is convex, with the gradient ``-2 sum_m r_m``
in the residuals ``r_m``.  As long as the codes keep their supports, ``phi`` is a quadratic with the
Hessian ``2 C``::

    C = sum_m O_m (I - P_m) O_m,

where ``O_m`` keeps what was observed of signal ``m``, and ``P_m`` projects on the observed part of
the atoms that it uses.  So ``phi`` is minimised by Newton's steps, and what is minimised over the
codes is minimised over the level too: the gradients in the graph and the scales stay what they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from heatgraph.graph.candidates import CandidateEdges
from heatgraph.models.heat import Dictionary, HeatObjective, Moments, Signals
from heatgraph.solvers.log_penalty import PENALTIES, Coder
from heatgraph.solvers.result import Solution
from heatgraph.solvers.signal_access import (
    BATCH,
    CODING_TOL,
    STEPS_PER_TANGENT,
    Ensemble,
    LocalSignals,
    energy_of,
    settle_by_rounds,
)

__all__ = ["PLAIN", "InterceptSignals", "LevelCodes", "SignalModel", "level_of", "subtract_level"]

Array = NDArray[np.float64]

LEVEL_TOL = 0.1 * CODING_TOL  # fall of phi that Newton's step promises, relative to the energy
MAX_STEPS = 50
# Shares of diag(n_observed) that are added to C.  Few are enough where supports stay what they
# are; with 1 the step is that of a quadratic which lies above phi everywhere.
RIDGES = (1e-6, 1e-3, 1e-1, 1.0)
ENOUGH = 0.1  # of the promised fall: a step that brings less is not taken
DEPENDENT = 1e-10  # added to the Gram matrix of atoms, relatively: they may depend on each other


@dataclass(frozen=True)
class SignalModel:
    """Whether sources are ``positive``, ``h >= 0``, and whether the level ``u`` is fitted, or 0."""

    positive: bool = False
    fit_intercept: bool = False

    def ensemble(self, signals: Signals | Ensemble, n_threads: int = 1) -> Ensemble:
        """The signals as the solver sees them; those that are not in memory as they are."""
        if not isinstance(signals, Signals):
            return signals
        local = LocalSignals(signals, n_threads, self.positive)
        return InterceptSignals(local) if self.fit_intercept else local

    def coder(self, penalty: str) -> Coder:
        """How the sources of signals around their level are found."""
        return partial(PENALTIES[penalty][1], positive=self.positive)


PLAIN = SignalModel()


@dataclass(frozen=True, eq=False)
class LevelCodes:
    """Codes ``h`` (M, S N), one row per signal, of the signals around the level ``u`` (N,)."""

    h: Array
    u: Array


def level_of(solution: Solution, n_nodes: int) -> Array:
    """The level (N,) of a fit; zero where none was fitted."""
    codes = solution.elsewhere
    return codes.u if isinstance(codes, LevelCodes) else np.zeros(n_nodes)


def subtract_level(signals: Signals, u: Array) -> Signals:
    """The signals around a level ``u`` (N,); entries that were not observed stay zero."""
    around = signals.X - u[:, None]
    if signals.observed is None:
        return Signals(around)
    return Signals(np.where(signals.observed, around, 0.0), signals.observed)


@dataclass(frozen=True, eq=False)
class InterceptSignals:
    """Signals in memory around an unknown level, which is found along with their codes.

    The level starts from zero, and the metric of the solver comes from the signals as they are:
    they should have a mean near zero at every node.
    """

    local: LocalSignals
    steps_per_tangent: ClassVar[int] = STEPS_PER_TANGENT

    @property
    def n_signals(self) -> int:
        return self.local.n_signals

    def contrasts(self, candidates: CandidateEdges) -> tuple[Array, float]:
        return self.local.contrasts(candidates)

    def silence(self, n_atoms: int) -> LevelCodes:
        return LevelCodes(self.local.silence(n_atoms), np.zeros(len(self.local.signals.X)))

    def code(
        self, objective: HeatObjective, D: Dictionary, start: LevelCodes, discount: Array | None
    ) -> tuple[LevelCodes, Moments]:
        """The sources and the level that minimise the objective together, by Newton's method."""
        problem = _Problem(self.local, objective, D, D.kernel.atoms(D.tau), discount)
        point = problem.at(start.u, start.h)
        for _ in range(MAX_STEPS):
            following = problem.step(point)
            if following is None:
                break
            point = following
        return point.codes, point.moments

    def discount(self, D: Dictionary, codes: LevelCodes, alpha: float) -> tuple[Array, float]:
        return self.local.discount(D, codes.h, alpha)

    def moments(self, objective: HeatObjective, D: Dictionary, codes: LevelCodes) -> Moments:
        return _around(self.local, codes.u).moments(objective, D, codes.h)

    def settle(self, objective: HeatObjective, D: Dictionary, codes: LevelCodes) -> LevelCodes:
        settled: LevelCodes = settle_by_rounds(self, objective, D, codes)
        return settled

    def sources(self, codes: LevelCodes, n_scales: int) -> Array:
        return self.local.sources(codes.h, n_scales)

    def pack(self, codes: LevelCodes) -> dict[str, NDArray[Any]]:
        return {**self.local.pack(codes.h), "level": codes.u}

    def unpack(self, arrays: Mapping[str, NDArray[Any]], n_atoms: int) -> LevelCodes:
        return LevelCodes(self.local.unpack(arrays, n_atoms), arrays["level"])


def _around(local: LocalSignals, u: Array) -> LocalSignals:
    return replace(local, signals=subtract_level(local.signals, u))


@dataclass(frozen=True, eq=False)
class _Point:
    """A level with the best codes for it, their sums, and ``phi``."""

    codes: LevelCodes
    moments: Moments
    value: float


@dataclass(frozen=True, eq=False)
class _Problem:
    """``phi(u)`` of some signals on a dictionary with the atoms (N, S N)."""

    local: LocalSignals
    objective: HeatObjective
    D: Dictionary
    atoms: Array
    discount: Array | None

    def at(self, u: Array, start: Array) -> _Point:
        around = _around(self.local, u)
        h, moments = around.code(self.objective, self.D, start, self.discount)
        value = moments.fit + self.objective.alpha * float(np.vdot(self.D.omega, moments.c))
        return _Point(LevelCodes(h, u), moments, value)

    def step(self, point: _Point) -> _Point | None:
        """A point that is lower; None where no step promises enough, or keeps its promise."""
        u, h, signals = point.codes.u, point.codes.h, self.local.signals
        left = self._residual(u, h).sum(axis=1)
        C, n = self._curvature(h), np.maximum(signals.n_observed, 1)
        for ridge in RIDGES:
            step = np.linalg.solve(C + np.diag(ridge * n), left)
            # On the quadratic phi falls by 2 left.step - step.C step >= left.step.
            promise = float(left @ step)
            if promise <= LEVEL_TOL * energy_of(signals):
                return None
            trial = self.at(u + step, h)
            if point.value - trial.value >= ENOUGH * promise:
                return trial
        return None

    def _residual(self, u: Array, h: Array) -> Array:
        """``X - u 1^T - D H`` (N, M), zero where nothing was observed."""
        around = subtract_level(self.local.signals, u)
        residual = around.X - self.atoms @ h.T
        return residual if around.observed is None else np.where(around.observed, residual, 0.0)

    def _curvature(self, h: Array) -> Array:
        """``C`` (N, N) at the supports of codes."""
        signals = self.local.signals
        C = np.diag(signals.n_observed.astype(np.float64))
        for first in range(0, len(h), BATCH):
            some = slice(first, first + BATCH)
            observed = None if signals.observed is None else signals.observed[:, some].T
            C -= _projections(self.atoms, h[some] != 0.0, observed)
        return C


def _projections(atoms: Array, used: NDArray[np.bool_], observed: NDArray[Any] | None) -> Array:
    """``sum_m O_m P_m O_m`` (N, N) of the atoms (N, K) that are used, (m, K)."""
    most = int(used.sum(axis=1).max())
    # Arrays of one size: atoms beyond a signal's own support are set to zero.
    which = np.argsort(~used, axis=1, kind="stable")[:, :most]
    there = np.take_along_axis(used, which, axis=1)
    A = atoms.T[which] * there[:, :, None]
    if observed is not None:
        A *= observed[:, None, :]
    G = A @ A.transpose(0, 2, 1)
    diagonal = np.einsum("mkk->mk", G)
    diagonal *= 1.0 + DEPENDENT
    diagonal[diagonal == 0.0] = 1.0
    N = len(atoms)
    total: Array = A.reshape(-1, N).T @ np.linalg.solve(G, A).reshape(-1, N)
    return total
