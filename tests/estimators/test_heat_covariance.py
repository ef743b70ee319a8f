"""HeatCovariance: the contract of an estimator, gaps, streams, its model, its words."""

from __future__ import annotations

import itertools
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.optimize import minimize
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from heatgraph import Graph
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators import fitted_graph, gaussian_fitting
from heatgraph.estimators.heat_covariance import HeatCovariance
from heatgraph.graph import CandidateEdges
from heatgraph.metrics import edge_scores
from heatgraph.models.gaussian import GaussianHeat
from heatgraph.models.moments import log_likelihoods
from heatgraph.selection.cut import CUTS
from heatgraph.solvers.result import Status
from heatgraph.storage import load_model, save_model

N, M = 8, 120
NAMES = list("abcdefgh")
GIVEN = {"shrinkage": 0.01, "penalty": 2.0}  # numbers in place of "auto": a quick fit
STORED = ("covariance_", "precision_", "location_", "scales_", "source_variances_", "laplacian_")


@pytest.fixture(scope="module")
def truth():
    return make_graph("er", N, random_state=1, p=0.35)


@pytest.fixture(scope="module")
def signals(truth):
    X, _ = make_heat_signals(truth, (1.5,), M, n_sources=N, noise_std=0.1, random_state=1)
    X = X + np.arange(N)
    X.flags.writeable = False
    return X


@pytest.fixture(scope="module")
def frame(signals):
    return pd.DataFrame(signals, columns=NAMES)


@pytest.fixture(scope="module")
def model(signals):
    return HeatCovariance(**GIVEN).fit(signals)


@pytest.fixture(scope="module")
def two(signals):
    """One scale made these signals."""
    with pytest.warns(UserWarning, match="n_scales=2, but scales of the fit are equal"):
        return HeatCovariance(n_scales=2, **GIVEN).fit(signals)


def gaps(X, rng, share=0.2):
    Y = X.copy()
    Y[rng.random(Y.shape) < share] = np.nan
    return Y


def same(one, other, atol=1e-10):
    for name in STORED:
        a, b = getattr(one, name), getattr(other, name)
        np.testing.assert_allclose(a, b, rtol=0.0, atol=atol * np.abs(b).max(), err_msg=name)


class TestContract:
    # Some checks pass one node that varies, or noise: there is no graph in it, and it says so.
    @pytest.mark.filterwarnings("ignore::UserWarning")
    @parametrize_with_checks([HeatCovariance(**GIVEN, max_iter=20)])
    def test_of_scikit_learn(self, estimator, check):
        check(estimator)

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore::UserWarning")
    @parametrize_with_checks([HeatCovariance(), HeatCovariance(n_scales=2)])
    def test_of_scikit_learn_with_every_default(self, estimator, check):
        check(estimator)

    def test_clone_and_pickle(self, model, signals):
        assert clone(model).get_params() == model.get_params()
        again = pickle.loads(pickle.dumps(model))
        assert np.array_equal(again.transform(signals), model.transform(signals))

    def test_not_fitted(self, signals):
        for method in ("transform", "impute", "score", "score_hidden", "mahalanobis"):
            with pytest.raises(NotFittedError):
                getattr(HeatCovariance(), method)(signals)
        for method in ("sample", "get_precision", "edge_statistics", "get_feature_names_out"):
            with pytest.raises(NotFittedError):
                getattr(HeatCovariance(), method)()

    def test_names_of_a_data_frame(self, frame, model):
        named = HeatCovariance(**GIVEN).fit(frame)
        same(named, model, 1e-14)
        assert named.graph_.names == named.weights_.names == tuple(NAMES)
        assert list(named.feature_names_in_) == NAMES
        assert list(named.get_feature_names_out()[:2]) == ["a@scale1", "b@scale1"]
        table = named.edge_statistics()
        assert set(table["source"]) <= set(NAMES)

    @pytest.mark.filterwarnings("ignore:HeatCovariance. n_scales=2")  # one scale made the signals
    def test_set_output(self, frame):
        named = HeatCovariance(n_scales=2, **GIVEN).set_output(transform="pandas").fit(frame)
        out = named.transform(frame)
        assert list(out.columns) == list(named.get_feature_names_out())
        assert out.shape == (M, 2 * N)

    def test_the_signals_are_left_alone(self, frame):
        before = frame.copy()
        HeatCovariance(**GIVEN).fit(frame).impute(frame)
        pd.testing.assert_frame_equal(frame, before)

    @pytest.mark.parametrize(
        ("wrong", "named"),
        [
            ({"shrinkage": 1.0}, "shrinkage"),
            ({"shrinkage": -0.1}, "shrinkage"),
            ({"shrinkage": "lots"}, 'shrinkage must be a number >= 0 or "auto", got'),
            ({"penalty": -1.0}, "penalty"),
            ({"n_scales": 0}, "n_scales"),
            ({"tol": 0.0}, "tol"),
            ({"max_iter": 0}, "max_iter"),
            ({"cut": "best"}, 'cut must be a number >= 0 or one of "auto", "typical"'),
            ({"n_edges": 99}, "n_edges"),
            ({"candidates": [(0, 99)]}, "candidates"),
            ({"checkpoint": 3}, "checkpoint"),
        ],
    )
    def test_errors_name_the_parameter(self, signals, wrong, named):
        with pytest.raises(ValueError, match=named):
            HeatCovariance(**{**GIVEN, **wrong}).fit(signals)


class TestFit:
    def test_is_a_valid_model(self, model, signals):
        L = model.laplacian_
        assert model.status_ == "converged"
        assert model.residual_ <= model.tol
        assert np.trace(L) == pytest.approx(N)
        np.testing.assert_allclose(L.sum(axis=1), 0.0, atol=1e-12)
        heat = sum(
            v * expm(-2.0 * tau * L)
            for v, tau in zip(model.source_variances_, model.scales_, strict=True)
        )
        expected = heat + model.noise_variance_ * np.eye(N)
        np.testing.assert_allclose(model.covariance_, expected, atol=1e-12)
        np.testing.assert_allclose(model.covariance_ @ model.precision_, np.eye(N), atol=1e-9)
        np.testing.assert_allclose(model.location_, signals.mean(axis=0))
        np.testing.assert_allclose(model.node_means_, signals.mean(axis=0))
        around = signals - signals.mean(axis=0)
        np.testing.assert_allclose(model.second_moment_, around.T @ around / M, atol=1e-12)
        assert model.n_signals_ == M
        assert (np.diff(model.objective_) < 0.0).all()

    def test_two_scales_ascend(self, two):
        assert two.scales_.shape == two.source_variances_.shape == (2,)
        assert two.scales_[0] <= two.scales_[1]

    @pytest.mark.filterwarnings("ignore:HeatCovariance")
    def test_with_fewer_signals_than_nodes_some_shrinkage_is_kept(self):
        # One common source: signals so alike that folds prefer hardly any shrinkage.
        rng = np.random.default_rng(1)
        level = rng.standard_normal((12, 1)) @ np.ones((1, 30))
        X = level + 1e-5 * rng.standard_normal((12, 30))
        assert HeatCovariance().fit(X).shrinkage_ >= 1e-3
        assert HeatCovariance(shrinkage=1e-5).fit(X).shrinkage_ == 1e-5

    def test_chooses_by_itself_and_finds_the_graph(self, truth):
        X, _ = make_heat_signals(truth, (1.5,), 1500, n_sources=N, noise_std=0.05, random_state=1)
        model = HeatCovariance().fit(X)
        assert model.selection_["log_likelihood"].max() > -np.inf
        assert (model.shrinkage_, model.penalty_) in set(
            zip(model.selection_["shrinkage"], model.selection_["penalty"], strict=True)
        )
        assert edge_scores(truth, model.graph_).f_measure == 1.0
        assert model.scales_[0] == pytest.approx(1.5, rel=0.05)
        assert model.noise_variance_ == pytest.approx(0.0025, rel=0.1)
        assert (model.graph_.confidence > 0.99).all()

    def test_without_an_intercept(self, signals):
        model = HeatCovariance(fit_intercept=False, **GIVEN).fit(signals)
        assert not model.location_.any()
        np.testing.assert_allclose(model.second_moment_, signals.T @ signals / M)

    def test_permuting_the_nodes(self, signals, model, rng):
        order = rng.permutation(N)
        other = HeatCovariance(**GIVEN).fit(signals[:, order])
        expected = model.covariance_[np.ix_(order, order)]
        np.testing.assert_allclose(other.covariance_, expected, atol=5e-3)

    @pytest.mark.parametrize("exponent", [-100, -20, 40, 100])
    def test_scaling_the_signals(self, signals, model, exponent):
        a = 2.0**exponent
        other = HeatCovariance(**GIVEN).fit(a * signals)
        np.testing.assert_allclose(other.covariance_, model.covariance_ * a * a, rtol=1e-12)
        np.testing.assert_allclose(other.scales_, model.scales_, rtol=1e-12)
        np.testing.assert_allclose(other.location_, model.location_ * a, rtol=1e-12)
        assert other.score_hidden(a * signals) == pytest.approx(model.score_hidden(signals))

    @pytest.mark.parametrize("size", [1e-200, 1e-150, 1e-130, 1e140, 1e155, 1e250])
    def test_values_whose_squares_leave_the_range_are_refused(self, signals, size):
        X = size * (signals - signals.mean(axis=0))
        if 1e-140 < size < 1e150:
            model = HeatCovariance(**GIVEN).fit(X)
            for found in (model.covariance_, model.precision_, model.transform(X), model.impute(X)):
                assert np.isfinite(found).all()
            assert np.isfinite(model.score(X))
        else:
            with pytest.raises(ValueError, match="X: its values vary by about"):
                HeatCovariance(**GIVEN).fit(X)

    def test_one_signal(self, signals):
        with pytest.raises(ValueError, match="fit_intercept=False"):
            HeatCovariance().fit(signals[:1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = HeatCovariance(fit_intercept=False).fit(signals[:1])
        assert model.selection_ is None
        assert np.isfinite(model.covariance_).all()

    @pytest.mark.filterwarnings("ignore:HeatCovariance. no edge:UserWarning")
    @pytest.mark.parametrize("m", [2, 3, 5])
    def test_few_signals(self, signals, m):
        model = HeatCovariance().fit(signals[:m])
        assert np.isfinite(model.precision_).all()

    @pytest.mark.parametrize("level", [0.0, 0.1, 1.0 / 3.0])
    def test_constant_nodes_are_named(self, frame, level):
        with pytest.warns(UserWarning, match=r"constant.*\['b', 'd'\]"):
            model = HeatCovariance(**GIVEN).fit(frame.assign(b=level, d=-level))
        assert model.graph_.n_nodes == N
        assert np.isfinite(model.precision_).all()

    def test_constant_nodes_are_named_in_many_signals(self, signals):
        """The mean of thousands of equal values is not quite their value."""
        X = np.tile(signals, (3000 // len(signals) + 1, 1))
        X[:, 1] = 7.3
        with pytest.warns(UserWarning, match=r"constant.*\[1\]"):
            HeatCovariance(**GIVEN).fit(X)

    def test_nothing_varies(self):
        with pytest.raises(ValueError, match="no node varies"):
            HeatCovariance().fit(np.full((9, 3), 0.1))

    def test_not_converged_is_said(self, signals):
        with pytest.warns(ConvergenceWarning, match="HeatCovariance"):
            model = HeatCovariance(**GIVEN, max_iter=1).fit(signals)
        assert model.status_ == "max_iter"

    def test_no_graph_is_said(self, rng):
        with pytest.warns(UserWarning, match="no edge stands out"):
            HeatCovariance(shrinkage=0.01, penalty=9.0).fit(rng.normal(size=(200, 4)))

    def test_verbose(self, signals, capsys):
        HeatCovariance(verbose=1).fit(signals[:30])
        assert capsys.readouterr().out == ""


class TestInterrupt:
    @pytest.mark.parametrize("step", [0, 3])
    def test_the_best_so_far_is_kept(self, signals, step):
        seen = []

        def stop(progress):
            seen.append(progress)
            if progress.iteration == step:
                raise KeyboardInterrupt

        model = HeatCovariance(**GIVEN).fit(signals, monitor=stop)
        assert model.status_ == "interrupted"
        assert model.objective_[-1] == min(model.objective_)
        assert np.isfinite(model.covariance_).all()
        assert np.isfinite(model.impute(signals)).all()
        assert seen[-1].iteration == step

    def test_while_the_edges_are_found(self, signals, monkeypatch):
        """The covariance is there by then, and its weights stand in for the graph."""
        calls, fit = [], gaussian_fitting.fit_at

        def stopped(*given):
            calls.append(given)
            found = fit(*given)
            return found if len(calls) == 1 else replace(found, status=Status.INTERRUPTED)

        monkeypatch.setattr(gaussian_fitting, "fit_at", stopped)
        model = HeatCovariance(**GIVEN).fit(signals)
        assert len(calls) == 2
        assert model.status_ == "interrupted"
        assert model.graph_.n_edges > 0

    def test_monitor_sees_it_fall(self, signals):
        seen = []
        HeatCovariance(shrinkage=0.01, penalty=0.0).fit(signals, monitor=seen.append)
        last = max(k for k, now in enumerate(seen) if now.iteration == 0)
        values = [now.objective for now in seen[last:]]
        assert values == sorted(values, reverse=True)
        assert seen[-1].residual <= 1e-5


class TestGaps:
    @pytest.mark.parametrize("intercept", [True, False])
    def test_end_where_the_observed_likelihood_does(self, intercept):
        """The likelihood of what was observed, maximised by scipy from there."""
        rng, n = np.random.default_rng(3), 4
        graph = make_graph("er", n, random_state=2, p=0.7)
        X, _ = make_heat_signals(graph, (1.0,), 150, n_sources=n, noise_std=0.3, random_state=3)
        X = gaps(X + 0.5, rng, 0.25)
        options = {"shrinkage": 0.0, "penalty": 0.0, "fit_intercept": intercept, "tol": 1e-9}
        model = HeatCovariance(**options).fit(X)
        assert model.status_ == "converged"
        problem = GaussianHeat(CandidateEdges.complete(n), np.eye(n))

        def observed(y):
            x, u = (y[:-n], y[-n:]) if intercept else (y, np.zeros(n))
            return -2.0 * log_likelihoods(X, u, problem.at(x).covariance).mean()

        w = -model.laplacian_[np.triu_indices(n, 1)] * model.scales_[0]
        own = np.concatenate([w, np.log(model.source_variances_), [np.log(model.noise_variance_)]])
        end = np.concatenate([own, model.location_]) if intercept else own
        assert observed(end) == pytest.approx(-2.0 * model.score(X), rel=1e-10)
        bounds = [(0.0, 50.0)] * w.size + [(-25.0, 5.0)] * 2 + [(-9.0, 9.0)] * (n * intercept)
        scipy = minimize(observed, end, method="L-BFGS-B", bounds=bounds)
        assert scipy.fun > observed(end) - 1e-5

    def test_none_is_the_complete_fit(self, signals, model, rng):
        """Of one entry that is missing, hardly anything changes."""
        Y = signals.copy()
        Y[3, 2] = np.nan
        other = HeatCovariance(**GIVEN).fit(Y)
        np.testing.assert_allclose(other.covariance_, model.covariance_, atol=0.03)

    def test_the_choice_works_too(self, signals, rng):
        Y = gaps(signals, rng)
        model = HeatCovariance().fit(Y)
        assert len(model.selection_) > 3
        assert model.status_ == "converged"
        assert model.score_hidden(signals) > 0.2

    def test_a_node_never_observed_is_named(self, frame):
        with pytest.warns(UserWarning, match=r"never observed.*\['c'\]"):
            model = HeatCovariance(**GIVEN).fit(frame.assign(c=np.nan))
        assert model.graph_.n_nodes == N
        assert np.isfinite(model.covariance_).all()
        assert model.n_observed_.tolist() == [0.0 if name == "c" else len(frame) for name in NAMES]

    def test_what_is_filled_in_for_a_node_never_observed_is_called_a_guess(self, frame, tmp_path):
        gappy = frame.assign(c=np.nan)
        with pytest.warns(UserWarning, match="never observed"):
            model = HeatCovariance(**GIVEN).fit(gappy)
        save_model(model, tmp_path / "model.npz")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.impute(frame)  # nothing is filled in
            model.score_hidden(gappy)  # no such entry is scored
        for fitted in (model, load_model(tmp_path / "model.npz")):
            with pytest.warns(UserWarning, match=r"without knowledge.*\['c'\].*Drop their columns"):
                fitted.impute(gappy)

    def test_a_node_that_a_later_chunk_has_is_known(self, frame):
        with pytest.warns(UserWarning, match="never observed"):
            model = HeatCovariance(**GIVEN).fit(frame.assign(c=np.nan))
        model.partial_fit(frame)
        assert model.n_observed_.tolist() == [
            len(frame) * (1 if name == "c" else 2) for name in NAMES
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.impute(frame.assign(c=np.nan))

    def test_a_signal_never_observed_changes_little(self, signals, model):
        Y = np.vstack([signals, np.full(N, np.nan)])
        other = HeatCovariance(**GIVEN).fit(Y)
        assert other.n_signals_ == M + 1
        np.testing.assert_allclose(other.covariance_, model.covariance_, atol=0.03)
        np.testing.assert_allclose(other.location_, model.location_, atol=1e-3)

    def test_no_entry_at_all(self):
        with pytest.raises(ValueError, match="no entry was observed"):
            HeatCovariance().fit(np.full((4, 3), np.nan))


class TestStreams:
    @pytest.mark.parametrize("intercept", [True, False])
    def test_chunks_have_the_moments_of_the_whole(self, signals, intercept):
        chunked = HeatCovariance(**GIVEN, fit_intercept=intercept)
        for chunk in np.array_split(signals, 4):
            chunked.partial_fit(chunk)
        whole = HeatCovariance(**GIVEN, fit_intercept=intercept).fit(signals)
        assert chunked.n_signals_ == M
        np.testing.assert_allclose(chunked.second_moment_, whole.second_moment_, rtol=1e-11)
        np.testing.assert_allclose(chunked.location_, whole.location_, rtol=1e-12)
        assert chunked.shrinkage_ == 0.01

    def test_a_chosen_shrinkage_falls_with_the_number_of_signals(self, signals):
        model = HeatCovariance(penalty=2.0).partial_fit(signals[: M // 2])
        first = model.shrinkage_
        model.partial_fit(signals[M // 2 :])
        assert model.shrinkage_ == pytest.approx(0.5 * first)

    def test_decay_forgets(self, signals, rng):
        signals = signals - np.arange(N)
        other = signals[:, rng.permutation(N)]
        model = HeatCovariance(**GIVEN, decay=0.1).fit(other)
        for _ in range(3):
            model.partial_fit(signals)
        assert model.n_signals_ == pytest.approx(M * (1.0 + 0.1 + 0.01 + 0.001))
        fresh = HeatCovariance(**GIVEN).fit(signals)
        np.testing.assert_allclose(model.location_, fresh.location_, atol=0.01)
        np.testing.assert_allclose(model.second_moment_, fresh.second_moment_, atol=0.02)

    @pytest.mark.parametrize("decay", [0.0, 1.5, -1.0])
    def test_decay_out_of_range(self, signals, decay):
        model = HeatCovariance(**GIVEN, decay=decay).fit(signals)
        with pytest.raises(ValueError, match="decay"):
            model.partial_fit(signals)

    def test_with_gaps(self, signals, rng):
        model = HeatCovariance(**GIVEN).fit(signals[:60])
        model.partial_fit(gaps(signals[60:], rng))
        assert model.n_signals_ == M
        assert np.isfinite(model.covariance_).all()


class TestElsewhere:
    @pytest.mark.parametrize("chunks", [(40, 8), (7, 8), (120, 3)])
    def test_arrays(self, signals, model, chunks):
        da = pytest.importorskip("dask.array")
        there = HeatCovariance(**GIVEN).fit(da.from_array(signals, chunks=chunks))
        same(there, model)
        assert there.graph_.n_edges == model.graph_.n_edges
        np.testing.assert_allclose(there.node_means_, model.node_means_)

    def test_without_an_intercept(self, signals):
        """What is predicted is compared with the means of the nodes all the same."""
        da = pytest.importorskip("dask.array")
        own = HeatCovariance(**GIVEN, fit_intercept=False)
        here = clone(own).fit(signals)
        there = clone(own).fit(da.from_array(signals, chunks=(40, 8)))
        stream = clone(own).fit(signals[:50]).partial_fit(signals[50:])
        same(there, here)
        for other in (there, stream):
            np.testing.assert_allclose(other.node_means_, signals.mean(axis=0), rtol=1e-10)
        assert there.score_hidden(signals) == pytest.approx(here.score_hidden(signals))

    def test_the_choice_is_the_same_on_the_same_folds(self, signals):
        da = pytest.importorskip("dask.array")
        there = HeatCovariance().fit(da.from_array(signals, chunks=(40, 8)))
        here = HeatCovariance().fit(signals)
        assert (there.shrinkage_, there.penalty_, there.relaxed_) == (
            here.shrinkage_,
            here.penalty_,
            here.relaxed_,
        )
        same(there, here)

    def test_data_frames_and_parquet(self, frame, model, tmp_path):
        dd = pytest.importorskip("dask.dataframe")
        there = HeatCovariance(**GIVEN).fit(dd.from_pandas(frame, npartitions=3))
        same(there, model)
        assert there.graph_.names == tuple(NAMES)
        frame.to_parquet(tmp_path / "x.parquet")
        read = HeatCovariance(**GIVEN).fit(dd.read_parquet(tmp_path / "x.parquet"))
        same(read, model)
        assert list(read.feature_names_in_) == NAMES

    def test_partial_fit(self, signals, model):
        da = pytest.importorskip("dask.array")
        there = HeatCovariance(**GIVEN).fit(signals[:60])
        there.partial_fit(da.from_array(signals[60:], chunks=(20, 8)))
        np.testing.assert_allclose(there.second_moment_, model.second_moment_, rtol=1e-11)

    def test_gaps_are_refused(self, signals):
        da = pytest.importorskip("dask.array")
        Y = signals.copy()
        Y[0, 0] = np.nan
        with pytest.raises(ValueError, match="missing"):
            HeatCovariance(**GIVEN).fit(da.from_array(Y, chunks=(40, 8)))


class TestCheckpoint:
    def test_goes_on_with_the_same_result(self, signals, tmp_path):
        class KilledError(BaseException):
            pass

        path, X = tmp_path / "fit.checkpoint", signals[:40]
        whole = HeatCovariance().fit(X)

        def kill(progress):
            if progress.iteration == 2:
                raise KilledError

        model = HeatCovariance(checkpoint=path)
        with pytest.raises(KilledError):
            model.fit(X, monitor=kill)
        tried = []
        model.fit(X, monitor=lambda now: tried.append(now.iteration))
        for name in STORED:
            assert getattr(model, name).tobytes() == getattr(whole, name).tobytes(), name
        assert model.selection_.equals(whole.selection_)
        again = HeatCovariance(checkpoint=path).fit(X)
        same(again, whole, 1e-14)

    def test_of_other_signals_is_refused(self, signals, tmp_path):
        path = tmp_path / "fit.checkpoint"
        HeatCovariance(**GIVEN, checkpoint=path).fit(signals)
        with pytest.raises(ValueError, match="another fit"):
            HeatCovariance(**GIVEN, checkpoint=path).fit(signals[:-1])
        with pytest.raises(ValueError, match="penalty"):
            HeatCovariance(shrinkage=0.01, penalty=1.0, checkpoint=path).fit(signals)


class TestGraph:
    def test_candidates(self, frame, truth):
        mask = np.zeros((N, N))
        mask[truth.edges[:, 0], truth.edges[:, 1]] = 1.0
        named = Graph(truth.edges, truth.weights, N, tuple(NAMES))
        listed = [(NAMES[i], NAMES[j]) for i, j in truth.edges]
        fits = [HeatCovariance(**GIVEN, candidates=c).fit(frame) for c in (mask, named, listed)]
        allowed = set(map(tuple, truth.edges))
        for fit in fits:
            assert set(map(tuple, fit.weights_.edges)) <= allowed
            same(fit, fits[0], 1e-12)
        near = HeatCovariance(**GIVEN, candidates=2).fit(frame)
        assert near.weights_.n_edges <= 2 * N
        every = HeatCovariance(**GIVEN, candidates="all").fit(frame)
        same(every, HeatCovariance(**GIVEN).fit(frame), 1e-14)

    @pytest.mark.parametrize("n_edges", [1, 5, "1N"])
    def test_n_edges(self, signals, n_edges):
        model = HeatCovariance(**GIVEN, n_edges=n_edges).fit(signals)
        assert model.graph_.n_edges == (N if n_edges == "1N" else n_edges)
        assert model.cut_ == model.graph_.weights.min()

    @pytest.mark.parametrize("cut", ["auto", "typical", "valley", "mixture", "otsu", 0.0, 0.3])
    def test_cuts(self, signals, cut):
        model = HeatCovariance(**GIVEN, cut=cut).fit(signals)
        assert (model.graph_.weights >= model.cut_).all()
        assert model.graph_.n_edges > 0

    def test_the_heaviest_weight_that_a_rule_takes_for_noise_is_no_edge(self, signals, monkeypatch):
        every = HeatCovariance(**GIVEN, cut=0.0).fit(signals).graph_.weights
        third = np.sort(every)[2]
        monkeypatch.setitem(CUTS, "mixture", lambda w: third)
        model = HeatCovariance(**GIVEN, cut="mixture").fit(signals)
        assert sorted(model.graph_.weights) == sorted(every[every > third])
        assert model.cut_ == pytest.approx(third)

    def test_significance(self, signals):
        model = HeatCovariance(**GIVEN, cut="significance").fit(signals)
        assert np.isnan(model.cut_)
        assert model.graph_.n_edges > 0
        assert (model.edge_statistics()["p_value"] < 0.05).all()

    def test_edge_statistics(self, model, signals):
        own, every = model.edge_statistics(), model.edge_statistics("all")
        assert len(own) == model.graph_.n_edges
        assert len(every) == N * (N - 1) // 2
        np.testing.assert_allclose(1.0 - own["p_value"], model.graph_.confidence, atol=1e-6)
        assert every["weight"].sum() == pytest.approx(N / 2.0)
        with pytest.raises(ValueError, match="pairs"):
            model.edge_statistics("some")

    def test_an_edge_that_the_graph_lacks_does_not_bias_the_others(self, truth):
        X, _ = make_heat_signals(truth, (1.5,), 1500, n_sources=N, noise_std=0.05, random_state=1)
        few = HeatCovariance(n_edges=truth.n_edges - 2, **GIVEN).fit(X)
        table = few.edge_statistics("all")
        w = np.asarray(truth.adjacency()[table["source"], table["target"]]).ravel()
        assert (table["standard_error"].notna() >= (w > 0.0)).all()
        z = (table["weight"] - w)[w > 0.0] / table["standard_error"][w > 0.0]
        assert np.abs(z).max() < 4.0


class TestModel:
    def test_score_is_the_mean_log_likelihood(self, model, signals):
        scipy = multivariate_normal(model.location_, model.covariance_)
        assert model.score(signals) == pytest.approx(scipy.logpdf(signals).mean())

    @pytest.mark.parametrize("share", [0.0, 0.3])
    def test_transform_is_the_posterior_mean(self, model, two, signals, share):
        rng = np.random.default_rng(0)
        for fitted in (model, two):
            Y = gaps(signals[:6], rng, share)
            H = fitted.transform(Y)
            kernels = [expm(-tau * fitted.laplacian_) for tau in fitted.scales_]
            D = np.hstack(kernels)
            V = np.kron(np.diag(fitted.source_variances_), np.eye(N))
            for y, h in zip(Y, H, strict=True):
                seen = ~np.isnan(y)
                D_seen = D[seen]
                C = D_seen @ V @ D_seen.T + fitted.noise_variance_ * np.eye(seen.sum())
                mean = V @ D_seen.T @ np.linalg.solve(C, (y - fitted.location_)[seen])
                np.testing.assert_allclose(h, mean, atol=1e-8)

    def test_inverse_transform(self, two, signals):
        H = two.transform(signals)
        kernels = np.hstack([expm(-tau * two.laplacian_) for tau in two.scales_])
        expected = H @ kernels.T + two.location_
        np.testing.assert_allclose(two.inverse_transform(H), expected, atol=1e-10)
        cube = H.reshape(M, 2, N)
        np.testing.assert_allclose(two.inverse_transform(cube), expected, atol=1e-10)
        with pytest.raises(ValueError, match="H must be"):
            two.inverse_transform(H[:, :-1])

    def test_a_laplacian_that_is_stored_sparse(self, signals, truth, model, monkeypatch):
        monkeypatch.setattr(fitted_graph, "DENSE_NODES", 2)
        large = HeatCovariance(**GIVEN, candidates=truth).fit(signals)
        H = large.transform(signals)
        assert np.isfinite(large.inverse_transform(H)).all()

    def test_impute_is_calibrated(self, model):
        X = model.sample(3000, random_state=5)
        Y = gaps(X, np.random.default_rng(1), 0.3)
        filled, std = model.impute(Y, return_std=True)
        hidden = np.isnan(Y)
        assert np.array_equal(filled[~hidden], X[~hidden])
        assert not std[~hidden].any()
        z = (X - filled)[hidden] / std[hidden]
        assert np.mean(np.abs(z) < 1.96) == pytest.approx(0.95, abs=0.01)
        assert z.std() == pytest.approx(1.0, abs=0.03)

    def test_impute_of_a_frame_and_of_nothing(self, frame):
        model = HeatCovariance(**GIVEN).fit(frame)
        Y = frame.iloc[:3].copy()
        Y.iloc[0] = np.nan
        filled, std = model.impute(Y, return_std=True)
        assert list(filled.columns) == NAMES
        np.testing.assert_allclose(filled.iloc[0], model.location_)
        np.testing.assert_allclose(std.iloc[0], np.sqrt(np.diag(model.covariance_)))

    def test_sample(self, model):
        X = model.sample(200_000, random_state=0)
        C = model.covariance_
        np.testing.assert_allclose(np.cov(X.T), C, atol=0.02 * C.max())
        np.testing.assert_allclose(X.mean(axis=0), model.location_, atol=0.02)
        assert np.array_equal(model.sample(2, 1), model.sample(2, 1))

    def test_mahalanobis_and_precision(self, model, signals):
        assert np.array_equal(model.get_precision(), model.precision_)
        around = signals - model.location_
        expected = np.einsum("mi,ij,mj->m", around, model.precision_, around)
        np.testing.assert_allclose(model.mahalanobis(signals), expected, rtol=1e-9)
        assert model.error_norm(model.covariance_) == pytest.approx(0.0)

    def test_score_hidden(self, model, signals):
        assert 0.2 < model.score_hidden(signals) < 1.0
        assert model.score_hidden(signals) == model.score_hidden(signals)

    def test_save_and_load(self, model, signals, tmp_path):
        save_model(model, tmp_path / "model.heatgraph")
        again = load_model(tmp_path / "model.heatgraph")
        assert isinstance(again, HeatCovariance)
        same(again, model, 0.0)
        assert again.score(signals) == model.score(signals)
        pd.testing.assert_frame_equal(again.edge_statistics(), model.edge_statistics())


@settings(max_examples=15)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 6),
    st.integers(1, 12),
    st.integers(1, 3),
    st.sampled_from(["normal", "one node", "one signal", "rank one", "twins", "constant", "wide"]),
    st.sampled_from([0.0, 0.3, 0.9]),
    st.sampled_from([0.0, 1e-4, 0.3]),
    st.sampled_from([0.0, 1.0, 100.0]),
)
def test_a_finite_model_or_an_error_that_names_x(seed, n, m, S, kind, share, rho, c):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n))
    match kind:
        case "one node":
            X[:, 1:] = 0.0
        case "one signal":
            X[1:] = 0.0
        case "rank one":
            X = np.outer(X[:, 0], X[0])
        case "twins":
            X[:, -1] = X[:, 0]
        case "constant":
            X[:, 0] = 0.1
        case "wide":
            X = X * 10.0 ** rng.integers(-12, 13, X.shape)
    X[rng.random(X.shape) < share] = np.nan
    model = HeatCovariance(n_scales=S, shrinkage=rho, penalty=c, max_iter=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            model.fit(X)
        except ValueError as error:
            if "X" not in str(error):
                raise
            return
        filled = model.impute(X)
    for name in STORED:
        assert np.isfinite(getattr(model, name)).all(), name
    assert np.isfinite(filled).all()
    assert np.isfinite(model.score(X))
    assert (np.linalg.eigvalsh(model.covariance_) > 0.0).all()


class TestNodesThatNothingIsKnownOf:
    @pytest.mark.parametrize("value", [np.nan, 3.5], ids=["never observed", "constant"])
    def test_have_no_edges(self, rng, value):
        graph = make_graph("er", 7, random_state=0)
        X, _ = make_heat_signals(graph, (1.0,), 60, 7, 0.1, random_state=0)
        X = np.column_stack([X[:, :3], np.full(60, value), X[:, 3:]])
        with pytest.warns(UserWarning, match=r"nothing is known of their edges: \[3\]"):
            model = HeatCovariance(shrinkage=0.01, penalty=1.0).fit(X)
        assert 3 not in model.graph_.edges
        assert (3 in model.weights_.edges) == np.isfinite(value)
        assert 3 not in model.edge_statistics()[["source", "target"]].to_numpy()
        assert model.graph_.n_edges > 0

    @pytest.mark.filterwarnings("ignore:HeatCovariance. constant")
    def test_are_predicted_from_others_if_they_were_constant(self, rng):
        """A tracer that has not arrived at a station yet comes from the stations around."""
        X = rng.standard_normal((20, 1)) + 0.3 * rng.standard_normal((20, 6))
        X[:, 5] = 0.0
        model = HeatCovariance(shrinkage=0.3, penalty=0.0).fit(X)
        new = np.array([[3.0, 3.0, 3.0, 3.0, 3.0, np.nan]])
        assert model.impute(new)[0, 5] > 0.1

    def test_may_leave_no_pair_at_all(self, rng):
        X = np.column_stack([rng.standard_normal(20), np.ones(20)])
        constant = pytest.warns(UserWarning, match="constant")
        with constant, pytest.warns(UserWarning, match="no edge stands out"):
            model = HeatCovariance().fit(X)
        assert model.graph_.n_edges == 0


def test_one_signal_has_no_p_values(rng):
    X = 1.0 + 0.1 * rng.standard_normal((1, 6))
    model = HeatCovariance(fit_intercept=False, shrinkage=0.1, penalty=0.0, n_edges=3)
    model.fit(X)
    assert model.graph_.n_edges > 0
    assert model.edge_statistics()["p_value"].isna().all()
    assert model.graph_.confidence is None


def test_a_path_is_not_signals():
    with pytest.raises(ValueError, match="X is a path; read it first"):
        HeatCovariance().fit("signals.csv")


def test_absent_edges_of_a_series_are_as_rarely_significant_as_of_independent_signals():
    """Each signal keeps most of the one before, so that they count as fewer."""
    found = []
    for seed in range(4):
        graph = make_graph("er", 12, random_state=seed)
        X, _ = make_heat_signals(graph, [2.0], 400, n_sources=12, noise_std=0.05, random_state=seed)
        for before, signal in itertools.pairwise(X):
            signal += 0.8 * before
        model = HeatCovariance(shrinkage=0.0, penalty=2.0).fit(X)
        assert 0.1 * len(X) < model.n_effective_ < 0.4 * len(X)
        tests = model.edge_statistics("all")
        absent = graph.adjacency()[tests["source"].to_numpy(), tests["target"].to_numpy()] == 0.0
        found.append(tests["p_value"].to_numpy()[np.asarray(absent).ravel()] < 0.05)
    share = np.concatenate(found).mean()
    assert share < 0.1  # with as many independent signals as rows it is 0.25


def test_a_series_goes_on_in_rows_that_come_one_by_one():
    """A few rows say nothing of how much they resemble each other: they count as those before."""
    graph = make_graph("ba", 12, random_state=0)
    X, _ = make_heat_signals(graph, [2.0], 205, n_sources=12, noise_std=0.05, random_state=0)
    for before, signal in itertools.pairwise(X):
        signal += 0.9 * before
    auto, valley = (HeatCovariance(cut=cut, **GIVEN).fit(X[:200]) for cut in ("auto", "valley"))
    share = auto.n_effective_ / 200
    assert share < 0.3
    for row in X[200:]:
        auto.partial_fit(row[None])
        valley.partial_fit(row[None])
    assert auto.n_effective_ == pytest.approx(205 * share)
    assert auto.cut_ == valley.cut_


def test_independent_signals_count_in_full():
    graph = make_graph("er", 12, random_state=0)
    X, _ = make_heat_signals(graph, [2.0], 400, n_sources=12, noise_std=0.05, random_state=0)
    assert HeatCovariance(shrinkage=0.1, penalty=2.0).fit(X).n_effective_ == 400.0


def test_a_series_is_cut_where_weights_are_rarest():
    """More noisy weights survive the penalty than of as many independent signals."""
    auto, typical = [], []
    for seed in range(4):
        graph = make_graph("ba", 20, random_state=seed)
        X, _ = make_heat_signals(graph, [2.0], 300, n_sources=20, noise_std=0.02, random_state=seed)
        for before, signal in itertools.pairwise(X):
            signal += 0.95 * before
        auto.append(edge_scores(graph, HeatCovariance(**GIVEN).fit(X).graph_).f_measure)
        usual = HeatCovariance(cut="typical", **GIVEN).fit(X)
        typical.append(edge_scores(graph, usual.graph_).f_measure)
        shuffled = HeatCovariance(**GIVEN).fit(np.random.default_rng(seed).permutation(X))
        assert shuffled.cut_ == pytest.approx(usual.cut_)
    assert np.mean(auto) > np.mean(typical) + 0.02
