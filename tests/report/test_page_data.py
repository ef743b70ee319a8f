"""The numbers behind the page, against slower ways to the same."""

from copy import copy

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from heatgraph import Graph
from heatgraph.datasets import make_graph
from heatgraph.report.page_data import by_community, gather, heaviest, place
from heatgraph.report.shown_signals import dates_of, evenly, explained, reach, show_signals


@given(st.integers(2, 12), st.data())
def test_pieces_at_every_cut(n, data):
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    chosen = data.draw(st.lists(st.sampled_from(pairs), unique=True, max_size=30))
    weights = data.draw(
        st.lists(st.floats(0.1, 9.0), min_size=len(chosen), max_size=len(chosen), unique=True)
    )
    graph = Graph(chosen, weights, n_nodes=n)
    edges = heaviest(graph, graph)
    for k in range(graph.n_edges + 1):
        rest = Graph(edges.pairs[len(edges.pairs) - k :], np.ones(k), n_nodes=n)
        assert n - np.count_nonzero(edges.merges <= k) == rest.n_components()


def test_the_learned_cut_is_a_suffix(rng):
    learned = make_graph("er", 12, 0)
    learned = Graph(learned.edges, rng.uniform(size=learned.n_edges), n_nodes=12)
    graph = learned.cut(n_edges=7)
    edges = heaviest(graph, learned)
    assert edges.kept == 7
    assert {*map(tuple, edges.pairs[-7:].tolist())} == {*map(tuple, graph.edges.tolist())}
    assert np.all(np.diff(edges.weights) >= 0)
    few = heaviest(graph, learned, at_most=5)
    assert (len(few.pairs), few.kept, few.n_learned) == (5, 5, learned.n_edges)


def test_confidence_goes_with_its_edge():
    learned = Graph([(0, 1), (1, 2), (0, 2)], [3.0, 1.0, 2.0])
    graph = Graph([(0, 1), (0, 2)], [3.0, 2.0], confidence=[0.9, 0.4])
    edges = heaviest(graph, learned)
    assert edges.pairs.tolist() == [[1, 2], [0, 2], [0, 1]]
    assert np.array_equal(edges.confidence, [np.nan, 0.4, 0.9], equal_nan=True)


def test_communities_stand_together():
    parts = [(i, j) for k in (0, 5) for i in range(k, k + 5) for j in range(i + 1, k + 5)]
    shuffled = np.random.default_rng(0).permutation(10)
    graph = Graph(shuffled[np.array([*parts, (0, 5)])], np.ones(len(parts) + 1))
    rank, borders = by_community(graph)
    assert sorted(rank) == list(range(10))
    assert borders.tolist() == [5, 10]
    assert len({rank[k] < 5 for k in shuffled[:5]}) == 1


def test_heat_reaches_as_far_without_the_matrix(monkeypatch):
    graph = make_graph("community", 24, 0).scaled(24)
    curves = reach(graph, graph, np.array([1.0, 3.0]))
    monkeypatch.setattr("heatgraph.report.shown_signals.MAX_DENSE", 0)
    for one, other in zip(curves, reach(graph, graph, np.array([1.0, 3.0])), strict=True):
        assert np.allclose(one, other)


def test_heat_reaches_less_far_away():
    (curve,) = reach(make_graph("ring", 9), make_graph("ring", 9).scaled(9), np.array([1.0]))
    assert curve[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert np.all(np.diff(curve[:, 2]) < 0)
    # Every node has one at distance 0 and two at each other: what was released is all there.
    assert curve[0, 2] + 2 * curve[1:, 2].sum() == pytest.approx(1.0)


def test_explained_counts_what_was_observed():
    values = np.array([[3.0, np.nan, 4.0], [0.0, 0.0, 0.0]])
    fit = np.array([[3.0, 99.0, 1.0], [0.0, 0.0, 0.0]])
    assert np.allclose(explained(values, fit), [1.0 - 9.0 / 25.0, 0.0])


def test_many_signals_are_thinned_evenly(make_model, monkeypatch):
    assert evenly(5, 9).tolist() == [0, 1, 2, 3, 4]
    assert evenly(101, 3).tolist() == [0, 50, 100]
    graph = make_graph("ring", 6)
    monkeypatch.setattr("heatgraph.report.shown_signals.MAX_VALUES", 30)
    shown = show_signals(make_model(graph, n_signals=21), graph, None, None, None)
    assert shown.labels == ("signal 1", "signal 6", "signal 11", "signal 16", "signal 21")
    assert shown.n_signals == 21
    assert set(shown.sources[:, 0]) <= set(range(5))


def test_sources_of_large_graphs_may_be_sparse(make_model):
    graph = make_graph("ring", 6)
    model = make_model(graph, n_signals=21)
    dense = show_signals(model, graph, None, None, None)
    model.sources_ = sparse.coo_array(model.sources_)
    shown = show_signals(model, graph, None, None, None)
    assert np.array_equal(shown.sources, dense.sources)
    assert np.array_equal(shown.fit, dense.fit)


def test_a_sparse_model_has_edges_in_its_graph_that_its_weights_lack(hostile):
    """Its graph is a mean of several fits where alpha is chosen."""
    fitted, _ = hostile
    model = copy(fitted)
    weights = fitted.weights_
    model.weights_ = Graph(weights.edges[1:], weights.weights[1:], weights.n_nodes, weights.names)
    lacking, graph = weights.edges[0], fitted.graph_
    edges = np.vstack([graph.edges[(graph.edges != lacking).any(axis=1)], lacking])
    confidence = np.linspace(0.5, 1.0, len(edges))
    model.graph_ = Graph(edges, confidence + 1.0, graph.n_nodes, graph.names, confidence)
    shown = gather(model, None, None, None, place(model.graph_, None, None)).edges
    kept = slice(len(shown.pairs) - shown.kept, None)
    assert {tuple(pair) for pair in shown.pairs[kept].tolist()} == {
        tuple(pair) for pair in edges.tolist()
    }
    assert shown.weights[kept] == pytest.approx(shown.confidence[kept] + 1.0)


@pytest.mark.parametrize(
    ("labels", "year_and_day"),
    [
        (
            ["2024-03-30T23:00+01:00", "2024-03-31T00:00+01:00", "2024-03-31T03:00+02:00"],
            (2024, 30),
        ),
        (["01.02.2024 10:00", "01.02.2024 11:00", "13.02.2024 00:00"], (2024, 1)),
        (["03/30/2024 11:00 PM", "03/31/2024 12:00 AM", "03/31/2024 01:00 AM"], (2024, 30)),
        (["1950", "1951", "1953"], (1950, 1)),
        (
            [pd.Timestamp("2024-05-06"), pd.Timestamp("2024-05-07"), pd.Timestamp("2024-06-01")],
            (2024, 6),
        ),
        (["01/02/2024", "02/03/2024", "03/04/2024"], None),  # of which month?
        (["2024-01-03", "2024-01-02", "2024-01-01"], None),
        (["1001", "1002", "1003"], None),
        (["day 1", "day 2", "day 3"], None),
        (["2024-01-01", "2024-01-02"], None),
    ],
)
def test_labels_that_are_dates(labels, year_and_day):
    times = dates_of(labels)
    if year_and_day is None:
        assert times is None
    else:
        first = pd.Timestamp(times[0], unit="ms")
        assert (first.year, first.day) == year_and_day
