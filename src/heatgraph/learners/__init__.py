"""Estimators: validate, delegate, store."""

from heatgraph.learners.graphical_lasso import GraphicalLassoGraph
from heatgraph.learners.learn_heat import LearnHeat
from heatgraph.learners.smooth import SmoothGraph
from heatgraph.learners.sources import SourceCodes
from heatgraph.learners.templates import SpectralTemplates

__all__ = ["GraphicalLassoGraph", "LearnHeat", "SmoothGraph", "SourceCodes", "SpectralTemplates"]
