"""Scores on held-out signals: shares of the variance around node means, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.covariance import LedoitWolf

from heatgraph.models.heat import Signals
from heatgraph.selection.masked_prediction import (
    gaussian_prediction,
    hide_entries,
    means_of,
    score_held_out,
)

N, M = 5, 40


@pytest.fixture
def signals(rng):
    mixing = rng.standard_normal((N, N))
    return Signals(3.0 + mixing @ rng.standard_normal((N, 2 * M)))


def test_the_gaussian_is_the_conditional_mean_of_ledoit_wolf(signals, rng):
    training, part = (
        signals.take(slice(0, M)),
        hide_entries(signals.take(slice(M, None)), 0.25, rng),
    )
    model = LedoitWolf().fit(training.X.T)
    predicted = gaussian_prediction(training, part)
    for m in range(M):
        h = part.hidden[:, m]
        P = np.linalg.inv(model.covariance_)
        x = part.visible.X[:, m] - model.location_
        expected = model.location_[h] - np.linalg.solve(P[np.ix_(h, h)], P[np.ix_(h, ~h)] @ x[~h])
        assert predicted[h, m] == pytest.approx(expected, rel=1e-8)
        assert not predicted[~h, m].any()


def test_shares_are_of_the_variance_around_the_means_of_the_others(signals, rng):
    training, part = (
        signals.take(slice(0, M)),
        hide_entries(signals.take(slice(M, None)), 0.25, rng),
    )
    u = training.X.mean(axis=1)
    total = np.where(part.hidden, part.truth - u[:, None], 0.0) ** 2
    score, by_means = score_held_out([(training, part)], [0.25 * total.sum(axis=0)])
    assert by_means[0] == pytest.approx(total.sum(axis=0))
    assert score.predicted == pytest.approx(0.75)
    assert score.standard_error == pytest.approx(0.0, abs=1e-12)
    gaussian = part.errors(gaussian_prediction(training, part)).sum() / total.sum()
    assert score.ledoit_wolf == pytest.approx(1.0 - gaussian)
    assert score.n_signals == M


def test_a_level_is_no_merit(signals, rng):
    """Signals of kelvins: their node means predict nearly all energy, and none of the variance."""
    shifted = Signals(signals.X + 300.0)
    training, part = (
        shifted.take(slice(0, M)),
        hide_entries(shifted.take(slice(M, None)), 0.25, rng),
    )
    means = np.broadcast_to(means_of(training)[:, None], part.truth.shape)
    score, _ = score_held_out([(training, part)], [part.errors(means)])
    assert score.predicted == pytest.approx(0.0, abs=1e-12)


def test_means_are_of_what_was_observed(rng):
    X = rng.standard_normal((N, M))
    X[0] = np.nan
    X[1, ::2] = np.nan
    means = means_of(Signals.from_missing(X))
    assert means[0] == 0.0
    assert means[1] == pytest.approx(np.nanmean(X[1]))


def test_two_signals_are_enough_for_the_gaussian():
    """Their covariance has rank one, and LedoitWolf does not shrink it."""
    direction = np.arange(1.0, N + 1.0)
    training = Signals(np.column_stack([10.0 + direction, 10.0 - direction]))
    part = hide_entries(Signals((10.0 + 3.0 * direction)[:, None]), 0.25, np.random.default_rng(0))
    predicted = gaussian_prediction(training, part)
    np.testing.assert_allclose(predicted[part.hidden], part.truth[part.hidden], rtol=1e-8)
