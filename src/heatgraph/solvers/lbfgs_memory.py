"""The memory of limited-memory BFGS: the last steps, and what the gradient changed over each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["CHUNK", "Curvature", "compile_sums"]

Array = NDArray[np.float64]
F = TypeVar("F", bound=Callable[..., Any])

CHUNK = 1024  # coordinates that are worked on together
FLAT = 1e-10  # a pair that bends less than this, relatively, tells nothing
ROOM = 2  # times the pairs that are remembered, so that few steps have to move them


def compile_sums(**options: Any) -> Callable[[F], F]:
    """Compile; sums may be reordered so that they vectorise: the same bits on every run.

    For that, no loop both sums and writes: where what is written may be near what is read, it is
    run one by one, and so whether two arrays are neighbours would decide the order of the sum.
    """
    compiled: Callable[[F], F] = numba.njit(
        cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"}, **options
    )
    return compiled


_compiled = compile_sums()


@dataclass(frozen=True, eq=False)
class Curvature:
    """Pairs ``steps``, ``yields`` (m, n), oldest first, and their products.

    ``along[k, p] = <s_k, y_p>`` and ``lengths[k, p] = <s_k, G s_p>`` for ``p <= k``, ``G`` the
    metric: the diagonal of the matrix before anything is remembered.

    The pairs are rows of ``room``, which later ones are appended to.  Once it is full, the last are
    moved to ``spare``, and the other way round: memory that is new each time would cost more to get
    than to fill.  So a memory is continued once, and holds until as many pairs again have come.
    """

    metric: Array
    steps: Array
    yields: Array
    along: Array
    lengths: Array
    room: tuple[Array, Array]
    spare: tuple[Array, Array]
    end: int = 0

    @classmethod
    def nothing(cls, metric: Array) -> Curvature:
        none, square = np.empty((0, metric.size)), np.empty((0, 0))
        return cls(metric, none, none, square, square, (none, none), (none, none))

    @classmethod
    def of(cls, metric: Array, steps: Array, yields: Array) -> Curvature:
        """The memory of pairs that were kept elsewhere."""
        memory = cls.nothing(metric)
        for step, change in zip(steps, yields, strict=True):
            memory = memory._with(step, change, len(steps))
        return memory

    def __len__(self) -> int:
        return len(self.steps)

    def remember(self, step: Array, change: Array, most: int) -> Curvature:
        """Append a pair of positive curvature, and no other: the model must stay convex."""
        bend, step_square, change_square = _bends(step, change)
        if bend <= FLAT * math.sqrt(step_square) * math.sqrt(change_square):
            return self
        return self._with(step, change, most)

    def _with(self, step: Array, change: Array, most: int) -> Curvature:
        kept = min(len(self), most - 1)
        old = slice(len(self) - kept, None)
        room, spare, end = self.room, self.spare, self.end
        if end == len(room[0]):
            room, spare = spare, room
            if len(room[0]) != ROOM * most:
                room = np.empty((ROOM * most, step.size)), np.empty((ROOM * most, step.size))
            room[0][:kept], room[1][:kept] = self.steps[old], self.yields[old]
            end = kept
        room[0][end], room[1][end] = step, change
        rows = slice(end - kept, end + 1)
        steps, yields = room[0][rows], room[1][rows]
        along, lengths = np.zeros((kept + 1, kept + 1)), np.zeros((kept + 1, kept + 1))
        along[:-1, :-1], lengths[:-1, :-1] = self.along[old, old], self.lengths[old, old]
        _products(step, self.metric, steps, yields, lengths[-1], along[-1])
        return Curvature(self.metric, steps, yields, along, lengths, room, spare, end + 1)

    def compact(self) -> tuple[float, Array]:
        """``B = sigma G - [S G; Y]^T middle [S G; Y]``, the compact form of the matrix.

        ``sigma = <y, G^-1 y> / <s, y>`` of the last pair.  The middle is the inverse of
        ``[[sigma S G S^T, lower], [lower^T, -diag]]`` with the strictly lower and the diagonal part
        of ``S Y^T``, its rows and columns of ``S`` times ``sigma``.
        """
        sigma = _bend(self.yields[-1], self.metric) / float(self.along[-1, -1])
        return sigma, _middle(self.along, self.lengths, sigma)


@_compiled
def _bends(step: Array, change: Array) -> tuple[float, float, float]:
    """``<s, y>``, ``<s, s>`` and ``<y, y>``."""
    both = of_step = of_change = 0.0
    for k in range(step.size):
        both += step[k] * change[k]
        of_step += step[k] * step[k]
        of_change += change[k] * change[k]
    return both, of_step, of_change


@_compiled
def _products(
    step: Array, metric: Array, steps: Array, yields: Array, lengths: Array, along: Array
) -> None:
    """``<step, G steps_p>`` and ``<step, yields_p>``, some coordinates at a time."""
    lengths[:], along[:] = 0.0, 0.0
    scaled = np.empty(CHUNK)
    for start in range(0, step.size, CHUNK):
        part, bends = step[start : start + CHUNK], metric[start : start + CHUNK]
        for c in range(part.size):
            scaled[c] = part[c] * bends[c]
        for p in range(steps.shape[0]):
            s, y = steps[p, start : start + CHUNK], yields[p, start : start + CHUNK]
            of_step = of_yield = 0.0
            for c in range(part.size):
                of_step += scaled[c] * s[c]
                of_yield += part[c] * y[c]
            lengths[p] += of_step
            along[p] += of_yield


# A metric is positive: to look for zeros would keep divisions from being done several at once.
@compile_sums(error_model="numpy")
def _bend(y: Array, metric: Array) -> float:
    """``<y, G^-1 y>``."""
    total = 0.0
    for k in range(y.size):
        total += y[k] * y[k] / metric[k]
    return total


@_compiled
def _middle(along: Array, lengths: Array, sigma: float) -> Array:
    m = along.shape[0]
    middle = np.zeros((2 * m, 2 * m))
    for k in range(m):
        middle[m + k, m + k] = -along[k, k]
        for p in range(k + 1):
            middle[k, p] = middle[p, k] = sigma * lengths[k, p]
        for p in range(k):
            middle[k, m + p] = middle[m + p, k] = along[k, p]
    middle = np.linalg.inv(middle)
    middle[:m] *= sigma
    middle[:, :m] *= sigma
    return middle
