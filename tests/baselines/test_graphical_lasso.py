"""GraphicalLassoGraph: the contract of an estimator, and input that does not serve."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.covariance import GraphicalLasso, GraphicalLassoCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from heatgraph import GraphicalLassoGraph


@pytest.fixture(scope="module")
def signals():
    """A Gaussian Markov chain of 8 nodes: its precision is that of a path."""
    rng = np.random.default_rng(0)
    precision = 2.5 * np.eye(8) - np.eye(8, k=1) - np.eye(8, k=-1)
    return rng.multivariate_normal(np.zeros(8), np.linalg.inv(precision), 300)


def test_the_chain_is_found(signals):
    model = GraphicalLassoGraph(n_edges=7).fit(signals)
    assert model.status_ == "converged"
    assert model.graph_.edges.tolist() == [[k, k + 1] for k in range(7)]
    assert np.trace(model.laplacian_) == pytest.approx(8.0)
    assert model.weights_.laplacian().toarray() == pytest.approx(model.laplacian_)


def test_it_is_the_model_of_scikit_learn(signals):
    ours = GraphicalLassoGraph(alpha=0.05, standardize=False).fit(signals)
    expected = GraphicalLasso(alpha=0.05).fit(signals).precision_
    assert ours.precision_ == pytest.approx(expected, abs=1e-3)
    chosen = GraphicalLassoCV(cv=5).fit(signals).alpha_
    ours = GraphicalLassoGraph(standardize=False).fit(signals)
    assert ours.alpha_ == pytest.approx(chosen, rel=0.3)


def test_signals_are_standardised_first(signals):
    size = signals.std(axis=0)
    scaled = (signals - signals.mean(axis=0)) / size
    ours = GraphicalLassoGraph(alpha=0.05).fit(signals)
    expected = GraphicalLasso(alpha=0.05).fit(scaled).precision_
    assert ours.precision_ * np.outer(size, size) == pytest.approx(expected, abs=1e-3)
    assert ours.alpha_ == 0.05
    sizes = np.geomspace(0.01, 100.0, 8)
    other = GraphicalLassoGraph(alpha=0.05).fit(signals * sizes)
    assert other.laplacian_ == pytest.approx(ours.laplacian_, abs=1e-6)
    assert other.location_ == pytest.approx(ours.location_ * sizes)
    # Unlike without: a penalty that is right for small nodes is none for large ones.
    raw = GraphicalLassoGraph(alpha=0.05, standardize=False).fit(signals * sizes)
    assert np.abs(raw.laplacian_ - ours.laplacian_).max() > 0.5


def test_results_do_not_depend_on_the_unit(signals):
    one = GraphicalLassoGraph().fit(signals)
    other = GraphicalLassoGraph().fit(1e-120 * signals)
    assert other.laplacian_ == pytest.approx(one.laplacian_, abs=0.05)
    assert other.score(1e-120 * signals) == pytest.approx(one.score(signals), abs=1e-2)
    exact = GraphicalLassoGraph().fit(2.0**-300 * signals)
    assert exact.laplacian_ == pytest.approx(one.laplacian_, abs=1e-12)


def test_score_and_tools(signals):
    frame = pd.DataFrame(signals, columns=list("abcdefgh"))
    model = GraphicalLassoGraph(alpha=0.05).fit(frame)
    assert model.graph_.names == tuple("abcdefgh")
    # The mean of an entry given its neighbours in the chain explains a third of its variance.
    assert 0.15 < model.score(frame) < 0.6
    search = GridSearchCV(clone(model), {"alpha": [0.02, 0.2]}, cv=3).fit(frame)
    assert search.best_params_ == {"alpha": 0.02}


def test_no_edge_is_said(signals):
    with pytest.warns(UserWarning, match="no edge; lower alpha"):
        model = GraphicalLassoGraph(alpha=100.0).fit(signals)
    assert model.graph_.n_edges == 0
    assert not model.laplacian_.any()


def test_stopping_early_is_said(signals):
    with pytest.warns(ConvergenceWarning, match="GraphicalLassoGraph.*max_iter"):
        model = GraphicalLassoGraph(alpha=1e-3, max_iter=1, tol=1e-12).fit(signals)
    assert model.status_ == "max_iter"


def test_fewer_signals_than_nodes_will_do(signals):
    model = GraphicalLassoGraph(alpha=0.3).fit(signals[:5])
    assert np.isfinite(model.laplacian_).all()


RANDOM = np.random.default_rng(1).standard_normal((20, 4))


@pytest.mark.parametrize(
    ("X", "parameters", "message"),
    [
        (RANDOM[:1], {}, "minimum of 2 signals"),
        (np.zeros((5, 4)), {}, "column 0 is constant.*drop the 4"),
        (np.column_stack([RANDOM, np.full(20, 0.1)]), {}, "column 4 is constant.*drop the 1"),
        (RANDOM, {"alpha": "best"}, 'alpha must be a number > 0 or "auto"'),
        (RANDOM, {"alpha": -1.0}, "alpha must be a finite number > 0"),
        (RANDOM, {"standardize": 1}, "standardize must be True or False"),
    ],
)
def test_bad_input_is_named(X, parameters, message):
    with pytest.raises(ValueError, match=message):
        GraphicalLassoGraph(**parameters).fit(X)


def test_a_penalty_too_small_is_named():
    column = np.random.default_rng(0).standard_normal((9, 1))
    with pytest.raises(ValueError, match=r"alpha is too small.*nearly singular"):
        GraphicalLassoGraph(alpha=1e-12).fit(np.hstack([column, column, 2.0 * column]))


@pytest.mark.filterwarnings("ignore:GraphicalLassoGraph")
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize(
    "X",
    [
        np.array([[0.0, -1.0], [0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]),  # no variance
        np.tile(np.random.default_rng(0).standard_normal((9, 1)), 4),  # four times the same node
        np.random.default_rng(0).standard_normal((3, 12)),  # few signals
        np.cumsum(np.random.default_rng(0).standard_normal((40, 12)), axis=1) * 1e5,
    ],
)
def test_a_penalty_is_always_found(X, standardize):
    model = GraphicalLassoGraph(standardize=standardize, tol=1e-2).fit(X)
    assert np.isfinite(model.precision_).all()
    assert model.alpha_ > 0.0


@pytest.mark.parametrize("size", [1e-155, 1e155])
def test_squares_out_of_range_are_no_error(size):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5)) + 2.0 * rng.normal(size=(60, 1))
    learned = GraphicalLassoGraph(tol=1e-2).fit(X * size)
    assert np.trace(learned.laplacian_) == pytest.approx(5.0)
