"""Pictures of graphs, weights, sources and convergence, legible to every eye.

Every function draws on the axes given, or on a new figure, and returns the axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from heatgraph.graph import Graph

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "plot_convergence",
    "plot_graph",
    "plot_laplacians",
    "plot_selection",
    "plot_sources",
    "plot_weights",
]

Array = NDArray[np.float64]

# Okabe and Ito's colours, which remain apart for every kind of colour vision.
BLUE, ORANGE, VERMILION, INK = "#0072B2", "#E69F00", "#D55E00", "#222222"
SIGNED, POSITIVE = "PuOr_r", "cividis"
MAX_NAMES = 40
MAX_KAMADA_KAWAI = 200
FONT = 10.0
# Where a label may stand, as multiples of its own size and of the radius of the node.
ANCHORS = [(1, 0), (-1, 0), (0, 1), (0, -1), (0.8, 0.8), (-0.8, 0.8), (0.8, -0.8), (-0.8, -0.8)]
SEQUENCE = (BLUE, ORANGE, VERMILION, "#009E73", "#CC79A7", "#56B4E9", INK)
FAINT = 0.05
RING = 13.0  # half the outline of a source, in points
MARKERS = "osD^v<>p"


def plot_graph(
    graph: Graph,
    coordinates: ArrayLike | None = None,
    values: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a graph: heavy edges wide and dark, nodes coloured by a value each.

    Parameters
    ----------
    graph : Graph
        Its names are written beside the nodes up to 40 of them.
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
    shown = None if values is None else _values(values, graph.n_nodes)
    ax = _new_axes(6.0, 5.0) if ax is None else ax
    places = _places(graph, coordinates)
    _draw_edges(ax, graph, places)
    _draw_nodes(ax, places, shown)
    _frame(ax, places)
    if graph.n_nodes <= MAX_NAMES:
        _draw_labels(ax, places, _labels(graph), graph.edges)
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
        raise ValueError(f"scales must have one value a row of sources, got {tau.shape}")
    ax = _new_axes(6.5, 5.0) if ax is None else ax
    places = _places(graph, coordinates)
    _draw_edges(ax, graph, places)
    _draw_nodes(ax, places, _values(signal, graph.n_nodes), label="signal")
    labels = list(_labels(graph)) if graph.n_nodes <= MAX_NAMES else [""] * graph.n_nodes
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
    _frame(ax, places)
    ax.legend(
        loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, frameon=False, markerscale=0.5
    )
    _draw_labels(ax, places, labels, graph.edges, marked=(H != 0).any(axis=0))
    return ax


def plot_convergence(objective: ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw how far above its best value the objective was at each iteration.

    Parameters
    ----------
    objective : array-like
        Its history, the start first.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> plot_convergence([4.0, 2.0, 1.5, 1.4]).get_yscale()
    'log'
    """
    history = np.asarray(objective, dtype=np.float64)
    if history.ndim != 1 or not history.size or not np.isfinite(history).all():
        raise ValueError("objective must be a list of finite numbers, one an iteration")
    ax = _new_axes(6.0, 3.6) if ax is None else ax
    best = float(history.min())
    above = history - best
    # The last fall is to the best itself, which has no place on a logarithmic axis.
    shown = np.flatnonzero(above > 0)
    if shown.size > 1:
        ax.semilogy(shown, above[shown], color=BLUE, linewidth=2, marker=".", markersize=5)
        ax.set_ylabel(f"objective above {best:.6g}")
    else:
        ax.plot(history, color=BLUE, linewidth=2, marker=".", markersize=8)
        ax.set_ylabel("objective")
    ax.set_xlabel("iteration")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.grid(alpha=0.3)
    _bare(ax)
    return ax


def plot_laplacians(
    graphs: Sequence[Graph],
    titles: Sequence[str] | None = None,
    axes: Iterable[Axes] | None = None,
) -> list[Axes]:
    """Draw the weights of several graphs on the same nodes as matrices, on one colour scale.

    Parameters
    ----------
    graphs : sequence of Graph
        All with as many nodes.
    titles : sequence of str, optional
        One a graph.
    axes : iterable of matplotlib Axes, optional
        Where to draw, one a graph.

    Returns
    -------
    list of matplotlib Axes

    Examples
    --------
    >>> graph = Graph([(0, 1), (1, 2)], [1.0, 2.0])
    >>> [ax.get_title() for ax in plot_laplacians([graph, graph], ["true", "learned"])]
    ['true', 'learned']
    """
    if not graphs or len({graph.n_nodes for graph in graphs}) != 1:
        raise ValueError("graphs must be one or more, all with the same number of nodes")
    if titles is not None and len(titles) != len(graphs):
        raise ValueError(f"titles must be one a graph, got {len(titles)} for {len(graphs)}")
    panels = _new_row(len(graphs)) if axes is None else list(axes)
    if len(panels) != len(graphs):
        raise ValueError(f"axes must be one a graph, got {len(panels)} for {len(graphs)}")
    top = max((float(graph.weights.max(initial=0.0)) for graph in graphs), default=0.0) or 1.0
    for k, (graph, ax) in enumerate(zip(graphs, panels, strict=True)):
        W = graph.adjacency().toarray()
        image = ax.imshow(W, cmap="Blues", vmin=0.0, vmax=top, interpolation="nearest")
        ax.set_title("" if titles is None else titles[k], fontsize=FONT + 1)
        ax.set_xlabel("node")
        ax.set_ylabel("node" if k == 0 else "")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(5, integer=True))
    _figure(panels[0]).colorbar(image, ax=panels, label="weight", shrink=0.8)
    return panels


def plot_selection(selection: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw how much of the hidden entries each choice of parameters missed.

    Parameters
    ----------
    selection : data frame
        ``selection_`` of a fitted :class:`~heatgraph.LearnHeat`.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib axes
        With a line for every beta (and number of scales), over alpha; bars are standard errors.

    Examples
    --------
    >>> import pandas as pd
    >>> tried = pd.DataFrame({"n_scales": 1, "alpha": [0.1, 0.2], "beta": 1.0,
    ...                       "missed": [0.5, 0.6], "standard_error": 0.05})
    >>> plot_selection(tried).get_ylabel()
    'share of hidden energy missed'
    """
    ax = _new_axes(6.0, 3.6) if ax is None else ax
    several = len(set(selection["n_scales"])) > 1
    groups = selection.groupby(["n_scales", "beta"])
    for k, ((n_scales, beta), rows) in enumerate(groups):
        path = rows.sort_values("alpha")
        label = f"beta {beta:.2g}" + (f", {n_scales} scales" if several else "")
        ax.errorbar(
            path["alpha"],
            path["missed"],
            yerr=path["standard_error"],
            color=SEQUENCE[k % len(SEQUENCE)],
            marker=MARKERS[k % len(MARKERS)],
            markersize=5,
            capsize=2,
            label=label,
        )
    ax.axhline(1.0, color="0.4", linestyle=":", linewidth=1.2)
    ax.set_xscale("log")
    alphas = sorted(set(selection["alpha"]))
    ax.set_xticks(alphas, [f"{alpha:.2g}" for alpha in alphas])
    ax.minorticks_off()
    ax.set_xlabel("alpha")
    ax.set_ylabel("share of hidden energy missed")
    ax.legend(frameon=False, fontsize="small")
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_weights(graph: Graph, cut: float | None = None, ax: Axes | None = None) -> Axes:
    """Draw the histogram of the weights, and where a cut would part them.

    Parameters
    ----------
    graph : Graph
        With at least one edge.
    cut : float, optional
        The lightest weight kept.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> ax = plot_weights(Graph([(0, 1), (1, 2)], [0.01, 2.0]), cut=0.1)
    >>> ax.get_legend().texts[0].get_text()
    'cut at 0.1: 1 of 2 edges kept'
    """
    if not graph.n_edges:
        raise ValueError("graph must have an edge for its weights to be drawn")
    ax = _new_axes(6.0, 3.6) if ax is None else ax
    low, high = float(graph.weights.min()), float(graph.weights.max())
    n_bins = int(np.clip(np.sqrt(4 * graph.n_edges), 10, 60))
    if high > 30 * low:
        bins = np.geomspace(low, high * (1 + 1e-12), n_bins + 1)
        ax.set_xscale("log")
    else:
        bins = np.linspace(low, max(high, low * (1 + 1e-9)), n_bins + 1)
    ax.hist(graph.weights, bins=bins.tolist(), color=BLUE, edgecolor="white", linewidth=0.5)
    if cut is not None:
        kept = int((graph.weights >= cut).sum())
        label = f"cut at {cut:.3g}: {kept} of {graph.n_edges} edges kept"
        ax.axvline(cut, color=VERMILION, linewidth=2, linestyle="--", label=label)
        ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False)
    ax.set_xlabel("weight of an edge")
    ax.set_ylabel("number of edges")
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    _bare(ax)
    return ax


def _new_axes(width: float, height: float) -> Axes:
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def _new_row(n: int) -> list[Axes]:
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(1, n, figsize=(3.4 * n + 0.9, 3.6), layout="constrained", squeeze=False)
    return list(axes[0])


def _figure(ax: Axes) -> Figure:
    figure: Any = ax.get_figure(root=True)
    return figure  # type: ignore[no-any-return]


def _bare(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)


def _values(values: ArrayLike, n_nodes: int) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n_nodes,):
        raise ValueError(f"values must have one number a node, {n_nodes}, got {array.shape}")
    return array


def _labels(graph: Graph) -> list[str]:
    return [str(name) for name in (graph.names or range(graph.n_nodes))]


def _places(graph: Graph, coordinates: ArrayLike | None) -> Array:
    """Given, known or laid out; (N, 2)."""
    if coordinates is not None:
        places = np.asarray(coordinates, dtype=np.float64)
        if places.shape != (graph.n_nodes, 2) or not np.isfinite(places).all():
            raise ValueError(
                f"coordinates must be finite, of shape ({graph.n_nodes}, 2), got {places.shape}"
            )
        return places
    return graph.coordinates if graph.coordinates is not None else _layout(graph)


def _layout(graph: Graph) -> Array:
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


def _draw_edges(ax: Axes, graph: Graph, places: Array) -> None:
    """Light edges first, so that none hides a heavy one."""
    share = graph.weights / float(graph.weights.max(initial=0.0) or 1.0)
    order = np.argsort(share, kind="stable")
    share = share[order]
    ink = np.zeros((graph.n_edges, 4))
    ink[:, :3] = 0.25
    ink[:, 3] = 0.12 + 0.78 * share
    # Many edges are thin ones, or they would hide each other.
    width = float(np.clip(3.6 * np.sqrt(80.0 / max(graph.n_edges, 1)), 0.6, 3.6))
    lines = LineCollection(
        list(places[graph.edges[order]]),
        linewidths=0.15 * width + 0.85 * width * share,
        colors=ink.tolist(),
    )
    lines.set_zorder(1)
    lines.set_capstyle("round")
    ax.add_collection(lines)


def _draw_nodes(ax: Axes, places: Array, values: Array | None, label: str = "value") -> None:
    size = float(np.clip(9000 / len(places), 12, 130))
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
        colours, norm = POSITIVE, Normalize(low, high)
    points = ax.scatter(x, y, c=values, cmap=colours, norm=norm, plotnonfinite=True, **style)
    _figure(ax).colorbar(points, ax=ax, shrink=0.7, label=label)


def _frame(ax: Axes, places: Array) -> None:
    """No ticks, equal units, and room for labels at the border."""
    low, high = places.min(axis=0), places.max(axis=0)
    span = np.maximum(high - low, 1e-9 + 0.05 * float((high - low).max()))
    margin = np.array([0.2, 0.12]) * span
    ax.set_xlim(low[0] - margin[0], high[0] + margin[0])
    ax.set_ylim(low[1] - margin[1], high[1] + margin[1])
    ax.set_aspect("equal")
    ax.set_axis_off()


def _draw_labels(
    ax: Axes,
    places: Array,
    labels: Sequence[str],
    edges: NDArray[np.intp],
    marked: NDArray[np.bool_] | None = None,
) -> None:
    """Write every label beside its node, where it covers least of what is drawn."""
    figure = _figure(ax)
    figure.draw_without_rendering()
    points = ax.transData.transform(places) * 72.0 / figure.dpi
    font = FONT if len(places) <= 25 else FONT - 2
    taken: list[Array] = []
    window = ax.get_window_extent().get_points() * 72.0 / figure.dpi
    lines = points[edges]
    along = np.linspace(0.0, 1.0, 25)[:, None, None]
    crowd = np.concatenate(
        [points, (lines[:, 0] * (1 - along) + lines[:, 1] * along).reshape(-1, 2)]
    )
    weight = np.concatenate([np.full(len(points), 80.0), np.full(len(crowd) - len(points), 1.0)])
    loud = np.zeros(len(points), dtype=bool) if marked is None else marked
    rings = (points[loud, None] + RING * np.array(ANCHORS)).reshape(-1, 2)
    crowd, weight = np.concatenate([crowd, rings]), np.append(weight, np.full(len(rings), 10.0))
    # Marked nodes choose first.
    for k in np.argsort(~loud, kind="stable"):
        label = labels[k]
        if not label:
            continue
        rows = label.split("\n")
        half = 0.5 * np.array([0.6 * max(map(len, rows)) * font, 1.25 * len(rows) * font])
        gap = RING + 5.0 if loud[k] else 7.0
        boxes = [points[k] + np.array(a) * (half + gap * np.array([1.0, 0.8])) for a in ANCHORS]
        costs = [
            _covered(box, half, crowd, weight, taken) + 200.0 * _outside(box, half, window)
            for box in boxes
        ]
        best = boxes[int(np.argmin(costs))]
        taken.append(np.concatenate([best - half, best + half]))
        ax.annotate(
            label,
            tuple(places[k]),
            tuple(best - points[k]),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=font,
            color=INK,
            zorder=5,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )


def _covered(
    centre: Array, half: Array, crowd: Array, weight: Array, taken: Sequence[Array]
) -> float:
    """How much a label of half-size ``half`` would hide: points of edges, nodes, other labels."""
    inside = (np.abs(crowd - centre) <= half + 2.0).all(axis=1)
    cost = float(weight[inside].sum())
    low, high = centre - half, centre + half
    return cost + 100.0 * sum(
        bool((low < box[2:]).all() and (box[:2] < high).all()) for box in taken
    )


def _outside(centre: Array, half: Array, window: Array) -> bool:
    """Whether a label would leave the axes, and perhaps the picture."""
    return bool((centre - half < window[0]).any() or (centre + half > window[1]).any())
