"""``heatgraph sources``: where the heat of new signals came from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.table import Table

from heatgraph.cli.console import Output, columns, counted
from heatgraph.cli.options import ForceFlag, ModelFile, TableOptions, with_shared_options
from heatgraph.cli.result_folder import (
    GRAPH,
    draw,
    model_path,
    parents_made,
    result_folder,
    source_rows,
    write_sources,
    write_summary,
)
from heatgraph.cli.table_files import NPY, PARQUET, TEXT, kind_of, refuse_existing
from heatgraph.cli.tables import SignalTable, read_signals
from heatgraph.cli.task import model_of
from heatgraph.estimators import HeatCovariance, LearnHeat, SourceCodes
from heatgraph.graph.convert import labels
from heatgraph.plotting import plot_sources
from heatgraph.storage import load_model

HeatModel = LearnHeat | HeatCovariance

MAX_ROWS = 30  # of the table printed on a terminal
OTHER_KINDS = {*TEXT, *PARQUET, NPY, ".json", ".npz", ".xlsx", ".png", ".html"} - {".csv"}


@with_shared_options
def sources(
    model_file: ModelFile,
    signals: Annotated[
        Path, typer.Argument(help="Signals, with one column for every node of MODEL.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="A .csv file or a folder where all sources are written."
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of sources to show for each signal.")] = 3,
    at_once: Annotated[
        bool,
        typer.Option(
            "--at-once",
            help="Explain each signal by heat released at one moment, at a scale of its own.",
        ),
    ] = False,
    *,
    options: TableOptions,
    force: ForceFlag = False,
    out: Output,
) -> None:
    """Find the sources of signals on a learned graph.

    A signal's sources are the solution of a convex problem; the duality gap says how exact it is.
    Of a Gaussian model, which has heat released everywhere, they are the mean heat at every node,
    given the signal.  With --at-once, of either model, the sources of a signal are at one scale,
    the best of many.
    """
    with out.errors_told():
        if output is not None and kind_of(output) in OTHER_KINDS:
            raise ValueError(
                f"--output: sources are written as a .csv file or into a folder, not as "
                f"{kind_of(output)}, got {output}"
            )
        model = heat_model(model_file)
        table, X = signals_for(model, signals, options, out)
        if output is not None and output.suffix.lower() == ".csv":
            refuse_existing(output, force)
            found = code(model, X, at_once)
            with parents_made(output):
                write_sources(output, source_rows(model, found.sources, found.scales, table))
            summary = summary_of(model, found, table, top, at_once) | {"files": [str(output)]}
        elif output is not None:
            with result_folder(output, force) as folder:
                found = code(model, X, at_once)
                summary = write_result(folder, output, model, found, table, top, at_once, out)
        else:
            found = code(model, X, at_once)
            summary = summary_of(model, found, table, top, at_once) | {"files": []}
        out.show(summary, human(summary, output))


def heat_model(path: Path) -> HeatModel:
    """The model in a file, or in the folder that `learn` left."""
    model = load_model(model_path(path))
    if not isinstance(model, HeatModel):
        raise ValueError(
            f"{path} holds a {type(model).__name__}, a model without sources; learn one with "
            "--method heat"
        )
    return model


def signals_for(
    model: Any, path: Path, options: TableOptions, out: Output
) -> tuple[SignalTable, Any]:
    """Signals from a file, with a column for every node, and as the model takes them."""
    names = model.graph_.names
    nodes = None if names is None else tuple(map(str, names))
    table = match_nodes(path, read_signals(path, replace(options, nodes=nodes)), model)
    out.note("; ".join(table.notes) + ".")
    return table, table.frame if hasattr(model, "feature_names_in_") else table.values


def code(model: HeatModel, X: Any, at_once: bool) -> SourceCodes:
    """The sources, with their gaps; of a Gaussian model the means given the signals."""
    if at_once:
        return located(model, X)
    if isinstance(model, LearnHeat):
        return model.code(X)
    means = model.transform(X).reshape(len(X), model.scales_.size, -1)
    return SourceCodes(means, np.zeros(len(means)), scales=model.scales_.tolist())


def located(model: HeatModel, X: Any) -> SourceCodes:
    """The sources of each signal at the scale that is best for it."""
    numbered = X.reset_index(drop=True) if isinstance(X, pd.DataFrame) else X
    found = model.locate(numbered)
    node_of = {name: k for k, name in enumerate(labels(model.graph_))}
    scales, which = np.unique(found["scale"], return_inverse=True)
    sources = np.zeros((len(X), scales.size, len(node_of)))
    node = found["node"].map(node_of).to_numpy(dtype=np.intp)
    sources[found["signal"].to_numpy(dtype=np.intp), which, node] = found["strength"]
    return SourceCodes(sources, np.zeros(len(X)), scales=scales.tolist())


def match_nodes(path: Path, table: SignalTable, model: Any) -> SignalTable:
    """The columns in the order of the model's nodes."""
    n_nodes = model.graph_.n_nodes
    if model.graph_.names is None or table.names is None:
        if table.values.shape[1] != n_nodes:
            raise ValueError(
                f"{path} has {counted(table.values.shape[1], 'node')}, the model has {n_nodes}"
                + ("" if table.names is not None else "; the columns are matched by their order")
            )
        note = "nodes are matched by their order"
        names = None if model.graph_.names is None else tuple(map(str, model.graph_.names))
        return replace(table, names=names, notes=(*table.notes, note))
    nodes = tuple(map(str, model.graph_.names))
    missing = [name for name in nodes if name not in table.names]
    unknown = [name for name in table.names if name not in nodes]
    if missing or unknown:
        parts = [
            f"{what} {', '.join(map(repr, some[:5]))}{', ...' if len(some) > 5 else ''}"
            for what, some in (("it lacks", missing), ("the model does not know", unknown))
            if some
        ]
        raise ValueError(
            f"{path} does not have the {n_nodes} nodes of the model: {'; '.join(parts)}. Leave the "
            "values of a node that was not observed empty, and drop the columns that are no nodes"
        )
    order = [table.names.index(name) for name in nodes]
    return replace(table, values=table.values[:, order], names=nodes, order=tuple(order))


def write_result(
    folder: Path,
    shown: Path,
    model: HeatModel,
    found: SourceCodes,
    table: SignalTable,
    top: int,
    at_once: bool,
    out: Output,
) -> dict[str, Any]:
    """The list of sources, a picture of the strongest signal, and the summary."""
    write_sources(folder / "sources.csv", source_rows(model, found.sources, found.scales, table))
    loudest = int(np.argmax(np.nansum((table.values - model.location_) ** 2, axis=1)))
    drawn = found.sources[loudest]
    if (
        isinstance(model, HeatCovariance) and not at_once
    ):  # heat from every node: ring the strongest
        least = np.sort(np.abs(drawn), axis=None)[-min(top, drawn.size)]
        drawn = np.where(np.abs(drawn) >= least, drawn, 0.0)
    draw(
        folder / "sources.png",
        GRAPH,
        lambda ax: plot_sources(
            model.graph_, table.values[loudest], drawn, found.scales, ax=ax
        ).set_title(f"signal {table.label(loudest)}"),
        out,
    )
    return write_summary(folder, shown, summary_of(model, found, table, top, at_once), out)


def summary_of(
    model: HeatModel, found: SourceCodes, table: SignalTable, top: int, at_once: bool
) -> dict[str, Any]:
    """The strongest sources of every signal, and how exact they are."""
    coded = isinstance(model, LearnHeat) and not at_once
    return {
        "command": "sources",
        "model": model_of(model),
        "n_signals": len(found.sources),
        "n_nodes": model.graph_.n_nodes,
        "n_sources": int(np.count_nonzero(found.sources)),
        "largest_gap": float(found.gap.max(initial=0.0)) if coded else None,
        "at_once": at_once,
        "top": source_rows(model, found.sources, found.scales, table, top),
    }


def human(summary: dict[str, Any], output: Path | None) -> list[str | Table]:
    """The same, for a reader."""
    rows = [
        (row["signal"], str(row["node"]), f"{row['scale']:.3g}", f"{row['strength']:+.4g}")
        for row in summary["top"][:MAX_ROWS]
    ]
    more = len(summary["top"]) - len(rows)
    signals = counted(summary["n_signals"], "signal")
    if summary["at_once"]:
        found = (
            f"Found {counted(summary['n_sources'], 'source')} of {signals}, those of a signal at "
            "the one scale that explains it best. Heat is taken to be positive; the strength of a "
            "lone source is a tenth too small, as the penalty shrinks it. The strongest:"
        )
    elif summary["model"] == "gaussian":
        found = (
            f"Found the mean heat released at each of {counted(summary['n_nodes'], 'node')}, given "
            f"each of {signals}; the strongest:"
        )
    else:
        found = (
            f"Found {counted(summary['n_sources'], 'source')} of {signals}; the duality gap "
            f"is at most {summary['largest_gap']:.1e} of a signal's energy."
        )
    lines: list[str | Table] = [found, columns(["signal", "node", "scale ", "strength "], rows)]
    if more > 0:
        where = "--output or --json has them" if output is None else f"see {output}"
        lines.append(f"... and {more} more; {where}.")
    if output is not None:
        lines.append(f"All sources are in {output}")
    return lines
