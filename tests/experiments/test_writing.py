"""The folder of an outcome: complete, replaced with care, and legible to a machine."""

import json

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from heatgraph.experiments import Outcome, Settings, write_outcome
from heatgraph.experiments.writing import same_request


@pytest.fixture
def outcome():
    figure = Figure(figsize=(2, 2))
    figure.subplots().plot([1, 2])
    return Outcome(
        name="one",
        title="One",
        tables={"rows": pd.DataFrame({"a": [1, 2]})},
        numbers={"mean": np.float64(0.5), "nothing": float("nan"), "many": np.arange(2)},
        figures={"line": figure},
        page="# One",
    )


def test_everything_is_written(outcome, tmp_path):
    files = write_outcome(outcome, tmp_path / "one", settings=Settings(seed=3))
    names = {"line.png", "line.svg", "page.md", "results.json", "rows.csv"}
    assert {path.name for path in files} == names == {p.name for p in (tmp_path / "one").iterdir()}
    content = json.loads((tmp_path / "one" / "results.json").read_text())
    assert content["numbers"] == {"mean": 0.5, "nothing": None, "many": [0, 1]}
    assert content["asked"]["seed"] == 3
    assert pd.read_csv(tmp_path / "one" / "rows.csv")["a"].tolist() == [1, 2]


def test_the_same_outcome_gives_the_same_bytes(outcome, tmp_path):
    for name in ("a", "b"):
        write_outcome(outcome, tmp_path / name)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_replacing_keeps_what_is_not_ours(outcome, tmp_path):
    folder = tmp_path / "one"
    write_outcome(outcome, folder)
    (folder / "note.txt").write_text("mine")
    with pytest.raises(FileExistsError):
        write_outcome(outcome, folder)
    smaller = Outcome("one", "One", {}, {}, {}, "# One")
    write_outcome(smaller, folder, replace=True)
    assert {path.name for path in folder.iterdir()} == {"note.txt", "page.md", "results.json"}


def test_same_request(outcome, tmp_path):
    write_outcome(outcome, tmp_path / "one", settings=Settings(seed=3))
    assert same_request(tmp_path / "one", "one", Settings(seed=3, n_jobs=2))
    assert not same_request(tmp_path / "one", "one", Settings(seed=4))
    assert not same_request(tmp_path / "one", "two", Settings(seed=3))
    assert not same_request(tmp_path / "nowhere", "one", Settings())
