"""Projected Newton steps against scipy on boxes; falls only; stops as it says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear, minimize, rosen, rosen_der, rosen_hess

from heatgraph.solvers.projected_newton import minimise_box, promised_fall
from heatgraph.solvers.result import Status


@dataclass(frozen=True, eq=False)
class Quadratic:
    """``||A x - b||^2 / 2``."""

    A: np.ndarray
    b: np.ndarray
    x: np.ndarray

    @property
    def value(self):
        return 0.5 * float(np.square(self.A @ self.x - self.b).sum())

    @property
    def gradient(self):
        return self.A.T @ (self.A @ self.x - self.b)

    @property
    def diagonal(self):
        return np.square(self.A).sum(axis=0)

    def information_between(self, some):
        return self.A[:, some].T @ self.A[:, some]


@dataclass(frozen=True, eq=False)
class Valley:
    """Rosenbrock's function with the curvature of its squares, as Gauss and Newton take it."""

    x: np.ndarray

    @property
    def value(self):
        return float(rosen(self.x))

    @property
    def gradient(self):
        return rosen_der(self.x)

    @property
    def _curvature(self):
        H = rosen_hess(self.x)
        steep, U = np.linalg.eigh(H)
        return (U * np.maximum(steep, 1e-3)) @ U.T

    @property
    def diagonal(self):
        return np.diag(self._curvature)

    def information_between(self, some):
        return self._curvature[np.ix_(some, some)]


@dataclass(frozen=True, eq=False)
class Exponential:
    """``exp(x)``: falls for ever, ever less, and its curvature with it."""

    x: np.ndarray

    @property
    def value(self):
        return float(np.exp(self.x).sum())

    @property
    def gradient(self):
        return np.exp(self.x)

    @property
    def diagonal(self):
        return np.exp(2.0 * self.x)

    def information_between(self, some):
        return np.diag(self.diagonal[some])


class ByProducts(Quadratic):
    """The same, with products in place of a matrix."""

    def information_between(self, some):
        return Products(super().information_between(some))


@dataclass(frozen=True)
class Products:
    B: np.ndarray

    def __matmul__(self, d):
        return self.B @ d


class NoFactor(Quadratic):
    """The same, with a curvature that rounding has made indefinite."""

    def information_between(self, some):
        B = super().information_between(some)
        return B - 1e-3 * np.diag(np.diag(B))


def box(rng, n):
    lower = np.where(rng.random(n) < 0.7, rng.normal(-0.3, 0.3, n), -np.inf)
    upper = np.where(
        rng.random(n) < 0.7, np.maximum(lower, -0.3) + rng.uniform(0.1, 1.0, n), np.inf
    )
    return lower, upper


def solved(A, b, bounds, tol=1e-12, kind=Quadratic, **options):
    return minimise_box(
        lambda x: kind(A, b, x), bounds, np.zeros(A.shape[1]), tol=tol, max_iter=300, **options
    )


class TestQuadratics:
    @pytest.mark.parametrize("kind", [Quadratic, ByProducts])
    @settings(max_examples=40)
    @given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 12))
    def test_end_where_those_of_scipy_do(self, kind, seed, n):
        rng = np.random.default_rng(seed)
        A, b = rng.normal(size=(n + 3, n)), 3.0 * rng.normal(size=n + 3)
        bounds = box(rng, n)
        state, status = solved(A, b, bounds, kind=kind)
        assert status in (Status.CONVERGED, Status.STALLED)
        scipy = lsq_linear(A, b, bounds, tol=1e-14)
        np.testing.assert_allclose(state.point.x, scipy.x, atol=1e-5)
        assert state.point.value <= scipy.cost + 1e-9
        assert (state.point.x >= bounds[0]).all()
        assert (state.point.x <= bounds[1]).all()

    def test_with_curvatures_from_one_to_1e12(self, rng):
        n = 10
        A = rng.normal(size=(14, n)) * np.logspace(0, -6, n)
        b = rng.normal(size=14)
        bounds = np.zeros(n), np.full(n, 1e7)
        state, status = solved(A, b, bounds, tol=1e-10)
        assert status is Status.CONVERGED
        size = np.linalg.norm(A, axis=0)
        scipy = lsq_linear(A / size, b, (np.zeros(n), bounds[1] * size), tol=1e-14)
        assert state.point.value <= scipy.cost + 1e-8

    def test_with_a_curvature_that_has_no_factor(self, rng):
        A, b = rng.normal(size=(3, 6)), rng.normal(size=3)
        bounds = np.full(6, -1.0), np.full(6, 1.0)
        state, _ = solved(A, b, bounds, tol=1e-10, kind=NoFactor)
        assert state.point.value <= lsq_linear(A, b, bounds, tol=1e-14).cost + 1e-8

    def test_that_do_not_depend_on_a_coordinate(self, rng):
        A = rng.normal(size=(5, 3))
        A[:, 1] = 0.0
        state, status = solved(A, rng.normal(size=5), (np.full(3, -9.0), np.full(3, 9.0)))
        assert status is Status.CONVERGED
        assert np.isfinite(state.point.x).all()

    def test_that_are_flat_everywhere(self):
        state, status = solved(np.zeros((2, 2)), np.ones(2), (np.zeros(2), np.ones(2)))
        assert (status, state.residual) == (Status.CONVERGED, 0.0)


class TestValley:
    def test_ends_where_that_of_scipy_does(self):
        start = np.array([0.2, 1.0, 0.5, -0.4])
        bounds = np.full(4, -2.0), np.array([0.8, 2.0, 2.0, 2.0])
        state, status = minimise_box(Valley, bounds, start, tol=1e-12, max_iter=500)
        scipy = minimize(
            rosen,
            start,
            jac=rosen_der,
            bounds=list(zip(*bounds, strict=True)),
            method="L-BFGS-B",
            options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 2000},
        )
        assert status is Status.CONVERGED
        np.testing.assert_allclose(state.point.x, scipy.x, atol=1e-4)

    def test_never_rises(self):
        bounds = np.full(2, -3.0), np.full(2, 3.0)
        state, _ = minimise_box(Valley, bounds, np.array([-2.0, 2.5]), tol=1e-10, max_iter=500)
        assert (np.diff(state.history) < 0.0).all()
        assert len(state.history) == state.n_iter + 1
        assert state.history[-1] == state.point.value


class TestResidual:
    def test_is_the_fall_of_a_separable_quadratic_twice(self):
        """``<g, x - P(x - g / diag)>`` is twice the fall where the diagonal is all there is."""
        point = Quadratic(np.diag([1.0, 2.0]), np.array([3.0, 1.0]), np.zeros(2))
        free = np.full(2, -10.0), np.full(2, 10.0)
        assert promised_fall(point, free) == pytest.approx(2.0 * point.value)

    def test_vanishes_at_a_bound_that_holds(self):
        point = Quadratic(np.eye(2), np.array([3.0, -1.0]), np.array([1.0, 0.0]))
        assert promised_fall(point, (np.zeros(2), np.ones(2))) == 0.0

    def test_is_in_units(self):
        bounds = np.full(2, -1.0), np.full(2, 9.0)
        A, b = np.eye(2), np.array([1.0, 2.0])
        (one, _), (other, _) = (
            minimise_box(
                lambda x: Quadratic(A, b, x), bounds, np.zeros(2), tol=1.0, max_iter=0, unit=unit
            )
            for unit in (1.0, 5.0)
        )
        assert one.residual == pytest.approx(5.0 * other.residual)

    def test_vanishes_along_a_logarithm_without_end(self):
        """A step promises no more than what a step of bounded length does."""
        free = np.full(1, -np.inf), np.full(1, np.inf)
        state, status = minimise_box(Exponential, free, np.zeros(1), tol=1e-6, max_iter=60)
        assert status is Status.CONVERGED
        assert -30.0 < state.point.x[0] < -12.0


class TestEnds:
    A = np.array([[1.0, 0.9], [0.0, 0.3]])
    b = np.array([1.0, 2.0])
    bounds = np.full(2, -50.0), np.full(2, 50.0)

    def test_at_the_limit_of_iterations(self):
        state, status = minimise_box(
            Valley, self.bounds, np.array([-1.0, 1.0]), tol=1e-12, max_iter=3
        )
        assert (status, state.n_iter) == (Status.MAX_ITER, 3)

    def test_at_once_where_it_starts_at_the_end(self):
        end = np.linalg.solve(self.A, self.b)
        state, status = minimise_box(
            lambda x: Quadratic(self.A, self.b, x), self.bounds, end, tol=1e-9, max_iter=9
        )
        assert (status, state.n_iter) == (Status.CONVERGED, 0)

    def test_a_start_outside_is_projected(self):
        state, _ = minimise_box(
            lambda x: Quadratic(self.A, self.b, x),
            self.bounds,
            np.full(2, 1e3),
            tol=1e-9,
            max_iter=0,
        )
        assert np.array_equal(state.point.x, [50.0, 50.0])

    @pytest.mark.parametrize("calls", [1, 2, 5])
    def test_with_the_best_so_far_on_ctrl_c(self, calls):
        seen = []

        def stop(state):
            seen.append(state)
            if len(seen) == calls:
                raise KeyboardInterrupt

        start = np.array([-1.0, 1.0])
        state, status = minimise_box(
            Valley, self.bounds, start, tol=1e-12, max_iter=99, report=stop
        )
        assert status is Status.INTERRUPTED
        assert state is seen[-1]
        assert state.point.value == min(state.history)

    def test_stalls_where_rounding_hides_the_fall(self):
        """At a value of 1e8, a fall of 1e-9 is no number."""

        class High(Quadratic):
            @property
            def value(self):
                return 1e8 + super().value

        state, status = minimise_box(
            lambda x: High(self.A, self.b, x), self.bounds, np.zeros(2), tol=0.0, max_iter=99
        )
        assert status is Status.STALLED
        assert state.residual < 1e-3

    def test_stalls_where_the_gradient_is_wrong(self):
        class Wrong(Quadratic):
            @property
            def gradient(self):
                return -super().gradient

        state, status = minimise_box(
            lambda x: Wrong(self.A, self.b, x), self.bounds, np.zeros(2), tol=1e-9, max_iter=99
        )
        assert (status, state.n_iter) == (Status.STALLED, 0)

    def test_a_trial_that_is_no_number_is_refused(self):
        """Beyond 1 the function is not defined: steps get shorter instead."""

        class Edge(Quadratic):
            @property
            def value(self):
                return super().value if self.x.max() < 1.0 else np.nan

        state, _ = minimise_box(
            lambda x: Edge(np.eye(2), np.full(2, 3.0), x),
            self.bounds,
            np.zeros(2),
            tol=1e-9,
            max_iter=200,
        )
        assert np.isfinite(state.history).all()
        assert 0.9 < state.point.x.max() < 1.0
