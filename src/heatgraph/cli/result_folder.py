"""The folder that a command leaves behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.table import Table

from heatgraph.arrays import Array
from heatgraph.cli.cluster import ClusterTable
from heatgraph.cli.console import Output, columns
from heatgraph.cli.tables import SignalTable
from heatgraph.estimators import SourceCodes
from heatgraph.files import to_json, write_atomically, write_folder
from heatgraph.graph import Graph
from heatgraph.graph.convert import labels
from heatgraph.plotting import plot_convergence, plot_graph, plot_stretches
from heatgraph.plotting.curves import plot_choice
from heatgraph.report import write_report
from heatgraph.storage import save_model

MODEL, REPORT = "model.npz", "report.html"
# Everything that a command may write: what --force may do away with.
OURS = (
    MODEL, REPORT, "comparison.csv", "comparison.json", "comparison.png", "convergence.png",
    "directed.csv", "edges.csv", "gaps.csv", "graph.graphml", "graph.png", "graphs.csv",
    "graphs.png", "new_signals.csv", "selection.csv", "selection.png", "signals.csv",
    "sources.csv", "sources.png", "stretches.csv", "stretches.png", "summary.json",
    "true_edges.csv",
)  # fmt: skip
DPI = 150
GRAPH, CURVE = (7.0, 5.5), (6.0, 3.6)  # inches: pictures of a graph, and of a curve


@contextmanager
def parents_made(path: Path) -> Iterator[None]:
    """The folders above a result are made, and go again if there is no result."""
    missing = [folder for folder in path.absolute().parents if not folder.exists()]
    if missing:
        path.parent.mkdir(parents=True)
    try:
        yield
    except BaseException:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
        raise


@contextmanager
def result_folder(path: Path, force: bool) -> Iterator[Path]:
    """A folder that takes its place when complete."""
    try:
        with parents_made(path), write_folder(path, replace=force, ours=OURS) as folder:
            yield folder
    except FileExistsError as error:
        raise FileExistsError(
            f"{error}; --force replaces its results, once new ones are complete"
        ) from error


def write_fit(
    folder: Path,
    model: Any,
    table: SignalTable | ClusterTable,
    out: Output,
    coordinates: Array | None = None,
) -> None:
    """The model, the graph for other tools, the sources and the pictures.

    Not the sources of signals on a cluster or of a large graph, which are too many for a list.
    """
    save_model(model, folder / MODEL)
    model.graph_.save(folder / "edges.csv")
    model.graph_.save(folder / "graph.graphml")
    if isinstance(table, SignalTable) and table.series is not None:
        table.series.directed(model.graph_).save(folder / "directed.csv")
    sources = getattr(model, "sources_", None)
    if isinstance(sources, np.ndarray) and isinstance(table, SignalTable):
        found = source_table(model, sources, model.scales_)
        write_sources(folder / "sources.csv", found, table)
    graph, objective = model.graph_, model.objective_
    draw(folder / "graph.png", GRAPH, lambda ax: plot_graph(graph, coordinates, ax=ax), out)
    draw(folder / "convergence.png", CURVE, lambda ax: plot_convergence(objective, ax=ax), out)
    selection = getattr(model, "selection_", None)
    if selection is not None:
        selection.to_csv(folder / "selection.csv", index=False)
        draw(folder / "selection.png", CURVE, lambda ax: plot_choice(model, ax), out)
    stretches = getattr(model, "stretches_", None)
    if stretches is not None:
        stretches.to_csv(folder / "stretches.csv", index=False)
        chosen = {"scale": model.scales_[-1], "beta": model.beta_}
        picture = folder / "stretches.png"
        draw(picture, CURVE, lambda ax: plot_stretches(stretches, ax, **chosen), out)


def write_page(
    folder: Path,
    model: Any,
    table: SignalTable,
    out: Output,
    coordinates: Any = None,
    title: str = "A learned graph",
) -> None:
    """The report on the signals of the fit."""
    with page_written(out):
        write_report(
            model,
            folder / REPORT,
            table.frame,
            coordinates=coordinates,
            sources=getattr(model, "sources_", None),
            labels=table.labels,
            title=title,
            warnings=out.warnings,
        )


@contextmanager
def page_written(out: Output) -> Iterator[None]:
    """A page that cannot be written is told of, and loses no result."""
    try:
        with out.warnings_told():
            yield
    except ImportError as error:
        out.note(f"No {REPORT}: {error}")
    except (ValueError, RuntimeError) as error:
        out.warning(f"{REPORT} could not be written ({error})")


def draw(path: Path, size: tuple[float, float], plot: Callable[[Any], object], out: Output) -> None:
    """A picture in a file.  One that cannot be drawn is no reason to lose a result."""
    figure = Figure(figsize=size, layout="constrained")
    try:
        with out.warnings_told():
            plot(figure.subplots())
            figure.savefig(path, dpi=DPI)
    except (ValueError, RuntimeError) as error:
        path.unlink(missing_ok=True)
        out.warning(f"{path.name} could not be drawn ({error})")


def source_table(model: Any, sources: Array, scales: Array) -> pd.DataFrame:
    """One row per source, the strongest of a signal first; signals by their numbers."""
    nodes = labels(model.graph_)
    return SourceCodes(sources, np.empty(0), nodes=nodes, scales=scales.tolist()).to_pandas()


def labelled(found: pd.DataFrame, table: SignalTable) -> pd.DataFrame:
    """Such a table with the labels of the signals in place of their numbers."""
    return found.assign(signal=list(map(table.label, found["signal"])))


def model_path(given: Path) -> Path:
    """A file of a model, or the one in the folder that `learn` left."""
    if not given.is_dir():
        return given
    if not (given / MODEL).exists():
        raise FileNotFoundError(f"{given} holds no {MODEL}; name a folder that learn left")
    return given / MODEL


def write_sources(path: Path, found: pd.DataFrame, table: SignalTable) -> None:
    """A list of sources, one per line."""
    with write_atomically(path, "w", newline="") as file:
        labelled(found, table).to_csv(file, index=False)


def write_summary(
    folder: Path, shown: Path, facts: Mapping[str, Any], out: Output
) -> dict[str, Any]:
    """What ``--json`` prints: facts, what was warned of, and the files as the user finds them."""
    files = [*listed(folder, shown), str(shown / "summary.json")]
    summary = {**facts, "warnings": out.warnings, "files": files}
    with write_atomically(folder / "summary.json", "w") as file:
        file.write(to_json(summary) + "\n")
    return summary


def strongest(graph: Graph) -> list[dict[Any, Any]]:
    """The ten heaviest edges, heaviest first, with the confidence in each where it is known."""
    return graph.to_pandas().nlargest(10, "weight").to_dict("records")


def edge_table(edges: list[dict[Any, Any]]) -> Table:
    """The heaviest edges, for a reader."""
    rows = [
        (
            str(e["source"]),
            str(e["target"]),
            f"{e['weight']:.4g}",
            *([f"{e['confidence']:.3f}"] if "confidence" in e else []),
        )
        for e in edges
    ]
    more = ["confidence "] if edges and "confidence" in edges[0] else []
    return columns(["strongest edges", "", "weight ", *more], rows)


def address_of(output: Path) -> list[str]:
    """The line with the address of the page in a folder of results, if there is one."""
    page = output / REPORT
    return [f"Open in a browser: {page.resolve().as_uri()}"] if page.exists() else []


def listed(folder: Path, shown: Path) -> list[str]:
    """The files of a result, as the user will find them."""
    return [os.path.join(shown, entry.name) for entry in sorted(folder.iterdir())]
