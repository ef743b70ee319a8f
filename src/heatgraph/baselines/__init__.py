"""Other ways to learn a graph: for each its problem, its solver, its estimator."""

from heatgraph.baselines.causal_process import CausalGraphProcess
from heatgraph.baselines.diffusion_polytope import DiffusionPolytope
from heatgraph.baselines.generalized_laplacian import GeneralizedLaplacian
from heatgraph.baselines.graphical_lasso import GraphicalLassoGraph
from heatgraph.baselines.heat_filter import HeatFilter
from heatgraph.baselines.lake_tenenbaum import LakeTenenbaum
from heatgraph.baselines.neighbours import neighbour_graph
from heatgraph.baselines.smooth_graph import SmoothGraph
from heatgraph.baselines.spectral_templates import SpectralTemplates

__all__ = [
    "CausalGraphProcess",
    "DiffusionPolytope",
    "GeneralizedLaplacian",
    "GraphicalLassoGraph",
    "HeatFilter",
    "LakeTenenbaum",
    "SmoothGraph",
    "SpectralTemplates",
    "neighbour_graph",
]
