"""Predictions of missing entries that need no graph: what every graph should beat."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.covariance import LedoitWolf

from heatgraph.estimators.hidden import fill_by_precision, node_means
from heatgraph.estimators.validation import check_signals

__all__ = ["NodeMeans", "ShrunkCovariance"]

Array = NDArray[np.float64]


class NodeMeans(BaseEstimator):
    """Predict a missing entry by the mean of its node."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Take the means of what was observed."""
        self._learn(check_signals(self, X, reset=True))
        return self

    def _learn(self, X: Array) -> None:
        self.node_means_ = node_means(X)

    def impute(self, X: Any) -> Array:
        """``X`` with its NaN replaced."""
        return self._filled(check_signals(self, X, reset=False))

    def _filled(self, X: Array) -> Array:
        return np.where(np.isnan(X), self.node_means_, X)


class ShrunkCovariance(NodeMeans):
    """Predict by a Gaussian model with Ledoit and Wolf's covariance.

    It takes no gaps: in the fit they are filled by the mean of the node.
    """

    def _learn(self, X: Array) -> None:
        super()._learn(X)
        self.precision_ = LedoitWolf().fit(super()._filled(X)).precision_

    def _filled(self, X: Array) -> Array:
        return fill_by_precision(X, self.node_means_, self.precision_)
