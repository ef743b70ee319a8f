"""LearnHeat: the contract of an estimator, its symmetries, its choices and its words."""

from __future__ import annotations

import itertools
import warnings
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import replace
from typing import ClassVar

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, PredefinedSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from heatgraph import Graph, HeatCovariance, LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators import fitting, progress
from heatgraph.metrics import edge_scores
from heatgraph.models.heat import Signals
from heatgraph.selection.choose_parameters import ALPHAS, BETAS
from heatgraph.selection.cut import valley_cut
from heatgraph.selection.masked_prediction import HIDDEN_SHARE, hide_entries

N, M = 8, 40
NAMES = tuple("abcdefgh")
# Numbers in place of "auto": a fit of a few hundredths of a second.
GIVEN = {"n_scales": 1, "alpha": 0.02, "beta": 0.01}
HELD = {"scales": (2.0,), "learn_scales": False}
RAW = {**GIVEN, **HELD, "atoms": "raw"}
# Where alpha and beta are chosen: many fits.
CHOOSING = {"n_scales": 1, "tol": 1e-2}


@pytest.fixture(scope="module")
def truth():
    return make_graph("er", N, random_state=1, p=0.35)


@pytest.fixture(scope="module")
def signals(truth):
    """One source a signal, one scale, little noise: as easy as it gets."""
    X, _ = make_heat_signals(truth, (2.0,), M, n_sources=1, noise_std=0.01, random_state=1)
    X.flags.writeable = False
    return X


@pytest.fixture(scope="module")
def frame(signals):
    return pd.DataFrame(signals, columns=list(NAMES))


@pytest.fixture(scope="module")
def model(signals):
    return LearnHeat(**GIVEN).fit(signals)


@pytest.fixture(scope="module")
def named(frame):
    return LearnHeat(**GIVEN).fit(frame)


@pytest.fixture(scope="module")
def two(signals):
    """The model of two scales."""
    return LearnHeat(alpha=0.01, beta=0.01).fit(signals)


@pytest.fixture(scope="module")
def chosen(signals):
    """The model whose alpha and beta were chosen."""
    return LearnHeat(**CHOOSING).fit(signals)


@pytest.fixture(scope="module")
def holed(signals):
    """The signals with 30% of the entries missing."""
    missing = np.random.default_rng(0).random(signals.shape) < 0.3
    return np.where(missing, np.nan, signals)


@pytest.fixture(scope="module")
def holed_model(holed):
    return LearnHeat(n_scales=1, alpha=0.03, beta=0.001).fit(holed)


def same_bits(one: LearnHeat, other: LearnHeat) -> bool:
    fields = ("laplacian_", "scales_", "sources_", "objective_")
    return one.graph_ == other.graph_ and all(
        np.array_equal(getattr(one, f), getattr(other, f)) for f in fields
    )


CHECKED = [
    LearnHeat(n_scales=1, alpha=0.1, beta=0.1, max_iter=200, tol=1e-2),
    LearnHeat(n_scales=2, alpha=0.1, beta=0.1, penalty="l1", max_iter=200),
    LearnHeat(alpha=0.1, beta=0.1, scales=(1.0, 3.0), learn_scales=False, atoms="raw"),
    LearnHeat(n_scales=1, alpha=0.1, beta=0.1, scales=(2.0,), learn_scales=False, n_edges=1),
    LearnHeat(
        n_scales=1, alpha=0.1, beta=0.1, max_iter=200, tol=1e-3, fit_intercept=True, positive=True
    ),
]


# The data of the checks are blobs and noise: no heat to find, and a limit may be met.
no_heat = pytest.mark.filterwarnings(
    "ignore:LearnHeat. no parameters predict:UserWarning",
    "ignore:LearnHeat. The iteration limit:sklearn.exceptions.ConvergenceWarning",
    "ignore:LearnHeat. No step lowered:sklearn.exceptions.ConvergenceWarning",
    "ignore:LearnHeat. the model predicts these signals no better:UserWarning",
    "ignore:LearnHeat. the mean of each:UserWarning",
    r"ignore:LearnHeat. \d+% of the energy lies in the means:UserWarning",
    "ignore:LearnHeat. the values chosen are the last ones:UserWarning",
)
skips = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")


@skips
@no_heat
@parametrize_with_checks(CHECKED[:1])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.mark.slow
@skips
@no_heat
@parametrize_with_checks([*CHECKED[1:], LearnHeat()])
def test_scikit_learn_accepts_its_other_forms(estimator, check):
    check(estimator)


class TestFit:
    def test_holds_its_results(self, model):
        assert model.status_ == "converged"
        assert model.residual_ <= model.tol
        assert np.trace(model.laplacian_) == pytest.approx(N)
        assert model.weights_.laplacian().toarray() == pytest.approx(model.laplacian_)
        assert model.graph_ == model.weights_.cut(weight=model.cut_)
        assert model.scales_.shape == (1,)
        assert model.sources_.shape == (M, 1, N)
        assert model.objective_.size == model.n_iter_ + 1
        assert (np.diff(model.objective_) <= 1e-10 * model.objective_[0]).all()
        assert (model.alpha_, model.beta_) == pytest.approx((0.02, 0.01), rel=1e-15)
        assert model.selection_ is None
        assert model.n_features_in_ == N

    def test_objective_is_that_of_the_results(self, signals, model):
        """``||X - D H||^2 + alpha^2 sum log(1 + omega |H| / alpha) + beta ||L||_F^2``."""
        lam, U = np.linalg.eigh(model.laplacian_)
        omega = np.sqrt(np.square(U) @ np.exp(-2.0 * model.scales_[0] * lam))
        u = omega * np.abs(model.sources_[:, 0])
        residual = signals - model.inverse_transform(model.sources_)
        value = (
            np.sum(residual**2)
            + 0.02**2 * np.log1p(u / 0.02).sum()
            + 0.01 * np.sum(model.laplacian_**2)
        )
        assert model.objective_[-1] == pytest.approx(value, rel=1e-9)

    def test_everything_is_found_without_the_truth(self, truth, chosen):
        assert edge_scores(truth, chosen.graph_).f_measure == 1.0
        assert chosen.scales_ == pytest.approx([2.0], rel=0.15)

    def test_what_was_tried_is_listed(self, chosen):
        table = chosen.selection_
        assert 3 <= len(table) <= len(ALPHAS) + len(BETAS)  # one parameter at a time
        assert not table.duplicated(["alpha", "beta"]).any()
        assert table["missed"].between(0.0, 1.0).all()
        row = table[(table["alpha"] == chosen.alpha_)].sort_values("missed").iloc[0]
        assert chosen.scales_[0] >= 0.99 * row["scale1"]
        then = chosen.stretches_
        assert then["missed"].between(0.0, 1.0).all()
        row = then[
            (then["beta"] == chosen.beta_)
            & (then["scale1"] == chosen.scales_[0])
            & np.isclose(then["coding"] * chosen.alpha_, chosen.predicting_alpha_)
        ]
        assert len(row) == 1

    def test_hidden_entries_are_predicted_with_their_own_alpha(self, chosen, signals):
        hidden = np.random.default_rng(0).random(signals.shape) < 0.25
        gaps = np.where(hidden, np.nan, signals)
        other = copy(chosen)
        other.alpha_ = chosen.predicting_alpha_
        assert np.array_equal(chosen.impute(gaps), other.impute(gaps), equal_nan=True)
        filled = other.inverse_transform(other.transform(gaps))
        assert np.array_equal(chosen.impute(gaps)[hidden], filled[hidden])

    def test_two_scales_are_told_apart(self):
        graph = make_graph("er", 10, random_state=1)
        X, _ = make_heat_signals(graph, (1.0, 4.0), 60, n_sources=2, random_state=1)
        learned = LearnHeat(alpha=0.02, beta=0.002).fit(X)
        assert learned.scales_ == pytest.approx([1.0, 4.0], rel=0.1)
        assert learned.sources_.shape == (60, 2, 10)
        assert edge_scores(graph, learned.graph_).f_measure == 1.0

    def test_scales_do_not_depend_on_where_they_start(self):
        graph = make_graph("er", 10, random_state=1)
        X, _ = make_heat_signals(graph, (1.0, 4.0), 60, n_sources=2, random_state=1)
        found = [
            LearnHeat(alpha=0.02, beta=0.002, scales=start).fit(X).scales_
            for start in [(0.1, 0.2), (5.0, 20.0)]
        ]
        assert found[1] == pytest.approx(found[0], rel=0.02)

    @pytest.mark.slow
    def test_number_of_scales_is_found(self, signals):
        assert LearnHeat(n_scales="auto").fit(signals).scales_.size == 1

    def test_number_of_scales_is_chosen_among_three(self, signals):
        learned = LearnHeat(n_scales="auto", alpha=0.02, beta=0.01, tol=1e-2).fit(signals)
        assert learned.selection_["n_scales"].tolist() == [1, 2, 3]
        assert learned.scales_.size == 1

    def test_scales_held_are_held(self, signals):
        learned = LearnHeat(alpha=0.02, beta=0.01, scales=(3.0, 1.0), learn_scales=False)
        assert np.array_equal(learned.fit(signals).scales_, [1.0, 3.0])

    @pytest.mark.parametrize("dtype", [np.float32, np.int64])
    def test_other_types_of_number(self, signals, dtype):
        X = (1000.0 * signals).astype(dtype)
        settings = {**GIVEN, "alpha": 20.0, "beta": 1e4}
        one = LearnHeat(**settings).fit(X)
        assert same_bits(one, LearnHeat(**settings).fit(X.astype(np.float64)))

    def test_input_is_not_written(self, holed):
        X, scales, before = holed.copy(), np.array([2.0]), holed.copy()
        pairs = np.array(np.triu_indices(N, 1)).T.copy()
        kept = pairs.copy()
        settings = {**GIVEN, "scales": scales, "candidates": pairs}
        learned = LearnHeat(**settings).fit(X)
        learned.transform(X)
        learned.impute(X)
        learned.score(X)
        H = learned.sources_.copy()
        learned.inverse_transform(H)
        assert np.array_equal(X, before, equal_nan=True)
        assert np.array_equal(scales, [2.0])
        assert np.array_equal(pairs, kept)
        assert np.array_equal(H, learned.sources_)
        assert learned.get_params()["scales"] is scales


class TestNames:
    def test_columns_name_the_nodes(self, named, model):
        assert named.graph_.names == NAMES
        assert named.weights_.names == NAMES
        assert np.array_equal(named.laplacian_, model.laplacian_)
        assert list(named.feature_names_in_) == list(NAMES)

    def test_numbered_columns_do_not(self, signals):
        assert LearnHeat(**RAW).fit(pd.DataFrame(signals)).graph_.names is None

    def test_numbers_that_are_names(self, signals):
        years = pd.DataFrame(signals, columns=range(1990, 2006, 2))
        years.columns = list(years.columns)
        assert LearnHeat(**RAW).fit(years).graph_.names == tuple(range(1990, 2006, 2))

    def test_named_signals_are_asked_for_by_name(self, frame, named, recwarn):
        named.transform(frame)
        named.score(frame)
        named.impute(frame)
        assert not recwarn.list
        with pytest.raises(ValueError, match="feature names"):
            named.transform(frame[list(reversed(NAMES))])

    def test_features_are_nodes_at_scales(self, two, named):
        names = two.get_feature_names_out()
        assert (names[0], names[N]) == ("x0@scale1", "x0@scale2")
        assert len(names) == 2 * N
        assert named.get_feature_names_out()[0] == "a@scale1"

    def test_features_of_numbered_nodes(self, model):
        assert list(model.get_feature_names_out()) == [f"x{k}@scale1" for k in range(N)]


class TestCoding:
    def test_transform_is_code_with_a_row_a_signal(self, signals, model):
        codes = model.code(signals)
        assert codes.sources.shape == (M, 1, N)
        assert (codes.gap <= 1e-9).all()
        assert np.array_equal(model.transform(signals), codes.sources.reshape(M, N))

    def test_sources_of_the_fit_are_found_again_from_themselves(self, signals, two):
        """From none at all, some signals end at other stationary sources, which is documented."""
        again = two.code(signals, start=two.sources_).sources
        assert again == pytest.approx(two.sources_, abs=1e-8 * np.abs(two.sources_).max())
        flat = two.code(signals, start=two.sources_.reshape(M, -1)).sources
        assert np.array_equal(flat, again)
        with pytest.raises(ValueError, match="H must be"):
            two.code(signals, start=two.sources_[:, :1])

    def test_both_layouts_diffuse_alike(self, signals, two):
        H = two.transform(signals)
        assert H.shape == (M, 2 * N)
        stacked = H.reshape(M, 2, N)
        assert np.array_equal(two.inverse_transform(H), two.inverse_transform(stacked))
        lam, U = np.linalg.eigh(two.laplacian_)
        expected = sum(
            stacked[:, s] @ (U * np.exp(-t * lam)) @ U.T for s, t in enumerate(two.scales_)
        )
        assert two.inverse_transform(H) == pytest.approx(expected, abs=1e-12)

    def test_signals_are_rebuilt(self, signals, model):
        rebuilt = model.inverse_transform(model.transform(signals))
        assert np.linalg.norm(rebuilt - signals) < 0.15 * np.linalg.norm(signals)
        rebuilt = model.inverse_transform(model.sources_)
        assert np.linalg.norm(rebuilt - signals) < 0.15 * np.linalg.norm(signals)

    def test_sources_are_few(self, signals, model):
        assert np.count_nonzero(model.transform(signals)) < 3 * M

    def test_score_of_nothing(self, signals, model):
        with pytest.raises(ValueError, match="X: no entry was observed"):
            model.score(np.full_like(signals, np.nan))

    def test_codes_in_a_line(self, signals, model):
        n = np.count_nonzero(model.transform(signals))
        assert repr(model.code(signals)) == (
            f"SourceCodes({n} sources of {M} signals, at {N} nodes and 1 scales)"
        )

    def test_any_unit_will_do(self, signals, model):
        """A signal far below alpha has no sources; one far above it is coded as it is."""
        assert not model.transform(1e-300 * signals).any()
        large = 1e200 * signals
        rebuilt = model.inverse_transform(model.transform(large))
        assert rebuilt / 1e200 == pytest.approx(signals, abs=1e-6)

    def test_nothing_has_no_sources(self, model):
        codes = model.code(np.zeros((2, N)))
        assert not codes.sources.any()
        assert not codes.gap.any()

    def test_no_signals_diffuse_into_none(self, model):
        assert model.inverse_transform(np.empty((0, N))).shape == (0, N)

    @pytest.mark.parametrize("shape", [(N,), (3, N + 1), (3, 2, N), (3, 1, N, 1), (3, N, 1)])
    def test_sources_of_another_shape_are_refused(self, model, shape):
        with pytest.raises(ValueError, match=rf"H must be \(n_signals, 1, {N}\) or .*got"):
            model.inverse_transform(np.zeros(shape))

    def test_sources_as_a_table(self, frame, named):
        learned = named
        few = frame.iloc[:3].set_axis(["mon", "tue", "wed"], axis=0)
        codes = learned.code(few)
        table = codes.to_pandas()
        assert list(table.columns) == ["signal", "node", "scale", "strength"]
        assert len(table) == np.count_nonzero(codes.sources)
        for row in table.itertuples():
            at = few.index.get_loc(row.signal), 0, NAMES.index(row.node)
            assert codes.sources[at] == row.strength
            assert row.scale == learned.scales_[0]
        first = table.drop_duplicates("signal")
        assert first["strength"].abs().tolist() == np.abs(codes.sources).max((1, 2)).tolist()

    def test_sources_without_names_are_numbered(self, signals, model):
        table = model.code(signals[:2]).to_pandas()
        assert set(table["signal"]) <= {0, 1}
        assert set(table["node"]) <= set(range(N))


class TestScore:
    def test_is_the_share_of_hidden_energy_predicted(self, truth, chosen):
        X, _ = make_heat_signals(truth, (2.0,), M, n_sources=1, noise_std=0.01, random_state=9)
        assert 0.7 < chosen.score(X) < 1.0
        assert chosen.score(X) == chosen.score(X)

    def test_a_model_that_predicts_nothing_says_so(self, model, rng):
        with pytest.warns(UserWarning, match="predicts these signals no better than zero"):
            assert model.score(rng.standard_normal((M, N))) <= 0.0

    def test_nothing_to_predict(self, model):
        with pytest.warns(UserWarning, match="no better than zero"):
            assert model.score(np.zeros((3, N))) == 0.0


class TestTools:
    def test_pipeline_and_pandas(self, frame):
        pipeline = make_pipeline(FunctionTransformer(), LearnHeat(**GIVEN))
        coded = pipeline.set_output(transform="pandas").fit_transform(frame)
        assert list(coded.columns) == [f"{name}@scale1" for name in NAMES]
        back = pipeline[-1].inverse_transform(coded)
        assert back == pytest.approx(frame.to_numpy(), abs=0.2)

    def test_clone_and_parameters(self, model):
        other = clone(model).set_params(alpha=0.5, n_scales=2)
        assert other.get_params() == model.get_params() | {"alpha": 0.5, "n_scales": 2}
        assert not hasattr(other, "graph_")

    @pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
    def test_joblib(self, signals, model, backend):
        tasks = (joblib.delayed(LearnHeat(**GIVEN).fit)(signals) for _ in range(2))
        for fitted in joblib.Parallel(2, backend=backend)(tasks):
            assert same_bits(fitted, model)

    def test_grid_search(self, signals):
        # An alpha above every signal leaves no sources: it predicts nothing, and says so.
        search = GridSearchCV(LearnHeat(**GIVEN), {"alpha": [0.005, 0.05, 50.0]}, cv=3)
        with pytest.warns(UserWarning, match="no better than zero"):
            search.fit(signals)
        scores = search.cv_results_["mean_test_score"]
        assert scores[2] == 0.0
        assert search.best_score_ > 0.5


class TestSymmetries:
    def test_order_of_nodes(self, signals):
        order = np.random.default_rng(0).permutation(N)
        settings = {**GIVEN, "tol": 1e-7}
        one = LearnHeat(**settings).fit(signals)
        other = LearnHeat(**settings).fit(signals[:, order])
        assert other.laplacian_ == pytest.approx(one.laplacian_[np.ix_(order, order)], abs=2e-3)
        edges = {tuple(sorted(order[edge])) for edge in other.graph_.edges}
        assert edges == {tuple(edge) for edge in one.graph_.edges}

    def test_order_of_signals(self, signals):
        one, other = (LearnHeat(**GIVEN).fit(X) for X in (signals, signals[::-1]))
        assert other.laplacian_ == pytest.approx(one.laplacian_, abs=2e-3)

    @pytest.mark.parametrize("atoms", ["unit", "raw"])
    @pytest.mark.parametrize("c", [1e-6, 3.7, 1e6])
    def test_unit_of_the_signals(self, signals, atoms, c):
        """X, alpha and beta in other units are the same problem."""
        settings = {**RAW, "atoms": atoms}
        one = LearnHeat(**settings).fit(signals)
        scaled = {**settings, "alpha": 0.02 * c, "beta": 0.01 * c * c}
        other = LearnHeat(**scaled).fit(c * signals)
        assert other.laplacian_ == pytest.approx(one.laplacian_, abs=1e-3)
        assert other.sources_ / c == pytest.approx(one.sources_, abs=1e-2)
        assert other.objective_[-1] / c / c == pytest.approx(one.objective_[-1], rel=1e-4)

    @pytest.mark.parametrize("c", [1e-300, 1e300])
    def test_unit_of_the_signals_when_all_is_chosen(self, chosen, signals, c):
        other = LearnHeat(**CHOOSING).fit(c * signals)
        assert other.laplacian_ == pytest.approx(chosen.laplacian_, abs=1e-3)
        assert np.array_equal(other.graph_.edges, chosen.graph_.edges)
        assert other.scales_ == pytest.approx(chosen.scales_, rel=1e-3)
        assert other.alpha_ / c == pytest.approx(chosen.alpha_)
        assert other.transform(c * signals) / c == pytest.approx(
            chosen.transform(signals), abs=1e-2
        )

    def test_penalties_out_of_proportion(self, signals):
        with pytest.raises(ValueError, match=r"beta = 1.0 is too large for signals so small"):
            LearnHeat(n_scales=1, alpha=0.0, beta=1.0).fit(1e-200 * signals)


class TestSeeds:
    def test_without_a_seed_it_repeats(self, signals):
        settings = {**GIVEN, **HELD, "init": "random"}
        one, other = (LearnHeat(random_state=seed, **settings).fit(signals) for seed in (None, 0))
        assert same_bits(one, other)

    @pytest.mark.parametrize(
        "seed", [7, np.int64(7), np.random.RandomState(7), np.random.default_rng(7)]
    )
    def test_same_seed_same_bits(self, signals, seed):
        settings = {**GIVEN, **HELD, "init": "random"}
        one, other = (
            LearnHeat(random_state=deepcopy(seed), **settings).fit(signals) for _ in range(2)
        )
        assert same_bits(one, other)

    def test_another_seed_starts_elsewhere(self, signals):
        settings = {**GIVEN, **HELD, "init": "random"}
        one, other = (LearnHeat(random_state=k, **settings).fit(signals) for k in (1, 2))
        assert one.objective_[0] != other.objective_[0]

    def test_more_jobs_same_bits(self, signals):
        settings = {**CHOOSING, "beta": 0.01, "n_bootstrap": 3}
        one, two = (LearnHeat(n_jobs=n, **settings).fit(signals) for n in (1, 2))
        assert same_bits(one, two)
        assert np.array_equal(one.transform(signals), two.transform(signals))


class TestEnds:
    def test_a_limit_is_said(self, signals):
        with pytest.warns(ConvergenceWarning, match="LearnHeat: The iteration limit.*max_iter"):
            learned = LearnHeat(**{**GIVEN, "max_iter": 3}).fit(signals)
        assert learned.status_ == "max_iter"
        assert learned.n_iter_ == 3

    def test_the_warning_points_at_the_caller(self, signals):
        with pytest.warns(ConvergenceWarning) as caught:
            LearnHeat(**{**GIVEN, "max_iter": 3}).fit(signals)
        assert caught[0].filename == __file__

    @pytest.mark.parametrize("at", [0, 25])
    @pytest.mark.parametrize("settings", [GIVEN, RAW, {**GIVEN, "scales": (1.0,)}])
    def test_an_interrupt_keeps_the_best_so_far(self, signals, at, settings):
        steps = []

        def stop(step):
            steps.append(step)
            if len(steps) == at + 1:
                raise KeyboardInterrupt

        learned = LearnHeat(**{**settings, "tol": 1e-9}).fit(signals, monitor=stop)
        assert learned.status_ == "interrupted"
        assert len(steps) == at + 1
        assert learned.objective_[-1] <= steps[0].objective * (1.0 + 1e-12)
        assert np.trace(learned.laplacian_) == pytest.approx(N)
        assert learned.transform(signals).shape == (M, N)

    def test_an_interrupt_of_the_second_start_is_one(self, signals):
        starts = []

        def second_stops(step):
            starts.extend([step] if step.iteration == 0 else [])
            if len(starts) == 2:
                raise KeyboardInterrupt

        learned = LearnHeat(**{**GIVEN, "scales": (1.0,)}).fit(signals, monitor=second_stops)
        assert learned.status_ == "interrupted"
        assert len(starts) == 2
        assert learned.n_iter_ > 0

    def test_an_interrupt_ends_the_search_for_a_number_of_edges(self, signals):
        steps = []

        def stop(step):
            steps.append(step)
            raise KeyboardInterrupt

        settings = {"n_scales": 1, "alpha": 0.02, **HELD, "n_edges": 3, "n_bootstrap": 2}
        learned = LearnHeat(**settings).fit(signals, monitor=stop)
        assert learned.status_ == "interrupted"
        assert len(steps) == 1
        assert learned.graph_.n_edges == 3
        assert learned.graph_.confidence is None

    def test_monitor_sees_the_units_of_the_signals(self, signals):
        steps = []
        learned = LearnHeat(**GIVEN).fit(signals, monitor=steps.append)
        assert steps[0].objective == pytest.approx(learned.objective_[0])
        assert steps[-1].iteration == learned.n_iter_
        assert steps[-1].residual == learned.residual_

    @pytest.mark.parametrize("beta", ["auto", 0.01])
    def test_a_bar_on_demand(self, signals, capsys, beta):
        LearnHeat(**{**GIVEN, "beta": beta, "tol": 0.1, "verbose": 1}).fit(signals)
        assert capsys.readouterr().out == ""

    def test_scales_that_collapse_are_said(self, signals):
        with pytest.warns(UserWarning, match=r'scale fell to zero.*use atoms="unit", or hold'):
            learned = LearnHeat(**{**GIVEN, "atoms": "raw"}).fit(signals)
        assert learned.scales_.min() < 1e-2

    def test_scales_held_at_zero_are_nobodys_fault(self, signals):
        LearnHeat(**{**RAW, "scales": (0.0,)}).fit(signals)


class TestLevel:
    def test_a_common_level_is_told(self, signals):
        rng = np.random.default_rng(0)
        kelvin = 280.0 + rng.standard_normal((40, 8)) + 5.0 * rng.standard_normal((40, 1))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")  # that nothing is predicted may be told, too
            LearnHeat(**CHOOSING).fit(kelvin)
        told = " ".join(str(w.message) for w in caught)
        assert "mean of each signal alone" in told
        assert "Pass fit_intercept=True" in told

    def test_a_level_of_each_node_is_told_with_given_parameters_too(self, signals):
        rng = np.random.default_rng(0)
        with pytest.warns(UserWarning, match="mean of each node alone.*Pass fit_intercept=True"):
            LearnHeat(**GIVEN, tol=1.0).fit(signals + rng.uniform(1.0, 10.0, N))

    def test_a_small_level_is_told_that_misleads_a_fit(self):
        """The model predicts better than the level does, by a wrong graph."""
        graph = make_graph("er", 12, random_state=3100)
        X, _ = make_heat_signals(graph, (2.0,), 150, noise_std=0.01, random_state=3100)
        level = 0.5 * X.std() * np.random.default_rng(3100).standard_normal(12)
        how = {"n_scales": 1, "alpha": 0.1 * np.linalg.norm(X) / np.sqrt(150), "beta": 0.1}
        with pytest.warns(UserWarning, match="lies in the means of the nodes.*fit_intercept=True"):
            LearnHeat(**how, tol=1.0).fit(X + level)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            LearnHeat(**how, tol=1e-2).fit(X)
            LearnHeat(**how, tol=1e-2, fit_intercept=True).fit(X + level)
            LearnHeat(**how, tol=1e-2).fit(np.abs(X))  # heat of one sign has means of its own

    def test_heat_from_a_few_nodes_has_none(self, signals):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            LearnHeat(**CHOOSING, beta=0.01).fit(signals)


class TestMerging:
    @pytest.mark.parametrize(
        ("given", "kept"),
        [((0.0, 0.0), [0.0]), ((4.0, 3.9), [3.9, 4.0]), ((2.001, 3.0, 2.0), [2.001, 3.0])],
    )
    def test_scales_that_met_are_one(self, signals, given, kept):
        held = {"n_scales": len(given), "scales": given, "learn_scales": False}
        learned = LearnHeat(alpha=0.02, beta=0.01, **held).fit(signals)
        assert learned.scales_ == pytest.approx(kept, rel=1e-3)
        assert learned.sources_.shape == (M, len(kept), N)

    def test_their_sources_add_up(self, signals):
        settings = {"alpha": 0.02, "beta": 0.01, "learn_scales": False}
        one = LearnHeat(**settings, scales=(2.0, 2.001)).fit(signals)
        assert one.scales_.shape == (1,)
        assert one.sources_.shape == (M, 1, N)
        assert one.transform(signals).shape == (M, N)
        rebuilt = one.inverse_transform(one.sources_)
        assert np.linalg.norm(rebuilt - signals) < 0.2 * np.linalg.norm(signals)


def test_the_papers_solver_agrees(signals):
    pytest.importorskip("scs")
    fast = LearnHeat(**RAW, tol=1e-6).fit(signals)
    paper = LearnHeat(**RAW, solver="paper", tol=1e-6, max_iter=3000).fit(signals)
    assert paper.objective_[-1] == pytest.approx(fast.objective_[-1], rel=0.01)
    assert paper.objective_[-1] >= fast.objective_[-1] * (1.0 - 1e-6)
    assert np.isnan(paper.residual_)


def test_the_papers_tolerance_is_absolute(signals):
    pytest.importorskip("scs")
    # Its rule is a change of the objective of less than tol, in the units of the signals squared.
    stopped = LearnHeat(**RAW, solver="paper", tol=1e-2).fit(signals)
    changes = -np.diff(stopped.objective_)
    assert changes[-1] < 1e-2 <= changes[:-1].min()


class TestEdges:
    @pytest.mark.parametrize(("n_edges", "expected"), [(5, 5), ("0.5 N", 4)])
    def test_number_is_met_with_beta_given(self, signals, n_edges, expected):
        learned = LearnHeat(**GIVEN, n_edges=n_edges).fit(signals)
        assert learned.graph_.n_edges == expected
        assert learned.cut_ == learned.graph_.weights.min()
        assert learned.beta_ == pytest.approx(0.01)

    @pytest.mark.parametrize("n_edges", [4, 16])
    def test_beta_follows_the_number_where_it_is_free(self, signals, n_edges):
        settings = {"n_scales": 1, "alpha": 0.02, **HELD, "n_edges": n_edges, "tol": 1e-2}
        learned = LearnHeat(**settings).fit(signals)
        assert learned.graph_.n_edges == n_edges
        # Not much more was learned: no fit has fewer than about as many edges as the truth.
        assert learned.weights_.cut(weight=1e-4).n_edges <= max(n_edges + 2, 2 * N)

    @pytest.mark.parametrize("cut", [0, 0.2, 10.0])
    def test_cut_given(self, signals, cut):
        learned = LearnHeat(**RAW, cut=cut).fit(signals)
        assert learned.cut_ == cut
        assert learned.graph_ == learned.weights_.cut(weight=cut)

    def test_cut_of_the_paper(self, signals):
        assert LearnHeat(**RAW).fit(signals).cut_ == 1e-4

    @pytest.mark.parametrize("candidates", [None, [(5, 1), (0, 1), (3, 2), (7, 6), (4, 0), (1, 2)]])
    def test_mean_of_several_fits_says_what_is_an_edge(self, truth, candidates):
        X, _ = make_heat_signals(truth, (2.0,), M, n_sources=1, noise_std=0.03, random_state=1)
        folds = KFold(3)
        learned = LearnHeat(**CHOOSING, candidates=candidates, cv=folds).fit(X)

        def laplacian(rows, times_alpha):
            share = len(rows) / M
            return (
                LearnHeat(
                    **CHOOSING,
                    scales=learned.scales_,
                    learn_scales=False,
                    alpha=times_alpha * learned.alpha_,
                    beta=share * learned.beta_,
                    candidates=candidates,
                )
                .fit(X[rows])
                .laplacian_
            )

        everything = np.arange(M)
        fits = [(1.0, learned.laplacian_)]
        fits += [(1.0, laplacian(everything, c)) for c in (0.5, 2.0)]
        fits += [(len(rows) / M, laplacian(rows, 1.0)) for rows, _ in folds.split(X)]
        counts, laplacians = zip(*fits, strict=True)
        pairs = np.triu_indices(N, k=1)
        mean = -np.average(laplacians, axis=0, weights=counts)[pairs]
        # The others were fitted to less precision, from another start.
        assert learned.cut_ == pytest.approx(valley_cut(mean, deviations=2.0), abs=0.02)
        kept = learned.graph_.adjacency().toarray()[pairs]
        sure = np.abs(mean - learned.cut_) > 0.02
        assert sure.mean() > 0.5
        np.testing.assert_array_equal(kept[sure] > 0.0, mean[sure] >= learned.cut_)
        assert kept[kept > 0.0] == pytest.approx(mean[kept > 0.0], abs=0.03)

    def test_folds_count_in_the_mean_by_the_signals_that_they_saw(self, signals, monkeypatch):
        monkeypatch.setattr(fitting, "MOST_SIGNALS", M // 2)
        shares = np.array([0.5 * 0.2, 0.5 * 0.8])  # of half of the signals, a fifth and the rest
        fold_of = np.repeat([0, 1], (shares[::-1] * M).astype(int))

        def mean_around(p, fit, keeper):
            mean = fitting.mean_around(p, fit, keeper)
            weights = fit.choice.weights
            nothing = replace(fit, choice=replace(fit.choice, weights=0.0 * weights))
            of_folds = (mean - fitting.mean_around(p, nothing, keeper)) * (3.0 + shares.sum())
            assert of_folds == pytest.approx(shares @ weights)
            return mean

        monkeypatch.setattr("heatgraph.estimators.learn_heat.mean_around", mean_around)
        LearnHeat(**CHOOSING, cv=PredefinedSplit(fold_of)).fit(signals)

    @pytest.mark.parametrize("settings", [{"cut": 0.1}, {"alpha": 0.02}, {"n_edges": 9}])
    def test_weights_alone_decide_where_something_is_given(self, signals, settings):
        learned = LearnHeat(**{**CHOOSING, "tol": 0.1}, **settings).fit(signals)
        assert learned.graph_ == learned.weights_.cut(weight=learned.cut_)

    def test_ctrl_c_while_the_neighbours_are_fitted_keeps_the_fit(
        self, signals, chosen, monkeypatch
    ):
        def stop(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr("heatgraph.estimators.learn_heat.mean_around", stop)
        learned = LearnHeat(**CHOOSING).fit(signals)
        assert learned.status_ == "interrupted"
        np.testing.assert_array_equal(learned.laplacian_, chosen.laplacian_)
        assert learned.graph_ == learned.weights_.cut(weight=learned.cut_)

    @pytest.mark.parametrize("after", [1, 6])
    def test_ctrl_c_while_parameters_are_chosen_keeps_the_best_of_them(
        self, signals, after, monkeypatch
    ):
        def tried(done, of):
            if done == after:
                raise KeyboardInterrupt

        @contextmanager
        def bars(tol=None):
            yield progress.Watch(None, tried)

        monkeypatch.setattr(progress, "progress_bars", bars)
        learned = LearnHeat(**CHOOSING, verbose=1, n_bootstrap=2).fit(signals)
        assert learned.status_ == "interrupted"
        tables = [t for t in (learned.selection_, learned.stretches_) if t is not None]
        assert sum(map(len, tables)) == after
        best = max(table["log_likelihood"].max() for table in tables)
        at = [t[(t["alpha"] == learned.alpha_) & (t["beta"] == learned.beta_)] for t in tables]
        assert max(table["log_likelihood"].max() for table in at) == best
        assert learned.graph_.n_edges
        assert learned.graph_.confidence is None
        assert learned.score(signals) > 0.5

    @pytest.mark.parametrize(("after", "known"), [(0, "is not known"), (2, "share of these")])
    def test_ctrl_c_in_the_resamples_keeps_those_that_were_made(
        self, signals, model, after, known, monkeypatch
    ):
        made = []

        def refit(*given):
            if len(made) == after:
                raise KeyboardInterrupt
            made.append(real(*given))
            return made[-1]

        real = fitting.refit
        monkeypatch.setattr(fitting, "refit", refit)
        with pytest.warns(UserWarning, match=rf"stopped after {after} of 4 resamples.*{known}"):
            learned = LearnHeat(**GIVEN, n_bootstrap=4).fit(signals)
        assert learned.status_ == "interrupted"
        assert learned.graph_.edges.tolist() == model.graph_.edges.tolist()
        confidence = learned.graph_.confidence
        assert confidence is None if not after else set(confidence) <= {0.0, 0.5, 1.0}

    def test_confidence(self, signals, model):
        learned = LearnHeat(**GIVEN, n_bootstrap=4).fit(signals)
        confidence = learned.graph_.confidence
        assert confidence.shape == (learned.graph_.n_edges,)
        assert ((confidence >= 0.0) & (confidence <= 1.0)).all()
        assert set(4.0 * confidence) <= {0.0, 1.0, 2.0, 3.0, 4.0}
        assert confidence.mean() > 0.8
        assert np.array_equal(learned.graph_.edges, model.graph_.edges)

    def test_confidence_in_a_number_of_edges(self, signals):
        learned = LearnHeat(**GIVEN, n_edges=15, n_bootstrap=4, tol=1e-2).fit(signals)
        assert learned.graph_.confidence.shape == (15,)
        assert learned.graph_.confidence.min() < learned.graph_.confidence.max()

    def test_confidence_in_no_edges(self, signals):
        learned = LearnHeat(**RAW, cut=10.0, n_bootstrap=1).fit(signals)
        assert learned.graph_.confidence.shape == (0,)


PAIRS = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 0)]


def mask_of(pairs):
    mask = np.zeros((N, N), dtype=bool)
    mask[tuple(np.transpose(pairs))] = True
    return mask


RING = {
    "pairs": PAIRS,
    "array": np.array(PAIRS),
    "pairs both ways": PAIRS + [(j, i) for i, j in PAIRS],
    "frame": pd.DataFrame(PAIRS, columns=["from", "to"]),
    "mask": mask_of(PAIRS),
    "mask with a diagonal": mask_of(PAIRS) | np.eye(N, dtype=bool),
    "sparse mask": sparse.csr_array(mask_of(PAIRS)),
    "graph": Graph(PAIRS, np.ones(N)),
    "graph with names": Graph(PAIRS, np.ones(N), names=NAMES),
}


@pytest.fixture(scope="module")
def ring(signals):
    return LearnHeat(**GIVEN, candidates=PAIRS).fit(signals)


class TestCandidates:
    @pytest.mark.parametrize("form", RING)
    def test_forms_agree(self, signals, ring, form):
        one = LearnHeat(**GIVEN, candidates=RING[form]).fit(signals)
        assert {tuple(edge) for edge in one.weights_.edges} <= {
            tuple(sorted(pair)) for pair in PAIRS
        }
        assert same_bits(one, ring)

    def test_pairs_of_names(self, frame, ring):
        named = [(NAMES[i], NAMES[j]) for i, j in PAIRS]
        one = LearnHeat(**GIVEN, candidates=named).fit(frame)
        assert np.array_equal(one.laplacian_, ring.laplacian_)

    def test_names_of_a_graph_count_and_not_its_order(self, frame, ring):
        order = np.random.default_rng(0).permutation(N)
        place = np.argsort(order)
        graph = Graph(place[np.array(PAIRS)], np.ones(N), names=[NAMES[k] for k in order])
        one = LearnHeat(**GIVEN, candidates=graph).fit(frame)
        assert np.array_equal(one.laplacian_, ring.laplacian_)

    @pytest.mark.parametrize("candidates", ["all", N - 1, 99])
    def test_all_pairs(self, signals, model, candidates):
        assert same_bits(LearnHeat(**GIVEN, candidates=candidates).fit(signals), model)

    def test_nearest_neighbours(self, signals):
        edges = LearnHeat(**GIVEN, candidates=2).fit(signals).weights_
        assert 0 < edges.n_edges <= 2 * N

    def test_a_node_without_candidates_is_kept(self, signals):
        learned = LearnHeat(**GIVEN, candidates=PAIRS[:4]).fit(signals)
        assert learned.graph_.n_nodes == N
        assert not learned.laplacian_[5:].any()


class TestInit:
    def test_random(self, signals, truth):
        learned = LearnHeat(**GIVEN, init="random").fit(signals)
        assert edge_scores(truth, learned.graph_).f_measure == 1.0

    def test_graph(self, signals, truth):
        learned = LearnHeat(**{**GIVEN, **HELD}, init=truth).fit(signals)
        assert edge_scores(truth, learned.graph_).f_measure == 1.0
        uniform = LearnHeat(**{**GIVEN, **HELD}).fit(signals)
        assert learned.objective_[0] < uniform.objective_[0]

    def test_names_of_a_graph_count_and_not_its_order(self, frame, truth):
        order = np.random.default_rng(0).permutation(N)
        place = np.argsort(order)
        named = Graph(place[truth.edges], truth.weights, names=[NAMES[k] for k in order])
        one, other = (LearnHeat(**GIVEN, init=start).fit(frame) for start in (named, truth))
        assert one.objective_[0] == pytest.approx(other.objective_[0])


class TestMissing:
    def test_edges_are_found(self, truth, holed_model):
        assert edge_scores(truth, holed_model.graph_).f_measure > 0.9

    def test_choosing_looks_at_what_is_there(self, truth, holed):
        learned = LearnHeat(**CHOOSING, **HELD).fit(holed)
        assert edge_scores(truth, learned.graph_).f_measure > 0.8
        assert learned.selection_["missed"].min() < 0.8

    def test_gaps_are_filled_by_their_means_where_parameters_are_chosen(self, holed):
        """The graph is then that of the filled signals, given what was chosen."""
        learned = LearnHeat(**CHOOSING, **HELD).fit(holed)
        means = HeatCovariance().fit(holed).impute(holed)
        given = {"alpha": learned.alpha_, "beta": learned.beta_, "n_scales": 1}
        again = LearnHeat(**HELD, **given).fit(means)
        assert learned.laplacian_ == pytest.approx(again.laplacian_, abs=0.05)
        apart = LearnHeat(**HELD, **given).fit(holed)
        assert apart.laplacian_ != pytest.approx(again.laplacian_, abs=0.05)

    def test_gaps_that_nothing_is_known_of_are_not_filled(self, rng):
        X = rng.standard_normal((60, 6))
        X[rng.random(X.shape) < 0.2] = np.nan
        how = {**CHOOSING, "random_state": 0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # white noise
            one, two = (LearnHeat(**how, missing=m).fit(X) for m in ("auto", "observed"))
        assert np.array_equal(one.laplacian_, two.laplacian_)

    @pytest.mark.parametrize("seed", [3100, 3102])
    def test_gaps_that_stay_gaps_hide_few_edges(self, seed):
        """Heat that has not gone far leaves little to fill a gap by."""
        graph = make_graph("ba", 20, random_state=seed)
        X, _ = make_heat_signals(graph, (1.0, 4.0), 100, random_state=seed)
        X[np.random.default_rng(seed).random(X.shape) < 0.3] = np.nan
        learned = LearnHeat().fit(X)
        assert edge_scores(graph, learned.graph_).f_measure > 0.94

    def test_what_missing_may_be(self, holed):
        with pytest.raises(ValueError, match="missing must be one of 'auto', 'expected'"):
            LearnHeat(missing="zero").fit(holed)

    def test_imputing_keeps_what_was_observed(self, holed, holed_model):
        filled = holed_model.impute(holed)
        observed = ~np.isnan(holed)
        assert np.array_equal(filled[observed], holed[observed])
        assert np.isfinite(filled).all()

    def test_imputing_beats_the_node_means(self, signals, holed, holed_model):
        missing = np.isnan(holed)
        means = np.broadcast_to(np.nanmean(holed, axis=0), holed.shape)
        error, baseline = (
            np.sum((guess - signals)[missing] ** 2) for guess in (holed_model.impute(holed), means)
        )
        assert error < 0.5 * baseline

    def test_transform_and_score(self, holed, holed_model):
        assert np.isfinite(holed_model.transform(holed)).all()
        assert holed_model.score(holed) > 0.4

    def test_a_data_frame_is_imputed_as_one(self, holed, holed_model):
        days = pd.date_range("2024-01-01", periods=M, name="day")
        frame = pd.DataFrame(holed, index=days)
        filled = holed_model.impute(frame)
        pd.testing.assert_index_equal(filled.index, days)
        pd.testing.assert_index_equal(filled.columns, frame.columns)
        np.testing.assert_array_equal(filled, holed_model.impute(holed))

    def test_a_signal_of_which_nothing_was_observed_stays_missing(self, holed, holed_model):
        X = holed.copy()
        X[3] = np.nan
        with pytest.warns(UserWarning, match="nothing was observed of these signals of X.*: 3"):
            filled = holed_model.impute(X)
        assert np.isnan(filled[3]).all()
        assert np.isfinite(np.delete(filled, 3, axis=0)).all()

    def test_complete_signals_are_imputed_as_they_are(self, signals, holed_model):
        assert np.array_equal(holed_model.impute(signals), signals)

    @pytest.mark.parametrize("named", [False, True])
    def test_a_node_never_observed_is_said_and_kept(self, signals, named):
        X = signals.copy()
        X[:, 3] = np.nan
        X = pd.DataFrame(X, columns=list(NAMES)) if named else X
        silent = r"\['d'\]" if named else r"\[3\]"
        with pytest.warns(UserWarning, match=rf"never observed.*{silent}.*without edges"):
            learned = LearnHeat(**GIVEN).fit(X)
        assert learned.graph_.n_nodes == N
        assert learned.graph_.n_edges > 0
        assert 3 not in learned.graph_.edges
        with pytest.warns(UserWarning, match=rf"without knowledge.*{silent}"):
            filled = learned.impute(X)
        assert np.isfinite(np.asarray(filled)).all()

    def test_a_signal_without_an_observed_entry_has_no_sources(self, signals):
        X = signals.copy()
        X[2] = np.nan
        learned = LearnHeat(**GIVEN).fit(X)
        assert not learned.sources_[2].any()
        assert not learned.transform(X)[2].any()
        with pytest.warns(UserWarning, match="nothing was observed"):
            assert np.isnan(learned.impute(X)[2]).all()
        rest = LearnHeat(**GIVEN).fit(np.delete(X, 2, axis=0))
        assert learned.laplacian_ == pytest.approx(rest.laplacian_, abs=5e-3)

    def test_nothing_observed_is_coded_as_nothing(self, model):
        assert not model.transform(np.full((2, N), np.nan)).any()


class TestOddSignals:
    def test_white_noise_is_said(self, rng):
        with pytest.warns(UserWarning, match="no parameters predict.*do not trust graph_"):
            LearnHeat(**CHOOSING).fit(rng.standard_normal((60, N)))

    @pytest.mark.parametrize("value", [0.0, 1.0])
    def test_a_constant_signal_is_no_obstacle(self, truth, signals, value):
        learned = LearnHeat(**GIVEN).fit(np.vstack([signals, np.full(N, value)]))
        assert edge_scores(truth, learned.graph_).f_measure == 1.0

    def test_a_silent_node_has_no_strong_edges(self, signals):
        X = signals.copy()
        X[:, 3] = 0.0
        learned = LearnHeat(**GIVEN).fit(X)
        assert learned.status_ == "converged"
        degrees = np.diag(learned.laplacian_)
        assert degrees[3] == degrees.min()

    def test_a_constant_node(self, signals):
        X = signals.copy()
        X[:, 3] = 1.0
        with pytest.warns(UserWarning, match="the mean of each node alone predicts"):
            learned = LearnHeat(**GIVEN).fit(X)
        assert learned.status_ == "converged"
        assert np.isfinite(learned.laplacian_).all()

    def test_equal_signals(self):
        with pytest.warns(UserWarning, match="the mean of each signal alone predicts"):
            learned = LearnHeat(n_scales=1, alpha=0.1, beta=0.1, tol=1e-3).fit(np.ones((5, 4)))
        assert learned.laplacian_ == pytest.approx(4 / 3 * np.eye(4) - 1 / 3, abs=1e-3)

    def test_one_signal_with_numbers(self, signals):
        learned = LearnHeat(**GIVEN).fit(signals[:1])
        assert learned.sources_.shape == (1, 1, N)

    def test_one_signal_has_none_to_predict(self, signals):
        with pytest.raises(ValueError, match=r"single signal.*pass numbers for alpha, beta"):
            LearnHeat().fit(signals[:1])

    def test_penalties_that_leave_nothing_to_learn_spread_the_graph(self, signals):
        everywhere = pytest.approx(N / (N - 1) * np.eye(N) - 1 / (N - 1), abs=1e-3)
        learned = LearnHeat(n_scales=1, alpha=1e5, beta=0.01).fit(signals)
        assert learned.laplacian_ == everywhere
        with pytest.warns(UserWarning, match="with alpha=0 sources are not penalised"):
            learned = LearnHeat(n_scales=1, alpha=0.0, beta=0.01).fit(signals)
        assert learned.laplacian_ == everywhere

    def test_two_nodes(self):
        X = np.array([[1.0, 0.5], [0.2, 0.9], [0.4, 0.1]])
        learned = LearnHeat(n_scales=1, alpha=0.1, beta=0.1, **HELD).fit(X)
        assert learned.laplacian_ == pytest.approx(np.array([[1.0, -1.0], [-1.0, 1.0]]))


SQUARE = np.diag([1.0, 2.0, 3.0, 4.0]) + 0.1
SQUARE_OF_DATES = pd.DataFrame(SQUARE, columns=list("abcd")).assign(
    day=pd.date_range("2024-01-01", periods=4)
)
ZONED = pd.date_range("2024-01-01", periods=4, tz="UTC")
NAN4 = np.where(np.eye(4) > 0, np.nan, SQUARE)


def square(columns):
    frame = pd.DataFrame(SQUARE)
    frame.columns = columns
    return frame


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.where(np.eye(4) > 0, np.inf, 1.0), "X contains infinity"),
        (np.where(np.eye(4) > 0, -np.inf, 1.0), "X contains infinity"),
        (np.ones((5, 1)), "minimum of 2 is required"),
        (np.ones(5), "Expected 2D array, got 1D array"),
        (np.ones((0, 4)), "0 sample"),
        (np.zeros((5, 4)), "X holds no signal.*signals that vary"),
        (np.full((5, 4), np.nan), "X holds no signal: no entry was observed"),
        (np.array([["x", "y"], ["1", "2"]]), "X must hold numbers only.*drop the columns"),
        (pd.DataFrame({"a": ["x", "y"], "b": [1, 2]}), "X must hold numbers only.*'x'.*drop"),
        (SQUARE_OF_DATES, "X must hold numbers only.*columns of dates; drop.*make them the index"),
        (SQUARE_OF_DATES.assign(day=ZONED), "X must hold numbers only.*Timestamp.*the index"),
        (square(["a", "b", "b", "c"]), "X: two columns are named 'b'; every node needs a name"),
        (square(["a", None, "b", "c"]), "X: column 1 has no name; name every column"),
        (square(["a", "", "b", "c"]), "X: column 1 has no name; name every column"),
        (SQUARE * 1j, "Complex data not supported"),
    ],
)
@pytest.mark.parametrize("given", [{}, GIVEN])
def test_signals_that_do_not_serve_are_named(X, message, given):
    with pytest.raises(ValueError, match=message):
        LearnHeat(**given).fit(X)


def test_sparse_signals_are_refused():
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        LearnHeat().fit(sparse.csr_array(SQUARE))


TRIANGLE = Graph([(0, 1), (1, 2)], [1.0, 1.0])
PAPER = {"solver": "paper", "atoms": "raw", "scales": (2.0, 4.0), "learn_scales": False}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": -1.0}, "alpha must be a finite number >= 0, got -1.0"),
        ({"alpha": np.nan}, "alpha must be a finite number >= 0, got nan"),
        ({"alpha": None}, "alpha must be a finite number >= 0, got None"),
        ({"alpha": "foo"}, 'alpha must be a number >= 0 or "auto", got .foo'),
        ({"beta": -1}, "beta must be a finite number >= 0, got -1"),
        ({"beta": np.inf}, "beta must be a finite number >= 0, got inf"),
        ({"beta": "foo"}, 'beta must be a number >= 0 or "auto", got .foo'),
        ({"n_scales": 0}, "n_scales must be an integer >= 1, got 0"),
        ({"n_scales": 1.5}, "n_scales must be an integer >= 1, got 1.5"),
        ({"n_scales": "many"}, 'n_scales must be an integer >= 1, or "auto".*got .many'),
        ({"n_scales": "auto", "scales": (1.0,)}, '"auto" where no scales are given'),
        ({"scales": (1.0, 2.0, 3.0)}, "scales has 3 values but n_scales is 2; pass n_scales=3"),
        ({"scales": (-1.0, 2.0)}, "scales must be a sequence of finite numbers >= 0, got"),
        ({"scales": (np.nan, 2.0)}, "scales must be a sequence of finite numbers >= 0, got"),
        ({"scales": "2, 4"}, "scales must be a sequence of finite numbers >= 0, got"),
        ({"scales": ("a", "b")}, "scales must be a sequence of finite numbers >= 0, got"),
        ({"scales": ()}, "scales must be a sequence of finite numbers >= 0, got"),
        ({"scales": 2.0}, "scales must be a sequence of finite numbers >= 0, got"),
        ({"learn_scales": False}, "scales must be given to be held .learn_scales=False."),
        ({"learn_scales": False, "n_scales": "auto"}, "scales must be given.*learn_scales=False"),
        ({"atoms": "loud"}, "atoms must be one of 'raw', 'unit', got 'loud'"),
        (
            {"solver": "fast"},
            "solver must be one of 'auto', 'dense', 'sparse', 'paper', got 'fast'",
        ),
        ({"penalty": "l2"}, "penalty must be one of 'auto', 'l1', 'log', got 'l2'"),
        ({"init": "zero"}, "init must be one of 'uniform', 'random', got 'zero'"),
        ({"init": TRIANGLE}, "init: the graph has 3 nodes, X has 4 columns"),
        (
            {"init": Graph([(2, 3)], [1.0]), "candidates": [(0, 1)]},
            "init: no edge of the graph is among the candidates",
        ),
        ({"solver": "paper"}, 'atoms must be "raw", and penalty "l1", where solver is "paper"'),
        ({**PAPER, "penalty": "log"}, 'must be "raw", and penalty "l1", where solver is "paper"'),
        ({"n_edges": 0}, "n_edges must be an integer >= 1, got 0"),
        ({"n_edges": 2.5}, "n_edges must be an integer >= 1, got 2.5"),
        ({"n_edges": "lots"}, 'n_edges must be a number of edges, or .* as "4N", got .lots'),
        ({"n_edges": "-1N"}, 'n_edges must be a number of edges, or .* as "4N"'),
        ({"n_edges": 7}, "n_edges must be at most the 6 pairs that may be edges, got 7"),
        ({"n_edges": "9N"}, "n_edges must be at most the 6 pairs that may be edges, got 36"),
        ({"max_iter": 0}, "max_iter must be an integer >= 1, got 0"),
        ({"max_iter": 1.5}, "max_iter must be an integer >= 1, got 1.5"),
        ({"tol": -1e-3}, "tol must be a finite number >= 0, got -0.001"),
        ({"tol": "tight"}, "tol must be a finite number >= 0, got 'tight'"),
        ({"n_jobs": 0}, "n_jobs must be None, a number of threads or -1 for all, got 0"),
        ({"n_jobs": 1.5}, "n_jobs must be None, a number of threads or -1 for all, got 1.5"),
        ({"cut": -0.1}, "cut must be a finite number >= 0, got -0.1"),
        (
            {"cut": "deep"},
            'cut must be a number >= 0 or one of "auto", "typical", "valley", "mixture", "otsu"',
        ),
        ({"n_bootstrap": -1}, "n_bootstrap must be an integer >= 0, got -1"),
        ({"n_bootstrap": True}, "n_bootstrap must be an integer >= 0, got True"),
        ({"random_state": -1}, "random_state must be an integer >= 0, got -1"),
        ({"random_state": "luck"}, "random_state must be an integer >= 0, .*got 'luck'"),
        ({"candidates": 0}, "candidates must be an integer >= 1, got 0"),
        ({"candidates": "near"}, 'candidates must be None, "all", a number.*got .near'),
        ({"candidates": 2.5}, 'candidates must be None, "all", a number.*got 2.5'),
        ({"candidates": True}, 'candidates must be None, "all", a number.*got True'),
        ({"candidates": []}, "candidates: no pair of two different nodes is left"),
        ({"candidates": [(1, 1)]}, "candidates: no pair of two different nodes is left"),
        ({"candidates": [(0, 1), 5]}, "candidates: entry 1 must be a pair of nodes, got 5"),
        ({"candidates": [(0, 1, 2)]}, "candidates: entry 0 must be a pair of nodes"),
        ({"candidates": [(0, 4)]}, "candidates: entry 0 names the node 4, .* below 4"),
        ({"candidates": [(0, -1)]}, "candidates: entry 0 names the node -1, .* below 4"),
        ({"candidates": TRIANGLE}, "candidates: the graph has 3 nodes, X has 4 columns"),
        ({"candidates": sparse.eye_array(3)}, r"candidates: the mask must be \(4, 4\), got"),
        ({"candidates": np.zeros((4, 4))}, "candidates: no pair of two different nodes"),
    ],
)
def test_parameters_that_do_not_serve_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        LearnHeat(**parameters).fit(SQUARE)


@pytest.mark.parametrize("parameter", ["candidates", "init"])
def test_nodes_of_a_graph_that_are_not_columns_are_named(parameter):
    graph = Graph([(0, 1)], [1.0], names=["a", "b", "c", "z"])
    with pytest.raises(ValueError, match=f"{parameter}: the graph has a node 'z', which is not a"):
        LearnHeat(**{parameter: graph}).fit(square(list("abcd")))


@pytest.mark.parametrize("pair", [("a", "z"), (0, 1)])
def test_pairs_of_nodes_that_are_not_columns_are_named(pair):
    with pytest.raises(ValueError, match=r"candidates: entry 0 names the node .*not a column of X"):
        LearnHeat(candidates=[pair]).fit(square(list("abcd")))


def test_the_papers_solver_takes_complete_signals_only():
    with pytest.raises(ValueError, match=r'solver="paper" takes no missing.*use solver="dense"'):
        LearnHeat(**PAPER).fit(NAN4)


@pytest.mark.parametrize(
    "method",
    ["code", "transform", "inverse_transform", "impute", "score", "get_feature_names_out"],
)
def test_nothing_works_before_a_fit(method):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(LearnHeat(), method)(SQUARE)


@pytest.mark.parametrize("method", ["code", "transform", "impute", "score"])
def test_signals_on_other_nodes_are_refused(model, method):
    with pytest.raises(ValueError, match=f"4 features, but LearnHeat is expecting {N}"):
        getattr(model, method)(SQUARE)


class TestGoesOn:
    SETTINGS: ClassVar = {"alpha": 0.02, "beta": 0.01, "n_scales": 2, "random_state": 0}

    def short(self, signals, **options):
        with pytest.warns(ConvergenceWarning, match="raise `max_iter`"):
            return LearnHeat(**self.SETTINGS, max_iter=25, **options).fit(signals)

    @pytest.mark.parametrize("penalty", ["log", "l1"])
    def test_a_larger_limit_continues(self, signals, penalty):
        model = self.short(signals, warm_start=True, penalty=penalty)
        seen = []
        value = model.objective_[-1]
        model.set_params(max_iter=2000).fit(signals, monitor=lambda s: seen.append(s.objective))
        assert model.status_ == "converged"
        assert model.n_iter_ > 25
        assert seen[0] <= value * (1.0 + 1e-9)
        assert model.objective_[-1] < value

    def test_a_checkpoint_continues(self, signals, tmp_path):
        model = self.short(signals, checkpoint=tmp_path / "fit")
        value = model.objective_[-1]
        seen = []
        again = LearnHeat(**self.SETTINGS, checkpoint=tmp_path / "fit")
        again.fit(signals, monitor=lambda step: seen.append(step.objective))
        assert again.status_ == "converged"
        assert seen[0] <= value * (1.0 + 1e-9)

    def test_other_signals_start_over(self, signals):
        model = self.short(signals, warm_start=True)
        model.set_params(max_iter=2000).fit(2.0 * signals[::2])
        fresh = LearnHeat(**self.SETTINGS).fit(2.0 * signals[::2])
        assert np.array_equal(model.laplacian_, fresh.laplacian_)

    def test_what_was_chosen_is_kept(self, signals):
        model = LearnHeat(**CHOOSING, warm_start=True, max_iter=3)
        with pytest.warns(ConvergenceWarning):
            model.fit(signals)
        alpha, tried = model.alpha_, model.selection_
        model.set_params(max_iter=2000).fit(signals)
        assert model.alpha_ == alpha
        assert model.selection_.equals(tried)
        assert model.status_ == "converged"


def brute_force_lasso(D, x, prices, observed):
    """The minimiser of ``||x - D h||^2 + <prices, |h|>`` over all patterns of signs."""
    D, x = D[observed], x[observed]
    best, value = np.zeros(D.shape[1]), float(x @ x)
    for signs in itertools.product((-1.0, 0.0, 1.0), repeat=D.shape[1]):
        s = np.array(signs)
        on = s != 0.0
        if not on.any() or on.sum() > len(x):
            continue
        h = np.zeros(D.shape[1])
        G = D[:, on].T @ D[:, on]
        h[on] = np.linalg.solve(G, D[:, on].T @ x - 0.5 * prices[on] * s[on])
        if (h[on] * s[on] <= 0.0).any():
            continue
        here = np.sum((x - D @ h) ** 2) + prices @ np.abs(h)
        if here < value:
            best, value = h, here
    return best


def test_transform_impute_and_score_are_those_of_brute_force(rng):
    graph = make_graph("ring", 5, random_state=0)
    X, _ = make_heat_signals(graph, (1.5,), 30, n_sources=1, noise_std=0.02, random_state=0)
    model = LearnHeat(n_scales=1, alpha=0.05, beta=0.01, penalty="l1").fit(X)
    new, _ = make_heat_signals(graph, (1.5,), 6, n_sources=1, noise_std=0.02, random_state=1)
    lam, U = np.linalg.eigh(model.laplacian_)
    D = (U * np.exp(-model.scales_[0] * lam)) @ U.T
    prices = model.alpha_ * np.linalg.norm(D, axis=0)
    everything = np.ones(5, dtype=bool)
    expected = np.array([brute_force_lasso(D, x, prices, everything) for x in new])
    assert model.transform(new) == pytest.approx(expected, abs=1e-7)
    part = hide_entries(Signals(new.T), HIDDEN_SHARE, np.random.default_rng(0))
    hidden = part.hidden.T
    guess = np.array(
        [D @ brute_force_lasso(D, x, prices, ~gone) for x, gone in zip(new, hidden, strict=True)]
    )
    filled = model.impute(np.where(hidden, np.nan, new))
    assert filled[hidden] == pytest.approx(guess[hidden], abs=1e-7)
    share = 1.0 - np.sum((guess - new)[hidden] ** 2) / np.sum(new[hidden] ** 2)
    assert model.score(new) == pytest.approx(share, abs=1e-6)
