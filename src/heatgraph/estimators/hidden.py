"""How much of hidden entries an estimator predicts, and what needs no graph predicts of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.covariance import LedoitWolf
from sklearn.utils.validation import check_is_fitted

from heatgraph.arrays import Array, Ints, Mask
from heatgraph.errors import ParameterError
from heatgraph.estimators.validation import Names, check_complete, check_signals, unit_of
from heatgraph.estimators.validation import node_means as node_means
from heatgraph.models.heat import Signals
from heatgraph.models.moments import gap_patterns
from heatgraph.selection.folds import Split, make_folds
from heatgraph.selection.masked_prediction import HIDDEN_SHARE as SCORED_SHARE
from heatgraph.selection.masked_prediction import (
    hide_entries,
    interpolation_errors,
    share_missed,
)

HIDDEN_SHARE = 0.2  # of the entries of a signal
GUESSED = "filled in without knowledge"  # how the warning of nodes never observed begins


class HiddenScoreMixin:
    """Gives an estimator with ``impute`` and ``node_means_`` the method ``score_hidden``."""

    def score_hidden(self, X: Any, *, random_state: int = 0) -> float:
        """The share of the variance of hidden entries that the model predicts.

        A fifth of each signal's entries is hidden, the same ones for every estimator, and filled
        in by :meth:`impute` from the others.  The variance is around the mean of each node over
        the signals of the fit: 0 is what these means predict, 1 is everything.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            Signals that had no part in the fit.
        random_state : int
            The seed of the hidden entries.

        Returns
        -------
        float
            At most 1; below 0 where the means of the nodes predict better.
        """
        check_is_fitted(self)
        observations = check_signals(self, X, reset=False)
        if np.isnan(observations).all():
            raise ParameterError("X", ": no entry was observed, so there is nothing to predict.")
        rng = np.random.default_rng(random_state)
        hidden = which_hidden(observations, rng)
        error, total = hidden_errors(self, observations, hidden, unit_of(observations))
        return 1.0 - float(error.sum()) / float(total.sum()) if total.any() else 0.0


class PrecisionMixin(HiddenScoreMixin):
    """Gives an estimator with ``precision_`` and ``location_`` imputation, and scores by it.

    An estimator with another quadratic form or level overrides ``_level_and_form``.
    """

    def _level_and_form(self) -> tuple[Array, Array]:
        """``u`` (N,) and ``Q`` (N, N): signals ``x`` are likely where ``(x-u)^T Q (x-u)`` is small.

        Only the ratios of the entries of ``Q`` count.
        """
        model: Any = self
        return model.location_, model.precision_ / np.abs(model.precision_).max()

    def impute(self, X: Any) -> Any:
        """``X`` with its NaN replaced by their mean given what was observed of the same signal.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            NaN marks an entry that was not observed.

        Returns
        -------
        ndarray or data frame
            As ``X`` is.  A signal of which nothing was observed gets the mean signal.
        """
        check_is_fitted(self)
        observations = check_signals(self, X, reset=False)
        return as_given(fill_by_precision(observations, *self._level_and_form()), X)

    def score(self, X: Any, y: Any = None) -> float:
        """The share of hidden entries' energy that the model predicts; 0 is predicting zero.

        A quarter of each signal's entries is hidden, always the same ones for the same shape, and
        predicted by their mean given the rest.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            NaN marks an entry that was not observed.
        y : ignored

        Returns
        -------
        float
            Between minus infinity and 1; 1 is a perfect prediction.
        """
        check_is_fitted(self)
        observations = check_complete(self, X, reset=False)
        unit = unit_of(observations)
        level, form = self._level_and_form()
        centred = np.ascontiguousarray((observations - level).T / unit)
        part = hide_entries(Signals(centred, None), SCORED_SHARE, np.random.default_rng(0))
        error, _ = interpolation_errors(form, part)
        hidden = np.where(part.hidden, observations.T / unit, 0.0)
        total = float(np.sum(hidden**2))
        return 1.0 - float(error.sum()) / total if total > 0.0 else 0.0


def which_hidden(X: Array, rng: np.random.Generator) -> Mask:
    """The entries of ``X`` (M, N) to hide: the same ones whatever the estimator."""
    return np.ascontiguousarray(hide_entries(Signals.from_missing(X.T), HIDDEN_SHARE, rng).hidden.T)


def hidden_errors(model: Any, X: Array, hidden: Mask, unit: float) -> tuple[Array, Array]:
    """What a model misses of the hidden entries of each signal, and what the node means miss.

    Sums of squares, (M,) each, of entries in units of ``unit``, which keeps them in range.
    """
    error, total = np.zeros(len(X)), np.zeros(len(X))
    rows = np.flatnonzero(hidden.any(axis=1))
    visible = np.where(hidden, np.nan, X)[rows]
    names = getattr(model, "feature_names_in_", None)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", f".*{GUESSED}")  # such entries are not scored
        predicted = model.impute(visible if names is None else pd.DataFrame(visible, columns=names))
    truth = X[rows] / unit
    for sums, guess in ((error, np.asarray(predicted)), (total, model.node_means_)):
        missed = np.where(hidden[rows], truth - guess / unit, 0.0)
        sums[rows] = np.einsum("mn,mn->m", missed, missed)
    return error, total


def warn_of_guesses(model: Any, X: Array) -> None:
    """Warn of nodes whose entries were filled in although the fit had none of them."""
    nodes = np.flatnonzero((model.n_observed_ == 0) & np.isnan(X).any(axis=0))
    if nodes.size:
        names = model.graph_.names
        listed = [int(k) if names is None else names[k] for k in nodes]
        warnings.warn(
            f"{type(model).__name__}: {GUESSED}: the fit had no value of these nodes, so that "
            f"neither their level nor their edges are known: {listed}.  Drop their columns, or fit "
            "signals in which they were observed.",
            stacklevel=3,
        )


def as_given(filled: Array, X: Any) -> Any:
    """A data frame where ``X`` is one, with its index and columns."""
    if isinstance(X, pd.DataFrame):
        return pd.DataFrame(filled, index=X.index, columns=X.columns)
    return filled


def fill_by_precision(X: Array, location: Array, P: Array) -> Array:
    """The missing entries by their mean under the precision ``P``: ``-P_mm^-1 P_mo (x - u)_o``."""
    filled = X.copy()
    for rows, m, o in gap_patterns(X):
        if m.size:
            pull = (X[np.ix_(rows, o)] - location[o]) @ P[np.ix_(o, m)]
            guess = -np.linalg.lstsq(P[np.ix_(m, m)], pull.T, rcond=None)[0].T
            filled[np.ix_(rows, m)] = location[m] + guess
    return filled


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


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Signals in folds, and the entries of them that are hidden, the same ones from every model."""

    rows: Array
    names: Names
    hidden: Mask
    folds: Sequence[Split]
    unit: float

    @classmethod
    def of(cls, rows: Array, names: Names, cv: Any, groups: Any, seed: int) -> HeldOut:
        hidden = which_hidden(rows, np.random.default_rng(seed))
        return cls(rows, names, hidden, make_folds(rows, cv, groups).splits, unit_of(rows))

    def signals(self, which: Ints) -> Any:
        """Some signals to fit, a data frame where the nodes have names."""
        rows = self.rows[which]
        return rows if self.names is None else pd.DataFrame(rows, columns=list(self.names))

    def part(self, which: Ints) -> tuple[Array, Mask, float]:
        """Some signals to predict, as :func:`hidden_errors` takes them."""
        return self.rows[which], self.hidden[which], self.unit

    def errors(self, model: Any) -> tuple[Array, Array]:
        """What a model misses of each signal when it is held out, and what node means miss."""
        error, total = np.full((2, len(self.rows)), np.nan)
        for split in self.folds:
            fitted = clone(model).fit(self.rows[split.train])
            error[split.test], total[split.test] = hidden_errors(fitted, *self.part(split.test))
        return error, total


CHANCE = 2.0  # standard errors: chance makes a larger difference in one of twenty cases
EXACT = 1e-3  # of a signal's mean hidden variance: smaller errors do not count
ESTIMATOR_OF = {"sparse": "LearnHeat", "gaussian": "HeatCovariance"}


@dataclass(frozen=True)
class ModelComparison:
    """How well each model predicted hidden entries of held-out signals, and which is kept.

    Signals differ by orders of magnitude in how well they can be predicted: where the one source
    of a signal is hidden, every model fails, and a few such signals hold most of the squared
    errors.  So the models are compared signal by signal, by the logarithm of the ratio of their
    squared errors.  (The logarithm of a sum of squares is, up to a constant, minus the
    log-likelihood of Gaussian errors whose variance is that of the signal.)

    All standard errors are those of independent signals.  Where each signal resembles the one
    before, as in a time series, so do their errors, and a difference is less certain than told.

    Attributes
    ----------
    sparse, gaussian : float
        The share missed by LearnHeat and by HeatCovariance; 1 is what the mean of each node
        misses.  NaN where the comparison was stopped before it was known.
    sparse_error, gaussian_error : float
        Standard errors of the two, over the signals.
    difference_error : float
        Standard error of the difference of the two shares, paired by signal.
    n_signals : float
        How many signals were held out, each once.
    no_graph : float
        The share missed by a Gaussian model without a graph, with the covariance of
        scikit-learn's ``LedoitWolf``, from the same signals and entries.  NaN where it is not
        known.
    log_ratio, log_ratio_error : float
        Mean over the signals of the logarithm of the squared error of LearnHeat over that of
        HeatCovariance, and its standard error.  Below 0, LearnHeat is kept.
    no_graph_error : float
        Standard error of the difference of ``no_graph`` and the share that the kept model missed,
        paired by signal.
    """

    sparse: float
    sparse_error: float
    gaussian: float
    gaussian_error: float
    difference_error: float
    n_signals: float
    no_graph: float = np.nan
    log_ratio: float = np.nan
    log_ratio_error: float = np.nan
    no_graph_error: float = np.nan

    @classmethod
    def of(
        cls, gaussian: Array, sparse: Array | None, no_graph: Array, total: Array
    ) -> ModelComparison:
        """Compare two models by their squared errors at the hidden entries of each signal.

        Parameters
        ----------
        gaussian : ndarray (n_signals,)
            Squared errors of HeatCovariance.
        sparse : ndarray (n_signals,) or None
            Squared errors of LearnHeat; None where it was not fitted.
        no_graph : ndarray (n_signals,)
            Squared errors of LedoitWolf.
        total : ndarray (n_signals,)
            Squared errors of the mean of each node.

        Returns
        -------
        ModelComparison
        """
        nothing = np.full(total.shape, np.nan)
        sparse = nothing if sparse is None else sparse
        shares = [share_missed(errors, total) for errors in (sparse, gaussian)]
        _, paired = share_missed(sparse - gaussian, total)
        without, _ = share_missed(no_graph, total)
        ratios = log_ratios(sparse, gaussian, total)
        apart = float(ratios.mean()), float(ratios.std() / np.sqrt(ratios.size))
        found = cls(*shares[0], *shares[1], paired, float(total.size), without, *apart)
        kept = sparse if found.kept == "sparse" else gaussian
        return replace(found, no_graph_error=share_missed(kept - no_graph, total)[1])

    @property
    def kept(self) -> str:
        """Which model predicts a typical signal better; "gaussian" where that is not known."""
        # Models of older files know the shares alone.
        decides = self.difference if np.isnan(self.log_ratio) else self.log_ratio
        return "sparse" if decides < 0.0 else "gaussian"

    @property
    def difference(self) -> float:
        """The share that the sparse model misses more than the Gaussian one."""
        return self.sparse - self.gaussian

    @property
    def is_complete(self) -> bool:
        return bool(np.isfinite(self.sparse))

    def missed(self, model: str) -> tuple[float, float]:
        """The share of the variance of hidden entries that a model missed.

        Parameters
        ----------
        model : {"sparse", "gaussian"}
            Which of the two models.

        Returns
        -------
        share, error : float
            The share, and its standard error.
        """
        return getattr(self, model), getattr(self, f"{model}_error")

    def __str__(self) -> str:
        other = "gaussian" if self.kept == "sparse" else "sparse"
        head = f"Kept the {self.kept} model ({ESTIMATOR_OF[self.kept]})"
        missed = f"{percent(*self.missed(self.kept))} of the variance of hidden entries"
        if not self.is_complete:
            return (
                f"{head}: on held-out signals it misses {missed}; the {other} one "
                f"({ESTIMATOR_OF[other]}) was not compared."
            )
        if np.isnan(self.log_ratio):  # of an older file
            apart, error = -abs(self.difference), self.difference_error
            text = f"{head}: on held-out signals it"
        else:  # the typical ratio, and what it is with a standard error more or less
            apart, error = -abs(self.log_ratio), self.log_ratio_error
            ratio, low, high = (f"{np.exp(apart + k * error):.2g}" for k in (0, -1, 1))
            text = (
                f"{head}: in a typical held-out signal its squared error at hidden entries is "
                f"{ratio} ({low} to {high}) times that of the {other} one "
                f"({ESTIMATOR_OF[other]}). It"
            )
        text += f" misses {missed}, the {other} one {percent(*self.missed(other))}."
        if self.missed(other)[0] < self.missed(self.kept)[0]:
            text += f" A few signals hold most of the errors, in which the {other} one is better."
        if -apart <= CHANCE * error:
            named = f'model="{other}" (--model {other})'
            text += f" The difference may be chance: {named} learns the other."
        return text


def log_ratios(sparse: Array, gaussian: Array, total: Array) -> Array:
    """Logarithms of the ratio of two models' squared errors of each signal, (M,)."""
    floor = EXACT * float(np.nanmean(total)) or 1.0
    return np.log((sparse + floor) / (gaussian + floor))


class Predicted(NamedTuple):
    """Shares of the variance of hidden entries that a model and LedoitWolf predict.

    ``difference_error`` is the standard error of their difference, paired by signal.
    """

    share: float
    error: float
    without: float
    difference_error: float

    @classmethod
    def of(cls, model: Any) -> Predicted | None:
        """What is known of a fitted model from signals that were held out."""
        both, score = getattr(model, "comparison_", None), getattr(model, "held_out_", None)
        if both is not None:
            missed, error = both.missed(both.kept)
            return cls(1.0 - missed, error, 1.0 - both.no_graph, both.no_graph_error)
        if score is None:
            return None
        error = score.ledoit_wolf_error
        return cls(score.predicted, score.standard_error, score.ledoit_wolf, error)

    @property
    def is_worse(self) -> bool:
        """Whether LedoitWolf predicts better, by more than chance."""
        return self.without - self.share > CHANCE * self.difference_error

    def __str__(self) -> str:
        share = round(self.share, 3) + 0.0  # never "-0.0%"
        text = f"predicts {share:.1%} ± {self.error:.1%} of the variance of hidden values"
        if np.isnan(self.without):
            return text
        text += f"; LedoitWolf, without a graph, predicts {self.without:.1%}"
        if np.isnan(self.difference_error):
            return text
        apart = abs(self.without - self.share)
        text += f", which is {apart:.1%} ± {self.difference_error:.1%} "
        text += "more" if self.without > self.share else "less"
        return text if apart > CHANCE * self.difference_error else f"{text} and may be chance"


def percent(share: float, error: float) -> str:
    """With as many digits as the standard error is worth."""
    digits = 0 if error >= 0.02 else 1 if error >= 0.002 else 2
    return f"{100.0 * share:.{digits}f}% ± {100.0 * error:.{digits}f}%"
