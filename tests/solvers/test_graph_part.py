"""Parts of a graph: compact where the graph has room for them, and refused where it has none."""

import networkx as nx
import numpy as np
import pytest

from heatgraph import HeatCovariance
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph import CandidateEdges
from heatgraph.metrics import edge_scores
from heatgraph.solvers.graph_part import compact_part


def pairs_of(graph):
    edges = np.sort(np.array(nx.convert_node_labels_to_integers(graph).edges), axis=1)
    return CandidateEdges(len(graph), edges[:, 0].copy(), edges[:, 1].copy())


def test_a_part_of_a_grid_is_connected_and_round():
    pairs = pairs_of(nx.grid_2d_graph(30, 30))
    part = compact_part(pairs, np.ones(pairs.n_edges), 465, 200)
    assert part.nodes.size == 200
    within = nx.Graph(zip(part.candidates.i.tolist(), part.candidates.j.tolist(), strict=True))
    assert len(within) == 200
    assert nx.is_connected(within)
    # A square of 200 nodes has 4 sqrt(200) = 57 edges that lead out, of 800 ends.
    assert part.share_leaving < 0.1


def test_candidates_of_a_part_are_those_of_the_graph_between_its_nodes():
    pairs = pairs_of(nx.random_regular_graph(4, 60, seed=0))
    w = np.random.default_rng(0).random(pairs.n_edges)
    part = compact_part(pairs, w, 3, 25)
    np.testing.assert_array_equal(part.nodes[part.candidates.i], pairs.i[part.inside])
    np.testing.assert_array_equal(part.nodes[part.candidates.j], pairs.j[part.inside])
    L = pairs.laplacian(w)[np.ix_(part.nodes, part.nodes)]
    own = part.candidates.laplacian(w[part.inside])
    leaving = np.trace(L) - np.trace(own)
    assert part.share_leaving == pytest.approx(leaving / np.trace(L))


def test_a_part_goes_on_in_another_component_and_takes_nodes_without_edges():
    graph = nx.disjoint_union(nx.path_graph(4), nx.path_graph(5))
    graph.add_nodes_from(range(9, 12))
    pairs = pairs_of(graph)
    w = np.ones(pairs.n_edges)
    assert set(range(4)) <= set(compact_part(pairs, w, 6, 9).nodes.tolist())
    part = compact_part(pairs, w, 6, 12)
    np.testing.assert_array_equal(part.nodes, np.arange(12))
    assert part.share_leaving == pytest.approx(0.0)


def test_a_shortcut_of_little_weight_is_not_followed():
    ring = nx.cycle_graph(400)
    ring.add_edges_from((i, i + 2) for i in range(398))
    ring.add_edges_from((i, (i * 37 + 200) % 400) for i in range(0, 400, 5))
    pairs = pairs_of(ring)
    near = np.minimum(pairs.j - pairs.i, 400 - pairs.j + pairs.i) <= 2
    part = compact_part(pairs, np.where(near, 1.0, 0.2), 200, 100)
    assert np.ptp(part.nodes) < 130


def test_of_an_expander_much_leads_out():
    pairs = pairs_of(nx.barabasi_albert_graph(500, 4, seed=1))
    assert compact_part(pairs, np.ones(pairs.n_edges), 0, 100).share_leaving > 0.25


@pytest.mark.slow
def test_noise_found_on_a_part_serves_the_whole_graph():
    graph = make_graph("geometric", 6000, random_state=2)
    X, *_ = make_heat_signals(graph, (2.5, 4.0), 300, 60, noise_std=0.01, random_state=2)
    model = HeatCovariance().fit(X)
    assert str(model.status_) == "converged"
    assert np.sqrt(model.noise_variance_) == pytest.approx(0.01, rel=0.2)
    assert edge_scores(graph, model.graph_).f_measure > 0.8
