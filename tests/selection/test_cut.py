"""Where weights are cut: between noise and edges, and nowhere where there is no noise."""

from __future__ import annotations

import numpy as np
import pytest

from heatgraph.selection.cut import mixture_cut, otsu, typical_cut, valley_cut


def noise_and_edges(rng, n_noise, n_edges, noise=0.01):
    edges = rng.normal(0.5, 0.05, n_edges)
    return np.concatenate([rng.exponential(noise, n_noise), edges]), n_noise


class TestOtsu:
    def test_maximises_the_variance_between_the_groups(self, rng):
        w = rng.exponential(size=40)
        v = np.sort(w)

        def between(k):
            low, high = v[:k], v[k:]
            return low.size * high.size * (low.mean() - high.mean()) ** 2

        best = max(range(1, 40), key=between)
        assert v[best - 1] < otsu(w) < v[best]

    def test_two_values(self):
        assert otsu(np.array([1.0, 0.0, 0.0, 1.0])) == 0.5

    def test_two_weights(self):
        assert otsu(np.array([3.0, 1.0])) == 2.0

    def test_equal_weights_all_stay(self):
        assert otsu(np.full(10, 0.1)) < 0.1


@pytest.mark.parametrize("rule", [typical_cut, valley_cut, mixture_cut])
@pytest.mark.parametrize(("n_noise", "n_edges"), [(10, 10), (150, 20), (20, 150)])
def test_separates_noise_from_edges(rng, rule, n_noise, n_edges):
    w, first_edge = noise_and_edges(rng, n_noise, n_edges)
    cut = rule(w)
    kept = w > cut
    assert kept[first_edge:].all()
    assert kept[:first_edge].mean() < 0.3


def test_mixture_cut_is_a_weight_that_counts_as_noise(rng):
    w, first_edge = noise_and_edges(rng, 40, 20)
    assert mixture_cut(w) == w[:first_edge].max()


@pytest.mark.parametrize("rule", [mixture_cut, typical_cut, valley_cut, otsu])
class TestSymmetries:
    def test_unit(self, rng, rule):
        w, _ = noise_and_edges(rng, 40, 20)
        assert rule(8.0 * w) == pytest.approx(8.0 * rule(w), rel=1e-6)

    def test_order(self, rng, rule):
        w, _ = noise_and_edges(rng, 40, 20)
        assert rule(rng.permutation(w)) == pytest.approx(rule(w), rel=1e-9)

    def test_weights_are_not_written(self, rng, rule):
        w, _ = noise_and_edges(rng, 40, 20)
        before = w.copy()
        rule(w)
        assert np.array_equal(w, before)


@pytest.mark.parametrize("w", [[], [0.0], [0.0, 0.0], [1.0], [0.5, 0.4, 0.6], [0.0, 0.1, 0.2]])
def test_too_few_weights_for_a_mixture(w):
    assert mixture_cut(np.array(w, dtype=float)) == 0.0


@pytest.mark.parametrize("rule", [typical_cut, valley_cut, mixture_cut])
class TestNothingToCut:
    @pytest.mark.parametrize("n", [4, 28, 500])
    def test_equal_weights_all_stay(self, rule, n):
        assert rule(np.full(n, 0.3)) < 0.3

    def test_edges_without_noise_all_stay(self, rng, rule):
        w = np.concatenate([np.zeros(30), rng.normal(0.5, 0.03, 20)])
        assert rule(w) < w[30:].min()


def test_rounding_is_no_weight(rng):
    """Weights a millionth of the largest do not pass for the noise of which there is none."""
    w = np.concatenate([np.full(30, 1e-12), rng.normal(0.5, 0.03, 20)])
    assert mixture_cut(w) < w[30:].min()


def test_typical_weight_counts_every_edge_by_its_weight():
    w = np.array([0.0, 0.0, 0.4, 0.4, 0.4])
    assert typical_cut(w) == pytest.approx(0.35 * 0.4)
    assert typical_cut(np.zeros(3)) == 0.0


class TestValley:
    def test_is_where_weights_are_rarest(self, rng):
        w = np.concatenate([np.abs(rng.normal(0.0, 0.2, 2000)), rng.normal(1.0, 0.15, 2000)])
        counts = np.histogram(w, np.arange(0.0, 1.05, 0.05))[0]
        rarest = 0.05 * (np.argmin(counts) + 0.5)
        assert valley_cut(w) == pytest.approx(rarest, abs=0.1)

    def test_follows_noise_that_reaches_up_to_the_edges(self, rng):
        """Twice as many invented weights as edges, nearly as large, as on a tree in noise."""
        edges = rng.normal(1.0, 0.25, 2000)
        w = np.concatenate([np.abs(rng.normal(0.0, 0.4, 4000)), edges])
        is_edge = np.arange(w.size) >= 4000

        def f_measure(cut):
            kept = w >= cut
            return 2.0 * (kept & is_edge).sum() / (kept.sum() + is_edge.sum())

        assert f_measure(valley_cut(w)) > f_measure(typical_cut(w)) + 0.1

    def test_is_the_share_of_the_typical_weight_where_edges_become_rarer_down_to_it(self, rng):
        w = np.concatenate([rng.exponential(0.05, 2000), np.abs(rng.normal(1.0, 0.35, 4000))])
        assert valley_cut(w) == pytest.approx(typical_cut(w))

    def test_few_weights_fewer_by_chance_do_not_move_it(self):
        """Ten weights within a tenth of the least cut, and six at the rarest place."""
        low, high = np.linspace(0.36, 0.44, 10), np.linspace(0.56, 0.64, 6)
        w = np.concatenate([low, high, np.linspace(0.75, 1.25, 60)])
        w *= w.sum() / (w @ w)  # in units of the typical weight
        assert valley_cut(w) > 1.1 * typical_cut(w)
        assert valley_cut(w, deviations=2.0) == pytest.approx(typical_cut(w))

    @pytest.mark.parametrize("w", [[], [0.0], [0.0, 0.0]])
    def test_no_weights(self, w):
        assert valley_cut(np.array(w)) == 0.0

    def test_a_single_weight_stays(self):
        assert 0.0 < valley_cut(np.array([2.0])) < 2.0


def test_a_single_weight_is_not_cut():
    assert otsu(np.array([1.0])) == 0.0
