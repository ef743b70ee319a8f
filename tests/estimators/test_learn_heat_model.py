"""LearnHeat with a level of each node, and with sources that cannot be negative."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from heatgraph import LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators.validation import centre_nodes
from heatgraph.metrics import edge_scores

N, M = 8, 40
GIVEN = {"n_scales": 1, "alpha": 0.02, "beta": 0.01}
RAW = {**GIVEN, "scales": (2.0,), "learn_scales": False, "atoms": "raw"}
LEVEL = np.array([3.0, -1.0, 0.5, 2.0, 0.0, -4.0, 1.0, 7.0])


@pytest.fixture(scope="module")
def truth():
    return make_graph("er", N, random_state=1, p=0.35)


@pytest.fixture(scope="module")
def signals(truth):
    X, _ = make_heat_signals(truth, (2.0,), M, n_sources=1, noise_std=0.01, random_state=1)
    return X


@pytest.fixture(scope="module")
def holed(signals):
    missing = np.random.default_rng(0).random(signals.shape) < 0.2
    return np.where(missing, np.nan, signals)


@pytest.fixture(scope="module")
def levelled(signals):
    return LearnHeat(**GIVEN, fit_intercept=True).fit(signals + LEVEL)


@pytest.fixture(scope="module")
def positive(signals):
    return LearnHeat(**GIVEN, positive=True).fit(np.abs(signals))


def mean_residual(model, X):
    """The largest mean residual of a node, over the spread of the signals."""
    residual = X - model.inverse_transform(model.sources_)
    return np.abs(np.nanmean(residual, axis=0)).max() / np.nanstd(X - np.nanmean(X, axis=0))


class TestIntercept:
    def test_the_graph_is_found_around_a_level(self, truth, signals, levelled):
        assert edge_scores(truth, levelled.graph_).f_measure == 1.0
        # Sources of both signs leave their mean in the level: better, but not by much.
        assert np.abs(levelled.location_ - LEVEL).max() < np.abs(signals.mean(axis=0)).max()

    def test_everything_is_found_around_a_level_without_the_truth(self, truth, signals):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            chosen = LearnHeat(n_scales=1, fit_intercept=True, tol=1e-2).fit(signals + LEVEL)
        assert edge_scores(truth, chosen.graph_).f_measure == 1.0
        assert chosen.selection_["missed"].min() < 0.2
        assert mean_residual(chosen, signals + LEVEL) < 1e-5

    def test_is_zero_unless_asked_for(self, signals):
        assert np.array_equal(LearnHeat(**GIVEN).fit(signals).location_, np.zeros(N))

    @pytest.mark.parametrize("penalty", ["l1", "log"])
    @pytest.mark.parametrize("tol", [1e-2, 1e-5])
    def test_residuals_have_no_mean_whatever_the_tolerance(self, holed, penalty, tol):
        model = LearnHeat(**GIVEN, penalty=penalty, tol=tol, fit_intercept=True).fit(holed + LEVEL)
        assert mean_residual(model, holed + LEVEL) < 1e-5

    def test_objective_is_that_of_the_results(self, signals, levelled):
        lam, U = np.linalg.eigh(levelled.laplacian_)
        omega = np.sqrt(np.square(U) @ np.exp(-2.0 * levelled.scales_[0] * lam))
        size = omega * np.abs(levelled.sources_[:, 0])
        residual = signals + LEVEL - levelled.inverse_transform(levelled.sources_)
        value = (
            np.sum(residual**2)
            + 0.02**2 * np.log1p(size / 0.02).sum()
            + 0.01 * np.sum(levelled.laplacian_**2)
        )
        assert levelled.objective_[-1] == pytest.approx(value, rel=1e-9)
        assert (np.diff(levelled.objective_) <= 1e-10 * levelled.objective_[0]).all()

    def test_is_no_centring(self, signals):
        """The level is not the mean, and the objective is lower than around the mean."""
        X = signals + LEVEL
        model = LearnHeat(**RAW, tol=1e-7, fit_intercept=True).fit(X)
        centred = LearnHeat(**RAW, tol=1e-7).fit(X - X.mean(axis=0))
        assert np.abs(model.location_ - X.mean(axis=0)).max() > 1e-3
        assert model.objective_[-1] < centred.objective_[-1]

    @pytest.mark.parametrize("settings", [RAW, {**GIVEN, "tol": 1e-7}])
    def test_a_constant_added_changes_nothing_else(self, holed, settings):
        one, two = (
            LearnHeat(**settings, fit_intercept=True).fit(holed + times * LEVEL)
            for times in (0.0, 10.0)
        )
        assert two.location_ - one.location_ == pytest.approx(10.0 * LEVEL, abs=1e-4)
        assert two.laplacian_ == pytest.approx(one.laplacian_, abs=1e-3)
        assert two.scales_ == pytest.approx(one.scales_, rel=1e-3)
        assert two.sources_ == pytest.approx(one.sources_, abs=1e-3)
        assert two.objective_[-1] == pytest.approx(one.objective_[-1], rel=1e-6)
        shifted = holed + 10.0 * LEVEL
        assert two.transform(shifted) == pytest.approx(one.transform(holed), abs=1e-3)
        assert two.score(shifted) == pytest.approx(one.score(holed), abs=1e-3)
        assert two.impute(shifted) - 10.0 * LEVEL == pytest.approx(one.impute(holed), abs=1e-3)

    def test_scales_with_the_signals(self, holed):
        c = 1e100  # whose square is still a number, and whose fourth power is none
        X = holed[:20] + LEVEL
        held = {"n_scales": 1, "scales": (2.0,), "learn_scales": False}
        settings = {**held, "beta": 0.0, "fit_intercept": True, "tol": 1e-2}
        one, two = (LearnHeat(**settings).fit(size * X) for size in (1.0, c))
        # One node's level is a hundred times smaller than the others: compare to the largest.
        near = 1e-5 * c * np.abs(one.location_).max()
        assert two.location_ == pytest.approx(c * one.location_, rel=1e-4, abs=near)
        assert two.alpha_ == pytest.approx(c * one.alpha_)
        assert two.graph_.n_edges == one.graph_.n_edges
        assert two.laplacian_ == pytest.approx(one.laplacian_, abs=0.02)

    def test_sources_and_back(self, signals, levelled):
        X = signals + LEVEL
        sources = levelled.transform(X)
        zero = levelled.inverse_transform(np.zeros((1, N)))
        assert zero == pytest.approx(levelled.location_[None])
        assert np.linalg.norm(levelled.inverse_transform(sources) - X) < 0.2 * np.linalg.norm(
            signals
        )
        assert levelled.code(X).gap.max() < 1e-10

    def test_predicts_around_the_level(self, signals, levelled):
        X = signals + LEVEL
        assert levelled.score(X) > 0.8
        hidden = np.random.default_rng(0).random(X.shape) < 0.2
        filled = levelled.impute(np.where(hidden, np.nan, X))
        assert np.array_equal(filled[~hidden], X[~hidden])
        assert np.mean((filled - X)[hidden] ** 2) < 0.3 * np.mean(signals[hidden] ** 2)

    def test_signals_at_their_level_are_predicted_no_better(self, levelled):
        with pytest.warns(UserWarning, match="no better than location_ does"):
            assert levelled.score(np.tile(levelled.location_, (3, 1))) == 0.0

    def test_names_and_resamples_and_edges(self, signals):
        X = pd.DataFrame(signals + LEVEL, columns=list("abcdefgh"))
        model = LearnHeat(**GIVEN, fit_intercept=True, n_bootstrap=2, tol=1e-2).fit(X)
        assert model.graph_.confidence.max() == 1.0
        assert LearnHeat(**GIVEN, fit_intercept=True, n_edges=5).fit(X).graph_.n_edges == 5

    def test_a_node_that_was_never_observed_is_at_zero(self, signals):
        X = signals + LEVEL
        X[:, 3] = np.nan
        with pytest.warns(UserWarning, match=r"never observed.*\[3\]"):
            model = LearnHeat(**GIVEN, fit_intercept=True).fit(X)
        assert model.location_[3] == 0.0

    def test_no_caution_of_a_common_level(self, signals):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            LearnHeat(**GIVEN, tol=1e-2, fit_intercept=True).fit(signals + LEVEL)

    def test_a_level_that_does_not_settle_is_told(self, signals, monkeypatch):
        monkeypatch.setattr("heatgraph.solvers.signal_model.MAX_STEPS", 0)
        with pytest.warns(ConvergenceWarning, match="location_ has not settled.*raise alpha"):
            LearnHeat(**RAW, fit_intercept=True).fit(signals)

    @pytest.mark.parametrize("value", [0.1, 1e6 / 3.0])
    def test_nodes_that_do_not_vary_have_no_graph(self, value):
        with pytest.raises(ValueError, match="every observed entry is the mean of its node"):
            LearnHeat(**GIVEN, fit_intercept=True).fit(np.full((7, N), value) * (1.0 + LEVEL))

    def test_one_signal_has_no_level(self, signals):
        with pytest.raises(ValueError, match="fit_intercept=True takes a single signal"):
            LearnHeat(**GIVEN, fit_intercept=True).fit(signals[:1])


class TestCentring:
    def test_means_of_what_was_observed(self, holed):
        level, around = centre_nodes(holed)
        assert level == pytest.approx(np.nanmean(holed, axis=0))
        assert level + around == pytest.approx(holed, nan_ok=True)

    def test_sums_out_of_range(self):
        level, around = centre_nodes(
            np.full((4, 2), 1e308) * np.array([[1.0], [0.5], [1.0], [0.5]])
        )
        assert level == pytest.approx([0.75e308, 0.75e308])
        assert np.isfinite(around).all()

    def test_constants_leave_nothing(self):
        X = np.full((7, 3), 0.1) * np.array([1.0, 1e9, np.nan])
        X[2, 0] = np.nan
        level, around = centre_nodes(X)
        assert level == pytest.approx([0.1, 1e8, 0.0])
        assert not np.nan_to_num(around).any()
        assert np.array_equal(np.isnan(around), np.isnan(X))


class TestPositive:
    @pytest.mark.parametrize("penalty", ["l1", "log"])
    @pytest.mark.parametrize("atoms", ["raw", "unit"])
    def test_no_source_is_negative(self, signals, penalty, atoms):
        settings = {**RAW, "atoms": atoms, "penalty": penalty}
        model = LearnHeat(**settings, positive=True).fit(signals)
        assert model.sources_.min() >= 0.0
        assert model.transform(signals).min() >= 0.0
        assert LearnHeat(**settings).fit(signals).sources_.min() < 0.0

    @pytest.mark.parametrize("penalty", ["l1", "log"])
    def test_optimality_of_the_sources(self, signals, penalty):
        """The correlation is at most the slope of the penalty at zeros, and that on the support."""
        model = LearnHeat(**GIVEN, penalty=penalty, positive=True).fit(signals)
        lam, U = np.linalg.eigh(model.laplacian_)
        D = (U * np.exp(-model.scales_[0] * lam)) @ U.T
        h = model.code(signals).sources[:, 0]
        size = np.linalg.norm(D, axis=0)
        slope = 2.0 * (signals - h @ D) @ D
        if penalty == "l1":
            bound = np.broadcast_to(model.alpha_ * size, h.shape)
            assert (slope <= bound + 1e-7).all()
            assert slope[h > 0.0] == pytest.approx(bound[h > 0.0], rel=1e-6)
        else:  # after three rounds the tangent is nearly that at the sources themselves
            bound = model.alpha_ * size / (1.0 + size * h / model.alpha_)
            assert slope[h > 0.0] == pytest.approx(bound[h > 0.0], abs=0.2 * model.alpha_)
            assert (slope <= bound + 0.2 * model.alpha_)[h == 0.0].all()

    def test_predicts(self, signals, positive):
        X = np.abs(signals)
        hidden = np.random.default_rng(0).random(X.shape) < 0.2
        filled = positive.impute(np.where(hidden, np.nan, X))
        assert filled.min() >= 0.0
        assert np.mean((filled - X)[hidden] ** 2) < 0.3 * np.mean(X[hidden] ** 2)
        assert positive.score(X) > 0.7
        with pytest.warns(UserWarning, match="no better than zero"):
            assert positive.score(-X) == 0.0

    def test_scales_with_the_signals(self, signals, positive):
        c = 2.0**7
        other = LearnHeat(n_scales=1, alpha=0.02 * c, beta=0.01 * c * c, positive=True)
        other.fit(c * np.abs(signals))
        assert np.array_equal(other.laplacian_, positive.laplacian_)
        assert np.array_equal(other.sources_, c * positive.sources_)

    def test_parameters_are_chosen_with_it(self, truth):
        X, H = make_heat_signals(truth, (2.0,), M, n_sources=1, noise_std=0.01, random_state=1)
        X = X * np.sign(H.reshape(M, -1).sum(axis=1))[:, None]  # one source a signal: now positive
        chosen = LearnHeat(n_scales=1, positive=True, tol=1e-2).fit(X)
        assert edge_scores(truth, chosen.graph_).f_measure == 1.0
        assert chosen.sources_.min() >= 0.0

    def test_many_nodes_whose_laplacian_is_sparse(self, monkeypatch):
        monkeypatch.setattr("heatgraph.estimators.fitted_graph.DENSE_NODES", 20)
        graph = make_graph("ring", 30, random_state=0)
        X, _ = make_heat_signals(graph, (1.0,), 3, n_sources=2, random_state=0)
        settings = {"scales": (1.0,), "learn_scales": False, "n_scales": 1}
        model = LearnHeat(
            alpha=0.05, beta=0.1, solver="dense", candidates=graph, positive=True, **settings
        ).fit(X)
        assert not isinstance(model.laplacian_, np.ndarray)
        assert model.transform(X).min() >= 0.0


@pytest.mark.parametrize(
    ("name", "solver"),
    [("fit_intercept", "sparse"), ("fit_intercept", "paper"), ("positive", "paper")],
)
def test_other_solvers_refuse(signals, name, solver):
    settings = {**RAW, "solver": solver, name: True}
    with pytest.raises(ValueError, match=rf'{name}=True needs solver="dense".*{name}=False'):
        LearnHeat(**settings).fit(signals)


@pytest.mark.parametrize("name", ["fit_intercept", "positive"])
class TestRefuses:
    def test_signals_elsewhere(self, signals, name):
        array = pytest.importorskip("dask.array")
        with pytest.raises(ValueError, match=rf"{name}=True needs the signals in memory.*compute"):
            LearnHeat(**GIVEN, **{name: True}).fit(array.from_array(signals, chunks=(20, N)))
