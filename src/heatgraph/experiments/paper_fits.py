"""The paper's own algorithm on its grid: every row on all graphs, or the most promising ones.

A fit takes a second or more, and the grid has 45 rows: on all graphs of all tables that is hours.
Each fit is a cell of its own, so that a run on more graphs uses those of an earlier one.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from heatgraph.experiments.base import Settings
from heatgraph.experiments.paper_settings import grid
from heatgraph.experiments.sweep import sweep
from heatgraph.experiments.synthetic_runs import Spec, path

KEPT = 3  # rows of the grid that are best on the first graph and go on to the others
# Outside, graphs are nearly complete (figure 4).  A little wider than the values of the grid.
LEAST, MOST = 0.9e-4, 1.1
HELD, LEARNED = "paper", "paper, scales learned"

K = TypeVar("K", bound=Hashable)  # what a group of graphs is called
Rows = list[list[float]]
Results = list[dict[str, Any]]  # of `path`, one per graph, each with the rows that it was run on


def paper_results(graphs: Mapping[K, Sequence[Spec]], settings: Settings) -> dict[K, Results]:
    """ORACLE.  The algorithm with the scales held, for each group of graphs.

    Where ``settings.paper_grid`` is ``"screened"``, the rows with an alpha from 1e-4 to 1 run on
    the first graph of a group, the `KEPT` rows with the best F there on the others, and only these
    are in the results.
    """
    some = {k: specs[: settings.paper_instances] for k, specs in graphs.items()}
    if settings.paper_grid == "whole":
        rows = grid(HELD, settings.quick)
        return _fits(HELD, {k: (specs, rows) for k, specs in some.items()}, settings)
    rows = middle_rows(settings.quick)
    first = _fits(HELD, {k: (specs[:1], rows) for k, specs in some.items()}, settings)
    kept = {k: best_rows(results) for k, results in first.items()}
    rest = _fits(HELD, {k: (specs[1:], kept[k]) for k, specs in some.items()}, settings)
    return {k: [_only(first[k][0], kept[k]), *rest[k]] for k in some}


def learned_results(
    graphs: Mapping[K, Sequence[Spec]], held: Mapping[K, Results], settings: Settings
) -> dict[K, Results]:
    """ORACLE.  The same with the scales learned, at the rows that it was run on with them held."""
    n = settings.learned_instances
    return _fits(LEARNED, {k: (v[:n], held[k][0]["grid"]) for k, v in graphs.items()}, settings)


def middle_rows(quick: bool) -> Rows:
    """The rows of the grid with an alpha that is neither very small nor very large.

    Examples
    --------
    >>> len(middle_rows(False))
    27
    """
    return [row for row in grid(HELD, quick) if LEAST < row[0] < MOST]


def best_rows(results: Sequence[Mapping[str, Any]], n_rows: int = KEPT) -> Rows:
    """ORACLE.  The rows with the best mean F over the graphs, in the order of the grid.

    Examples
    --------
    >>> result = {"grid": [[1.0], [2.0], [3.0]], "scores": [[0.5], [0.9], [0.7]]}
    >>> best_rows([result], 2)
    [[2.0], [3.0]]
    """
    f = np.mean([[scores[0] for scores in result["scores"]] for result in results], axis=0)
    best = np.sort(np.argsort(-f, kind="stable")[:n_rows])
    return [results[0]["grid"][k] for k in best]


def _fits(
    method: str, tasks: Mapping[K, tuple[Sequence[Spec], Rows]], settings: Settings
) -> dict[K, Results]:
    """One cell per graph and row; the results of a graph are put together again."""
    cells = [
        {"problem": spec, "method": method, "grid": [row]}
        for specs, rows in tasks.values()
        for spec in specs
        for row in rows
    ]
    fits = iter(sweep(path, cells, settings, f"the algorithm of the {method}"))
    return {
        key: [_joined([next(fits) for _ in rows], rows) for _ in specs]
        for key, (specs, rows) in tasks.items()
    }


PER_ROW = ("statuses", "scales", "scores", "n_edges")  # what `path` lists by the row of the grid


def _joined(fits: Sequence[dict[str, Any]], rows: Rows) -> dict[str, Any]:
    """Results of one row each as one result of all rows."""
    lists = {key: [fit[key][0] for fit in fits] for key in PER_ROW}
    return {**fits[0], **lists, "grid": rows}


def _only(result: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """A result at some rows of its grid."""
    places = [result["grid"].index(row) for row in rows]
    return {**result, **{key: [result[key][k] for k in places] for key in PER_ROW}, "grid": rows}
