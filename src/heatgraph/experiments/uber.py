"""Uber in New York (figure 8): a graph for each part of the day, and what may be read in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from heatgraph.experiments.base import BELOW, COLOURS, MARKERS, Outcome, Settings, markdown, plain
from heatgraph.experiments.prediction import digest
from heatgraph.experiments.sweep import sweep
from heatgraph.experiments.uber_fits import GROUPS, SCALES, SLOTS, learn_slot, load, shares
from heatgraph.graph import Graph
from heatgraph.plotting import plot_map
from heatgraph.plotting.maps import edge_style
from heatgraph.plotting.style import INK

TITLE = "Uber: figure 8, and the readings of it"
ALPHAS, BETAS = (0.03, 0.1), (0.0005, 0.002, 0.008)  # in the units of the signals
AIRPORTS = {"AP1": "JFK", "AP2": "La Guardia", "AP3": "Newark"}
PER_NODE = 4  # edges wanted, as the paper
N_DRAWS = 200
RUNS = (("uber", "counts"), ("uber", "levelled"), ("yellow", "counts"))
# What the paper reads in its maps: a group of edges, and the slots in which it stands out.
READINGS = {
    "airports early in the morning": (GROUPS[0], ("0-7",)),
    "boroughs and Manhattan in the rush hours": (GROUPS[1], ("7-10", "16-19")),
    "inside Manhattan in the evening": (GROUPS[2], ("19-24",)),
}
Graphs = dict[tuple[str, str, str], Graph]


def run(settings: Settings) -> Outcome:
    """Learn the graphs of five slots, and put the paper's readings of them to numbers."""
    home = None if settings.data_home is None else str(settings.data_home)
    graphs, chosen = _learn(home, settings)
    null = _null(home, graphs, chosen, settings)
    table = _shares(graphs, chosen, null)
    verdicts = verdicts_of(table)
    figures = {
        "figure8": _maps(home, "uber", graphs),
        "yellow": _maps(home, "yellow", graphs),
        "shares": _figure_shares(table),
    }
    numbers = {
        "n_draws": N_DRAWS if not settings.quick else 3,
        "scales": list(SCALES),
        "readings": verdicts.to_dict("records"),
        "n_edges": {" ".join(key): graph.n_edges for key, graph in graphs.items()},
        "shares": table.to_dict("records"),
        "not_converged": _unfinished(chosen, null),
        "graphs_of_random_hours": len(null),
    }
    tables = {"shares": table, "readings": verdicts}
    provenance = {source: load(home, source).provenance for source in ("uber", "yellow")}
    return Outcome(
        "uber", TITLE, tables, numbers, figures, _page(table, verdicts, numbers, provenance)
    )


def _learn(home: str | None, settings: Settings) -> tuple[Graphs, pd.DataFrame]:
    """For each slot the graph whose number of edges is nearest 4 N, the criterion of the paper."""
    cells = [
        {
            "data_home": home,
            "data": digest(load(home, source).signals),
            "source": source,
            "reading": reading,
            "slot": slot,
            "alpha": alpha,
            "beta": beta,
            "draw": None,
            "seed": settings.seed,
        }
        for source, reading in RUNS
        for slot in SLOTS
        for alpha in (ALPHAS[-1:] if settings.quick else ALPHAS)
        for beta in (BETAS[1:2] if settings.quick else BETAS)
    ]
    fits = sweep(learn_slot, cells, settings, "learning graphs")
    rows = pd.DataFrame(cells).assign(
        n_edges=[len(fit["edges"]) for fit in fits],
        n_signals=[fit["n_signals"] for fit in fits],
        sources=[fit["sources"] for fit in fits],
        status=[fit["status"] for fit in fits],
    )
    n_nodes = len(load(home, "uber").places)
    rows["off"] = np.abs(np.log(rows["n_edges"] / (PER_NODE * n_nodes)))
    best = rows.loc[rows.groupby(["source", "reading", "slot"])["off"].idxmin()]
    graphs = {
        (str(cells[k]["source"]), str(cells[k]["reading"]), str(cells[k]["slot"])): _graph(
            home, str(cells[k]["source"]), fits[k]
        )
        for k in best.index
    }
    return graphs, best.drop(columns="off")


def _graph(home: str | None, source: str, fit: dict[str, Any]) -> Graph:
    data = load(home, source)
    names = list(data.signals.columns)
    return Graph(fit["edges"], fit["weights"], len(names), names, coordinates=data.coordinates)


def _leading(graphs: Graphs) -> set[tuple[str, str, str]]:
    """The slots of the readings whose slots all have a larger share than every other slot."""
    found: set[tuple[str, str, str]] = set()
    for source, reading in RUNS:
        for group, slots in READINGS.values():
            share = {slot: shares(graphs[source, reading, slot])[group] for slot in SLOTS}
            others = [value for slot, value in share.items() if slot not in slots]
            if min(share[slot] for slot in slots) > max(others):
                found |= {(source, reading, slot) for slot in slots}
    return found


def _null(
    home: str | None, graphs: Graphs, chosen: pd.DataFrame, settings: Settings
) -> pd.DataFrame:
    """The shares of graphs of as many weekday hours drawn at random, by the same penalties.

    A reading whose slots do not lead the others does not hold, whatever random hours give: only the
    slots of those that lead are drawn for.
    """
    leading = _leading(graphs)
    draws = 3 if settings.quick else N_DRAWS
    keys = ["data", "source", "reading", "slot", "alpha", "beta", "seed"]
    cells: list[dict[str, Any]] = [
        {**{key: row[key] for key in keys}, "data_home": home, "draw": draw}
        for row in chosen.to_dict("records")
        if (row["source"], row["reading"], row["slot"]) in leading
        for draw in range(draws)
    ]
    fits = sweep(learn_slot, cells, settings, "shuffling hours")
    rows = [
        {
            **{key: cell[key] for key in ("source", "reading", "slot")},
            **shares(_graph(home, str(cell["source"]), fit)),
            "status": fit["status"],
        }
        for cell, fit in zip(cells, fits, strict=True)
    ]
    return pd.DataFrame(rows, columns=["source", "reading", "slot", *GROUPS, "status"])


def _shares(graphs: Graphs, chosen: pd.DataFrame, null: pd.DataFrame) -> pd.DataFrame:
    """The share of the weight on each group of edges, in each slot, beside that of the null."""
    index = chosen.set_index(["source", "reading", "slot"])
    rows = []
    for (source, reading, slot), graph in graphs.items():
        mine = null[
            (null["source"] == source) & (null["reading"] == reading) & (null["slot"] == slot)
        ]
        for group, share in shares(graph).items():
            drawn = mine[group].to_numpy(dtype=np.float64)
            some = drawn.size > 0
            rows.append(
                {
                    "source": source,
                    "reading": reading,
                    "slot": slot,
                    "group": group,
                    "share": share,
                    "null_mean": drawn.mean() if some else np.nan,
                    "null_low": np.quantile(drawn, 0.05) if some else np.nan,
                    "null_high": np.quantile(drawn, 0.95) if some else np.nan,
                    # How often hours of any time have as large a share.
                    "p": (1 + np.count_nonzero(drawn >= share)) / (1 + drawn.size)
                    if some
                    else np.nan,
                    "n_edges": graph.n_edges,
                    **index.loc[(source, reading, slot), ["status", "alpha", "beta"]],
                }
            )
    return pd.DataFrame(rows)


def _unfinished(chosen: pd.DataFrame, null: pd.DataFrame) -> dict[str, int]:
    """How many fits did not converge, of those shown and of those of random hours."""
    return {
        "slots": int((chosen["status"] != "converged").sum()),
        "random hours": int((null["status"] != "converged").sum()),
    }


def verdicts_of(table: pd.DataFrame) -> pd.DataFrame:
    """A reading holds where its slots lead the other slots and all but 5 % of the null."""
    rows = []
    for (source, reading), part in table.groupby(["source", "reading"], sort=False):
        for claim, (group, slots) in READINGS.items():
            mine = part[part["group"] == group].set_index("slot")
            inside = mine.loc[list(slots)]
            others = mine.drop(list(slots))
            leads = bool(inside["share"].min() > others["share"].max())
            beyond = bool((inside["p"] <= 0.05).all())
            rows.append(
                {
                    "source": source,
                    "reading": reading,
                    "claim": claim,
                    "share": inside["share"].round(3).tolist(),
                    "largest_elsewhere": float(others["share"].max()),
                    "null_mean": float(inside["null_mean"].mean()),
                    "p": inside["p"].tolist(),
                    "leads_other_slots": leads,
                    "beyond_null": beyond,
                    "holds": leads and beyond,
                }
            )
    return pd.DataFrame(rows)


def _maps(home: str | None, source: str, graphs: Graphs) -> Figure:
    figure = Figure(figsize=(13.5, 8.6), layout="constrained")
    axes = figure.subplots(2, 3).ravel()
    data = load(home, source)
    names = list(data.signals.columns)
    bare = Graph([], [], len(names), names, coordinates=data.coordinates)
    airports = [AIRPORTS.get(str(name), "") for name in names]
    plot_map(bare, outlines=data.rings, ax=axes[0], node_size=14)
    axes[0].set_title("29 zones", fontsize=13)
    drawn = {slot: graphs[source, "counts", slot] for slot in SLOTS}
    top = max(float(graph.weights.max()) for graph in drawn.values())
    for ax, (slot, graph) in zip(axes[1:], drawn.items(), strict=True):
        plot_map(graph, outlines=data.rings, ax=ax, names=airports, node_size=14, heaviest=top)
        first, end = SLOTS[slot]
        ax.set_title(f"{first}:00 to {end}:00, {graph.n_edges} edges", fontsize=13)
    scale = np.array([0.1, 0.4, 0.7, 1.0])
    widths, inks = edge_style(scale)
    lines = [Line2D([], [], linewidth=w, color=ink) for w, ink in zip(widths, inks, strict=True)]
    named = [f"{share * top:.2g}" for share in scale]
    figure.legend(lines, named, title="weight of an edge", ncols=len(scale), **BELOW)
    return figure


def _figure_shares(table: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(12.0, 3.9), layout="constrained")
    axes = figure.subplots(1, 3)
    for ax, (claim, (group, slots)) in zip(axes, READINGS.items(), strict=True):
        for k, (source, reading) in enumerate(RUNS):
            rows = table[
                (table["source"] == source)
                & (table["reading"] == reading)
                & (table["group"] == group)
            ].set_index("slot")
            part = rows.loc[list(SLOTS)]
            x = np.arange(len(SLOTS)) + 0.22 * (k - 1)
            ax.vlines(
                x, part["null_low"], part["null_high"], color=COLOURS[k], alpha=0.45, linewidth=6
            )
            label = {"uber": "Uber", "yellow": "yellow cabs"}[source]
            ax.plot(
                x,
                part["share"],
                MARKERS[k],
                color=COLOURS[k],
                markersize=7,
                markeredgecolor=INK,
                label=label + (", levelled" if reading == "levelled" else ""),
            )
        for slot in slots:
            here = list(SLOTS).index(slot)
            ax.axvspan(here - 0.45, here + 0.45, color="0.92", zorder=0)
        ax.set_title(claim, fontsize=11)
        ax.set_xticks(range(len(SLOTS)), list(SLOTS))
        ax.set_ylim(bottom=0.0)
        plain(ax)
    axes[0].set_ylabel("share of the weight")
    axes[1].set_xlabel("hours of weekdays (grey: where the paper sees it)")
    figure.legend(*axes[0].get_legend_handles_labels(), ncols=3, **BELOW)
    return figure


def _page(
    table: pd.DataFrame, verdicts: pd.DataFrame, numbers: dict[str, Any], said: dict[str, str]
) -> str:
    head = "data", "reading of the paper", "share there", "largest elsewhere", "random hours", "p"
    lines = []
    for row in verdicts.to_dict("records"):
        shown = ", ".join(f"{share:.3f}" for share in row["share"])
        led, largest = bool(row["leads_other_slots"]), f"{row['largest_elsewhere']:.3f}"
        p = ", ".join(f"{value:.3f}" for value in row["p"]) if led else ""
        random = f"{row['null_mean']:.3f}" if led else ""
        ends = ["yes" if value else "no" for value in (led, row["holds"])]
        lines.append([_name(row), row["claim"], shown, largest, random, p, *ends])
    ended = numbers["not_converged"]
    return f"""# {TITLE}

Uber: {said["uber"]}. Yellow cabs: {said["yellow"]}.

![Five graphs of Uber](figure8.png)

For each slot, of {len(ALPHAS) * len(BETAS)} pairs of alpha and beta, the graph whose number of
edges is nearest 4N = 116; two scales, held at {SCALES[0]:g} and {SCALES[1]:g}. Lines are as wide
and dark as weights, on one scale for all slots.

{_fits(table)}

{ended["slots"]} of these {len(table["slot"].unique()) * len(RUNS)} fits and
{ended["random hours"]} of the {numbers["graphs_of_random_hours"]} of random hours did not converge.

![Shares of the weight](shares.png)

The share of the weight on a group of edges. A reading holds where its slots have a larger share
than every other slot, and than all but 5 % of {numbers["n_draws"]} graphs of as many weekday hours
drawn at random, learned in the same way (bars: 5 to 95 % of them). Random hours are drawn for the
slots of readings that pass the first test. "Levelled" divides the pickups of each zone by their
mean.

{markdown([*head, "leads", "holds"], lines)}

{_summary(verdicts)}

![Five graphs of yellow cabs](yellow.png)
"""


def _fits(table: pd.DataFrame) -> str:
    """How each fit that is shown ended, and with what."""
    fits = table.drop_duplicates(["source", "reading", "slot"]).to_dict("records")
    columns = "slot", "alpha", "beta", "n_edges", "status"
    rows = [[_name(row), *(f"{row[column]}" for column in columns)] for row in fits]
    return markdown(["data", "slot", "alpha", "beta", "edges", "status"], rows)


def _summary(verdicts: pd.DataFrame) -> str:
    """What holds, by data set."""
    sentences = []
    for _, part in verdicts.groupby(["source", "reading"], sort=False):
        held = part.loc[part["holds"], "claim"].tolist()
        name = _name(part.iloc[0].to_dict())
        said = ", ".join(f'"{claim}"' for claim in held) or "none"
        sentences.append(f"{name}: {said} of the three readings")
    return f"**What holds.** {'; '.join(sentences)}."


def _name(row: Mapping[Any, Any]) -> str:
    name = {"uber": "Uber", "yellow": "yellow cabs"}[str(row["source"])]
    return f"{name}, {row['reading']}"
