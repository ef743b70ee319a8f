"""``heatgraph demo``: the whole of it on signals made up on the spot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from matplotlib.figure import Figure
from rich.table import Table

from heatgraph.arrays import Array
from heatgraph.cli import INTERRUPTED
from heatgraph.cli.console import Output, columns
from heatgraph.cli.learn import fit, human, summary_of
from heatgraph.cli.options import ForceFlag, with_shared_options
from heatgraph.cli.result_folder import (
    DPI,
    GRAPH,
    REPORT,
    address_of,
    draw,
    result_folder,
    write_fit,
    write_page,
    write_summary,
)
from heatgraph.cli.tables import SignalTable
from heatgraph.cli.task import Task
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators import LearnHeat
from heatgraph.graph import Graph
from heatgraph.metrics import edge_scores
from heatgraph.plotting import plot_laplacians, plot_sources
from heatgraph.solvers.result import Status

TOWNS = [
    "Ashby", "Brook", "Colne", "Dene", "Elton", "Fairford", "Garth", "Hale", "Ilford", "Jarrow",
    "Keld", "Leigh", "Marsh", "Norton", "Oakham", "Penrith", "Rugby", "Stow", "Thorpe", "Wells",
]  # fmt: skip
SCALES = (1.0, 3.0)
N_SIGNALS, N_NEW = 200, 20
N_SOURCES = 2
NOISE = 0.005
GAPS = 0.2  # share of the values of gaps.csv that are empty
SEED = 7
TITLE = "Twenty towns: the graph learned from 200 days of heat"


@dataclass(frozen=True, eq=False)
class Example:
    """A true graph, signals that diffused on it, and new ones with their true sources."""

    graph: Graph
    signals: SignalTable
    new_signals: Array
    new_sources: Array


@with_shared_options
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")],
    *,
    force: ForceFlag = False,
    out: Output,
) -> None:
    """Learn a graph of twenty towns from simulated signals."""
    with out.errors_told():
        with result_folder(output, force) as folder:
            example = make_example()
            write_tables(folder, example)
            out.note(
                f"{N_SIGNALS} signals of {N_SOURCES} sources each, diffused at scales "
                f"{SCALES[0]:g} and {SCALES[1]:g} on a graph of {len(TOWNS)} towns, with noise."
            )
            model = fit(Task("heat", "sparse", {"fit_intercept": False}), example.signals, out)
            found = model.code(pd.DataFrame(example.new_signals, columns=TOWNS))
            write_fit(folder, model, example.signals, out, example.graph.coordinates)
            write_page(folder, model, example.signals, out, example.graph.coordinates, TITLE)
            write_pictures(folder, example, model, found.sources[0], out)
            facts = {
                "command": "demo",
                **summary_of(model, example.signals),
                "true_edges": example.graph.n_edges,
                "scores": edge_scores(example.graph, model.graph_)._asdict(),
                "new_signals": located(example, found.sources),
                "largest_gap": float(found.gap.max()),
            }
            summary = write_summary(folder, output, facts, out)
        out.show(summary, [*human(model, example.signals), *comparison(summary), *tour(output)])
    if model.status_ == Status.INTERRUPTED:
        raise typer.Exit(INTERRUPTED)


def make_example() -> Example:
    """The same at every call."""
    rng = np.random.default_rng(SEED)
    drawn = make_graph("rbf", len(TOWNS), rng)
    graph = Graph(drawn.edges, drawn.weights, names=TOWNS, coordinates=drawn.coordinates)
    X, H = make_heat_signals(
        graph, SCALES, N_SIGNALS + N_NEW, N_SOURCES, noise_std=NOISE, random_state=rng
    )
    labels = tuple(f"day {k + 1}" for k in range(N_SIGNALS))
    signals = SignalTable(X[:N_SIGNALS], tuple(TOWNS), labels, ())
    return Example(graph, signals, X[N_SIGNALS:], H[N_SIGNALS:])


def write_tables(folder: Path, example: Example) -> None:
    """The signals, the new ones and the truth, for the other commands and for the reader."""
    frame = pd.DataFrame(example.signals.values, columns=TOWNS)
    frame.insert(0, "day", list(example.signals.labels or ()))
    frame.to_csv(folder / "signals.csv", index=False)
    new = pd.DataFrame(example.new_signals, columns=TOWNS)
    new.insert(0, "day", [f"day {N_SIGNALS + k + 1}" for k in range(N_NEW)])
    new.to_csv(folder / "new_signals.csv", index=False)
    unseen = np.random.default_rng(0).random(example.new_signals.shape) < GAPS
    new[TOWNS] = new[TOWNS].mask(unseen)
    new.to_csv(folder / "gaps.csv", index=False)
    example.graph.save(folder / "true_edges.csv")


def write_pictures(
    folder: Path, example: Example, model: LearnHeat, sources: Array, out: Output
) -> None:
    """The learned graph beside the true one, and the sources that were found."""
    figure = Figure(figsize=(8.6, 4.9), layout="constrained")
    plot_laplacians([example.graph, model.graph_], ["true", "learned"], figure.subplots(1, 2))
    figure.savefig(folder / "comparison.png", dpi=DPI)
    places = example.graph.coordinates
    draw(
        folder / "sources.png",
        GRAPH,
        lambda ax: plot_sources(
            model.graph_, example.new_signals[0], sources, model.scales_, places, ax=ax
        ).set_title(f"True sources: {', '.join(_towns(example.new_sources[0]))}"),
        out,
    )


def located(example: Example, sources: Array) -> dict[str, Any]:
    """The towns that the heat of the new signals came from, true and found."""
    true, found = list(map(_towns, example.new_sources)), list(map(_towns, sources))
    hits = sum(len(set(a) & set(b)) for a, b in zip(true, found, strict=True))
    return {
        "n_signals": N_NEW,
        "share_located": hits / sum(map(len, true)),
        "true_towns": true,
        "found_towns": found,
    }


def _towns(sources: Array) -> list[str]:
    """The nodes with most heat over all scales, strongest first."""
    heat = np.abs(sources).sum(axis=0)
    return [TOWNS[k] for k in np.argsort(-heat, kind="stable")[:N_SOURCES] if heat[k] > 0]


def comparison(summary: dict[str, Any]) -> list[str]:
    """What the truth says about the result."""
    scores, new = summary["scores"], summary["new_signals"]
    return [
        f"The true graph has {summary['true_edges']} edges: {scores['recall']:.0%} of them were "
        f"found, and {scores['precision']:.0%} of those found are true "
        f"(F-measure {scores['f_measure']:.2f}).",
        f"On {new['n_signals']} new signals, {new['share_located']:.0%} of the true sources are "
        f"among the {N_SOURCES} strongest found (duality gap {summary['largest_gap']:.0e}). The "
        f"first came from {' and '.join(new['true_towns'][0])}; found: "
        f"{' and '.join(new['found_towns'][0])}.",
    ]


def tour(output: Path) -> list[str | Table]:
    """Where to look, and what to try next."""
    page = output / REPORT
    first = [(REPORT, "everything, to explore in a browser")]
    rows = [
        *(first if page.exists() else []),
        ("graph.png", "the learned graph"),
        ("comparison.png", "its weights beside the true ones"),
        ("sources.png", "where the first new signal came from"),
        ("signals.csv", "what it was learned from"),
        ("edges.csv", "every learned edge"),
    ]
    return [
        columns([f"look at, in {output}", ""], rows),
        f"Try: heatgraph learn {output / 'signals.csv'} --output another-folder",
        f"     heatgraph sources {output} {output / 'new_signals.csv'}",
        f"     heatgraph impute {output} {output / 'gaps.csv'} --output filled.csv",
        *address_of(output),
    ]
