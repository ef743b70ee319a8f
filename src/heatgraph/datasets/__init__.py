"""Signals to learn from: synthetic ones, whose graph is known."""

from heatgraph.datasets.synthetic import make_graph, make_heat_signals

__all__ = ["make_graph", "make_heat_signals"]
