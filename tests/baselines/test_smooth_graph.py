"""SmoothGraph: the contract of an estimator, its choices, and input that does not serve."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from heatgraph import Graph, SmoothGraph
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.metrics import edge_scores

MODELS = ["trace", "log"]


@pytest.fixture(scope="module")
def truth():
    return make_graph("er", 15, random_state=3)


@pytest.fixture(scope="module")
def signals(truth):
    return make_heat_signals(truth, (2.5, 4.0), 80, noise_std=0.02, random_state=3)[0]


@pytest.mark.parametrize("degrees", MODELS)
def test_a_fit_holds_its_results(signals, degrees):
    model = SmoothGraph(degrees=degrees).fit(signals)
    assert model.status_ == "converged"
    assert np.trace(model.laplacian_) == pytest.approx(15.0)
    assert model.weights_.laplacian().toarray() == pytest.approx(model.laplacian_)
    assert model.graph_ == model.weights_.cut(weight=1e-4)
    assert model.residual_ <= 1e-6
    assert model.n_iter_ >= 1
    assert (np.diff(model.objective_) <= 0.0).all() or degrees == "log"


@pytest.mark.parametrize("degrees", MODELS)
def test_true_edges_are_found_without_the_truth(truth, signals, degrees):
    learned = SmoothGraph(degrees=degrees).fit(signals).graph_
    assert edge_scores(truth, learned).f_measure > 0.6


@pytest.mark.parametrize("degrees", MODELS)
@pytest.mark.parametrize("n_edges", [10, 30, 105])
def test_number_of_edges_is_met(signals, degrees, n_edges):
    model = SmoothGraph(degrees=degrees, n_edges=n_edges).fit(signals)
    assert model.graph_.n_edges == n_edges
    # The spread is the one for that number, so that hardly anything was cut off.
    least = 15 // 2 + 1 if degrees == "log" else 1
    assert model.weights_.cut(weight=1e-4).n_edges <= max(n_edges, least) + 3


@pytest.mark.parametrize("degrees", MODELS)
@pytest.mark.parametrize("scale", [1e-150, 3.7, 1e120])
def test_results_do_not_depend_on_the_unit(signals, degrees, scale):
    one = SmoothGraph(degrees=degrees).fit(signals)
    other = SmoothGraph(degrees=degrees).fit(scale * signals)
    assert other.laplacian_ == pytest.approx(one.laplacian_, abs=1e-6)
    assert other.beta_ / scale / scale == pytest.approx(one.beta_)
    assert other.score(scale * signals) == pytest.approx(one.score(signals))


@pytest.mark.parametrize("degrees", MODELS)
def test_the_spread_found_gives_the_same_graph_when_given(signals, degrees):
    found = SmoothGraph(degrees=degrees).fit(signals)
    given = SmoothGraph(degrees=degrees, beta=found.beta_).fit(signals)
    assert given.laplacian_ == pytest.approx(found.laplacian_, abs=1e-7)


def test_order_of_nodes_does_not_matter(signals):
    order = np.random.default_rng(0).permutation(15)
    one = SmoothGraph(n_edges=30).fit(signals).laplacian_
    other = SmoothGraph(n_edges=30).fit(signals[:, order]).laplacian_
    assert other == pytest.approx(one[np.ix_(order, order)], abs=1e-5)


def test_transform_removes_noise(truth):
    clean, _ = make_heat_signals(truth, (2.5, 4.0), 80, random_state=3)
    noisy = clean + 0.1 * np.random.default_rng(0).standard_normal(clean.shape)
    model = SmoothGraph(alpha=0.3, n_edges=truth.n_edges).fit(noisy)
    assert np.linalg.norm(model.transform(noisy) - clean) < 0.9 * np.linalg.norm(noisy - clean)
    L = model.laplacian_
    assert (np.eye(15) + 0.3 * L) @ model.transform(noisy).T == pytest.approx(noisy.T)


def test_score_prefers_signals_of_the_graph(signals):
    model = SmoothGraph().fit(signals[:60])
    assert 0.4 < model.score(signals[60:]) < 1.0
    assert model.score(np.random.default_rng(0).standard_normal((20, 15))) < 0.2
    assert model.score(np.zeros((3, 15))) == 0.0


def test_names_candidates_and_tools(signals):
    frame = pd.DataFrame(signals, columns=[f"node{k}" for k in range(15)])
    model = SmoothGraph(candidates=4).fit(frame)
    assert model.graph_.names == tuple(frame.columns)
    pipeline = make_pipeline(StandardScaler(), SmoothGraph(n_edges=30)).set_output(
        transform="pandas"
    )
    assert list(pipeline.fit_transform(frame).columns) == list(frame.columns)
    search = GridSearchCV(clone(model), {"degrees": MODELS}, cv=3).fit(frame)
    assert search.best_score_ > 0.4


def test_candidates_are_respected(signals):
    ring = Graph([(k, (k + 1) % 15) for k in range(15)], np.ones(15))
    learned = SmoothGraph(candidates=ring).fit(signals).weights_
    assert {tuple(edge) for edge in learned.edges} <= {tuple(edge) for edge in ring.edges}


@pytest.mark.parametrize("degrees", MODELS)
def test_one_signal_will_do(signals, degrees):
    model = SmoothGraph(degrees=degrees).fit(signals[:1])
    assert model.graph_.n_edges > 0


@pytest.mark.parametrize("degrees", MODELS)
def test_a_constant_or_zero_column_is_a_node_like_others(signals, degrees):
    X = signals.copy()
    X[:, 3], X[:, 5] = 0.0, 1.0
    assert np.isfinite(SmoothGraph(degrees=degrees).fit(X).laplacian_).all()


def test_the_log_model_isolates_no_node(signals):
    X = signals.copy()
    X[:, 0] += 10.0
    assert (SmoothGraph(degrees="log", n_edges=22).fit(X).weights_.degrees() > 0.0).all()


def test_stopping_early_is_said(signals):
    with pytest.warns(ConvergenceWarning, match="SmoothGraph.*max_iter"):
        model = SmoothGraph(alpha=1.0, beta=0.1, max_iter=1).fit(signals)
    assert model.status_ == "max_iter"


def test_every_fit_of_a_search_is_reported(signals):
    steps = []
    SmoothGraph(degrees="trace").fit(signals, monitor=steps.append)
    assert [step.iteration for step in steps] == list(range(1, steps[-1].max_iter + 1))


NAN = np.where(np.eye(4) > 0, np.nan, 1.0)


@pytest.mark.parametrize(
    ("X", "parameters", "message"),
    [
        (np.zeros((5, 4)), {}, "same signal"),
        (np.ones((5, 4)), {}, "same signal"),
        (np.eye(4), {"degrees": "loud"}, "degrees must be one of"),
        (np.eye(4), {"alpha": 0.0}, "alpha must be a finite number > 0"),
        (np.eye(4), {"beta": -1.0}, "beta must be a finite number > 0"),
        (np.eye(4), {"beta": "best"}, 'beta must be a number > 0 or "auto"'),
        (np.eye(4), {"candidates": [(0, 1)], "degrees": "log"}, "without an edge"),
    ],
)
def test_bad_input_is_named(X, parameters, message):
    with pytest.raises(ValueError, match=message):
        SmoothGraph(**parameters).fit(X)
