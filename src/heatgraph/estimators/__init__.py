"""Estimators: validate, delegate, store."""

from heatgraph.estimators.choosing_model import learn
from heatgraph.estimators.comparison import ModelComparison
from heatgraph.estimators.graphical_lasso import GraphicalLassoGraph
from heatgraph.estimators.heat_covariance import HeatCovariance
from heatgraph.estimators.learn_heat import LearnHeat
from heatgraph.estimators.smooth import SmoothGraph
from heatgraph.estimators.sources import SourceCodes
from heatgraph.estimators.templates import SpectralTemplates

__all__ = [
    "GraphicalLassoGraph",
    "HeatCovariance",
    "LearnHeat",
    "ModelComparison",
    "SmoothGraph",
    "SourceCodes",
    "SpectralTemplates",
    "learn",
]
