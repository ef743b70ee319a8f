"""Names beside the nodes, where they cover least."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from heatgraph.plotting.style import FONT, INK, LITERAL, figure_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

__all__ = ["draw_labels"]

Array = NDArray[np.float64]

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
    edges: NDArray[np.intp],
    marked: NDArray[np.bool_] | None = None,
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


def _crowd(points: Array, edges: NDArray[np.intp], loud: NDArray[np.bool_]) -> tuple[Array, Array]:
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
