"""The set of valid Laplacians in edge weights: a scaled simplex, here beside free scales."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from heatgraph.kernels.lanes import fill, lanes, larger, largest, load, minus

__all__ = ["ValidSet", "project_simplex", "project_valid"]

Array = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)
LANES = 32  # sums side by side, so that none waits for another

# Said, and not left out: what is left out is taken from the first compiled caller, and its freedom
# to reorder sums would undo the compensated one below.
_exact = numba.njit(cache=True, nogil=True, fastmath=False)
# Several at a time: a NaN may be passed over, which any sum of the same numbers would show.
_comparing = numba.njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})


@dataclass(frozen=True)
class ValidSet:
    """``{x : x[:n] >= 0, sum(x[:n]) = total, x[n:] >= 0}``: weights first, then scales."""

    n: int
    total: float

    def project(self, x: Array) -> Array:
        """The nearest point of the set."""
        return project_valid(x, self.n, self.total)

    def descent(self, x: Array, g: Array) -> float:
        """How much a linear function of slope ``g`` falls from ``x``: zero only where stationary.

        On the simplex this is ``max <g, x - y>`` over all its points ``y``, the distance of ``-g``
        to the normal cone in units of the objective.  A scale may go down to 0, or up by its own
        size (by 1 where it is smaller).
        """
        return _descent(x, g, self.n, self.total)


@_exact
def _descent(x: Array, g: Array, n: int, total: float) -> float:
    fall = max(float(np.dot(g[:n], x[:n]) - total * _least(g[:n])), 0.0)
    for k in range(n, x.size):
        room = x[k] if g[k] > 0.0 else max(x[k], 1.0)
        fall += float(abs(g[k]) * room)
    return fall


@_comparing
def _least(x: Array) -> float:
    W, highest = lanes(x.dtype), fill(-np.inf)
    for k in range(0, x.size - W + 1, W):
        highest = larger(highest, minus(fill(0.0), load(x, k)))
    least = -largest(highest)
    for k in range(x.size // W * W, x.size):
        least = min(least, x[k])
    return float(least)


@_exact
def project_simplex(v: Array, total: float) -> Array:
    """The nearest point of ``{w >= 0, sum(w) = total}`` to ``v`` in the Euclidean norm.

    ``w = max(v - theta, 0)`` for the one ``theta`` that gives the sum.  Michelot's iteration:
    average over the coordinates still in, drop those that fall below the average, until none
    does.  No set gives an average above ``theta``, so the first may be the positive ones, which
    near a point of the simplex are the right ones; from then on each pass only shrinks the set.

    A coordinate that rounding alone puts above ``theta`` is dropped: a zero of a point of the set
    stays an exact zero.  For that ``theta`` must be right to the last digits, hence the
    compensated sum.
    """
    slack = 4.0 * EPS * total
    top = v.max()  # sums of distances below the maximum stay exact where v itself is huge
    mass, inside = _mass_above(v, top, -top)
    theta = (mass - total) / inside if inside > 0 else -np.inf
    size = -1
    while True:
        mass, inside = _mass_above(v, top, theta + slack)
        # More again: some stand at the threshold to the last digit, and would come and go for ever.
        if inside == size or (size > 0 and inside > size):
            break
        size = inside
        theta = (mass - total) / size
    w = np.empty_like(v)
    for k in range(v.size):
        x = v[k] - top
        w[k] = x - theta if x > theta + slack else 0.0
    return w


@_exact
def _mass_above(v: Array, top: float, floor: float) -> tuple[float, int]:
    """Sum and number of the ``v_k - top`` above ``floor``, compensated.

    In lanes, each with its own compensation, which do not wait for each other.
    """
    mass, lost, inside = np.zeros(LANES), np.zeros(LANES), np.zeros(LANES, np.int64)
    whole = v.size // LANES * LANES
    for first in range(0, whole, LANES):
        part = v[first : first + LANES]
        for p in range(LANES):
            x = part[p] - top
            is_in = x > floor
            inside[p] += is_in
            x = (x if is_in else 0.0) - lost[p]
            larger = mass[p] + x
            lost[p] = (larger - mass[p]) - x
            mass[p] = larger
    total, rest, count = mass[0], lost[0], inside[0]
    for p in range(1, LANES):
        x = mass[p] - rest - lost[p]
        larger = total + x
        rest = (larger - total) - x
        total = larger
        count += inside[p]
    for k in range(whole, v.size):
        x = v[k] - top
        if x > floor:
            x -= rest
            larger = total + x
            rest = (larger - total) - x
            total = larger
            count += 1
    return total, count


@_exact
def project_valid(x: Array, n: int, total: float) -> Array:
    """Project the first ``n`` coordinates on the simplex, the others on the half line."""
    y = np.empty_like(x)
    y[:n] = project_simplex(x[:n], total)
    for k in range(n, x.size):
        y[k] = max(x[k], 0.0)
    return y
