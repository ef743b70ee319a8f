"""Other ways to learn a graph, one file each: problem, solver, estimator."""

from heatgraph.baselines.causal_process import CausalGraphProcess
from heatgraph.baselines.diffusion_polytope import DiffusionPolytope
from heatgraph.baselines.generalized_laplacian import GeneralizedLaplacian
from heatgraph.baselines.heat_filter import HeatFilter
from heatgraph.baselines.lake_tenenbaum import LakeTenenbaum
from heatgraph.baselines.neighbours import neighbour_graph

__all__ = [
    "CausalGraphProcess",
    "DiffusionPolytope",
    "GeneralizedLaplacian",
    "HeatFilter",
    "LakeTenenbaum",
    "neighbour_graph",
]
