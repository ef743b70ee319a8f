"""Where nodes and their names are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patheffects import withStroke
from numpy.typing import ArrayLike

from heatgraph.arrays import Array, Ints, Mask
from heatgraph.graph import Graph
from heatgraph.graph.checks import check_coordinates
from heatgraph.plotting.style import FONT, INK, LITERAL, figure_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation


MAX_KAMADA_KAWAI = 200
MAX_SPRINGS = 1000
ROUNDS = 60  # of springs, where there are more nodes than that
NEAR = 12  # nodes that push a node away, in those rounds


def places_of(graph: Graph, coordinates: ArrayLike | None) -> Array:
    """Given, known or laid out; (N, 2)."""
    if coordinates is not None:
        return check_coordinates(coordinates, graph.n_nodes)
    return graph.coordinates if graph.coordinates is not None else layout(graph)


def layout(graph: Graph) -> Array:
    """Positions for the nodes, with neighbours near each other; the same at every call.

    Up to 1000 nodes, springs act between all pairs.  For larger graphs, positions come from the
    slowest modes of the Laplacian, spread out by springs between neighbours only; ten thousand
    nodes take seconds.

    Parameters
    ----------
    graph : Graph
        Its own coordinates are not looked at.

    Returns
    -------
    ndarray (n_nodes, 2)

    Examples
    --------
    >>> layout(Graph([(0, 1), (1, 2)], [1.0, 2.0])).shape
    (3, 2)
    """
    return _by_springs(graph) if graph.n_nodes <= MAX_SPRINGS else _by_modes(graph)


def _by_springs(graph: Graph) -> Array:
    import networkx as nx

    other = nx.from_scipy_sparse_array(graph.adjacency())
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


# Where a label may stand, seen from its node.
ANCHORS = np.array(
    [(1, 0), (-1, 0), (0, 1), (0, -1), (0.7, 0.7), (-0.7, 0.7), (0.7, -0.7), (-0.7, -0.7)]
)
RING = 13.0  # half the outline of a source, in points
GAP = 9.0  # from the middle of a node to its label
CLEAR = 8.0  # from the middle of another node, so that the label does not touch it
DOUBT = 3.0  # a label that is no farther than this from another node might be taken for its name


def draw_labels(
    ax: Axes,
    places: Array,
    labels: Sequence[str],
    edges: Ints,
    marked: Mask | None = None,
) -> None:
    """Write every label beside its node, where it covers least of what is drawn."""
    figure = figure_of(ax)
    figure.draw_without_rendering()
    to_points = 72.0 / figure.dpi
    points = ax.transData.transform(places) * to_points
    window = ax.get_window_extent().get_points() * to_points
    loud = np.zeros(len(points), dtype=bool) if marked is None else marked
    crowd, weight = _crowd(points, edges, loud)
    taken: list[Array] = []
    # Marked nodes choose first.
    for k in np.argsort(~loud, kind="stable"):
        if not labels[k]:
            continue
        text = _write(ax, labels[k], places[k], FONT if len(places) <= 25 else FONT - 2)
        half = 0.5 * np.array(text.get_window_extent().size) * to_points
        gap = RING + 5.0 if loud[k] else GAP
        boxes = points[k] + half * np.sign(ANCHORS) + gap * ANCHORS
        others = np.delete(points, k, axis=0)
        costs = [
            _covered(box, half, crowd, weight, taken)
            + _mistaken(box, half, others, gap)
            + 10.0 * _outside(box, half, window)
            for box in boxes
        ]
        best = boxes[int(np.argmin(costs))]
        taken.append(np.concatenate([best - half, best + half]))
        text.set_position(tuple(best - points[k]))


def _crowd(points: Array, edges: Ints, loud: Mask) -> tuple[Array, Array]:
    """Points along the edges and round the marked nodes, and how bad it is to hide each."""
    lines = points[edges]
    along = np.linspace(0.0, 1.0, 25)[:, None, None]
    inked = (lines[:, 0] * (1 - along) + lines[:, 1] * along).reshape(-1, 2)
    rings = (points[loud, None] + RING * ANCHORS).reshape(-1, 2)
    weight = np.repeat([1.0, 10.0], [len(inked), len(rings)])
    return np.concatenate([inked, rings]), weight


def _write(ax: Axes, label: str, place: Array, font: float) -> Annotation:
    return ax.annotate(
        label,
        tuple(place),
        (0.0, 0.0),
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=font,
        color=INK,
        zorder=2,  # below the nodes, so that no halo eats into one
        path_effects=[withStroke(linewidth=2.5, foreground="white")],
        **LITERAL,
    )


def _covered(
    centre: Array, half: Array, crowd: Array, weight: Array, taken: Sequence[Array]
) -> float:
    """How much a label of half-size ``half`` would hide: points of edges, other labels."""
    inside = (np.abs(crowd - centre) <= half + 2.0).all(axis=1)
    cost = float(weight[inside].sum())
    low, high = centre - half, centre + half
    return cost + 250.0 * sum(
        bool((low < box[2:]).all() and (box[:2] < high).all()) for box in taken
    )


def _mistaken(centre: Array, half: Array, others: Array, gap: float) -> float:
    """How bad it is that a label touches other nodes, or is as near to them as to its own."""
    away = np.linalg.norm(np.maximum(np.abs(others - centre) - half, 0.0), axis=1)
    return float(80.0 * (away < CLEAR).sum() + 30.0 * (away < gap + DOUBT).sum())


def _outside(centre: Array, half: Array, window: Array) -> float:
    """By how many points a label would leave the axes, and perhaps the picture."""
    return float(np.maximum([window[0] - centre + half, centre + half - window[1]], 0.0).sum())
