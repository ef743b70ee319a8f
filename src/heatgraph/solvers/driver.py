"""The loop that every solver runs in: one place for Ctrl-C, checkpoints and progress.

A method is a :class:`Stage`: where it starts, how it steps, when it ends.  A solver knows no files:
the driver hands the state of a stage to a :class:`Keeper`, and asks for it when a fit is started
again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from heatgraph.solvers.result import Progress, Status

State = TypeVar("State")
Start = TypeVar("Start", contravariant=True)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Record:
    """Facts that JSON can hold, and arrays."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


class Keeper(Protocol):
    """One name in the checkpoint of a computation.

    A name holds what was finished there; what lies within it (the stages that led to it, the state
    of the one under way) is then no longer needed.
    """

    def within(self, name: str, /) -> Keeper:
        """The keeper of a part of this computation."""
        ...

    def get(self) -> Record | None:
        """What was left under this name, or None."""
        ...

    def put(self, record: Record, /) -> None:
        """Leave a record here; whatever lies within is dropped."""
        ...

    @property
    def due(self) -> bool:
        """Whether enough time has passed for the state of a running stage to be worth keeping."""
        ...


class Stage(Protocol[Start, State]):
    """A method that improves a state, step by step."""

    def init(self, start: Start, /) -> State:
        """The first state, from where the stage before ended."""
        ...

    def step(self, state: State, /) -> State | None:
        """The next state; None where there is none."""
        ...

    def terminate(self, state: State, /) -> Status | None:
        """How a state ends the stage, or None where it does not."""
        ...

    def progress(self, state: State, /) -> Progress:
        """What a bar or a log shows of a state."""
        ...

    def is_resumable(self, state: State, /) -> bool:
        """Whether the stage can go on from what :meth:`pack` keeps of a state."""
        ...

    def pack(self, state: State, /) -> Record:
        """A state as a file can hold it."""
        ...

    def unpack(self, record: Record, /) -> State:
        """What :meth:`pack` took apart."""
        ...


class _NoCheckpoint:
    """Keeps nothing."""

    due = False

    def within(self, name: str, /) -> Keeper:
        return self

    def get(self) -> Record | None:
        return None

    def put(self, record: Record, /) -> None:
        pass


NO_CHECKPOINT: Keeper = _NoCheckpoint()


def iterate(
    state: State,
    step: Callable[[State], State | None],
    ended: Callable[[State], Status | None],
    report: Callable[[State], None] | None = None,
) -> tuple[State, Status]:
    """Step from a state until one is at an end, or no step is left (STALLED).

    ``report`` sees every state, the first one too.  A KeyboardInterrupt, from it or from Ctrl-C,
    ends with the last state that was complete.
    """
    return run_stage(_Loop(step, ended), state, report)


class _Loop:
    """A stage of two functions, which is shown as it is and of which nothing is kept."""

    def __init__(self, step: Callable[[Any], Any], terminate: Callable[[Any], Any]) -> None:
        self.step, self.terminate = step, terminate
        self.init = self.progress = self.pack = self.unpack = lambda state: state
        self.is_resumable = lambda state: False


def attempt(task: Callable[[], T]) -> T | None:
    """What a task returns; None where the user stopped it."""
    try:
        return task()
    except KeyboardInterrupt:
        return None


def run_stage(
    stage: Stage[Start, State],
    start: Start,
    monitor: Callable[[Any], None] | None = None,
    keeper: Keeper = NO_CHECKPOINT,
) -> tuple[State, Status]:
    """Run a stage to its end from a start, or from what was kept of it.

    ``monitor`` sees the progress of every state.  The state is kept every so often, and at the end,
    however that came.
    """
    record = keeper.get()
    state = stage.init(start) if record is None else stage.unpack(record)
    status = None if record is None else stage.terminate(state)
    if status is not None:
        return state, status
    resumable = state
    try:
        while status is None:
            if stage.is_resumable(state):
                resumable = state
                if keeper.due:
                    keeper.put(stage.pack(state))
            if monitor is not None:
                monitor(stage.progress(state))
            status = stage.terminate(state)
            following = stage.step(state) if status is None else state
            if following is None:
                status = Status.STALLED
            else:
                state = following
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    if keeper is not NO_CHECKPOINT:
        keeper.put(stage.pack(resumable))
    return state, status
