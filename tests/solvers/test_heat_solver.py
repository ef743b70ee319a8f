"""The default solver of LearnHeat: descent, stationarity, symmetries, and the paper's loop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.models.heat import ATOMS, HeatObjective, Signals
from heatgraph.models.simplex import ValidSet, project_simplex
from heatgraph.solvers.driver import Record
from heatgraph.solvers.engine import LocalEngine, code_signals
from heatgraph.solvers.heat import solve_heat
from heatgraph.solvers.palm import PaperOptions, solve_paper
from heatgraph.solvers.result import Progress, Solution, Status

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    X: Array  # (N, M), NaN where not observed
    edges: CandidateEdges
    w: Array  # the start
    tau: Array
    atoms: str
    alpha: float = 0.02
    beta: float = 0.01
    learn_scales: bool = False

    @property
    def objective(self) -> HeatObjective:
        return HeatObjective(self.edges, self.alpha, self.beta, ATOMS[self.atoms])

    @property
    def signals(self) -> Signals:
        return Signals.from_missing(self.X)

    def solve(self, **options: object) -> Solution:
        settings: dict[str, object] = {
            "learn_scales": self.learn_scales,
            "max_iter": 1000,
            "tol": 1e-7,
        }
        engine = LocalEngine(self.objective, self.signals, options.pop("n_threads", 1))  # type: ignore[arg-type]
        start = replace(Solution(self.w, self.tau), codes=options.pop("codes", None))
        return solve_heat(engine, start, **(settings | options))  # type: ignore[arg-type]

    def gradient(self, s: Solution) -> tuple[Array, Array]:
        """In the weights and in the scales, at the codes of a solution."""
        f = self.objective
        D = f.dictionary(s.w, s.tau)
        g = f.evaluate(D, s.w, f.moments(D, self.signals, s.codes))[1]
        return g[: s.w.size], g[s.w.size :]


def make_problem(
    n: int = 12,
    m: int = 60,
    tau: tuple[float, ...] = (1.0, 3.0),
    atoms: str = "unit",
    missing: float = 0.0,
    seed: int = 0,
    **options: object,
) -> Problem:
    graph = make_graph("er", n, random_state=seed, p=0.3)
    X = make_heat_signals(graph, tau, m, noise_std=0.02, random_state=seed)[0].T.copy()
    rng = np.random.default_rng(seed)
    X[rng.uniform(size=X.shape) < missing] = np.nan
    edges = CandidateEdges.complete(n)
    w = project_simplex(rng.uniform(size=edges.n_edges), 0.5 * n)
    return Problem(X, edges, w, np.array(tau), atoms, **options)  # type: ignore[arg-type]


def true_weights(problem: Problem, seed: int = 0) -> Array:
    graph = make_graph("er", problem.edges.n_nodes, random_state=seed, p=0.3)
    return problem.edges.weights(graph.laplacian().toarray())


CASES = {
    "raw": make_problem(atoms="raw"),
    "unit": make_problem(),
    "one scale": make_problem(tau=(2.0,)),
    "missing": make_problem(missing=0.2),
    "scales": make_problem(learn_scales=True),
    "scales and missing": make_problem(tau=(2.0,), missing=0.2, learn_scales=True),
}


@pytest.fixture(scope="module", params=CASES)
def solved(request: pytest.FixtureRequest) -> tuple[Problem, Solution]:
    problem = CASES[request.param]
    return problem, problem.solve()


class TestEnd:
    def test_converges(self, solved: tuple[Problem, Solution]) -> None:
        _, solution = solved
        assert solution.status == Status.CONVERGED
        assert solution.residual <= 1e-7

    def test_objective_never_rises(self, solved: tuple[Problem, Solution]) -> None:
        _, solution = solved
        assert np.all(np.diff(solution.objective) <= 1e-11 * solution.objective[0])
        assert solution.objective[-1] < 0.9 * solution.objective[0]
        assert solution.objective.size == solution.n_iter + 1

    def test_point_is_valid(self, solved: tuple[Problem, Solution]) -> None:
        problem, solution = solved
        assert np.all(solution.w >= 0.0)
        assert solution.w.sum() == pytest.approx(problem.edges.n_nodes / 2, rel=1e-12)
        assert np.all(solution.tau >= 0.0)
        assert problem.learn_scales or np.array_equal(solution.tau, problem.tau)

    def test_value_is_that_of_the_point(self, solved: tuple[Problem, Solution]) -> None:
        problem, s = solved
        D = problem.objective.dictionary(s.w, s.tau)
        residual = problem.X - D.synthesis(s.codes).T
        value = (
            np.nansum(residual**2)
            + problem.alpha * np.sum(D.omega.ravel() * np.abs(s.codes))
            + problem.beta * np.sum(problem.edges.laplacian(s.w) ** 2)
        )
        assert s.objective[-1] == pytest.approx(value, rel=1e-10)

    def test_graph_is_a_fixed_point_of_projected_gradient(
        self, solved: tuple[Problem, Solution]
    ) -> None:
        problem, s = solved
        f = problem.objective
        g, g_tau = problem.gradient(s)
        length = 1.0 / np.abs(g).max()
        step = project_simplex(s.w - length * g, f.total) - s.w
        assert np.abs(step).max() < 1e-3
        # On the support the slope is the multiplier, elsewhere it is no less.
        multiplier = g @ s.w / f.total
        scale = s.objective[-1] / f.total
        assert np.all(g >= multiplier - 1e-6 * scale)
        assert np.abs((g - multiplier) * s.w).max() < 1e-6 * s.objective[-1]
        if problem.learn_scales:
            assert np.abs(np.maximum(s.tau - g_tau, 0.0) - s.tau).max() < 1e-5 * s.objective[-1]

    def test_sources_satisfy_their_optimality_conditions(
        self, solved: tuple[Problem, Solution]
    ) -> None:
        problem, s = solved
        D = problem.objective.dictionary(s.w, s.tau)
        residual = np.nan_to_num(problem.X - D.synthesis(s.codes).T)
        slope = 2.0 * residual.T @ D.kernel.atoms(s.tau)
        bound = problem.alpha * np.broadcast_to(D.omega.ravel(), s.codes.shape)
        on = s.codes != 0.0
        np.testing.assert_allclose(slope[on], (bound * np.sign(s.codes))[on], atol=1e-7)
        assert np.all(np.abs(slope[~on]) <= bound[~on] + 1e-7)


class TestSolver:
    def test_recovers_the_graph(self) -> None:
        problem = make_problem(n=15, m=200, learn_scales=True)
        solution = problem.solve(tol=1e-5)
        truth = true_weights(problem)
        n_true = np.count_nonzero(truth)
        largest = np.argsort(solution.w)[-n_true:]
        assert np.mean(truth[largest] > 0.0) > 0.9

    def test_same_start_same_bits(self) -> None:
        problem = CASES["scales and missing"]
        runs = [problem.solve(max_iter=15, n_threads=n) for n in (1, 1, 3)]
        for run in runs[1:]:
            np.testing.assert_array_equal(run.w, runs[0].w)
            np.testing.assert_array_equal(run.codes, runs[0].codes)
            np.testing.assert_array_equal(run.objective, runs[0].objective)

    @pytest.mark.parametrize("n", [5, 8, 12])
    def test_same_bits_wherever_arrays_are(self, n: int) -> None:
        # Compiled loops ask whether arrays are near each other, and small ones often are.
        problem = make_problem(n=n, m=30, learn_scales=True)
        rng, held, first = np.random.default_rng(0), [], problem.solve(max_iter=30)
        for _ in range(15):
            held += [np.empty(size) for size in rng.integers(1, 100, size=50)]
            del held[:: rng.integers(2, 5)]
            run = problem.solve(max_iter=30)
            np.testing.assert_array_equal(run.w, first.w)
            np.testing.assert_array_equal(run.objective, first.objective)

    def test_what_was_kept_stays_what_it_was(self) -> None:
        # As long as it may take until a file can be written.
        class Attic:
            due = True
            kept: ClassVar[list[tuple[Record, bytes]]] = []

            def within(self, name: str, /) -> Attic:
                return self

            def get(self) -> Record | None:
                return None

            def put(self, record: Record, /) -> None:
                self.kept.append((record, as_bytes(record)))

        def as_bytes(record: Record) -> bytes:
            return b"".join(array.tobytes() for array in record.arrays.values())

        CASES["scales"].solve(max_iter=60, tol=0.0, keeper=Attic())
        assert len(Attic.kept) > 50
        assert all(as_bytes(record) == before for record, before in Attic.kept)

    def test_callers_arrays_are_not_written(self) -> None:
        problem = CASES["scales"]
        codes = np.random.default_rng(0).normal(size=(60, 24))
        arrays = (problem.X, problem.w, problem.tau, codes)
        before = [a.copy() for a in arrays]
        problem.solve(max_iter=3, codes=codes)
        for array, copy in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(array, copy)

    def test_codes_at_the_start_do_not_decide_the_end(self) -> None:
        problem = CASES["unit"]
        codes = np.random.default_rng(0).normal(size=(60, 24))
        cold, warm = problem.solve(), problem.solve(codes=codes)
        assert warm.objective[0] == pytest.approx(cold.objective[0], rel=1e-9)
        np.testing.assert_allclose(warm.w, cold.w, atol=1e-3)

    def test_restart_at_the_end_ends_at_once(self) -> None:
        problem = CASES["scales"]
        end = problem.solve()
        again = replace(problem, w=end.w, tau=end.tau).solve(tol=1e-6)
        assert (again.status, again.n_iter) == (Status.CONVERGED, 0)

    def test_iteration_limit(self) -> None:
        solution = CASES["unit"].solve(max_iter=2, tol=0.0)
        assert (solution.status, solution.n_iter) == (Status.MAX_ITER, 2)

    def test_monitor_sees_every_iteration_and_may_stop(self) -> None:
        seen: list[Progress] = []

        def monitor(progress: Progress, /) -> None:
            seen.append(progress)
            if progress.iteration == 5:
                raise KeyboardInterrupt

        solution = CASES["unit"].solve(monitor=monitor)
        assert (solution.status, solution.n_iter) == (Status.INTERRUPTED, 5)
        assert [p.iteration for p in seen] == list(range(6))
        assert [p.objective for p in seen] == list(solution.objective)
        assert seen[-1].n_edges == np.count_nonzero(solution.w)
        assert seen[-1].residual == solution.residual

    def test_smallest_graphs(self) -> None:
        rng = np.random.default_rng(0)
        for n in (2, 3):
            edges = CandidateEdges.complete(n)
            w = np.full(edges.n_edges, 0.5 * n / edges.n_edges)
            X = rng.normal(size=(n, 10))
            solution = Problem(X, edges, w, np.array([0.5]), "unit", learn_scales=True).solve()
            assert solution.status == Status.CONVERGED
            assert solution.w.sum() == pytest.approx(0.5 * n)

    def test_silence_spreads_the_weights(self) -> None:
        # No signal: only ||L||_F^2 is left, least where all weights are equal.
        problem = replace(CASES["unit"], X=np.zeros((12, 5)))
        solution = problem.solve(tol=1e-12)
        assert solution.status == Status.CONVERGED
        assert not solution.codes.any()
        np.testing.assert_allclose(solution.w, 1.0 / 11.0, rtol=1e-5)

    def test_signals_without_a_single_entry_change_nothing(self) -> None:
        problem = CASES["missing"]
        empty = np.full((12, 3), np.nan)
        solution = replace(problem, X=np.hstack([problem.X, empty])).solve(max_iter=20)
        np.testing.assert_allclose(solution.w, problem.solve(max_iter=20).w, atol=1e-6)
        assert not solution.codes[-3:].any()


class TestCandidates:
    def test_weights_only_there(self) -> None:
        problem = CASES["unit"]
        every = problem.edges
        kept = np.random.default_rng(1).uniform(size=every.n_edges) < 0.5
        some = CandidateEdges(12, every.i[kept], every.j[kept])
        start = project_simplex(problem.w[kept], 6.0)
        few = replace(problem, edges=some, w=start).solve()
        assert few.w.shape == (some.n_edges,)
        assert few.w.sum() == pytest.approx(6.0)
        assert few.status == Status.CONVERGED
        # The same minimisation as over all pairs with the others held at zero: no lower value.
        lifted = np.zeros(every.n_edges)
        lifted[kept] = few.w
        freed = replace(problem, w=lifted).solve()
        assert freed.objective[0] == pytest.approx(few.objective[-1], rel=1e-9)
        assert freed.objective[-1] <= few.objective[-1]

    def test_true_edges_alone(self) -> None:
        problem = CASES["unit"]
        truth = true_weights(problem)
        kept = truth > 0.0
        edges = CandidateEdges(12, problem.edges.i[kept], problem.edges.j[kept])
        start = np.full(edges.n_edges, 6.0 / edges.n_edges)
        solution = replace(problem, edges=edges, w=start).solve()
        assert np.count_nonzero(solution.w) > 0.9 * edges.n_edges


class TestSymmetries:
    @pytest.mark.parametrize("name", ["raw", "scales and missing"])
    def test_permuting_nodes_permutes_the_graph(self, name: str) -> None:
        problem = CASES[name]
        order = np.random.default_rng(2).permutation(12)
        L = problem.edges.laplacian(problem.w)[np.ix_(order, order)]
        permuted = replace(problem, X=problem.X[order], w=problem.edges.weights(L))
        # Few steps: rounding decides later which way a nonconvex problem goes.
        fit, fit_permuted = problem.solve(max_iter=20), permuted.solve(max_iter=20)
        expected = problem.edges.laplacian(fit.w)[np.ix_(order, order)]
        np.testing.assert_allclose(problem.edges.laplacian(fit_permuted.w), expected, atol=1e-6)
        np.testing.assert_allclose(fit_permuted.tau, fit.tau, atol=1e-6)

    @pytest.mark.parametrize("c", [1e-4, 1e4])
    def test_scaling_the_signals(self, c: float) -> None:
        problem = CASES["scales"]
        scaled = replace(
            problem, X=c * problem.X, alpha=c * problem.alpha, beta=c**2 * problem.beta
        )
        fit, fit_scaled = problem.solve(max_iter=20), scaled.solve(max_iter=20)
        np.testing.assert_allclose(fit_scaled.w, fit.w, atol=1e-6)
        np.testing.assert_allclose(fit_scaled.tau, fit.tau, atol=1e-6)
        np.testing.assert_allclose(fit_scaled.objective, c**2 * fit.objective, rtol=1e-9)

    def test_order_of_the_signals(self) -> None:
        problem = CASES["unit"]
        backwards = replace(problem, X=problem.X[:, ::-1].copy())
        np.testing.assert_allclose(
            backwards.solve(max_iter=20).w, problem.solve(max_iter=20).w, atol=1e-6
        )


# Short scales: a dictionary on which the paper's single steps converge.
PAPERS = make_problem(n=8, m=30, tau=(0.5, 1.5), atoms="raw", alpha=0.1, beta=0.05)


class TestAgainstThePaper:
    """The paper's loop minimises the same function: no lower, and it stays where we end."""

    def solve(self, w, **more):
        pytest.importorskip("scs")
        problem, given = PAPERS, {"alpha": PAPERS.alpha, "beta": PAPERS.beta}
        L = problem.edges.laplacian(w)
        given |= {"learn_scales": False, "tol": 0.0}
        return solve_paper(problem.X, problem.edges, L, problem.tau, **given, **more)

    def test_paper_stays_at_our_end(self) -> None:
        ours = PAPERS.solve()
        end = PaperOptions(first_sources=ours.codes.reshape(-1, PAPERS.tau.size, 8))
        theirs = self.solve(ours.w, max_iter=30, options=end)
        assert theirs.objective[0] == pytest.approx(ours.objective[-1], rel=1e-9)
        assert theirs.objective[-1] == pytest.approx(ours.objective[-1], rel=1e-6)
        np.testing.assert_allclose(theirs.w, ours.w, atol=1e-2)

    def test_paper_from_the_same_start_ends_within_one_percent(self) -> None:
        ours, theirs = PAPERS.solve(), self.solve(PAPERS.w, max_iter=600)
        assert ours.objective[-1] <= theirs.objective[-1] * (1.0 + 1e-6)
        assert ours.objective[-1] == pytest.approx(theirs.objective[-1], rel=1e-2)


class TestScales:
    def test_unit_atoms_find_the_same_scale_from_any_start(self) -> None:
        problem = make_problem(n=15, m=200, tau=(2.0,), learn_scales=True)
        ends = [
            replace(problem, tau=np.array([start])).solve(tol=1e-6) for start in (0.7, 2.0, 5.0)
        ]
        for end in ends[1:]:
            np.testing.assert_allclose(end.tau, ends[0].tau, rtol=1e-3)
            assert end.objective[-1] == pytest.approx(ends[0].objective[-1], rel=1e-4)
        # Short of the truth, as the penalties are not nil; far from nothing.
        assert 1.0 < ends[0].tau[0] < 2.0

    def test_unit_atoms_find_the_same_pair_of_scales(self) -> None:
        problem = make_problem(n=15, m=200, tau=(0.8, 4.0), learn_scales=True)
        ends = [
            replace(problem, tau=np.array(start)).solve(tol=1e-6)
            for start in ((0.8, 4.0), (0.5, 2.0), (4.0, 1.0))
        ]
        for end in ends[1:]:
            np.testing.assert_allclose(np.sort(end.tau), np.sort(ends[0].tau), rtol=1e-2)
            assert end.objective[-1] == pytest.approx(ends[0].objective[-1], rel=1e-3)

    def test_raw_atoms_prefer_the_identity(self) -> None:
        # Diffusion only lowers the l1 norm: tau = 0 with thresholded signals beats the truth.
        problem = make_problem(atoms="raw", tau=(2.0,), learn_scales=True)
        f = problem.objective
        even = np.full_like(problem.w, 6.0 / problem.w.size)

        def lasso(w: Array, tau: float, f: HeatObjective) -> float:
            D = f.dictionary(w, np.array([tau]))
            return float(code_signals(D, problem.signals, f.alpha).value.sum())

        truth = true_weights(problem)
        assert lasso(even, 0.0, f) < lasso(truth, 2.0, f)
        # And the lower the scale, the lower the value, whatever the graph.
        for w in (even, truth, problem.w):
            values = [lasso(w, tau, f) for tau in (0.0, 0.5, 1.0, 2.0)]
            assert min(values) == values[0]
        # With unit atoms the truth wins.
        unit = replace(problem, atoms="unit").objective
        assert lasso(truth, 2.0, unit) < lasso(even, 0.0, unit)

    def test_raw_atoms_with_learned_scales_collapse(self) -> None:
        raw = make_problem(atoms="raw", tau=(2.0,), learn_scales=True, beta=1e-4).solve(tol=1e-5)
        unit = make_problem(atoms="unit", tau=(2.0,), learn_scales=True, beta=1e-4).solve(tol=1e-5)
        assert raw.tau[0] < 0.1
        assert unit.tau[0] > 1.0


class TestCodeSignals:
    def test_value_is_the_part_of_the_objective_that_sources_have(self) -> None:
        problem = CASES["unit"]
        D = problem.objective.dictionary(problem.w, problem.tau)
        coding = code_signals(D, problem.signals, problem.alpha)
        start = problem.solve(max_iter=0)
        spread = (
            problem.objective.beta
            * np.square(problem.objective.candidates.laplacian(problem.w)).sum()
        )
        assert start.objective[0] == pytest.approx(coding.value.sum() + spread, rel=1e-10)

    def test_hidden_entries_do_not_matter(self) -> None:
        problem = CASES["missing"]
        D = problem.objective.dictionary(problem.w, problem.tau)
        assert problem.signals.observed is not None
        coding = code_signals(D, problem.signals, problem.alpha)
        assert np.all(coding.gap <= 1e-10 * problem.signals.energy)
        whole = code_signals(D, Signals(problem.signals.X), problem.alpha)
        assert np.abs(whole.h - coding.h).max() > 0.01


def test_residual_is_the_relative_descent() -> None:
    problem = CASES["unit"]
    s = problem.solve(max_iter=5, tol=0.0)
    f = problem.objective
    descent = ValidSet(s.w.size, f.total).descent(s.w, problem.gradient(s)[0])
    assert s.residual == pytest.approx(descent / s.objective[-1], rel=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_contrasts_are_the_squared_distances_of_the_pairs(missing: float) -> None:
    problem = make_problem(missing=missing)
    X, edges = np.nan_to_num(problem.X), problem.edges
    expected = np.square(X[edges.i] - X[edges.j]).sum(axis=1)
    contrasts, energy = LocalEngine(problem.objective, problem.signals).contrasts()
    np.testing.assert_allclose(contrasts, expected, rtol=1e-9)
    assert energy == pytest.approx(np.square(X).sum())


def test_nodes_that_do_not_differ_have_a_metric_too() -> None:
    problem = make_problem()
    alike = replace(problem, X=np.ones_like(problem.X))
    assert np.isfinite(alike.solve(max_iter=5).objective).all()
