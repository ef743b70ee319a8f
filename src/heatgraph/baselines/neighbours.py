"""neighbour_graph: the graph that people use when they learn none."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from heatgraph.arrays import Array
from heatgraph.estimators.validation import check_number, node_names
from heatgraph.graph import Graph


def neighbour_graph(X: Any, n_neighbors: int = 5, width: float | str = "auto") -> Graph:
    r"""Join every node with its nearest ones, by the weights of Belkin and Niyogi (2003).

    .. math:: w_{ij} = \exp(-\|x_i - x_j\|^2 / t)

    where ``j`` is among the nearest neighbours of ``i`` or ``i`` among those of ``j``; ``x_i`` is
    what all signals have at node ``i``.  Nothing is learned, and nothing predicted.

    Parameters
    ----------
    X : array-like or data frame (n_signals, n_nodes)
        NaN marks an entry that was not observed; distances are over what two nodes have in common.
        The columns of a data frame name the nodes.
    n_neighbors : int
        Of each node, at most ``n_nodes - 1``.
    width : float or "auto"
        ``t``, in the squared units of ``X``; "auto" is the mean of the squared distances between
        neighbours.  Infinity makes all weights 1.

    Returns
    -------
    Graph
        Its weights are at most 1, and not scaled; an edge whose weight underflows is left out.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0, 2.0, 10.0], [0.0, 1.0, 2.0, 10.0]])
    >>> neighbour_graph(X, n_neighbors=1).edges.tolist()
    [[0, 1], [1, 2], [2, 3]]
    """
    names = node_names(X)
    rows = np.asarray(X, dtype=np.float64).T
    if rows.ndim != 2 or len(rows) < 2:
        raise ValueError(
            f"X must be (n_signals, n_nodes) with two nodes or more, got {rows.T.shape}."
        )
    if np.isinf(rows).any():
        raise ValueError(
            "X holds infinity; give finite numbers, and NaN where nothing was observed."
        )
    silent = np.flatnonzero(np.isnan(rows).all(axis=1))
    if silent.size:
        raise ValueError(
            f"X: column {silent[0]} holds NaN only; drop the {silent.size} such column(s)."
        )
    k = int(check_number("n_neighbors", n_neighbors, minimum=1, integer=True))
    if k >= len(rows):
        raise ValueError(f"n_neighbors must be below the {len(rows)} nodes, got {k}.")
    metric = "nan_euclidean" if np.isnan(rows).any() else "euclidean"
    near = (
        NearestNeighbors(n_neighbors=k, metric=metric).fit(rows).kneighbors_graph(mode="distance")
    )
    near = near.tocoo()
    pairs = np.sort(np.stack([near.row, near.col], axis=1), axis=1)
    edges, first = np.unique(pairs, axis=0, return_index=True)
    squares = np.square(near.data[first])
    weights = np.exp(-squares / _width(width, squares))
    kept = weights > 0.0
    return Graph(edges[kept], weights[kept], len(rows), names)


def _width(width: float | str, squares: Array) -> float:
    if isinstance(width, str):
        if width != "auto":
            raise ValueError(f'width must be a number > 0 or "auto", got {width!r}.')
        return float(squares.mean()) or 1.0
    if width == np.inf:
        return float(np.inf)
    return check_number("width", width, strict=True)
