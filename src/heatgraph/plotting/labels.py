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

__all__ = ["draw_labels"]

Array = NDArray[np.float64]

# Where a label may stand, as multiples of its own size and of the radius of the node.
ANCHORS = [(1, 0), (-1, 0), (0, 1), (0, -1), (0.8, 0.8), (-0.8, 0.8), (0.8, -0.8), (-0.8, -0.8)]
RING = 13.0  # half the outline of a source, in points


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
            zorder=2,  # below the nodes, so that no halo eats into one
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
            **LITERAL,
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
