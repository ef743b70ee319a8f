"""Learn the weighted graph on which heat diffused, from signals observed on its nodes."""

from importlib.metadata import version

from heatgraph.graph import Graph
from heatgraph.learners import LearnHeat

__version__ = version("heatgraph")
__all__ = ["Graph", "LearnHeat", "__version__"]
