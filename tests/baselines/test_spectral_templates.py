"""SpectralTemplates: the contract of an estimator, its choices, and input that does not serve."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from heatgraph import SpectralTemplates
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.metrics import edge_scores

FORMS = ["penalised", "epsilon"]


@pytest.fixture(scope="module")
def truth():
    return make_graph("er", 15, random_state=3)


@pytest.fixture(scope="module")
def signals(truth):
    return make_heat_signals(truth, (2.5, 4.0), 150, random_state=3)[0]


@pytest.mark.parametrize("form", FORMS)
def test_a_fit_holds_its_results(truth, signals, form):
    model = SpectralTemplates(form=form).fit(signals)
    assert model.status_ == "converged"
    assert np.trace(model.laplacian_) == pytest.approx(15.0)
    assert model.weights_.laplacian().toarray() == pytest.approx(model.laplacian_)
    assert model.graph_ == model.weights_.cut(weight=1e-4)
    assert (np.diff(model.objective_) <= 1e-9).all()
    A = model.eigenvectors_.T @ model.laplacian_ @ model.eigenvectors_
    assert model.eps_ == pytest.approx(np.linalg.norm(A - np.diag(np.diag(A))))
    assert edge_scores(truth, model.graph_).f_measure > 0.9


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n_edges", [12, 25])
def test_number_of_edges_is_met(signals, form, n_edges):
    model = SpectralTemplates(form=form, n_edges=n_edges).fit(signals)
    assert model.graph_.n_edges == n_edges
    assert model.weights_.cut(weight=1e-4).n_edges <= n_edges + 3


@pytest.mark.parametrize("form", FORMS)
def test_results_do_not_depend_on_the_unit(signals, form):
    one = SpectralTemplates(form=form).fit(signals)
    other = SpectralTemplates(form=form).fit(1e-170 * signals)
    assert other.laplacian_ == pytest.approx(one.laplacian_, abs=1e-6)
    assert (other.penalty_, other.eps_) == pytest.approx((one.penalty_, one.eps_), rel=1e-6)


def test_a_parameter_given_is_used(signals):
    assert SpectralTemplates(penalty=2.0).fit(signals).penalty_ == 2.0
    assert SpectralTemplates(form="epsilon", eps=0.9).fit(signals).eps_ == pytest.approx(0.9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["rbf", "er", "ba"])
def test_known_eigenvectors_find_the_graph(form, kind):
    """Exact ones do not identify it: the smoothness of a few noisy signals decides."""
    graph = make_graph(kind, 15, random_state=0).normalized()
    X, _ = make_heat_signals(graph, (2.5, 4.0), 10, noise_std=0.02, random_state=0)
    V = np.linalg.eigh(graph.laplacian().toarray())[1]
    learned = SpectralTemplates(form=form, eigenvectors=V).fit(X).graph_
    assert edge_scores(graph, learned).f_measure > 0.95


def test_names_and_tools(signals):
    frame = pd.DataFrame(signals, columns=[f"node{k}" for k in range(15)])
    pipeline = make_pipeline(FunctionTransformer(), SpectralTemplates(candidates=8))
    model = clone(pipeline).fit(frame)[-1]
    assert model.graph_.names == tuple(frame.columns)


def test_too_few_signals_are_said(signals):
    with pytest.warns(UserWarning, match="14 signals have a covariance of rank 14"):
        model = SpectralTemplates().fit(signals[:14])
    assert model.status_ == "converged"


def test_one_signal_gives_a_graph_and_a_warning(signals):
    with pytest.warns(UserWarning, match="rank 1"):
        assert SpectralTemplates().fit(signals[:1]).graph_.n_edges > 0


def test_repeated_columns_leave_the_covariance_short_of_rank(signals):
    X = np.hstack([signals, signals[:, :2]])
    assert np.isfinite(SpectralTemplates().fit(X).laplacian_).all()


NAN = np.where(np.eye(4) > 0, np.nan, 1.0)
X5 = np.diag([1.0, 2.0, 3.0, 4.0]) + 0.1


@pytest.mark.parametrize(
    ("X", "parameters", "message"),
    [
        (np.zeros((5, 4)), {}, "X holds no signal"),
        (np.eye(4), {}, "all eigenvalues equal"),
        (X5, {"form": "loud"}, "form must be one of"),
        (X5, {"penalty": "best"}, 'penalty must be a number > 0 or "auto"'),
        (X5, {"penalty": 0.0}, "penalty must be a finite number > 0"),
        (X5, {"form": "epsilon", "eps": 1e-9}, "eps = 1e-09 is infeasible.*raise eps"),
        (X5, {"eigenvectors": np.eye(3)}, r"eigenvectors must be \(4, 4\)"),
        (X5, {"eigenvectors": np.ones((4, 4))}, "eigenvectors must be orthonormal"),
        (X5, {"n_reweights": 0}, "n_reweights must be an integer >= 1"),
        (X5, {"delta": 0.0}, "delta must be a finite number > 0"),
    ],
)
def test_bad_input_is_named(X, parameters, message):
    with pytest.raises(ValueError, match=message):
        SpectralTemplates(**parameters).fit(X)


def test_constant_nodes_are_left_without_an_edge(truth, signals):
    X = signals.copy()
    X[:, 3], X[:, 7] = 0.0, 2.5
    others = np.delete(np.arange(X.shape[1]), [3, 7])
    with pytest.warns(
        UserWarning, match="2 column.* of X are constant, the first of them column 3"
    ):
        model = SpectralTemplates().fit(X)
    alone = SpectralTemplates().fit(X[:, others])
    n = X.shape[1]
    assert model.weights_.degrees()[[3, 7]].tolist() == [0.0, 0.0]
    rest = model.laplacian_[np.ix_(others, others)]
    assert rest == pytest.approx(alone.laplacian_ * n / (n - 2))
    assert np.trace(model.laplacian_) == pytest.approx(n)
    assert model.eigenvectors_.T @ model.eigenvectors_ == pytest.approx(np.eye(n))


def test_one_node_that_varies_is_too_few():
    X = np.ones((9, 4))
    X[:, 2] = np.arange(9)
    with pytest.raises(ValueError, match="X varies in column 2 only"):
        SpectralTemplates().fit(X)
