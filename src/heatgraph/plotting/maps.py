"""Graphs whose nodes are places on the Earth, over the outlines of countries or zones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import Normalize
from numpy.typing import ArrayLike

from heatgraph.arrays import Array
from heatgraph.graph import Graph
from heatgraph.graph.checks import check_coordinates
from heatgraph.plotting.graphs import one_per_node
from heatgraph.plotting.layout import draw_labels
from heatgraph.plotting.style import INK, MAX_NAMES, POSITIVE, VERMILION, figure_of, new_axes, texts

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LAND, BORDER, SEA = "#EFEDE8", "#B5B1A8", "#FFFFFF"
MARGIN = 0.06


def plot_map(
    graph: Graph,
    coordinates: ArrayLike | None = None,
    values: ArrayLike | None = None,
    outlines: Iterable[ArrayLike] = (),
    ax: Axes | None = None,
    *,
    names: Sequence[str] | None = None,
    norm: Normalize | None = None,
    node_size: float | None = None,
    heaviest: float | None = None,
) -> Axes:
    """Draw a graph on a map: heavy edges wide and dark, nodes coloured by their values.

    Parameters
    ----------
    graph : Graph
        With one place per node.
    coordinates : array-like, shape (n_nodes, 2), optional
        Longitude and latitude in degrees; by default the graph's own coordinates.
    values : array-like, shape (n_nodes,), optional
        What colours the nodes; NaN, not measured, is a hollow point.
    outlines : iterable of array-like, shape (n_points, 2)
        Closed rings of longitude and latitude, drawn as land with borders.
    ax : matplotlib Axes, optional
        Where to draw.
    names : sequence of str, optional
        Written beside the nodes, "" for none; by default the graph's own names up to 40 nodes.
    norm : matplotlib Normalize, optional
        From values to colours, for several maps on one scale; the colour bar is then left to the
        caller.
    node_size : float, optional
        The area of a node, in square points.
    heaviest : float, optional
        The weight drawn widest, for several maps on one scale; by default the graph's own.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> graph = Graph([(0, 1)], [1.0], names=["Brest", "Rennes"])
    >>> ax = plot_map(graph, [(-4.5, 48.4), (-1.7, 48.1)])
    >>> [text.get_text() for text in ax.texts]
    ['Brest', 'Rennes']
    """
    places = _places(graph, coordinates)
    if names is None:
        few = graph.names is not None and graph.n_nodes <= MAX_NAMES
        names = texts(graph) if few else [""] * graph.n_nodes
    if len(names) != graph.n_nodes:
        raise ValueError(f"names must be one per node, {graph.n_nodes}, got {len(names)}")
    shown = None if values is None else one_per_node(values, graph.n_nodes)
    ax = new_axes(6.0, 5.5) if ax is None else ax
    rings: list[Any] = [np.asarray(ring, dtype=np.float64) for ring in outlines]
    land = PolyCollection(rings, facecolors=LAND, edgecolors=BORDER, linewidths=0.5, zorder=0)
    ax.add_collection(land, autolim=False)
    _draw_edges(ax, graph, places, heaviest)
    size = float(np.clip(4000 / len(places), 14, 70)) if node_size is None else node_size
    _draw_nodes(ax, places, shown, size, norm)
    _frame(ax, places)
    if any(names):
        draw_labels(ax, places, list(map(str, names)), graph.edges)
    return ax


def _places(graph: Graph, coordinates: ArrayLike | None) -> Array:
    if coordinates is None:
        coordinates = graph.coordinates
    if coordinates is None:
        raise ValueError("coordinates must be given, because the graph has none of its own")
    places = check_coordinates(coordinates, graph.n_nodes)
    if not (np.abs(places) <= (360.0, 90.0)).all():
        raise ValueError(
            "coordinates must be longitude and latitude in degrees, in this order; for other "
            "coordinates use plot_graph"
        )
    return places


def _draw_edges(ax: Axes, graph: Graph, places: Array, heaviest: float | None) -> None:
    """Light edges first, so that none hides a heavy one; width and ink grow with the weight."""
    top = float(graph.weights.max(initial=0.0)) if heaviest is None else heaviest
    share = np.clip(graph.weights / (top or 1.0), 0.0, 1.0)
    order = np.argsort(share, kind="stable")
    widths, inks = edge_style(share[order])
    ends = list(places[graph.edges[order]])
    lines = LineCollection(ends, linewidths=widths, colors=inks, capstyle="round", zorder=1)
    ax.add_collection(lines, autolim=False)


Ink = tuple[float, float, float, float]


def edge_style(share: Array) -> tuple[list[float], list[Ink]]:
    """Widths in points and colours of edges, by their share of the heaviest weight.

    Examples
    --------
    >>> import numpy as np
    >>> edge_style(np.array([1.0]))
    ([3.4], [(0.1, 0.1, 0.1, 0.9)])
    """
    widths = (0.4 + 3.0 * share).tolist()
    return widths, [(0.1, 0.1, 0.1, 0.15 + 0.75 * part) for part in share.tolist()]


def _draw_nodes(
    ax: Axes, places: Array, values: Array | None, size: float, norm: Normalize | None
) -> None:
    style: dict[str, Any] = {"s": size, "edgecolors": INK, "linewidths": 0.6, "zorder": 3}
    if values is None:
        ax.scatter(*places.T, color=VERMILION, **style)
        return
    known = np.isfinite(values)
    style_unknown = {**style, "edgecolors": BORDER, "s": 0.5 * size, "zorder": 2.5}
    ax.scatter(*places[~known].T, facecolors="white", **style_unknown)
    order = np.argsort(values[known], kind="stable")
    scale = Normalize(values[known].min(), values[known].max()) if norm is None else norm
    x, y = places[known][order].T
    points = ax.scatter(x, y, c=values[known][order], cmap=POSITIVE, norm=scale, **style)
    if norm is None:
        figure_of(ax).colorbar(points, ax=ax, shrink=0.7, label="value")


def _frame(ax: Axes, places: Array) -> None:
    """No ticks; a degree of longitude as much narrower as it is at the middle latitude."""
    low, high = places.min(axis=0), places.max(axis=0)
    margin = MARGIN * np.maximum(high - low, 0.2 * float((high - low).max()) + 1e-9)
    ax.set_xlim(low[0] - margin[0], high[0] + margin[0])
    ax.set_ylim(low[1] - margin[1], high[1] + margin[1])
    middle = np.clip(0.5 * (low[1] + high[1]), -80.0, 80.0)
    ax.set_aspect(1.0 / float(np.cos(np.radians(middle))))
    ax.set_facecolor(SEA)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_color(BORDER)
