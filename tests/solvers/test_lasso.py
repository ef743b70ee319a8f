"""Sparse coding: its optimality conditions, its certificate, and the dictionaries that hurt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.kernels.eigen import DenseHeat
from heatgraph.models.heat import ATOMS
from heatgraph.solvers.engine import Coding, code

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
TOL = 1e-11


@dataclass(frozen=True)
class Lasso:
    """``||x - D h||^2 + a . |h|`` of every row ``x`` of ``X`` (M, N), ``D`` (N, K)."""

    D: Array
    X: Array
    a: Array

    @property
    def energy(self) -> Array:
        return np.sum(self.X**2, axis=1)

    def solve(self, start: Array | None = None, tol: float = TOL, n_threads: int = 1) -> Coding:
        start = np.zeros((len(self.X), self.a.size)) if start is None else start
        G = self.D.T @ self.D
        return code(G, self.X @ self.D, self.a, self.energy, start, tol=tol, n_threads=n_threads)

    def value(self, h: Array) -> Array:
        return np.sum((self.X - h @ self.D.T) ** 2, axis=1) + np.abs(h) @ self.a

    def violation(self, h: Array) -> float:
        """The distance of ``2 D^T r`` to the subdifferential of ``a . |h|``, over ``a``."""
        slope = 2.0 * (self.X - h @ self.D.T) @ self.D
        on = np.abs(slope - self.a * np.sign(h))
        off = np.maximum(np.abs(slope) - self.a, 0.0)
        return float(np.max(np.where(h != 0.0, on, off) / self.a))


def heat_lasso(
    kind: str = "er",
    tau: tuple[float, ...] = (2.5, 4.0),
    alpha: float = 1e-2,
    atoms: str = "unit",
    n_nodes: int = 20,
    n_signals: int = 15,
) -> Lasso:
    graph = make_graph(kind, n_nodes, random_state=0)
    X, _ = make_heat_signals(graph, [2.5, 4.0], n_signals, noise_std=0.02, random_state=1)
    kernel, scales = DenseHeat.from_laplacian(graph.laplacian().toarray()), np.array(tau)
    return Lasso(kernel.atoms(scales), X, alpha * ATOMS[atoms].weights(kernel, scales).ravel())


class TestOptimality:
    @pytest.mark.parametrize("kind", ["er", "rbf", "ba", "ring"])
    @pytest.mark.parametrize("atoms", ["raw", "unit"])
    @pytest.mark.parametrize("alpha", [1.0, 1e-1, 1e-2, 1e-3])
    def test_conditions_hold(self, kind: str, atoms: str, alpha: float) -> None:
        problem = heat_lasso(kind, alpha=alpha, atoms=atoms)
        coding = problem.solve()
        assert np.all(coding.gap <= TOL * problem.energy)
        assert problem.violation(coding.h) < 1e-7
        np.testing.assert_allclose(coding.value, problem.value(coding.h), rtol=1e-10)

    def test_against_an_interior_point_method(self) -> None:
        cp = pytest.importorskip("cvxpy")
        problem = heat_lasso(alpha=1e-3, n_signals=6)
        h = cp.Variable((6, problem.a.size))
        value = cp.sum_squares(problem.X - h @ problem.D.T) + cp.sum(cp.abs(h) @ problem.a)
        cp.Problem(cp.Minimize(value)).solve(
            solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11
        )
        assert problem.solve().value.sum() == pytest.approx(value.value, rel=1e-7)

    def test_against_coordinate_descent(self, rng: np.random.Generator) -> None:
        from sklearn.linear_model import Lasso as Reference

        D, x = rng.normal(size=(30, 12)), rng.normal(size=30)
        problem = Lasso(D, x[None], np.full(12, 8.0))
        # scikit-learn divides the squares by 2 n: alpha = a / (2 n).
        reference = Reference(alpha=8.0 / 60, fit_intercept=False, tol=1e-14, max_iter=100_000)
        h = reference.fit(D, x).coef_
        assert 0 < np.count_nonzero(h) < 12
        np.testing.assert_allclose(problem.solve().h[0], h, atol=1e-8)

    def test_a_penalty_beyond_every_correlation_leaves_nothing(self) -> None:
        problem = heat_lasso()
        bound = 2.0 * np.abs(problem.X @ problem.D).max()
        above = Lasso(problem.D, problem.X, np.full_like(problem.a, 1.001 * bound)).solve()
        assert not above.h.any()
        np.testing.assert_allclose(above.value, problem.energy)
        below = Lasso(problem.D, problem.X, np.full_like(problem.a, 0.999 * bound)).solve()
        assert np.count_nonzero(below.h) >= 1

    @pytest.mark.parametrize("tol", [1.0, 1e-1, 1e-2, 1e-3, 1e-5])
    def test_gap_bounds_the_distance_to_the_optimum(self, tol: float) -> None:
        problem = heat_lasso("ba", alpha=1e-4)
        best = problem.value(problem.solve(tol=1e-13).h)
        loose = problem.solve(tol=tol)
        excess = problem.value(loose.h) - best
        assert np.all(excess <= loose.gap + 1e-12 * problem.energy)
        assert np.all(excess >= -1e-12 * problem.energy)
        assert np.all(loose.gap <= tol * problem.energy)

    def test_loose_tolerances_do_stop_early(self) -> None:
        problem = heat_lasso("ba", alpha=1e-4)
        assert np.any(problem.solve(tol=1e-1).gap > 1e-6 * problem.energy)


class TestStart:
    def test_any_start_reaches_the_same_codes(self, rng: np.random.Generator) -> None:
        problem = heat_lasso(alpha=1e-2)
        cold = problem.solve()
        sparse = np.where(rng.uniform(size=cold.h.shape) < 0.2, rng.normal(size=cold.h.shape), 0.0)
        for start in (cold.h, -cold.h, sparse, rng.normal(size=cold.h.shape)):
            warm = problem.solve(start)
            np.testing.assert_allclose(warm.value, cold.value, rtol=1e-10)
            np.testing.assert_allclose(warm.h, cold.h, atol=1e-5)

    def test_start_is_not_written(self, rng: np.random.Generator) -> None:
        problem = heat_lasso()
        start = rng.normal(size=(15, 40))
        before = start.copy()
        problem.solve(start)
        np.testing.assert_array_equal(start, before)


class TestHardDictionaries:
    @pytest.mark.parametrize(
        "tau",
        [
            (2.5, 2.5),
            (2.5, 2.5, 2.5),
            (0.0, 0.0),
            (50.0, 50.0),  # every atom nearly the constant
            (2.5, 2.5 + 1e-8),
            (4.0, 4.0001),
            (0.0, 1e-6),
        ],
    )
    @pytest.mark.parametrize("atoms", ["raw", "unit"])
    @pytest.mark.parametrize("alpha", [1e-2, 1e-3])
    def test_atoms_that_depend_on_each_other(
        self, tau: tuple[float, ...], atoms: str, alpha: float
    ) -> None:
        problem = heat_lasso("ba", tau, alpha, atoms, n_nodes=40)
        coding = problem.solve()
        assert np.all(coding.gap <= 1e-9 * problem.energy)
        assert problem.violation(coding.h) < 1e-4
        # A basic solution: never more atoms than there are dimensions.
        assert np.count_nonzero(coding.h, axis=1).max() <= 40

    def test_start_on_dependent_atoms(self, rng: np.random.Generator) -> None:
        problem = heat_lasso(tau=(2.5, 2.5))
        coding = problem.solve(rng.normal(size=(15, 40)))
        np.testing.assert_allclose(coding.value, problem.solve().value, rtol=1e-9)

    @pytest.mark.parametrize("alpha", [1e-4, 1e-6])
    def test_tiny_penalties(self, alpha: float) -> None:
        problem = heat_lasso("er", (2.5, 4.0), alpha, n_nodes=30)
        coding = problem.solve()
        assert np.all(coding.gap <= 1e-10 * problem.energy)
        # With a penalty this small nothing of the signals is left unexplained.
        assert np.all(coding.value < 0.05 * problem.energy)

    def test_no_penalty_is_least_squares(self) -> None:
        problem = heat_lasso(tau=(1.0,), alpha=0.0)
        coding = problem.solve()
        np.testing.assert_allclose(coding.h, np.linalg.solve(problem.D, problem.X.T).T, atol=1e-9)
        assert np.all(coding.value <= 1e-12 * problem.energy)

    def test_exact_ties(self) -> None:
        # A symmetric signal on a ring: atoms enter, and leave, two at a time.
        L = 2.0 * np.eye(12) - np.roll(np.eye(12), 1, axis=0) - np.roll(np.eye(12), -1, axis=0)
        D = DenseHeat.from_laplacian(0.5 * L).atoms(np.array([1.0, 1.0, 3.0]))
        x = np.zeros(12)
        x[[0, 3, 6, 9]] = 1.0
        X = np.stack([x, np.eye(12)[0], np.eye(12)[0] - np.eye(12)[6], np.ones(12)])
        problem = Lasso(D, X, np.full(36, 0.05))
        dense = problem.solve(np.ones((4, 36)))
        for coding in (problem.solve(), dense, problem.solve(-dense.h)):
            assert np.all(coding.gap <= 1e-10 * problem.energy)
            assert problem.violation(coding.h) < 1e-6

    @pytest.mark.parametrize("positive", [False, True])
    def test_ties_of_every_kind(self, positive: bool) -> None:
        # Small integers: atoms repeat, depend, and reach zero together, from starts off the mark.
        rng, kind = np.random.default_rng(0), PositiveLasso if positive else Lasso
        for _ in range(300):
            D = rng.integers(-1, 2, size=(4, 7)).astype(np.float64)
            X = rng.integers(-2, 3, size=(5, 4)).astype(np.float64)
            problem = kind(D, X, np.full(7, 0.5 * rng.integers(1, 5)))
            coding = problem.solve(rng.integers(-1, 2, size=(5, 7)).astype(np.float64))
            assert np.all(coding.gap <= TOL * problem.energy)
            assert problem.violation(coding.h) < 1e-6

    @pytest.mark.parametrize("size", [1.0, 1e-165])
    def test_codes_whose_products_are_zero_stay_on_the_support(self, size: float) -> None:
        rng = np.random.default_rng(0)
        D, signs = rng.normal(size=(12, 9)), np.where(np.arange(9) % 2, 1, -1)
        start = size * signs * rng.uniform(1.0, 2.0, size=(1, 9))
        c, a = D.T @ (D @ (1.5 * size * signs)), np.full(9, 1e-3 * size)
        energy = np.array([np.sum((D @ (1.5 * size * signs)) ** 2)])
        h = code(D.T @ D, c[None], a, energy, start, tol=TOL).h[0]
        np.testing.assert_array_equal(np.sign(h), signs)
        np.testing.assert_allclose(D.T @ (D @ (h / size)), (c - 0.5 * a * signs) / size, rtol=1e-9)

    def test_flat_directions_from_codes_that_grow_along_them(self) -> None:
        # Two equal atoms, no penalty: all codes of the same sum are as good.
        problem = Lasso(np.ones((1, 2)), np.ones((1, 1)), np.zeros(2))
        coding = problem.solve(np.array([[-3.0, 5.0]]))
        assert coding.h.sum() == pytest.approx(1.0)
        assert coding.gap[0] <= TOL

    @pytest.mark.parametrize("kind", ["er", "ba"])
    def test_nearly_equal_scales_with_a_small_penalty(self, kind: str) -> None:
        # Which of two nearly equal atoms stays is for the fit to say as much as the penalty.
        problem = heat_lasso(kind, (4.0, 4.0001), 1e-5, n_nodes=60, n_signals=10)
        assert np.all(problem.solve().gap <= 1e-10 * problem.energy)

    def test_supports_of_hundreds_of_atoms(self, rng: np.random.Generator) -> None:
        D, X = rng.normal(size=(900, 430)) / 30.0, rng.normal(size=(2, 900))
        problem = Lasso(D, X, np.full(430, 1e-2))
        coding = problem.solve(tol=1e-8)
        assert np.count_nonzero(coding.h, axis=1).min() > 400
        assert np.all(coding.gap <= 1e-8 * problem.energy)
        assert problem.violation(coding.h) < 1e-3

    def test_atom_that_is_zero_is_never_used(self, rng: np.random.Generator) -> None:
        D = rng.normal(size=(10, 5))
        D[:, 2] = 0.0
        coding = Lasso(D, rng.normal(size=(3, 10)), np.full(5, 0.1)).solve(np.ones((3, 5)))
        np.testing.assert_array_equal(coding.h[:, 2], 0.0)
        assert np.all(coding.h[:, [0, 1, 3, 4]] != 0.0)


class TestSignals:
    def test_silent_signals_have_silent_codes(self) -> None:
        problem = heat_lasso()
        X = problem.X.copy()
        X[3] = 0.0
        for start in (None, np.ones((15, 40))):
            coding = Lasso(problem.D, X, problem.a).solve(start)
            np.testing.assert_array_equal(coding.h[3], 0.0)
            assert coding.value[3] == coding.gap[3] == 0.0
            assert np.isfinite(coding.value).all()

    @pytest.mark.parametrize("c", [1e-6, 1e6])
    def test_scaling_signals_and_penalty_scales_codes(self, c: float) -> None:
        problem = heat_lasso()
        scaled = Lasso(problem.D, c * problem.X, c * problem.a).solve()
        np.testing.assert_allclose(scaled.h, c * problem.solve().h, atol=1e-7 * c)

    def test_threads_do_not_change_a_bit(self) -> None:
        problem = heat_lasso(n_signals=17)
        alone = problem.solve()
        for n_threads in (2, 3, 40):
            several = problem.solve(n_threads=n_threads)
            np.testing.assert_array_equal(several.h, alone.h)
            np.testing.assert_array_equal(several.gap, alone.gap)

    def test_order_does_not_change_a_bit(self) -> None:
        problem = heat_lasso()
        G, C, start = problem.D.T @ problem.D, problem.X @ problem.D, np.zeros((15, 40))
        backwards = code(G, C[::-1], problem.a, problem.energy[::-1], start, tol=TOL)
        np.testing.assert_array_equal(backwards.h[::-1], problem.solve().h)


def solve_masked(problem: Lasso, observed: Bools, n_threads: int = 1) -> Coding:
    X = np.where(observed, problem.X, 0.0)
    return code(
        problem.D.T @ problem.D,
        X @ problem.D,
        problem.a,
        np.sum(X**2, axis=1),
        np.zeros((len(X), problem.a.size)),
        tol=TOL,
        D=problem.D,
        observed=observed,
        n_threads=n_threads,
    )


class TestMissingEntries:
    @pytest.mark.parametrize("alpha", [1e-1, 1e-3])
    def test_coding_on_the_rows_that_were_observed(
        self, alpha: float, rng: np.random.Generator
    ) -> None:
        problem = heat_lasso(alpha=alpha)
        observed = rng.uniform(size=problem.X.shape) < 0.6
        coding = solve_masked(problem, observed)
        for m, seen in enumerate(observed):
            part = Lasso(problem.D[seen], problem.X[m : m + 1, seen], problem.a)
            assert part.violation(coding.h[m : m + 1]) < 1e-6
            assert coding.value[m] == pytest.approx(part.solve().value[0], rel=1e-9)

    def test_nothing_hidden_changes_not_a_bit(self) -> None:
        problem = heat_lasso()
        coding = solve_masked(problem, np.ones(problem.X.shape, dtype=bool))
        np.testing.assert_array_equal(coding.h, problem.solve().h)

    def test_nothing_observed_codes_to_nothing(self) -> None:
        problem = heat_lasso()
        observed = np.ones(problem.X.shape, dtype=bool)
        observed[2] = False
        start = np.ones((15, 40))
        X = np.where(observed, problem.X, 0.0)
        coding = code(
            problem.D.T @ problem.D,
            X @ problem.D,
            problem.a,
            np.sum(X**2, axis=1),
            start,
            tol=TOL,
            D=problem.D,
            observed=observed,
        )
        np.testing.assert_array_equal(coding.h[2], 0.0)
        assert coding.gap[2] == 0.0

    def test_threads_do_not_change_a_bit(self, rng: np.random.Generator) -> None:
        problem = heat_lasso()
        observed = rng.uniform(size=problem.X.shape) < 0.6
        alone, several = (solve_masked(problem, observed, n) for n in (1, 3))
        np.testing.assert_array_equal(several.h, alone.h)

    def test_the_dictionary_is_needed(self) -> None:
        problem = heat_lasso()
        with pytest.raises(ValueError, match="D is needed"):
            code(
                problem.D.T @ problem.D,
                problem.X @ problem.D,
                problem.a,
                problem.energy,
                np.zeros((15, 40)),
                tol=TOL,
                observed=np.ones(problem.X.shape, dtype=bool),
            )


class TestStarts:
    def test_codes_of_another_dictionary_leave_the_answer(self) -> None:
        problem = heat_lasso(alpha=1e-2, n_nodes=30)
        answer = problem.solve()
        rng = np.random.default_rng(0)
        start = rng.normal(size=answer.h.shape) * rng.uniform(size=answer.h.shape) ** 3
        far = problem.solve(30.0 * start)
        np.testing.assert_allclose(far.value, answer.value, rtol=1e-10)
        np.testing.assert_allclose(far.h, answer.h, atol=1e-6)


@pytest.mark.parametrize("K", [1, 7, 8, 9, 31, 32, 33, 65])
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_number_of_atoms_in_any_order_of_memory(K, order):
    rng = np.random.default_rng(K)
    D = rng.normal(size=(80, K))
    X = rng.normal(size=(5, 80))
    G, C = np.array(D.T @ D, order=order), np.array(X @ D, order=order)
    a = rng.uniform(5.0, 20.0, size=K)
    found = code(G, C, a, (X**2).sum(axis=1), np.zeros((5, K)), tol=1e-12)
    slope = 2.0 * (X - found.h @ D.T) @ D
    assert (np.abs(slope) <= a + 1e-9).all()
    assert slope[found.h != 0.0] == pytest.approx((a * np.sign(found.h))[found.h != 0.0])


@dataclass(frozen=True)
class PositiveLasso(Lasso):
    """The same over ``h >= 0``."""

    def solve(self, start: Array | None = None, tol: float = TOL, n_threads: int = 1) -> Coding:
        start = np.zeros((len(self.X), self.a.size)) if start is None else start
        G, C = self.D.T @ self.D, self.X @ self.D
        return code(G, C, self.a, self.energy, start, tol=tol, n_threads=n_threads, positive=True)

    def violation(self, h: Array) -> float:
        """At zeros ``2 D^T r <= a``, on the support equality; over ``a``."""
        assert h.min() >= 0.0
        slope = 2.0 * (self.X - h @ self.D.T) @ self.D
        return float(np.max(np.where(h > 0.0, np.abs(slope - self.a), slope - self.a) / self.a))


def positive(problem: Lasso) -> PositiveLasso:
    return PositiveLasso(problem.D, problem.X, problem.a)


class TestPositive:
    @pytest.mark.parametrize("kind", ["er", "ba", "ring"])
    @pytest.mark.parametrize("atoms", ["raw", "unit"])
    @pytest.mark.parametrize("alpha", [1.0, 1e-1, 1e-2, 1e-3])
    def test_conditions_hold(self, kind: str, atoms: str, alpha: float) -> None:
        problem = positive(heat_lasso(kind, alpha=alpha, atoms=atoms))
        coding = problem.solve()
        assert np.all(coding.gap <= TOL * problem.energy)
        assert problem.violation(coding.h) < 1e-7
        np.testing.assert_allclose(coding.value, problem.value(coding.h), rtol=1e-10)

    def test_against_non_negative_least_squares(self, rng: np.random.Generator) -> None:
        from scipy.optimize import nnls

        D, X, a = rng.normal(size=(30, 12)), rng.normal(size=(8, 30)), rng.uniform(1.0, 6.0, 12)
        # ||x - D h||^2 + a.h differs from ||b - D h||^2 by a constant where D^T b = D^T x - a/2.
        shift = np.linalg.pinv(D.T) @ (0.5 * a)
        expected = np.stack([nnls(D, x - shift)[0] for x in X])
        assert 0 < np.count_nonzero(expected) < expected.size
        np.testing.assert_allclose(PositiveLasso(D, X, a).solve().h, expected, atol=1e-9)

    def test_against_an_interior_point_method(self) -> None:
        cp = pytest.importorskip("cvxpy")
        problem = positive(heat_lasso(alpha=1e-3, n_signals=6))
        h = cp.Variable((6, problem.a.size), nonneg=True)
        value = cp.sum_squares(problem.X - h @ problem.D.T) + cp.sum(h @ problem.a)
        cp.Problem(cp.Minimize(value)).solve(
            solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11
        )
        assert problem.solve().value.sum() == pytest.approx(value.value, rel=1e-7)

    def test_any_start_reaches_the_same_codes(self, rng: np.random.Generator) -> None:
        problem = positive(heat_lasso(alpha=1e-2))
        cold = problem.solve()
        for start in (cold.h, -cold.h, rng.normal(size=cold.h.shape)):
            before = start.copy()
            warm = problem.solve(start)
            np.testing.assert_allclose(warm.value, cold.value, rtol=1e-10)
            np.testing.assert_allclose(warm.h, cold.h, atol=1e-5)
            np.testing.assert_array_equal(start, before)

    def test_codes_that_are_positive_anyway_stay_what_they_are(self) -> None:
        problem = heat_lasso(alpha=1e-2)
        one_source = Lasso(problem.D, problem.D[:, [3, 11, 30]].T.copy(), problem.a)
        free = one_source.solve()
        assert free.h.min() >= 0.0
        np.testing.assert_allclose(positive(one_source).solve().h, free.h, rtol=1e-12)

    @pytest.mark.parametrize("tau", [(2.5, 2.5), (50.0, 50.0), (4.0, 4.0001), (0.0, 1e-6)])
    @pytest.mark.parametrize("alpha", [1e-2, 1e-3])
    def test_atoms_that_depend_on_each_other(self, tau: tuple[float, ...], alpha: float) -> None:
        problem = positive(heat_lasso("ba", tau, alpha, n_nodes=40))
        coding = problem.solve()
        assert np.all(coding.gap <= 1e-9 * problem.energy)
        assert problem.violation(coding.h) < 1e-4

    def test_supports_of_hundreds_of_atoms(self, rng: np.random.Generator) -> None:
        D = rng.normal(size=(900, 430)) / 30.0
        problem = PositiveLasso(D, rng.uniform(0.5, 1.0, (2, 430)) @ D.T, np.full(430, 1e-2))
        coding = problem.solve(tol=1e-8)
        assert np.count_nonzero(coding.h, axis=1).min() > 400
        assert np.all(coding.gap <= 1e-8 * problem.energy)
        assert problem.violation(coding.h) < 1e-2

    @pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-5])
    def test_gap_bounds_the_distance_to_the_optimum(self, tol: float) -> None:
        problem = positive(heat_lasso("ba", alpha=1e-4))
        best = problem.value(problem.solve(tol=1e-13).h)
        loose = problem.solve(tol=tol)
        excess = problem.value(loose.h) - best
        assert np.all(excess <= loose.gap + 1e-12 * problem.energy)
        assert np.all(loose.gap <= tol * problem.energy)

    def test_missing_entries(self, rng: np.random.Generator) -> None:
        problem = positive(heat_lasso(alpha=1e-2))
        observed = rng.uniform(size=problem.X.shape) < 0.6
        X = np.where(observed, problem.X, 0.0)
        coding = code(
            problem.D.T @ problem.D,
            X @ problem.D,
            problem.a,
            np.sum(X**2, axis=1),
            np.zeros((15, 40)),
            tol=TOL,
            D=problem.D,
            observed=observed,
            positive=True,
        )
        for m, seen in enumerate(observed):
            part = PositiveLasso(problem.D[seen], problem.X[m : m + 1, seen], problem.a)
            assert part.violation(coding.h[m : m + 1]) < 1e-6

    def test_a_signal_that_no_source_explains(self) -> None:
        problem = heat_lasso(alpha=1e-3)
        coding = PositiveLasso(problem.D, -np.abs(problem.X), problem.a).solve()
        assert not coding.h.any()
        np.testing.assert_allclose(coding.gap, 0.0, atol=1e-15)
