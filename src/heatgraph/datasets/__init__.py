"""Signals to learn from: synthetic ones, whose graph is known, and real ones.

The real ones are read from a folder of data that is named by ``data_home`` or by the environment
variable ``HEATGRAPH_DATA``, or else downloaded from their publishers and kept.
"""

from heatgraph.datasets.etex import load_etex
from heatgraph.datasets.geography import (
    PlacedSignals,
    country_outlines,
    great_circle_km,
    neighbour_graph,
)
from heatgraph.datasets.molene import load_molene
from heatgraph.datasets.new_york import load_uber, load_yellow_cab
from heatgraph.datasets.synthetic import make_graph, make_heat_signals

__all__ = [
    "PlacedSignals",
    "country_outlines",
    "great_circle_km",
    "load_etex",
    "load_molene",
    "load_uber",
    "load_yellow_cab",
    "make_graph",
    "make_heat_signals",
    "neighbour_graph",
]
