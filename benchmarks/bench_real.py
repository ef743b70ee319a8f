"""Predictions and graphs on data that the library did not make, against the usual methods.

Run with ``make bench-real`` or ``python -m benchmarks.bench_real [--only DATA ...]``.  Of each set,
"many" signals (500, or all there are) and "few" (half as many as nodes) are learned from.  A fifth
of the entries of other signals is hidden at random, or a fifth of the nodes around one of them
("block"), and filled in; "missed" is the share of their energy about the training means that is not
predicted: 1 is the node mean.  AP is the average precision of the weights of all pairs against the
true edges, F the F-measure of a method's own edges.  Every method is as it comes, with one thread.

A finished cell is kept in ``benchmarks/.cache/cells`` and is not run again until its data, the
scores or the library change.  ``--keep`` adds to the results file what is run now; what it has of
other methods, data and seeds stays, each cell with the commit it was run at.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from benchmarks import real_report
from benchmarks.bench_covariance import write
from benchmarks.real_data import SEEDS, load, makers
from benchmarks.real_methods import METHODS
from benchmarks.real_score import SIZES, Cell, run_cell

ROOT = Path(__file__).parent.parent
OUTPUT = ROOT / "docs" / "results"


def options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(makers()), help="these data sets")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), help="these methods")
    parser.add_argument("--skip", nargs="+", default=[], choices=list(METHODS), help="not these")
    parser.add_argument("--seeds", choices=list(SEEDS), default="design")
    parser.add_argument("--first", type=int, metavar="N", help="the first N of these seeds only")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time")
    parser.add_argument("--limit", type=int, default=1800, help="seconds for a cell")
    parser.add_argument("--fresh", action="store_true", help="run finished cells again")
    parser.add_argument("--keep", action="store_true", help="keep the file's other cells")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args(arguments)
    given.numbers = SEEDS[given.seeds][: given.first]
    return given


def available(names: list[str], seeds: tuple[int, ...]) -> list[str]:
    """The sets that are in the cache or can be made here; the others are named."""
    found = []
    for name in names:
        try:
            for seed in seeds:
                load(name, seed)
        except (ImportError, OSError) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
        else:
            found.append(name)
    return found


def run(given: argparse.Namespace, names: list[str]) -> list[dict[str, Any]]:
    """Every cell; a line for each as it ends.  The slow methods come last."""
    methods = [m for m in METHODS if m in (given.methods or METHODS) and m not in given.skip]
    cells = [
        Cell(name, size, seed, method)
        for method in methods
        for name in names
        for size in SIZES
        for seed in given.numbers
    ]
    jobs = (delayed(run_cell)(cell, given.limit, given.fresh) for cell in cells)
    results = []
    for result in Parallel(n_jobs=given.jobs, return_as="generator_unordered")(jobs):
        if result is not None:
            results.append(result)
            print(real_report.line(result), file=sys.stderr, flush=True)
    return results


def about(given: argparse.Namespace) -> dict[str, Any]:
    """What the figures depend on."""

    def git(*words: str) -> str:
        asked = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return asked.stdout.strip()

    changed = bool(git("status", "--porcelain", "--", "src", "benchmarks"))
    return {
        "commit": git("rev-parse", "HEAD") + (" and changes" if changed else ""),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "jobs": given.jobs,
        "seeds": given.seeds,
        "numbers": list(given.numbers),
        "limit_seconds": given.limit,
    }


def with_earlier(cells: list[dict[str, Any]], earlier: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells of a results file, and those run now in place of the same ones there."""

    def place(cell: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(cell[key] for key in Cell._fields)

    known = {place(cell): {"commit": earlier["commit"], **cell} for cell in earlier["cells"]}
    return list((known | {place(cell): cell for cell in cells}).values())


def main(arguments: list[str] | None = None) -> int:
    given = options(arguments)
    names = available(given.only or list(makers()), given.numbers)
    told = {name: load(name, given.numbers[0]).provenance for name in names}
    path = given.output / "real.json"
    result = about(given)
    cells = [{**cell, "commit": result["commit"]} for cell in run(given, names)]
    if given.keep and path.exists():
        earlier = json.loads(path.read_text())
        cells = with_earlier(cells, earlier)
        told = earlier["provenance"] | told
        result["numbers"] = sorted({cell["seed"] for cell in cells})
    rows = real_report.rows_of(cells)
    summary, chosen = (real_report.summary(rows, name) for name in real_report.VARIANTS)
    text = real_report.tables(rows, told)
    print(text)
    print(real_report.summary_text(summary), real_report.summary_text(chosen), sep="\n\n")
    given.output.mkdir(parents=True, exist_ok=True)
    result |= {"provenance": told, "summary": summary, "summary_kernel_chosen": chosen}
    result |= {"rows": rows, "cells": cells}
    write(path, json.dumps(result, indent=1) + "\n")
    # Not .md: the pages of the documentation include it.
    sums = [real_report.summary_text(numbers) for numbers in (summary, chosen)]
    tables = [_when(given, result), text, *sums]
    write(given.output / "real-tables.txt", "\n".join(tables) + "\n")
    for name, figure in real_report.pictures(rows).items():
        figure.savefig(given.output / f"real-{name}.png", dpi=150)
    return 0


def _when(given: argparse.Namespace, result: dict[str, Any]) -> str:
    """Which seeds, and at which commit each method ran."""
    ran: dict[str, set[str]] = {}
    for cell in result["cells"]:
        ran.setdefault(cell["commit"][:9], set()).add(cell["method"])
    usual = max(ran, key=lambda commit: len(ran[commit]))
    others = [f"{', '.join(sorted(ran[c]))} at {c}" for c in ran if c != usual]
    seeds = ", ".join(map(str, result["numbers"]))
    places = "; ".join([f"at {usual}", *others])
    return f"Seeds {seeds} ({given.seeds}), last run on {result['date'][:10]}, {places}.\n"


if __name__ == "__main__":
    sys.exit(main())
