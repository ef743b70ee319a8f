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

from heatgraph.models.simplex import ValidSet, project_valid
from heatgraph.solvers.lbfgs_memory import CHUNK, Curvature, compile_sums
from heatgraph.solvers.result import Status, is_interrupt

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
MAX_PASSES = 100  # rounding can make a coordinate at the threshold come and go

_compiled = compile_sums()
# Called by compiled code, these must be part of it: compiled once more on their own, their sums
# could be taken in another order, and which of the two is run depends on what was in the cache.
_part = compile_sums(inline="always")


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
    except (KeyboardInterrupt, SystemError) as error:
        if not is_interrupt(error):
            raise
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
    f, slope = state.at.value, _slope(state.x, state.at.gradient, d, valid.n, valid.total)
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
            end = _slope(x, at.gradient, d, valid.n, valid.total)
            if end <= (2.0 * ARMIJO - 1.0) * slope:
                return x, step, at
        # The minimiser of the parabola through what is known, kept away from both ends.
        s *= float(np.clip(-0.5 * s * slope / excess, 0.1, 0.5)) if excess > 0.0 else 0.5
        x = state.x + s * d
        step = x - state.x
    return None


@_compiled
def _slope(x: Array, g: Array, d: Array, n: int, total: float) -> float:
    """``<g, d>`` by the centred gradient.

    A direction sums to zero but for rounding, which a large multiplier would make larger than the
    slope itself.
    """
    multiplier = np.dot(g[:n], x[:n]) / total
    slope = float(np.dot(g[n:], d[n:]))
    for k in range(n):
        slope += (g[k] - multiplier) * d[k]
    return slope


def _model_minimiser(valid: ValidSet, state: State[Aux]) -> Array:
    """Minimise ``<g, y - x> + <y - x, B (y - x)> / 2`` over the set, on the free coordinates.

    ``B`` is the matrix of limited-memory BFGS, or without memory a multiple of the metric whose
    step moves a coordinate by ``reach`` at most.
    """
    x, g, memory = state.x, state.at.gradient, state.memory
    pairs = memory.steps, memory.yields, memory.metric
    if len(memory):
        sigma, middle = memory.compact()
    else:
        sigma = max(float(np.ptp(g) / memory.metric.min()), TINY) / state.reach
        middle = np.empty((0, 0))
    tol = min(max(MODEL_TOL[0], math.sqrt(state.residual)), MODEL_TOL[1])
    return _minimise_on_free(x, g, *pairs, sigma, middle, valid.n, valid.total, MODEL_WORK, tol)


@_compiled
def _minimise_on_free(
    x: Array,
    g: Array,
    S: Array,
    Y: Array,
    metric: Array,
    sigma: float,
    middle: Array,
    n: int,
    total: float,
    work: int,
    tol: float,
) -> Array:
    """Leave out of the model the weights at zero whose gradient exceeds the multiplier of the sum.

    They stay at zero; on a sparse graph they are most of all.
    """
    multiplier = np.dot(g[:n], x[:n]) / total
    free = np.empty(x.size, np.intp)
    n_free = 0
    for k in range(n):
        free[n_free] = k  # without a branch, which would be guessed wrong half of the time
        n_free += (x[k] > 0.0) | (g[k] < multiplier)
    size = n_free + x.size - n
    free[n_free:size] = np.arange(n, x.size)
    n_steps = max(MODEL_STEPS[0], min(MODEL_STEPS[1], work // size))
    y, slope_free, metric_free = np.empty(size), np.empty(size), np.empty(size)
    S_free, Y_free = np.empty((S.shape[0], size)), np.empty((S.shape[0], size))
    for k in range(size):
        y[k], slope_free[k], metric_free[k] = x[free[k]], g[free[k]], metric[free[k]]
    slope_free[:n_free] -= multiplier
    for m in range(S.shape[0]):
        for k in range(size):
            S_free[m, k], Y_free[m, k] = S[m, free[k]] * metric_free[k], Y[m, free[k]]
    found = _minimise_model(
        y, slope_free, S_free, Y_free, metric_free, sigma, middle, n_free, total, n_steps, tol
    )
    target = x.copy()
    for k in range(size):
        target[free[k]] = found[k]
    return target


@_part
def _minimise_model(
    x: Array,
    g: Array,
    S: Array,
    Y: Array,
    metric: Array,
    sigma: float,
    middle: Array,
    n: int,
    total: float,
    max_steps: int,
    tol: float,
) -> Array:
    """Projected gradient steps of Barzilai-Borwein length, each exact along its segment.

    Gradients and projections are in the metric, which is in ``S`` already.
    """
    m = S.shape[0]
    y, slope, inverse = x.copy(), g.copy(), 1.0 / metric
    d = np.empty(x.size)
    seen, bent = np.zeros(2 * m), np.zeros(2 * m)
    length = 1.0 / sigma
    trial = y - length * inverse * slope
    first = 0.0
    for step in range(max_steps):
        theta = _threshold(trial[:n], inverse[:n], y[:n], total)
        seen[:] = 0.0
        fall, moved = _look(trial, y, slope, d, S, Y, metric, inverse, seen, 0, n, theta)
        of_scales = _look(trial, y, slope, d, S, Y, metric, inverse, seen, n, x.size, 0.0)
        fall, moved = fall + of_scales[0], moved + of_scales[1]
        if step == 0:
            first = fall
        if fall <= tol * tol * first:
            break
        curvature = sigma * moved
        if m > 0:
            bent = np.dot(middle, seen)
            curvature -= np.dot(seen, bent)
        s = 1.0
        if curvature > fall:
            s = fall / curvature
        if curvature > 0.0:
            length = moved / curvature
        _advance(trial, y, slope, d, S, Y, metric, inverse, s * bent, s, sigma, length)
        if curvature <= 0.0:
            break  # the model is convex but for rounding, which would take it ever further
    return project_valid(y, n, total)


@_part
def _look(
    trial: Array,
    y: Array,
    slope: Array,
    d: Array,
    S: Array,
    Y: Array,
    metric: Array,
    inverse: Array,
    seen: Array,
    begin: int,
    end: int,
    theta: float,
) -> tuple[float, float]:
    """The step ``d`` to the projection of ``trial``, its fall and its square; adds ``[S; Y] d``.

    Some coordinates at a time, so that what was written is read again before it is far away.
    """
    m = S.shape[0]
    fall = moved = 0.0
    for start in range(begin, end, CHUNK):
        stop = min(start + CHUNK, end)
        to, at, down, by = trial[start:stop], y[start:stop], slope[start:stop], d[start:stop]
        bends, eases = metric[start:stop], inverse[start:stop]
        for k in range(by.size):
            by[k] = max(to[k] - theta * eases[k], 0.0) - at[k]
        for k in range(by.size):
            fall -= down[k] * by[k]
            moved += by[k] * by[k] * bends[k]
        for p in range(m):
            s_row, y_row = S[p, start:stop], Y[p, start:stop]
            along_s = along_y = 0.0
            for k in range(by.size):
                along_s += s_row[k] * by[k]
                along_y += y_row[k] * by[k]
            seen[p] += along_s
            seen[m + p] += along_y
    return fall, moved


@_part
def _advance(
    trial: Array,
    y: Array,
    slope: Array,
    d: Array,
    S: Array,
    Y: Array,
    metric: Array,
    inverse: Array,
    bent: Array,
    s: float,
    sigma: float,
    length: float,
) -> None:
    """Go ``s`` along ``d``: the slope follows by ``B d``, and the next trial from it."""
    m = S.shape[0]
    for start in range(0, y.size, CHUNK):
        stop = min(start + CHUNK, y.size)
        to, at, down, by = trial[start:stop], y[start:stop], slope[start:stop], d[start:stop]
        bends, eases = metric[start:stop], inverse[start:stop]
        for k in range(by.size):
            at[k] += s * by[k]
            down[k] += s * sigma * bends[k] * by[k]
        for p in range(m):
            s_row, y_row = S[p, start:stop], Y[p, start:stop]
            s_part, y_part = bent[p], bent[m + p]
            for k in range(by.size):
                down[k] -= s_part * s_row[k] + y_part * y_row[k]
        for k in range(by.size):
            to[k] = at[k] - length * eases[k] * down[k]


@_part
def _threshold(v: Array, c: Array, near: Array, total: float) -> float:
    """``theta`` with ``sum_k max(v_k - theta c_k, 0) = total``, to the accuracy of a plain sum.

    Any set of coordinates gives a ``theta`` that is not too large; so Newton's steps from that of
    the support of a point nearby only ever rise, and few are needed.
    """
    # Zero or one times a number, not a choice between two: only that is done several at once.
    mass = slope = 0.0
    for k in range(v.size):
        inside = 1.0 if near[k] > 0.0 else 0.0
        mass += inside * v[k]
        slope += inside * c[k]
    theta = (mass - total) / slope
    last = -1.0
    for _ in range(MAX_PASSES):
        mass = slope = count = 0.0
        for k in range(v.size):
            above = v[k] - theta * c[k]
            inside = 1.0 if above > 0.0 else 0.0
            mass += inside * above
            slope += inside * c[k]
            count += inside
        if count in (0.0, last):
            break
        theta += (mass - total) / slope
        last = count
    return theta
