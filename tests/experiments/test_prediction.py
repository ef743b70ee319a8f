"""Hidden entries are hidden once, predicted from the rest, and scored with an honest error."""

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import expm

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.experiments.prediction import Missed, digest, hide, in_parts, predict


def test_every_visible_entry_is_in_one_part(rng):
    visible = rng.random((7, 9)) < 0.6
    parts = list(in_parts(visible, 4, rng))
    assert (np.sum(parts, axis=0) == visible).all()
    sizes = [part.sum() for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_hides_a_share_and_nothing_else(rng):
    X = rng.standard_normal((10, 20))
    X[0, 0] = np.nan
    shown, hidden = hide(X, 0.2, rng)
    assert hidden.sum() == pytest.approx(0.2 * 199, abs=1)
    assert np.isnan(shown[hidden]).all()
    assert not hidden[0, 0]
    assert np.array_equal(shown[~hidden], X[~hidden], equal_nan=True)


def test_the_true_graph_foretells_and_another_does_not(rng):
    graph = make_graph("er", 15, 0)
    X, _ = make_heat_signals(graph, (1.0,), 60, n_sources=1, random_state=0)
    shown, hidden = hide(X, 0.2, rng)
    L = graph.laplacian().toarray()
    other = make_graph("er", 15, 1).laplacian().toarray()
    true, wrong = (Missed.of(predict(K, (1.0,), 1e-4, shown), X, hidden).share for K in (L, other))
    assert true < 0.6 < 1.0 < wrong


def test_predicts_with_the_kernel_of_the_graph():
    L = np.array([[1.0, -1.0], [-1.0, 1.0]])
    E = expm(-2.0 * L)
    x = 3.0 * E[0]
    found = predict(L, (2.0,), 1e-9, np.array([[x[0], np.nan]]))
    # One visible entry: the cheapest source that explains it is at its own node.
    assert found[0] == pytest.approx(x, rel=1e-6)


def test_share_and_error_are_those_of_a_ratio(rng):
    error, energy = rng.random(2000), 1.0 + rng.random(2000)
    missed = Missed(error, energy)
    assert missed.share == pytest.approx(error.sum() / energy.sum())
    draws = rng.integers(0, 2000, (800, 2000))
    resampled = error[draws].sum(axis=1) / energy[draws].sum(axis=1)
    assert missed.standard_error == pytest.approx(resampled.std(), rel=0.15)


def test_a_paired_gain_has_a_smaller_error_than_two_alone(rng):
    energy = 1.0 + rng.random(50)
    worse = Missed(0.5 * energy * (1 + rng.random(50)), energy)
    better = Missed(worse.error - 0.1 * energy, energy)
    gain, doubt = better.less_than(worse)
    assert gain == pytest.approx(0.1)
    assert doubt == pytest.approx(0.0, abs=1e-12)
    assert worse.less_than(better)[0] == pytest.approx(-0.1)


def test_parts_of_signals_add_up(rng):
    truth, predicted = rng.random((3, 4)), np.zeros((3, 4))
    first = rng.random((3, 4)) < 0.5
    whole = Missed.of(predicted, truth, np.ones((3, 4), dtype=bool))
    both = Missed.of(predicted, truth, first) + Missed.of(predicted, truth, ~first)
    assert both.error == pytest.approx(whole.error)
    assert both.share == pytest.approx(1.0)  # predicting zero misses everything


def test_digest_sees_a_changed_value():
    table = pd.DataFrame({"a": [1.0, 2.0]})
    assert digest(table) == digest(table.copy())
    assert digest(table) != digest(table + 1)
