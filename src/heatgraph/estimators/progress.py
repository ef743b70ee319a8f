"""The progress of a fit: bars on a terminal, a line now and then in a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from heatgraph.solvers.result import Monitor, is_interrupt
from heatgraph.solvers.result import Progress as Step

__all__ = ["Watch", "progress_bars", "stage", "watch_fit"]

EVERY = 10.0  # seconds between lines, where the output is no terminal
STAGE: ContextVar[str] = ContextVar("stage", default="")


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Have the bars of fits in the block begin with the name of a stage."""
    before = STAGE.set(f"{name}: ")
    try:
        yield
    finally:
        STAGE.reset(before)


@dataclass(frozen=True)
class Watch:
    """What a fit tells: its iterations, and before them the paths of the choice of parameters."""

    step: Monitor | None
    tried: Callable[[int, int], None] | None


@contextmanager
def watch_fit(verbose: int, monitor: Monitor | None, unit: float = 1.0) -> Iterator[Watch]:
    """The caller's monitor, and a progress bar on standard error where ``verbose`` asks for one.

    Both see the objective times ``unit``, which puts it back in the units of the caller.  Ctrl-C
    leaves as the KeyboardInterrupt that it is, whatever it stopped.
    """
    shown = progress_bars() if verbose else nullcontext(Watch(None, None))
    with _interrupts_named(), shown as bars:
        watchers = [m for m in (bars.step, monitor) if m is not None]

        def step(now: Step) -> None:
            for watcher in watchers:
                watcher(replace(now, objective=now.objective * unit))

        yield Watch(step if watchers else None, bars.tried)


@contextmanager
def _interrupts_named() -> Iterator[None]:
    try:
        yield
    except SystemError as error:
        if not is_interrupt(error):
            raise
        raise KeyboardInterrupt from error


@contextmanager
def progress_bars() -> Iterator[Watch]:
    """Two bars: over what is tried, with the time left, and over the iterations of the fit.

    Where standard error is no terminal, a line of the same every ten seconds.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _watch(_lines(console))
        return
    columns = (
        TextColumn("{task.description:<20}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def show(name: str, done: int, of: int, state: str) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=of, state="")
            progress.update(tasks[name], total=of, completed=done, state=state)

        yield _watch(show)


Show = Callable[[str, int, int, str], None]


def _watch(show: Show) -> Watch:
    prefix = STAGE.get()

    def step(now: Step) -> None:
        show(
            f"{prefix}learning",
            now.iteration,
            now.max_iter,
            f"{now.iteration}/{now.max_iter}  objective {now.objective:.5g}  "
            f"{now.n_edges} edges  residual {now.residual:.1e}",
        )

    return Watch(
        step, lambda done, of: show(f"{prefix}choosing parameters", done, of, f"{done}/{of}")
    )


def _lines(console: Console) -> Show:
    last = time.monotonic()

    def show(name: str, done: int, of: int, state: str) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            console.print(f"{name}: {state}", highlight=False, soft_wrap=True)

    return show
