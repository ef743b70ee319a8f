"""The part of the page that compares methods: a picture, a table and the graphs side by side."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from heatgraph.comparison import Comparison
from heatgraph.plotting.style import BLUE, VERMILION, shortened
from heatgraph.report.canvas import paragraphs, table

if TYPE_CHECKING:
    from bokeh.plotting import figure

NAME = "methods"  # of the section and of its picture
LONGEST = 24  # name of a method that is written in full
HINT = (
    "Signals were held out, and a fifth of their values was hidden, the same ones from every "
    "method. Missed is the share of the variance of these values, around the mean of each node, "
    "that was not predicted. More is how much more was missed than by the best method, paired "
    "signal by signal. Agreement is how far the edges from one half of the signals are those from "
    "the other half: 1 is all, 0 is none."
)
COLUMNS = {
    "missed": "missed",
    "error": "standard error",
    "excess": "more",
    "excess_error": "standard error",
    "n_edges": "edges",
    "agreement": "agreement",
    "f_measure": "F",
    "average_precision": "AP",
    "seconds": "seconds",
}


def compared_section(comparison: Comparison, coordinates: object = None) -> str:
    """The verdict, the picture of what was missed, the table, the graphs, in HTML."""
    title = "Which method predicts best"
    parts = [paragraphs([comparison.verdict], "lead"), paragraphs([HINT], "hint")]
    if any(result.predicts for result in comparison.results):
        parts.append(f'<div id="{NAME}" class="picture" role="img" aria-label="{title}"></div>')
    parts.append(f'<div class="scroll" tabindex="0">{_table(comparison)}</div>')
    if comparison.graphs:
        parts.append(_graphs(comparison, coordinates))
    return (
        f'<section class="whole" aria-labelledby="{NAME}-title"><h2 id="{NAME}-title">{title}</h2>'
        f"{''.join(parts)}</section>"
    )


def missed_picture(comparison: Comparison) -> dict[str, figure]:
    """What each method missed, with two standard errors, the best above; empty without any."""
    ranked = [result for result in comparison.results if result.predicts]
    if not ranked:
        return {}
    from bokeh.models import FixedTicker, PlainText, Range1d

    from heatgraph.report.canvas import new_figure, put_legend

    n = len(ranked)
    made = new_figure(
        NAME,
        110 + 26 * n,
        x_axis_label="share of hidden values missed",
        y_range=Range1d(n - 0.4, -0.6),
    )
    for label, colour, marker, plain in (
        ("with a graph", BLUE, "circle", False),
        ("without a graph", VERMILION, "square", True),
    ):
        which = [k for k in range(n) if (ranked[k].name in comparison.without_graph) == plain]
        if not which:
            continue
        y = np.array(which, dtype=np.float64)
        x = np.array([ranked[k].missed for k in which])
        error = np.array([ranked[k].error for k in which])
        made.segment(x - 2.0 * error, y, x + 2.0 * error, y, line_color=colour, line_width=2)
        made.scatter(x, y, marker=marker, size=9, color=colour, legend_label=label)
    made.yaxis.ticker = FixedTicker(ticks=list(range(n)))
    # Plain text, because Bokeh would read a formula between dollar signs.
    made.yaxis.major_label_overrides = {
        k: PlainText(text=shortened(result.name, LONGEST)) for k, result in enumerate(ranked)
    }
    put_legend(made)
    return {NAME: made}


def _table(comparison: Comparison) -> str:
    known = [key for key in COLUMNS if any(r.written(key) for r in comparison.results)]
    rows = [[r.name, *map(r.written, known), r.status] for r in comparison.results]
    return table(["method", *(COLUMNS[key] for key in known), "status"], rows, 0 if rows else None)


def _graphs(comparison: Comparison, coordinates: object) -> str:
    """The graphs side by side, as a picture within the page."""
    import matplotlib.pyplot as plt

    drawn, file = comparison.plot(coordinates), BytesIO()
    try:
        drawn.savefig(file, format="png", dpi=90, facecolor="white")
    finally:
        plt.close(drawn)
    data = base64.b64encode(file.getvalue()).decode("ascii")
    told = "The graphs of the methods side by side, every node in the same place in all of them."
    image = f'<img class="graphs" alt="{told}" src="data:image/png;base64,{data}">'
    return paragraphs([told], "hint") + image
