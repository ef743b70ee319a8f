"""The Molene experiment, on a made table of the same form."""

import numpy as np
import pandas as pd
import pytest

from heatgraph.experiments import Settings, get_experiment
from heatgraph.experiments.molene import METHODS, treat


@pytest.fixture
def home(tmp_path):
    """Temperatures of 12 stations over 8 days: a level, a daily wave, and a front."""
    rng = np.random.default_rng(0)
    numbers = [22000001 + k for k in range(12)]
    hours = pd.date_range("2014-01-01", periods=192, freq="h")
    place = rng.uniform(0, 1, 12)
    wave = 2 * np.sin(2 * np.pi * np.arange(192) / 24)[:, None]
    front = np.sin(np.arange(192)[:, None] / 9 + 4 * place)
    table = pd.DataFrame(283 + wave + front + 0.1 * rng.standard_normal((192, 12)), columns=numbers)
    table.insert(0, "date", hours.strftime("%Y%m%d%H%M%S.0"))
    (tmp_path / "molene").mkdir()
    table.to_csv(tmp_path / "molene/molene_temperature_K_hourly_jan2014.csv", index=False)
    stations = [
        f"{n},STATION {n},48°{int(59 * x):02d}'00N,3°{k:02d}'00W"
        for k, (n, x) in enumerate(zip(numbers, place, strict=True))
    ]
    text = "\n".join(["Numéro,Nom,Latitude,Longitude", *stations, ""])
    (tmp_path / "molene/weather_stations.csv").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("treatment", "axes"), [("kelvin", ()), ("station", (0,)), ("hour", (0, 1)), ("change", (1,))]
)
def test_what_is_taken_away(rng, treatment, axes):
    T = 280 + rng.standard_normal((48, 5))
    X = treat(T, treatment)
    assert X.shape == ((45, 5) if treatment == "change" else (48, 5))
    for axis in axes:
        assert np.allclose(X.mean(axis=axis), 0.0)
    if not axes:
        assert X is T


@pytest.mark.slow
def test_run(home):
    outcome = get_experiment("molene").run(Settings(quick=True, data_home=home))
    table = outcome.tables["prediction"].set_index("method")
    assert list(table.index) == list(METHODS)
    # The front is smooth along the line of stations; the mean of the others does not know it.
    assert table.loc["regression, no graph", "rmse"] < 0.3
    assert table.loc["LearnHeat()", "missed"] < 0.9
    assert outcome.numbers["hour"]["n_edges"] > 0
