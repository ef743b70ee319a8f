"""Molene: temperatures around Brittany, where heat is a fair model and where it is not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf

from heatgraph.arrays import Array
from heatgraph.baselines import SmoothGraph
from heatgraph.datasets import (
    PlacedSignals,
    great_circle_km,
    load_molene,
    neighbour_graph,
)
from heatgraph.estimators import LearnHeat
from heatgraph.estimators.hidden import fill_by_precision
from heatgraph.experiments.base import BELOW, COLOURS, MARKERS, Outcome, Settings, markdown, plain
from heatgraph.experiments.prediction import Missed, digest, in_parts
from heatgraph.experiments.sweep import sweep
from heatgraph.graph import Graph
from heatgraph.plotting import plot_map

EVERY = 6  # hours between the signals used; those between are nearly the same
HELD_OUT = 4  # every fourth day
N_PARTS = 4
N_NEIGHBOURS = 4
# What is left of the temperatures, and the words for it.
TREATMENTS = {
    "kelvin": "temperatures, in kelvin",
    "station": "less the mean of each station",
    "hour": "less the means of each station and hour",
    "change": "change in three hours, less the mean of each hour",
}
METHODS = (
    "mean of the other stations",
    "LearnHeat()",
    "SmoothGraph()",
    "geographic graph",
    "regression, no graph",
)


@lru_cache(maxsize=2)
def load(data_home: str | None) -> PlacedSignals:
    """The stations whose place is known."""
    return load_molene(data_home).placed()


def treat(T: Array, treatment: str) -> Array:
    """Signals (M, N) of hourly temperatures."""
    if treatment == "kelvin":
        return T
    T = T[3:] - T[:-3] if treatment == "change" else T - T.mean(axis=0)
    return T if treatment == "station" else T - T.mean(axis=1, keepdims=True)


def compare(data_home: str | None, data: str, treatment: str, seed: int) -> dict[str, Any]:
    """Learn from three days of four, hide entries of the fourth; ``data`` is the digest."""
    placed = load(data_home)
    X = treat(placed.signals.to_numpy(), treatment)
    day = np.arange(len(X)) // 24
    out = day % HELD_OUT == HELD_OUT - 1
    train, test = X[~out][::EVERY], X[out][::EVERY]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LearnHeat(random_state=seed).fit(train)
        smooth = SmoothGraph().fit(train)
    L = neighbour_graph(placed.coordinates, N_NEIGHBOURS).laplacian().toarray()
    precision = np.linalg.inv(ledoit_wolf(train, assume_centered=True)[0])
    zero = np.zeros(X.shape[1])
    methods: dict[str, Callable[[Array], Array]] = dict(
        zip(
            METHODS,
            (
                _row_mean,
                model.impute,
                lambda x: fill_by_precision(x, zero, smooth.laplacian_),
                lambda x: fill_by_precision(x, zero, L),
                lambda x: fill_by_precision(x, zero, precision),
            ),
            strict=True,
        )
    )
    parts = list(in_parts(np.ones(test.shape, dtype=bool), N_PARTS, np.random.default_rng(seed)))
    days = day[out][::EVERY]
    results = {}
    for name, method in methods.items():
        missed = [Missed.of(method(np.where(p, np.nan, test)), test, p) for p in parts]
        total = sum(missed[1:], missed[0])
        results[name] = [_by(days, total.error), _by(days, total.energy)]
    return {
        "missed": results,
        "graphs": {
            "LearnHeat()": _listed(model),
            "SmoothGraph()": _listed(smooth),
        },
        "scales": model.scales_.tolist(),
        "status": str(model.status_),
        "sources": float(np.count_nonzero(model.sources_) / len(train)),
        "n_train": len(train),
        "n_hidden": _by(days, np.full(len(test), float(test.shape[1]))),
        "warnings": sorted({str(w.message) for w in caught}),
    }


def _listed(model: Any) -> dict[str, Any]:
    return {"edges": model.graph_.edges.tolist(), "weights": model.graph_.weights.tolist()}


def _by(days: NDArray[np.int64], values: Array) -> list[float]:
    """Sums over days, which are the units that vary: hours of one day go together."""
    return [float(values[days == one].sum()) for one in np.unique(days)]


def _row_mean(X: Array) -> Array:
    return np.broadcast_to(np.nanmean(X, axis=1, keepdims=True), X.shape)


TITLE = "Molene: temperatures around Brittany"
SHOWN = ("station", "hour")  # the treatments whose graphs are drawn


def run(settings: Settings) -> Outcome:
    """Learn graphs of temperatures treated in four ways, and compare what they foretell."""
    home = None if settings.data_home is None else str(settings.data_home)
    data = load(home)
    names = ("hour",) if settings.quick else tuple(TREATMENTS)
    cells = [
        {
            "data_home": home,
            "data": digest(data.signals),
            "treatment": treatment,
            "seed": settings.seed,
        }
        for treatment in names
    ]
    fits = dict(zip(names, sweep(compare, cells, settings, "comparing"), strict=True))
    table = pd.concat([_rows(treatment, fit) for treatment, fit in fits.items()])
    graphs = {
        (treatment, method): _graph(home, listed)
        for treatment, fit in fits.items()
        for method, listed in fit["graphs"].items()
    }
    numbers = _numbers(fits, table, graphs)
    figures = {"errors": _figure_errors(table, names), "maps": _maps(graphs)}
    page = _page(table, numbers, data.provenance)
    return Outcome("molene", TITLE, {"prediction": table}, numbers, figures, page)


def _graph(home: str | None, listed: dict[str, Any]) -> Graph:
    data = load(home)
    titles = [str(title).title() for title in data.places["title"]]
    return Graph(
        listed["edges"], listed["weights"], len(titles), titles, coordinates=data.coordinates
    )


def _rows(treatment: str, fit: dict[str, Any]) -> pd.DataFrame:
    """Errors in kelvin, and as a share of the energy; their spread is over days."""
    count = np.array(fit["n_hidden"])
    rows = []
    for name in METHODS:
        error, energy = map(np.array, fit["missed"][name])
        missed, mean = Missed(error, energy), Missed(error, count)
        rows.append(
            {
                "treatment": treatment,
                "method": name,
                "missed": missed.share,
                "standard_error": missed.standard_error,
                "rmse": np.sqrt(mean.share),
                "rmse_error": 0.5 * mean.standard_error / np.sqrt(mean.share),
            }
        )
    return pd.DataFrame(rows)


def _numbers(
    fits: dict[str, Any], table: pd.DataFrame, graphs: dict[tuple[str, str], Graph]
) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    for treatment, fit in fits.items():
        graph = graphs[treatment, "LearnHeat()"]
        lengths = great_circle_km(np.asarray(graph.coordinates))
        rows = table[table["treatment"] == treatment].set_index("method")
        numbers[treatment] = {
            "scales": fit["scales"],
            "sources_a_signal": fit["sources"],
            "status": fit["status"],
            "n_edges": graph.n_edges,
            "n_edges_smooth": graphs[treatment, "SmoothGraph()"].n_edges,
            "mean_edge_km": float(np.average(lengths[tuple(graph.edges.T)], weights=graph.weights)),
            "mean_pair_km": float(lengths[np.triu_indices(len(lengths), 1)].mean()),
            "n_train": fit["n_train"],
            "warnings": fit["warnings"],
            "rmse": rows["rmse"].to_dict(),
            "missed": rows["missed"].to_dict(),
        }
    return numbers


def _figure_errors(table: pd.DataFrame, names: tuple[str, ...]) -> Figure:
    figure = Figure(figsize=(8.6, 4.2), layout="constrained")
    ax = figure.subplots()
    for k, method in enumerate(METHODS):
        rows = table[table["method"] == method].set_index("treatment").loc[list(names)]
        y = np.arange(len(names)) + 0.13 * (k - 2)
        ax.errorbar(
            rows["rmse"],
            y,
            xerr=rows["rmse_error"],
            color=COLOURS[k],
            marker=MARKERS[k],
            linestyle="none",
            capsize=3,
            label=method,
        )
    ax.set_yticks(range(len(names)), [TREATMENTS[name] for name in names])
    ax.invert_yaxis()
    ax.set_xscale("log")
    ticks = [t for t in (0.5, 0.7, 1.0, 2.0, 5.0, 10.0) if t < 1.3 * table["rmse"].max()]
    ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
    ax.minorticks_off()
    ax.set_xlabel("error at the hidden stations, kelvin (root mean square)")
    figure.legend(ncols=3, **BELOW)
    plain(ax)
    return figure


def _maps(graphs: dict[tuple[str, str], Graph]) -> Figure:
    shown = [key for key in graphs if key[0] in SHOWN]
    figure = Figure(figsize=(10.5, 5.2 * ((len(shown) + 1) // 2)), layout="constrained")
    axes = figure.subplots((len(shown) + 1) // 2, 2, squeeze=False).ravel()
    for ax, (treatment, method) in zip(axes, shown, strict=True):
        graph = graphs[treatment, method]
        # No coast: at the scale of the outlines at hand, stations on capes and islands lie at sea.
        plot_map(graph, ax=ax, names=[""] * graph.n_nodes, node_size=24)
        ax.set_xticks([-4, -3], ["4° W", "3° W"])
        ax.set_yticks([47, 48], ["47° N", "48° N"])
        ax.set_title(f"{method}, {graph.n_edges} edges:\n{TREATMENTS[treatment]}", fontsize=12)
    return figure


def _page(table: pd.DataFrame, numbers: dict[str, Any], provenance: str) -> str:
    lines = []
    for treatment in numbers:
        rows = table[table["treatment"] == treatment].set_index("method").loc[list(METHODS)]
        pairs = zip(rows["rmse"], rows["rmse_error"], strict=True)
        lines.append([TREATMENTS[treatment], *(f"{rmse:.2f} ± {sure:.2f}" for rmse, sure in pairs)])
    about = "\n".join(
        f"- {TREATMENTS[name]}: scales {', '.join(f'{tau:.2g}' for tau in found['scales'])}, "
        f"{found['sources_a_signal']:.1f} sources a signal, {found['n_edges']} edges of mean "
        f"length {found['mean_edge_km']:.0f} km (all pairs: {found['mean_pair_km']:.0f} km), "
        f"{found['missed']['LearnHeat()']:.1%} of the hidden energy missed; "
        f"{'it warned' if found['warnings'] else 'it did not warn'}."
        for name, found in numbers.items()
    )
    return f"""# {TITLE}

{provenance}.

Each method learns from every sixth hour of three days in four; on every fourth day, a quarter of
the stations is hidden at a time and filled in from the others. Errors in kelvin, with their
standard error over the days.

{markdown(["", *METHODS], lines)}

![Errors](errors.png)

What `LearnHeat()` found:

{about}

![Graphs](maps.png)
"""
