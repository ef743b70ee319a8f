"""From the scores of cells to a table of the paper: by the truth as in the paper, or without it.

Its rows are ours beside the paper's; it is drawn as a picture, and written in Markdown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from heatgraph.arrays import Array
from heatgraph.experiments.base import BELOW, markdown
from heatgraph.metrics import EdgeScores
from heatgraph.plotting.style import INK

SCORES = EdgeScores._fields
ORACLE, NO_TRUTH = "oracle", "no truth"
NAMES = {"rbf": "RBF", "er": "ER", "ba": "BA"}
# What is called LearnHeat in the paper, as its rows are labelled here.
PAPER, LEARNED, OURS = "LearnHeat (paper)", "LearnHeat (paper), τ learned", "our solver"
TITLES = ("F-measure", "precision", "recall", "NMI", "weight error")
# Pale tints of blue and orange, which every eye tells apart; the marks say it again.
COLOURS = {"better": "#a6cde8", "within": "#ececec", "worse": "#f7c68f", "": "#ffffff"}
MARKS = {"above": "▲", "within": "=", "below": "▼", "": ""}
LEGEND = (
    "▲ above the paper's figure, ▼ below it, = within one standard deviation of it; of a weight "
    "error, less is better"
)
LABEL, ROW = 3.5, 0.55  # width of the labels in columns, height of a row in inches


@dataclass(frozen=True, eq=False)
class Line:
    """A row of a table: a method under a protocol, its scores (instances, 5), and the paper's.

    ``parameters`` are those of the best mean F, in ``row`` of the ``tried`` rows of the grid, and
    ``own`` is the mean F with the best parameters of each graph on its own; only for an oracle.
    """

    graph: str
    method: str
    protocol: str
    scores: Array
    paper: EdgeScores | None
    parameters: tuple[float, ...] | None = None
    own: float | None = None
    row: int | None = None
    tried: int | None = None

    @property
    def mean(self) -> EdgeScores:
        return EdgeScores(*self.scores.mean(axis=0).tolist())

    @property
    def std(self) -> EdgeScores:
        """Over the graphs; 0 where there is but one."""
        n = len(self.scores)
        spread = self.scores.std(axis=0, ddof=1) if n > 1 else np.zeros(len(SCORES))
        return EdgeScores(*spread.tolist())

    def shown(self, score: str) -> str:
        """The mean, and the standard deviation where there are several graphs."""
        mean, std = getattr(self.mean, score), getattr(self.std, score)
        return f"{mean:.3f} ± {std:.3f}" if len(self.scores) > 1 else f"{mean:.3f}"

    def verdict(self, score: str) -> str:
        """``"above"`` the paper's figure, ``"below"`` it, or ``"within"`` a standard deviation."""
        if self.paper is None:
            return ""
        gap = getattr(self.mean, score) - getattr(self.paper, score)
        if abs(gap) <= getattr(self.std, score):
            return "within"
        return "above" if gap > 0 else "below"


def best_common(results: Sequence[Mapping[str, Any]]) -> int:
    """ORACLE.  The row of the grid with the best mean F over the graphs.

    Examples
    --------
    >>> best_common([{"scores": [[0.5], [1.0]]}, {"scores": [[0.6], [0.2]]}])
    1
    """
    return best_rows(results, 1)[0]


def best_rows(results: Sequence[Mapping[str, Any]], n_rows: int) -> list[int]:
    """ORACLE.  The rows of the grid with the best mean F over the graphs, the best first.

    Examples
    --------
    >>> best_rows([{"scores": [[0.5], [0.9], [0.7]]}, {"scores": [[0.5], [0.9], [0.8]]}], 2)
    [1, 2]
    """
    f = np.array([[row[0] for row in result["scores"]] for result in results])
    order: list[int] = np.argsort(-f.mean(axis=0), kind="stable").tolist()
    return order[:n_rows]


def line_of_path(
    graph: str,
    method: str,
    results: Sequence[Mapping[str, Any]],
    grid: Sequence[Sequence[float]],
    paper: EdgeScores | None,
) -> Line:
    """ORACLE.  As the paper does it: one row of the grid for all graphs, the best by the truth."""
    scores = np.array([result["scores"] for result in results])
    best = best_common(results)
    own = float(scores[:, :, 0].max(axis=1).mean())
    at = tuple(grid[best])
    return Line(graph, method, ORACLE, scores[:, best], paper, at, own, best, len(grid))


def line_of_estimator(
    graph: str, method: str, results: Sequence[Mapping[str, Any]], paper: EdgeScores | None
) -> Line:
    """An estimator as it comes."""
    return Line(graph, method, NO_TRUTH, np.array([r["scores"] for r in results]), paper)


def long_table(lines: Sequence[Line]) -> pd.DataFrame:
    """A row a line and score."""
    rows = [
        {
            "graph": line.graph,
            "method": line.method,
            "protocol": line.protocol,
            "score": score,
            "mean": getattr(line.mean, score),
            "std": getattr(line.std, score),
            "paper": None if line.paper is None else getattr(line.paper, score),
            "verdict": line.verdict(score),
            "instances": len(line.scores),
            "parameters": "" if line.parameters is None else _shown(line.parameters),
            "best_for_each_graph": line.own if score == "f_measure" else None,
        }
        for line in lines
        for score in SCORES
    ]
    return pd.DataFrame(rows)


def _shown(parameters: Sequence[float]) -> str:
    return " ".join(f"{value:.4g}" for value in parameters)


def draw_table(lines: Sequence[Line], title: str) -> Figure:
    """Rows grouped by the model of the graph; a cell has mean, deviation, the paper's figure."""
    figure = Figure(figsize=(13.0, 1.5 + ROW * len(lines)), layout="constrained")
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
    figure.legend(handles=handles, ncols=3, fontsize=13, **BELOW)
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
    rows = []
    for line in lines:
        cells = [NAMES[line.graph], line.method, line.protocol, str(len(line.scores))]
        for score in SCORES:
            text = line.shown(score)
            if line.paper is not None:
                text += f" {MARKS[line.verdict(score)]} ({getattr(line.paper, score):.3f})"
            cells.append(text)
        rows.append(cells)
    return markdown(["graph", "method", "protocol", "graphs", *TITLES], rows)
