"""``heatgraph.sliding_graphs``: how a graph changes along a time series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from heatgraph.estimators.heat_covariance import HeatCovariance
from heatgraph.estimators.validation import check_number
from heatgraph.graph import Graph


@dataclass(frozen=True, eq=False)
class GraphSeries:
    """Graphs along a time series.

    Attributes
    ----------
    ends : tuple of int
        How many rows had been seen by each graph.
    graphs : tuple of Graph
        The graphs, one per end.
    scales : tuple of ndarray
        The diffusion times that go with each.
    """

    ends: tuple[int, ...]
    graphs: tuple[Graph, ...]
    scales: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def table(self) -> pd.DataFrame:
        """All edges of all graphs: end, source, target, weight."""
        parts = [
            graph.to_pandas()[["source", "target", "weight"]].assign(end=end)
            for end, graph in zip(self.ends, self.graphs, strict=True)
        ]
        columns = ["end", "source", "target", "weight"]
        whole = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)
        return whole[columns]


def sliding_graphs(X: Any, window: int, step: int | None = None, **parameters: Any) -> GraphSeries:
    r"""Learn graphs along a time series, each mostly from recent rows.

    The first graph is learned from the first ``window`` rows by :class:`HeatCovariance`.  Then,
    ``step`` rows at a time, earlier rows lose weight, by :math:`1 - \mathrm{step}/\mathrm{window}`,
    and the new ones are added (:meth:`HeatCovariance.partial_fit`): a window without a hard end,
    in which ``window`` rows count in all, so that one graph is much like the one before.
    Shrinkage and penalty are chosen once, on the first window.

    Parameters
    ----------
    X : array-like or data frame (n_times, n_nodes)
        Rows in order.  NaN marks an entry that was not observed.
    window : int
        How many rows a graph is learned from, about.
    step : int, optional
        How many rows further the next graph is; a quarter of the window unless given.
    **parameters
        Of :class:`HeatCovariance`, other than ``decay``.

    Returns
    -------
    GraphSeries

    Examples
    --------
    >>> import heatgraph
    >>> from heatgraph.datasets import make_graph, make_heat_signals
    >>> X, _ = make_heat_signals(make_graph("er", 8, 0), [1.0], 300, 8, 0.05, random_state=0)
    >>> found = heatgraph.sliding_graphs(X, window=200, step=50, shrinkage=0.01, penalty=0.0)
    >>> found.ends
    (200, 250, 300)
    """
    size = int(check_number("window", window, minimum=2, integer=True))
    by = max(size // 4, 1) if step is None else step
    by = int(check_number("step", by, minimum=1, integer=True))
    if by > size:
        raise ValueError(f"step must be at most the window, {size}, got {by}.")
    if "decay" in parameters:
        raise ValueError("decay must be left out: it follows from window and step.")
    rows = X.iloc if isinstance(X, pd.DataFrame) else np.asarray(X)
    n_times = len(X)
    if n_times < size:
        raise ValueError(f"window must be at most the {n_times} rows of X, got {size}.")
    model = HeatCovariance(decay=max(1.0 - by / size, np.finfo(float).tiny), **parameters)
    ends, graphs, scales = [], [], []
    for end in range(size, n_times + 1, by):
        model.partial_fit(rows[:size] if end == size else rows[end - by : end])
        ends.append(end)
        graphs.append(model.graph_)
        scales.append(model.scales_)
    return GraphSeries(tuple(ends), tuple(graphs), tuple(scales))
