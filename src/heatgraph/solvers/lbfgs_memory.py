"""The memory of limited-memory BFGS: the last steps, and what the gradient changed over each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Curvature"]

Array = NDArray[np.float64]

FLAT = 1e-10  # a pair that bends less than this, relatively, tells nothing


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
