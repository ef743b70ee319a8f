"""The page of the ETEX experiment."""

from __future__ import annotations

from typing import Any

import pandas as pd

from heatgraph.datasets import PlacedSignals
from heatgraph.experiments.etex_fits import FIXED, VARIANTS

__all__ = ["page"]

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

With the same number of atoms the learned graph is {below} the geographic one, with
{ratios["1"]:.2f}, {ratios["5"]:.2f} and {ratios["20"]:.2f} of its error at 1, 5 and 20 atoms. It
was learned from the signals that it approximates; the second line is the same for time steps that
it was not learned from, and "no graph" keeps the largest entries.

## Does the graph foretell?

The share of the energy of hidden entries that is missed (1 is predicting zero), with the standard
error over the time steps. {numbers["missing_share"]:.0%} of the entries are missing, and two time
steps hold {numbers["energy_of_two_signals"]:.0%} of the energy.

![What each method missed](prediction.png)

{tables}"""


def _table(predicted: pd.DataFrame, protocol: str) -> str:
    rows = predicted[predicted["protocol"] == protocol].set_index(["scale", "method"])
    scales = ("concentration", "square root", "squared back")
    lines = [
        f"### {HEADS[protocol]}",
        "",
        "| | concentration | square root | square root, squared back |",
        "|---|---|---|---|",
    ]
    for name in (*FIXED, *VARIANTS):
        found = rows.loc[[(scale, name) for scale in scales]]
        pairs = zip(found["missed"], found["standard_error"], strict=True)
        cells = [f"{missed:.2f} ± {doubt:.2f}" for missed, doubt in pairs]
        label = f"learned: {name}" if name in VARIANTS else name
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])
