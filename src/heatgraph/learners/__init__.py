"""Estimators: validate, delegate, store."""

from heatgraph.learners.learn_heat import LearnHeat, SourceCodes

__all__ = ["LearnHeat", "SourceCodes"]
