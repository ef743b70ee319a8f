"""HeatFilter: exact on an exact covariance, its steps, and input that does not serve."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import expm

from heatgraph import HeatFilter
from heatgraph.baselines.heat_filter import filter_time, unfiltered_moment
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.metrics import edge_scores
from heatgraph.storage import load_model, save_model


@pytest.fixture(scope="module")
def truth():
    return make_graph("er", 12, random_state=0)


@pytest.fixture(scope="module")
def signals(truth):
    return make_heat_signals(truth, (1.0,), 300, 12, random_state=0)[0] + 2.0


def test_the_filter_is_inverted_exactly(truth):
    L = truth.laplacian().toarray()
    v, S_in = unfiltered_moment(3.0 * expm(-1.5 * L))
    inverse = np.linalg.pinv(L)
    assert v == pytest.approx(3.0)
    assert S_in * np.trace(inverse) / 12 == pytest.approx(inverse, abs=1e-6)
    assert filter_time(L, expm(-1.5 * L)) == pytest.approx(1.5, rel=1e-3)


def test_an_exact_covariance_gives_the_graph_and_the_time(truth):
    L = truth.laplacian().toarray()
    # Rows whose mean is 0 and whose second moment is exp(-2 tau L).
    half = expm(-0.7 * L) * np.sqrt(12.0)
    X = np.concatenate([half, -half])
    model = HeatFilter().fit(X)
    assert model.graph_.edges.tolist() == truth.edges.tolist()
    expected = truth.normalized()
    assert model.graph_.weights == pytest.approx(expected.weights, rel=1e-3)
    assert model.scales_ == pytest.approx([0.7], rel=1e-3)
    assert model.residual_ <= 1e-8
    C = np.linalg.inv(model.precision_)
    assert pytest.approx(X.T @ X / len(X), abs=1e-3 * np.abs(C).max()) == C


def test_another_time_only_scales_the_laplacian(truth):
    """Why the alternation ends after one round."""
    from heatgraph.baselines.precision_solver import fit_precision
    from heatgraph.graph import CandidateEdges

    rng = np.random.default_rng(0)
    S_in = np.cov(rng.standard_normal((200, 12)).T)
    one = fit_precision(S_in, "combinatorial", CandidateEdges.complete(12)).T
    other = fit_precision(0.25 * S_in, "combinatorial", CandidateEdges.complete(12)).T
    assert 0.25 * other == pytest.approx(one, abs=1e-6 * np.abs(one).max())


def test_edges_are_found_and_entries_predicted(truth, signals):
    model = HeatFilter(n_edges=truth.n_edges).fit(pd.DataFrame(signals[:200]).add_prefix("n"))
    assert edge_scores(truth, model.graph_).f_measure > 0.85
    assert model.graph_.names[0] == "n0"
    assert model.rank_ == 12
    assert model.score_hidden(pd.DataFrame(signals[200:]).add_prefix("n")) > 0.3


def test_predictions_of_an_unknown_inverse_are_refused(truth, signals):
    """With fewer signals than nodes, or a node that stands still; there is a graph all the same."""
    still = np.column_stack([signals, np.ones(len(signals))])
    for X, rank in ((signals[:7], 6), (signals[:12], 11), (still, 12)):
        model = HeatFilter().fit(X)
        assert model.graph_.n_edges > 0
        assert model.rank_ == rank
        for predict in (model.impute, model.score_hidden, model.score):
            with pytest.raises(ValueError, match=r"more signals than nodes.*HeatCovariance"):
                predict(X)


def test_a_model_file_keeps_that_nothing_is_predicted(signals, tmp_path):
    save_model(HeatFilter().fit(signals[:7]), tmp_path / "model.npz")
    with pytest.raises(ValueError, match="vary in 6 directions on 12 nodes"):
        load_model(tmp_path / "model.npz").impute(signals)


def test_light_edges_are_cut_off(truth, signals):
    X = signals + 0.02 * np.random.default_rng(0).standard_normal(signals.shape)
    model = HeatFilter().fit(X)
    assert edge_scores(truth, model.graph_).f_measure > 0.9
    assert model.graph_.weights.min() > model.cut_
    assert model.weights_.n_edges > model.graph_.n_edges
    given = HeatFilter(cut=0.2).fit(X)
    assert given.graph_ == given.weights_.cut(weight=0.2)


def test_the_unit_does_not_matter(signals):
    one, other = HeatFilter().fit(signals), HeatFilter().fit(1e-60 * signals)
    assert other.laplacian_ == pytest.approx(one.laplacian_, abs=1e-6)
    assert other.scales_ == pytest.approx(one.scales_)
    assert other.variance_ * 1e120 == pytest.approx(one.variance_)


RANDOM = np.random.default_rng(1).standard_normal((20, 4))


@pytest.mark.parametrize(
    ("X", "parameters", "message"),
    [
        (RANDOM, {"lam": -1.0}, "lam must be a finite number >= 0"),
        (RANDOM, {"cut": "sharp"}, 'cut must be a number >= 0 or one of "typical"'),
        (RANDOM, {"cut": -1.0}, "cut must be a finite number >= 0"),
        (RANDOM[:2], {}, "minimum of 3 signals"),
        (np.ones((5, 4)), {}, "every column is constant"),
        (np.outer(np.arange(5.0), np.arange(1.0, 5.0)), {}, "vary in one direction only"),
        (RANDOM, {"candidates": [(0, 1)]}, "candidates: they leave the graph in pieces"),
    ],
)
def test_bad_input_is_named(X, parameters, message):
    with pytest.raises(ValueError, match=message):
        HeatFilter(**parameters).fit(X)
