"""``difference``: exact p-values, edges that differ, none where nothing does."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

import heatgraph
from heatgraph import Graph
from heatgraph.comparison.groups import LEAST_SPREAD
from heatgraph.datasets import make_heat_signals

PATH = Graph([(0, 1), (1, 2), (2, 3), (3, 4)], np.ones(4))
FORK = Graph([(0, 1), (1, 2), (2, 3), (2, 4)], np.ones(4))


class Covariances(BaseEstimator):
    """A graph of absolute covariances, which is quick and has no cut."""

    def fit(self, X, y=None):
        W = np.abs(X.T @ X / len(X))
        np.fill_diagonal(W, 0.0)
        self.graph_ = self.weights_ = Graph.from_adjacency(0.5 * (W + W.T))
        return self


def signals(graph, n_signals, seed):
    return make_heat_signals(graph, [0.5], n_signals, graph.n_nodes, 0.1, random_state=seed)[0]


def test_the_edges_that_differ_are_found():
    frames = [pd.DataFrame(signals(graph, 200, 0), columns=list("abcde")) for graph in (PATH, FORK)]
    found = heatgraph.difference(*frames, n_permutations=39)
    assert found.edges[["source", "target"]].to_numpy().tolist() == [["c", "e"], ["d", "e"]]
    rows = found.table.set_index(["source", "target"])
    assert rows.loc[("d", "e"), "difference"] > 0.0 > rows.loc[("c", "e"), "difference"]
    assert found.graph_a.names == tuple("abcde")
    assert "2 of" in str(found)


def test_p_values_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((6, 3)), rng.standard_normal((7, 3)) + 5.0
    found = heatgraph.difference(A, B, Covariances(), n_permutations=60, random_state=3)
    both = np.concatenate([A - A.mean(axis=0), B - B.mean(axis=0)])
    draw = np.random.default_rng(3)
    orders = [np.arange(13), *(draw.permutation(13) for _ in range(60))]
    pairs = list(itertools.combinations(range(3), 2))
    apart = np.array(
        [
            [
                abs(np.mean(both[o[:6], i] * both[o[:6], j]))
                - abs(np.mean(both[o[6:], i] * both[o[6:], j]))
                for i, j in pairs
            ]
            for o in orders
        ]
    )
    spread = apart.std(axis=0)
    t = np.abs(apart) / np.maximum(spread, LEAST_SPREAD * np.median(spread))
    expected = [np.mean([row[e] >= t[0][e] for row in t]) for e in range(3)]
    largest = [np.mean([max(row) >= t[0][e] for row in t]) for e in range(3)]
    assert found.table["p_value"].to_numpy() == pytest.approx(expected)
    assert found.table["p_corrected"].to_numpy() == pytest.approx(largest)


@pytest.mark.slow
def test_false_edges_are_as_rare_as_stated():
    """Of 30 pairs of groups that do not differ, about 3 have a false edge at the level 0.1."""
    rng = np.random.default_rng(1)
    found = [
        len(
            heatgraph.difference(
                *rng.standard_normal((2, 12, 4)), Covariances(), n_permutations=19, alpha=0.1
            ).edges
        )
        for _ in range(30)
    ]
    assert 1 <= np.count_nonzero(found) <= 8  # mean 3, standard deviation 1.6


@pytest.mark.parametrize("correction", ["largest", "fdr", "none"])
def test_corrections_only_raise_p_values(correction):
    A, B = signals(PATH, 60, 1), signals(FORK, 60, 2)
    table = heatgraph.difference(A, B, n_permutations=20, correction=correction).table
    assert (table["p_corrected"] >= table["p_value"] - 1e-12).all()
    if correction == "none":
        assert (table["p_corrected"] == table["p_value"]).all()


def test_level_and_size_do_not_count():
    A, B = signals(PATH, 50, 1), signals(PATH, 50, 2)
    one = heatgraph.difference(A, B, n_permutations=10).table
    other = heatgraph.difference(A, B + 100.0, n_permutations=10).table
    pd.testing.assert_frame_equal(one, other, rtol=1e-4, atol=1e-6)


def test_epochs_and_blocks_are_exchanged_as_a_whole():
    """A slow series says little: its epochs are few, however many times it has."""
    rng = np.random.default_rng(0)
    slow = np.repeat(rng.standard_normal((2, 8, 4)), 25, axis=1)
    naive = heatgraph.difference(*slow, Covariances(), n_permutations=39)
    block = heatgraph.difference(*slow, Covariances(), n_permutations=39, block=25)
    epochs = slow.reshape(2, 8, 25, 4)
    whole = heatgraph.difference(*epochs, Covariances(), n_permutations=39)
    assert block.table.equals(whole.table)
    assert block.table["p_value"].min() > naive.table["p_value"].min()


@pytest.mark.parametrize(
    ("A", "options", "message"),
    [
        (np.ones((9, 3)), {}, "A and B must be on the same nodes, got 3 and 4"),
        (np.ones((3, 4)), {}, "A has 3 blocks of 1 signals, and 4 or more"),
        (np.ones((3, 5, 4)), {}, "A has 3 epochs"),
        (np.ones(4), {}, r"A must be \(n_signals, n_nodes\)"),
        (np.full((9, 4), np.inf), {}, "A holds infinity"),
        (np.ones((9, 4)), {"correction": "holm"}, "correction must be one of"),
        (np.ones((9, 4)), {"alpha": 1.0}, "alpha must be between 0 and 1"),
        (np.ones((9, 4)), {"n_permutations": 0}, "n_permutations must be an integer >= 1"),
        (np.ones((9, 4)), {"block": 0}, "block must be an integer >= 1"),
    ],
)
def test_bad_input_is_named(A, options, message):
    B = np.random.default_rng(0).standard_normal((9, 4))
    with pytest.raises(ValueError, match=message):
        heatgraph.difference(A, B, **options)


def test_columns_have_to_match():
    A = pd.DataFrame(np.eye(5), columns=list("abcde"))
    with pytest.raises(ValueError, match="the same columns in the same order"):
        heatgraph.difference(A, A[list("edcba")])
