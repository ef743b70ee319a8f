"""The ETEX experiment, on a made table of the same form."""

import numpy as np
import pandas as pd
import pytest

from heatgraph.datasets import neighbour_graph
from heatgraph.experiments import Settings, get_experiment
from heatgraph.experiments.etex_fits import FIXED, VARIANTS, learn, predict_split, whole
from heatgraph.kernels.eigen import DenseHeat


@pytest.fixture
def home(tmp_path):
    """A cloud that diffuses on the graph of the nearest of 14 stations, with gaps."""
    rng = np.random.default_rng(0)
    codes = ["F21", *(f"F{k:02d}" for k in range(1, 9)), *(f"D{k:02d}" for k in range(1, 6))]
    places = np.column_stack([rng.uniform(-2, 10, 14), rng.uniform(46, 54, 14)])
    kernel = DenseHeat.from_laplacian(neighbour_graph(places, 3).laplacian().toarray())
    start = np.zeros((18, 14))
    start[np.arange(18), rng.integers(0, 14, 18)] = 3.0
    X = start @ kernel.operator(3.0)
    X[rng.random(X.shape) < 0.2] = np.nan
    times = pd.date_range("1994-10-23 15:00", periods=18, freq="3h")
    table = pd.DataFrame(X.T, codes, times.strftime("%Y-%m-%dT%H:%MZ")).rename_axis("code")
    stations = pd.DataFrame(places, codes, ["lon", "lat"]).assign(name=codes).rename_axis("code")
    (tmp_path / "etex").mkdir()
    table.to_csv(tmp_path / "etex" / "etex1_pmch_ng_m3.csv")
    stations.to_csv(tmp_path / "etex" / "etex1_stations.csv")
    return tmp_path


def missed(results, name):
    error, energy = results[name]
    return sum(error) / sum(energy)


@pytest.mark.parametrize("protocol", ["entries", "steps", "blocks"])
def test_a_split_scores_every_method_on_the_same_entries(home, protocol):
    results = predict_split(str(home), "", protocol, 0, False, 0)
    assert set(results) == {*FIXED, *VARIANTS}
    if protocol == "entries":  # heat on a graph of neighbours is foretold on one
        assert missed(results, "geographic graph, tau 3") < missed(results, "mean of the station")
    energies = {tuple(energy) for _, energy in results.values()}
    assert len(energies) == 1
    touched = np.flatnonzero(next(iter(energies)))
    X = whole(str(home)).signals.to_numpy()
    if protocol == "steps":
        assert touched.tolist() == [0, 5, 10, 15]
    if protocol == "blocks":
        assert touched.tolist() == [0, 1, 2, 3]
    if protocol != "entries":
        expected = np.nansum(X[touched] ** 2, axis=1)
        assert np.array(next(iter(energies)))[touched] == pytest.approx(expected)


def test_roots_are_scored_on_both_scales(home):
    results = predict_split(str(home), "", "steps", 1, True, 0)
    name = "mean of the stations near"
    assert {name, f"{name} | squared back"} <= set(results)
    assert sum(results[name][1]) != pytest.approx(sum(results[f"{name} | squared back"][1]))


def test_a_fold_is_not_learned_from(home):
    all_steps, others = learn(str(home), "", None, 0), learn(str(home), "", 1, 0)
    assert all_steps["weights"] != others["weights"]
    assert learn(str(home), "", 1, 0) == others


@pytest.mark.slow
def test_run(home):
    outcome = get_experiment("etex").run(Settings(quick=True, data_home=home))
    assert set(outcome.figures) == {"figure6", "figure7", "prediction"}
    assert len(outcome.tables["prediction"]) == 3 * 3 * (len(FIXED) + len(VARIANTS))
    curves = outcome.tables["approximation"]
    assert (curves.drop(columns="atoms").diff().dropna() <= 1e-9).all(axis=None)
    assert "hidden entries" in outcome.page.lower()
