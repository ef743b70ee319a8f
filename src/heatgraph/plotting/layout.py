"""Where the nodes of a graph are drawn."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heatgraph.graph import Graph

__all__ = ["layout", "places_of"]

Array = NDArray[np.float64]

MAX_KAMADA_KAWAI = 200
MAX_SPRINGS = 1000
ROUNDS = 60  # of springs, where there are more nodes than that
NEAR = 12  # nodes that push a node away, in those rounds


def places_of(graph: Graph, coordinates: ArrayLike | None) -> Array:
    """Given, known or laid out; (N, 2)."""
    if coordinates is not None:
        places = np.asarray(coordinates, dtype=np.float64)
        if places.shape != (graph.n_nodes, 2) or not np.isfinite(places).all():
            raise ValueError(
                f"coordinates must be finite, of shape ({graph.n_nodes}, 2), got {places.shape}"
            )
        return places
    return graph.coordinates if graph.coordinates is not None else layout(graph)


def layout(graph: Graph) -> Array:
    """Places for the nodes (n_nodes, 2), neighbours near each other; the same at every call.

    Springs between all pairs up to 1000 nodes.  Above, the slowest modes of the Laplacian, spread
    out by springs between neighbours only, in seconds for ten thousand nodes.

    Examples
    --------
    >>> layout(Graph([(0, 1), (1, 2)], [1.0, 2.0])).shape
    (3, 2)
    """
    return _by_springs(graph) if graph.n_nodes <= MAX_SPRINGS else _by_modes(graph)


def _by_springs(graph: Graph) -> Array:
    import networkx as nx

    other = nx.Graph()
    other.add_nodes_from(range(graph.n_nodes))
    for (i, j), weight in zip(graph.edges.tolist(), graph.weights.tolist(), strict=True):
        other.add_edge(i, j, weight=weight, length=1.0 / weight)
    small = graph.n_nodes <= MAX_KAMADA_KAWAI and graph.n_components() == 1
    start = nx.spring_layout(other, seed=0, weight="weight")
    if small and graph.n_nodes > 2:
        # Heavy edges short, but not in proportion: one light edge would dwarf all others.
        median = float(np.median(graph.weights))
        for _, _, data in other.edges(data=True):
            data["length"] = float(np.clip((median / data["weight"]) ** 0.5, 0.6, 2.0))
        start = nx.kamada_kawai_layout(other, pos=start, weight="length")
    return np.array([start[k] for k in range(graph.n_nodes)], dtype=np.float64)


def _by_modes(graph: Graph) -> Array:
    """Start from the slowest modes, then let edges pull and the nearest nodes push."""
    from scipy.spatial import cKDTree

    N = graph.n_nodes
    places = _slowest_modes(graph)
    i, j = graph.edges.T
    # Every node is pulled to the mean of its neighbours, whatever the unit of the weights.
    degree = np.maximum(graph.degrees(), np.finfo(np.float64).tiny)
    size = np.sqrt(N)  # a unit of area a node
    places *= size
    for step in np.geomspace(1.0, 0.05, ROUNDS):
        along = (places[j] - places[i]) * graph.weights[:, None]
        pull = np.zeros_like(places)
        np.add.at(pull, i, along)
        np.add.at(pull, j, -along)
        pull /= degree[:, None]
        distance, other = cKDTree(places).query(places, k=min(NEAR + 1, N))
        away = places[:, None] - places[other]
        push = (away / np.maximum(distance, 0.05)[:, :, None] ** 2).sum(axis=1)
        places = places + step * np.clip(0.5 * pull + 0.5 * push, -2.0, 2.0)
    centred: Array = (places - places.mean(axis=0)) / size
    return centred


def _slowest_modes(graph: Graph) -> Array:
    """Two modes of slow decay as coordinates, ranked so that crowded ones spread; (N, 2)."""
    import scipy.sparse as sp
    from scipy.sparse.linalg import ArpackError, eigsh
    from scipy.stats import rankdata

    rng = np.random.default_rng(0)
    degree = graph.degrees()
    half = sp.diags_array(np.where(degree > 0, 1.0 / np.sqrt(np.maximum(degree, 1e-300)), 0.0))
    A = half @ graph.adjacency() @ half
    start = rng.standard_normal(graph.n_nodes)
    try:
        # A start for the springs needs few digits.
        modes = eigsh(A, k=3, which="LA", ncv=60, tol=1e-3, v0=start, maxiter=30)[1][:, :2]
    except ArpackError:  # no mode found in time, or none there
        modes = rng.standard_normal((graph.n_nodes, 2))
    ranks = rankdata(modes, axis=0) / graph.n_nodes - 0.5
    places: Array = ranks + 1e-3 * rng.standard_normal((graph.n_nodes, 2))
    return places
