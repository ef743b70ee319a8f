"""Held-out signals: blocks with gaps where rows are correlated, any splitter, groups."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import LeaveOneGroupOut, TimeSeriesSplit

from heatgraph.selection.folds import (
    Folds,
    Split,
    autocorrelation,
    independent_share,
    is_ordered,
    make_folds,
)


def ar1(rng, M, N, rho):
    X = np.empty((M, N))
    X[0] = rng.standard_normal(N)
    for m in range(1, M):
        X[m] = rho * X[m - 1] + np.sqrt(max(1.0 - rho**2, 1e-2)) * rng.standard_normal(N)
    return X


class TestOrder:
    def test_autocorrelation_is_that_of_the_process(self, rng):
        X = ar1(rng, 4000, 5, 0.7)
        assert autocorrelation(X) == pytest.approx(0.7, abs=0.05)
        assert autocorrelation(X, 3) == pytest.approx(0.343, abs=0.06)

    def test_missing_entries_and_still_columns_do_not_matter(self, rng):
        X = ar1(rng, 3000, 4, 0.7)
        X[rng.random(X.shape) < 0.3] = np.nan
        X[:, 0] = 3.0
        assert autocorrelation(X) == pytest.approx(0.7, abs=0.07)

    def test_rounding_of_still_columns_is_no_order(self, rng):
        """The mean of equal values may differ from them in the last place."""
        X = rng.standard_normal((600, 4))
        still = np.hstack([X, np.full((600, 2), [0.1, 7.3])])
        assert autocorrelation(still) == autocorrelation(X)
        assert independent_share(still) == 1.0
        assert not is_ordered(still)

    @pytest.mark.parametrize("rho", [0.4, 0.9, 1.0])
    def test_series_are_seen_to_be_ordered(self, rng, rho):
        assert all(is_ordered(ar1(rng, 100, 6, rho)) for _ in range(20))

    def test_independent_rows_are_not(self, rng):
        found = [is_ordered(rng.standard_normal((100, 6))) for _ in range(200)]
        assert np.mean(found) <= 0.02

    def test_nor_are_independent_rows_whose_columns_are_copies(self, rng):
        found = [is_ordered(np.repeat(rng.standard_normal((100, 1)), 6, 1)) for _ in range(200)]
        assert np.mean(found) <= 0.04


class TestIndependentShare:
    """Bartlett's formula, with the autocorrelations of the process."""

    @pytest.mark.parametrize("rho", [0.6, 0.9])
    def test_of_rows_that_forget(self, rng, rho):
        M = 2000
        lags = np.arange(1, M)
        share = 1.0 / (1.0 + 2.0 * np.sum((1.0 - lags / M) * rho ** (2 * lags)))
        assert independent_share(ar1(rng, M, 8, rho)) == pytest.approx(share, rel=0.15)

    @pytest.mark.parametrize(
        ("period", "r", "gaps"),
        [(18, 0.97, 0.0), (18, 0.97, 0.2), *((short, 0.9, 0.0) for short in (2, 3, 4, 8, 12))],
    )
    def test_of_rows_that_oscillate(self, rng, period, r, gaps):
        """Past zeros of the autocorrelation, a damped cosine, and where it starts negative."""
        M, turn = 2000, 2.0 * np.pi / period
        X = np.zeros((M + 300, 8))
        for m in range(2, len(X)):
            X[m] = 2.0 * r * np.cos(turn) * X[m - 1] - r**2 * X[m - 2] + rng.standard_normal(8)
        rho = np.ones(M)
        rho[1] = 2.0 * r * np.cos(turn) / (1.0 + r**2)
        for k in range(2, M):  # the equations of Yule and Walker
            rho[k] = 2.0 * r * np.cos(turn) * rho[k - 1] - r**2 * rho[k - 2]
        share = 1.0 / (1.0 + 2.0 * np.sum((1.0 - np.arange(1, M) / M) * rho[1:] ** 2))
        X = np.where(rng.random(X.shape) < gaps, np.nan, X)[300:]
        assert independent_share(X) == pytest.approx(share, rel=0.15)

    def test_is_that_of_the_uncertainty_of_a_second_moment(self, rng):
        M, rho = 200, 0.8
        moments = [np.mean(np.square(ar1(rng, M, 1, rho))) for _ in range(1500)]
        independent = 2.0 / M  # the variance of the mean square of normal numbers
        share = independent_share(ar1(rng, 4000, 8, rho))
        assert independent / np.var(moments) == pytest.approx(share, rel=0.15)

    def test_of_independent_rows_is_one(self, rng):
        assert independent_share(rng.standard_normal((200, 6))) == 1.0

    @pytest.mark.parametrize("exponent", [-500, 500])
    def test_does_not_depend_on_the_unit(self, rng, exponent):
        X = ar1(rng, 200, 3, 0.8)
        assert independent_share(np.ldexp(X, exponent)) == independent_share(X) < 1.0


class TestFolds:
    def test_random_folds_hold_out_every_signal_once(self, rng):
        folds = make_folds(rng.standard_normal((50, 3)), 4, rng=rng)
        assert np.array_equal(np.sort(np.concatenate([s.test for s in folds.splits])), range(50))
        for split in folds.splits:
            assert np.array_equal(np.sort(np.append(split.train, split.test)), range(50))

    @pytest.mark.parametrize("rho", [0.6, 0.95])
    def test_blocks_are_contiguous_with_a_gap_that_grows_with_the_memory(self, rng, rho):
        folds = make_folds(ar1(rng, 600, 4, rho), 3, rng=rng)
        assert folds.ordered
        nearest = []
        for split in folds.splits:
            assert np.array_equal(np.diff(split.test), np.ones(split.test.size - 1))
            nearest.append(np.abs(split.train[:, None] - split.test[[0, -1]]).min())
        forgotten = np.log(0.1) / np.log(rho)
        assert min(nearest) >= 0.6 * forgotten
        assert max(nearest) <= 61

    def test_a_splitter_is_taken_as_it_is(self, rng):
        X = rng.standard_normal((30, 3))
        folds = make_folds(X, TimeSeriesSplit(4), rng=rng)
        expected = list(TimeSeriesSplit(4).split(X))
        for split, (train, test) in zip(folds.splits, expected, strict=True):
            assert np.array_equal(split.train, train)
            assert np.array_equal(split.test, test)

    def test_groups_stay_together(self, rng):
        groups = rng.integers(0, 7, 40)
        for cv in (3, LeaveOneGroupOut()):
            folds = make_folds(rng.standard_normal((40, 3)), cv, groups, rng=rng)
            assert len(folds.splits) == (3 if cv == 3 else 7)
            for split in folds.splits:
                assert not set(groups[split.train]) & set(groups[split.test])

    @pytest.mark.parametrize("rho", [0.0, 0.9])
    def test_rows_that_follow_each_other_in_a_group_are_no_independent_draws(self, rng, rho):
        folds = make_folds(ar1(rng, 120, 4, rho), groups=np.repeat(np.arange(6), 20))
        assert folds.ordered is (rho > 0.0)

    @pytest.mark.parametrize(
        ("cv", "groups", "message"),
        [
            (1, None, "cv must be an integer >= 2"),
            ("five", None, "cv must be an integer >= 2"),
            (3, [0] * 10, "one group"),
            (3, [0, 1], "one label per signal"),
        ],
    )
    def test_what_does_not_serve_is_refused(self, rng, cv, groups, message):
        with pytest.raises(ValueError, match=message):
            make_folds(rng.standard_normal((10, 3)), cv, groups, rng=rng)

    def test_a_single_signal_leaves_none(self, rng):
        with pytest.raises(ValueError, match="single signal"):
            make_folds(np.ones((1, 3)), rng=rng)


class TestCertainty:
    def test_correlated_errors_are_judged_by_folds(self, rng):
        """Errors that are one draw per fold are below by chance in about 5 of 100."""
        blocks = np.array_split(np.arange(90), 3)
        splits = [Split(np.empty(0, np.intp), block) for block in blocks]
        wrong = {True: 0, False: 0}
        for _ in range(400):
            excess = [np.full(30, draw) for draw in rng.standard_normal(3)]
            for ordered in wrong:
                wrong[ordered] += Folds(splits, ordered).is_below(excess)
        assert wrong[True] <= 0.09 * 400
        assert wrong[False] >= 0.3 * 400
