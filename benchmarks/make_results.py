"""Renew the results files that pages quote, and say what changed.

    python -m benchmarks.make_results [NAME ...] [--jobs 2] [--data-home DATA]

An interrupted run goes on where it stopped, as long as the code is the same.  What a benchmark
prints is kept as it is.  The files of `bench_covariance`, `bench_large` and `bench_real` are
written by these themselves.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks.results import DOCS, RESULTS, ROOT, digests, measured, read
from heatgraph.experiments.writing import RESULTS as OUTCOME
from heatgraph.experiments.writing import collect_pages
from heatgraph.files import write_atomically

WIDTH = 1200  # of a picture on a page, in pixels
WORK = ROOT / "build" / "results"
# What the numbers come from: rooms of the package, by what a fit of each kind runs.
PROBLEMS = (
    "heatgraph.datasets.random_graphs",
    "heatgraph.datasets.synthetic",
    "heatgraph.experiments.paper_settings",
    "heatgraph.experiments.synthetic_runs",
    "heatgraph.graph.candidates",
    "heatgraph.metrics",
)
SOLVER = (
    "heatgraph.kernels.eigen",
    "heatgraph.kernels.native",
    "heatgraph.models.heat",
    "heatgraph.models.simplex",
    "heatgraph.solvers.driver",
    "heatgraph.solvers.engine",
    "heatgraph.solvers.heat",
    "heatgraph.solvers.lasso",
    "heatgraph.solvers.quasi_newton",
    "src/native",
)
LEARN_HEAT = (
    *SOLVER,
    "heatgraph.estimators.fitted_graph",
    "heatgraph.estimators.fitting",
    "heatgraph.estimators.hidden",
    "heatgraph.estimators.input_signals",
    "heatgraph.estimators.learn_heat",
    "heatgraph.estimators.model",
    "heatgraph.estimators.parameters",
    "heatgraph.graph.candidates",
    "heatgraph.kernels.spectral",
    "heatgraph.selection.choose_parameters",
    "heatgraph.selection.cut",
    "heatgraph.selection.folds",
    "heatgraph.selection.likelihood",
    "heatgraph.selection.masked_prediction",
    "heatgraph.solvers.signal_model",
)
PALM = ("heatgraph.solvers.palm", "heatgraph.solvers.driver", "heatgraph.solvers.simplex_qp")
SMOOTH = (
    "heatgraph.baselines.base",
    "heatgraph.baselines.learned",
    "heatgraph.baselines.semismooth_newton",
    "heatgraph.baselines.smooth_graph",
    "heatgraph.baselines.smooth_solver",
)
TEMPLATES = (
    "heatgraph.baselines.base",
    "heatgraph.baselines.learned",
    "heatgraph.baselines.semismooth_newton",
    "heatgraph.baselines.spectral_templates",
    "heatgraph.baselines.templates_solver",
    "heatgraph.solvers.simplex_qp",
)
THREE_METHODS = (*PROBLEMS, *LEARN_HEAT, *SMOOTH, *TEMPLATES)
PLACES = (
    *LEARN_HEAT,
    "heatgraph.datasets.geography",
    "heatgraph.experiments.prediction",
)


@dataclass(frozen=True)
class Source:
    """The experiments of a results file, or a benchmark, and the modules its numbers come from.

    ``modules`` compute the parts that are kept; ``summaries`` only choose among them and draw.
    """

    experiments: tuple[str, ...]
    modules: tuple[str, ...]
    summaries: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    benchmark: str | None = None
    markdown: bool = False


def benchmark(
    name: str, *modules: str, parts: tuple[str, ...] = (), markdown: bool = False
) -> Source:
    """A benchmark that prints its numbers, or some parts of it; as Markdown, or as plain text."""
    module = f"benchmarks.{name}"
    return Source((), (module, *modules), (), parts, module, markdown)


def _experiments(*names: str) -> tuple[str, ...]:
    return tuple(f"heatgraph.experiments.{name}" for name in names)


SOURCES = {
    **{
        name: Source(
            (name,),
            (*THREE_METHODS, *PALM),
            _experiments("tables", "table_rows"),
        )
        for name in ("table1", "table2")
    },
    "figure1": Source(("figure1",), (*PROBLEMS, *LEARN_HEAT, *_experiments("figure1"))),
    "figure2": Source(("figure2",), (*THREE_METHODS, *PALM), _experiments("figure2", "table_rows")),
    "figure3": Source(
        ("figure3",),
        THREE_METHODS,
        _experiments("figure3", "table_rows"),
        ("--instances", "10"),
    ),
    "figure4": Source(("figure4",), (*PROBLEMS, *SOLVER), _experiments("figure4")),
    "figure5": Source(
        ("figure5",), (*PROBLEMS, *LEARN_HEAT, *_experiments("figure5")), _experiments("table_rows")
    ),
    "long_times": Source(
        ("long_times",),
        (*PROBLEMS, *SOLVER, *SMOOTH, *_experiments("long_times")),
        options=("--instances", "10"),
    ),
    "solver": benchmark("bench_solver", *LEARN_HEAT, *PALM),
    **{
        name: benchmark("bench_accuracy", *PROBLEMS, *LEARN_HEAT, parts=parts)
        for name, parts in {
            "recovery": ("recovery",),
            "noise": ("decibels", "few"),
            "cuts": ("cuts",),
            "starts": ("starts",),
            "sensitivity": ("sensitivity",),
            "seconds": ("growth",),
        }.items()
    },
    "baselines": benchmark(
        "bench_baselines",
        *PROBLEMS,
        *SMOOTH,
        *TEMPLATES,
        "heatgraph.baselines.log_degree_solver",
        markdown=True,
    ),
    "growth": benchmark(
        "bench_growth",
        *SOLVER,
        "heatgraph.datasets.random_graphs",
        "heatgraph.datasets.synthetic",
        parts=("--draw", "docs/_static/growing.png"),
        markdown=True,
    ),
    "distributed": benchmark(
        "bench_distributed",
        *SOLVER,
        "heatgraph.distributed.chunked_signals",
        "heatgraph.distributed.codes",
        "heatgraph.distributed.parquet",
        "heatgraph.distributed.signals",
        "heatgraph.distributed.worker_tasks",
    ),
    "gaps": benchmark(
        "bench_accuracy",
        *PROBLEMS,
        *LEARN_HEAT,
        parts=("gaps",),
    ),
    "localise": benchmark(
        "bench_localise",
        *LEARN_HEAT,
        "heatgraph.estimators.heat_covariance",
        parts=("--picture", "docs/_static/localise.png"),
    ),
    "etex": Source(
        ("etex",),
        (*PLACES, "heatgraph.datasets.etex", *_experiments("etex_fits")),
        _experiments("etex"),
    ),
    "uber": Source(
        ("uber",),
        (*PLACES, "heatgraph.datasets.new_york", *_experiments("uber_fits")),
        _experiments("uber"),
    ),
    "molene": Source(
        ("molene",), (*PLACES, *SMOOTH, "heatgraph.datasets.molene", *_experiments("molene"))
    ),
}


def renew(name: str, more: Sequence[str]) -> None:
    """Measure what a results file holds, write it, and say what changed."""
    source = SOURCES[name]
    content = _printed(source) if source.benchmark else _reproduced(name, source, more)
    path = RESULTS / f"{name}.json"
    earlier = read(name) if path.exists() else {}
    with write_atomically(path, "w") as file:
        file.write(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    for line in differences(earlier.get("numbers", {}), content["numbers"]):
        print(f"{name}: {line}")


def _printed(source: Source) -> dict[str, Any]:
    """What a benchmark prints, line by line."""
    assert source.benchmark is not None  # for the type checker: asked by the caller
    about = measured(
        shlex.join(["python", "-m", source.benchmark, *source.options]), source.modules
    )
    command = [sys.executable, "-m", source.benchmark, *source.options]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    text = done.stdout.strip()
    page = f"{text}\n" if source.markdown else f"```text\n{text}\n```\n"
    return {**about, "numbers": {"printed": done.stdout.splitlines()}, "page": page}


def _reproduced(name: str, source: Source, more: Sequence[str]) -> dict[str, Any]:
    """The numbers and the page of experiments; their pictures are copied to the documentation."""
    command = ["reproduce", *source.experiments, *source.options]
    about = measured(shlex.join(["heatgraph", *command]), [*source.modules, *source.summaries])
    # Finished parts are found again by the version of the package; here by the code itself.
    code = hashlib.sha256(json.dumps(digests(source.modules)).encode()).hexdigest()[:16]
    program = str(Path(sys.executable).with_name("heatgraph"))
    folders = ["--output", str(WORK / name), "--cache", str(WORK / "cells" / code), "--force"]
    subprocess.run([program, *command, *folders, *more], check=True)
    _copy_pictures(name)
    return {**about, "numbers": _numbers(name), "page": _page(name)}


def _numbers(name: str) -> dict[str, Any]:
    return {
        experiment: json.loads((WORK / name / experiment / OUTCOME).read_text("utf-8"))["numbers"]
        for experiment in SOURCES[name].experiments
    }


def _page(name: str) -> str:
    """The pages of the experiments, below each other, without a common title."""
    text = collect_pages(WORK / name, SOURCES[name].experiments, name, f"_static/{name}/")
    return text.split("\n", 2)[2]


def _copy_pictures(name: str) -> None:
    folder = DOCS / "_static" / name
    folder.mkdir(parents=True, exist_ok=True)
    for path in (WORK / name).glob("*/*.png"):
        with Image.open(path) as image:
            image.thumbnail((WIDTH, 10 * WIDTH), Image.Resampling.LANCZOS)
            image.convert("RGB").save(folder / path.name, optimize=True)


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """A line for each number that is not what it was."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from differences(old.get(key), new.get(key), f"{path}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differences(before, after, f"{path}/{number}")
    elif old != new:
        yield f"{path.lstrip('/')}: {old} -> {new}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SOURCES))
    parser.add_argument("--jobs", default="1")
    parser.add_argument("--data-home", help="where data sets are kept")
    parser.add_argument("--cache", help="where finished parts are kept, whatever the code")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in SOURCES]
    if unknown:
        parser.error(f"there is no {unknown[0]!r}; there are {', '.join(SOURCES)}")
    more = ["--jobs", given.jobs]
    more += ["--data-home", given.data_home] if given.data_home else []
    more += ["--cache", given.cache] if given.cache else []
    for name in given.names or SOURCES:
        renew(name, more)


if __name__ == "__main__":
    main()
