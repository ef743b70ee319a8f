"""Estimators: validate, delegate, store."""

from heatgraph.learners.choosing_model import learn
from heatgraph.learners.comparison import ModelComparison
from heatgraph.learners.graphical_lasso import GraphicalLassoGraph
from heatgraph.learners.heat_covariance import HeatCovariance
from heatgraph.learners.learn_heat import LearnHeat
from heatgraph.learners.smooth import SmoothGraph
from heatgraph.learners.sources import SourceCodes
from heatgraph.learners.templates import SpectralTemplates

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
