"""Several graphs on the same nodes, on one layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from heatgraph.graph import Graph
from heatgraph.plotting.graphs import draw_edges, draw_nodes, frame
from heatgraph.plotting.labels import draw_labels
from heatgraph.plotting.layout import places_of
from heatgraph.plotting.style import FONT, LITERAL, texts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_graphs"]

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
    if not graphs or len({graph.n_nodes for graph in graphs}) != 1:
        raise ValueError("graphs must be one or more, all with the same number of nodes")
    if titles is not None and len(titles) != len(graphs):
        raise ValueError(f"titles must be one a graph, got {len(titles)} for {len(graphs)}")
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
