import numpy as np
import pytest
from scipy.sparse.csgraph import shortest_path

from heatgraph.datasets import make_graph
from heatgraph.graph import CandidateEdges
from heatgraph.kernels.probing import probing_vectors


def problem(kind="geometric", n=120):
    graph = make_graph(kind, n, random_state=0)
    edges = np.sort(graph.edges, axis=1)
    return graph, CandidateEdges(n, edges[:, 0].copy(), edges[:, 1].copy()), graph.weights


@pytest.mark.parametrize("distance", [1, 2, 3])
def test_nodes_of_one_colour_are_further_apart_than_the_distance(distance):
    graph, candidates, w = problem()
    probes = probing_vectors(candidates, w, distance, 120, np.random.default_rng(0))
    steps = shortest_path(graph.adjacency(), unweighted=True)
    same = probes.colours[:, None] == probes.colours[None, :]
    np.fill_diagonal(same, False)
    assert steps[same].min() > distance


def test_candidates_without_weight_have_two_colours_too():
    _, candidates, w = problem()
    probes = probing_vectors(candidates, np.zeros_like(w), 3, 120, np.random.default_rng(0))
    assert (probes.colours[candidates.i] != probes.colours[candidates.j]).all()


def test_vectors_have_one_sign_per_node_and_stay_within_the_limit():
    _, candidates, w = problem("ba", 200)
    probes = probing_vectors(candidates, w, 3, 10, np.random.default_rng(0))
    assert probes.n_vectors <= 10
    np.testing.assert_array_equal(np.abs(probes.Z).sum(axis=0), 1.0)
