"""Directed graphs: the value, and every form that keeps the direction."""

from __future__ import annotations

import pickle

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heatgraph import Graph
from heatgraph.metrics import best_cut, edge_scores

ARROWS = [(2, 0), (0, 1), (1, 0)]


@pytest.fixture
def graph():
    return Graph(ARROWS, [3.0, 1.0, 2.0], 4, list("abcd"), directed=True)


def test_both_directions_are_edges_of_their_own(graph):
    assert graph.directed
    assert graph.edges.tolist() == [[0, 1], [1, 0], [2, 0]]
    assert graph.weights.tolist() == [1.0, 2.0, 3.0]
    W = np.zeros((4, 4))
    W[0, 1], W[1, 0], W[2, 0] = 1.0, 2.0, 3.0
    assert np.array_equal(graph.adjacency().toarray(), W)
    assert graph.degrees().tolist() == [6.0, 3.0, 3.0, 0.0]
    assert graph.n_components() == 2
    assert repr(graph) == "Graph(4 nodes, 3 directed edges, weights 1 to 3, names)"


def test_direction_is_part_of_the_value():
    one, other = ([(0, 1)], [1.0]), ([(1, 0)], [1.0])
    assert Graph(*one) == Graph(*other)
    assert Graph(*one, directed=True) != Graph(*other, directed=True)
    assert Graph(*one, directed=True) != Graph(*one)


def test_what_it_becomes_stays_directed(graph):
    assert graph.cut(n_edges=2).directed
    assert graph.scaled(trace=6.0).directed
    assert graph.normalized().degrees().sum() == pytest.approx(4.0)
    assert pickle.loads(pickle.dumps(graph)) == graph


def test_without_directions(graph):
    flat = graph.undirected()
    assert not flat.directed
    assert flat.edges.tolist() == [[0, 1], [0, 2]]
    assert flat.weights.tolist() == [1.5, 1.5]
    assert np.array_equal(
        flat.adjacency().toarray(),
        0.5 * (graph.adjacency() + graph.adjacency().T).toarray(),
    )
    assert flat.undirected() is flat


def test_it_has_no_laplacian(graph):
    with pytest.raises(ValueError, match=r"take graph.undirected\(\).laplacian\(\)"):
        graph.laplacian()


@settings(max_examples=30)
@given(data=st.data())
def test_every_form_keeps_it(graphs, tmp_path_factory, data):
    graph = data.draw(graphs(names=st.text("abcdef", min_size=1), min_edges=1, directed=True))
    assert Graph.from_networkx(graph.to_networkx()) == graph
    bare = Graph(graph.edges, graph.weights, graph.n_nodes, directed=True)
    assert Graph.from_adjacency(bare.adjacency(), directed=True) == bare
    assert Graph.from_pandas(bare.to_pandas(), n_nodes=bare.n_nodes, directed=True) == bare
    folder = tmp_path_factory.mktemp("graphs")
    for suffix in (".npz", ".graphml"):
        graph.save(folder / f"graph{suffix}")
        assert Graph.load(folder / f"graph{suffix}") == graph


def test_a_list_of_edges_says_so(tmp_path, graph):
    path = tmp_path / "graph.csv"
    graph.cut(n_edges=3).save(path)
    assert path.read_text().splitlines()[0] == "source,target,weight,directed"
    loaded = Graph.load(path)
    assert loaded.directed
    assert loaded.to_pandas().equals(graph.to_pandas())
    path.write_text("source,target,weight,directed\na,b,1,true\nb,a,1,no\n")
    with pytest.raises(ValueError, match="the column directed must be true throughout"):
        Graph.load(path)


def test_networkx_is_a_digraph(graph):
    other = graph.to_networkx()
    assert isinstance(other, nx.DiGraph)
    assert other.edges["c", "a"] == {"weight": 3.0}
    assert not other.has_edge("a", "c")


def test_pygsp_knows_directions(graph):
    pytest.importorskip("pygsp")
    assert Graph.from_pygsp(graph.to_pygsp(), names=list("abcd")) == graph


def test_scores_count_directions(graph):
    learned = Graph([(0, 2), (0, 1)], [1.0, 0.5], 4, list("abcd"), directed=True)
    scores = edge_scores(graph, learned)
    assert (scores.precision, scores.recall) == (0.5, 1 / 3)
    assert best_cut(graph, learned)[0].f_measure == pytest.approx(0.4)
    assert edge_scores(graph, graph).nmi == pytest.approx(1.0)
    with pytest.raises(ValueError, match=r"both directed or both not.*undirected\(\)"):
        edge_scores(graph, learned.undirected())


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(0, 1), (0, 1)], "the order within a pair counts"),
        ([(1, 1)], "self loop"),
    ],
)
def test_bad_edges_are_named(edges, message):
    with pytest.raises(ValueError, match=message):
        Graph(edges, np.ones(len(edges)), directed=True)


def test_directed_must_be_a_truth_value():
    with pytest.raises(ValueError, match="directed must be True or False"):
        Graph([(0, 1)], [1.0], directed="yes")
