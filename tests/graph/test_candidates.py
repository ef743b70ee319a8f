"""Candidate edges: the linear map from weights to Laplacians, and its adjoint."""

from __future__ import annotations

import numpy as np
import pytest

from heatgraph.graph.candidates import CandidateEdges


def random_candidates(n_nodes: int, share: float, rng: np.random.Generator) -> CandidateEdges:
    i, j = np.triu_indices(n_nodes, k=1)
    kept = rng.uniform(size=i.size) < share
    return CandidateEdges(n_nodes, i[kept], j[kept])


@pytest.fixture(params=[1.0, 0.3], ids=["all pairs", "some pairs"])
def candidates(request: pytest.FixtureRequest, rng: np.random.Generator) -> CandidateEdges:
    return random_candidates(9, request.param, rng)


def test_laplacian_is_the_sum_of_its_edges(
    candidates: CandidateEdges, rng: np.random.Generator
) -> None:
    w = rng.exponential(size=candidates.n_edges)
    expected = np.zeros((9, 9))
    for weight, i, j in zip(w, candidates.i, candidates.j, strict=True):
        difference = np.eye(9)[i] - np.eye(9)[j]
        expected += weight * np.outer(difference, difference)
    L = candidates.laplacian(w)
    np.testing.assert_allclose(L, expected, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(L, L.T)
    np.testing.assert_allclose(np.diag(L), candidates.degrees(w), rtol=0, atol=0)
    assert np.trace(L) == pytest.approx(2.0 * w.sum(), rel=1e-14)


def test_adjoint_by_dot_test(candidates: CandidateEdges, rng: np.random.Generator) -> None:
    w = rng.normal(size=candidates.n_edges)
    G = rng.normal(size=(9, 9))
    G = G + G.T
    direct = np.sum(G * candidates.laplacian(w))
    assert candidates.adjoint(G) @ w == pytest.approx(direct, rel=1e-12)


def test_degrees_by_dot_test(candidates: CandidateEdges, rng: np.random.Generator) -> None:
    w, y = rng.normal(size=candidates.n_edges), rng.normal(size=9)
    by_ends = (y[candidates.i] + y[candidates.j]) @ w
    assert candidates.degrees(w) @ y == pytest.approx(by_ends, rel=1e-12)


def test_weights_invert_the_laplacian(candidates: CandidateEdges, rng: np.random.Generator) -> None:
    w = rng.exponential(size=candidates.n_edges)
    np.testing.assert_array_equal(candidates.weights(candidates.laplacian(w)), w)


def test_subset_is_a_restriction_of_all_pairs(rng: np.random.Generator) -> None:
    some, every = random_candidates(9, 0.3, rng), CandidateEdges.complete(9)
    w = rng.exponential(size=some.n_edges)
    w_every = every.weights(some.laplacian(w))
    np.testing.assert_array_equal(every.laplacian(w_every), some.laplacian(w))
    assert np.count_nonzero(w_every) == some.n_edges
    G = rng.normal(size=(9, 9))
    G = G + G.T
    place = np.zeros((9, 9), dtype=np.intp)
    place[every.i, every.j] = np.arange(every.n_edges)
    np.testing.assert_array_equal(some.adjoint(G), every.adjoint(G)[place[some.i, some.j]])


def test_complete_counts_every_pair_once() -> None:
    every = CandidateEdges.complete(6)
    pairs = set(zip(every.i.tolist(), every.j.tolist(), strict=True))
    assert pairs == {(i, j) for i in range(6) for j in range(i + 1, 6)}
    assert every.n_edges == 15
    assert every.is_complete
    assert not CandidateEdges(6, every.i[1:], every.j[1:]).is_complete


def test_isolated_node_has_an_empty_row() -> None:
    edges = CandidateEdges(4, np.array([0]), np.array([2]))
    L = edges.laplacian(np.array([3.0]))
    np.testing.assert_array_equal(L[[1, 3]], 0.0)
    np.testing.assert_array_equal(edges.degrees(np.array([3.0])), [3.0, 0.0, 3.0, 0.0])
