"""The projection on the valid set, against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from heatgraph.models.simplex import ValidSet, project_simplex

Array = NDArray[np.float64]


def project_exactly(v: Array, total: float) -> Array:
    """By sorting, in rational arithmetic: no rounding until the end."""
    exact = [Fraction(float(x)) for x in v]
    mass, theta = Fraction(0), Fraction(0)
    for k, x in enumerate(sorted(exact, reverse=True), start=1):
        mass += x
        if x - (mass - Fraction(total)) / k > 0:
            theta = (mass - Fraction(total)) / k
    return np.array([float(max(x - theta, Fraction(0))) for x in exact])


class TestProjection:
    @pytest.mark.parametrize("total", [1e-9, 1e-3, 1.0, 10.0, 1e9])
    @pytest.mark.parametrize("scale", [1e-9, 1.0, 1e3, 1e9])
    @pytest.mark.parametrize("offset", [0.0, 1e12, -1e12])
    def test_against_exact_arithmetic(
        self, total: float, scale: float, offset: float, rng: np.random.Generator
    ) -> None:
        for size in (1, 2, 40):
            v = scale * rng.normal(size=size) + offset
            w = project_simplex(v, total)
            np.testing.assert_allclose(w, project_exactly(v, total), rtol=0, atol=1e-13 * total)
            assert np.all(w >= 0.0)
            assert w.sum() == pytest.approx(total, rel=1e-13)

    @given(
        st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=12),
        st.floats(1e-6, 1e6),
    )
    def test_any_point(self, values: list[float], total: float) -> None:
        v = np.array(values)
        w = project_simplex(v, total)
        np.testing.assert_allclose(w, project_exactly(v, total), rtol=0, atol=1e-13 * total)

    def test_ties_share_equally(self) -> None:
        np.testing.assert_array_equal(project_simplex(np.full(8, 0.3), 2.0), np.full(8, 0.25))
        np.testing.assert_array_equal(
            project_simplex(np.array([7.0, 7.0, 6.0, -3.0]), 1.0), [0.5, 0.5, 0.0, 0.0]
        )

    def test_a_point_of_the_set_stays(self, rng: np.random.Generator) -> None:
        for size in (2, 50, 5000):
            w = project_simplex(rng.normal(size=size), 3.0)
            again = project_simplex(w, 3.0)
            np.testing.assert_allclose(again, w, rtol=0, atol=2e-15)
            np.testing.assert_array_equal(again == 0.0, w == 0.0)  # sparse it was, sparse it stays

    def test_a_common_offset_does_not_matter(self, rng: np.random.Generator) -> None:
        v = rng.integers(-(2**20), 2**20, size=50) / 2.0**18  # so that adding 2^30 is exact
        np.testing.assert_array_equal(project_simplex(v, 4.0), project_simplex(v + 2.0**30, 4.0))

    def test_one_far_ahead_takes_all(self) -> None:
        np.testing.assert_array_equal(
            project_simplex(np.array([0.0, 1e300, 1.0]), 2.5), [0.0, 2.5, 0.0]
        )

    def test_coordinates_at_the_threshold_to_the_last_digit_end_too(self) -> None:
        # In this order they were let in and dropped in turn, for ever.
        digits = (
            "0x1.3ffffffffffeap+1 -0x1.2eb18302eceb8p-54 -0x1.8p-49 -0x1.0p-51 "
            "-0x1.a5d630605d9dcp-51 -0x1.09758c1817676p-49 0x1.0p-50 0x1.3246b410230f2p-49 "
            "-0x1.865e162011f90p-54 -0x1.8eddef7bad19fp-50"
        )
        w = project_simplex(np.array([float.fromhex(d) for d in digits.split()]), 2.5)
        assert w.sum() == pytest.approx(2.5, rel=1e-14)
        assert w[0] == pytest.approx(2.5, rel=1e-14)

    def test_argument_is_not_written(self, rng: np.random.Generator) -> None:
        v = rng.normal(size=20)
        before = v.copy()
        project_simplex(v, 1.0)
        np.testing.assert_array_equal(v, before)


class TestValidSet:
    def test_weights_on_the_simplex_and_scales_on_the_half_line(
        self, rng: np.random.Generator
    ) -> None:
        x = rng.normal(size=12)
        y = ValidSet(9, 4.5).project(x)
        np.testing.assert_array_equal(y[:9], project_simplex(x[:9], 4.5))
        np.testing.assert_array_equal(y[9:], np.maximum(x[9:], 0.0))

    def test_descent_is_the_fall_to_the_best_vertex(self, rng: np.random.Generator) -> None:
        valid = ValidSet(7, 3.5)
        w, g = valid.project(rng.normal(size=7)), rng.normal(size=7)
        falls = [g @ (w - 3.5 * vertex) for vertex in np.eye(7)]
        assert valid.descent(w, g) == pytest.approx(max(falls), rel=1e-13)

    @pytest.mark.parametrize(
        ("tau", "slope", "expected"),
        [(2.0, 0.5, 1.0), (2.0, -0.5, 1.0), (0.1, -3.0, 3.0), (0.1, 3.0, 0.3), (0.0, 3.0, 0.0)],
    )
    def test_descent_of_a_scale(self, tau: float, slope: float, expected: float) -> None:
        x, g = np.array([1.0, 0.0, tau]), np.array([-1.0, 0.0, slope])
        assert ValidSet(2, 1.0).descent(x, g) == pytest.approx(expected)

    def test_descent_vanishes_exactly_where_stationary(self, rng: np.random.Generator) -> None:
        # Stationary: y = P(y - g). Choose the gradients of the normal cone at a point.
        valid = ValidSet(6, 3.0)
        for _ in range(20):
            x = valid.project(rng.normal(size=8))
            multipliers = rng.exponential(size=8)
            g = np.where(x > 0.0, 0.0, multipliers)
            g[:6] += rng.normal()
            assert valid.descent(x, g) == pytest.approx(0.0, abs=1e-14)
            np.testing.assert_allclose(valid.project(x - g), x, atol=1e-14)
            moved = g.copy()
            moved[rng.choice(np.flatnonzero(x > 0.0))] -= 0.1
            if np.count_nonzero(x[:6]) > 1 or moved[:6].tolist() == g[:6].tolist():
                assert valid.descent(x, moved) > 1e-3
                assert np.max(np.abs(valid.project(x - moved) - x)) > 1e-3
