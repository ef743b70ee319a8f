"""Estimators: validate, delegate, store."""

from heatgraph.estimators.choosing_model import learn
from heatgraph.estimators.heat_covariance import HeatCovariance
from heatgraph.estimators.hidden import ModelComparison
from heatgraph.estimators.learn_heat import LearnHeat
from heatgraph.estimators.model import SourceCodes
from heatgraph.estimators.sliding import GraphSeries, sliding_graphs
from heatgraph.estimators.time_series import TimeSeries, time_series
from heatgraph.solvers.palm import PaperOptions

__all__ = [
    "GraphSeries",
    "HeatCovariance",
    "LearnHeat",
    "ModelComparison",
    "PaperOptions",
    "SourceCodes",
    "TimeSeries",
    "learn",
    "sliding_graphs",
    "time_series",
]
