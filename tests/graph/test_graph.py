"""The graph as a value: what it holds, what it refuses, what it answers."""

import copy
import pickle
import time

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatgraph.graph import Graph


@pytest.fixture
def path():
    return Graph([(1, 2), (0, 1)], [2.0, 0.5], names=["a", "b", "c"], confidence=[1.0, 0.25])


def test_is_canonical(path):
    np.testing.assert_array_equal(path.edges, [(0, 1), (1, 2)])
    np.testing.assert_array_equal(path.weights, [0.5, 2.0])
    np.testing.assert_array_equal(path.confidence, [0.25, 1.0])
    assert path.names == ("a", "b", "c")
    assert (path.n_nodes, path.n_edges) == (3, 2)


@given(data=st.data())
def test_the_order_of_edges_and_of_ends_does_not_matter(graphs, data):
    graph = data.draw(graphs())
    order = np.array(data.draw(st.permutations(range(graph.n_edges))), dtype=int)
    flip = np.array(
        data.draw(st.lists(st.booleans(), min_size=graph.n_edges, max_size=graph.n_edges)),
        dtype=bool,
    )
    edges = np.where(flip[:, None], graph.edges[:, ::-1], graph.edges)[order]
    sure = None if graph.confidence is None else graph.confidence[order]
    again = Graph(edges, graph.weights[order], graph.n_nodes, graph.names, sure, graph.coordinates)
    assert again == graph
    assert hash(again) == hash(graph)


def test_copies_what_it_is_given_and_never_writes_it():
    edges = np.array([[2, 0], [1, 0]])
    weights = np.array([1.0, 2.0])
    coordinates = np.zeros((3, 2))
    before = edges.copy(), weights.copy()
    graph = Graph(edges, weights, coordinates=coordinates)
    np.testing.assert_array_equal(edges, before[0])
    np.testing.assert_array_equal(weights, before[1])
    edges[:], weights[:], coordinates[:] = 7, 7, 7
    assert graph == Graph([(0, 1), (0, 2)], [2.0, 1.0], coordinates=np.zeros((3, 2)))


def test_cannot_be_changed(path):
    with pytest.raises(AttributeError):
        path.weights = np.ones(2)
    for array in (path.edges, path.weights, path.confidence):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize("again", [copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_copies_are_equal_and_read_only(path, again):
    other = again(path)
    assert other == path
    assert not other.weights.flags.writeable


@pytest.mark.parametrize(
    "other",
    [
        Graph([(0, 1), (1, 2)], [0.5, 2.0], confidence=[0.25, 1.0]),
        Graph([(0, 1), (1, 2)], [0.5, 2.0], names=["a", "b", "c"]),
        Graph([(0, 1), (1, 2)], [0.5, 2.5], names=["a", "b", "c"], confidence=[0.25, 1.0]),
        Graph([(0, 1), (0, 2)], [0.5, 2.0], names=["a", "b", "c"], confidence=[0.25, 1.0]),
        "a graph",
    ],
)
def test_unequal(path, other):
    assert path != other


def test_repr(path):
    assert repr(path) == "Graph(3 nodes, 2 edges, weights 0.5 to 2, names, confidence)"
    assert repr(Graph([], [], n_nodes=1)) == "Graph(1 node, 0 edges)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"edges": [(0, 0)], "weights": [1]}, "self loop.*node 0"),
        ({"edges": [(0, 1), (1, 0)], "weights": [1, 1]}, r"\(0, 1\) more than once"),
        ({"edges": [(0, 1)], "weights": [-1]}, "weights must be positive"),
        ({"edges": [(0, 1)], "weights": [0]}, "weights must be positive"),
        ({"edges": [(0, 1)], "weights": [np.nan]}, "weights must be positive"),
        ({"edges": [(0, 1)], "weights": [np.inf]}, "weights must be positive"),
        ({"edges": [(0, 1)], "weights": [1j]}, "weights must hold real numbers"),
        ({"edges": [(0, 1)], "weights": ["heavy"]}, "weights must hold real numbers"),
        ({"edges": [(0, 1)], "weights": [[1], [1, 2]]}, "weights must be an array"),
        ({"edges": [(0, 1)], "weights": [1, 2]}, r"weights must have shape \(1,\)"),
        ({"edges": [(0, -1)], "weights": [1]}, "edges must hold node numbers"),
        ({"edges": np.array([[0, 2**63]], dtype=np.uint64), "weights": [1]}, "edges must hold"),
        ({"edges": [(0, 3)], "weights": [1], "n_nodes": 3}, "below n_nodes = 3, got 3"),
        ({"edges": [(0.0, 1.0)], "weights": [1]}, "edges must hold integer"),
        ({"edges": [0, 1], "weights": [1]}, r"edges must have shape \(E, 2\)"),
        ({"edges": [(0, 1), (2,)], "weights": [1]}, "edges must be an"),
        ({"edges": [(0, 1, 2)], "weights": [1]}, r"edges must have shape \(E, 2\)"),
        ({"edges": [], "weights": []}, "n_nodes must be given"),
        ({"edges": [], "weights": [], "n_nodes": 0}, "n_nodes must be an integer in"),
        ({"edges": [], "weights": [], "n_nodes": 2.0}, "n_nodes must be an integer"),
        ({"edges": [], "weights": [], "n_nodes": True}, "n_nodes must be an integer"),
        ({"edges": [(0, 1)], "weights": [1], "names": ["a"]}, "edges must hold node numbers below"),
        (
            {"edges": [(0, 1)], "weights": [1], "n_nodes": 3, "names": "ab"},
            "names must be a sequence",
        ),
        ({"edges": [(0, 1)], "weights": [1], "n_nodes": 3, "names": ["a", "b"]}, "got 2 for 3"),
        (
            {"edges": [(0, 1)], "weights": [1], "names": ["a", "a"]},
            "names must be distinct, got 'a'",
        ),
        (
            {"edges": [(0, 1)], "weights": [1], "names": ["a", None]},
            "names must not have a missing",
        ),
        (
            {"edges": [(0, 1)], "weights": [1], "names": ["a", np.nan]},
            "names must not have a missing",
        ),
        (
            {"edges": [(0, 1)], "weights": [1], "names": ["a", []]},
            "names must be a sequence of hashable",
        ),
        (
            {"edges": [(0, 1)], "weights": [1], "confidence": [1.5]},
            r"confidence must lie in \[0, 1\]",
        ),
        ({"edges": [(0, 1)], "weights": [1], "confidence": [np.nan]}, "confidence must lie"),
        ({"edges": [(0, 1)], "weights": [1], "confidence": [1, 1]}, "confidence must have shape"),
        ({"edges": [(0, 1)], "weights": [1], "coordinates": [0, 1]}, "coordinates must have shape"),
        (
            {"edges": [(0, 1)], "weights": [1], "coordinates": [(0, 0), (0, np.inf)]},
            "coordinates must be finite",
        ),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        Graph(**arguments)


def test_names_from_arrays_are_plain():
    graph = Graph([(0, 1)], [1.0], names=np.array(["a", "b"]))
    assert [type(name) for name in graph.names] == [str, str]


@given(data=st.data())
def test_matrices(graphs, data):
    graph = data.draw(graphs())
    W = np.zeros((graph.n_nodes, graph.n_nodes))
    for (i, j), w in zip(graph.edges, graph.weights, strict=True):
        W[i, j] = W[j, i] = w
    np.testing.assert_array_equal(graph.adjacency().toarray(), W)
    np.testing.assert_allclose(graph.degrees(), W.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(graph.laplacian().toarray(), np.diag(W.sum(axis=1)) - W, rtol=1e-12)
    assert graph.laplacian().format == graph.adjacency().format == "csr"
    assert graph.n_components() == nx.number_connected_components(graph.to_networkx())


@given(data=st.data(), cut=st.floats(0, 1e6))
def test_cut_by_weight(graphs, data, cut):
    graph = data.draw(graphs())
    kept = graph.cut(weight=cut)
    np.testing.assert_array_equal(kept.weights, [w for w in graph.weights if w >= cut])
    assert (kept.n_nodes, kept.names) == (graph.n_nodes, graph.names)
    assert graph.cut(weight=0.0) == graph


def test_cut_keeps_all_that_belongs_to_an_edge():
    graph = Graph([(0, 1), (1, 2)], [1.0, 2.0], 3, ["a", "b", "c"], [0.1, 0.2], np.eye(3, 2))
    kept = graph.cut(relative=0.75)
    assert kept == Graph([(1, 2)], [2.0], 3, ["a", "b", "c"], [0.2], np.eye(3, 2))


def test_cut_by_number_resolves_ties_by_order():
    graph = Graph([(0, 1), (0, 2), (0, 3), (1, 2)], [1.0, 2.0, 2.0, 2.0])
    assert graph.cut(n_edges=2).edges.tolist() == [[0, 2], [0, 3]]
    assert graph.cut(n_edges=np.int64(0)).n_edges == 0
    assert graph.cut(n_edges=9) == graph


def test_cut_of_an_empty_graph():
    empty = Graph([], [], n_nodes=3)
    assert empty.cut(relative=0.5) == empty.cut(n_edges=1) == empty


@pytest.mark.parametrize(
    ("criteria", "message"),
    [
        ({}, "exactly one of weight, relative and n_edges, got 0"),
        ({"weight": 1.0, "n_edges": 1}, "got 2"),
        ({"weight": -1.0}, "weight must be"),
        ({"weight": np.nan}, "weight must be"),
        ({"weight": "auto"}, "weight must be a number"),
        ({"relative": 1.5}, "relative must lie"),
        ({"relative": "half"}, "relative must lie"),
        ({"n_edges": -1}, "n_edges must be"),
        ({"n_edges": 1.5}, "n_edges must be"),
    ],
)
def test_cut_refuses(path, criteria, message):
    with pytest.raises(ValueError, match=message):
        path.cut(**criteria)


@given(data=st.data(), trace=st.floats(1e-3, 1e3))
def test_scaled(graphs, data, trace):
    graph = data.draw(graphs(min_edges=1))
    scaled = graph.scaled(trace=trace)
    assert scaled.laplacian().trace() == pytest.approx(trace)
    ratio = scaled.weights / graph.weights
    np.testing.assert_allclose(ratio, ratio[0])
    assert graph.normalized().degrees().mean() == pytest.approx(1.0)
    assert scaled.names == graph.names


def test_scaled_does_not_overflow():
    huge = Graph([(0, 1), (1, 2)], [1e308, 1e308])
    np.testing.assert_allclose(huge.normalized().weights, 0.75)


def test_scaled_refuses(path):
    with pytest.raises(ValueError, match="no edges"):
        Graph([], [], n_nodes=3).normalized()
    with pytest.raises(ValueError, match="trace must be positive"):
        path.scaled(trace=0.0)


def test_large_graphs_are_quick(rng):
    n = 100_000
    shifts = np.arange(1, 11)
    i = np.repeat(np.arange(n), 10)
    edges = rng.permutation(np.column_stack([i, (i + np.tile(shifts, n)) % n]))
    start = time.process_time()
    graph = Graph(edges, rng.random(len(edges)) + 0.5)
    # A quarter of this on a laptop; a loop over the edges takes more.
    assert time.process_time() - start < 3.0
    assert graph.n_edges == 1_000_000
