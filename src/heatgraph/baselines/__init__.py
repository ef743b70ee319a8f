"""Other ways to learn a graph, one file each: problem, solver, estimator."""

from heatgraph.baselines.generalized_laplacian import GeneralizedLaplacian
from heatgraph.baselines.lake_tenenbaum import LakeTenenbaum

__all__ = [
    "GeneralizedLaplacian",
    "LakeTenenbaum",
]
