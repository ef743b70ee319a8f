"""Figure 4: what the two penalties do to the number of edges and to the F-measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from heatgraph.experiments.base import BELOW, COLOURS, MARKERS, Outcome, Settings, plain
from heatgraph.experiments.paper_settings import ALPHAS, BETAS, grid, n_instances, problem
from heatgraph.experiments.sweep import sweep
from heatgraph.experiments.synthetic_runs import path

TITLE = "Figure 4: the number of edges and F over alpha and beta"
KIND = "rbf"
ALMOST = 0.9  # the share of cases from which on a claim is said to hold


def run(settings: Settings) -> Outcome:
    """Walk the grid on RBF graphs from clean signals; the first is drawn, all are counted."""
    rows = _rows(settings)
    specs = [problem(settings, KIND, k, noisy=False) for k in range(n_instances(settings))]
    cells = [{"problem": spec, "method": "heat", "grid": rows} for spec in specs]
    results = sweep(path, cells, settings, "the grid of alpha and beta")
    table = pd.concat([_frame(k, rows, result) for k, result in enumerate(results)])
    n_nodes = int(specs[0]["n_nodes"])
    numbers = _numbers(table, n_nodes * (n_nodes - 1) // 2)
    first = table[table["instance"] == 0]
    return Outcome(
        "figure4",
        TITLE,
        {"grid": table},
        numbers,
        {"figure4": _figure(first, int(results[0]["n_true"]))},
        _page(numbers),
    )


def _rows(settings: Settings) -> list[list[float]]:
    if not settings.quick:
        return grid("heat", False)
    # Every alpha with every beta, that the lines can be compared.
    return [[float(alpha), float(beta)] for beta in BETAS for alpha in ALPHAS[::3]]


def _frame(
    instance: int, rows: Sequence[Sequence[float]], result: Mapping[str, Any]
) -> pd.DataFrame:
    parameters = np.array(rows)
    return pd.DataFrame(
        {
            "instance": instance,
            "alpha": parameters[:, 0],
            "beta": parameters[:, 1],
            "n_edges": result["n_edges"],
            "f_measure": [scores[0] for scores in result["scores"]],
            "true_edges": result["n_true"],
        }
    )


def _numbers(table: pd.DataFrame, n_pairs: int) -> dict[str, Any]:
    """The paper's claims, each as a share of the graphs or of the points that bear it out."""
    pairs, peaks = [], []
    for _, one in table.groupby("instance"):
        edges = one.pivot_table(index="alpha", columns="beta", values="n_edges")
        pairs += list((np.diff(edges.to_numpy(), axis=1) >= 0).ravel())
        best = one.iloc[int(one["f_measure"].to_numpy().argmax())]
        # At the best beta, whatever alpha is.
        path = one[one["beta"] == best["beta"]].sort_values("alpha")
        ends = path["n_edges"].iloc[[0, -1]]
        peaks.append(
            {
                "f_measure": float(best["f_measure"]),
                "edges_over_true": float(best["n_edges"] / best["true_edges"]),
                "ends_are_nearly_complete": bool((ends >= 0.9 * n_pairs).all()),
                "f_at_ends": float(path["f_measure"].iloc[[0, -1]].max()),
            }
        )
    return {
        "fewer_edges_as_beta_falls": float(np.mean(pairs)),
        "f_at_best": float(np.mean([p["f_measure"] for p in peaks])),
        "f_at_smallest_and_largest_alpha": float(np.mean([p["f_at_ends"] for p in peaks])),
        "edges_at_best_over_true": float(np.mean([p["edges_over_true"] for p in peaks])),
        "complete_at_both_ends": float(np.mean([p["ends_are_nearly_complete"] for p in peaks])),
        "range_of_f_over_alpha": _range(table, "beta"),
        "range_of_f_over_beta": _range(table, "alpha"),
        "instances": len(peaks),
    }


def _range(table: pd.DataFrame, held: str) -> float:
    """By how much F varies while one penalty is held, on average over its values and the graphs."""
    f = table.groupby(["instance", held])["f_measure"]
    return float((f.max() - f.min()).mean())


def _figure(table: pd.DataFrame, n_true: int) -> Figure:
    figure = Figure(figsize=(11.5, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for k, (beta, rows) in enumerate(table.groupby("beta")):
        line = rows.sort_values("alpha")
        style: dict[str, Any] = {
            "color": COLOURS[k],
            "marker": MARKERS[k],
            "markersize": 7,
            "linewidth": 2,
            "label": f"beta {beta:g}",
        }
        left.plot(line["alpha"], line["n_edges"], **style)
        right.plot(line["alpha"], line["f_measure"], **style)
    left.axhline(
        n_true, color="0.35", linestyle="--", linewidth=1.5, label=f"truth, {n_true} edges"
    )
    _axes(left, "number of edges")
    _axes(right, "F-measure (oracle)")
    left.set_ylim(0, None)
    right.set_ylim(0.0, 1.05)
    figure.legend(*left.get_legend_handles_labels(), ncols=4, fontsize=13, **BELOW)
    return figure


def _axes(ax: Axes, label: str) -> None:
    ax.set_xscale("log")
    ax.set_xlabel("alpha", fontsize=13)
    ax.set_ylabel(label, fontsize=13)
    ax.tick_params(labelsize=12)
    plain(ax)


def _page(numbers: Mapping[str, Any]) -> str:
    over_alpha, over_beta = numbers["range_of_f_over_alpha"], numbers["range_of_f_over_beta"]
    best, ends = numbers["f_at_best"], numbers["f_at_smallest_and_largest_alpha"]
    near = numbers["edges_at_best_over_true"]
    peak = best > ends and abs(near - 1.0) <= 0.2
    fewer, complete = numbers["fewer_edges_as_beta_falls"], numbers["complete_at_both_ends"]
    claims = {
        f"alpha decides more than beta does (F varies by {over_alpha:.2f} over alpha and by "
        f"{over_beta:.2f} over beta, the other held)": over_alpha > over_beta,
        f"for a fixed alpha there are fewer edges as beta falls (no more of them in {fewer:.0%} of "
        "the pairs of neighbouring betas)": fewer >= ALMOST,
        "the graph is dense where alpha is very small or very large (at both ends it has nine "
        f"tenths of all pairs or more on {complete:.0%} of the graphs)": complete >= ALMOST,
        f"in between, F has a peak ({best:.3f}, against {ends:.3f} at the ends) where the number "
        f"of edges is near the true one ({near:.2f} times it)": peak,
    }
    lines = "\n".join(
        f"- {'holds' if holds else 'does not hold'}: {claim};" for claim, holds in claims.items()
    )
    return f"""# {TITLE}

![Number of edges and F](figure4.png)

One RBF graph, clean signals, the paper's objective at the true scales from a random start, weights
below 1e-4 dropped. The numbers below are over the {numbers["instances"]} RBF graphs of table 1.

{sum(claims.values())} of the paper's {len(claims)} conclusions hold:

{lines.removesuffix(";")}.
"""
