"""Curves of the page: the way of the objective, and how parameters were chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import FixedTicker
from bokeh.plotting import figure
from numpy.typing import NDArray

from heatgraph.plotting.curves import chosen_row, chosen_strength, n_chosen, strength_lines
from heatgraph.plotting.style import BLUE, SEQUENCE, VERMILION
from heatgraph.report.canvas import new_figure, put_legend

__all__ = ["MARKERS", "convergence", "likelihood", "selection"]

Array = NDArray[np.float64]

# As the rings on the graph: a shape a scale.
MARKERS = ("circle", "square", "diamond", "triangle", "inverted_triangle", "hex", "star", "plus")


def convergence(history: Array) -> figure:
    """How far the objective was above its best."""
    best = float(history.min())
    above = history - best
    shown = np.flatnonzero(above > 0.0)
    log = shown.size > 1
    made = new_figure(
        "convergence",
        280,
        x_axis_label="iteration",
        y_axis_label=f"objective above {best:.5g}" if log else "objective",
        y_axis_type="log" if log else "linear",
    )
    x, y = (shown, above[shown]) if log else (np.arange(history.size), history)
    made.line(x, y, line_color=BLUE, line_width=2)
    made.scatter(x, y, color=BLUE, size=4)
    return made


def selection(tried: pd.DataFrame, model: Any) -> figure:
    """How much each alpha and beta of a sparse model missed of what was hidden."""
    made = new_figure(
        "selection",
        300,
        x_axis_type="log" if tried["alpha"].min() > 0.0 else "linear",
        x_axis_label="alpha, the price of a source",
        y_axis_label="share of hidden values missed",
    )
    several = len(set(tried["n_scales"])) > 1
    for k, ((size, beta), rows) in enumerate(tried.groupby(["n_scales", "beta"])):
        path = rows.sort_values("alpha")
        label = f"beta {beta:.2g}" + (f", {size} scales" if several else "")
        x, y = path["alpha"].to_numpy(), path["missed"].to_numpy()
        _path(made, k, x, y, path["standard_error"].to_numpy(), label)
    alphas = sorted(set(tried["alpha"]))
    made.xaxis.ticker = FixedTicker(ticks=alphas)
    made.xaxis.major_label_overrides = {alpha: f"{alpha:.2g}" for alpha in alphas}
    row = chosen_row(tried, model.alpha_, model.beta_, n_chosen(model))
    if row is not None:
        _ring(made, tried["alpha"].iloc[row], tried["missed"].iloc[row])
    put_legend(made)
    return made


def likelihood(tried: pd.DataFrame, model: Any) -> figure:
    """How likely each shrinkage and penalty of a Gaussian model made what was held out."""
    made = new_figure(
        "selection",
        300,
        x_axis_type="log" if tried["shrinkage"].min() > 0.0 else "linear",
        x_axis_label="shrinkage",
        y_axis_label="held-out log-likelihood per signal",
    )
    for k, (label, path) in enumerate(strength_lines(tried)):
        x, y = path["shrinkage"].to_numpy(), path["log_likelihood"].to_numpy()
        _path(made, k, x, y, path["standard_error"].to_numpy(), label)
    shrinkages = sorted(set(tried["shrinkage"]))
    made.xaxis.ticker = FixedTicker(ticks=shrinkages)
    made.xaxis.major_label_overrides = {value: f"{value:.2g}" for value in shrinkages}
    row = chosen_strength(tried, model.shrinkage_, model.penalty_, model.relaxed_)
    if row is not None:
        _ring(made, tried["shrinkage"].iloc[row], tried["log_likelihood"].iloc[row])
    put_legend(made)
    return made


def _path(made: figure, k: int, x: Array, y: Array, error: Array, label: str) -> None:
    """The ``k``-th line of what was tried, with its standard errors."""
    colour = SEQUENCE[k % len(SEQUENCE)]
    made.segment(x, y - error, x, y + error, line_color=colour, line_alpha=0.5)
    made.line(x, y, line_color=colour, line_width=2, legend_label=label)
    made.scatter(x, y, marker=MARKERS[k % len(MARKERS)], size=7, color=colour, legend_label=label)


def _ring(made: figure, x: float, y: float) -> None:
    ring = made.scatter(
        [x],
        [y],
        size=18,
        fill_color=None,
        line_width=3,
        line_color=VERMILION,
        legend_label="chosen",
    )
    ring.level = "overlay"
