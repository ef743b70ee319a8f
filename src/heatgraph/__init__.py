"""Learn the weighted graph on which heat diffused, from signals observed on its nodes."""

from importlib.metadata import version

from heatgraph.graph import Graph
from heatgraph.learners import GraphicalLassoGraph, LearnHeat, SmoothGraph, SpectralTemplates

__version__ = version("heatgraph")
__all__ = [
    "Graph",
    "GraphicalLassoGraph",
    "LearnHeat",
    "SmoothGraph",
    "SpectralTemplates",
    "__version__",
]
