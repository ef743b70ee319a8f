"""What the page shows of a model, gathered as numbers; nothing here knows of HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import DisjointSet

from heatgraph.arrays import Array, Ints
from heatgraph.baselines import HeatFilter
from heatgraph.datasets.geography import country_outlines
from heatgraph.estimators import HeatCovariance
from heatgraph.graph import Graph
from heatgraph.graph.convert import labels
from heatgraph.plotting import layout
from heatgraph.report.canvas import readable
from heatgraph.report.shown_signals import Gap, Shown, gaps_of, reach, show_signals, with_graph

# Columns of a table of coordinates, by what they are called.
PAIRS = (("longitude", "latitude"), ("lon", "lat"), ("lng", "lat"), ("x", "y"))
GEOGRAPHIC = ("latitude", "lat")
NAMING = ("name", "node")


@dataclass(frozen=True, eq=False)
class Places:
    """``xy`` (N, 2); ``axes`` are the names of the coordinates, or None for a layout.

    ``outlines`` are closed rings (n_points, 2) to draw below, such as those of countries.
    """

    xy: Array
    axes: tuple[str, str] | None
    outlines: tuple[Array, ...] = ()

    @property
    def geographic(self) -> bool:
        return self.axes == ("longitude", "latitude")

    @property
    def aspect(self) -> float:
        """How much longer a degree of latitude is than one of longitude, on the middle parallel."""
        if not self.geographic:
            return 1.0
        middle = np.deg2rad(0.5 * (self.xy[:, 1].min() + self.xy[:, 1].max()))
        return float(1.0 / max(np.cos(middle), 0.05))


def place(graph: Graph, coordinates: Any = None, outlines: Any = None) -> Places:
    """Places for the nodes of a graph, and the outlines around them.

    ``coordinates`` is an array (n_nodes, 2), a mapping from names to pairs, or a data frame whose
    index, or one of whose columns, has the names and which has longitude and latitude, or x and y.
    None takes those of the graph, and a layout where it has none.  ``outlines`` are rings of
    such coordinates; None takes countries for longitude and latitude.
    """
    known = _known_places(graph, coordinates)
    if outlines is None:
        outlines = country_outlines() if known.geographic else ()
    rings = [np.asarray(ring, dtype=np.float64) for ring in outlines]
    return replace(known, outlines=tuple(ring for ring in rings if _near(ring, known.xy)))


def _near(ring: Array, xy: Array) -> bool:
    """Whether the box of a ring meets that of the nodes, with half of that around it."""
    low, high = xy.min(axis=0), xy.max(axis=0)
    margin = 0.5 * float((high - low).max())
    return bool(
        (ring.max(axis=0) > low - margin).all() and (ring.min(axis=0) < high + margin).all()
    )


def _known_places(graph: Graph, coordinates: Any) -> Places:
    if coordinates is None and graph.coordinates is None:
        return Places(layout(graph), None)
    if coordinates is None:
        return Places(np.asarray(graph.coordinates, dtype=np.float64), ("x", "y"))
    axes = ("x", "y")
    if isinstance(coordinates, pd.DataFrame):
        coordinates, axes = _from_frame(graph, coordinates)
    elif isinstance(coordinates, Mapping):
        coordinates = _by_name(graph, coordinates, "they")
    try:
        xy = np.asarray(coordinates, dtype=np.float64)
    except (TypeError, ValueError):
        xy = np.empty(0)
    if xy.shape != (graph.n_nodes, 2) or not np.isfinite(xy).all():
        raise ValueError(
            f"coordinates must be two finite numbers for each of the {graph.n_nodes} nodes, got "
            f"an array of shape {np.shape(coordinates)}."
        )
    return Places(xy, axes)


def _from_frame(graph: Graph, frame: pd.DataFrame) -> tuple[list[Any], tuple[str, str]]:
    known = {str(column).strip().lower(): column for column in frame.columns}
    for x, y in PAIRS:
        if x in known and y in known:
            rows = frame[[known[x], known[y]]].to_numpy().tolist()
            named, keys = _naming(graph, frame, [known[x], known[y]])
            twice = [key for key, times in Counter(keys).items() if times > 1]
            if twice:
                raise ValueError(
                    f"coordinates must have one row per node, but {named} has {twice[0]!r} twice."
                )
            axes = ("longitude", "latitude") if y in GEOGRAPHIC else ("x", "y")
            return _by_name(graph, dict(zip(keys, rows, strict=True)), named), axes
    raise ValueError(
        "coordinates must have the columns longitude and latitude, or x and y, got "
        f"{', '.join(map(str, frame.columns)) or 'none'}."
    )


def _naming(graph: Graph, frame: pd.DataFrame, axes: list[Any]) -> tuple[str, list[str]]:
    """What names the nodes in most rows: a column called name or node, the index, any column."""
    called = [column for column in frame.columns if str(column).strip().lower() in NAMING]
    others = [column for column in frame.columns if column not in (*called, *axes)]
    index = "the index" if frame.index.name is None else f"the column {frame.index.name!r}"
    choices = [(f"the column {column!r}", frame[column]) for column in called]
    if frame.index.name not in axes:
        choices.append((index, frame.index.to_series()))
    choices += [(f"the column {column!r}", frame[column]) for column in others]
    nodes = set(map(str, labels(graph)))
    return max(
        ((named, list(map(str, values))) for named, values in choices),
        key=lambda choice: len(nodes.intersection(choice[1])),
    )


def _by_name(graph: Graph, known: Mapping[Any, Any], named: str) -> list[Any]:
    as_text = {str(key): value for key, value in known.items()}
    missing = [name for name in labels(graph) if str(name) not in as_text]
    if missing:
        listed = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
        lack = "lack" if named == "they" else "lacks"
        raise ValueError(f"coordinates must name every node, but {named} {lack} {listed}.")
    return [as_text[str(name)] for name in labels(graph)]


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
    heat = getattr(model, "kernel_", getattr(model, "kernel", "heat")) == "heat"
    scales = getattr(model, "scales_", None) if heat else None
    gaussian = isinstance(model, HeatCovariance)
    gaps, n_gaps = gaps_of(model, signals)
    cut = getattr(model, "cut_", None)  # NaN where edges were chosen by their p-values
    return Content(
        graph=graph,
        names=tuple(readable(name) for name in labels(graph)),
        places=places,
        edges=heaviest(graph, learned if learned.directed else with_graph(graph, learned)),
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
    pieces = DisjointSet(range(n_nodes))
    merged = [count for count, pair in enumerate(pairs.tolist(), start=1) if pieces.merge(*pair)]
    return np.array(merged, dtype=np.intp)


def by_community(graph: Graph) -> tuple[Ints, Ints]:
    """The rank of every node when communities, by Louvain's method, come one after the other.

    The largest comes first, and in each the node of largest degree; also where they end.
    """
    import networkx as nx

    other = nx.from_scipy_sparse_array(graph.adjacency())
    parts = nx.community.louvain_communities(other, weight="weight", seed=0)
    parts = sorted(map(sorted, parts), key=lambda part: (-len(part), part[0]))
    degree = graph.degrees()
    nodes = [k for part in parts for k in sorted(part, key=lambda k: -degree[k])]
    rank = np.empty(graph.n_nodes, dtype=np.intp)
    rank[nodes] = np.arange(graph.n_nodes)
    # A node alone is a community that needs no border.
    sizes = [len(part) for part in parts if len(part) > 1]
    return rank, np.cumsum(sizes, dtype=np.intp)
