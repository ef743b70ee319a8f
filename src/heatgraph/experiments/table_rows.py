"""From the scores of cells to the rows of a table: by the truth as in the paper, or without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heatgraph.metrics import EdgeScores

__all__ = ["SCORES", "Line", "best_common", "line_of_estimator", "line_of_path", "long_table"]

Array = NDArray[np.float64]

SCORES = EdgeScores._fields
ORACLE, NO_TRUTH = "oracle", "no truth"


@dataclass(frozen=True, eq=False)
class Line:
    """A row of a table: a method under a protocol, its scores (instances, 5), and the paper's.

    ``parameters`` are those of the best mean F, in ``row`` of the grid, and ``own`` is the mean F
    with the best parameters of each graph on its own; all three only for an oracle.
    """

    graph: str
    method: str
    protocol: str
    scores: Array
    paper: EdgeScores | None
    parameters: tuple[float, ...] | None = None
    own: float | None = None
    row: int | None = None

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
    f = np.array([[row[0] for row in result["scores"]] for result in results])
    return int(f.mean(axis=0).argmax())


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
    return Line(graph, method, ORACLE, scores[:, best], paper, tuple(grid[best]), own, best)


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
