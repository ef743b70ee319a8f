"""The paper's algorithm: its formulas against finite differences, its steps against oracles."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import expm

from heatgraph.estimators import LearnHeat
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.solvers import palm as paper
from heatgraph.solvers.palm import PaperOptions, Point, solve_paper
from heatgraph.solvers.result import Progress, Solution, Status
from heatgraph.solvers.simplex_qp import LaplacianQP, SimplexQP

pytest.importorskip("scs")

Array = NDArray[np.float64]
ALPHA, BETA = 0.01, 0.01


@dataclass(frozen=True)
class Problem:
    X: Array
    edges: CandidateEdges
    L: Array  # the truth
    H: Array
    tau: Array
    L0: Array  # a random start

    def solve(self, **options: object) -> Solution:
        settings: dict[str, object] = {"alpha": ALPHA, "beta": BETA, "learn_scales": False}
        args = (self.X, self.edges, self.L0, self.tau)
        return solve_paper(*args, **(settings | options))  # type: ignore[arg-type]


def sources_of(fit: Solution) -> Array:
    """The paper's (S, N, M)."""
    return fit.codes.reshape(len(fit.codes), fit.tau.size, -1).transpose(1, 2, 0)


def random_laplacian(
    edges: CandidateEdges, rng: np.random.Generator, density: float = 1.0
) -> Array:
    w = rng.exponential(size=edges.n_edges) * (rng.uniform(size=edges.n_edges) < density)
    return edges.laplacian(w * (0.5 * edges.n_nodes / w.sum()))


def make_problem(
    n: int = 8, m: int = 25, tau: tuple[float, ...] = (2.5, 4.0), seed: int = 0
) -> Problem:
    rng = np.random.default_rng(seed)
    edges = CandidateEdges.complete(n)
    L = random_laplacian(edges, rng, density=0.4)
    H = rng.normal(size=(len(tau), n, m)) * (rng.uniform(size=(len(tau), n, m)) < 0.15)
    X = sum(expm(-t * L) @ h for t, h in zip(tau, H, strict=True))
    X = X + 0.01 * rng.normal(size=X.shape)
    return Problem(X, edges, L, H, np.array(tau), random_laplacian(edges, rng))


@pytest.fixture
def problem() -> Problem:
    return make_problem()


@pytest.fixture
def point(problem: Problem) -> Point:
    """Away from the truth, so that no term of a gradient vanishes."""
    rng = np.random.default_rng(1)
    H = problem.H + 0.3 * rng.normal(size=problem.H.shape)
    return Point.at(problem.L0, H, np.array([0.7, 1.9]))


def fit_by_expm(X: Array, L: Array, H: Array, tau: Array) -> float:
    model = sum(expm(-t * L) @ h for t, h in zip(tau, H, strict=True))
    return float(np.sum((X - model) ** 2))


def tau_hessian(X: Array, p: Point, diagonal_factor: float) -> Array:
    """The paper's Hessian with ``exp(-diagonal_factor tau_s L)`` in its diagonal term."""
    L2, S = p.L @ p.L, p.tau.size

    def trace(A: Array, t: float) -> float:
        return float(np.trace(A @ L2 @ expm(-t * p.L)))

    hessian = np.empty((S, S))
    for s in range(S):
        others = [r for r in range(S) if r != s]
        for r in others:
            hessian[s, r] = 2.0 * trace(p.H[r] @ p.H[s].T, p.tau[s] + p.tau[r])
        hessian[s, s] = (
            -2.0 * trace(p.H[s] @ X.T, p.tau[s])
            + 4.0 * trace(p.H[s] @ p.H[s].T, diagonal_factor * p.tau[s])
            + sum(hessian[s, r] for r in others)
        )
    return hessian


def tau_hessian_by_differences(X: Array, p: Point, h: float = 1e-5) -> Array:
    steps = h * np.eye(p.tau.size)
    return np.array(
        [
            (
                paper.gradient_tau(X, p.with_tau(p.tau + step))
                - paper.gradient_tau(X, p.with_tau(p.tau - step))
            )
            / (2.0 * h)
            for step in steps
        ]
    )


class TestFormulas:
    def test_fit_is_that_of_expm(self, problem: Problem, point: Point) -> None:
        expected = fit_by_expm(problem.X, point.L, point.H, point.tau)
        assert paper.fit(problem.X, point) == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("variable", ["L", "H", "tau"])
    def test_gradient_against_finite_differences(
        self, problem: Problem, point: Point, variable: str
    ) -> None:
        gradient = {
            "L": paper.gradient_L,
            "H": paper.gradient_H,
            "tau": paper.gradient_tau,
        }[variable](problem.X, point)
        rng = np.random.default_rng(2)
        at = {"L": point.L, "H": point.H, "tau": point.tau}
        for _ in range(5):
            direction = rng.normal(size=at[variable].shape)
            if variable == "L":
                direction = direction + direction.T
            h = 1e-5
            up, down = (
                fit_by_expm(problem.X, **(at | {variable: at[variable] + sign * h * direction}))
                for sign in (1.0, -1.0)
            )
            expected = (up - down) / (2.0 * h)
            assert np.sum(gradient * direction) == pytest.approx(expected, rel=1e-6)

    def test_divided_difference_survives_ties_and_large_arguments(self) -> None:
        B = paper.divided_difference(np.array([0.0, -1e-14, -1.0, -800.0]))
        assert np.all(np.isfinite(B))
        assert B[0, 1] == pytest.approx(1.0, rel=1e-12)
        assert B[0, 2] == pytest.approx(1.0 - np.exp(-1.0), rel=1e-14)
        assert B[2, 2] == pytest.approx(np.exp(-1.0), rel=1e-14)

    def test_gradient_at_repeated_eigenvalues(self, problem: Problem, point: Point) -> None:
        # The complete graph with equal weights has one eigenvalue N - 1 times.
        n = problem.edges.n_nodes
        even = np.full(problem.edges.n_edges, 1.0 / (n - 1))
        p = Point.at(problem.edges.laplacian(even), point.H, point.tau)
        direction = problem.L - p.L
        h = 1e-5
        up, down = (
            fit_by_expm(problem.X, p.L + sign * h * direction, p.H, p.tau) for sign in (1, -1)
        )
        slope = np.sum(paper.gradient_L(problem.X, p) * direction)
        assert slope == pytest.approx((up - down) / (2.0 * h), rel=1e-6)

    def test_tau_hessian_needs_the_correction(self, problem: Problem, point: Point) -> None:
        expected = tau_hessian_by_differences(problem.X, point)
        np.testing.assert_allclose(tau_hessian(problem.X, point, 2.0), expected, rtol=1e-6)
        printed = tau_hessian(problem.X, point, 1.0)
        assert np.max(np.abs(np.diag(printed - expected))) > 0.1 * np.max(np.abs(expected))


class TestConstants:
    def test_C1_bounds_twice_the_largest_eigenvalue(self, point: Point) -> None:
        true = 2.0 * np.linalg.eigvalsh(point.D.T @ point.D)[-1]
        assert true == pytest.approx(2.0 * point.tau.size)  # attained at the constant vector
        assert paper.lipschitz_H(point) >= true

    @pytest.mark.parametrize("tau", [(0.0, 0.0), (0.7, 1.9), (2.5, 4.0)])
    def test_C3_bounds_the_hessian(
        self, problem: Problem, point: Point, tau: tuple[float, float]
    ) -> None:
        p = point.with_tau(np.array(tau))
        hessian = tau_hessian(problem.X, p, 2.0)
        assert paper.lipschitz_tau(problem.X, p) >= np.linalg.norm(hessian, 2)


class TestLaplacianQP:
    @pytest.mark.parametrize("d", [0.1, 10.0, 1e3])
    @pytest.mark.parametrize("complete", [True, False])
    def test_against_clarabel(
        self, problem: Problem, point: Point, d: float, complete: bool
    ) -> None:
        edges = problem.edges if complete else ring_and_chords(problem.edges.n_nodes)
        L_t = random_laplacian(edges, np.random.default_rng(3))
        G = paper.gradient_L(problem.X, Point.at(L_t, point.H, point.tau))
        L = LaplacianQP(edges).solve(L_t, G, d, BETA)
        np.testing.assert_allclose(L, qp_by_clarabel(edges, L_t, G, d, BETA), atol=1e-5)

    def test_answer_is_a_valid_laplacian_even_when_loose(
        self, problem: Problem, point: Point, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("heatgraph.solvers.simplex_qp.EPS", 1e-2)
        G = paper.gradient_L(problem.X, point)
        L = LaplacianQP(problem.edges).solve(point.L, G, 1.0, BETA)
        assert np.trace(L) == pytest.approx(problem.edges.n_nodes, rel=1e-12)
        np.testing.assert_allclose(L.sum(axis=1), 0.0, atol=1e-12)
        assert np.all(problem.edges.weights(L) >= 0.0)
        np.testing.assert_array_equal(L, L.T)

    def test_against_the_exact_program_on_edge_weights(
        self, problem: Problem, point: Point
    ) -> None:
        """SCS, the paper's way, and the block pivoting of this library: one minimiser."""
        edges, d = problem.edges, 3.0
        G = paper.gradient_L(problem.X, point)
        linear = (G - d * point.L) / (d + 2.0 * BETA)
        diagonal = np.diagonal(linear)
        h = diagonal[edges.i] + diagonal[edges.j] - 2.0 * linear[edges.i, edges.j]
        program = SimplexQP(edges, np.zeros((0, edges.n_edges)), 0.5 * edges.n_nodes)
        exact = edges.laplacian(program.solve(h).w)
        L = LaplacianQP(edges).solve(point.L, G, d, BETA)
        np.testing.assert_allclose(L, exact, atol=1e-6)

    def test_reused_workspace_agrees_with_a_new_one(self, problem: Problem, point: Point) -> None:
        G = paper.gradient_L(problem.X, point)
        used = LaplacianQP(problem.edges)
        for d in (1e3, 0.1, 5.0):
            again = used.solve(point.L, G, d, BETA)
        new = LaplacianQP(problem.edges).solve(point.L, G, 5.0, BETA)
        np.testing.assert_allclose(again, new, atol=1e-6)

    def test_missing_scs_names_the_remedy(
        self, problem: Problem, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "scs", None)
        with pytest.raises(ImportError, match=r"pip install heatgraph\[paper\]"):
            problem.solve()


def ring_and_chords(n: int) -> CandidateEdges:
    pairs = {tuple(sorted((k, (k + hop) % n))) for k in range(n) for hop in (1, 3)}
    i, j = np.array(sorted(pairs)).T
    return CandidateEdges(n, i, j)


def qp_by_clarabel(edges: CandidateEdges, L_t: Array, G: Array, d: float, beta: float) -> Array:
    """The program as the paper prints it, over a symmetric matrix."""
    cp = pytest.importorskip("cvxpy")
    n = edges.n_nodes
    allowed = np.eye(n, dtype=bool)
    allowed[edges.i, edges.j] = allowed[edges.j, edges.i] = True
    L = cp.Variable((n, n))
    value = (
        cp.sum(cp.multiply(G, L - L_t)) + d / 2 * cp.sum_squares(L - L_t) + beta * cp.sum_squares(L)
    )
    constraints = [
        L == L.T,
        cp.trace(L) == n,
        L @ np.ones(n) == 0,
        L - cp.diag(cp.diag(L)) <= 0,
        cp.multiply(L, 1.0 - allowed) == 0,
    ]
    cp.Problem(cp.Minimize(value), constraints).solve(solver=cp.CLARABEL)
    return np.asarray(L.value)


class TestSolve:
    @pytest.mark.parametrize("learn_scales", [True, False])
    @pytest.mark.parametrize("tau", [(3.0,), (2.5, 4.0)])
    def test_objective_never_rises(self, learn_scales: bool, tau: tuple[float, ...]) -> None:
        problem = make_problem(tau=tau)
        solution = problem.solve(learn_scales=learn_scales, max_iter=300, tol=0.0)
        assert np.all(np.diff(solution.objective) <= 1e-12)
        assert solution.objective[-1] < 0.5 * solution.objective[0]

    def test_history_starts_at_the_start_and_ends_at_the_end(self, problem: Problem) -> None:
        fit = problem.solve(max_iter=20, tol=0.0)
        start = Point.at(problem.L0, np.zeros_like(problem.H), problem.tau)
        end = Point.at(problem.edges.laplacian(fit.w), sources_of(fit), fit.tau)
        assert fit.objective[0] == paper.objective(problem.X, start, ALPHA, BETA)
        assert fit.objective[-1] == pytest.approx(
            paper.objective(problem.X, end, ALPHA, BETA), rel=1e-12
        )

    def test_zero_tolerance_runs_exactly_max_iter(self, problem: Problem) -> None:
        fit = problem.solve(max_iter=7, tol=0.0)
        assert (fit.status, fit.n_iter, fit.objective.size) == (Status.MAX_ITER, 7, 8)

    def test_stops_by_the_rule_of_the_paper(self, problem: Problem) -> None:
        fit = problem.solve(max_iter=5000, tol=1e-3)
        changes = np.abs(np.diff(fit.objective))
        assert fit.status == Status.CONVERGED
        assert changes[-1] < 1e-3 <= changes[:-1].min()
        assert np.isnan(fit.residual)

    def test_end_is_nearly_a_fixed_point_of_each_step(self) -> None:
        # One short scale: a well-conditioned dictionary, so that the loop gets there.
        problem = make_problem(n=6, m=10, tau=(1.0,))
        fit = problem.solve(max_iter=2000, tol=1e-13)
        p = Point.at(problem.edges.laplacian(fit.w), sources_of(fit), fit.tau)
        moved_H = paper.step_H(problem.X, p, ALPHA, 1.1)
        moved_L, _ = paper.step_L(problem.X, p, LaplacianQP(problem.edges), BETA, 10.0, 1.1, 1.1)
        assert np.max(np.abs(moved_H.H - p.H)) < 1e-5
        assert np.max(np.abs(moved_L.L - p.L)) < 1e-5

    def test_scales_are_held_or_learned(self, problem: Problem) -> None:
        held = problem.solve(max_iter=20, tol=0.0)
        learned = problem.solve(learn_scales=True, max_iter=20, tol=0.0)
        np.testing.assert_array_equal(held.tau, problem.tau)
        assert np.all(learned.tau >= 0.0)
        assert np.any(learned.tau != problem.tau)

    def test_weights_stay_on_the_candidates(self, problem: Problem) -> None:
        edges = ring_and_chords(problem.edges.n_nodes)
        L0 = random_laplacian(edges, np.random.default_rng(4))
        fit = solve_paper(
            problem.X,
            edges,
            L0,
            problem.tau,
            alpha=ALPHA,
            beta=BETA,
            learn_scales=True,
            max_iter=50,
        )
        assert fit.w.shape == (edges.n_edges,)
        assert np.all(fit.w >= 0.0)
        assert fit.w.sum() == pytest.approx(edges.n_nodes / 2, rel=1e-12)
        assert np.all(np.diff(fit.objective) <= 1e-12)

    def test_scales_fall_from_the_truth_with_raw_atoms(self) -> None:
        """Raw atoms do not identify tau: diffused atoms pay for their mass, narrow ones do not."""
        problem = make_problem(n=10, m=40)
        early = problem.solve(learn_scales=True, max_iter=300, tol=0.0)
        late = problem.solve(learn_scales=True, max_iter=1500, tol=0.0)
        assert late.tau[0] < early.tau[0] < problem.tau[0]
        # What it falls towards: the identity for a dictionary, with no graph in it at all.
        n, X = problem.edges.n_nodes, problem.X
        even = problem.edges.laplacian(np.full(problem.edges.n_edges, 1.0 / (n - 1)))
        H = np.stack([np.sign(X) * np.maximum(np.abs(X) - ALPHA / 2, 0.0), np.zeros_like(X)])
        identity = Point.at(even, H, np.array([0.0, problem.tau[1]]))
        assert paper.objective(X, identity, ALPHA, BETA) < late.objective[-1]

    def test_sources_at_zero_hold_everything(self, problem: Problem) -> None:
        # alpha so large that no source enters: Z is constant in L and tau, C_3 is 0.
        fit = problem.solve(alpha=1e6, beta=10.0, learn_scales=True, max_iter=60, tol=0.0)
        assert not fit.codes.any()
        np.testing.assert_array_equal(fit.tau, problem.tau)
        even = problem.edges.n_nodes / 2 / problem.edges.n_edges  # the least ||L||_F
        np.testing.assert_allclose(fit.w, even, rtol=1e-2)

    def test_callers_arrays_are_not_written(self, problem: Problem) -> None:
        first = problem.H.transpose(2, 0, 1).copy()
        arrays = (problem.X, problem.L0, problem.tau, first)
        before = [a.copy() for a in arrays]
        options = PaperOptions(first_sources=first)
        problem.solve(learn_scales=True, max_iter=3, options=options)
        for array, copy in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(array, copy)

    def test_interrupt_keeps_the_best(self, problem: Problem) -> None:
        seen: list[Progress] = []

        def stop_at_five(progress: Progress, /) -> None:
            seen.append(progress)
            if progress.iteration == 5:
                raise KeyboardInterrupt

        fit = problem.solve(tol=0.0, monitor=stop_at_five)
        reference = problem.solve(max_iter=5, tol=0.0)
        assert (fit.status, fit.n_iter) == (Status.INTERRUPTED, 5)
        np.testing.assert_array_equal(fit.w, reference.w)
        assert [p.objective for p in seen] == list(fit.objective[1:])
        assert seen[-1].n_edges == np.sum(fit.w > 1e-4)

    def test_interrupt_within_a_step_keeps_the_last_iterate(
        self, problem: Problem, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        solve, calls = LaplacianQP.solve, []

        def interrupted(self: LaplacianQP, *args: object) -> Array:
            calls.append(args)
            if len(calls) == 6:
                raise KeyboardInterrupt
            return solve(self, *args)  # type: ignore[arg-type]

        monkeypatch.setattr(LaplacianQP, "solve", interrupted)
        fit = problem.solve(tol=0.0)
        assert fit.status == Status.INTERRUPTED
        assert 1 <= fit.n_iter <= 5
        assert fit.objective.size == fit.n_iter + 1

    def test_equivariant_under_permutation_of_nodes(self, problem: Problem) -> None:
        order = np.random.default_rng(5).permutation(problem.edges.n_nodes)
        fit = problem.solve(max_iter=30, tol=0.0)
        permuted = solve_paper(
            problem.X[order],
            problem.edges,
            problem.L0[np.ix_(order, order)],
            problem.tau,
            alpha=ALPHA,
            beta=BETA,
            learn_scales=False,
            max_iter=30,
            tol=0.0,
        )
        L = problem.edges.laplacian(fit.w)[np.ix_(order, order)]
        np.testing.assert_allclose(problem.edges.laplacian(permuted.w), L, atol=1e-4)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("gamma", (1.0, 1.1, 1.1)),
            ("eta", 1.0),
            ("first_sources", np.zeros((1, 2, 3))),
        ],
    )
    def test_bad_options_are_named(self, problem: Problem, name: str, value: object) -> None:
        with pytest.raises(ValueError, match=name):
            problem.solve(options=PaperOptions(**{name: value}))  # type: ignore[arg-type]

    @pytest.mark.filterwarnings("ignore:LearnHeat:sklearn.exceptions.ConvergenceWarning")
    def test_options_are_those_of_the_estimator(self, problem: Problem) -> None:
        X = problem.X.T
        first = problem.H.transpose(2, 0, 1)
        given = {"alpha": ALPHA, "beta": BETA, "scales": problem.tau, "learn_scales": False}
        given |= {"atoms": "raw", "max_iter": 3, "tol": 0.0}
        plain = LearnHeat(solver="paper", **given).fit(X)
        same = LearnHeat(solver=PaperOptions(), **given).fit(X)
        np.testing.assert_array_equal(plain.weights_, same.weights_)
        started = LearnHeat(solver=PaperOptions(first_sources=first), **given).fit(X)
        # From the true sources the fit is better after three steps than from none.
        assert started.objective_[-1] < plain.objective_[-1]
        # Other signals than the sources are of: the remedy is named.
        with pytest.raises(ValueError, match="first_sources must be finite and"):
            LearnHeat(solver=PaperOptions(first_sources=first), **given).fit(X[:5])

    def test_start_off_the_candidates_is_refused(self, problem: Problem) -> None:
        edges = ring_and_chords(problem.edges.n_nodes)
        with pytest.raises(ValueError, match="L0"):
            solve_paper(
                problem.X, edges, problem.L0, problem.tau, alpha=1.0, beta=1.0, learn_scales=False
            )
