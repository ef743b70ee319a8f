"""Pictures of graphs, weights, sources and convergence, legible to every eye.

Every function draws on the axes given, or on a new figure, and returns the axes.
"""

from heatgraph.plotting.curves import (
    plot_convergence,
    plot_likelihood,
    plot_selection,
    plot_stretches,
    plot_weights,
)
from heatgraph.plotting.graphs import plot_graph, plot_graphs, plot_laplacians, plot_sources
from heatgraph.plotting.layout import layout
from heatgraph.plotting.maps import plot_map

__all__ = [
    "layout",
    "plot_convergence",
    "plot_graph",
    "plot_graphs",
    "plot_laplacians",
    "plot_likelihood",
    "plot_map",
    "plot_selection",
    "plot_sources",
    "plot_stretches",
    "plot_weights",
]
