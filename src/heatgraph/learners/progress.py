"""The progress bar of a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from heatgraph.solvers.result import Monitor
from heatgraph.solvers.result import Progress as Step

__all__ = ["progress_bar", "progress_monitor", "selection_bar"]


@contextmanager
def progress_monitor(
    verbose: int, monitor: Monitor | None, unit: float = 1.0
) -> Iterator[Monitor | None]:
    """The caller's monitor, and a progress bar on standard error where ``verbose`` asks for one.

    Both see the objective times ``unit``, which puts it back in the units of the caller.
    """
    with progress_bar() if verbose else nullcontext() as bar:
        watchers = [m for m in (bar, monitor) if m is not None]

        def tell(step: Step) -> None:
            for watcher in watchers:
                watcher(replace(step, objective=step.objective * unit))

        yield tell if watchers else None


@contextmanager
def progress_bar(description: str = "learning") -> Iterator[Monitor]:
    """A bar that shows the iteration, the objective, the number of edges and the residual."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=None, state="")

        def show(step: Step) -> None:
            progress.update(
                task,
                total=step.max_iter,
                completed=step.iteration,
                state=(
                    f"{step.iteration}/{step.max_iter}  objective {step.objective:.5g}  "
                    f"{step.n_edges} edges  residual {step.residual:.1e}"
                ),
            )

        yield show


@contextmanager
def selection_bar(wanted: object) -> Iterator[Callable[[int, int], None] | None]:
    """A bar over the paths that the choice of parameters walks."""
    if not wanted:
        yield None
        return
    columns = (
        TextColumn("choosing parameters"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)

        def show(done: int, of: int) -> None:
            progress.update(task, total=of, completed=done)

        yield show
