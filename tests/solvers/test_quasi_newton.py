"""The projected quasi-Newton method on problems whose minimiser is known."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from heatgraph.models.simplex import ValidSet
from heatgraph.solvers.driver import iterate
from heatgraph.solvers.quasi_newton import Curvature, Evaluation, QuasiNewton, State
from heatgraph.solvers.result import Status

Array = NDArray[np.float64]


@dataclass
class Quadratic:
    """``x.Qx / 2 + b.x + shift``; counts its evaluations and hands the count on."""

    Q: Array
    b: Array
    shift: float = 0.0
    seen: list[tuple[Array, int]] = field(default_factory=list)

    def __call__(self, x: Array, aux: int) -> Evaluation[int]:
        self.seen.append((x.copy(), aux))
        slope = self.Q @ x
        return Evaluation(
            float(0.5 * x @ slope + self.b @ x) + self.shift, slope + self.b, len(self.seen)
        )


def make_quadratic(
    n: int, n_scales: int, condition: float, seed: int = 0, shift: float = 100.0
) -> Quadratic:
    rng = np.random.default_rng(seed)
    size = n + n_scales
    V = np.linalg.qr(rng.normal(size=(size, size)))[0]
    Q = (V * np.geomspace(1.0, condition, size)) @ V.T
    return Quadratic(0.5 * (Q + Q.T), rng.normal(size=size) * condition**0.5, shift)


def solve_by_clarabel(f: Quadratic, valid: ValidSet) -> Array:
    cp = pytest.importorskip("cvxpy")
    x = cp.Variable(f.b.size, nonneg=True)
    value = 0.5 * cp.quad_form(x, cp.psd_wrap(f.Q)) + f.b @ x
    cp.Problem(cp.Minimize(value), [cp.sum(x[: valid.n]) == valid.total]).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    return np.asarray(x.value)


def minimise(evaluate, valid, x, aux, *, max_iter, tol, reach, metric=None, report=None):
    """The state that the method ends at, and how."""
    method = QuasiNewton(evaluate, valid, tol, max_iter, reach)
    memory = None if metric is None else Curvature.nothing(metric)
    return iterate(method.init(x, aux, memory), method.step, method.terminate, report)


def start(valid: ValidSet, n_scales: int) -> Array:
    return np.append(np.full(valid.n, valid.total / valid.n), np.ones(n_scales))


class TestConvex:
    @pytest.mark.parametrize(("n", "n_scales"), [(30, 0), (30, 3), (2, 1), (3, 0), (1, 2)])
    @pytest.mark.parametrize("condition", [1.0, 1e2, 1e4])
    def test_reaches_the_minimiser(self, n: int, n_scales: int, condition: float) -> None:
        f, valid = make_quadratic(n, n_scales, condition), ValidSet(n, 5.0)
        state, status = minimise(
            f, valid, start(valid, n_scales), 0, max_iter=500, tol=1e-10, reach=1.0
        )
        assert status == Status.CONVERGED
        assert state.residual <= 1e-10
        assert valid.descent(state.x, f.Q @ state.x + f.b) <= 1e-10 * abs(state.at.value)
        np.testing.assert_allclose(state.x, solve_by_clarabel(f, valid), atol=1e-4)

    def test_iterates_stay_in_the_set_and_descend(self) -> None:
        f, valid = make_quadratic(30, 2, 1e4), ValidSet(30, 5.0)
        state, _ = minimise(f, valid, start(valid, 2), 0, max_iter=500, tol=1e-9, reach=1.0)
        history = np.array(state.history)
        assert np.all(np.diff(history) <= 1e-12 * np.abs(history[1:]))
        assert len(history) == state.n_iter + 1
        assert history[-1] == state.at.value
        for x, _ in f.seen:
            assert np.all(x >= 0.0)
            assert x[:30].sum() == pytest.approx(5.0, rel=1e-12)

    def test_weights_off_the_support_are_exact_zeros(self) -> None:
        f, valid = make_quadratic(30, 0, 1e2), ValidSet(30, 5.0)
        state, _ = minimise(f, valid, start(valid, 0), 0, max_iter=500, tol=1e-10, reach=1.0)
        truth = solve_by_clarabel(f, valid)
        assert 0 < np.sum(truth > 1e-6) < 25
        np.testing.assert_array_equal(state.x > 0.0, truth > 1e-6)

    def test_converges_where_the_value_is_negative_or_zero(self) -> None:
        for shift in (-1e3, 0.0):
            f, valid = make_quadratic(20, 1, 1e2, shift=shift), ValidSet(20, 5.0)
            state, status = minimise(
                f, valid, start(valid, 1), 0, max_iter=300, tol=1e-9, reach=1.0
            )
            assert status == Status.CONVERGED
            assert state.n_iter > 3
            np.testing.assert_allclose(state.x, solve_by_clarabel(f, valid), atol=1e-3)

    @pytest.mark.parametrize("reach", [1e-6, 1.0, 1e6])
    def test_first_reach_does_not_decide_the_end(self, reach: float) -> None:
        f, valid = make_quadratic(20, 0, 1e2), ValidSet(20, 5.0)
        state, status = minimise(f, valid, start(valid, 0), 0, max_iter=300, tol=1e-9, reach=reach)
        assert status == Status.CONVERGED
        np.testing.assert_allclose(state.x, solve_by_clarabel(f, valid), atol=1e-3)

    @pytest.mark.parametrize("n_scales", [0, 2])
    def test_metric_does_not_decide_the_end(self, n_scales: int) -> None:
        f, valid = make_quadratic(20, n_scales, 1e2), ValidSet(20, 5.0)
        metric = np.random.default_rng(7).uniform(0.1, 10.0, 20 + n_scales)
        x = start(valid, n_scales)
        state, status = minimise(f, valid, x, 0, max_iter=300, tol=1e-9, reach=1.0, metric=metric)
        assert status == Status.CONVERGED
        np.testing.assert_allclose(state.x, solve_by_clarabel(f, valid), atol=1e-3)

    def test_metric_that_is_the_curvature_saves_iterations(self) -> None:
        rng = np.random.default_rng(2)
        q = np.geomspace(1.0, 1e4, 40)
        f, valid = Quadratic(np.diag(q), rng.normal(size=40), 100.0), ValidSet(40, 5.0)

        def solved(metric: Array | None) -> tuple[State[int], Status]:
            x = start(valid, 0)
            return minimise(f, valid, x, 0, max_iter=40, tol=1e-10, reach=1.0, metric=metric)

        assert solved(None)[1] == Status.MAX_ITER
        assert solved(q / np.median(q))[1] == Status.CONVERGED

    def test_beats_steepest_descent_on_the_ill_conditioned(self) -> None:
        f, valid = make_quadratic(30, 0, 1e4), ValidSet(30, 5.0)
        state, _ = minimise(f, valid, start(valid, 0), 0, max_iter=500, tol=1e-8, reach=1.0)
        x = start(valid, 0)
        for _ in range(2 * len(f.seen)):
            x = valid.project(x - (f.Q @ x + f.b) / 1e4)
        assert state.at.value < f(x, 0).value

    def test_thousands_of_coordinates(self) -> None:
        # A separable quadratic: x_k = max((theta - b_k) / q_k, 0), theta by bisection.
        rng, n, n_scales = np.random.default_rng(1), 2500, 2
        q, b = rng.uniform(1.0, 20.0, n + n_scales), 0.1 * rng.normal(size=n + n_scales)
        low, high = -10.0, 100.0
        for _ in range(100):
            theta = 0.5 * (low + high)
            above = np.maximum((theta - b[:n]) / q[:n], 0.0).sum() > 5.0
            low, high = (low, theta) if above else (theta, high)
        truth = np.maximum((np.append(np.full(n, low), [0.0, 0.0]) - b) / q, 0.0)

        def evaluate(x: Array, aux: None) -> Evaluation[None]:
            return Evaluation(float(0.5 * x @ (q * x) + b @ x) + 100.0, q * x + b, None)

        valid = ValidSet(n, 5.0)
        state, status = minimise(
            evaluate, valid, start(valid, n_scales), None, max_iter=500, tol=1e-12, reach=1.0
        )
        assert status == Status.CONVERGED
        assert 100 < np.sum(truth[:n] > 0.0) < n - 100
        np.testing.assert_allclose(state.x, truth, atol=1e-6)


class TestEndings:
    def test_start_that_is_the_minimiser(self) -> None:
        f, valid = make_quadratic(10, 0, 1e2), ValidSet(10, 5.0)
        best, _ = minimise(f, valid, start(valid, 0), 0, max_iter=500, tol=1e-12, reach=1.0)
        again, status = minimise(f, valid, best.x, 0, max_iter=500, tol=1e-10, reach=1.0)
        assert (status, again.n_iter) == (Status.CONVERGED, 0)

    def test_iteration_limit(self) -> None:
        f, valid = make_quadratic(30, 0, 1e4), ValidSet(30, 5.0)
        state, status = minimise(f, valid, start(valid, 0), 0, max_iter=3, tol=1e-12, reach=1.0)
        assert (status, state.n_iter, len(state.history)) == (Status.MAX_ITER, 3, 4)

    def test_zero_iterations_evaluate_the_start(self) -> None:
        f, valid = make_quadratic(30, 0, 1e4), ValidSet(30, 5.0)
        state, status = minimise(f, valid, start(valid, 0), 0, max_iter=0, tol=0.0, reach=1.0)
        assert (status, state.n_iter, len(f.seen)) == (Status.MAX_ITER, 0, 1)

    def test_no_tolerance_at_all_is_never_convergence(self) -> None:
        f, valid = make_quadratic(10, 0, 10.0), ValidSet(10, 5.0)
        state, status = minimise(f, valid, start(valid, 0), 0, max_iter=500, tol=-1.0, reach=1.0)
        # Rounding decides whether the last steps still descend.
        assert status in (Status.STALLED, Status.MAX_ITER)
        assert state.residual < 1e-12

    def test_a_gradient_that_lies_is_a_stall(self) -> None:
        def uphill(x: Array, aux: None) -> Evaluation[None]:
            return Evaluation(float(x @ x), -2.0 * x, None)

        valid = ValidSet(4, 1.0)
        x = np.array([0.7, 0.1, 0.1, 0.1])
        state, status = minimise(uphill, valid, x, None, max_iter=50, tol=1e-9, reach=1e-3)
        assert (status, state.n_iter) == (Status.STALLED, 0)
        np.testing.assert_array_equal(state.x, x)

    def test_not_a_number_is_never_convergence(self) -> None:
        def broken(x: Array, aux: None) -> Evaluation[None]:
            return Evaluation(float("nan"), np.arange(4.0), None)

        state, status = minimise(
            broken, ValidSet(4, 1.0), np.full(4, 0.25), None, max_iter=50, tol=1e-9, reach=1.0
        )
        assert (status, state.n_iter) == (Status.STALLED, 0)

    @pytest.mark.parametrize("at", [2, 7, 12])
    def test_interrupt_in_an_evaluation_keeps_the_best(self, at: int) -> None:
        f, valid = make_quadratic(30, 0, 1e4), ValidSet(30, 5.0)

        def interrupted(x: Array, aux: int) -> Evaluation[int]:
            if len(f.seen) == at:
                raise KeyboardInterrupt
            return f(x, aux)

        state, status = minimise(
            interrupted, valid, start(valid, 0), 0, max_iter=500, tol=1e-10, reach=1.0
        )
        assert status == Status.INTERRUPTED
        assert state.at.value == min(f(x, 0).value for x, _ in f.seen[:at])
        assert state.n_iter == len(state.history) - 1

    def test_interrupt_in_the_report_keeps_the_best(self) -> None:
        f, valid = make_quadratic(30, 0, 1e4), ValidSet(30, 5.0)

        def stop(state: State[int]) -> None:
            if state.n_iter == 4:
                raise KeyboardInterrupt

        x = start(valid, 0)
        state, status = minimise(f, valid, x, 0, max_iter=9, tol=1e-10, reach=1.0, report=stop)
        assert (status, state.n_iter) == (Status.INTERRUPTED, 4)

    def test_interrupt_before_there_is_a_state_is_the_callers(self) -> None:
        def interrupted(x: Array, aux: None) -> Evaluation[None]:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            minimise(
                interrupted, ValidSet(2, 1.0), np.full(2, 0.5), None, max_iter=1, tol=0.0, reach=1.0
            )


def test_every_iteration_is_reported_and_evaluations_continue_from_the_accepted() -> None:
    f, valid = make_quadratic(30, 0, 1e4), ValidSet(30, 5.0)
    seen: list[State[int]] = []
    state, _ = minimise(
        f, valid, start(valid, 0), 0, max_iter=20, tol=1e-12, reach=1.0, report=seen.append
    )
    assert [s.n_iter for s in seen] == list(range(state.n_iter + 1))
    accepted = {0} | {s.at.aux for s in seen}
    assert {aux for _, aux in f.seen} <= accepted


def test_start_is_not_written() -> None:
    f, valid = make_quadratic(10, 2, 1e2), ValidSet(10, 5.0)
    x = start(valid, 2)
    before = x.copy()
    minimise(f, valid, x, 0, max_iter=20, tol=1e-9, reach=1.0)
    np.testing.assert_array_equal(x, before)


def test_nonconvex_ends_at_a_stationary_point() -> None:
    # Negative curvature: the memory refuses such pairs, and the search still descends.
    rng = np.random.default_rng(3)
    Q = rng.normal(size=(20, 20))
    f, valid = Quadratic(Q + Q.T, rng.normal(size=20), 100.0), ValidSet(20, 5.0)
    state, status = minimise(f, valid, start(valid, 0), 0, max_iter=500, tol=1e-9, reach=1.0)
    assert status == Status.CONVERGED
    assert np.all(np.diff(state.history) <= 1e-12 * np.abs(state.history[1:]))
    x = valid.project(state.x - (f.Q @ state.x + f.b))
    np.testing.assert_allclose(x, state.x, atol=1e-6)
