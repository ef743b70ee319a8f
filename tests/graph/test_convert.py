"""To the forms of other tools and back: nothing is lost, nothing invalid gets in."""

import sys

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from heatgraph.graph import Graph

LABELS = st.one_of(st.integers(), st.text(min_size=1), st.tuples(st.integers(), st.integers()))


@settings(max_examples=40)
@given(data=st.data())
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.coo_matrix])
def test_matrices_round_trip(graphs, data, form):
    graph = data.draw(graphs())
    plain = Graph(graph.edges, graph.weights, graph.n_nodes, graph.names)
    assert Graph.from_adjacency(form(graph.adjacency().toarray()), graph.names) == plain
    L = form(graph.laplacian().toarray())
    assert Graph.from_laplacian(L, graph.names, tol=1e-13) == plain


def test_laplacian_of_rounded_entries(rng):
    graph = Graph([(0, 1), (1, 2), (2, 3)], [1.0, 2.0, 3.0])
    lam, U = np.linalg.eigh(graph.laplacian().toarray())
    again = Graph.from_laplacian(U * lam @ U.T)
    np.testing.assert_array_equal(again.edges, graph.edges)
    np.testing.assert_allclose(again.weights, graph.weights)


@pytest.mark.parametrize(
    ("L", "message"),
    [
        (np.zeros((2, 3)), "L must be a square matrix"),
        (np.zeros(4), "L must be a square matrix"),
        ([["a"]], "L must hold real numbers"),
        ([[np.nan]], "L must be finite"),
        ([[1.0, -1.0], [-2.0, 2.0]], "L must be symmetric"),
        ([[2.0, -1.0], [-1.0, 2.0]], "L must have rows that sum to zero"),
        ([[-1.0, 1.0], [1.0, -1.0]], "L must have no negative edge weight"),
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_from_laplacian_refuses(L, message, sparse):
    if sparse and np.ndim(L) == 2 and np.asarray(L).dtype.kind == "f":
        L = sp.csr_array(np.asarray(L))
    with pytest.raises(ValueError, match=message):
        Graph.from_laplacian(L)


@pytest.mark.parametrize(
    ("W", "message"),
    [
        ([[1.0, 1.0], [1.0, 0.0]], "W must have a zero diagonal"),
        ([[0.0, 1.0], [2.0, 0.0]], "W must be symmetric"),
        ([[0.0, -1.0], [-1.0, 0.0]], "W must have no negative"),
    ],
)
def test_from_adjacency_refuses(W, message):
    with pytest.raises(ValueError, match=message):
        Graph.from_adjacency(W)


def test_the_last_bits_need_not_be_symmetric():
    W = np.abs(np.corrcoef(np.random.default_rng(0).standard_normal((9, 30))))
    W[2, 5] = np.nextafter(W[5, 2], 1.0)
    np.fill_diagonal(W, 0.0)
    assert Graph.from_adjacency(W).n_edges == 36
    W[2, 5] += 1e-12
    with pytest.raises(ValueError, match="W must be symmetric"):
        Graph.from_adjacency(W)


def test_tol_is_checked():
    with pytest.raises(ValueError, match="tol must lie"):
        Graph.from_laplacian([[0.0]], tol=-1.0)


def test_a_matrix_given_is_not_changed():
    W = sp.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    before = W.copy()
    Graph.from_adjacency(W)
    assert (before != W).nnz == 0


@given(data=st.data())
def test_networkx_round_trip(graphs, data):
    graph = data.draw(graphs(names=LABELS))
    again = Graph.from_networkx(graph.to_networkx())
    if graph.n_edges == 0 and graph.confidence is not None:
        graph = Graph([], [], graph.n_nodes, graph.names, None, graph.coordinates)
    if graph.names == tuple(range(graph.n_nodes)):
        graph = Graph(
            graph.edges, graph.weights, graph.n_nodes, None, graph.confidence, graph.coordinates
        )
    assert again == graph


def test_networkx_weights_and_names():
    other = nx.Graph()
    other.add_edge("b", "a", strength=3)
    other.add_edge("b", "c")
    graph = Graph.from_networkx(other, weight="strength")
    assert graph == Graph([(0, 1), (0, 2)], [3.0, 1.0], names=["b", "a", "c"])


@pytest.mark.parametrize("kind", [nx.MultiDiGraph, nx.MultiGraph])
def test_networkx_refuses(kind):
    with pytest.raises(
        ValueError, match=r"graph must have one edge per pair.*networkx\.(Di)?Graph"
    ):
        Graph.from_networkx(kind([(0, 1)]))


@given(data=st.data())
def test_pandas_round_trip(graphs, data):
    graph = data.draw(graphs(names=LABELS))
    graph = Graph(graph.edges, graph.weights, graph.n_nodes, graph.names, graph.confidence)
    frame = graph.to_pandas()
    assert len(frame) == graph.n_edges
    n_nodes = graph.n_nodes if graph.names is None else None
    assert Graph.from_pandas(frame, n_nodes, graph.names) == graph


def test_pandas_frame():
    frame = Graph([(0, 1)], [2.0], names=["a", "b"], confidence=[0.5]).to_pandas()
    expected = pd.DataFrame({"source": ["a"], "target": ["b"], "weight": [2.0], "confidence": 0.5})
    pd.testing.assert_frame_equal(frame, expected)


def test_pandas_labels_become_names():
    frame = pd.DataFrame({"source": [30, 10], "target": [20, 30], "weight": [1.0, 2.0]})
    assert Graph.from_pandas(frame) == Graph([(1, 2), (0, 2)], [1.0, 2.0], names=[10, 20, 30])
    numbers = pd.DataFrame({"source": [2, 0], "target": [1, 2], "weight": [1.0, 2.0]})
    assert Graph.from_pandas(numbers) == Graph([(1, 2), (0, 2)], [1.0, 2.0])
    mixed = pd.DataFrame({"source": ["b"], "target": [1], "weight": [1.0]})
    assert Graph.from_pandas(mixed).names == ("b", 1)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"from": ["a"], "to": ["b"], "weight": [1.0]}, {}, r"lacks \['source', 'target'\]"),
        (
            {"source": ["a"], "target": ["b"], "weight": [1.0]},
            {"names": ["a", "c"]},
            "names must hold every label of the edges, lacks 'b'",
        ),
        (
            {"source": ["a"], "target": ["b"], "weight": [1.0]},
            {"n_nodes": 2},
            "edges must hold",
        ),
        ({"source": ["a"], "target": [None], "weight": [1.0]}, {}, "names must not have a missing"),
        ({"source": ["a"], "target": ["b"], "weight": ["x"]}, {}, "weights must hold real"),
    ],
)
def test_pandas_refuses(columns, options, message):
    with pytest.raises(ValueError, match=message):
        Graph.from_pandas(pd.DataFrame(columns), **options)


@settings(max_examples=20)
@given(data=st.data())
def test_pygsp_round_trip(graphs, data):
    graph = data.draw(graphs())
    again = Graph.from_pygsp(graph.to_pygsp(), graph.names)
    assert again == Graph(
        graph.edges, graph.weights, graph.n_nodes, graph.names, None, graph.coordinates
    )


def test_pygsp_has_the_same_laplacian():
    graph = Graph([(0, 1), (1, 2)], [1.0, 2.0])
    np.testing.assert_allclose(graph.to_pygsp().L.toarray(), graph.laplacian().toarray())


def test_pygsp_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygsp", None)
    with pytest.raises(ImportError, match=r"pip install 'heatgraph\[pygsp\]'"):
        Graph([(0, 1)], [1.0]).to_pygsp()
