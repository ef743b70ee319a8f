"""``heatgraph reproduce``: the tables and figures of the paper, computed anew."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from heatgraph.cli import INTERRUPTED
from heatgraph.cli.console import ERROR, Output, columns
from heatgraph.cli.options import ForceFlag, with_shared_options
from heatgraph.datasets.fetch import HOME_VARIABLE
from heatgraph.experiments import (
    EXPERIMENTS,
    Experiment,
    Readings,
    Settings,
    get_experiment,
    write_outcome,
)
from heatgraph.experiments.base import Report, silent
from heatgraph.experiments.writing import REHEARSAL, collect_pages, same_request
from heatgraph.files import write_atomically

CELLS = ".cells"


@with_shared_options
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Experiments, or all.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the results, one in it each.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show the names and stop.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A rehearsal at a toy size.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same numbers.")] = 0,
    instances: Annotated[
        int | None, typer.Option(min=1, help="Random graphs a model, in place of the paper's.")
    ] = None,
    no_truth_instances: Annotated[
        int | None,
        typer.Option(min=1, help="On how many of them LearnHeat() runs, which is slow; all."),
    ] = None,
    rbf: Annotated[
        str, typer.Option(help="RBF edges kept by weight or by distance.")
    ] = Readings.rbf,
    noise: Annotated[
        str, typer.Option(help="std: 0.02 is the standard deviation; 13dB; or variance.")
    ] = (Readings.noise),
    ba: Annotated[int, typer.Option(help="Edges of each new node of a BA graph, 2 or 1.")] = (
        Readings.ba
    ),
    jobs: Annotated[int, typer.Option(help="Processes at once; -1 for all processors.")] = 1,
    backend: Annotated[str, typer.Option(help="Of joblib, such as loky or dask.")] = "loky",
    scheduler: Annotated[
        str | None, typer.Option(help="Address of the scheduler of a dask cluster.")
    ] = None,
    data_home: Annotated[
        Path | None,
        typer.Option(envvar=HOME_VARIABLE, help="Where data sets are kept."),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Where finished parts are kept; .cells in the output.")
    ] = None,
    *,
    force: ForceFlag = False,
    out: Output,
) -> None:
    """Compute tables and figures of the paper anew, and put them beside the paper's.

    An interrupted run goes on where it stopped when the same command is given again.
    """
    with out.errors_told():
        if list_:
            _list(out)
            return
        experiments = _wanted(names or [])
        if output is None:
            raise ValueError("--output must name a folder for the results")
        _check_home(data_home)
        settings = Settings(
            seed=seed,
            quick=quick,
            instances=instances,
            no_truth_instances=no_truth_instances,
            readings=Readings(rbf, noise, ba),
            n_jobs=jobs,
            backend=backend,
            scheduler=scheduler,
            data_home=data_home,
            cache=output / CELLS if cache is None else cache,
        )
        _check_replacing(experiments, output, settings, force)
        try:
            output.mkdir(parents=True, exist_ok=True)
            summary = _run(experiments, output, settings, out)
        except KeyboardInterrupt:
            out.warn("stopped; what is finished is kept, and the same command goes on from there")
            raise typer.Exit(INTERRUPTED) from None
        out.show(summary, _human(summary, output))
        if summary["failed"]:
            raise typer.Exit(ERROR)


def _check_home(folder: Path | None) -> None:
    """Refuse an option that names no folder; of the variable, who reads it says so."""
    if folder is None or str(folder) == os.environ.get(HOME_VARIABLE):
        return
    if not folder.expanduser().is_dir():
        raise FileNotFoundError(
            f"--data-home must be a folder of data, got {folder}, which is none; name one that is "
            "there, or none to have the files downloaded"
        )


def _list(out: Output) -> None:
    rows = [(e.name, e.description) for e in EXPERIMENTS.values()]
    out.show({"experiments": dict(rows)}, [columns(["name", "what it is"], rows)])


def _wanted(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, each once."""
    if not names:
        raise ValueError(f"name an experiment: {', '.join(EXPERIMENTS)}, or all")
    if "all" in names:
        return list(EXPERIMENTS.values())
    return [get_experiment(name) for name in dict.fromkeys(names)]


def _check_replacing(
    experiments: Sequence[Experiment], output: Path, settings: Settings, force: bool
) -> None:
    """Refuse, before anything runs, to replace what is not the answer to the same request."""
    for experiment in experiments:
        folder = output / experiment.name
        if force or not folder.exists() or not any(folder.iterdir()):
            continue
        if not same_request(folder, experiment.name, settings):
            raise FileExistsError(
                f"the folder {folder} has results of another request; --force replaces them, "
                "or name another --output"
            )


def _run(
    experiments: Sequence[Experiment], output: Path, settings: Settings, out: Output
) -> dict[str, Any]:
    """Run them one by one, each written as soon as it is there.

    Of several, one that fails, for want of a data set say, does not keep the others from running.
    """
    results, failed = {}, {}
    for experiment in experiments:
        try:
            results[experiment.name] = _run_one(experiment, output, settings, out)
        except (ValueError, OSError, ImportError) as error:
            if len(experiments) == 1:
                raise
            failed[experiment.name] = str(error)
            out.warn(f"error: {experiment.name}: {error}")
    with write_atomically(output / "index.md", "w") as file:
        file.write(collect_pages(output, EXPERIMENTS, "Results"))
    return {
        "command": "reproduce",
        "asked": settings.asked(),
        "experiments": results,
        "failed": failed,
    }


def _run_one(
    experiment: Experiment, output: Path, settings: Settings, out: Output
) -> dict[str, Any]:
    with _progress(experiment.name, out) as report, out.warnings_told():
        outcome = experiment.run(replace(settings, report=report))
        files = write_outcome(
            outcome,
            output / experiment.name,
            settings=settings,
            replace=True,
        )
    return {
        "title": outcome.title,
        "numbers": dict(outcome.numbers),
        "files": [str(path) for path in files],
    }


def _human(summary: dict[str, Any], output: Path) -> list[Any]:
    rows = [
        (name, result["title"], os.path.join(output, name, "page.md"))
        for name, result in summary["experiments"].items()
    ]
    told = [REHEARSAL] if summary["asked"]["quick"] else []
    return [columns(["experiment", "", "to read"], rows), *told]


@contextmanager
def _progress(name: str, out: Output) -> Iterator[Report]:
    """A bar with the time left, if someone is there to watch it."""
    if not out.shows_progress:
        yield silent
        return
    bar = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[text]}"),
    )
    with Progress(*bar, console=Console(stderr=True), transient=True) as progress:
        task: TaskID = progress.add_task(name, total=None, text="")

        def report(done: int, total: int, text: str) -> None:
            progress.update(task, completed=done, total=total, text=text)

        yield report
