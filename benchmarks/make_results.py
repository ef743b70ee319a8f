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

from benchmarks.results import DOCS, RESULTS, ROOT, measured, read
from heatgraph.experiments.writing import RESULTS as OUTCOME
from heatgraph.experiments.writing import collect_pages
from heatgraph.files import write_atomically

WIDTH = 1200  # of a picture on a page, in pixels
WORK = ROOT / "build" / "results"
HEAT = (
    "heatgraph.estimators.learn_heat",
    "heatgraph.solvers.heat",
    "heatgraph.solvers.lasso",
    "heatgraph.models.penalties",
    "heatgraph.selection.choose_parameters",
    "heatgraph.selection.likelihood",
)
PAPER = (
    "heatgraph.datasets.random_graphs",
    "heatgraph.datasets.synthetic",
    "heatgraph.experiments.paper_settings",
    "heatgraph.experiments.synthetic_runs",
    "heatgraph.experiments.synthetic_runs",
    "heatgraph.solvers.simplex_qp",
    "heatgraph.solvers.palm",
)


@dataclass(frozen=True)
class Source:
    """The experiments of a results file, or a benchmark, and the modules its numbers come from."""

    experiments: tuple[str, ...]
    modules: tuple[str, ...]
    options: tuple[str, ...] = ()
    benchmark: str | None = None


def benchmark(name: str, *modules: str, parts: tuple[str, ...] = ()) -> Source:
    """A benchmark that prints its numbers, or some parts of it."""
    module = f"benchmarks.{name}"
    return Source((), (module, *modules), parts, benchmark=module)


SOURCES = {
    "algorithm": Source(
        ("algorithm",),
        (*PAPER, "heatgraph.experiments.algorithm"),
        ("--paper-grid", "near", "--paper-instances", "3", "--learned-instances", "1"),
    ),
    "tables": Source(("table1", "table2"), (*PAPER, *HEAT, "heatgraph.experiments.tables")),
    **{
        name: Source((name,), (*PAPER, *HEAT, f"heatgraph.experiments.{name}"))
        for name in ("figure1", "figure2", "figure3", "figure4", "figure5")
    },
    "long_times": Source(
        ("long_times",),
        (*PAPER, "heatgraph.solvers.heat", "heatgraph.experiments.long_times"),
        ("--instances", "3"),
    ),
    "solver": benchmark("bench_solver", *HEAT, "heatgraph.solvers.palm"),
    "accuracy": benchmark("bench_accuracy", *HEAT),
    "recovery": benchmark("bench_accuracy", *HEAT, parts=("recovery",)),
    "noise": benchmark("bench_accuracy", *HEAT, parts=("decibels", "few")),
    "gaps": benchmark("bench_accuracy", *HEAT, "heatgraph.estimators.filling", parts=("gaps",)),
    "starts": benchmark("bench_accuracy", *HEAT, parts=("starts",)),
    "growth": benchmark("bench_accuracy", *HEAT, parts=("growth",)),
    "localise": benchmark(
        "bench_localise",
        *HEAT,
        "heatgraph.estimators.locating",
        "heatgraph.estimators.heat_covariance",
        parts=("--picture", "docs/_static/localise.png"),
    ),
    "cuts": benchmark("bench_accuracy", *HEAT, parts=("cuts",)),
    "sensitivity": benchmark("bench_accuracy", *HEAT, parts=("sensitivity",)),
    "etex": Source(
        ("etex",), (*HEAT, "heatgraph.experiments.etex", "heatgraph.experiments.etex_fits")
    ),
    "uber": Source(
        ("uber",), (*HEAT, "heatgraph.experiments.uber", "heatgraph.experiments.uber_fits")
    ),
    "molene": Source(
        ("molene",), (*HEAT, "heatgraph.experiments.molene", "heatgraph.experiments.molene")
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
    page = f"```text\n{done.stdout.strip()}\n```\n"
    return {**about, "numbers": {"printed": done.stdout.splitlines()}, "page": page}


def _reproduced(name: str, source: Source, more: Sequence[str]) -> dict[str, Any]:
    """The numbers and the page of experiments; their pictures are copied to the documentation."""
    command = ["reproduce", *source.experiments, *source.options]
    about = measured(shlex.join(["heatgraph", *command]), source.modules)
    # Finished parts are found again by the version of the package; here by the code itself.
    code = hashlib.sha256(json.dumps(about["modules"]).encode()).hexdigest()[:16]
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
