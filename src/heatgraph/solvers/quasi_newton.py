"""Projected quasi-Newton: minimise a smooth function over a set that is easy to project on.

At each iteration a quadratic model with the limited-memory BFGS matrix is minimised over the set
by projected gradient steps, which cost no evaluation; then the objective falls along the segment
to that point.  Knows no model: an evaluation hands over a value, a gradient and whatever it wants
to be given back the next time.

What is known beforehand of how sharply the objective bends along each coordinate goes in as a
``metric``, the diagonal of the matrix that BFGS starts from; projections are in its norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from heatgraph.arrays import Array
from heatgraph.kernels import native
from heatgraph.models.simplex import ValidSet
from heatgraph.solvers.result import Status

Aux = TypeVar("Aux")

MEMORY = (4, 10)  # pairs, the fewest and the most
MEMORY_SIZE = 100_000  # coordinates of all pairs: more would cost more than they save
ARMIJO = 1e-4  # share of the fall that the slope promises: the usual one, any small number does
MODEL_STEPS = (8, 40)  # fewest and most, by how many coordinates are free
MODEL_WORK = 400_000  # coordinates visited by one minimisation of the model
# The model need not be solved more exactly than it is accurate: to the root of the residual,
# within these.
MODEL_TOL = (0.05, 0.3)
NOISE = 1e-12  # relative; below this the objective cannot tell two points apart
SHORTEST = 1e-10  # share of the step at which backtracking gives up: below rounding of most weights
SHRINK = (0.1, 0.5)  # least and largest factor of one backtrack: away from both ends
TINY = 1e-300  # in place of a gradient without spread, so that nothing is divided by zero
FLAT = 1e-10  # a pair with less curvature than this, relatively, is not stored


@dataclass(frozen=True, eq=False)
class Curvature:
    """Pairs ``steps``, ``yields`` (m, n), oldest first, and the ``metric`` (n,).

    The metric is the diagonal of the matrix before anything is remembered.
    """

    metric: Array
    steps: Array
    yields: Array

    @classmethod
    def nothing(cls, metric: Array) -> Curvature:
        none = np.empty((0, metric.size))
        return cls(metric, none, none)

    def __len__(self) -> int:
        return len(self.steps)

    def remember(self, step: Array, change: Array, most: int) -> Curvature:
        """Append a pair of positive curvature, and no other: the model must stay convex."""
        if step @ change <= FLAT * np.linalg.norm(step) * np.linalg.norm(change):
            return self
        old = slice(max(len(self) - most + 1, 0), None)
        steps = np.vstack([self.steps[old], step])
        return Curvature(self.metric, steps, np.vstack([self.yields[old], change]))

    def compact(self) -> tuple[float, Array]:
        """``B = sigma G - [S G; Y]^T middle [S G; Y]``, the compact form of the matrix.

        ``G = diag(metric)``, ``sigma = <y, G^-1 y> / <s, y>`` of the last pair.  The middle is the
        inverse of ``[[sigma S G S^T, lower], [lower^T, -diag]]`` with the strictly lower and the
        diagonal part of ``S Y^T``, its rows and columns of ``S`` times ``sigma``.
        """
        S, Y, m = self.steps, self.yields, len(self)
        along = S @ Y.T
        sigma = float((Y[-1] / self.metric) @ Y[-1] / along[-1, -1])
        inverse = np.empty((2 * m, 2 * m))
        inverse[:m, :m] = sigma * ((S * self.metric) @ S.T)
        inverse[:m, m:] = np.tril(along, -1)
        inverse[m:, :m] = inverse[:m, m:].T
        inverse[m:, m:] = -np.diag(np.diagonal(along))
        middle = np.asarray(np.linalg.inv(inverse), dtype=np.float64)
        middle[:m] *= sigma
        middle[:, :m] *= sigma
        return sigma, middle


@dataclass(frozen=True, eq=False)
class Evaluation(Generic[Aux]):
    """A value, a gradient, and what the evaluation wants to start from next time."""

    value: float
    gradient: Array
    aux: Aux


@dataclass(frozen=True, eq=False)
class State(Generic[Aux]):
    """All that the next iteration depends on."""

    x: Array
    at: Evaluation[Aux]
    memory: Curvature
    history: tuple[float, ...]
    residual: float
    n_iter: int = 0


Evaluate = Callable[[Array, "Aux"], Evaluation[Aux]]


@dataclass(frozen=True, eq=False)
class QuasiNewton(Generic[Aux]):
    """The method on one function over ``valid``, as the driver runs it.

    It ends where the relative residual is at most ``tol``, or after ``max_iter`` iterations.  The
    residual is ``valid.descent(x, gradient)`` over the value: the fall that the gradient still
    promises.

    ``reach`` is how far the first step may move a coordinate, before anything is known of the
    curvature.
    """

    evaluate: Evaluate[Aux]
    valid: ValidSet
    tol: float
    max_iter: int
    reach: float

    def init(self, x: Array, aux: Aux, memory: Curvature | None = None) -> State[Aux]:
        """The state at ``x``.

        ``memory`` is what is known of the curvature: at least a metric, and where a similar
        function was minimised before, what that learned.
        """
        at = self.evaluate(x, aux)
        memory = Curvature.nothing(np.ones(x.size)) if memory is None else memory
        return State(x, at, memory, (at.value,), self.residual(x, at))

    def residual(self, x: Array, at: Evaluation[Aux]) -> float:
        return self.valid.descent(x, at.gradient) / (abs(at.value) or 1.0)

    def terminate(self, state: State[Aux]) -> Status | None:
        if state.residual <= self.tol:
            return Status.CONVERGED
        return Status.MAX_ITER if state.n_iter >= self.max_iter else None

    def step(self, state: State[Aux]) -> State[Aux] | None:
        """One iteration; a memory that yields no descent is dropped, and the step tried again."""
        target = _model_minimiser(self.valid, state, self.reach)
        found = _search(self.evaluate, self.valid, state, target)
        if found is None:
            if not len(state.memory):
                return None
            return self.step(replace(state, memory=Curvature.nothing(state.memory.metric)))
        x, step, at = found
        fewest, most = MEMORY
        most = max(fewest, min(most, MEMORY_SIZE // x.size))
        return State(
            x,
            at,
            state.memory.remember(step, at.gradient - state.at.gradient, most),
            (*state.history, at.value),
            self.residual(x, at),
            state.n_iter + 1,
        )


def _search(
    evaluate: Evaluate[Aux], valid: ValidSet, state: State[Aux], target: Array
) -> tuple[Array, Array, Evaluation[Aux]] | None:
    """Backtrack along ``d`` to the target: accept ``f(x + s d) <= f(x) + ARMIJO s <g, d>``.

    Returns the point, the step to it and what was found there.  Where the fall that the slope
    promises drowns in rounding, and the two values do not differ by more, the slope at the end
    decides in their place.
    """
    d = target - state.x
    f, slope = state.at.value, _slope(state.x, state.at.gradient, d, valid)
    if slope >= 0.0:
        return None
    x, step, s = target, d, 1.0
    while s > SHORTEST:
        at = evaluate(x, state.at.aux)
        if at.value == f and np.array_equal(x, state.x):
            return None  # the move is below rounding, and would be for ever
        excess = at.value - f - s * slope
        if at.value <= f + ARMIJO * s * slope:
            return x, step, at
        if max(abs(at.value - f), -slope) <= NOISE * abs(f):
            end = _slope(x, at.gradient, d, valid)
            if end <= (2.0 * ARMIJO - 1.0) * slope:
                return x, step, at
        # The minimiser of the parabola through what is known, kept away from both ends.
        s *= float(np.clip(-0.5 * s * slope / excess, *SHRINK)) if excess > 0.0 else SHRINK[1]
        x = state.x + s * d
        step = x - state.x
    return None


def _slope(x: Array, g: Array, d: Array, valid: ValidSet) -> float:
    """``<g, d>`` by the centred gradient.

    A direction sums to zero but for rounding, which a large multiplier would make larger than the
    slope itself.
    """
    n = valid.n
    multiplier = g[:n] @ x[:n] / valid.total
    return float((g[:n] - multiplier) @ d[:n] + g[n:] @ d[n:])


def _model_minimiser(valid: ValidSet, state: State[Aux], reach: float) -> Array:
    """Minimise ``<g, y - x> + <y - x, B (y - x)> / 2`` over the set, on the free coordinates.

    ``B`` is the matrix of limited-memory BFGS, or without memory a multiple of the metric whose
    step moves a coordinate by ``reach`` at most.

    The weights at zero whose gradient exceeds the multiplier of the sum are left out of the model
    and stay at zero; on a sparse graph they are most of all.
    """
    x, g, memory = state.x, state.at.gradient, state.memory
    if len(memory):
        sigma, middle = memory.compact()
    else:
        sigma = max(float(np.ptp(g) / memory.metric.min()), TINY) / reach
        middle = np.empty((0, 0))
    tol = min(max(MODEL_TOL[0], math.sqrt(state.residual)), MODEL_TOL[1])
    multiplier = g[: valid.n] @ x[: valid.n] / valid.total
    free = np.flatnonzero((x > 0.0) | (g < multiplier) | (np.arange(x.size) >= valid.n))
    n = int(np.searchsorted(free, valid.n))
    slope, metric = g[free], memory.metric[free]
    slope[:n] -= multiplier
    m = len(memory)
    V = np.empty((2 * m, free.size))
    np.multiply(memory.steps.take(free, axis=1), metric, out=V[:m])
    memory.yields.take(free, axis=1, out=V[m:], mode="clip")
    y = x[free]
    n_steps = max(MODEL_STEPS[0], min(MODEL_STEPS[1], MODEL_WORK // y.size))
    native.minimise_model(slope, metric, V, middle, sigma, valid.total, n, n_steps, tol, y)
    target = x.copy()
    target[free] = ValidSet(n, valid.total).project(y)
    return target
