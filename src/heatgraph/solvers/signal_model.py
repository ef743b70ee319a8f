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
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heatgraph.arrays import Array, Mask
from heatgraph.models.heat import Dictionary, HeatObjective, Moments, Signals
from heatgraph.solvers.engine import BATCH, CODING_TOL, Engine, LocalEngine
from heatgraph.solvers.quasi_newton import Evaluation
from heatgraph.solvers.result import Solution

SETTLED = 1e-9  # relative fall of the objective from one tangent to the next: codes are found
MOST_TANGENTS = 50  # until then
LEVEL_TOL = 0.1 * CODING_TOL  # fall of phi that Newton's step promises, relative to the energy
MAX_STEPS = 50  # of Newton; a handful is usual, more only without a penalty
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


PLAIN = SignalModel()


@singledispatch
def engine_of(
    signals: Any, objective: HeatObjective, model: SignalModel = PLAIN, n_threads: int = 1
) -> Engine[Any, Any]:
    """The objective of signals, by the engine that their kind has registered."""
    raise TypeError(f"no engine is known for signals of the type {type(signals).__name__}")


@engine_of.register
def _(
    signals: Signals, objective: HeatObjective, model: SignalModel = PLAIN, n_threads: int = 1
) -> Engine[Any, Any]:
    local = LocalEngine(objective, signals, n_threads, model.positive)
    return InterceptEngine(local) if model.fit_intercept else local


@dataclass(frozen=True, eq=False)
class LevelCodes:
    """Codes ``h`` (M, S N), one row per signal, of the signals around the level ``u`` (N,)."""

    h: Array
    u: Array


def level_of(solution: Solution, n_nodes: int) -> Array:
    """The level (N,) of a fit; zero where none was fitted."""
    codes = solution.codes
    return codes.u if isinstance(codes, LevelCodes) else np.zeros(n_nodes)


def codes_of(solution: Solution) -> Array:
    """The codes (M, S N) of a fit of signals in memory, with a level or without."""
    return solution.codes.h if isinstance(solution.codes, LevelCodes) else solution.codes


def subtract_level(signals: Signals, u: Array) -> Signals:
    """The signals around a level ``u`` (N,); entries that were not observed stay zero."""
    around = signals.X - u[:, None]
    if signals.observed is None:
        return Signals(around)
    return Signals(np.where(signals.observed, around, 0.0), signals.observed)


@dataclass(frozen=True, eq=False)
class InterceptEngine:
    """Signals in memory around an unknown level, which is found along with their codes.

    The level starts from zero, and the metric of the solver comes from the signals as they are:
    they should have a mean near zero at every node.
    """

    local: LocalEngine

    @property
    def objective(self) -> HeatObjective:
        return self.local.objective

    @property
    def n_signals(self) -> int:
        return self.local.n_signals

    def evaluate(
        self, w: Array, tau: Array, codes: LevelCodes, slopes: Array | None = None
    ) -> Evaluation[LevelCodes]:
        D = self.objective.dictionary(w, tau)
        codes, moments = self.code(D, codes, slopes)
        return Evaluation(*self.objective.evaluate(D, w, moments), codes)

    def code(
        self, D: Dictionary, start: LevelCodes, slopes: Array | None
    ) -> tuple[LevelCodes, Moments]:
        """The sources and the level that minimise the objective together, by Newton's method."""
        problem = LevelProblem(self.local, D, D.kernel.atoms(D.tau), slopes)
        point = problem.at(start.u, start.h)
        for _ in range(MAX_STEPS):
            following = problem.step(point)
            if following is None:
                break
            point = following
        return point.codes, point.moments

    def tangent(self, w: Array, tau: Array, codes: LevelCodes) -> tuple[Array, float]:
        return self.local.tangent(w, tau, codes.h)

    def value(self, w: Array, tau: Array, codes: LevelCodes) -> float:
        return _around(self.local, codes.u).value(w, tau, codes.h)

    def settle(self, w: Array, tau: Array, codes: LevelCodes) -> LevelCodes:
        """All signals together, as the level joins them."""
        D, last = self.objective.dictionary(w, tau), np.inf
        for _ in range(MOST_TANGENTS):
            slopes, above = self.objective.tangent(D, codes.h)
            codes, moments = self.code(D, codes, slopes)
            value = self.objective.of_signals(D, moments) + above
            if last - value <= SETTLED * abs(value):
                break
            last = value
        return codes

    def contrasts(self) -> tuple[Array, float]:
        return self.local.contrasts()

    def zero_codes(self, n_atoms: int) -> LevelCodes:
        return LevelCodes(self.local.zero_codes(n_atoms), np.zeros(self.local.signals.n_nodes))

    def pack(self, codes: LevelCodes) -> dict[str, NDArray[Any]]:
        return {**self.local.pack(codes.h), "level": codes.u}

    def unpack(self, arrays: Mapping[str, NDArray[Any]], n_atoms: int) -> LevelCodes:
        return LevelCodes(self.local.unpack(arrays, n_atoms), arrays["level"])


def _around(local: LocalEngine, u: Array) -> LocalEngine:
    return replace(local, signals=subtract_level(local.signals, u))


@dataclass(frozen=True, eq=False)
class _Point:
    """A level with the best codes for it, their sums, and ``phi``."""

    codes: LevelCodes
    moments: Moments
    value: float


@dataclass(frozen=True, eq=False)
class LevelProblem:
    """``phi(u)`` of some signals on a dictionary with the atoms (N, S N)."""

    local: LocalEngine
    D: Dictionary
    atoms: Array
    slopes: Array | None

    def at(self, u: Array, start: Array) -> _Point:
        around = _around(self.local, u)
        h, moments = around.code(self.D, start, self.slopes)
        return _Point(LevelCodes(h, u), moments, around.objective.of_signals(self.D, moments))

    def step(self, point: _Point) -> _Point | None:
        """A point that is lower; None where no step promises enough, or keeps its promise."""
        u, h, signals = point.codes.u, point.codes.h, self.local.signals
        left = self.residual(u, h).sum(axis=1)
        C, n = self.curvature(h), np.maximum(signals.n_observed, 1)
        for ridge in RIDGES:
            step = np.linalg.solve(C + np.diag(ridge * n), left)
            # On the quadratic phi falls by 2 left.step - step.C step >= left.step.
            promise = float(left @ step)
            if promise <= LEVEL_TOL * signals.total_energy:
                return None
            trial = self.at(u + step, h)
            if point.value - trial.value >= ENOUGH * promise:
                return trial
        return None

    def residual(self, u: Array, h: Array) -> Array:
        """``X - u 1^T - D H`` (N, M), zero where nothing was observed."""
        around = subtract_level(self.local.signals, u)
        residual = around.X - self.atoms @ h.T
        return residual if around.observed is None else np.where(around.observed, residual, 0.0)

    def curvature(self, h: Array) -> Array:
        """``C`` (N, N) at the supports of codes."""
        signals = self.local.signals
        C = np.diag(signals.n_observed.astype(np.float64))
        for first in range(0, len(h), BATCH):
            some = slice(first, first + BATCH)
            observed = None if signals.observed is None else signals.observed[:, some].T
            C -= _projections(self.atoms, h[some] != 0.0, observed)
        return C


def _projections(atoms: Array, used: Mask, observed: NDArray[Any] | None) -> Array:
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
    return A.reshape(-1, N).T @ np.linalg.solve(G, A).reshape(-1, N)
