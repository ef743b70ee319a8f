"""Moments add up; gaps are filled by conditional means; EM's slope is the likelihood's own."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal

from heatgraph.graph import CandidateEdges
from heatgraph.models.gaussian import GaussianHeat
from heatgraph.models.moments import (
    Moments,
    condition,
    expected_moments,
    log_likelihoods,
    rescaled_log_likelihood,
)

N = 4
PAIRS = CandidateEdges.complete(N)


def covariance(rng, n=N):
    A = rng.normal(size=(n, n))
    return A @ A.T + 0.3 * np.eye(n)


def with_gaps(rng, M=12, n=N, share=0.35):
    X = rng.normal(size=(M, n))
    X[rng.random(X.shape) < share] = np.nan
    X[0] = np.nan  # nothing
    X[1] = rng.normal(size=n)  # everything
    return X


class TestSums:
    @given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e3, 1e6]))
    def test_of_chunks_are_those_of_the_whole(self, seed, level):
        rng = np.random.default_rng(seed)
        X = level + rng.normal(size=(40, 3)) * [1.0, 1e-3, 1e3]
        cuts = np.sort(rng.integers(1, 40, 4))
        parts = [Moments.of(part) for part in np.split(X, cuts) if len(part)]
        both, whole = reduce(add, parts), Moments.of(X)
        size = np.sqrt(np.outer(np.diag(whole.scatter), np.diag(whole.scatter)))
        # The level has 1e-16 of its own rounding, which the sum cannot know.
        rounding = 1e-12 + 1e-14 * level / 1e-3
        assert both.count == whole.count
        np.testing.assert_allclose(both.mean, whole.mean, rtol=1e-12, atol=1e-12)
        assert (np.abs(both.scatter - whole.scatter) <= rounding * size).all()

    def test_around(self, rng):
        X, u = rng.normal(size=(9, 3)), rng.normal(size=3)
        np.testing.assert_allclose(Moments.of(X).around(u), (X - u).T @ (X - u) / 9, rtol=1e-12)

    def test_decayed_signals_count_less(self, rng):
        old, new = rng.normal(size=(2, 8, 3))
        both = Moments.of(old).decayed(0.5) + Moments.of(new)
        twice = Moments.of(np.concatenate([old, new, new]))
        assert both.count == 12.0
        np.testing.assert_allclose(both.mean, twice.mean, rtol=1e-12)
        np.testing.assert_allclose(both.around(both.mean), twice.around(twice.mean), rtol=1e-12)


class TestCondition:
    def test_by_the_direct_formula(self, rng):
        X, u, C = with_gaps(rng), rng.normal(size=N), covariance(rng)
        parts = list(condition(X, u, C))
        assert sorted(np.concatenate([part.rows for part in parts])) == list(range(len(X)))
        P = np.linalg.inv(C)
        for part in parts:
            for row, found in zip(part.rows, part.mean, strict=True):
                m = np.isnan(X[row])
                assert np.array_equal(np.flatnonzero(m), part.missing)
                # By the precision, where the code goes by the covariance.
                inverse = np.linalg.inv(P[np.ix_(m, m)])
                mean = u[m] - inverse @ P[np.ix_(m, ~m)] @ (X[row, ~m] - u[~m])
                np.testing.assert_allclose(found, mean, rtol=1e-9, atol=1e-12)
                np.testing.assert_allclose(part.covariance, inverse, rtol=1e-9, atol=1e-12)


class TestExpectedMoments:
    def test_of_complete_signals_are_their_own(self, rng):
        X = rng.normal(size=(7, N))
        found, own = expected_moments(X, rng.normal(size=N), covariance(rng)), Moments.of(X)
        assert found.count == own.count
        np.testing.assert_allclose(found.mean, own.mean)
        np.testing.assert_allclose(found.scatter, own.scatter)

    def test_by_drawing_the_missing_entries(self, rng):
        X, u, C = with_gaps(rng, M=3, n=2, share=0.5), np.array([1.0, -1.0]), covariance(rng, 2)
        X[2] = 0.4, np.nan
        expected, draws = expected_moments(X, u, C), 200_000
        filled = np.repeat(X[None], draws, axis=0)
        filled[:, 0] = rng.multivariate_normal(u, C, draws)
        mean = u[1] + C[1, 0] / C[0, 0] * (0.4 - u[0])
        std = np.sqrt(C[1, 1] - C[1, 0] ** 2 / C[0, 0])
        filled[:, 2, 1] = rng.normal(mean, std, draws)
        second = np.einsum("dmi,dmj->ij", filled, filled) / (3 * draws)
        np.testing.assert_allclose(expected.around(np.zeros(2)), second, rtol=0.02, atol=0.01)

    @pytest.mark.parametrize("S", [1, 2])
    def test_have_the_slope_of_the_observed_likelihood(self, rng, S):
        """The slope that EM's maximisation sees is that of what was observed."""
        X, u = with_gaps(rng), rng.normal(size=N)
        x = np.concatenate([rng.uniform(0.1, 0.8, 6), rng.normal(size=S), [-0.7] * (S - 1), [-2.0]])
        template = GaussianHeat(PAIRS, np.eye(N), S)

        def observed(y, location=u):
            covariance = template.at(y).covariance
            return -2.0 * log_likelihoods(X, location, covariance).mean()

        moments = expected_moments(X, u, template.at(x).covariance)
        found = GaussianHeat(PAIRS, moments.around(u), S).at(x).gradient
        step = 1e-5
        expected = [(observed(x + h) - observed(x - h)) / (2 * step) for h in step * np.eye(x.size)]
        np.testing.assert_allclose(found, expected, atol=1e-8)
        # In the location: -2 C^-1 (mean - u).
        in_location = -2.0 * template.at(x).precision @ (moments.mean - u)
        expected = [
            (observed(x, u + h) - observed(x, u - h)) / (2 * step) for h in step * np.eye(N)
        ]
        np.testing.assert_allclose(in_location, expected, atol=1e-8)


class TestLogLikelihoods:
    def test_are_those_of_scipy(self, rng):
        X, u, C = with_gaps(rng), rng.normal(size=N), covariance(rng)
        for found, row in zip(log_likelihoods(X, u, C), X, strict=True):
            seen = ~np.isnan(row)
            if not seen.any():
                assert found == 0.0
                continue
            scipy = multivariate_normal(u[seen], C[np.ix_(seen, seen)]).logpdf(row[seen])
            assert found == pytest.approx(scipy, rel=1e-10)

    def test_rescaled_is_the_largest_over_the_scale(self, rng):
        X, u, C = with_gaps(rng), rng.normal(size=N), covariance(rng)
        best = minimize_scalar(
            lambda log_a: -log_likelihoods(X, u, np.exp(log_a) * C).mean(), bounds=(-5.0, 5.0)
        )
        assert rescaled_log_likelihood(X, u, C) == pytest.approx(-best.fun, rel=1e-8)
        assert rescaled_log_likelihood(X, u, 3.0 * C) == pytest.approx(
            rescaled_log_likelihood(X, u, C), rel=1e-12
        )
