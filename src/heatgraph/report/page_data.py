"""What the page shows of a model, gathered as numbers; nothing here knows of HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heatgraph.arrays import Array, Ints
from heatgraph.baselines import HeatFilter
from heatgraph.estimators import HeatCovariance
from heatgraph.graph import Graph
from heatgraph.graph.convert import labels
from heatgraph.report.canvas import readable
from heatgraph.report.node_positions import Places
from heatgraph.report.shown_signals import Gap, Shown, gaps_of, reach, show_signals, with_graph

MAX_EDGES = 20_000  # that a browser still draws at once when the cut is moved


@dataclass(frozen=True, eq=False)
class Edges:
    """The heaviest edges that were learned, lightest first, so that a cut keeps the last ones.

    ``merges`` are the numbers of edges kept, ascending, at each of which two components become
    one: with ``k`` edges there are N minus the number of merges up to ``k`` components.
    """

    pairs: Ints
    weights: Array
    confidence: Array | None
    merges: Ints
    kept: int
    n_learned: int


@dataclass(frozen=True, eq=False)
class Content:
    """Everything on the page that is not text."""

    graph: Graph
    names: tuple[str, ...]
    places: Places
    edges: Edges
    cut: float | None  # that was learned or given; below the lightest edge kept, or at it
    order: Ints  # the rank of every node in the adjacency matrix
    borders: Ints  # between communities, in that order
    shown: Shown | None
    scales: Array | None
    reach: Sequence[
        Array
    ]  # heat by distance in edges: one row per distance, columns low, mean, high
    gaussian: bool = False  # a HeatCovariance: confidence is one minus a p-value
    everywhere: bool = False  # heat released at every node
    gaps: Sequence[Gap] = ()  # of the signals, the first of them
    n_gaps: int = 0


def gather(
    model: Any, signals: Any, sources: Any, labels_of_signals: Any, places: Places
) -> Content:
    """Gather from a fitted model, or from a bare graph."""
    graph: Graph = model if isinstance(model, Graph) else model.graph_
    learned: Graph = getattr(model, "weights_", graph)
    order, borders = by_community(graph)
    # The story and the reach of heat are those of no other kernel.
    heat = getattr(model, "kernel", "heat") == "heat"
    scales = getattr(model, "scales_", None) if heat else None
    gaussian = isinstance(model, HeatCovariance)
    gaps, n_gaps = gaps_of(model, signals)
    cut = getattr(model, "cut_", None)  # NaN where edges were chosen by their p-values
    return Content(
        graph=graph,
        names=tuple(readable(name) for name in labels(graph)),
        places=places,
        edges=heaviest(graph, with_graph(graph, learned) if gaussian else learned),
        cut=None if cut is None or not np.isfinite(cut) else float(cut),
        order=order,
        borders=borders,
        shown=show_signals(model, learned, signals, sources, labels_of_signals),
        scales=None if scales is None else np.asarray(scales, dtype=np.float64),
        reach=[] if scales is None else reach(graph, learned, scales),
        gaussian=gaussian,
        everywhere=gaussian or isinstance(model, HeatFilter),
        gaps=gaps,
        n_gaps=n_gaps,
    )


def heaviest(graph: Graph, learned: Graph, at_most: int = MAX_EDGES) -> Edges:
    """The edges that are in the page: those of the graph, then what its cut left out."""
    confidence = np.full(learned.n_edges, np.nan)
    code = learned.edges[:, 0] * learned.n_nodes + learned.edges[:, 1]
    kept = np.isin(code, graph.edges[:, 0] * learned.n_nodes + graph.edges[:, 1])
    if graph.confidence is not None:
        confidence[kept] = graph.confidence
    # An edge of the graph is never lighter than one that its cut left out.
    order = np.lexsort((learned.weights, kept))[-at_most:]
    pairs = learned.edges[order]
    return Edges(
        pairs,
        learned.weights[order],
        None if graph.confidence is None else confidence[order],
        _merges(pairs[::-1], learned.n_nodes),
        min(graph.n_edges, len(order)),
        learned.n_edges,
    )


def _merges(pairs: Ints, n_nodes: int) -> Ints:
    """After how many of the pairs two components have become one, for each time they do."""
    parent = list(range(n_nodes))

    def root(k: int) -> int:
        while parent[k] != k:
            parent[k] = parent[parent[k]]
            k = parent[k]
        return k

    found = []
    for count, (i, j) in enumerate(pairs.tolist(), start=1):
        a, b = root(i), root(j)
        if a != b:
            parent[a] = b
            found.append(count)
    return np.array(found, dtype=np.intp)


def by_community(graph: Graph) -> tuple[Ints, Ints]:
    """The rank of every node when communities, by Louvain's method, come one after the other.

    The largest comes first, and in each the node of largest degree; also where they end.
    """
    import networkx as nx

    other = nx.Graph()
    other.add_nodes_from(range(graph.n_nodes))
    other.add_weighted_edges_from(
        zip(*graph.edges.T.tolist(), graph.weights.tolist(), strict=True) if graph.n_edges else ()
    )
    parts = nx.community.louvain_communities(other, weight="weight", seed=0)
    parts = sorted(map(sorted, parts), key=lambda part: (-len(part), part[0]))
    degree = graph.degrees()
    nodes = [k for part in parts for k in sorted(part, key=lambda k: -degree[k])]
    rank = np.empty(graph.n_nodes, dtype=np.intp)
    rank[nodes] = np.arange(graph.n_nodes)
    # A node alone is a community that needs no border.
    sizes = [len(part) for part in parts if len(part) > 1]
    return rank, np.cumsum(sizes, dtype=np.intp)
