"""The part of the page that compares methods: a picture, a table and the graphs side by side."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING

from heatgraph.comparison import Comparison, MethodResult
from heatgraph.plotting.curves import labelled
from heatgraph.plotting.style import BLUE, LITERAL, VERMILION, shortened
from heatgraph.report.canvas import paragraphs, still_picture, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "methods"  # of the section
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
    ranked = [result for result in comparison.results if result.predicts]
    if ranked:
        draw = partial(_draw_missed, comparison, ranked)
        parts.append(still_picture(title, draw, 1.2 + 0.3 * len(ranked)))
    parts.append(f'<div class="scroll" tabindex="0">{_table(comparison)}</div>')
    if comparison.graphs:
        parts.append(_graphs(comparison, coordinates))
    return (
        f'<section class="whole" aria-labelledby="{NAME}-title"><h2 id="{NAME}-title">{title}</h2>'
        f"{''.join(parts)}</section>"
    )


def _draw_missed(comparison: Comparison, ranked: Sequence[MethodResult], ax: Axes) -> None:
    """What each method missed, with two standard errors, the best above."""
    for label, colour, marker, plain in (
        ("with a graph", BLUE, "o", False),
        ("without a graph", VERMILION, "s", True),
    ):
        which = [k for k, r in enumerate(ranked) if (r.name in comparison.without_graph) == plain]
        if which:
            missed = [ranked[k].missed for k in which]
            doubt = [2.0 * ranked[k].error for k in which]
            ax.errorbar(missed, which, xerr=doubt, fmt=marker, color=colour, label=label)
    ax.set_yticks(range(len(ranked)), [shortened(r.name, LONGEST) for r in ranked], **LITERAL)
    ax.invert_yaxis()
    labelled(ax, "share of hidden values missed", "")


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
