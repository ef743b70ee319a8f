"""Pictures of graphs: nodes, edges, weights; one graph or several side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.patches import FancyArrowPatch
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from heatgraph.arrays import Array
from heatgraph.graph import Graph
from heatgraph.plotting.layout import draw_labels, places_of
from heatgraph.plotting.style import (
    BLUE,
    FONT,
    INK,
    LITERAL,
    MARKERS,
    MAX_NAMES,
    MAX_NAMES_ALONE,
    NEGATIVE,
    POSITIVE,
    SIGNED,
    VERMILION,
    figure_of,
    new_axes,
    new_row,
    texts,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


FAINT = 0.05


def plot_graph(
    graph: Graph,
    coordinates: ArrayLike | None = None,
    values: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a graph: heavy edges wide and dark, nodes coloured by their values.

    The edges of a directed graph are arrows, bent so that both directions of a pair are seen.

    Parameters
    ----------
    graph : Graph
        Its names are written beside the nodes up to 70 of them, long ones shortened.
    coordinates : array-like, shape (n_nodes, 2), optional
        Where the nodes are; by default the graph's own, else a layout by springs, the same at
        every call.
    values : array-like, shape (n_nodes,), optional
        What colours the nodes.  Values of both signs get a scale centred at zero.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> ax = plot_graph(Graph([(0, 1), (1, 2)], [1.0, 2.0], names=["a", "b", "c"]))
    >>> sorted(text.get_text() for text in ax.texts)
    ['a', 'b', 'c']
    """
    shown = None if values is None else one_per_node(values, graph.n_nodes)
    ax = new_axes(6.0, 5.0) if ax is None else ax
    places = places_of(graph, coordinates)
    draw_edges(ax, graph, places)
    draw_nodes(ax, places, shown)
    frame(ax, places)
    if graph.n_nodes <= MAX_NAMES_ALONE:
        draw_labels(ax, places, texts(graph), graph.edges)
    return ax


def plot_sources(
    graph: Graph,
    signal: ArrayLike,
    sources: ArrayLike,
    scales: ArrayLike | None = None,
    coordinates: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a signal on its graph, and mark the nodes that its heat came from.

    Parameters
    ----------
    graph : Graph
        Where the heat diffused.
    signal : array-like, shape (n_nodes,)
        What colours the nodes.
    sources : array-like, shape (n_scales, n_nodes)
        Marked by an outline, a shape a scale, with the value written beside; those below 5 % of
        the largest are left out.
    scales : array-like, shape (n_scales,), optional
        The diffusion times, for the legend.
    coordinates : array-like, shape (n_nodes, 2), optional
        Where the nodes are.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes
        A title set on them is drawn as written, without formulas.

    Examples
    --------
    >>> graph = Graph([(0, 1), (1, 2)], [1.0, 2.0], names=["a", "b", "c"])
    >>> ax = plot_sources(graph, [0.6, 0.3, 0.1], [[1.0, 0.0, 0.0]], scales=[1.5])
    >>> " ".join(ax.texts[0].get_text().split()), ax.get_legend().texts[0].get_text()
    ('a +1', 'source, scale 1.5')
    """
    H = np.asarray(sources, dtype=np.float64)
    if H.ndim != 2 or H.shape[1] != graph.n_nodes:
        raise ValueError(
            f"sources must have the shape (n_scales, {graph.n_nodes}), got {np.shape(sources)}"
        )
    tau = None if scales is None else np.asarray(scales, dtype=np.float64)
    if tau is not None and tau.shape != (len(H),):
        raise ValueError(f"scales must have one value per row of sources, got {tau.shape}")
    ax = new_axes(6.5, 5.0) if ax is None else ax
    places = places_of(graph, coordinates)
    draw_edges(ax, graph, places)
    draw_nodes(ax, places, one_per_node(signal, graph.n_nodes), label="signal")
    labels = list(texts(graph)) if graph.n_nodes <= MAX_NAMES else [""] * graph.n_nodes
    H = np.where(np.abs(H) >= FAINT * np.abs(H).max(initial=0.0), H, 0.0)
    for s, row in enumerate(H):
        found = np.flatnonzero(row)
        ax.scatter(
            places[found, 0],
            places[found, 1],
            s=420 + 260 * s,
            marker=MARKERS[s % len(MARKERS)],
            facecolors="none",
            edgecolors=VERMILION if s % 2 else INK,
            linewidths=2.0,
            zorder=4,
            label=f"source, scale {s + 1}" if tau is None else f"source, scale {tau[s]:.3g}",
        )
        for k in found:
            labels[k] = f"{labels[k]}\n{row[k]:+.2g}".strip()
    frame(ax, places)
    ax.title.set(**LITERAL)  # what a signal is called may become it
    if len(H):
        where: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0)}
        ax.legend(**where, ncols=2, frameon=False, markerscale=0.5)
    draw_labels(ax, places, labels, graph.edges, marked=(H != 0).any(axis=0))
    return ax


def plot_laplacians(
    graphs: Sequence[Graph],
    titles: Sequence[str] | None = None,
    ax: Iterable[Axes] | None = None,
) -> list[Axes]:
    """Draw the weights of several graphs on the same nodes as matrices, on one colour scale.

    Parameters
    ----------
    graphs : sequence of Graph
        All with as many nodes.  Up to 40 are named, the rows of the first matrix and the columns
        of each.
    titles : sequence of str, optional
        One a graph.
    ax : iterable of matplotlib Axes, optional
        Where to draw, one per graph.

    Returns
    -------
    list of matplotlib Axes

    Examples
    --------
    >>> graph = Graph([(0, 1), (1, 2)], [1.0, 2.0])
    >>> [ax.get_title() for ax in plot_laplacians([graph, graph], ["true", "learned"])]
    ['true', 'learned']
    """
    _check_alike(graphs, titles)
    # Names below the columns need room of their own.
    height = 4.6 if _named(graphs[0]) else 3.6
    panels = new_row(len(graphs), height) if ax is None else list(ax)
    if len(panels) != len(graphs):
        raise ValueError(f"ax must be one per graph, got {len(panels)} for {len(graphs)}")
    top = max((float(graph.weights.max(initial=0.0)) for graph in graphs), default=0.0) or 1.0
    for k, (graph, panel) in enumerate(zip(graphs, panels, strict=True)):
        W = graph.adjacency().toarray()
        image = panel.imshow(W, cmap="Blues", vmin=0.0, vmax=top, interpolation="nearest")
        panel.set_title("" if titles is None else titles[k], fontsize=FONT + 1, **LITERAL)
        _name_rows(panel, graph, first=k == 0)
    figure_of(panels[0]).colorbar(image, ax=panels, label="weight", shrink=0.8)
    return panels


def _check_alike(graphs: Sequence[Graph], titles: Sequence[str] | None) -> None:
    if not graphs or len({graph.n_nodes for graph in graphs}) != 1:
        raise ValueError("graphs must be one or more, all with the same number of nodes")
    if titles is not None and len(titles) != len(graphs):
        raise ValueError(f"titles must be one per graph, got {len(titles)} for {len(graphs)}")


def _named(graph: Graph) -> bool:
    """Whether the rows of its matrix have names, and few enough to be written."""
    return graph.names is not None and graph.n_nodes <= MAX_NAMES


def _name_rows(ax: Axes, graph: Graph, *, first: bool) -> None:
    if not _named(graph):
        ax.set_xlabel("node")
        ax.set_ylabel("node" if first else "")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(5, integer=True))
        return
    small = FONT - (3.0 if graph.n_nodes > 12 else 1.0)
    ticks = range(graph.n_nodes)
    ax.set_xticks(ticks, texts(graph), rotation=90, fontsize=small, **LITERAL)
    ax.set_yticks(ticks, texts(graph) if first else [], fontsize=small, **LITERAL)


def one_per_node(values: ArrayLike, n_nodes: int) -> Array:
    """Values of the nodes as an array, or a ValueError."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n_nodes,):
        raise ValueError(f"values must have one number per node, {n_nodes}, got {array.shape}")
    return array


def draw_edges(ax: Axes, graph: Graph, places: Array) -> None:
    """Light edges first, so that none hides a heavy one."""
    share = graph.weights / float(graph.weights.max(initial=0.0) or 1.0)
    order = np.argsort(share, kind="stable")
    share = share[order]
    ink = np.zeros((graph.n_edges, 4))
    ink[:, :3] = 0.25
    ink[:, 3] = 0.12 + 0.78 * share
    # Many edges are thin ones, or they would hide each other.
    width = float(np.clip(3.6 * np.sqrt(80.0 / max(graph.n_edges, 1)), 0.6, 3.6))
    if graph.directed:
        widths = 0.15 * width + 0.55 * width * share  # the head says more than the line
        _draw_arrows(ax, places[graph.edges[order]], widths, ink, len(places))
        return
    widths = 0.15 * width + 0.85 * width * share
    ends = list(places[graph.edges[order]])
    ax.add_collection(
        LineCollection(ends, linewidths=widths, colors=ink.tolist(), capstyle="round", zorder=1)
    )


def _draw_arrows(ax: Axes, ends: Array, widths: Array, ink: Array, n_nodes: int) -> None:
    """An arrow for each pair of ends (E, 2, 2), from the border of a node to that of the other."""
    gap = 0.5 * float(np.sqrt(_node_size(n_nodes)))  # points: the radius of a node
    for (start, end), width, colour in zip(ends, widths, ink.tolist(), strict=True):
        arrow = FancyArrowPatch(
            tuple(start),
            tuple(end),
            arrowstyle="-|>",
            mutation_scale=6.0 + 2.5 * float(width),
            connectionstyle="arc3,rad=0.12",
            shrinkA=gap,
            shrinkB=gap,
            linewidth=float(width),
            color=colour,
            zorder=1,
        )
        ax.add_patch(arrow)


def _node_size(n_nodes: int) -> float:
    """The area of a node, in square points."""
    return float(np.clip(9000 / n_nodes, 12, 130))


def draw_nodes(ax: Axes, places: Array, values: Array | None, label: str = "value") -> None:
    """Discs of one size, coloured by their values, with a scale beside them."""
    size = _node_size(len(places))
    x, y = places.T
    style: dict[str, Any] = {"s": size, "edgecolors": INK, "linewidths": 0.8, "zorder": 3}
    if values is None:
        ax.scatter(x, y, color=BLUE, **style)
        return
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    norm: Normalize
    if low < 0 < high:
        top = max(-low, high)
        colours, norm = SIGNED, TwoSlopeNorm(0.0, -top, top)
    else:
        # Far from zero is bright, whatever the sign.
        colours, norm = NEGATIVE if high <= 0 and low < 0 else POSITIVE, Normalize(low, high)
    points = ax.scatter(x, y, c=values, cmap=colours, norm=norm, plotnonfinite=True, **style)
    figure_of(ax).colorbar(points, ax=ax, shrink=0.7, label=label)


def frame(ax: Axes, places: Array) -> None:
    """No ticks, equal units, and room for labels at the border."""
    low, high = places.min(axis=0), places.max(axis=0)
    span = np.maximum(high - low, 1e-9 + 0.05 * float((high - low).max()))
    margin = np.array([0.2, 0.12]) * span
    ax.set_xlim(low[0] - margin[0], high[0] + margin[0])
    ax.set_ylim(low[1] - margin[1], high[1] + margin[1])
    ax.set_aspect("equal")
    ax.set_axis_off()


COLUMNS = 4  # pictures beside each other, at most
MAX_NAMED = 12  # nodes; more names than that do not fit into a small picture
SIDE, TITLE = 3.2, 0.4  # inches: the width of a picture, and the height of what is over it
TALLNESS = (0.4, 1.5)  # between which the shape of the layout sets that of a picture


def plot_graphs(
    graphs: Sequence[Graph],
    titles: Sequence[str] | None = None,
    coordinates: ArrayLike | None = None,
) -> list[Axes]:
    """Draw graphs on the same nodes side by side, every node in the same place.

    Parameters
    ----------
    graphs : sequence of Graph
        All with the same number of nodes.  Nodes are laid out by the first, which has their names
        where they are few.
    titles : sequence of str, optional
        One a graph; the number of edges is added.
    coordinates : array-like, shape (n_nodes, 2), optional
        Where the nodes are, in place of the layout.

    Returns
    -------
    list of matplotlib Axes

    Examples
    --------
    >>> graph = Graph([(0, 1), (1, 2)], [1.0, 2.0])
    >>> [ax.get_title() for ax in plot_graphs([graph, graph.cut(n_edges=1)], ["true", "learned"])]
    ['true, 2 edges', 'learned, 1 edge']
    """
    _check_alike(graphs, titles)
    import matplotlib.pyplot as plt

    places = places_of(graphs[0], coordinates)
    n_columns = min(COLUMNS, len(graphs))
    n_rows = math.ceil(len(graphs) / n_columns)
    span = np.maximum(np.ptp(places, axis=0), 1e-9)
    height = SIDE * float(np.clip(span[1] / span[0], *TALLNESS)) + TITLE
    size = (SIDE * n_columns, height * n_rows)
    _, grid = plt.subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)
    panels = list(np.ravel(grid))
    for k, panel in enumerate(panels):
        if k >= len(graphs):
            panel.set_axis_off()
            continue
        graph = graphs[k]
        draw_edges(panel, graph, places)
        draw_nodes(panel, places, None)
        frame(panel, places)
        count = f"{graph.n_edges} edge{'' if graph.n_edges == 1 else 's'}"
        title = count if titles is None else f"{titles[k]}, {count}"
        panel.set_title(title, fontsize=FONT, **LITERAL)
        if k == 0 and graph.names is not None and graph.n_nodes <= MAX_NAMED:
            draw_labels(panel, places, texts(graph), graph.edges)
    return panels[: len(graphs)]
