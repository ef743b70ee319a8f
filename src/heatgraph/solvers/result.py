"""What every solver returns: a point, how it was reached, and how good it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from heatgraph.arrays import Array


class Status(StrEnum):
    """How a solver ended.  A string, so that it prints and compares as one."""

    CONVERGED = "converged"
    CERTIFIED = "certified"
    MAX_ITER = "max_iter"
    STALLED = "stalled"
    INTERRUPTED = "interrupted"

    @property
    def advice(self) -> str:
        """One sentence that tells the user what the status means and what to do."""
        return _ADVICE[self]


_ADVICE = {
    Status.CONVERGED: "The fit settled within its tolerance.",
    Status.CERTIFIED: (
        "The fit settled, and the gradient over every pair of nodes, candidate or not, promises no "
        "larger relative fall of the objective than the stated gap."
    ),
    Status.MAX_ITER: (
        "The iteration limit was reached before the stationarity residual fell below `tol`; "
        "raise `max_iter` or `tol`."
    ),
    Status.STALLED: (
        "No step lowered the objective any further in floating point, with the residual still "
        "above `tol`; raise `tol`, or rescale the signals if their values are extreme."
    ),
    Status.INTERRUPTED: "The user stopped the fit; the best point so far was kept.",
}


@dataclass(frozen=True)
class Progress:
    """One line of progress: what a bar or a log shows after an iteration."""

    iteration: int
    max_iter: int
    objective: float
    n_edges: int
    residual: float


class Monitor(Protocol):
    """Called after every iteration; raising KeyboardInterrupt stops the solver cleanly."""

    def __call__(self, progress: Progress, /) -> None: ...


@dataclass(frozen=True)
class Solution:
    """The end of a fit, or the start of one.

    ``w`` (E,) weights of the candidate edges, ``tau`` (S,) scales, ``codes`` the sources, as the
    engine that found them understands them: an array (M, S N), one row per signal, for signals in
    memory, and None where there are none yet.  ``objective`` is the history with the start first
    and the final value last, ``residual`` the stationarity residual at the end, relative to the
    objective (NaN where a solver states none).  ``memory`` are the last steps and the changes of
    the gradient over them, (m, n) each, for a fit that goes on.
    """

    w: Array
    tau: Array
    codes: Any
    objective: Array
    status: Status
    n_iter: int
    residual: float = field(default=float("nan"))
    memory: tuple[Array, Array] | None = None

    @classmethod
    def start(cls, w: Array, tau: Array) -> Solution:
        """Weights and scales from which nothing was solved for yet."""
        return cls(w, tau, None, np.empty(0), Status.MAX_ITER, 0)
