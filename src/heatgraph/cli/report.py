"""``heatgraph report``: a page to look at a model in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from heatgraph.cli.console import Output
from heatgraph.cli.options import (
    Coordinates,
    ForceFlag,
    ModelFile,
    TableOptions,
    with_shared_options,
)
from heatgraph.cli.result_folder import model_path, parents_made
from heatgraph.cli.sources import signals_for
from heatgraph.cli.table_files import SAVE_AS_UTF8, refuse_existing
from heatgraph.report import write_report
from heatgraph.storage import load_model


@with_shared_options
def report(
    model_file: ModelFile,
    signals: Annotated[
        Path | None,
        typer.Argument(help="Signals to show, with one column for every node of MODEL."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The .html file to write.")] = Path(
        "report.html"
    ),
    coordinates: Coordinates = None,
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "A learned graph",
    *,
    options: TableOptions,
    force: ForceFlag = False,
    out: Output,
) -> None:
    """Write a page that shows a model: one file that needs no network.

    With SIGNALS it shows them on the graph, their sources and how well the model fits them.
    """
    with out.errors_told():
        if output.suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"--output: the page is an .html file, got {output}")
        refuse_existing(output, force)
        model = load_model(model_path(model_file))
        shown: dict[str, Any] = {}
        if signals is not None:
            table, X = signals_for(model, signals, options, out)
            shown = {"signals": X, "labels": table.labels}
        places = None if coordinates is None else read_coordinates(coordinates)
        with out.warnings_told(), parents_made(output):
            write_report(model, output, **shown, coordinates=places, title=title)
        summary = {
            "command": "report",
            "n_nodes": model.graph_.n_nodes,
            "n_edges": model.graph_.n_edges,
            "size": output.stat().st_size,
            "warnings": out.warnings,
            "files": [str(output)],
        }
        out.show(summary, [f"Open in a browser: {output.resolve().as_uri()}"])


def read_coordinates(path: Path) -> pd.DataFrame:
    """A table of text, by its first column; any column may name the nodes, "007" as well."""
    try:
        frame = pd.read_csv(path, sep=None, engine="python", dtype=str, encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text; {SAVE_AS_UTF8}") from None
    except (ValueError, pd.errors.ParserError) as error:
        raise ValueError(f"{path} is not a table of coordinates: {error}") from None
    if frame.shape[1] < 3:
        raise ValueError(
            f"{path} must have the name of a node and its two coordinates in every row, got "
            f"{frame.shape[1]} columns"
        )
    return frame.set_index(frame.columns[0], drop=False)
