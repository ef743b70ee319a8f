"""Slopes and information of all pairs against the dense model."""

import numpy as np
import pytest

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph import CandidateEdges
from heatgraph.kernels.probing import Probes
from heatgraph.kernels.sparse_laplacian import EdgeLayout
from heatgraph.models.gaussian import GaussianHeat
from heatgraph.models.gaussian_large import BlockSignals, LargeGaussianHeat
from heatgraph.models.pairs_large import Violations, all_pairs, violations

N = 70
EVERY = CandidateEdges.complete(N)


@pytest.fixture(scope="module")
def points():
    """The same point with the true edges as candidates, and dense with all pairs."""
    graph = make_graph("geometric", N, random_state=2)
    X, _ = make_heat_signals(graph, [1.5], 60, N, 0.1, random_state=2)
    edges = np.sort(graph.edges, axis=1)
    pairs = CandidateEdges(N, edges[:, 0].copy(), edges[:, 1].copy())
    others = np.log([X.var(), 0.1 * X.var()])
    layout = EdgeLayout.of(pairs)
    probes = Probes(np.arange(N), np.ones(N))
    problem = LargeGaussianHeat(layout, BlockSignals.of(X, layout), probes)
    w = np.zeros(EVERY.n_edges)
    number = {pair: e for e, pair in enumerate(zip(EVERY.i, EVERY.j, strict=True))}
    w[[number[tuple(edge)] for edge in edges]] = 2.0 * graph.weights
    sparse = problem.at(np.concatenate([2.0 * graph.weights, others]))
    dense = GaussianHeat(EVERY, X.T @ X / len(X)).at(np.concatenate([w, others]))
    return sparse, dense, pairs


def test_slopes_and_information_are_those_of_the_dense_model(points):
    sparse, dense, _ = points
    slope, information = np.full((N, N), np.nan), np.full((N, N), np.nan)
    for i, j, g, F in all_pairs(sparse):
        slope[np.minimum(i, j), np.maximum(i, j)] = g
        information[np.minimum(i, j), np.maximum(i, j)] = F
    E = EVERY.n_edges
    at = EVERY.i, EVERY.j
    np.testing.assert_allclose(slope[at], dense.gradient[:E], rtol=1e-4, atol=1e-4)
    F = np.diag(dense.information_matrix(EVERY, EVERY))[:E]
    np.testing.assert_allclose(information[at], F, rtol=1e-2, atol=1e-3 * F.max())


def test_pairs_are_violated_where_the_slope_says_so(points):
    sparse, dense, pairs = points
    found = violations(sparse, 1.0, 0.0)
    E = EVERY.n_edges
    F = np.diag(dense.information_matrix(EVERY, EVERY))[:E]
    z = -dense.gradient[:E] / np.sqrt(2.0 / 60 * F)
    known = set(zip(pairs.i, pairs.j, strict=True))
    wanted = {
        pair
        for pair, value in zip(zip(EVERY.i, EVERY.j, strict=True), z, strict=True)
        if value > 1.0 and pair not in known
    }
    assert found.n == found.i.size
    assert set(zip(found.i, found.j, strict=True)) == wanted


def test_the_steepest_of_each_node_are_kept():
    found = Violations(np.array([0, 0, 0, 4]), np.array([1, 2, 3, 5]), np.arange(4.0), 4)
    kept = found.steepest(1)  # each of 1, 2 and 3 has one only
    assert kept.i.size == 4
    star = Violations(np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([1.0, 3.0, 2.0]), 3)
    kept = star.steepest(1)
    assert list(zip(kept.i, kept.j, strict=True)) == [(0, 2), (1, 2)]
