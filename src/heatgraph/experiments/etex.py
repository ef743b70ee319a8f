"""ETEX (figures 6 and 7): the graph a tracer drew over Europe, and what it foretells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from heatgraph.arrays import Array
from heatgraph.datasets import (
    PlacedSignals,
    country_outlines,
    great_circle_km,
    neighbour_graph,
)
from heatgraph.experiments.base import COLOURS, MARKERS, Outcome, Settings, markdown, plain
from heatgraph.experiments.etex_fits import (
    FIXED,
    N_FOLDS,
    N_NEIGHBOURS,
    PROTOCOLS,
    TAU,
    VARIANTS,
    learn,
    predict_split,
    whole,
)
from heatgraph.experiments.prediction import Missed, dictionary_of, digest
from heatgraph.experiments.sweep import sweep
from heatgraph.graph import Graph
from heatgraph.models.heat import Signals
from heatgraph.plotting import plot_map
from heatgraph.plotting.style import INK, VERMILION
from heatgraph.solvers.engine import code_signals

HEADS = {
    "entries": "Hidden entries: a fifth of all, five times",
    "steps": "Held-out time steps: every fifth",
    "blocks": "Held-out time steps: six in a row",
}


def page(title: str, numbers: dict[str, Any], predicted: pd.DataFrame, data: PlacedSignals) -> str:
    """What was found, in Markdown."""
    ratios = numbers["learned_over_geographic"]
    below = "below" if numbers["learned_below_geographic_everywhere"] else "not always below"
    idle = numbers["weight_between_stations_without_tracer"]
    lengths = numbers["median_edge_km"]
    tables = "\n".join(_table(predicted, protocol) for protocol in HEADS)
    pairs = "".join(
        f"- {pair}: {share['learned']:.1%} of the weight, {share['geographic']:.1%} on the "
        "geographic graph\n"
        for pair, share in numbers["country_pairs"].items()
    )
    return f"""# {title}

{data.provenance}.

![Three moments of the cloud and the strongest edges](figure6.png)

The 200 heaviest of {numbers["n_edges"]} edges that the paper's problem gives: one scale, held at 3,
missing values as zeros, a random start. Their median length is {lengths["learned"]:.0f} km, that
of the edges between neighbours {lengths["geographic"]:.0f} km.
{numbers["n_stations_without_tracer"]} of the {numbers["n_stations"]} stations never saw the tracer;
{idle:.1%} of the weight joins two of these, where the signals say nothing. The pairs of countries
that the paper names:

{pairs}
![Approximation error against atoms kept](figure7.png)

{_approximation(numbers["approximation"])}

With the same number of atoms the learned graph is {below} the geographic one, with
{ratios["1"]:.2f}, {ratios["5"]:.2f} and {ratios["20"]:.2f} of its error at 1, 5 and 20 atoms. It
was learned from the signals that it approximates; the second line is the same for time steps that
it was not learned from, and "no graph" keeps the largest entries.

## Does the graph foretell?

The share of the energy of hidden entries that is missed (1 is predicting zero), with the standard
error over the time steps. {numbers["missing_share"]:.0%} of the entries are missing, and two time
steps hold {numbers["energy_of_two_signals"]:.0%} of the energy. "Gain" is how much less a method
misses than the geographic graph of scale 3, in pairs, with its standard error: on concentrations
and on their square roots.

![What each method missed](prediction.png)

{tables}"""


def _table(predicted: pd.DataFrame, protocol: str) -> str:
    rows = predicted[predicted["protocol"] == protocol].set_index(["scale", "method"])
    scales = ("concentration", "square root", "squared back")
    lines = []
    for name in (*FIXED, *VARIANTS):
        found = rows.loc[[(scale, name) for scale in scales]]
        missed = _pairs(found["missed"], found["standard_error"])
        gains = _pairs(found["less_than_geographic"], found["its_standard_error"])
        label = f"learned: {name}" if name in VARIANTS else name
        lines.append([label, missed[0], gains[0], missed[1], gains[1], missed[2]])
    head = "", "concentration", "gain", "square root", "gain", "square root, squared back"
    return f"### {HEADS[protocol]}\n\n{markdown(head, lines)}\n"


def _pairs(values: pd.Series, doubts: pd.Series) -> list[str]:
    return [f"{v:.2f} ± {d:.2f}" for v, d in zip(values, doubts, strict=True)]


TOLD = (1, 2, 5, 10, 20)  # numbers of atoms of which the errors are on the page


def _approximation(curves: dict[str, list[float]]) -> str:
    """The share of the energy left, a row per dictionary."""
    atoms = curves["atoms"]
    counts = ["1 atom" if k == 1 else f"{k} atoms" for k in TOLD]
    rows = [
        [name, *(f"{values[atoms.index(k)]:.3f}" for k in TOLD)]
        for name, values in curves.items()
        if name != "atoms"
    ]
    return markdown(["share of the energy left by", *counts], rows)


TITLE = "ETEX: figures 6 and 7, and what the graph foretells"
N_EDGES_SHOWN = 200
MOMENTS = (4, 10, 16)  # 12, 30 and 48 hours after the first interval
RELEASE = (-2.008, 48.058)  # Monterfil, west of Rennes
ATOMS_KEPT = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
SPARSITIES = np.geomspace(3e-4, 1.0, 40)  # of alpha, in units of the largest entry


def run(settings: Settings) -> Outcome:
    """Learn the graph as the paper did, draw it, approximate with it, predict with it."""
    home = None if settings.data_home is None else str(settings.data_home)
    data = whole(home)
    folds = 2 if settings.quick else N_FOLDS
    learned, *others = _learned(data, home, folds, settings)
    geographic = neighbour_graph(data.coordinates, N_NEIGHBOURS, names=data.signals.columns)
    curves = _curves(data, learned, others, geographic)
    predicted = _predictions(home, folds, settings)
    countries = _countries(learned, geographic)
    numbers = _numbers(data, learned, geographic, curves, predicted, countries)
    figures = {
        "figure6": _figure6(data, learned, settings),
        "figure7": _figure7(curves),
        "prediction": _figure_prediction(predicted),
    }
    tables = {"approximation": curves, "prediction": predicted, "countries": countries}
    return Outcome("etex", TITLE, tables, numbers, figures, page(TITLE, numbers, predicted, data))


def _learned(data: PlacedSignals, home: str | None, folds: int, settings: Settings) -> list[Graph]:
    """The graph of all time steps, then that of those outside each fold."""
    cells = [
        {"data_home": home, "data": digest(data.signals), "fold": fold, "seed": settings.seed}
        for fold in (None, *range(folds))
    ]
    fits = sweep(learn, cells, settings, "learning graphs")
    names = list(data.signals.columns)
    return [
        Graph(f["edges"], f["weights"], len(names), names, coordinates=data.coordinates)
        for f in fits
    ]


def _curves(
    data: PlacedSignals, learned: Graph, others: Sequence[Graph], geographic: Graph
) -> pd.DataFrame:
    """Approximation errors against the atoms kept, on each graph."""
    X = np.nan_to_num(data.signals.to_numpy())
    step = np.arange(len(X)) % N_FOLDS
    parts = [(graph, X[step == fold]) for fold, graph in enumerate(others)]
    seen = np.concatenate([part for _, part in parts])
    empty = Graph([], [], len(X[0]), names=learned.names)
    columns = {
        "learned": _curve([(learned, X)], X),
        "learned without these time steps": _curve(parts, seen),
        "geographic": _curve([(geographic, X)], X),
        "no graph": _curve([(empty, X)], X),
    }
    return pd.DataFrame({"atoms": ATOMS_KEPT, **columns})


def _curve(parts: Sequence[tuple[Graph, Array]], X: Array) -> Array:
    """The share of the energy left by so many atoms a signal.

    alpha goes down a path; between two of its points, the error is interpolated.  Differs from the
    paper: the lasso is solved exactly, not by iterative soft thresholding.
    """
    energy, n_signals = float(np.sum(X**2)), len(X)
    atoms, error = np.zeros(SPARSITIES.size), np.zeros(SPARSITIES.size)
    for graph, signals in parts:
        D = dictionary_of(graph.laplacian().toarray(), (TAU,))
        for k, share in enumerate(SPARSITIES):
            alpha = share * 2.0 * float(X.max())
            h = code_signals(D, Signals.from_missing(signals.T), alpha).h
            left = signals - D.synthesis(h)
            atoms[k] += np.count_nonzero(h) / n_signals
            error[k] += float(np.sum(left**2)) / energy
    order = np.argsort(atoms)
    return np.interp(ATOMS_KEPT, atoms[order], error[order])


def _predictions(home: str | None, folds: int, settings: Settings) -> pd.DataFrame:
    """What each method missed of the hidden entries, under each protocol and transform."""
    cells = [
        {
            "data_home": home,
            "data": digest(whole(home).signals),
            "protocol": protocol,
            "fold": fold,
            "root": root,
            "seed": settings.seed,
        }
        for protocol in PROTOCOLS
        for root in (False, True)
        for fold in range(folds)
    ]
    total: dict[tuple[str, str, str], Missed] = {}
    for cell, result in zip(cells, sweep(predict_split, cells, settings, "hiding"), strict=True):
        for key, (error, energy) in result.items():
            name, _, back = key.partition(" | ")
            scale = back or ("square root" if cell["root"] else "concentration")
            missed = Missed(np.array(error), np.array(energy))
            group = (str(cell["protocol"]), scale, name)
            total[group] = total[group] + missed if group in total else missed
    rows = []
    for (protocol, scale, name), missed in total.items():
        reference = total[protocol, scale, FIXED[2]]
        gain, doubt = missed.less_than(reference)
        rows.append(
            {
                "protocol": protocol,
                "scale": scale,
                "method": name,
                "missed": missed.share,
                "standard_error": missed.standard_error,
                "less_than_geographic": gain,
                "its_standard_error": doubt,
            }
        )
    return pd.DataFrame(rows)


def _countries(learned: Graph, geographic: Graph) -> pd.DataFrame:
    """The share of the weight between each pair of countries, on both graphs."""
    shares = {}
    for name, graph in (("learned", learned), ("geographic", geographic)):
        codes = np.array([str(code).rstrip("0123456789") for code in graph.names or ()])
        pairs = ["-".join(sorted(codes[list(edge)])) for edge in graph.edges]
        shares[name] = pd.Series(graph.weights).groupby(pairs).sum() / graph.weights.sum()
    table = pd.DataFrame(shares).fillna(0.0).sort_values("learned", ascending=False)
    return table.rename_axis("countries").reset_index()


def _numbers(
    data: PlacedSignals,
    learned: Graph,
    geographic: Graph,
    curves: pd.DataFrame,
    predicted: pd.DataFrame,
    countries: pd.DataFrame,
) -> dict[str, Any]:
    X = np.nan_to_num(data.signals.to_numpy())
    dry = ~(X > 0).any(axis=0)
    idle = learned.weights[dry[learned.edges].all(axis=1)].sum() / learned.weights.sum()
    energy = np.sort((X**2).sum(axis=1))[::-1]
    ratio = curves["learned"] / curves["geographic"]
    share = countries.set_index("countries")
    far = [pair for pair in ("D-F", "H-S") if pair in share.index]
    return {
        "n_stations": int(X.shape[1]),
        "n_never_measured": int(data.signals.isna().all().sum()),
        "missing_share": float(data.signals.isna().to_numpy().mean()),
        "energy_of_two_signals": float(energy[:2].sum() / energy.sum()),
        "n_edges": learned.n_edges,
        "weight_between_stations_without_tracer": float(idle),
        "n_stations_without_tracer": int(dry.sum()),
        "approximation": curves.to_dict("list"),
        "learned_below_geographic_everywhere": bool((ratio < 1.0).all()),
        "learned_over_geographic": {
            str(k): float(r) for k, r in zip(curves["atoms"], ratio, strict=True)
        },
        "median_edge_km": {
            "learned": _median_length(learned.cut(n_edges=N_EDGES_SHOWN)),
            "geographic": _median_length(geographic),
        },
        "country_pairs": {pair: share.loc[pair].to_dict() for pair in far},
        "prediction": {
            protocol: {
                scale: part.set_index("method").drop(columns=["protocol", "scale"]).to_dict("index")
                for scale, part in rows.groupby("scale")
            }
            for protocol, rows in predicted.groupby("protocol")
        },
    }


def _median_length(graph: Graph) -> float:
    distance = great_circle_km(np.asarray(graph.coordinates))
    return float(np.median(distance[tuple(graph.edges.T)]))


def _figure6(data: PlacedSignals, learned: Graph, settings: Settings) -> Figure:
    figure = Figure(figsize=(13.5, 4.5), layout="constrained")
    axes = figure.subplots(1, 3)
    strong = learned.cut(n_edges=N_EDGES_SHOWN)
    outlines = country_outlines(settings.data_home)
    norm = PowerNorm(0.4, 0.0, 3.0)
    for ax, moment in zip(axes, MOMENTS, strict=True):
        row = data.signals.iloc[moment]
        plot_map(
            strong,
            values=row.to_numpy(),
            outlines=outlines,
            ax=ax,
            names=[""] * len(row),
            norm=norm,
            node_size=30,
        )
        ax.plot(*RELEASE, "*", color=VERMILION, markeredgecolor=INK, markersize=15, zorder=4)
        ax.annotate("released here", RELEASE, (-4.6, 43.6), arrowprops={"arrowstyle": "-"})
        ax.set_title(f"{data.signals.index[moment]:%d October %H:%M} UTC", fontsize=13)
    bar = figure.colorbar(
        ScalarMappable(norm, "cividis"), ax=list(axes), shrink=0.75, extend="max", aspect=30
    )
    bar.set_label("tracer, ng/m³ (white: not measured)", fontsize=12)
    return figure


def _figure7(curves: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(6.6, 4.4), layout="constrained")
    ax = figure.subplots()
    for k, name in enumerate(curves.columns[1:]):
        ax.semilogy(
            curves["atoms"],
            curves[name],
            color=COLOURS[k],
            marker=MARKERS[k],
            linewidth=1.8,
            label=name,
        )
    ax.set_xticks(ATOMS_KEPT)
    ax.set_xlabel("atoms kept a signal")
    ax.set_ylabel("share of the energy left")
    ax.legend(frameon=False)
    plain(ax)
    return figure


def _figure_prediction(predicted: pd.DataFrame) -> Figure:
    """One panel a protocol, the square-root scale, a bar of one standard error each side."""
    figure = Figure(figsize=(12.5, 4.6), layout="constrained")
    axes = figure.subplots(1, len(PROTOCOLS), sharex=True, sharey=True)
    titles = {
        "entries": "a fifth of the entries hidden",
        "steps": "every fifth time step held out",
        "blocks": "six steps in a row held out",
    }
    methods = [*FIXED, *VARIANTS]
    rows = predicted[predicted["scale"] == "square root"]
    for ax, protocol in zip(axes, PROTOCOLS, strict=True):
        part = rows[rows["protocol"] == protocol].set_index("method").loc[methods]
        colours = [INK] * len(FIXED) + [COLOURS[0]] * len(VARIANTS)
        for k, (missed, doubt) in enumerate(
            zip(part["missed"], part["standard_error"], strict=True)
        ):
            ax.errorbar(missed, k, xerr=doubt, color=colours[k], marker="o", capsize=3)
        ax.axvline(1.0, color="0.5", linestyle=":")
        ax.set_title(titles[protocol], fontsize=12)
        ax.set_xlabel("share of the energy missed")
        plain(ax)
    labels = [*FIXED, *(f"learned: {name}" for name in VARIANTS)]
    axes[0].set_yticks(range(len(methods)), labels)
    axes[0].invert_yaxis()
    return figure
