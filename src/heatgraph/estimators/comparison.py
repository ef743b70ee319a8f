"""Which model of the sources predicts better, and what predictions without a graph reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.covariance import LedoitWolf

from heatgraph.arrays import Array
from heatgraph.estimators.hidden import fill_by_precision, node_means
from heatgraph.estimators.validation import check_signals


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


ESTIMATOR_OF = {"sparse": "LearnHeat", "gaussian": "HeatCovariance"}


@dataclass(frozen=True)
class ModelComparison:
    """The share of the variance of hidden entries that each model missed, on held-out signals.

    Attributes
    ----------
    sparse, gaussian : float
        The share missed by LearnHeat and by HeatCovariance; 1 is what the mean of each node
        misses.  NaN where the comparison was stopped before it was known.
    sparse_error, gaussian_error : float
        Standard errors of the two, over the signals.
    difference_error : float
        Standard error of the difference, paired by signal.
    n_signals : float
        How many signals were held out, each once.
    no_graph : float
        The share missed by a Gaussian model without a graph, with the covariance of
        scikit-learn's ``LedoitWolf``, from the same signals and entries.  NaN where it is not
        known.
    """

    sparse: float
    sparse_error: float
    gaussian: float
    gaussian_error: float
    difference_error: float
    n_signals: float
    no_graph: float = np.nan

    @classmethod
    def of(
        cls, gaussian: Array, sparse: Array | None, no_graph: Array, total: Array
    ) -> ModelComparison:
        """From squared errors of each signal, (M,), and what the node means miss of it."""
        nothing = np.full(total.shape, np.nan)
        sparse = nothing if sparse is None else sparse
        shares = [_share(errors, total) for errors in (sparse, gaussian)]
        _, paired = _share(sparse - gaussian, total)
        without, _ = _share(no_graph, total)
        return cls(*shares[0], *shares[1], paired, float(total.size), without)

    @property
    def kept(self) -> str:
        """Which model misses less; "gaussian" where it is not known of the other."""
        return "sparse" if self.sparse < self.gaussian else "gaussian"

    @property
    def difference(self) -> float:
        """The share that the sparse model misses more than the Gaussian one."""
        return self.sparse - self.gaussian

    @property
    def is_complete(self) -> bool:
        return bool(np.isfinite(self.sparse))

    def missed(self, model: str) -> tuple[float, float]:
        """The share that a model missed, and its standard error."""
        return getattr(self, model), getattr(self, f"{model}_error")

    def __str__(self) -> str:
        other = "gaussian" if self.kept == "sparse" else "sparse"
        head = (
            f"Kept the {self.kept} model ({ESTIMATOR_OF[self.kept]}): on held-out signals it "
            f"misses {_percent(*self.missed(self.kept))} of the variance of hidden entries"
        )
        if not self.is_complete:
            return f"{head}; the {other} one ({ESTIMATOR_OF[other]}) was not compared."
        less = _percent(abs(self.difference), self.difference_error)
        without = (
            "" if np.isnan(self.no_graph) else f"; LedoitWolf, without a graph, {self.no_graph:.1%}"
        )
        return (
            f"{head}, the {other} one ({ESTIMATOR_OF[other]}) "
            f"{_percent(*self.missed(other))}; the difference is {less}{without}."
        )


def _share(errors: Array, total: Array) -> tuple[float, float]:
    """The ratio of the sums, and its standard error: that of the mean of what is left of it."""
    whole = float(total.sum()) or 1.0
    ratio = float(errors.sum()) / whole
    spread = float((errors - ratio * total).std())
    return ratio, spread * float(np.sqrt(total.size)) / whole


def _percent(share: float, error: float) -> str:
    """With as many digits as the standard error is worth."""
    digits = 0 if error >= 0.02 else 1 if error >= 0.002 else 2
    return f"{100.0 * share:.{digits}f}% ± {100.0 * error:.{digits}f}%"
