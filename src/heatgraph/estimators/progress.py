"""The progress of a fit: bars on a terminal, a line now and then in a file."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from heatgraph.solvers.result import Monitor
from heatgraph.solvers.result import Progress as Step

EVERY = 10.0  # seconds between lines, where the output is no terminal
STEPS = 1000  # parts of a bar over the iterations
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
    """What a fit tells: its iterations, and before them the paths of the choice of parameters.

    ``say`` is for a line of text, where someone is there to read it; ``begin`` names what is done
    after the last iteration.
    """

    step: Monitor | None
    tried: Callable[[int, int], None] | None
    say: Callable[[str], None] | None = None
    begin: Callable[[str], None] = lambda _: None


@contextmanager
def watch_fit(
    verbose: int, monitor: Monitor | None, unit: float = 1.0, tol: float | None = None
) -> Iterator[Watch]:
    """The caller's monitor, and a progress bar on standard error where ``verbose`` asks for one.

    Both see the objective times ``unit``, which puts it back in the units of the caller.  ``tol``
    is the residual at which the fit stops, from which the time left is estimated.  Ctrl-C leaves
    as the KeyboardInterrupt that it is, whatever it stopped.
    """
    shown = progress_bars(tol) if verbose else nullcontext(Watch(None, None))
    with shown as bars:
        watchers = [m for m in (bars.step, monitor) if m is not None]

        def step(now: Step) -> None:
            for watcher in watchers:
                watcher(replace(now, objective=now.objective * unit))

        yield replace(bars, step=step if watchers else None)


@contextmanager
def progress_bars(tol: float | None = None) -> Iterator[Watch]:
    """Two bars: over what is tried, with the time left, and over the iterations of the fit.

    Where standard error is no terminal, a line of the same every ten seconds.  Until there is
    something to report, a bar without an end shows that the fit has begun.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _watch(_lines(console), tol, console)
        return
    columns = (
        SpinnerColumn(),
        # On a narrow terminal the name of the stage takes two lines, and nothing is cut.
        TextColumn("{task.description}", table_column=Column()),
        BarColumn(bar_width=10),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, TaskID] = {}
        begun = progress.add_task(f"{STAGE.get()}preparing", total=None, state="")

        def show(name: str, done: int, of: int, state: str) -> None:
            progress.update(begun, visible=False)
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=of, state="")
            progress.update(tasks[name], total=of, completed=done, state=state)

        def begin(what: str) -> None:
            for task in tasks.values():
                progress.update(task, visible=False)
            progress.reset(begun, description=f"{STAGE.get()}{what}", visible=True)

        yield replace(_watch(show, tol, console), begin=begin)


class _TimeLeft(TimeRemainingColumn):
    """The time until ``end``, on the clock of ``time.monotonic``, where a task has that field."""

    def render(self, task: Task) -> Text:
        if "end" not in task.fields:
            return super().render(task)
        end = task.fields["end"]
        if end is None:
            return Text("--:--", style="progress.remaining")
        minutes, seconds = divmod(max(0, round(end - time.monotonic())), 60)
        return Text(f"{minutes:02d}:{seconds:02d}", style="progress.remaining")


@contextmanager
def counting_bar(name: str) -> Iterator[Callable[..., None]]:
    """A bar over a number of things: called with how many are done, of how many, and which.

    ``end`` is the time at which all will be done, or None while nobody knows; without it, the
    time left is what things of equal length take.
    """
    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        _TimeLeft(compact=True),
        TextColumn("{task.fields[text]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=None, text="")

        def show(done: int, of: int, text: str, **end: Any) -> None:
            progress.update(task, completed=done, total=of, text=text, **end)

        yield show


Show = Callable[[str, int, int, str], None]


def _watch(show: Show, tol: float | None, console: Console) -> Watch:
    prefix, share = STAGE.get(), _ShareDone(tol)

    def step(now: Step) -> None:
        show(
            f"{prefix}learning",
            round(STEPS * share(now)),
            STEPS,
            f"step {now.iteration}, {now.n_edges} edges, residual {now.residual:.0e}",
        )

    return Watch(
        step,
        lambda done, of: show(f"{prefix}choosing parameters", done, of, f"{done}/{of}"),
        lambda text: console.print(f"{prefix}{text}", highlight=False, soft_wrap=True),
    )


class _ShareDone:
    """How much of a fit is done: by the logarithm of the residual, which falls steadily.

    The limit of the iterations counts too, where it will be met first.  The share never falls.
    """

    def __init__(self, tol: float | None) -> None:
        self.tol = tol
        self.first = math.nan
        self.share = 0.0

    def __call__(self, now: Step) -> float:
        self.share = max(self.share, now.iteration / max(now.max_iter, 1))
        if self.tol is not None and now.residual > 0.0:  # False for NaN
            if math.isnan(self.first):
                self.first = now.residual
            if self.first > self.tol > 0.0:
                way = math.log(self.first / now.residual) / math.log(self.first / self.tol)
                self.share = max(self.share, min(way, 1.0))
        return self.share


def _lines(console: Console) -> Show:
    last = time.monotonic()

    def show(name: str, done: int, of: int, state: str) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            console.print(f"{name}: {state}", highlight=False, soft_wrap=True)

    return show
