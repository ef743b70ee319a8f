"""Nodes, edges and weights: the graph as a value, and the pairs a learner may choose from."""

from heatgraph.graph.candidates import CandidateEdges
from heatgraph.graph.graph import Graph

__all__ = ["CandidateEdges", "Graph"]
