"""The set of valid Laplacians in edge weights: a scaled simplex, here beside free scales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heatgraph.arrays import Array

# Of the total: a coordinate above the threshold by less is there by rounding alone.
ROUNDING = 4.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class ValidSet:
    """``{x : x[:n] >= 0, sum(x[:n]) = total, x[n:] >= 0}``: weights first, then scales."""

    n: int
    total: float

    def project(self, x: Array) -> Array:
        """The nearest point of the set."""
        return np.concatenate(
            [project_simplex(x[: self.n], self.total), np.maximum(x[self.n :], 0.0)]
        )

    def descent(self, x: Array, g: Array) -> float:
        """How much a linear function of slope ``g`` falls from ``x``: zero only where stationary.

        On the simplex this is ``max <g, x - y>`` over all its points ``y``, the distance of ``-g``
        to the normal cone in units of the objective.  A scale may go down to 0, or up by its own
        size (by 1 where it is smaller).
        """
        n = self.n
        of_weights = max(float(g[:n] @ x[:n] - self.total * g[:n].min()), 0.0)
        room = np.where(g[n:] > 0.0, x[n:], np.maximum(x[n:], 1.0))
        return of_weights + float(np.abs(g[n:]) @ room)


def project_simplex(v: Array, total: float) -> Array:
    """The nearest point of ``{w >= 0, sum(w) = total}`` to ``v`` in the Euclidean norm.

    ``w = max(v - theta, 0)``; ``theta`` is the largest ``(sum of the k largest - total) / k``.
    A coordinate that rounding alone puts above ``theta`` is zero, so that a zero of a point of the
    set stays an exact zero.
    """
    x = v - v.max()  # sums of distances below the maximum stay exact where v itself is huge
    falling = np.sort(x)[::-1]
    thresholds = (np.cumsum(falling) - total) / np.arange(1, x.size + 1)
    k = int(np.argmax(thresholds)) + 1
    theta = (falling[:k].sum() - total) / k
    return np.where(x > theta + ROUNDING * total, x - theta, 0.0)
