"""A table of the paper as a picture and as Markdown: ours, the paper's, and how they compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from heatgraph.experiments.style import INK
from heatgraph.experiments.table_rows import SCORES, Line

__all__ = ["LEGEND", "NAMES", "draw_table", "markdown_table"]

NAMES = {"rbf": "RBF", "er": "ER", "ba": "BA"}
TITLES = ("F-measure", "precision", "recall", "NMI", "weight error")
# Pale tints of blue and orange, which every eye tells apart; the marks say it again.
COLOURS = {"better": "#a6cde8", "within": "#ececec", "worse": "#f7c68f", "": "#ffffff"}
MARKS = {"above": "▲", "within": "=", "below": "▼", "": ""}
LEGEND = (
    "▲ above the paper's figure, ▼ below it, = within one standard deviation of it; of a weight "
    "error, less is better"
)
LABEL, ROW = 3.1, 0.55  # width of the labels in columns, height of a row in inches


def draw_table(lines: Sequence[Line], title: str) -> Figure:
    """Rows grouped by the model of the graph; a cell has mean, deviation, the paper's figure."""
    figure = Figure(figsize=(12.4, 1.5 + ROW * len(lines)), layout="constrained")
    ax = figure.subplots()
    ax.set(xlim=(-LABEL, len(SCORES)), ylim=(len(lines) + 0.1, -1.1))
    ax.set_axis_off()
    ax.set_title(title, fontsize=14, loc="left")
    for column, name in enumerate(TITLES):
        ax.text(column + 0.5, -0.35, name, ha="center", va="center", fontsize=12, weight="bold")
    most = max(len(line.scores) for line in lines)
    for row, line in enumerate(lines):
        n = len(line.scores)
        fewer = "" if n == most else f", {n} graph{'s' if n > 1 else ''}"
        label = line.protocol + fewer
        _draw_line(ax, row, line, label, first=row == 0 or lines[row - 1].graph != line.graph)
    handles = [
        Patch(facecolor=COLOURS[key], edgecolor="0.6", label=text)
        for key, text in (
            ("better", "better than the paper"),
            ("within", "within one standard deviation"),
            ("worse", "worse than the paper"),
        )
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=13, frameon=False)
    return figure


def _draw_line(ax: Axes, row: int, line: Line, label: str, *, first: bool) -> None:
    if first:
        ax.plot([-LABEL, len(SCORES)], [row, row], color=INK, lw=1.5, zorder=3, clip_on=False)
        name = NAMES[line.graph]
        ax.text(-LABEL + 0.03, row + 0.5, name, va="center", fontsize=14, weight="bold")
    ax.text(-LABEL + 0.42, row + 0.5, line.method, va="center", fontsize=13)
    ax.text(-0.08, row + 0.5, label, va="center", ha="right", fontsize=12, style="italic")
    for column, score in enumerate(SCORES):
        colour = COLOURS[_judged(line, score)]
        ax.add_patch(Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="white", lw=2))
        centred: dict[str, Any] = {"ha": "center", "va": "center"}
        ax.text(column + 0.5, row + 0.31, line.shown(score), fontsize=13, **centred)
        if line.paper is not None:
            text = f"{MARKS[line.verdict(score)]} paper {getattr(line.paper, score):.3f}"
            ax.text(column + 0.5, row + 0.73, text, fontsize=11, color="0.25", **centred)


def _judged(line: Line, score: str) -> str:
    """Better, within a standard deviation, or worse; of an error, less is better."""
    good, bad = ("below", "above") if score == "weight_error" else ("above", "below")
    return {good: "better", bad: "worse"}.get(line.verdict(score), line.verdict(score))


def markdown_table(lines: Sequence[Line]) -> str:
    """The same in Markdown: mean ± deviation, and the paper's figure in parentheses."""
    head = ["graph", "method", "protocol", "graphs", *TITLES]
    rows = [head, ["---"] * len(head)]
    for line in lines:
        cells = [NAMES[line.graph], line.method, line.protocol, str(len(line.scores))]
        for score in SCORES:
            text = line.shown(score)
            if line.paper is not None:
                text += f" {MARKS[line.verdict(score)]} ({getattr(line.paper, score):.3f})"
            cells.append(text)
        rows.append(cells)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
