"""Projected Newton steps: minimise a smooth function over a box, with a curvature that is known.

At each iteration the quadratic model ``<g, d> + <d, B d> / 2`` is minimised over the box, in the
coordinates that are not held at a bound by the gradient; ``B`` is the curvature (for likelihoods,
the Fisher information) plus damping times its diagonal.  The damping follows how well the model
predicted the fall.  Knows no model: a point hands over a value, a gradient, the diagonal of the
curvature, and the curvature between some coordinates: a matrix, whose faces are solved by
Cholesky's factors, or only products with it, for conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from heatgraph.arrays import Array, Ints, Mask
from heatgraph.solvers.driver import iterate
from heatgraph.solvers.result import Status

# With the curvature, at the most, for one minimisation of the model: far from the end and near it.
PRODUCTS = (60, 150)
NEAR = 1e-3  # the residual below which the end is near
MODEL_TOL = 0.2  # the model is minimised to this share of its first projected gradient, or better
FACE_TOL = 0.3  # conjugate gradients on one face stop at this share of their first residual
DAMPING = 1e-3  # of the diagonal, at the start
DAMPING_RANGE = (1e-6, 1e9)  # of the diagonal: almost Newton steps, and hardly a step
# Factors of the damping: down after a good step, up after a poor one, and after one not taken.
EASED, RAISED, REFUSED = 5.0, 4.0, 8.0
GOOD, POOR, ACCEPTED = 0.7, 0.3, 1e-2  # true fall over predicted fall
FURTHEST = 2.0  # how far a coordinate without two finite bounds moves in one step, at the most
SHORTER = 0.4  # each step of the search along the projected path, of the one before
SHORTEST = 1e-4  # of the whole step: none shorter is tried
PROMISED = 1e-2  # of the fall that the slope promises: the least at which such a step is taken
NOISE = 1e-13  # relative; falls smaller than this are rounding
# Of the largest curvature: a coordinate with less is given this much, and is damped like one that
# has this much.
FLATTEST, LEAST_DAMPED = 1e-20, 1e-6


class Curvature(Protocol):
    """A symmetric matrix, or what multiplies as one does."""

    def __matmul__(self, d: Array, /) -> Array: ...


class Point(Protocol):
    """A point of the problem."""

    @property
    def x(self) -> Array: ...
    @property
    def value(self) -> float: ...
    @property
    def gradient(self) -> Array: ...
    @property
    def diagonal(self) -> Array: ...
    def information_between(self, some: Ints, /) -> Curvature: ...


P = TypeVar("P", bound=Point)


@dataclass(frozen=True, eq=False)
class NewtonState(Generic[P]):
    """Where the solver is: all that the next iteration depends on."""

    point: P
    residual: float
    history: tuple[float, ...]
    damping: float = DAMPING
    n_iter: int = 0


def minimise_box(
    at: Callable[[Array], P],
    bounds: tuple[Array, Array],
    x: Array,
    *,
    tol: float,
    max_iter: int,
    unit: float = 1.0,
    report: Callable[[NewtonState[Any]], None] | None = None,
) -> tuple[NewtonState[P], Status]:
    """Minimise over ``lower <= x <= upper`` until the residual is at most ``tol``.

    The residual is :func:`promised_fall` over ``unit``.  The value never rises.
    KeyboardInterrupt, once the start is evaluated, ends with the best state so far.
    """
    point = at(np.clip(x, *bounds))
    state = NewtonState(point, promised_fall(point, bounds) / unit, (point.value,))

    def terminate(state: NewtonState[P]) -> Status | None:
        if state.residual <= tol:
            return Status.CONVERGED
        return Status.MAX_ITER if state.n_iter >= max_iter else None

    return iterate(state, partial(_step, at, bounds, unit), terminate, report)


def promised_fall(point: Point, bounds: tuple[Array, Array]) -> float:
    """``<g, x - P(x - g / diag)>``: the fall that a step scaled by the diagonal promises.

    ``P`` projects on the box, and on the distance that one step may go.  Without the latter, the
    logarithm of a quantity that vanishes would promise a fall for ever: ``g`` and the root of
    ``diag`` vanish together.
    """
    d = np.clip(-point.gradient / _curvature(point, FLATTEST), *_room(point.x, bounds))
    return -float(point.gradient @ d)


def _curvature(point: Point, least: float) -> Array:
    """The diagonal, at least this share of its largest entry."""
    return np.maximum(point.diagonal, least * float(point.diagonal.max()) or 1.0)


def _step(
    at: Callable[[Array], P], bounds: tuple[Array, Array], unit: float, state: NewtonState[P]
) -> NewtonState[P] | None:
    """One accepted step; the damping rises until there is one, and None if there is none."""
    point, damping = state.point, state.damping
    x, g, value = point.x, point.gradient, point.value
    lower, upper = _room(x, bounds)
    # Elsewhere the gradient holds a coordinate at its bound.
    free = np.flatnonzero(((lower < 0.0) | (g < 0.0)) & ((upper > 0.0) | (g > 0.0)))
    room = lower[free], upper[free]
    B = point.information_between(free)
    tol, most = min(MODEL_TOL, state.residual**0.25), PRODUCTS[state.residual < NEAR]
    while damping <= DAMPING_RANGE[1]:
        extra = damping * _curvature(point, LEAST_DAMPED)[free]
        diagonal = _curvature(point, FLATTEST)[free] + extra
        step, predicted = _minimise_model(g[free], B, extra, diagonal, room, tol, most)
        if predicted >= -NOISE * abs(value):
            return None
        moved = x.copy()
        moved[free] += step
        trial = at(np.clip(moved, *bounds))
        with np.errstate(over="ignore", invalid="ignore"):
            ratio = (trial.value - value) / predicted
        if ratio > ACCEPTED:
            if ratio > GOOD:
                damping = max(damping / EASED, DAMPING_RANGE[0])
            elif ratio < POOR:
                damping *= RAISED
            return replace(
                state,
                point=trial,
                residual=promised_fall(trial, bounds) / unit,
                history=(*state.history, trial.value),
                damping=damping,
                n_iter=state.n_iter + 1,
            )
        damping *= REFUSED
    return None


def _room(x: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
    """How far each coordinate may move: to its bounds, and not too far where it lacks one.

    Coordinates without two bounds are logarithms, along which the curvature may vanish.
    """
    lower, upper = bounds[0] - x, bounds[1] - x
    open_ended = np.isinf(lower) | np.isinf(upper)
    lower[open_ended] = np.maximum(lower[open_ended], -FURTHEST)
    upper[open_ended] = np.minimum(upper[open_ended], FURTHEST)
    return lower, upper


def _minimise_model(
    g: Array,
    B: Curvature,
    extra: Array,
    diagonal: Array,
    room: tuple[Array, Array],
    tol: float,
    most: int,
) -> tuple[Array, float]:
    """The step ``d`` in ``room`` that about minimises the model, and the fall it predicts.

    The model is minimised on the coordinates that are free; what leaves the room is projected
    back, with a shorter step where the model would rise; then the free coordinates are found anew.
    """
    lower, upper = room
    matrix = B + np.diag(extra) if isinstance(B, np.ndarray) else None

    def product(d: Array) -> Array:
        return B @ d + extra * d if matrix is None else matrix @ d

    d, Bd = np.zeros_like(g), np.zeros_like(g)
    used, first = 0, None
    while used < most:
        r = g + Bd
        fall = -float(r @ (np.clip(d - r / diagonal, lower, upper) - d))
        first = fall if first is None else first
        if fall <= tol * tol * first:
            break
        free = ((d > lower) | (r < 0.0)) & ((d < upper) | (r > 0.0))
        found_step = None if matrix is None else _solved(matrix, r, free)
        if found_step is None:
            found_step = _conjugate_gradients(product, r, diagonal, free, d, room, most - used)
        step, B_step, n = found_step
        found, B_found, n_more = _projected(product, g, d, Bd, step, B_step, room)
        used += n + n_more
        if found is None:  # projecting spoilt the step: along the gradient the model does fall
            step = np.clip(d - r / diagonal, lower, upper) - d
            found, B_found, n_more = _projected(product, g, d, Bd, step, product(step), room)
            used += 1 + n_more
        if found is None:
            break
        d, Bd = found, B_found
    return d, float(g @ d) + 0.5 * float(d @ Bd)


def _solved(B: Array, r: Array, free: Mask) -> tuple[Array, Array, int] | None:
    """Solve ``B x = -r`` on the free coordinates; None where rounding leaves no factor."""
    x, some = np.zeros_like(r), np.flatnonzero(free)
    try:
        factor = cho_factor(B[np.ix_(some, some)], check_finite=False)
    except LinAlgError:
        return None
    x[some] = cho_solve(factor, -r[some], check_finite=False)
    return x, B @ x, 1


def _conjugate_gradients(
    product: Callable[[Array], Array],
    r: Array,
    diagonal: Array,
    free: Mask,
    d: Array,
    room: tuple[Array, Array],
    most: int,
) -> tuple[Array, Array, int]:
    """About solve ``B x = -r`` on the free coordinates; stops early once it leaves the room."""
    x, Bx = np.zeros_like(r), np.zeros_like(r)
    left = np.where(free, -r, 0.0)
    z = left / diagonal
    p, size = z.copy(), float(left @ z)
    target, n = FACE_TOL**2 * size, 0
    while n < most and size > 0.0:
        Bp = product(p)
        n += 1
        bend = float(p @ Bp)
        if bend <= 0.0:
            break
        a = size / bend
        x += a * p
        Bx += a * Bp
        left -= np.where(free, a * Bp, 0.0)
        z = left / diagonal
        smaller = float(left @ z)
        outside = bool(((d + x < room[0]) | (d + x > room[1])).any())
        if smaller <= target or (outside and smaller <= 0.25 * target / FACE_TOL**2):
            break
        p = z + (smaller / size) * p
        size = smaller
    return x, Bx, n


def _projected(
    product: Callable[[Array], Array],
    g: Array,
    d: Array,
    Bd: Array,
    step: Array,
    B_step: Array,
    room: tuple[Array, Array],
) -> tuple[Array | None, Array, int]:
    """The first of ``P(d + s step)``, s = 1, ``SHORTER``, ..., at which the model falls."""
    before = float(g @ d) + 0.5 * float(d @ Bd)
    r, s, n = g + Bd, 1.0, 0
    while s > SHORTEST:
        y = np.clip(d + s * step, *room)
        inside = s == 1.0 and np.array_equal(y, d + step)
        By = Bd + B_step if inside else product(y)
        n += not inside
        now = float(g @ y) + 0.5 * float(y @ By)
        if now < before and now <= before + PROMISED * float(r @ (y - d)):
            return y, By, n
        s *= SHORTER
    return None, Bd, n
