"""Time series in epochs, with lags; graphs along a series."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import heatgraph
from heatgraph import (
    CausalGraphProcess,
    GeneralizedLaplacian,
    Graph,
    HeatCovariance,
    sliding_graphs,
    time_series,
)
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators.time_series import with_epochs
from heatgraph.metrics import edge_scores

QUICK = {"shrinkage": 0.01, "penalty": 0.0}


@pytest.fixture(scope="module")
def epochs():
    """Six epochs of a process in which 0 acts on 1, 1 on 2 and 2 on 3, one step later."""
    rng = np.random.default_rng(0)
    x = np.zeros((6, 150, 4))
    for k in range(150):
        x[:, k] = rng.standard_normal((6, 4))
        if k:
            x[:, k, 1:] += 0.8 * x[:, k - 1, :-1]
    return x


@pytest.fixture(scope="module")
def array(epochs):
    xarray = pytest.importorskip("xarray")
    return xarray.DataArray(
        epochs.transpose(2, 0, 1),
        dims=("channel", "epoch", "time"),
        coords={"channel": list("abcd")},
    )


def test_rows_are_pairs_within_an_epoch(epochs):
    series = time_series(epochs, lag=[2, 1])
    assert series.lags == (0, 1, 2)
    assert series.signals.shape == (6 * 148, 12)
    assert np.bincount(series.epochs).tolist() == [148] * 6
    row = 148 + 5  # the second epoch at t = 7
    assert series.signals[row].tolist() == [*epochs[1, 7], *epochs[1, 6], *epochs[1, 5]]


def test_a_labelled_array_is_the_same_in_any_order(epochs, array):
    series = time_series(array, lag=1)
    assert series.nodes == tuple("abcd")
    assert list(series.signals.columns) == [*"abcd", *(f"{c} (t-1)" for c in "abcd")]
    assert np.array_equal(series.signals.to_numpy(), time_series(epochs, lag=1).signals)
    plain = time_series(array.isel(epoch=0))
    assert np.array_equal(plain.signals.to_numpy(), epochs[0])
    with pytest.raises(ValueError, match="one dimension called node"):
        time_series(array.rename(channel="depth"))


@pytest.mark.parametrize(
    ("X", "lag", "message"),
    [
        (np.zeros((2, 3, 4)), 3, "lag must be less than the 3 times"),
        (np.zeros((2, 3, 4)), -1, "lag must be an integer >= 0"),
        (np.zeros((2, 3, 4)), 0.5, "lag must be an integer >= 0"),
        (np.zeros(3), 0, "got shape"),
    ],
)
def test_bad_input_is_named(X, lag, message):
    with pytest.raises(ValueError, match=message):
        time_series(X, lag)


def test_ties_to_the_past_are_directed(array):
    series = time_series(array, lag=1)
    model = GeneralizedLaplacian().fit(series.signals)
    found = series.directed(model.weights_)
    assert found.directed
    heaviest = found.cut(n_edges=3).to_pandas()
    pairs = set(zip(heaviest["source"], heaviest["target"], strict=True))
    assert pairs == {("a", "b"), ("b", "c"), ("c", "d")}
    with pytest.raises(ValueError, match="a node for each of the 8 columns"):
        series.directed(Graph([(0, 1)], [1.0]))
    with pytest.raises(ValueError, match="make them with time_series"):
        time_series(array).directed(Graph([(0, 1)], [1.0], n_nodes=4))


def test_epochs_are_rows_of_a_fit_and_groups_of_its_folds(epochs):
    rows = epochs.reshape(-1, 4)
    one, other = GeneralizedLaplacian().fit(epochs), GeneralizedLaplacian().fit(rows)
    assert np.array_equal(one.precision_, other.precision_)
    groups = np.repeat(np.arange(6), 150)
    one, other = HeatCovariance().fit(epochs[:, :40]), HeatCovariance()
    other.fit(epochs[:, :40].reshape(-1, 4), groups=groups.reshape(6, 150)[:, :40].ravel())
    pd.testing.assert_frame_equal(one.selection_, other.selection_)


def test_learn_and_compare_take_epochs(array):
    model = heatgraph.learn(array.isel(time=slice(40)), model="gaussian", lag=1, **QUICK)
    assert model.graph_.names == (*"abcd", *(f"{c} (t-1)" for c in "abcd"))
    found = heatgraph.compare(array, ["GGL"], lag=1)
    # The past tells something of the present.
    assert found["GGL"].missed < 0.95
    assert found.n_signals == 6 * 149


def test_no_epoch_goes_on_in_the_next():
    """Joined end to end, the epochs would have a step from every end to the next start."""
    rng = np.random.default_rng(1)
    x = np.zeros((200, 5, 3))
    for k in range(5):
        x[:, k] = 0.3 * rng.standard_normal((200, 3)) + (k == 0) * rng.standard_normal((200, 3))
        if k:
            x[:, k, 1] += 0.9 * x[:, k - 1, 0]
    model = CausalGraphProcess(order=1, n_edges=1).fit(x)
    assert model.graph_.edges.tolist() == [[0, 1]]
    assert model.adjacency_[1, 0] == pytest.approx(0.9, abs=0.1)
    assert model.score(x) > 0.15
    joined = CausalGraphProcess(order=1, lam=0.0).fit(x.reshape(-1, 3))
    assert abs(joined.adjacency_[1, 0] - 0.9) > abs(model.adjacency_[1, 0] - 0.9)


@pytest.fixture(scope="module")
def two_graphs():
    return [make_graph("er", 8, random_state=seed) for seed in (0, 5)]


def test_sliding_graphs_follow_a_change(two_graphs):
    parts = [make_heat_signals(g, [1.0], 300, 8, 0.02, random_state=3)[0] for g in two_graphs]
    X = pd.DataFrame(np.concatenate(parts), columns=list("abcdefgh"))
    found = sliding_graphs(X, window=200, step=100, **QUICK)
    assert found.ends == (200, 300, 400, 500, 600)
    assert len(found) == 5
    to_first, to_second = (
        [edge_scores(graph, learned).f_measure for learned in found.graphs] for graph in two_graphs
    )
    assert to_first[0] > 0.9
    assert to_first[-1] < to_first[0]
    assert to_second[-1] > to_second[0]
    assert set(found.table.columns) == {"end", "source", "target", "weight"}
    assert len(found.table) == sum(graph.n_edges for graph in found.graphs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 40}, "window must be at most the 30 rows"),
        ({"window": 10, "step": 11}, "step must be at most the window"),
        ({"window": 10, "decay": 0.5}, "decay must be left out"),
    ],
)
def test_bad_windows_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        sliding_graphs(np.zeros((30, 4)), **options)


def test_rows_of_a_table_have_the_past_of_their_own_group():
    frame = pd.DataFrame({"a": np.arange(6.0), "b": 10.0 + np.arange(6.0)})
    groups = ["x", "y", "x", "y", "x", "y"]
    signals, left = with_epochs(frame, groups, 1)
    assert left.tolist() == ["x", "x", "y", "y"]
    assert signals["a"].tolist() == [2.0, 4.0, 3.0, 5.0]
    assert signals["a (t-1)"].tolist() == [0.0, 2.0, 1.0, 3.0]
    with pytest.raises(ValueError, match=r"one label per signal, \(6,\)"):
        with_epochs(frame, groups[:5], 1)
    with pytest.raises(
        ValueError, match="lag 3 needs more than 3 signals of each group, which x lacks"
    ):
        with_epochs(frame, groups, 3)


def test_groups_of_epochs_lose_the_rows_without_a_past(epochs):
    E, T, _ = epochs.shape
    given = np.arange(E * T)
    signals, left = with_epochs(epochs, given, 2)
    assert len(left) == len(signals)
    assert left.tolist() == given.reshape(E, T)[:, 2:].ravel().tolist()
