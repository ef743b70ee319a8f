"""neighbour_graph: the weights as written, gaps, and input that does not serve."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from heatgraph import neighbour_graph


@pytest.fixture
def signals():
    return np.random.default_rng(0).standard_normal((30, 9))


def by_hand(X, k, t):
    """Pairs of which one is among the k nearest of the other, and their weights."""
    apart = ((X[:, :, None] - X[:, None, :]) ** 2).sum(axis=0)
    np.fill_diagonal(apart, np.inf)
    near = np.zeros(apart.shape, dtype=bool)
    np.put_along_axis(near, np.argsort(apart, axis=1)[:, :k], True, axis=1)
    near |= near.T
    return np.where(near, np.exp(-apart / t), 0.0)


@pytest.mark.parametrize("k", [1, 3, 8])
def test_weights_are_those_of_the_formula(signals, k):
    graph = neighbour_graph(signals, k, width=40.0)
    assert graph.adjacency().toarray() == pytest.approx(by_hand(signals, k, 40.0))


def test_the_width_by_itself_is_the_mean_square(signals):
    graph = neighbour_graph(signals, 3)
    assert np.mean(-np.log(graph.weights)) == pytest.approx(1.0)
    assert (neighbour_graph(signals, 3, width=np.inf).weights == 1.0).all()
    scaled = neighbour_graph(1e6 * signals, 3)
    assert scaled.weights == pytest.approx(graph.weights)


def test_names_and_gaps(signals):
    X = signals.copy()
    X[3, 2] = np.nan
    graph = neighbour_graph(pd.DataFrame(X).add_prefix("n"), 3)
    assert graph.names == tuple(f"n{k}" for k in range(9))
    assert graph.edges.tolist() == neighbour_graph(np.delete(X, 3, axis=0), 3).edges.tolist()


def test_equal_nodes_are_joined_by_a_weight_of_one(signals):
    X = np.column_stack([signals, signals[:, 0]])
    assert neighbour_graph(X, 1).adjacency()[0, 9] == 1.0


@pytest.mark.parametrize(
    ("X", "parameters", "message"),
    [
        (np.ones(3), {}, r"X must be \(n_signals, n_nodes\)"),
        (np.ones((3, 1)), {}, r"X must be \(n_signals, n_nodes\)"),
        (np.full((3, 4), np.inf), {}, "X holds infinity"),
        (np.full((3, 4), np.nan), {}, "column 0 holds NaN only; drop the 4"),
        (np.eye(4), {"n_neighbors": 4}, "n_neighbors must be below the 4 nodes"),
        (np.eye(4), {"n_neighbors": 0}, "n_neighbors must be an integer >= 1"),
        (np.eye(4), {"n_neighbors": 1, "width": 0.0}, "width must be a finite number > 0"),
        (np.eye(4), {"n_neighbors": 1, "width": "wide"}, 'width must be a number > 0 or "auto"'),
    ],
)
def test_bad_input_is_named(X, parameters, message):
    with pytest.raises(ValueError, match=message):
        neighbour_graph(X, **parameters)
