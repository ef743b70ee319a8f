"""The log-degree model: optimality, duality, the theory of its one parameter."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatgraph.baselines.log_degree_solver import log_degree_step
from heatgraph.graph.candidates import CandidateEdges


def points(rng, n_nodes):
    """Smooth functions of uniform points in the square."""
    P = rng.random((n_nodes, 2))
    return np.cos(3.0 * P @ rng.standard_normal((2, 60)) + 6.0 * rng.random(60))


def learned(X, a, b, candidates=None):
    """On the distances of signals (N, M), over all pairs unless told otherwise."""
    candidates = CandidateEdges.complete(len(X)) if candidates is None else candidates
    return log_degree_step(candidates.squared_distances(X), a, b, candidates)


def kkt_residual(w, z, a, b, candidates):
    """Largest violation of g >= 0, w >= 0, g w = 0 relative to the terms of g."""
    pull = a / candidates.degrees(w)
    terms = pull[candidates.i] + pull[candidates.j]
    g = (2.0 * z + 2.0 * b * w - terms) / terms
    on = w > 0.0
    return max(np.abs(g[on]).max(), -min(0.0, g.min()), -min(0.0, w.min()))


def by_cvxpy(z, a, b, candidates):
    w = cp.Variable(candidates.n_edges)
    edges = np.arange(candidates.n_edges)
    S = np.zeros((candidates.n_nodes, candidates.n_edges))
    S[candidates.i, edges] = S[candidates.j, edges] = 1.0
    value = 2 * z @ w - a * cp.sum(cp.log(S @ w)) + b * cp.sum_squares(w)
    problem = cp.Problem(cp.Minimize(value), [w >= 0])
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("n_nodes", [2, 3, 20, 150])
@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (30.0, 30.0), (1e3, 1e3), (5.0, 0.1), (0.1, 0.1)])
def test_solution_is_optimal(rng, n_nodes, a, b):
    candidates = CandidateEdges.complete(n_nodes)
    z = candidates.squared_distances(points(rng, n_nodes))
    solution = log_degree_step(z, a, b, candidates)
    assert solution.status == "converged"
    assert kkt_residual(solution.w, z, a, b, candidates) < 1e-8
    bound, value = solution.objective[-2:]
    assert value - bound <= 1e-9 * (1.0 + abs(value))


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (20.0, 5.0), (1.0, 50.0)])
@pytest.mark.parametrize("n_nodes", [8, 20])
def test_solution_agrees_with_a_conic_solver(rng, n_nodes, a, b):
    candidates = CandidateEdges.complete(n_nodes)
    z = candidates.squared_distances(points(rng, n_nodes))
    objective = log_degree_step(z, a, b, candidates).objective[-1]
    assert objective == pytest.approx(by_cvxpy(z, a, b, candidates), rel=1e-6, abs=1e-6)


@given(st.integers(2, 9), st.floats(-2, 3), st.floats(-2, 3), st.integers(0, 2**32 - 1))
def test_solution_is_optimal_on_any_candidates(n_nodes, log_a, log_b, seed):
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(n_nodes, 1)
    kept = (rng.random(i.size) < 0.5) | (j == i + 1)
    candidates = CandidateEdges(n_nodes, i[kept], j[kept])
    z = rng.integers(0, 4, candidates.n_edges).astype(float)
    solution = log_degree_step(z, 10.0**log_a, 10.0**log_b, candidates)
    assert kkt_residual(solution.w, z, 10.0**log_a, 10.0**log_b, candidates) < 1e-8


def test_lower_bounds_rise_to_the_objective(rng):
    candidates = CandidateEdges.complete(60)
    z = candidates.squared_distances(points(rng, 60))
    solution = log_degree_step(z, 10.0, 10.0, candidates)
    bounds, value = solution.objective[:-1], solution.objective[-1]
    assert (np.diff(bounds) >= -1e-9 * abs(value)).all()
    assert bounds[-1] == pytest.approx(value, rel=1e-10)


def test_only_the_product_of_the_parameters_shapes_the_graph(rng):
    """W(Z, a, b) = sqrt(a/b) W(Z, sqrt(ab), sqrt(ab))."""
    candidates = CandidateEdges.complete(20)
    z = candidates.squared_distances(points(rng, 20))
    one = log_degree_step(z, 16.0, 4.0, candidates).w
    other = log_degree_step(z, 8.0, 8.0, candidates).w
    np.testing.assert_allclose(one, 2.0 * other, rtol=1e-8, atol=1e-12)


def test_every_node_has_a_neighbour_even_an_outlier(rng):
    X = points(rng, 30)
    X[7] += 50.0
    solution = learned(X, 1.0, 1.0)
    assert solution.status == "converged"
    assert CandidateEdges.complete(30).degrees(solution.w).min() > 0.0


def test_identical_signals_give_equal_weights():
    solution = learned(np.ones((6, 3)), 1.0, 1.0)
    np.testing.assert_allclose(solution.w, solution.w[0], rtol=1e-10)


def test_scale_beyond_the_precision_is_a_status(rng):
    solution = learned(1e6 * points(rng, 20), 1e-3, 1e-3)
    assert solution.status == "stalled"


def test_a_bare_node_is_named(rng):
    candidates = CandidateEdges(4, np.array([0, 1]), np.array([1, 2]))
    with pytest.raises(ValueError, match=r"candidates leaves 1 node\(s\).* first node 3"):
        learned(points(rng, 4), 1.0, 1.0, candidates=candidates)


@pytest.mark.slow
def test_a_thousand_nodes(rng):
    candidates = CandidateEdges.complete(1000)
    z = candidates.squared_distances(points(rng, 1000))
    a = b = 2.0  # of which a node has about ten neighbours
    solution = log_degree_step(z, a, b, candidates)
    assert kkt_residual(solution.w, z, a, b, candidates) < 1e-8
