"""Projected quasi-Newton: minimise a smooth function over a set that is easy to project on.

At each iteration a quadratic model with the limited-memory BFGS matrix is minimised over the set
by projected gradient steps, which cost no evaluation; then the objective falls along the segment
to that point.  Knows no model: an evaluation hands over a value, a gradient and whatever it wants
to be given back the next time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from heatgraph.objective.simplex import ValidSet, project_valid
from heatgraph.solvers.result import Status

__all__ = ["Evaluation", "State", "minimise"]

Array = NDArray[np.float64]
Aux = TypeVar("Aux")

MEMORY = 10
MANY = 20_000  # coordinates from which on the memory costs more than it saves
MEMORY_OF_MANY = 4
ARMIJO = 1e-4
MODEL_STEPS = (8, 40)  # fewest and most, by how many coordinates are free
MODEL_WORK = 400_000  # coordinates visited by one minimisation of the model
MODEL_TOL = 0.05  # the model need not be solved better than it is true
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
    steps: Array
    yields: Array
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
    report: Callable[[State[Aux]], None] | None = None,
    resume: State[Aux] | None = None,
) -> tuple[State[Aux], Status]:
    """Minimise over ``valid`` from ``x`` until the relative residual is at most ``tol``.

    ``resume`` is a state of an earlier call, to go on from in place of ``x`` and ``aux``.

    ``reach`` is how far the first step may move a coordinate, before anything is known of the
    curvature.

    The residual is ``valid.descent(x, gradient)`` over the value: the fall that the gradient still
    promises.  KeyboardInterrupt, once the start is evaluated, ends with the best state so far.
    """
    state = _initial(evaluate, valid, x, aux, reach) if resume is None else resume
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
    evaluate: Evaluate[Aux], valid: ValidSet, x: Array, aux: Aux, reach: float
) -> State[Aux]:
    at = evaluate(x, aux)
    empty = np.empty((0, x.size))
    return State(x, at, empty, empty, reach, (at.value,), _residual(valid, x, at))


def _residual(valid: ValidSet, x: Array, at: Evaluation[Aux]) -> float:
    descent = valid.descent(x, at.gradient)
    return descent / (abs(at.value) or 1.0)


def _step(evaluate: Evaluate[Aux], valid: ValidSet, state: State[Aux]) -> State[Aux] | None:
    """One iteration; a memory that yields no descent is dropped and the step tried without it."""
    target = _model_minimiser(valid, state)
    found = _search(evaluate, valid, state, target - state.x)
    if found is None:
        if not len(state.steps):
            return None
        empty = np.empty((0, state.x.size))
        return _step(evaluate, valid, replace(state, steps=empty, yields=empty))
    x, at = found
    steps, yields = _remember(state, x - state.x, at.gradient - state.at.gradient)
    return State(
        x,
        at,
        steps,
        yields,
        state.reach,
        (*state.history, at.value),
        _residual(valid, x, at),
        state.n_iter + 1,
    )


def _search(
    evaluate: Evaluate[Aux], valid: ValidSet, state: State[Aux], d: Array
) -> tuple[Array, Evaluation[Aux]] | None:
    """Backtrack along ``d``: accept ``f(x + s d) <= f(x) + ARMIJO s <g, d>``.

    Where the fall that the slope promises drowns in rounding, and the two values do not differ by
    more, the slope at the end decides in their place.
    """
    f, slope = state.at.value, float(_centred(valid, state.x, state.at.gradient) @ d)
    if slope >= 0.0:
        return None
    s = 1.0
    while s > SHORTEST:
        x = state.x + s * d
        at = evaluate(x, state.at.aux)
        excess = at.value - f - s * slope
        if at.value <= f + ARMIJO * s * slope:
            return x, at
        if max(abs(at.value - f), -slope) <= NOISE * abs(f):
            end = float(_centred(valid, x, at.gradient) @ d)
            if end <= (2.0 * ARMIJO - 1.0) * slope:
                return x, at
        # The minimiser of the parabola through what is known, kept away from both ends.
        s *= float(np.clip(-0.5 * s * slope / excess, 0.1, 0.5)) if excess > 0.0 else 0.5
    return None


def _centred(valid: ValidSet, x: Array, g: Array) -> Array:
    """``g`` less the multiplier of the sum: the same slope along every direction in the set.

    A direction sums to zero but for rounding, which a large multiplier would make larger than the
    slope itself.
    """
    n = valid.n
    multiplier = float(g[:n] @ x[:n]) / valid.total
    return np.append(g[:n] - multiplier, g[n:])


def _remember(state: State[Aux], step: Array, change: Array) -> tuple[Array, Array]:
    """Append a pair of positive curvature; the model must stay convex."""
    curvature = float(step @ change)
    if curvature <= 1e-10 * float(np.linalg.norm(step)) * float(np.linalg.norm(change)):
        return state.steps, state.yields
    kept = MEMORY if step.size < MANY else MEMORY_OF_MANY
    steps = np.vstack([state.steps[1 - kept :], step])
    yields = np.vstack([state.yields[1 - kept :], change])
    return steps, yields


def _model_minimiser(valid: ValidSet, state: State[Aux]) -> Array:
    """Minimise ``<g, y - x> + <y - x, B (y - x)> / 2`` over the set, on the free coordinates.

    A weight at zero whose gradient exceeds the multiplier of the sum stays at zero: it is left
    out of the model, which on a sparse graph is most of them.
    """
    x, n = state.x, valid.n
    g = _centred(valid, x, state.at.gradient)
    free = np.flatnonzero(np.append((x[:n] > 0.0) | (g[:n] < 0.0), x[n:] >= 0.0))
    n_free = int(np.searchsorted(free, n))
    sigma, W, middle = _bfgs(state, free)
    n_steps = int(np.clip(MODEL_WORK // free.size, *MODEL_STEPS))
    target = x.copy()
    target[free] = _minimise_model(
        x[free], g[free], sigma, W, middle, n_free, valid.total, n_steps, MODEL_TOL
    )
    return target


def _bfgs(state: State[Aux], free: NDArray[np.intp]) -> tuple[float, Array, Array]:
    """``B = sigma I - W^T middle W``, the compact form of limited-memory BFGS.

    Without memory: a multiple of the identity whose step moves a coordinate by ``reach``.
    """
    if not len(state.steps):
        span = float(np.ptp(state.at.gradient))
        return max(span, TINY) / state.reach, np.empty((0, free.size)), np.empty((0, 0))
    sigma, middle = _compact(state.steps, state.yields)
    S, Y = state.steps, state.yields
    if free.size < state.x.size:
        S, Y = S[:, free], Y[:, free]
    return sigma, np.vstack([sigma * S, Y]), middle


@numba.njit(cache=True, nogil=True)
def _compact(S: Array, Y: Array) -> tuple[float, Array]:
    """``sigma = <y, y> / <s, y>`` of the last pair, and the inverse of the middle matrix.

    The middle is ``[[sigma S S^T, lower], [lower^T, -diag]]`` with the strictly lower and the
    diagonal part of ``S Y^T``.
    """
    m = S.shape[0]
    SY, SS = S @ Y.T, S @ S.T
    sigma = np.dot(Y[m - 1], Y[m - 1]) / SY[m - 1, m - 1]
    middle = np.zeros((2 * m, 2 * m))
    middle[:m, :m] = sigma * SS
    for k in range(m):
        middle[m + k, m + k] = -SY[k, k]
        for p in range(k):
            middle[k, m + p] = SY[k, p]
            middle[m + p, k] = SY[k, p]
    return sigma, np.linalg.inv(middle)


@numba.njit(cache=True, nogil=True)
def _minimise_model(
    x: Array,
    g: Array,
    sigma: float,
    W: Array,
    middle: Array,
    n: int,
    total: float,
    max_steps: int,
    tol: float,
) -> Array:
    """Projected gradient steps of Barzilai-Borwein length, each exact along its segment."""
    y, slope = x.copy(), g.copy()
    length = 1.0 / sigma
    first = 0.0
    for k in range(max_steps):
        d = project_valid(y - length * slope, n, total) - y
        fall = -np.dot(slope, d)
        if k == 0:
            first = fall
        if fall <= tol * tol * first:
            break
        Bd = sigma * d
        if W.shape[0] > 0:
            Bd -= np.dot(np.dot(middle, np.dot(W, d)), W)
        curvature = np.dot(d, Bd)
        s = 1.0
        if curvature > fall:
            s = fall / curvature
        y += s * d
        slope += s * Bd
        if curvature > 0.0:
            length = np.dot(d, d) / curvature
    return project_valid(y, n, total)
