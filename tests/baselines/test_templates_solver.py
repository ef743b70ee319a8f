"""Spectral templates: optimality of both forms, the smallest eps, degenerate spectra."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatgraph.baselines.templates_solver import (
    Templates,
    learn_templates,
    learn_templates_within,
    smallest_residual,
)
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.solvers.simplex_qp import SimplexQP


def random_laplacian(rng, n_nodes, density=0.3):
    """A ring and random chords, trace N."""
    candidates = CandidateEdges.complete(n_nodes)
    chord = rng.random(candidates.n_edges) < density
    ring = (candidates.j == candidates.i + 1) | (candidates.j == candidates.i + n_nodes - 1)
    w = np.where(chord | ring, rng.uniform(0.5, 1.5, candidates.n_edges), 0.0)
    return candidates.laplacian(w * (n_nodes / 2 / w.sum()))


def diffused(rng, L, n_signals=200, tau=1.0, noise=0.0):
    lam, U = np.linalg.eigh(L)
    X = (U * np.exp(-tau * lam)) @ U.T @ rng.standard_normal((L.shape[0], n_signals))
    return X + noise * rng.standard_normal(X.shape)


def offdiagonal(templates, w, candidates):
    A = templates.V.T @ candidates.laplacian(w) @ templates.V
    return A * (templates.blocks[:, None] != templates.blocks[None, :])


def kkt_residual(templates, w, h, candidates):
    """``g - nu`` is 0 where w > 0 and non-negative elsewhere; independent of the solver's Q."""
    G = templates.V @ offdiagonal(templates, w, candidates) @ templates.V.T
    g = candidates.adjoint(G) + h
    nu = g @ w / w.sum()
    scale = 1.0 + np.abs(h).max()
    return max(np.abs((g - nu)[w > 1e-12]).max(), max(0.0, nu - g.min())) / scale


def by_cvxpy(templates, r, candidates, *, eps=None, penalty=None):
    """Eigenvalues kept as variables: the formulation of the paper, not the eliminated one."""
    n = templates.n_nodes
    L, lam = cp.Variable((n, n), symmetric=True), cp.Variable(n)
    w = -L[candidates.i, candidates.j]
    distance = L - templates.V @ cp.diag(lam) @ templates.V.T
    valid = [w >= 0, cp.sum(L, axis=1) == 0, cp.trace(L) == n]
    if eps is None:
        objective = penalty * (r @ w) + 0.5 * cp.sum_squares(distance)
    else:
        objective = r @ w
        valid.append(cp.norm(distance, "fro") <= eps)
    problem = cp.Problem(cp.Minimize(objective), valid)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value


@pytest.fixture(params=[0.0, 0.05], ids=["clean", "noisy"])
def problem(request, rng):
    L = random_laplacian(rng, 12)
    templates = Templates.from_signals(diffused(rng, L, noise=request.param))
    return templates, CandidateEdges.complete(12)


def test_residual_is_the_distance_with_the_best_eigenvalues(rng):
    L = random_laplacian(rng, 9)
    templates = Templates.from_signals(diffused(rng, L))
    lam = np.diagonal(templates.V.T @ L @ templates.V)
    distance = np.linalg.norm(L - (templates.V * lam) @ templates.V.T)
    assert templates.residual(L) == pytest.approx(distance, rel=1e-12)


def test_program_is_half_the_squared_residual(problem, rng):
    templates, candidates = problem
    program = templates.program(candidates, 6.0)
    w = rng.random(candidates.n_edges)
    value = templates.residual(candidates.laplacian(w)) ** 2
    assert w @ program.apply(w) == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize("penalty", [1e-3, 0.1, 3.0, 100.0])
def test_penalised_form_is_optimal(problem, penalty):
    templates, candidates = problem
    solution = learn_templates(templates, penalty)
    assert solution.status == "converged"
    assert kkt_residual(templates, solution.w, penalty * solution.reweights, candidates) < 1e-8
    assert (np.diff(solution.objective) <= 1e-12).all()


@pytest.mark.parametrize("penalty", [0.1, 3.0])
def test_penalised_form_agrees_with_a_conic_solver(problem, penalty):
    templates, candidates = problem
    solution = learn_templates(templates, penalty)
    r = solution.reweights
    value = 0.5 * solution.eps**2 + penalty * r @ solution.w
    assert value == pytest.approx(by_cvxpy(templates, r, candidates, penalty=penalty), abs=1e-6)


@pytest.mark.parametrize("factor", [1.0, 1.001, 1.5, 4.0])
def test_constrained_form_is_optimal(problem, factor):
    """At its penalty the point is optimal for the penalised program, and its residual is eps."""
    templates, candidates = problem
    eps = factor * smallest_residual(templates).eps
    solution = learn_templates_within(templates, eps)
    assert solution.status == "converged"
    assert solution.eps == pytest.approx(eps, rel=1e-8)
    h = solution.penalty * solution.reweights
    assert kkt_residual(templates, solution.w, h, candidates) < 1e-8
    assert (np.diff(solution.objective) <= 1e-9).all()


@pytest.mark.parametrize("factor", [1.2, 4.0])
def test_constrained_form_agrees_with_a_conic_solver(problem, factor):
    templates, candidates = problem
    eps = factor * smallest_residual(templates).eps
    solution = learn_templates_within(templates, eps)
    reference = by_cvxpy(templates, solution.reweights, candidates, eps=eps)
    assert solution.reweights @ solution.w == pytest.approx(reference, rel=1e-6, abs=1e-7)


def test_smallest_residual_is_the_smallest(problem, rng):
    templates, candidates = problem
    least = smallest_residual(templates)
    assert kkt_residual(templates, least.w, np.zeros_like(least.w), candidates) < 1e-8
    for _ in range(20):
        w = rng.exponential(size=least.w.size)
        other = templates.residual(candidates.laplacian(6.0 * w / w.sum()))
        assert least.eps <= other


def test_infeasible_eps_names_the_smallest(problem):
    templates, _ = problem
    least = smallest_residual(templates).eps
    with pytest.raises(ValueError, match=f"eps = .* infeasible.*{least:.6g}"):
        learn_templates_within(templates, 0.9 * least)


def test_a_generous_eps_leaves_the_sparsest_graph(problem):
    templates, _ = problem
    solution = learn_templates_within(templates, 1e3)
    assert np.count_nonzero(solution.w > 1e-4) == 1
    assert solution.eps < 1e3


@pytest.mark.parametrize("seed", range(4))
def test_edges_are_found(seed):
    rng = np.random.default_rng(seed)
    L = random_laplacian(rng, 15, density=0.1)
    X = diffused(rng, L, n_signals=1000)
    w = learn_templates(Templates.from_signals(X), 3.0).w
    true = CandidateEdges.complete(15).weights(L) > 0.0
    f = 2.0 * (true & (w > 1e-4)).sum() / (true.sum() + (w > 1e-4).sum())
    assert f > 0.9


@pytest.mark.parametrize("penalty", [0.0, 1e-4, 0.1, 10.0])
def test_exact_templates_are_solved_although_singular(rng, penalty):
    """The complete graph has the same eigenvectors: a face of minimisers, a singular program."""
    candidates = CandidateEdges.complete(15)
    templates = Templates.from_eigenvectors(np.linalg.eigh(random_laplacian(rng, 15))[1])
    solution = learn_templates(templates, penalty)
    assert solution.status == "converged"
    h = penalty * solution.reweights
    assert kkt_residual(templates, solution.w, h, candidates) < 1e-8
    assert smallest_residual(templates).eps < 1e-6


def test_exact_templates_keep_the_true_graph_as_a_start(rng):
    L = random_laplacian(rng, 15)
    start = CandidateEdges.complete(15).weights(L)
    templates = Templates.from_eigenvectors(np.linalg.eigh(L)[1])
    solution = learn_templates_within(templates, 1e-3, start=start)
    np.testing.assert_allclose(solution.w, start, atol=1e-2)


def test_repeated_eigenvalues_are_one_block(rng):
    """The choice of a basis in an eigenspace changes nothing."""
    L = random_laplacian(rng, 10)
    X = diffused(rng, L, n_signals=4)
    templates = Templates.from_signals(X)
    assert len(set(templates.blocks)) == 5
    turn = np.eye(10)
    turn[4:, 4:] = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    turned = Templates(templates.V @ turn, templates.blocks)
    one, other = learn_templates(templates, 0.1), learn_templates(turned, 0.1)
    np.testing.assert_allclose(one.w, other.w, atol=1e-7)
    candidates = CandidateEdges.complete(10)
    assert kkt_residual(templates, one.w, 0.1 * one.reweights, candidates) < 1e-8


def test_an_isolated_node_stays_isolated(rng):
    L = np.zeros((9, 9))
    L[:8, :8] = random_laplacian(rng, 8) * 9 / 8
    X = diffused(rng, L, n_signals=3000)
    solution = learn_templates(Templates.from_signals(X), 3.0)
    degrees = CandidateEdges.complete(9).degrees(solution.w)
    assert degrees[8] < 0.05 * degrees[:8].min()


def test_order_of_nodes_does_not_matter(rng):
    X = diffused(rng, random_laplacian(rng, 12))
    order = rng.permutation(12)
    candidates = CandidateEdges.complete(12)
    L, permuted = (
        candidates.laplacian(learn_templates(Templates.from_signals(A), 1.0).w)
        for A in (X, X[order])
    )
    np.testing.assert_allclose(permuted, L[np.ix_(order, order)], atol=1e-8)


def test_candidates_are_respected(rng):
    L = random_laplacian(rng, 12)
    X = diffused(rng, L)
    complete = CandidateEdges.complete(12)
    true = complete.weights(L) > 0.0
    candidates = CandidateEdges(12, complete.i[true], complete.j[true])
    templates = Templates.from_signals(X)
    solution = learn_templates(templates, 0.1, candidates=candidates)
    assert kkt_residual(templates, solution.w, 0.1 * solution.reweights, candidates) < 1e-8
    least = smallest_residual(templates, candidates=candidates).eps
    assert least > smallest_residual(templates).eps


@given(st.integers(2, 9), st.integers(1, 8), st.floats(-3, 3), st.integers(0, 2**32 - 1))
def test_quadratic_program_is_optimal_on_random_data(n_nodes, rank, log_h, seed):
    """``B`` as large as ``Q >= 0`` allows: a singular program."""
    rng = np.random.default_rng(seed)
    candidates = CandidateEdges.complete(n_nodes)
    edges = np.arange(candidates.n_edges)
    S = np.zeros((n_nodes, edges.size))
    S[candidates.i, edges] = S[candidates.j, edges] = 1.0
    norm = 2.0 * np.eye(edges.size) + S.T @ S
    half = np.linalg.cholesky(norm).T
    B = rng.standard_normal((rank, edges.size)) @ half
    B /= np.linalg.norm(np.linalg.solve(half.T, B.T), 2)
    h = 10.0**log_h * rng.standard_normal(edges.size)
    point = SimplexQP(candidates, B, 3.0).solve(h)
    Q = norm - B.T @ B
    g = Q @ point.w + h
    nu = g @ point.w / 3.0
    scale = 1.0 + np.abs(h).max() + np.abs(Q).max()
    assert point.w.min() >= 0.0
    assert point.w.sum() == pytest.approx(3.0)
    assert max(np.abs((g - nu)[point.w > 1e-12]).max(), nu - g.min()) < 1e-8 * scale


def test_slope_is_the_derivative_in_the_penalty(problem):
    templates, candidates = problem
    program = templates.program(candidates, 6.0)
    h = np.linspace(0.1, 1.0, candidates.n_edges)
    point, moved = program.solve(h), program.solve((1.0 + 1e-6) * h)
    assert (point.face == moved.face).all()
    np.testing.assert_allclose((moved.w - point.w) / 1e-6, point.slope, atol=1e-6)


@pytest.mark.parametrize("X", [np.eye(4), np.zeros((4, 9))])
def test_signals_without_preferred_directions_are_named(X):
    with pytest.raises(ValueError, match="all eigenvalues equal"):
        Templates.from_signals(X)


@pytest.mark.slow
def test_a_hundred_nodes(rng):
    candidates = CandidateEdges.complete(100)
    X = diffused(rng, random_laplacian(rng, 100, density=0.03), n_signals=1000)
    templates = Templates.from_signals(X)
    solution = learn_templates(templates, 1.0)
    assert kkt_residual(templates, solution.w, solution.reweights, candidates) < 1e-8
