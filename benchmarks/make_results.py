"""Renew the results files of the reproduced experiments, and say what changed.

    python -m benchmarks.make_results [NAME ...] [--jobs 2] [--data-home DATA]

An interrupted run goes on where it stopped, as long as the code is the same.  Other results files
are written by the benchmark that they are named after.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks.results import DOCS, RESULTS, ROOT, measured, read
from heatgraph.experiments.writing import RESULTS as OUTCOME
from heatgraph.experiments.writing import collect_pages
from heatgraph.files import write_atomically

WIDTH = 1600  # of a picture on a page, in pixels
WORK = ROOT / "build" / "results"
HEAT = (
    "heatgraph.estimators.learn_heat",
    "heatgraph.solvers.heat",
    "heatgraph.solvers.lasso",
    "heatgraph.solvers.log_penalty",
    "heatgraph.selection.choose_parameters",
)
PAPER = (
    "heatgraph.datasets.random_graphs",
    "heatgraph.datasets.synthetic",
    "heatgraph.experiments.paper_settings",
    "heatgraph.experiments.synthetic_problems",
    "heatgraph.experiments.synthetic_runs",
    "heatgraph.experiments.tables",
    "heatgraph.solvers.laplacian_qp",
    "heatgraph.solvers.palm",
)


@dataclass(frozen=True)
class Source:
    """The experiments of a results file, and the modules that their numbers come from."""

    experiments: tuple[str, ...]
    modules: tuple[str, ...]
    options: tuple[str, ...] = field(default=())


SOURCES = {
    "tables": Source(
        ("table1", "table2"), PAPER + HEAT, ("--paper-grid", "near", "--learned-instances", "2")
    ),
    "figures": Source(("figure1", "figure2", "figure3", "figure4", "figure5"), PAPER + HEAT),
    "long_times": Source(("long_times",), (*PAPER, "heatgraph.experiments.long_times")),
    "etex": Source(
        ("etex",), (*HEAT, "heatgraph.experiments.etex", "heatgraph.experiments.etex_fits")
    ),
    "uber": Source(
        ("uber",), (*HEAT, "heatgraph.experiments.uber", "heatgraph.experiments.uber_fits")
    ),
    "molene": Source(
        ("molene",), (*HEAT, "heatgraph.experiments.molene", "heatgraph.experiments.molene_fits")
    ),
}


def renew(name: str, more: Sequence[str]) -> None:
    """Run the experiments of a results file, write it and its pictures, and say what changed."""
    source = SOURCES[name]
    options = [*source.options, *more]
    about = measured(
        shlex.join(["heatgraph", "reproduce", *source.experiments, *options]), source.modules
    )
    # Finished parts are found again by the version of the package; here by the code itself.
    code = hashlib.sha256(json.dumps(about["modules"]).encode()).hexdigest()[:16]
    program = Path(sys.executable).with_name("heatgraph")
    folders = ["--output", str(WORK / name), "--cache", str(WORK / "cells" / code), "--force"]
    subprocess.run([str(program), "reproduce", *source.experiments, *options, *folders], check=True)
    content = {**about, "numbers": _numbers(name), "page": _page(name)}
    path = RESULTS / f"{name}.json"
    earlier = read(name) if path.exists() else {}
    with write_atomically(path, "w") as file:
        file.write(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    _copy_pictures(name)
    for line in differences(earlier.get("numbers", {}), content["numbers"]):
        print(f"{name}: {line}")


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
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in SOURCES]
    if unknown:
        parser.error(f"there is no {unknown[0]!r}; there are {', '.join(SOURCES)}")
    more = ["--jobs", given.jobs]
    more += ["--data-home", given.data_home] if given.data_home else []
    for name in given.names or SOURCES:
        renew(name, more)


if __name__ == "__main__":
    main()
