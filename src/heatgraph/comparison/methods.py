"""The methods that are compared by name, and the predictions that need no graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.impute import KNNImputer

from heatgraph.arrays import Array
from heatgraph.baselines import (
    DiffusionPolytope,
    GeneralizedLaplacian,
    GraphicalLassoGraph,
    HeatFilter,
    LakeTenenbaum,
    SmoothGraph,
    SpectralTemplates,
    neighbour_graph,
)
from heatgraph.errors import ParameterError
from heatgraph.estimators import HeatCovariance, LearnHeat
from heatgraph.estimators.hidden import NodeMeans, ShrunkCovariance


class NearestSignals(NodeMeans):
    """Predict by the five signals of the fit that are nearest in what was observed."""

    def _learn(self, X: Array) -> None:
        super()._learn(X)
        self.imputer_ = KNNImputer(keep_empty_features=True).fit(X)

    def _filled(self, X: Array) -> Array:
        return np.asarray(self.imputer_.transform(X))


class NeighbourGraph(BaseEstimator):
    """Nearest neighbours with heat-kernel weights, as an estimator."""

    def __init__(self, n_neighbors: int = 5) -> None:
        self.n_neighbors = n_neighbors

    def fit(self, X: Any, y: Any = None) -> Self:
        """Join every node with its nearest ones."""
        nodes = np.shape(X)[1]
        self.graph_ = self.weights_ = neighbour_graph(X, min(self.n_neighbors, nodes - 1))
        return self


METHODS: dict[str, Any] = {
    "HeatCovariance": HeatCovariance(),
    "HeatFilter": HeatFilter(),
    "GGL": GeneralizedLaplacian("generalized"),
    "DDGL": GeneralizedLaplacian("dominant"),
    "CGL": GeneralizedLaplacian("combinatorial"),
    "LakeTenenbaum": LakeTenenbaum(),
    "GraphicalLasso": GraphicalLassoGraph(),
    "SmoothGraph": SmoothGraph(),
    "SmoothGraph-log": SmoothGraph(degrees="log"),
    "SpectralTemplates": SpectralTemplates(),
    "DiffusionPolytope": DiffusionPolytope(),
    "neighbours": NeighbourGraph(),
    "LedoitWolf": ShrunkCovariance(),
    "KNN": NearestSignals(),
    "mean": NodeMeans(),
    # The last, because it takes longest: Ctrl-C keeps the others.
    "LearnHeat": LearnHeat(fit_intercept=True),
}
NO_GRAPH = ("LedoitWolf", "KNN", "mean")


def chosen_methods(methods: Any, with_truth: bool) -> dict[str, Any]:
    """Names and unfitted estimators.

    ``methods`` is None, names (of any case), estimators, or a mapping from names to estimators.
    The node means are always there: the others are measured by them.
    """
    if methods is None:
        chosen = {
            name: model
            for name, model in METHODS.items()
            if with_truth or hasattr(model, "impute")  # others predict nothing to be judged by
        }
    elif isinstance(methods, Mapping):
        chosen = {str(name): _estimator(name, model) for name, model in methods.items()}
    elif isinstance(methods, Iterable) and not isinstance(methods, str):
        chosen = dict(_named(given) for given in methods)
    else:
        raise ParameterError(
            "methods",
            "must be None, a list of names and estimators, or a mapping from names to "
            f"estimators, got {methods!r}.",
        )
    return {**chosen, "mean": chosen.get("mean", METHODS["mean"])}


def _named(given: Any) -> tuple[str, Any]:
    if not isinstance(given, str):
        name = type(given).__name__
        return name, _estimator(name, given)
    known = {name.lower(): name for name in METHODS}
    if given.lower() not in known:
        raise ParameterError("methods", f": {given!r} is none of {', '.join(METHODS)}.")
    name = known[given.lower()]
    return name, METHODS[name]


def _estimator(name: Any, model: Any) -> Any:
    if isinstance(model, str):
        return _named(model)[1]
    if isinstance(model, type) or not callable(getattr(model, "fit", None)):
        raise ParameterError("methods", f": {name!r} must be an estimator with fit, got {model!r}.")
    return clone(model)
