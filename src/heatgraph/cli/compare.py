"""``heatgraph compare``: which method predicts signals best, and by how much."""

from __future__ import annotations

import json as json_module
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.table import Table

from heatgraph.cli import INTERRUPTED
from heatgraph.cli.console import Output, columns
from heatgraph.cli.options import FitOptions, ForceFlag, TableOptions, with_shared_options
from heatgraph.cli.report import read_coordinates
from heatgraph.cli.result_folder import REPORT, address_of, listed, page_written, result_folder
from heatgraph.cli.tables import SignalTable, read_pairs, read_signals
from heatgraph.comparison import Comparison
from heatgraph.comparison import compare as compare_methods
from heatgraph.comparison.methods import METHODS, chosen_methods
from heatgraph.estimators.validation import check_number
from heatgraph.graph import Graph
from heatgraph.report.page_data import place

FOLDS = 3  # unless given


@with_shared_options
def compare(
    signals: Annotated[Path, typer.Argument(help="Signals as CSV, Parquet or NPY, one per row.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")],
    truth: Annotated[
        Path | None,
        typer.Option(help="The known graph: a CSV list of edges, .npz or .graphml."),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help=f"Methods to compare, separated by commas, of {', '.join(METHODS)}; by "
            "default all that predict, and with --truth all."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed that decides which entries are hidden.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Fits at the same time; -1 for all.")] = None,
    coordinates: Annotated[
        Path | None, typer.Option(help="CSV with the coordinates of the nodes, for the picture.")
    ] = None,
    report: Annotated[
        bool, typer.Option(help="Write report.html, a page that shows the comparison.")
    ] = True,
    *,
    held_out: FitOptions,
    options: TableOptions,
    force: ForceFlag = False,
    out: Output,
) -> None:
    """Compare methods by how well they predict signals that they have not seen.

    Writes comparison.csv, comparison.json, graphs.png, graphs.csv, the edges of every method, and
    report.html, a page that shows them.
    Ctrl-C ends the comparison and keeps the methods that are done.
    """
    with out.errors_told():
        if jobs == 0:
            raise ValueError("--jobs must be a number of fits, or -1 for all, got 0")
        chosen = None if methods is None else [name.strip() for name in methods.split(",")]
        estimators = chosen_methods(chosen, truth is not None)
        cv = FOLDS if held_out.cv is None else held_out.cv
        check_number("cv", cv, minimum=2, integer=True)
        table = read_signals(signals, replace(options, groups=held_out.groups))
        table = table.with_past(held_out.lags)
        known = None if truth is None else _known_graph(truth, table)
        out.note("; ".join(table.notes) + ".")
        for doubt in table.warnings:
            out.warning(doubt)
        with result_folder(output, force) as folder:
            found = compare_methods(
                table.frame,
                estimators,
                known,
                cv,
                seed,
                jobs,
                int(out.shows_progress),
                table.groups,
            )
            places = None if coordinates is None else read_coordinates(coordinates)
            _write(folder, found, places)
            if report and found.graphs:
                with page_written(out):
                    found.report(folder / REPORT, coordinates=places)
            files = listed(folder, output)
        summary: dict[str, Any] = {"command": "compare", "signals_file": str(signals)}
        summary |= {**json_module.loads(found.to_json()), "files": files}
        summary["warnings"] = out.warnings
        statuses: dict[str, list[str]] = {}
        for result in found.results:
            statuses.setdefault(result.status, []).append(result.name)
        statuses.pop("ok", None)
        unfinished = [f"{', '.join(names)}: {status}" for status, names in statuses.items()]
        told = [*unfinished, found.verdict, f"Results are in {output}", *address_of(output)]
        out.show(summary, [_rows(found), *told])
    if found.interrupted:
        raise typer.Exit(INTERRUPTED)


def _write(folder: Path, found: Comparison, coordinates: pd.DataFrame | None) -> None:
    places = None
    if coordinates is not None and found.graphs:
        places = place(next(iter(found.graphs.values())), coordinates, outlines=()).xy
    found.save(folder, places)


def _known_graph(path: Path, table: SignalTable) -> Graph:
    """The known graph on the nodes of the signals, weights 1 where the list has none."""
    if path.suffix.lower() in (".npz", ".graphml"):
        return Graph.load(path)
    names = table.names or tuple(map(str, range(table.n_nodes)))
    pairs = read_pairs(path, names)
    number = {name: k for k, name in enumerate(names)}
    frame = pd.read_csv(path)
    weights = np.ones(len(pairs))
    if "weight" in frame.columns and len(frame) == len(pairs):
        weights = frame["weight"].to_numpy(dtype=np.float64)
    edges = [(number[a], number[b]) for a, b in pairs]
    return Graph(edges, weights, table.n_nodes, table.names)


def _rows(found: Comparison) -> Table:
    """As wide as 80 characters take: with a known graph, the times are in the files only."""
    shown = {"missed": "missed ", "error": "± ", "excess": "more ", "excess_error": "± "}
    if found.truth is None:
        shown |= {"seconds": "seconds ", "n_edges": "edges ", "agreement": "agree "}
    else:
        shown |= {"n_edges": "edges ", "agreement": "agree ", "f_measure": "F "}
        shown |= {"average_precision": "AP "}
    table = [[r.name, *map(r.written, shown)] for r in found.results]
    return columns(["method", *shown.values()], table)
