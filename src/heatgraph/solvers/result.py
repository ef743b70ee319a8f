"""What every solver returns: a point, how it was reached, and how good it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
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
    """What a progress bar or a log shows after an iteration.

    Attributes
    ----------
    iteration : int
        Iterations so far.
    max_iter : int
        How many there are at most.
    objective : float
        Its value now.
    n_edges : int
        How many weights are not negligible.
    residual : float
        How far the point is from stationary.
    """

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
    """The end of a fit, or the start of one: weights and scales alone.

    Attributes
    ----------
    w : ndarray (n_candidates,)
        Weights of the candidate edges.
    tau : ndarray (n_scales,)
        The scales.
    codes : object
        The sources, in the form of the engine that found them: an array (n_signals, n_scales *
        n_nodes) for signals in memory; None where there are none yet.
    objective : ndarray
        The history of the objective, the start first and the final value last.
    status : Status
        How the fit ended.
    n_iter : int
        Number of iterations.
    residual : float
        The stationarity residual at the end, relative to the objective; NaN where a solver states
        none.
    memory : tuple of ndarray or None
        The last steps and the changes of the gradient over them, (m, n) each, for a fit that goes
        on.
    """

    w: Array
    tau: Array
    codes: Any = None
    objective: Array = field(default_factory=partial(np.empty, 0))
    status: Status = Status.MAX_ITER
    n_iter: int = 0
    residual: float = float("nan")
    memory: tuple[Array, Array] | None = None
