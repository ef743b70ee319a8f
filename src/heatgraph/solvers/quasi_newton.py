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
from numpy.typing import NDArray

from heatgraph.kernels import native
from heatgraph.models.simplex import ValidSet
from heatgraph.solvers.lbfgs_memory import Curvature
from heatgraph.solvers.result import Status

__all__ = ["Evaluation", "State", "minimise"]

Array = NDArray[np.float64]
Aux = TypeVar("Aux")

MEMORY = (4, 10)  # pairs, the fewest and the most
MEMORY_SIZE = 100_000  # coordinates of all pairs: more would cost more than they save
ARMIJO = 1e-4
MODEL_STEPS = (8, 40)  # fewest and most, by how many coordinates are free
MODEL_WORK = 400_000  # coordinates visited by one minimisation of the model
# The model need not be solved better than it is true: to the root of the residual, within these.
MODEL_TOL = (0.05, 0.3)
NOISE = 1e-12  # relative; below this the objective cannot tell two points apart
SHORTEST = 1e-10
TINY = 1e-300


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
    reach: float
    history: tuple[float, ...]
    residual: float
    n_iter: int = 0


Evaluate = Callable[[Array, "Aux"], Evaluation[Aux]]


def minimise(
    evaluate: Evaluate[Aux],
    valid: ValidSet,
    x: Array,
    aux: Aux,
    *,
    max_iter: int,
    tol: float,
    reach: float,
    metric: Array | None = None,
    memory: Curvature | None = None,
    report: Callable[[State[Aux]], None] | None = None,
    resume: State[Aux] | None = None,
) -> tuple[State[Aux], Status]:
    """Minimise over ``valid`` from ``x`` until the relative residual is at most ``tol``.

    ``resume`` is a state of an earlier call, to go on from in place of ``x`` and ``aux``.

    ``reach`` is how far the first step may move a coordinate, before anything is known of the
    curvature.  ``metric`` has the relative curvature along each coordinate, where that is known:
    positive, of a size near 1; ``memory`` is what an earlier call on a similar function learned of
    the curvature, in the same metric.

    The residual is ``valid.descent(x, gradient)`` over the value: the fall that the gradient still
    promises.  KeyboardInterrupt, once the start is evaluated, ends with the best state so far.
    """
    if metric is None:
        metric = np.ones(x.size)
    if memory is None:
        memory = Curvature.nothing(metric)
    state = _initial(evaluate, valid, x, aux, reach, memory) if resume is None else resume
    try:
        while True:
            if report is not None:
                report(state)
            if state.residual <= tol:
                return state, Status.CONVERGED
            if state.n_iter >= max_iter:
                return state, Status.MAX_ITER
            following = _step(evaluate, valid, state)
            if following is None:
                return state, Status.STALLED
            state = following
    except KeyboardInterrupt:
        return state, Status.INTERRUPTED


def _initial(
    evaluate: Evaluate[Aux], valid: ValidSet, x: Array, aux: Aux, reach: float, memory: Curvature
) -> State[Aux]:
    at = evaluate(x, aux)
    return State(x, at, memory, reach, (at.value,), _residual(valid, x, at))


def _residual(valid: ValidSet, x: Array, at: Evaluation[Aux]) -> float:
    descent = valid.descent(x, at.gradient)
    return descent / (abs(at.value) or 1.0)


def _step(evaluate: Evaluate[Aux], valid: ValidSet, state: State[Aux]) -> State[Aux] | None:
    """One iteration; a memory that yields no descent is dropped and the step tried without it."""
    found = _search(evaluate, valid, state, _model_minimiser(valid, state))
    if found is None:
        if not len(state.memory):
            return None
        nothing = Curvature.nothing(state.memory.metric)
        return _step(evaluate, valid, replace(state, memory=nothing))
    x, step, at = found
    fewest, most = MEMORY
    most = max(fewest, min(most, MEMORY_SIZE // x.size))
    return State(
        x,
        at,
        state.memory.remember(step, at.gradient - state.at.gradient, most),
        state.reach,
        (*state.history, at.value),
        _residual(valid, x, at),
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
        s *= float(np.clip(-0.5 * s * slope / excess, 0.1, 0.5)) if excess > 0.0 else 0.5
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


def _model_minimiser(valid: ValidSet, state: State[Aux]) -> Array:
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
        sigma = max(float(np.ptp(g) / memory.metric.min()), TINY) / state.reach
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
