"""What every solver returns: a point, how it was reached, and how good it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Monitor", "Progress", "Solution", "Status", "better_of"]

BETTER = 1e-3  # relative; a start given by the user must win by this over the usual one


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
    """The end of a fit.

    ``w`` (E,) weights of the candidate edges, ``H`` (S, N, M) sources, ``tau`` (S,) scales,
    ``objective`` the history with the start first and the final value last, ``residual`` the
    stationarity residual at the end, relative to the objective (NaN where a solver states none).
    Where the signals are not in memory, ``H`` is empty and ``elsewhere`` the handle of their codes;
    where a level was fitted along with the sources, ``elsewhere`` holds both.  ``memory`` are the
    last steps and the changes of the gradient over them, (m, n) each, for a fit that goes on.
    """

    w: NDArray[np.float64]
    H: NDArray[np.float64]
    tau: NDArray[np.float64]
    objective: NDArray[np.float64]
    status: Status
    n_iter: int
    residual: float = field(default=float("nan"))
    elsewhere: Any = None
    memory: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    @property
    def codes(self) -> Any:
        """The sources as rows (M, S N), one row per signal, or the handle of those elsewhere."""
        if self.elsewhere is not None:
            return self.elsewhere
        return np.ascontiguousarray(self.H.transpose(2, 0, 1)).reshape(self.H.shape[2], -1)


def better_of(fit: Callable[[], Solution], other: Callable[[], Solution]) -> Solution:
    """The fit from the usual start, or another from the user's, if that wins by enough.

    Stopped by the user in the second of them is stopped, with the first to fall back on.
    """
    usual = fit()
    if usual.status is Status.INTERRUPTED:
        return usual
    try:
        given = other()
    except KeyboardInterrupt:  # before it had a point of its own
        return replace(usual, status=Status.INTERRUPTED)
    if given.objective[-1] < (1.0 - BETTER) * usual.objective[-1]:
        return given
    return replace(usual, status=given.status) if given.status is Status.INTERRUPTED else usual
