"""Estimators: validate, delegate, store."""

from heatgraph.estimators.choosing_model import learn
from heatgraph.estimators.comparison import ModelComparison
from heatgraph.estimators.heat_covariance import HeatCovariance
from heatgraph.estimators.learn_heat import LearnHeat
from heatgraph.estimators.sources import SourceCodes
from heatgraph.solvers.palm import PaperOptions

__all__ = [
    "HeatCovariance",
    "LearnHeat",
    "ModelComparison",
    "PaperOptions",
    "SourceCodes",
    "learn",
]
