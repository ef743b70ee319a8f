"""The progress bar of a fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from heatgraph.solvers.result import Monitor
from heatgraph.solvers.result import Progress as Step

__all__ = ["progress_bar", "progress_monitor"]


@contextmanager
def progress_monitor(verbose: int, monitor: Monitor | None) -> Iterator[Monitor | None]:
    """The caller's monitor, and a progress bar on standard error where ``verbose`` asks for one."""
    if not verbose:
        yield monitor
        return
    with progress_bar() as bar:

        def both(step: Step) -> None:
            bar(step)
            if monitor is not None:
                monitor(step)

        yield both


@contextmanager
def progress_bar(description: str = "learning") -> Iterator[Monitor]:
    """A bar that shows the iteration, the objective, the number of edges and the residual."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TextColumn(
            "objective {task.fields[objective]}  {task.fields[edges]} edges  "
            "residual {task.fields[residual]}"
        ),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=None, objective="", edges="", residual="")

        def show(step: Step) -> None:
            progress.update(
                task,
                total=step.max_iter,
                completed=step.iteration,
                objective=f"{step.objective:.5g}",
                edges=step.n_edges,
                residual=f"{step.residual:.1e}",
            )

        yield show
