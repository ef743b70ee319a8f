"""What the page shares: HTML of text and tables, frames, legends and curves of pictures, colours.

A model tagged ``ink`` has the properties that follow in its tags drawn in the colour of the text,
light or dark as the reader's screen is; those after ``paper`` in the colour of the background,
those after ``accent`` in that of what is selected, after ``land`` in that of a map.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from heatgraph.arrays import Array
from heatgraph.plotting.curves import (
    chosen,
    chosen_row,
    judged_by,
    n_chosen,
    strength_lines,
)
from heatgraph.plotting.style import BLUE, SEQUENCE, VERMILION, shortened

if TYPE_CHECKING:  # Bokeh is an extra, and takes a while to load
    from bokeh.plotting import figure

LONGEST = 500  # characters of a name or a title; a browser lays out a megabyte for minutes


def readable(content: object) -> str:
    """A name or a title as a page shows it: of a very long one, both ends."""
    return shortened(str(content), LONGEST)


def text(content: str) -> str:
    """Text as HTML, whatever it holds."""
    return html.escape(content).encode("ascii", "xmlcharrefreplace").decode("ascii")


def paragraphs(texts: Sequence[str], kind: str) -> str:
    """A paragraph each, of a class."""
    return "\n".join(f'<p class="{kind}">{text(content)}</p>' for content in texts)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], chosen: int | None = None) -> str:
    """A table, of which one row may be the chosen one."""

    def row(cells: Sequence[str], tag: str) -> str:
        return "".join(f"<{tag}>{text(cell)}</{tag}>" for cell in cells)

    marks = ['<tr class="chosen">' if k == chosen else "<tr>" for k in range(len(rows))]
    lines = [f"{m}{row(cells, 'td')}</tr>" for m, cells in zip(marks, rows, strict=True)]
    return (
        f"<table><thead><tr>{row(head, 'th')}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )


def new_figure(name: str, height: int, **options: Any) -> figure:
    """As wide as its place on the page, on the ground of the page."""
    from bokeh.plotting import figure

    made = figure(
        name=name,
        height=height,
        sizing_mode="stretch_width",
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        **({"tools": "", "toolbar_location": None} | options),
    )
    made.toolbar.logo = None
    for axis in (*made.xaxis, *made.yaxis):
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_font_size = axis.major_label_text_font_size = "13px"
        axis.minor_tick_line_color = None
        tag(
            axis,
            "ink",
            "axis_line_color major_tick_line_color major_label_text_color axis_label_text_color",
        )
    for grid in (*made.xgrid, *made.ygrid):
        grid.grid_line_alpha = 0.15
        tag(grid, "ink", "grid_line_color")
    return made


def tag(model: Any, kind: str, properties: str) -> None:
    """Have properties of a model, separated by blanks, follow the colours of the screen."""
    model.tags = [*model.tags, kind, *properties.split()]


def put_legend(made: figure) -> None:
    """The legend over the picture, where it covers nothing."""
    made.legend.background_fill_color = None
    made.legend.border_line_color = None
    made.legend.label_text_font_size = "13px"
    made.legend.spacing = 0
    for legend in made.legend:
        tag(legend, "ink", "label_text_color")
    made.add_layout(made.legend[0], "above")
    made.legend.orientation = "horizontal"
    made.legend.ncols = 2  # as wide as a phone takes
    made.legend.location = "left"


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
    """How each alpha and beta of a sparse model did on signals that were held out."""
    several = len(set(tried["n_scales"])) > 1
    value = judged_by(tried)
    if value[0] != "missed":
        tried = tried.assign(standard_error=0.0)  # the column is of what was missed
    lines = [
        (f"beta {beta:.2g}" + (f", {size} scales" if several else ""), rows.sort_values("alpha"))
        for (size, beta), rows in tried.groupby(["n_scales", "beta"])
    ]
    return _choice(
        tried,
        lines,
        ("alpha", "alpha, the price of a source"),
        value,
        chosen_row(tried, model.alpha_, model.beta_, n_chosen(model)),
    )


def likelihood(tried: pd.DataFrame, model: Any) -> figure:
    """How likely each shrinkage and penalty of a Gaussian model made what was held out."""
    return _choice(
        tried,
        strength_lines(tried),
        ("shrinkage", "shrinkage"),
        ("log_likelihood", "held-out log-likelihood per signal"),
        chosen_by_likelihood(tried, model),
    )


def chosen_by_likelihood(tried: pd.DataFrame, model: Any) -> int | None:
    """The row of the shrinkage and the penalty that a Gaussian model has."""
    names = "shrinkage", "penalty", "relaxed"
    return chosen(tried, **{name: getattr(model, f"{name}_") for name in names})


def _choice(
    tried: pd.DataFrame,
    lines: Sequence[tuple[str, pd.DataFrame]],
    along: tuple[str, str],
    value: tuple[str, str],
    chosen: int | None,
) -> figure:
    """Lines over a parameter with a ring around what was chosen; columns come with their titles."""
    places = sorted(set(tried[along[0]]))
    made = new_figure(
        "selection",
        300,
        x_axis_type="log" if places[0] > 0.0 else "linear",
        x_axis_label=along[1],
        y_axis_label=value[1],
    )
    for k, (label, path) in enumerate(lines):
        x, y, error = (path[name].to_numpy() for name in (along[0], value[0], "standard_error"))
        _path(made, k, x, y, error, label)
    made.xaxis.ticker = places
    made.xaxis.major_label_overrides = {place: f"{place:.2g}" for place in places}
    if chosen is not None:
        _ring(made, tried[along[0]].iloc[chosen], tried[value[0]].iloc[chosen])
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
