"""Time series in epochs, as signals: one row per time, and the epoch that it belongs to."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import _safe_indexing

from heatgraph.arrays import Array, Ints
from heatgraph.estimators.validation import Names, check_number, node_names
from heatgraph.graph import Graph

# What the dimensions of an xarray.DataArray are called; others are epochs if they come first.
NODES = ("node", "nodes", "channel", "channels", "region", "regions", "sensor", "space")
TIMES = ("time", "times")


@dataclass(frozen=True, eq=False)
class TimeSeries:
    """Signals out of time series.

    Attributes
    ----------
    signals : ndarray or data frame (n_signals, n_columns)
        The rows of all epochs, one after the other; a data frame where the nodes have names.
    epochs : ndarray (n_signals,)
        The number of the epoch of each row; pass it as ``groups``.
    nodes : tuple
        The names of the nodes, or their numbers.
    lags : tuple of int
        How many steps before the present the columns are: 0 for the first ``len(nodes)`` columns,
        then each lag for as many.
    """

    signals: Any
    epochs: Ints
    nodes: tuple[Hashable, ...]
    lags: tuple[int, ...]

    def directed(self, graph: Graph) -> Graph:
        """The directed graph on the nodes that a graph on the columns stands for.

        An edge goes from ``i`` to ``j`` where the past of ``i``, at any lag, is tied to the
        present of ``j``; its weight is the sum of these weights.  A node's tie to its own past,
        and ties within one time, are left out.

        Parameters
        ----------
        graph : Graph
            Learned from ``signals``.

        Returns
        -------
        Graph
            Directed, on ``nodes``.
        """
        n = len(self.nodes)
        if graph.n_nodes != n * len(self.lags):
            raise ValueError(
                f"graph must have a node for each of the {n * len(self.lags)} columns of signals, "
                f"got {graph.n_nodes}."
            )
        if len(self.lags) == 1:
            raise ValueError(
                "signals hold no earlier values, so no edge has a direction; make them with "
                "time_series(X, lag=1)."
            )
        W = np.asarray(graph.adjacency().toarray(), dtype=np.float64)
        past = sum(W[n * k : n * (k + 1), :n] for k in range(1, len(self.lags)))
        found = np.array(past)
        np.fill_diagonal(found, 0.0)
        names = self.nodes if isinstance(self.signals, pd.DataFrame) else None
        return Graph.from_adjacency(found, names, directed=True)


def time_series(X: Any, lag: int | Iterable[int] = 0) -> TimeSeries:
    """Make signals of time series, in epochs or not, with earlier values as further columns.

    Parameters
    ----------
    X : array-like (n_epochs, n_times, n_nodes) or (n_times, n_nodes), data frame, xarray.DataArray
        Rows of an epoch are evenly spaced in time.  The dimension of a DataArray that is called
        node, channel, region, sensor or space, in the singular or plural, holds the nodes, and
        its coordinates name them; time is called time; what is left are epochs.
    lag : int or sequence of int
        With a lag ``k``, every signal is the pair of ``x[t]`` and ``x[t - k]``, within one epoch:
        twice as many columns, the second half called "name (t-k)".  With several lags, as many
        copies.  An edge between the past of one node and the present of another is then a tie
        across time; :meth:`TimeSeries.directed` collects them.

    Returns
    -------
    TimeSeries

    Examples
    --------
    >>> epochs = np.arange(24.0).reshape(2, 4, 3)
    >>> series = time_series(epochs, lag=1)
    >>> series.signals.shape, series.epochs.tolist()
    ((6, 6), [0, 0, 0, 1, 1, 1])
    >>> series.signals[0]  # t = 1 of the first epoch, and t = 0
    array([3., 4., 5., 0., 1., 2.])
    """
    values, names = _in_order(X)
    lags = _lags(lag)
    E, T, N = values.shape
    if lags[-1] >= T:
        raise ValueError(f"lag must be less than the {T} times of an epoch of X, got {lags[-1]}.")
    rows = [values[:, lags[-1] - k : T - k] for k in lags]
    signals: Any = np.concatenate(rows, axis=2).reshape(-1, N * len(lags))
    nodes: tuple[Hashable, ...] = tuple(range(N)) if names is None else names
    if names is not None:
        columns = [f"{name} (t-{k})" if k else name for k in lags for name in names]
        signals = pd.DataFrame(signals, columns=columns)
    return TimeSeries(signals, np.repeat(np.arange(E), T - lags[-1]), nodes, lags)


def _lags(lag: Any) -> tuple[int, ...]:
    """0 and the lags, ascending."""
    several = isinstance(lag, Iterable) and not isinstance(lag, str)
    given = [check_number("lag", k, integer=True) for k in (lag if several else [lag])]
    return (0, *sorted({int(k) for k in given} - {0}))


def has_epochs(X: Any) -> bool:
    """Whether ``X`` is something that :func:`time_series` reads and no table."""
    return _is_labelled(X) or getattr(X, "ndim", 2) == 3


def with_epochs(X: Any, groups: Any = None, lag: int | Iterable[int] = 0) -> tuple[Any, Any]:
    """Signals and groups: as they are, or of epochs, which are the groups unless some are given.

    Rows of a table whose groups are given have the past of their own group.
    """
    if not has_epochs(X) and isinstance(lag, int) and lag == 0:
        return X, groups
    if not has_epochs(X) and groups is not None:
        series, rows = with_past(X, groups, lag)
        return series.signals, np.asarray(groups)[rows]
    series = time_series(X, lag)
    if groups is not None:
        each = np.reshape(groups, (series.epochs[-1] + 1, -1))
        return series.signals, each[:, series.lags[-1] :].ravel()
    return series.signals, series.epochs if series.epochs[-1] else None


def with_past(X: Any, groups: Any, lag: int | Iterable[int]) -> tuple[TimeSeries, Ints]:
    """:func:`time_series` of the rows of each group, and the numbers of the rows that are left.

    ``X`` is (n_times, n_nodes), or a data frame; the rows of a group are evenly spaced in time.
    """
    labels = np.asarray(groups)
    if labels.shape != (len(X),):
        raise ValueError(f"groups must have one label per signal, ({len(X)},), got {labels.shape}.")
    last = _lags(lag)[-1]
    parts = [np.flatnonzero(labels == label) for label in pd.unique(labels)]
    short = [labels[part[0]] for part in parts if len(part) <= last]
    if short:
        raise ValueError(
            f"lag {last} needs more than {last} signals of each group, which {short[0]} lacks."
        )
    made = [time_series(_safe_indexing(X, part), lag) for part in parts]
    tables = [series.signals for series in made]
    framed = isinstance(tables[0], pd.DataFrame)
    signals = pd.concat(tables, ignore_index=True) if framed else np.concatenate(tables)
    epochs = np.repeat(np.arange(len(parts)), [len(table) for table in tables])
    rows = np.concatenate([part[last:] for part in parts])
    return TimeSeries(signals, epochs, made[0].nodes, made[0].lags), rows


def _is_labelled(X: Any) -> bool:
    """An xarray.DataArray, without a need for xarray."""
    return hasattr(X, "dims") and hasattr(X, "coords") and hasattr(X, "transpose")


def _in_order(X: Any) -> tuple[Array, Names]:
    """Values (n_epochs, n_times, n_nodes), and the names of the nodes where there are any."""
    if _is_labelled(X):
        X, names = _transposed(X)
    else:
        names = node_names(X)
    values = np.asarray(X, dtype=np.float64)
    if values.ndim == 2:
        values = values[None]
    if values.ndim != 3:
        raise ValueError(
            f"X must be (n_epochs, n_times, n_nodes) or (n_times, n_nodes), got shape "
            f"{values.shape}."
        )
    return values, names


def _transposed(X: Any) -> tuple[Any, Names]:
    """A DataArray with epochs first, times then, nodes last."""
    dims = [str(name) for name in X.dims]
    node = [name for name in dims if name.lower() in NODES]
    time = [name for name in dims if name.lower() in TIMES]
    if len(node) != 1 or len(time) != 1 or len(dims) > 3:
        raise ValueError(
            f"X must have one dimension called {NODES[0]} (or {', '.join(NODES[1:])}), one called "
            f"{TIMES[0]}, and one more for epochs at the most, got {', '.join(dims)}; rename them."
        )
    rest = [name for name in dims if name not in (*node, *time)]
    names = tuple(X.coords[node[0]].values.tolist()) if node[0] in X.coords else None
    return X.transpose(*rest, *time, *node).values, names
