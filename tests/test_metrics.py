"""Scores against scikit-learn and against brute force over all pairs."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    normalized_mutual_info_score,
    precision_score,
    recall_score,
)

from heatgraph.datasets import make_graph
from heatgraph.graph import Graph
from heatgraph.metrics import average_precision, best_cut, edge_scores, source_scores


@st.composite
def two_graphs(draw):
    n = draw(st.integers(2, 7))
    weights = st.one_of(st.just(0.0), st.sampled_from([0.5, 1.0, 2.0]), st.floats(0.01, 10))
    column = st.lists(weights, min_size=n * (n - 1) // 2, max_size=n * (n - 1) // 2)
    return from_dense(n, draw(column)), from_dense(n, draw(column))


def from_dense(n, w):
    w = np.asarray(w)
    return Graph(np.column_stack(np.triu_indices(n, 1))[w > 0], w[w > 0], n)


def dense(graph):
    return graph.adjacency().toarray()[np.triu_indices(graph.n_nodes, 1)]


@given(two_graphs())
def test_edge_scores_against_scikit_learn(pair):
    true, learned = pair
    a, b = dense(true), dense(learned)
    scores = edge_scores(true, learned)
    assert scores.precision == pytest.approx(precision_score(a > 0, b > 0, zero_division=0))
    assert scores.recall == pytest.approx(recall_score(a > 0, b > 0, zero_division=0))
    assert scores.f_measure == pytest.approx(f1_score(a > 0, b > 0, zero_division=0))
    assert scores.nmi == pytest.approx(normalized_mutual_info_score(a > 0, b > 0), abs=1e-12)
    if true.n_edges:
        error = np.linalg.norm(a - b) / np.linalg.norm(a)
        assert scores.weight_error == pytest.approx(error)


@given(two_graphs(), st.randoms(use_true_random=False))
def test_edge_scores_match_by_name(pair, random):
    true, learned = pair
    names = [f"node {k}" for k in range(true.n_nodes)]
    order = list(range(true.n_nodes))
    random.shuffle(order)
    new = np.argsort(order)
    shuffled = Graph(
        new[learned.edges], learned.weights, learned.n_nodes, [names[k] for k in order]
    )
    named = Graph(true.edges, true.weights, true.n_nodes, names)
    assert edge_scores(named, shuffled) == pytest.approx(edge_scores(true, learned))
    assert best_cut(named, shuffled)[1] == best_cut(true, learned)[1]
    assert best_cut(named, shuffled)[0] == pytest.approx(best_cut(true, learned)[0])


def test_names_on_one_side_only():
    true = Graph([(0, 1)], [1.0], names=["a", "b"])
    assert edge_scores(true, Graph([(0, 1)], [1.0])).f_measure == 1.0


def test_different_nodes_are_refused():
    true = Graph([(0, 1)], [1.0], names=["a", "b"])
    with pytest.raises(ValueError, match="got 2 and 3 nodes"):
        edge_scores(true, Graph([(0, 2)], [1.0]))
    with pytest.raises(ValueError, match="only learned has 'c'"):
        best_cut(true, Graph([(0, 1)], [1.0], names=["a", "c"]))


def test_nothing_learned_and_nothing_to_learn():
    some, none = Graph([(0, 1)], [2.0], n_nodes=3), Graph([], [], n_nodes=3)
    assert edge_scores(some, none) == (0.0, 0.0, 0.0, 0.0, 1.0)
    assert edge_scores(none, some) == (0.0, 0.0, 0.0, 0.0, np.inf)
    assert edge_scores(none, none) == (0.0, 0.0, 0.0, 1.0, 0.0)
    assert best_cut(some, none) == (edge_scores(some, none), 0.0)
    assert edge_scores(some, some) == (1.0, 1.0, 1.0, 1.0, 0.0)


def test_fields_in_order():
    assert edge_scores(*[Graph([(0, 1)], [1.0])] * 2)._fields == (
        "f_measure",
        "precision",
        "recall",
        "nmi",
        "weight_error",
    )


@given(two_graphs())
def test_best_cut_against_every_cut(pair):
    true, learned = pair
    scores, threshold = best_cut(true, learned)
    assert scores == edge_scores(true, learned.cut(weight=threshold))
    cuts = [learned.cut(weight=w) for w in learned.weights]
    every = [edge_scores(true, cut).f_measure for cut in cuts]
    assert scores.f_measure == pytest.approx(max(every, default=0.0))
    # Of the best cuts, the one that keeps least.
    best = [c.n_edges for c, f in zip(cuts, every, strict=True) if f >= scores.f_measure]
    assert learned.cut(weight=threshold).n_edges == min(best, default=0)


def test_no_array_of_all_pairs_is_formed():
    graph = make_graph("ring", 100_000)
    start = time.process_time()
    scores = edge_scores(graph, graph.cut(n_edges=50_000))
    assert time.process_time() - start < 2.0
    assert scores[:3] == pytest.approx((2 / 3, 1.0, 0.5))
    assert 0.45 < scores.nmi < 1.0


def test_source_scores_by_hand():
    true = np.zeros((2, 2, 3))
    true[0, 0, [0, 1]] = [1.0, -2.0]
    true[1, 1, 2] = 3.0
    learned = np.zeros((2, 2, 3))
    learned[0, 0] = [0.1, -2.0, 0.5]
    learned[1, 1, 2] = 0.2
    scores = source_scores(true, learned)
    assert scores.f_measure == pytest.approx((0.8 + 1.0) / 2)
    # Of the two largest of the first signal one is true; the second has its only source.
    assert scores.n_located == pytest.approx((1 + 1) / 2)
    assert source_scores(true, learned, n_sources=3).n_located == pytest.approx((2 + 1) / 2)


@given(st.data())
def test_source_scores_against_brute_force(data):
    entries = st.sampled_from([0.0, 0.0, 1.0, -2.0, 3.5])
    rows = st.lists(st.lists(entries, min_size=6, max_size=6), min_size=3, max_size=3)
    true, learned = np.array(data.draw(rows)), np.array(data.draw(rows))
    s = data.draw(st.integers(1, 6))
    scores = source_scores(true, learned, n_sources=s)
    f = [f1_score(a != 0, b != 0, zero_division=0) for a, b in zip(true, learned, strict=True)]
    located = []
    for a, b in zip(true, learned, strict=True):
        largest = sorted(range(6), key=lambda k: (-abs(b[k]), k))[:s]
        located.append(sum(a[k] != 0 and b[k] != 0 for k in largest))
    assert scores.f_measure == pytest.approx(np.mean(f))
    assert scores.n_located == pytest.approx(np.mean(located))


def test_zeros_locate_nothing():
    assert source_scores([[1.0, 0.0]], [[0.0, 0.0]]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("true", "learned", "n_sources", "message"),
    [
        ([[1.0, 0.0]], [[1.0]], None, "must have one shape"),
        ([1.0], [1.0], None, "true_sources must have shape"),
        ([[1.0]], [[np.nan]], None, "learned_sources must be finite"),
        ([[1.0]], [[1.0]], 0, "n_sources must be"),
        ([[1.0]], [[1.0]], 1.5, "n_sources must be"),
    ],
)
def test_source_scores_refuses(true, learned, n_sources, message):
    with pytest.raises(ValueError, match=message):
        source_scores(true, learned, n_sources)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("levels", [3, 1000])
def test_average_precision_is_that_of_scikit_learn(seed, levels):
    rng = np.random.default_rng(seed)
    pairs = np.column_stack(np.triu_indices(9, 1))
    weights = np.ceil(levels * rng.random(36)) / levels  # with ties where there are few levels
    kept, true = rng.random(36) < 0.7, rng.random(36) < 0.4
    learned = Graph(pairs[kept], weights[kept], 9)
    expected = average_precision_score(true, np.where(kept, weights, 0.0))
    found = average_precision(Graph(pairs[true], np.ones(true.sum()), 9), learned)
    assert found == pytest.approx(expected)


def test_average_precision_without_edges():
    none, one = Graph([], [], 3), Graph([(0, 1)], [1.0], 3)
    assert average_precision(none, one) == 0.0
    assert average_precision(one, none) == pytest.approx(1 / 3)
