"""What a model predicts of held-out signals, beside what needs no graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.covariance import LedoitWolf

from heatgraph.models.heat import Signals
from heatgraph.selection.masked_prediction import HiddenPart

__all__ = ["HeldOutScore", "gaussian_prediction", "means_of", "score_held_out"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class HeldOutScore:
    """Shares of the variance of hidden entries of held-out signals, around the node means.

    Attributes
    ----------
    predicted : float
        The share that the model predicts; 0 is what the means of the nodes predict, 1 everything.
    standard_error : float
        Of that share, over the signals.
    ledoit_wolf : float
        The share that a Gaussian without a graph predicts, of the covariance of scikit-learn's
        ``LedoitWolf``, from the same entries.
    n_signals : float
        How many signals were held out.
    """

    predicted: float
    standard_error: float
    ledoit_wolf: float
    n_signals: float

    def __str__(self) -> str:
        return (
            f"predicts {self.predicted:.1%} ± {self.standard_error:.1%} of the variance of hidden "
            f"entries of {self.n_signals:.0f} held-out signals; LedoitWolf, without a graph, "
            f"{self.ledoit_wolf:.1%}"
        )


def means_of(signals: Signals) -> Array:
    """The mean of what was observed of each node (N,); 0 where nothing was."""
    means: Array = signals.X.sum(axis=1) / np.maximum(signals.n_observed, 1)
    return means


def gaussian_prediction(training: Signals, part: HiddenPart) -> Array:
    """The conditional means (N, M) of hidden entries, 0 elsewhere, by a covariance without a graph.

    ``u_h + C_ho C_oo^-1 (x_o - u_o)``, with the covariance of LedoitWolf.  Entries that were
    missing in training are taken for the mean of their node.
    """
    u = means_of(training)
    around = training.X - u[:, None]
    if training.observed is not None:
        around = np.where(training.observed, around, 0.0)
    predicted = np.zeros(part.truth.shape)
    if around.shape[1] < 2 or not around.any():  # no covariance to speak of
        return np.where(part.hidden, u[:, None], 0.0)
    fitted = LedoitWolf(assume_centered=True).fit(around.T)
    C = fitted.covariance_
    solve = np.linalg.solve if fitted.shrinkage_ > 0.0 else _least_squares
    seen = part.visible.observed
    assert seen is not None  # for the type checker: hiding makes a mask
    for m in np.flatnonzero(part.hidden.any(axis=0)):
        hidden, o = part.hidden[:, m], seen[:, m]
        pull = solve(C[np.ix_(o, o)], part.visible.X[o, m] - u[o])
        predicted[hidden, m] = u[hidden] + C[np.ix_(hidden, o)] @ pull
    return predicted


def _least_squares(C: Array, b: Array) -> Array:
    """A solution where ``C`` is singular, as the covariance of a few signals, not shrunk, is."""
    return np.asarray(np.linalg.lstsq(C, b, rcond=None)[0], dtype=np.float64)


def score_held_out(
    parts: Sequence[tuple[Signals, HiddenPart]], errors: Sequence[Array]
) -> tuple[HeldOutScore, list[Array]]:
    """The score of a model with these squared errors, one array (signals,) per fold.

    ``parts`` are the signals that were fitted and those held out.  The second value is what the
    means of the nodes miss of each signal, one array per fold.
    """
    by_means, by_gaussian = [], 0.0
    for training, part in parts:
        u = np.broadcast_to(means_of(training)[:, None], part.truth.shape)
        by_means.append(part.errors(u))
        by_gaussian += float(part.errors(gaussian_prediction(training, part)).sum())
    missed, total = np.concatenate(errors), np.concatenate(by_means)
    whole = float(total.sum()) or 1.0
    share = float(missed.sum()) / whole
    spread = float((missed - share * total).std() * np.sqrt(total.size)) / whole
    return HeldOutScore(1.0 - share, spread, 1.0 - by_gaussian / whole, float(total.size)), by_means
