"""Estimators: validate, delegate, store."""

from heatgraph.learners.graphical_lasso import GraphicalLassoGraph
from heatgraph.learners.learn_heat import LearnHeat, SourceCodes
from heatgraph.learners.smooth import SmoothGraph
from heatgraph.learners.templates import SpectralTemplates

__all__ = ["GraphicalLassoGraph", "LearnHeat", "SmoothGraph", "SourceCodes", "SpectralTemplates"]
