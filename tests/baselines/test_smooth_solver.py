"""GL-SigRep: optimality of the graph step, descent of the alternation, degenerate input."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatgraph.baselines.smooth_solver import learn_smooth, smooth_graph_step
from heatgraph.graph.candidates import CandidateEdges


def signals(rng, n_nodes, n_signals=30):
    return rng.standard_normal((n_nodes, 3)) @ rng.standard_normal((3, n_signals)) + 0.3 * (
        rng.standard_normal((n_nodes, n_signals))
    )


def kkt_residual(w, z, a, b, candidates, total):
    """Largest violation: gradient >= nu everywhere, = nu where w > 0, and feasibility."""
    deg = candidates.degrees(w)
    g = a * z + b * (4.0 * w + 2.0 * (deg[candidates.i] + deg[candidates.j]))
    on = w > 0.0
    nu = g[on].mean()
    scale = 4.0 * b * total
    violations = [np.abs(g[on] - nu).max(), max(0.0, nu - g.min()), -min(0.0, w.min()) * scale]
    return max(*violations, abs(w.sum() - total) * scale) / scale


def by_cvxpy(z, a, b, candidates, total):
    w = cp.Variable(candidates.n_edges)
    edges = np.arange(candidates.n_edges)
    S = np.zeros((candidates.n_nodes, candidates.n_edges))
    S[candidates.i, edges] = S[candidates.j, edges] = 1.0
    value = a * z @ w + b * (2 * cp.sum_squares(w) + cp.sum_squares(S @ w))
    problem = cp.Problem(cp.Minimize(value), [w >= 0, cp.sum(w) == total])
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("b", [1e-6, 1e-2, 1.0, 1e2, 1e5])
@pytest.mark.parametrize("n_nodes", [2, 3, 20, 120])
def test_graph_step_is_optimal(rng, n_nodes, b):
    candidates = CandidateEdges.complete(n_nodes)
    z = candidates.squared_distances(signals(rng, n_nodes))
    step = smooth_graph_step(z, 1.0, b, candidates)
    assert kkt_residual(step.w, z, 1.0, b, candidates, n_nodes / 2) < 1e-8


@pytest.mark.parametrize("b", [1e-2, 1.0, 1e2])
@pytest.mark.parametrize("n_nodes", [10, 25])
def test_graph_step_agrees_with_a_conic_solver(rng, n_nodes, b):
    candidates = CandidateEdges.complete(n_nodes)
    z = candidates.squared_distances(signals(rng, n_nodes))
    step = smooth_graph_step(z, 0.7, b, candidates)
    reference = by_cvxpy(z, 0.7, b, candidates, n_nodes / 2)
    assert step.objective == pytest.approx(reference, rel=1e-6)


@given(st.integers(2, 9), st.floats(-4, 4), st.floats(-3, 3), st.integers(0, 2**32 - 1))
def test_graph_step_is_optimal_from_any_start(n_nodes, log_b, log_start, seed):
    """Also on a candidate set with ties and bare nodes, and from a far dual point."""
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(n_nodes, 1)
    kept = rng.random(i.size) < 0.6
    kept[0] = True
    candidates = CandidateEdges(n_nodes, i[kept], j[kept])
    z = rng.integers(0, 4, candidates.n_edges).astype(float)
    start = 10.0**log_start * rng.standard_normal(n_nodes + 1)
    step = smooth_graph_step(z, 1.0, 10.0**log_b, candidates, dual=start)
    assert kkt_residual(step.w, z, 1.0, 10.0**log_b, candidates, n_nodes / 2) < 1e-8


def test_graph_step_does_not_depend_on_the_order_of_nodes(rng):
    X = signals(rng, 15)
    order = rng.permutation(15)
    candidates = CandidateEdges.complete(15)
    L, permuted = (
        candidates.laplacian(
            smooth_graph_step(candidates.squared_distances(A), 1.0, 2.0, candidates).w
        )
        for A in (X, X[order])
    )
    np.testing.assert_allclose(permuted, L[np.ix_(order, order)], atol=1e-10)


def test_equal_distances_give_equal_weights():
    candidates = CandidateEdges.complete(6)
    step = smooth_graph_step(np.full(15, 3.0), 1.0, 0.5, candidates)
    np.testing.assert_allclose(step.w, 0.2, rtol=1e-12)


@pytest.mark.parametrize("a", [1e-2, 1.0, 1e2])
def test_alternation_descends_to_a_stationary_point(rng, a):
    solution = learn_smooth(signals(rng, 20), a, a, max_iter=2000)
    assert solution.status == "converged"
    assert (np.diff(solution.objective) <= 0.0).all()
    assert solution.residual <= 1e-6


def test_stationary_point_is_a_fixed_point_of_both_halves(rng):
    X = signals(rng, 12)
    solution = learn_smooth(X, 0.3, 1.0, tol=1e-10, max_iter=5000)
    candidates = CandidateEdges.complete(12)
    Y = np.linalg.solve(np.eye(12) + 0.3 * candidates.laplacian(solution.w), X)
    step = smooth_graph_step(candidates.squared_distances(Y), 0.3, 1.0, candidates)
    np.testing.assert_allclose(step.w, solution.w, atol=1e-8)


def test_scaling_the_signals_scales_only_the_spread(rng):
    X = signals(rng, 12)
    one = learn_smooth(X, 0.5, 1.0)
    other = learn_smooth(10.0 * X, 0.5, 100.0)
    np.testing.assert_allclose(other.w, one.w, atol=1e-8)


def test_candidates_are_respected(rng):
    ring = CandidateEdges(8, np.arange(7), np.arange(1, 8))
    solution = learn_smooth(signals(rng, 8), 1.0, 1.0, candidates=ring)
    assert solution.w.shape == (7,)
    assert solution.w.sum() == pytest.approx(4.0)


def test_signals_without_contrast_give_the_flattest_graph():
    solution = learn_smooth(np.ones((5, 4)), 1.0, 1.0)
    assert solution.status == "converged"
    np.testing.assert_allclose(solution.w, 0.25, rtol=1e-10)


@pytest.mark.slow
def test_a_thousand_nodes(rng):
    candidates = CandidateEdges.complete(1000)
    z = candidates.squared_distances(signals(rng, 1000))
    for b in (1.0, 1e3):
        step = smooth_graph_step(z, 1.0, b, candidates)
        assert kkt_residual(step.w, z, 1.0, b, candidates, 500.0) < 1e-8
