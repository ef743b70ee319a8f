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
    labelled,
    model_path,
    parents_made,
    result_folder,
    source_table,
    write_sources,
    write_summary,
)
from heatgraph.cli.table_files import NPY, PARQUET, TEXT, kind_of, refuse_existing
from heatgraph.cli.tables import SignalTable, read_signals
from heatgraph.cli.task import model_of
from heatgraph.estimators import HeatCovariance, LearnHeat
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
        facts: dict[str, Any] = {"command": "sources", "at_once": at_once}
        if output is None:
            facts |= summary_of(model, *find(model, X, at_once), table, top) | {"files": []}
        elif output.suffix.lower() == ".csv":
            refuse_existing(output, force)
            found, gap = find(model, X, at_once)
            with parents_made(output):
                write_sources(output, found, table)
            facts |= summary_of(model, found, gap, table, top) | {"files": [str(output)]}
        else:
            with result_folder(output, force) as folder:
                found, gap = find(model, X, at_once)
                write_sources(folder / "sources.csv", found, table)
                draw_strongest(folder / "sources.png", model, found, table, top, out)
                facts |= summary_of(model, found, gap, table, top)
                facts = write_summary(folder, output, facts, out)
        out.show(facts, human(facts, output))


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


def find(model: HeatModel, X: Any, at_once: bool) -> tuple[pd.DataFrame, float | None]:
    """One row per source, the strongest of a signal first; the largest duality gap, if any.

    Of a Gaussian model, the mean heat at every node, given the signals.
    """
    if at_once:
        return model.locate(X).drop(columns="explained"), None
    if isinstance(model, HeatCovariance):
        means = model.transform(X).reshape(len(X), model.scales_.size, -1)
        return source_table(model, means, model.scales_), None
    codes = model.code(X)
    return codes.to_pandas(), float(codes.gap.max(initial=0.0))


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
    if missing and set(nodes) <= set(table.labels or ()):
        raise ValueError(f"{path}: its rows are the nodes of the model: say --transpose")
    if missing or unknown:
        parts = [
            f"{what} {', '.join(map(repr, some[:5]))}{', ...' if len(some) > 5 else ''}"
            for what, some in (("it lacks", missing), ("the model does not know", unknown))
            if some
        ]
        raise ValueError(
            f"{path} does not have the {n_nodes} nodes of the model: {'; '.join(parts)}. Leave the "
            "values of a node that was not observed empty, and drop the columns that are no nodes "
            "(--leave-out)"
        )
    order = [table.names.index(name) for name in nodes]
    return replace(table, values=table.values[:, order], names=nodes, order=tuple(order))


def draw_strongest(
    path: Path, model: HeatModel, found: pd.DataFrame, table: SignalTable, top: int, out: Output
) -> None:
    """A picture of the signal with the most energy, and of its strongest sources."""
    loudest = int(np.argmax(np.nansum((table.values - model.location_) ** 2, axis=1)))
    mine = found[found["signal"] == loudest].head(top)
    scales, scale = np.unique(mine["scale"], return_inverse=True)
    number = {name: k for k, name in enumerate(labels(model.graph_))}
    sources = np.zeros((scales.size, len(number)))
    sources[scale, mine["node"].map(number)] = mine["strength"]
    signal, title = table.values[loudest], f"signal {table.label(loudest)}"
    draw(
        path,
        GRAPH,
        lambda ax: plot_sources(model.graph_, signal, sources, scales, ax=ax).set_title(title),
        out,
    )


def summary_of(
    model: HeatModel, found: pd.DataFrame, gap: float | None, table: SignalTable, top: int
) -> dict[str, Any]:
    """The strongest sources of every signal, and how exact they are."""
    return {
        "model": model_of(model),
        "n_signals": len(table.values),
        "n_nodes": model.graph_.n_nodes,
        "n_sources": len(found),
        "largest_gap": gap,
        "top": labelled(found.groupby("signal").head(top), table).to_dict("records"),
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
