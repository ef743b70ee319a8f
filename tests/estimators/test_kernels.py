"""HeatCovariance with other kernels than heat."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from heatgraph import HeatCovariance, LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators.model import LargeModel
from heatgraph.kernels.spectral import KERNELS, MaternKernel
from heatgraph.metrics import average_precision
from heatgraph.storage import load_model, save_model


@pytest.fixture(scope="module")
def truth():
    return make_graph("er", 12, random_state=0)


@pytest.fixture(scope="module")
def signals(truth):
    """White sources smoothed by Tikhonov's penalty, with a little noise."""
    rng = np.random.default_rng(0)
    L = truth.laplacian().toarray()
    smooth = np.linalg.solve(np.eye(12) + 4.0 * L, rng.standard_normal((12, 400)))
    return smooth.T + 0.02 * rng.standard_normal((400, 12)) + 3.0


@pytest.fixture(scope="module")
def fitted(signals):
    quick = {"shrinkage": 1e-3, "penalty": 0.0}
    return {
        kernel: HeatCovariance(kernel=kernel, **quick).fit(signals[:300])
        for kernel in ("heat", "tikhonov", MaternKernel(1.0))
    }


def test_the_right_kernel_is_likelier(fitted, signals):
    score = {kernel: model.score(signals[300:]) for kernel, model in fitted.items()}
    assert score["tikhonov"] > score["heat"] + 0.05


def test_the_graph_and_the_time_are_found(fitted, truth):
    model = fitted["tikhonov"]
    assert model.status_ == "converged"
    assert average_precision(truth, model.weights_) > 0.95
    # On a Laplacian of trace N; the true one has its own.
    assert model.scales_[0] == pytest.approx(4.0 * truth.laplacian().trace() / 12, rel=0.3)


def test_a_name_stands_for_its_object(fitted):
    one, other = fitted["tikhonov"], fitted[MaternKernel(1.0)]
    assert other.covariance_ == pytest.approx(one.covariance_, rel=1e-6)


def test_sources_go_through_the_kernel(fitted, signals):
    model = fitted["tikhonov"]
    G = np.linalg.inv(np.eye(12) + model.scales_[0] * model.laplacian_)
    C = model.source_variances_[0] * G @ G + model.noise_variance_ * np.eye(12)
    assert model.covariance_ == pytest.approx(C, abs=1e-8 * C.max())
    around = signals[300:] - model.location_
    expected = model.source_variances_[0] * around @ np.linalg.inv(C) @ G
    H = model.transform(signals[300:])
    assert pytest.approx(expected, abs=1e-6 * np.abs(expected).max()) == H
    assert model.inverse_transform(H) == pytest.approx(H @ G + model.location_)


@pytest.fixture(scope="module")
def chosen(signals):
    return HeatCovariance(kernel="auto").fit(signals[:150])


class TestChosen:
    """``kernel="auto"``."""

    def test_the_kernel_that_made_the_signals(self, chosen, truth):
        assert chosen.kernel_ == "tikhonov"
        X, _ = make_heat_signals(truth, [2.0], 150, 12, noise_std=0.05, random_state=0)
        assert HeatCovariance(kernel="auto").fit(X).kernel_ == "heat"

    def test_the_fit_is_that_of_the_kernel_by_name(self, chosen, signals):
        strength = {"shrinkage": chosen.shrinkage_, "penalty": chosen.penalty_}
        same = HeatCovariance(kernel="tikhonov", **strength).fit(signals[:150])
        if not chosen.relaxed_:
            assert same.covariance_ == pytest.approx(chosen.covariance_, rel=1e-3)
        better = HeatCovariance().fit(signals[:150])
        assert chosen.score(signals[300:]) > better.score(signals[300:])

    def test_what_was_tried_is_of_that_kernel(self, chosen):
        row = chosen.selection_["log_likelihood"].idxmax()
        assert chosen.selection_["shrinkage"][row] == chosen.shrinkage_

    def test_files_and_streams_keep_it(self, chosen, signals, tmp_path):
        save_model(chosen, tmp_path / "model.npz")
        loaded = load_model(tmp_path / "model.npz")
        assert (loaded.kernel, loaded.kernel_) == ("auto", "tikhonov")
        assert np.array_equal(loaded.transform(signals[:3]), chosen.transform(signals[:3]))
        model = HeatCovariance(kernel="auto").partial_fit(signals[:150])
        first = model.kernel_
        assert model.partial_fit(signals[150:300]).kernel_ == first

    def test_gaps(self, chosen, signals):
        X = signals[:150].copy()
        X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
        model = HeatCovariance(kernel="auto").fit(X)
        assert model.kernel_ == "tikhonov"
        assert model.scales_[0] == pytest.approx(chosen.scales_[0], rel=0.3)

    def test_the_sparse_engine_takes_heat(self, signals):
        model = HeatCovariance(kernel="auto", solver="sparse", tol=0.1)
        assert model.fit(signals[:60]).kernel_ == "heat"


def test_tests_of_edges_and_files(fitted, tmp_path, signals):
    model = fitted["tikhonov"]
    table = model.edge_statistics()
    assert (table["p_value"] < 0.05).mean() > 0.7
    save_model(model, tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    assert loaded.kernel == "tikhonov"
    assert np.array_equal(loaded.transform(signals[:3]), model.transform(signals[:3]))
    model.report(tmp_path / "report.html", signals[:20])
    assert "In its words" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert clone(model).kernel == "tikhonov"


def test_waves_are_learned_from_before_their_first_zero(truth):
    """A covariance is of squares: from the first zero of the cosine on, it has lost its sign."""
    rng = np.random.default_rng(0)
    lam, U = np.linalg.eigh(truth.laplacian().toarray())
    through = (U * np.cos(np.sqrt(0.9 * np.maximum(lam, 0.0)))) @ U.T
    X = rng.standard_normal((400, 12)) @ through + 0.02 * rng.standard_normal((400, 12))
    quick = {"shrinkage": 1e-3, "penalty": 0.0}
    model = HeatCovariance(kernel="wave", **quick).fit(X[:300])
    assert average_precision(truth, model.weights_) > 0.95
    assert model.scales_[0] == pytest.approx(0.9 * truth.laplacian().trace() / 12, rel=0.2)
    heat = HeatCovariance(**quick).fit(X[:300])
    assert model.score(X[300:]) > heat.score(X[300:]) + 0.1


def test_a_file_keeps_the_exponent_and_refuses_an_own_class(fitted, tmp_path, signals):
    model = clone(fitted[MaternKernel(1.0)]).set_params(kernel=MaternKernel(0.7)).fit(signals)
    save_model(model, tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    assert loaded.kernel == MaternKernel(0.7)
    assert np.array_equal(loaded.transform(signals[:3]), model.transform(signals[:3]))

    class Own(MaternKernel):
        pass

    with pytest.raises(ValueError, match="parameter kernel must be"):
        save_model(model.set_params(kernel=Own(0.7)), tmp_path / "own.npz")


def test_what_is_no_kernel_is_named(signals):
    with pytest.raises(ValueError, match=r"kernel must be one of 'heat', .*'wave'"):
        HeatCovariance(kernel="cold").fit(signals)


@pytest.fixture(scope="module")
def sparse_signals(truth):
    """Two sources each, smoothed by Tikhonov's penalty."""
    rng = np.random.default_rng(1)
    sources = np.zeros((80, 12))
    for row in sources:
        row[rng.choice(12, 2, replace=False)] = rng.uniform(0.5, 1.0, 2)
    G = np.linalg.inv(np.eye(12) + 3.0 * truth.laplacian().toarray())
    return sources @ G


GIVEN = {"n_scales": 1, "alpha": 0.003, "beta": 0.001}


def test_learn_heat_takes_a_kernel(truth, sparse_signals, tmp_path):
    model = LearnHeat(kernel="tikhonov", **GIVEN).fit(sparse_signals)
    assert average_precision(truth, model.weights_) > 0.95
    # On a Laplacian of trace N; the time of heat would be another.
    assert model.scales_[0] == pytest.approx(3.0 * truth.laplacian().trace() / 12, rel=0.05)
    H = model.transform(sparse_signals)
    G = np.linalg.inv(np.eye(12) + model.scales_[0] * model.laplacian_)
    assert model.inverse_transform(H) == pytest.approx(H @ G)
    save_model(model, tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    assert loaded.kernel == "tikhonov"
    assert np.array_equal(loaded.transform(sparse_signals[:3]), model.transform(sparse_signals[:3]))
    model.report(tmp_path / "report.html", sparse_signals[:5])


def test_learn_heat_takes_a_kernel_without_an_array_of_all_pairs(tmp_path):
    """The sources of signals that are in balance with a smoothing, on a graph of 60 nodes."""
    truth = make_graph("geometric", 60, random_state=0)
    rng = np.random.default_rng(0)
    sources = np.zeros((300, 60))
    for row in sources:
        row[rng.choice(60, 3, replace=False)] = rng.uniform(0.5, 1.0, 3)
    X = sources @ np.linalg.inv(np.eye(60) + 3.0 * truth.laplacian().toarray())
    model = LearnHeat(kernel="tikhonov", solver="sparse", n_scales=1, alpha=1e-3).fit(X)
    assert average_precision(truth, model.weights_) > 0.95
    assert np.corrcoef(model.sources_.ravel(), sources.ravel())[0, 1] > 0.98  # of heat 0.97
    H = model.transform(X[:5])
    G = np.linalg.inv(np.eye(60) + model.scales_[0] * model.laplacian_)
    assert model.inverse_transform(H) == pytest.approx(H @ G, abs=1e-6)
    large = LargeModel(model.weights_, model.scales_, True, "log", 1, False, KERNELS["tikhonov"])
    assert large.synthesis(H) == pytest.approx(H @ G, abs=1e-6)
    save_model(model, tmp_path / "model.npz")
    assert np.array_equal(load_model(tmp_path / "model.npz").transform(X[:5]), H)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "paper", "atoms": "raw"}, "kernel='wave' needs solver=\"dense\""),
        ({"kernel": "cold"}, "kernel must be one of 'heat'"),
    ],
)
def test_engines_without_kernels_say_so(sparse_signals, parameters, message):
    with pytest.raises(ValueError, match=message):
        LearnHeat(**{"kernel": "wave", **parameters}).fit(sparse_signals)


def test_signals_on_a_cluster_have_heat_only(sparse_signals):
    array = pytest.importorskip("dask.array")
    chunks = array.from_array(sparse_signals, chunks=(40, 12))
    with pytest.raises(ValueError, match="kernel='wave' needs the signals in memory"):
        LearnHeat(kernel="wave").fit(chunks)
