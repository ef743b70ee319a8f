"""``heatgraph impute``: gaps are filled, observed values are kept."""

import json

import numpy as np
import pandas as pd
import pytest

from heatgraph.storage import load_model


@pytest.fixture
def gappy(frame, tmp_path):
    """Signals with a day each and a fifth of their values hidden, and the mask."""
    hidden = np.random.default_rng(0).random(frame.shape) < 0.2
    table = frame.mask(hidden)
    table.insert(0, "day", [f"day {k}" for k in range(len(frame))])
    table.to_csv(tmp_path / "gaps.csv", index=False)
    return tmp_path / "gaps.csv", hidden


def test_what_is_missing_is_what_the_model_says(run, learned, frame, gappy, tmp_path):
    path, hidden = gappy
    out = tmp_path / "full.csv"
    summary = json.loads(run("impute", learned / "result", path, "-o", out, "--json").stdout)
    assert summary["n_filled"] == hidden.sum()
    filled = pd.read_csv(out)
    assert filled["signal"].tolist() == [f"day {k}" for k in range(len(frame))]
    values = filled[list(frame.columns)].to_numpy()
    np.testing.assert_array_equal(values[~hidden], frame.to_numpy()[~hidden])
    model = load_model(learned / "result" / "model.npz")
    expected = model.impute(frame.mask(hidden))
    np.testing.assert_allclose(values, expected, rtol=1e-12)


def test_it_is_said_how_well(run, learned, gappy, tmp_path):
    done = run("impute", learned / "result", gappy[0], "-o", tmp_path / "full.csv")
    assert "Filled" in done.stdout
    assert "of the energy" in done.stdout
    assert "warning" not in done.stderr


def test_an_earlier_result_is_kept(refused, run, learned, gappy, tmp_path):
    out = tmp_path / "full.csv"
    out.write_text("mine")
    assert "--force" in refused("impute", learned / "result", gappy[0], "-q", "-o", out)
    assert out.read_text() == "mine"
    run("impute", learned / "result", gappy[0], "-o", out, "--force")
    assert out.read_text() != "mine"


def test_unknown_nodes_are_refused(refused, learned, frame, tmp_path):
    frame.rename(columns={"oslo": "paris"}).to_csv(tmp_path / "other.csv", index=False)
    out = tmp_path / "full.csv"
    assert "'paris'" in refused("impute", learned / "result", tmp_path / "other.csv", "-o", out)
    assert not out.exists()
