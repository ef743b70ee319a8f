"""What a comparison found: one row per method, a verdict, and files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from heatgraph.arrays import Array
from heatgraph.estimators.hidden import CHANCE, percent
from heatgraph.files import to_json, write_atomically
from heatgraph.graph import Graph

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Runs of signals that are taken for independent of each other.  Signals of a time series are not,
# one by one, and their standard error would be too small.
MOST_RUNS = 30
EDGE_COLUMNS = ("method", "source", "target", "weight")


@dataclass(frozen=True)
class MethodResult:
    """The result of one method; NaN where it has no such number.

    Attributes
    ----------
    name : str
        Of the method.
    missed, error : float
        The share of the variance of hidden entries that was not predicted, and its standard error.
    excess, excess_error : float
        How much more was missed than by the best method, and the standard error of that, paired by
        signal.
    seconds : float
        Time of the fit of all signals.
    n_edges : float
        Number of edges of the graph.
    agreement : float
        How far the edges from one half of the signals are those from the other half: twice the
        number of common edges over the number of all edges.
    f_measure, precision, recall, nmi, weight_error, average_precision : float
        Scores of the graph against the known one, where one was given; the last is of the weights
        before the cut.
    status : str
        "ok", or how a fit that did not converge ended, or the reason why there is no result.
    """

    name: str
    missed: float = float("nan")
    error: float = float("nan")
    excess: float = float("nan")
    excess_error: float = float("nan")
    seconds: float = float("nan")
    n_edges: float = float("nan")
    agreement: float = float("nan")
    f_measure: float = float("nan")
    precision: float = float("nan")
    recall: float = float("nan")
    nmi: float = float("nan")
    weight_error: float = float("nan")
    average_precision: float = float("nan")
    status: str = "ok"

    @property
    def predicts(self) -> bool:
        return bool(np.isfinite(self.missed))

    def written(self, key: str) -> str:
        """A number of this result as a table shows it.

        Parameters
        ----------
        key : str
            Name of the attribute.

        Returns
        -------
        str
            Empty where the number is not known.
        """
        value = getattr(self, key)
        if not np.isfinite(value):
            return ""
        if key == "n_edges":
            return str(int(value))
        return f"{value:.2g}" if key == "seconds" else f"{value:.3f}"


@dataclass(frozen=True, eq=False)
class Comparison:
    """How well several methods did on the same signals.

    Attributes
    ----------
    results : tuple of MethodResult
        The best prediction first; those that predict nothing last.
    graphs : mapping of str to Graph
        What each method learned from all signals.
    truth : Graph or None
        The known graph.
    n_signals, n_nodes : int
        How many were compared on.
    without_graph : tuple of str
        The methods that have no graph.
    interrupted : bool
        Whether Ctrl-C came before all methods were done.
    """

    results: tuple[MethodResult, ...]
    graphs: Mapping[str, Graph] = field(default_factory=dict)
    truth: Graph | None = None
    n_signals: int = 0
    n_nodes: int = 0
    without_graph: tuple[str, ...] = ()
    interrupted: bool = False

    def __getitem__(self, name: str) -> MethodResult:
        found = {result.name: result for result in self.results}
        if name not in found:
            raise KeyError(f"{name!r} was not compared; there are {', '.join(found) or 'none'}")
        return found[name]

    @property
    def best(self) -> MethodResult | None:
        """The method that missed least."""
        return next((result for result in self.results if result.predicts), None)

    @property
    def table(self) -> pd.DataFrame:
        """One row per method; without a known graph, without the columns that need one."""
        columns = [column.name for column in fields(MethodResult)]
        rows = [asdict(result) for result in self.results]
        frame = pd.DataFrame(rows, columns=columns).set_index("name")
        return frame if self.truth is not None else frame.drop(columns=list(AGAINST_TRUTH))

    @property
    def edges(self) -> pd.DataFrame:
        """The edges of all graphs: method, source, target, weight."""
        lists = [graph.to_pandas().assign(method=name) for name, graph in self.graphs.items()]
        whole = pd.concat(lists, ignore_index=True) if lists else pd.DataFrame(columns=EDGE_COLUMNS)
        return whole[list(EDGE_COLUMNS)]

    @property
    def verdict(self) -> str:
        """Which method predicts best, and whether the difference is more than chance."""
        ranked = [result for result in self.results if result.predicts]
        if not ranked:
            return "No method predicts hidden entries."
        best, *others = ranked
        text = (
            f"{best.name} predicts best: it misses {percent(best.missed, best.error)} of the "
            f"variance of hidden entries of held-out signals."
        )
        if others:
            text += f" {_difference(others[0], 'The next')}"
        close = [result.name for result in others[1:] if not _is_worse(result)]
        if close:
            text += f" Its difference from {_listed(close)} may be chance."
        plain = [result for result in others if result.name in self.without_graph]
        if best.name in self.without_graph:
            learned = [result for result in others if result.name not in self.without_graph]
            worse = (
                "helps to predict these signals" if all(map(_is_worse, learned)) else "is better"
            )
            text += f" It has no graph: none of the graphs {worse}."
        elif plain and plain[0] is not others[0]:
            text += f" {_difference(plain[0], 'The best without a graph')}"
        if self.interrupted:
            text += " Stopped by the user: the other methods were not compared."
        return text

    def __str__(self) -> str:
        shown = self.table.dropna(axis=1, how="all").round(4)
        return f"{shown.to_string(na_rep='')}\n{self.verdict}"

    def to_json(self) -> str:
        """Everything but the graphs, as strict JSON; a number that is not known is null.

        Returns
        -------
        str
        """
        whole = {
            "n_signals": self.n_signals,
            "n_nodes": self.n_nodes,
            "best": None if self.best is None else self.best.name,
            "verdict": self.verdict,
            "interrupted": self.interrupted,
            "methods": list(map(asdict, self.results)),
        }
        return to_json(whole)

    def plot(self, coordinates: Any = None) -> Figure:
        """Draw the graphs side by side, all with the same positions; the known one first.

        Parameters
        ----------
        coordinates : array-like (n_nodes, 2), optional
            Positions of the nodes; by default those of the known graph, or a layout.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from heatgraph.plotting import plot_graphs

        shown = {} if self.truth is None else {"known": self.truth}
        shown |= {r.name: self.graphs[r.name] for r in self.results if r.name in self.graphs}
        if not shown:
            raise ValueError("there is no graph to draw: no method learned one")
        axes = plot_graphs(list(shown.values()), list(shown), coordinates=coordinates)
        figure = axes[0].get_figure()
        return figure  # type: ignore[return-value]  # axes of a new figure are on one

    def report(
        self,
        path: str | os.PathLike[str],
        coordinates: Any = None,
        title: str | None = None,
    ) -> None:
        """Write a page: the comparison, and the graph of the best method that has one.

        Parameters
        ----------
        path : str or path-like
            The file, by custom ending in ``.html``; it needs no network to open.
        coordinates : optional
            Where the nodes are, as of ``report`` of a fitted model.
        title : str, optional
            The heading; by default it names the method whose graph is shown.

        Notes
        -----
        Needs Bokeh: ``pip install "heatgraph[report]"``.
        """
        # Upwards, when asked for: the page draws comparisons, comparisons do not need it.
        from heatgraph.report import write_report

        shown = next((r.name for r in self.results if r.name in self.graphs), None)
        if shown is None:
            raise ValueError("there is no graph to show: no method learned one")
        title = f"The graph of {shown}, beside other methods" if title is None else title
        graph = self.graphs[shown]
        write_report(graph, path, coordinates=coordinates, title=title, comparison=self)

    def save(self, folder: str | os.PathLike[str], coordinates: Any = None) -> list[Path]:
        """Write ``comparison.csv`` and ``.json``, ``graphs.csv`` and ``.png`` into a folder.

        Parameters
        ----------
        folder : str or path-like
            Made if it is not there.
        coordinates : array-like, shape (n_nodes, 2), optional
            Where the nodes are in the picture.

        Returns
        -------
        list of Path
            The files; those of graphs only where there are any.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        texts = {"comparison.csv": self.table.to_csv(), "comparison.json": self.to_json()}
        if self.graphs:
            texts["graphs.csv"] = self.edges.to_csv(index=False)
        for name, text in texts.items():
            with write_atomically(folder / name, "w", newline="") as file:
                file.write(text)
        paths = [folder / name for name in texts]
        if self.graphs:
            import matplotlib.pyplot as plt

            figure = self.plot(coordinates)
            with write_atomically(folder / "graphs.png") as file:
                figure.savefig(file, format="png", dpi=110)
            plt.close(figure)
            paths.append(folder / "graphs.png")
        return paths


AGAINST_TRUTH = tuple(f.name for f in fields(MethodResult))[8:14]


def share_missed(errors: Array, total: Array) -> tuple[float, float]:
    """The ratio of the sums, and its standard error over runs of consecutive signals.

    ``errors`` may be those of one method or the differences of two, which pairs them.
    """
    whole = float(total.sum()) or 1.0
    ratio = float(errors.sum()) / whole
    starts = np.linspace(0, len(errors), min(MOST_RUNS, len(errors)) + 1).astype(int)[:-1]
    left = np.add.reduceat(errors - ratio * total, starts)
    n = len(starts)
    return ratio, float(np.sqrt(n / max(n - 1, 1) * np.sum(np.square(left)))) / whole


def _is_worse(result: MethodResult) -> bool:
    return result.excess > CHANCE * result.excess_error


def _difference(result: MethodResult, which: str) -> str:
    more = percent(result.excess, result.excess_error)
    verdict = "more than chance" if _is_worse(result) else "no more than chance"
    return f"{which}, {result.name}, misses {more} more, which is {verdict}."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
