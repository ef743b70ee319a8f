"""``score_hidden``: one number, by one definition, for every estimator that fills gaps."""

import numpy as np
import pandas as pd
import pytest

from heatgraph.baselines import GraphicalLassoGraph, SmoothGraph
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators import HeatCovariance, LearnHeat
from heatgraph.estimators.hidden import fill_by_precision, hidden_errors, node_means, which_hidden
from heatgraph.selection.masked_prediction import smoothing_form
from heatgraph.storage import load_model, save_model

ESTIMATORS = {
    "LearnHeat": LearnHeat(n_scales=1, alpha=0.05, beta=0.05, fit_intercept=True),
    "HeatCovariance": HeatCovariance(shrinkage=0.01, penalty=0.0),
    "SmoothGraph": SmoothGraph(beta=0.3),
    "GraphicalLassoGraph": GraphicalLassoGraph(alpha=0.02),
}
NAMES = list("abcdefg")


@pytest.fixture(scope="module")
def frame():
    X, _ = make_heat_signals(make_graph("ring", 7, 0), [2.0], 70, 7, 0.05, random_state=1)
    return pd.DataFrame(X + 3.0, columns=NAMES)


@pytest.fixture(scope="module")
def fitted(frame):
    return {name: model.fit(frame[:50]) for name, model in ESTIMATORS.items()}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_is_the_share_of_the_variance_around_the_node_means(fitted, frame, name):
    model, X = fitted[name], frame[50:].to_numpy()
    hidden = which_hidden(X, np.random.default_rng(0))
    error = total = 0.0
    for x, hide in zip(X, hidden, strict=True):
        given = pd.DataFrame([np.where(hide, np.nan, x)], columns=NAMES)
        guess = model.impute(given).to_numpy()[0]
        for node in np.flatnonzero(hide):
            error += (x[node] - guess[node]) ** 2
            total += (x[node] - frame[NAMES[node]][:50].mean()) ** 2
    assert model.score_hidden(frame[50:]) == pytest.approx(1.0 - error / total, rel=1e-6)
    assert model.score_hidden(frame[50:]) > 0.3


def test_every_estimator_sees_the_same_gaps(fitted, frame, monkeypatch):
    seen = []
    for model in fitted.values():
        impute = type(model).impute

        def spy(self, X, impute=impute):
            seen.append(np.isnan(np.asarray(X)))
            return impute(self, X)

        monkeypatch.setattr(type(model), "impute", spy)
        model.score_hidden(frame[50:], random_state=5)
        monkeypatch.setattr(type(model), "impute", impute)
    assert len(seen) == len(ESTIMATORS)
    assert all(np.array_equal(gaps, seen[0]) for gaps in seen)
    assert (seen[0].sum(axis=1) == 1).all()  # a fifth of seven


@pytest.mark.parametrize("name", ESTIMATORS)
def test_node_means_are_worth_nothing(fitted, frame, name, monkeypatch):
    model = fitted[name]
    assert np.allclose(model.node_means_, frame[:50].mean())
    monkeypatch.setattr(type(model), "impute", lambda self, X: X.fillna(frame[:50].mean()))
    assert model.score_hidden(frame[50:]) == pytest.approx(0.0, abs=1e-12)
    monkeypatch.setattr(type(model), "impute", lambda self, X: frame[50:])
    assert model.score_hidden(frame[50:]) == 1.0


@pytest.mark.parametrize("name", ESTIMATORS)
def test_gaps_and_empty_signals_are_left_out(fitted, frame, name):
    model, X = fitted[name], frame[50:].to_numpy().copy()
    X[0] = np.nan
    X[1, 1:] = np.nan  # one entry, which stays visible
    gaps = pd.DataFrame(X, columns=NAMES)
    hidden = which_hidden(X, np.random.default_rng(0))
    error, total = hidden_errors(model, X, hidden, 2.0)
    assert np.array_equal(error == 0, np.arange(len(X)) < 2)
    assert np.array_equal(total == 0, np.arange(len(X)) < 2)
    assert model.score_hidden(gaps) == pytest.approx(1.0 - error.sum() / total.sum())
    with pytest.raises(ValueError, match="no entry was observed"):
        model.score_hidden(gaps[:1])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_is_kept_by_a_saved_model(fitted, frame, name, tmp_path):
    save_model(fitted[name], tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    assert np.array_equal(loaded.node_means_, fitted[name].node_means_)
    assert loaded.score_hidden(frame[50:]) == fitted[name].score_hidden(frame[50:])


@pytest.mark.parametrize("scale", [1e-120, 1e120])
def test_of_sizes_whose_squares_are_out_of_range(frame, scale):
    usual = HeatCovariance(shrinkage=0.01, penalty=0.0).fit(frame[:50])
    model = HeatCovariance(shrinkage=0.01, penalty=0.0).fit(frame[:50] * scale)
    share = model.score_hidden(frame[50:] * scale)
    assert share == pytest.approx(usual.score_hidden(frame[50:]), rel=1e-6)


class TestImpute:
    def test_of_graphical_lasso_is_the_conditional_mean(self, fitted, frame):
        model, x = fitted["GraphicalLassoGraph"], frame.iloc[60]
        gaps = x.copy()
        gaps[["b", "e"]] = np.nan
        C = np.linalg.inv(model.precision_)
        m, o = [1, 4], [0, 2, 3, 5, 6]
        pull = np.linalg.solve(C[np.ix_(o, o)], x.to_numpy()[o] - model.location_[o])
        expected = model.location_[m] + C[np.ix_(m, o)] @ pull
        filled = model.impute(gaps.to_frame().T)
        assert filled.index.tolist() == [60]
        assert np.allclose(filled.to_numpy()[0, m], expected)
        assert np.array_equal(filled.to_numpy()[0, o], x.to_numpy()[o])

    def test_of_smooth_graph_minimises_its_form(self, fitted, frame):
        model, x = fitted["SmoothGraph"], frame.iloc[60].to_numpy()
        Q = smoothing_form(model.laplacian_, model.alpha)
        gaps = np.where(np.arange(7) < 2, np.nan, x)[None]
        around = model.impute(pd.DataFrame(gaps, columns=NAMES)).to_numpy()[0] - model.node_means_
        assert np.abs((Q @ around)[:2]).max() < 1e-9 * np.abs(Q).max() * np.abs(around).max()

    @pytest.mark.parametrize("name", ["SmoothGraph", "GraphicalLassoGraph"])
    def test_a_signal_that_was_not_observed_gets_the_node_means(self, fitted, name):
        empty = pd.DataFrame(np.full((1, 7), np.nan), columns=NAMES)
        assert np.allclose(fitted[name].impute(empty), fitted[name].node_means_)

    def test_a_part_of_the_graph_that_is_wholly_missing_gets_its_means(self):
        P = np.kron(np.eye(2), [[1.0, -1.0], [-1.0, 1.0]])
        filled = fill_by_precision(np.array([[5.0, np.nan, np.nan, np.nan]]), np.arange(4.0), P)
        assert np.allclose(filled, [[5.0, 6.0, 2.0, 3.0]])


def test_node_means_of_a_cluster_are_those_in_memory(frame):
    da = pytest.importorskip("dask.array")
    pytest.importorskip("distributed")
    X = frame[:40].to_numpy().copy()
    X[3, 2] = np.nan
    model = LearnHeat(n_scales=1, alpha=0.5, beta=0.5, max_iter=2)
    with pytest.warns():  # it stops early
        model.fit(da.from_array(X, chunks=(13, 7)))
    assert np.allclose(model.node_means_, node_means(X), rtol=1e-14)
