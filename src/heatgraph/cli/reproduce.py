"""``heatgraph reproduce``: the tables and figures of the paper, computed anew."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from heatgraph.cli import INTERRUPTED
from heatgraph.cli.console import ERROR, Output, columns
from heatgraph.cli.options import ForceFlag, with_shared_options
from heatgraph.datasets.fetch import HOME_VARIABLE
from heatgraph.estimators.progress import counting_bar
from heatgraph.experiments import (
    EXPERIMENTS,
    Experiment,
    Readings,
    Settings,
    get_experiment,
    write_outcome,
)
from heatgraph.experiments.base import silent
from heatgraph.experiments.writing import REHEARSAL, collect_pages, same_request
from heatgraph.files import write_atomically

CELLS = ".cells"


@with_shared_options
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Names of experiments, or all.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder for the results; each experiment has one in it."
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A quick trial on small problems.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
    instances: Annotated[
        int | None,
        typer.Option(min=1, help="Random graphs per model; the paper's number by default."),
    ] = None,
    no_truth_instances: Annotated[
        int | None,
        typer.Option(
            min=1, help="Random graphs on which LearnHeat() runs, which is slow; all by default."
        ),
    ] = None,
    rbf: Annotated[
        str, typer.Option(help="How edges of RBF graphs are selected: weight or distance.")
    ] = Readings.rbf,
    noise: Annotated[
        str,
        typer.Option(
            help="Noise of table 2: std (0.02 is its standard deviation), variance, or 13dB."
        ),
    ] = (Readings.noise),
    ba: Annotated[
        int, typer.Option(help="Edges that each new node of a BA graph brings: 2 or 1.")
    ] = (Readings.ba),
    jobs: Annotated[int, typer.Option(help="Number of processes; -1 for one per processor.")] = 1,
    backend: Annotated[str, typer.Option(help="Backend of joblib, such as loky or dask.")] = "loky",
    scheduler: Annotated[
        str | None, typer.Option(help="Address of the scheduler of a Dask cluster.")
    ] = None,
    data_home: Annotated[
        Path | None,
        typer.Option(
            envvar=HOME_VARIABLE, help="Folder with the data sets; they are downloaded otherwise."
        ),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder for finished parts; .cells in --output by default.")
    ] = None,
    *,
    force: ForceFlag = False,
    out: Output,
) -> None:
    """Compute tables and figures of the paper and compare them with the paper's.

    After an interruption, the same command continues where it stopped.
    """
    with out.errors_told():
        if list_:
            rows = [(e.name, e.description) for e in EXPERIMENTS.values()]
            out.show({"experiments": dict(rows)}, [columns(["name", "what it is"], rows)])
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
            out.warn("stopped; finished parts are kept, and the same command continues from there")
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
            f"--data-home must be a folder that exists, got {folder}; name another, "
            "or leave it out to download the files"
        )


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
    bar = counting_bar(experiment.name) if out.shows_progress else nullcontext(silent)
    with bar as report, out.warnings_told():
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


def _human(summary: dict[str, Any], output: Path) -> list[str | Table]:
    rows = [
        (name, result["title"], os.path.join(output, name, "page.md"))
        for name, result in summary["experiments"].items()
    ]
    told = [REHEARSAL] if summary["asked"]["quick"] else []
    return [columns(["experiment", "", "to read"], rows), *told]
