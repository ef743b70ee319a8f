"""Folds, groups, lags and kernels on the command line: what Python has, under the same names."""

import json

import numpy as np
import pandas as pd
import pytest

import heatgraph
from heatgraph import HeatCovariance
from heatgraph.storage import load_model

GIVEN = ("--model", "gaussian", "-q")


@pytest.fixture
def grouped(frame, tmp_path):
    """Signals of three subjects, in turn, and the file they are in."""
    subjects = np.array([f"s{k % 3}" for k in range(len(frame))])
    table = frame.copy()
    table.insert(2, "subject", subjects)
    table.to_csv(tmp_path / "grouped.csv", index=False)
    return tmp_path / "grouped.csv", subjects


def test_folds_and_groups_are_those_of_python(run, frame, grouped, tmp_path):
    path, subjects = grouped
    run("learn", path, "-o", tmp_path / "out", *GIVEN, "--groups", "subject", "--cv", 2)
    model = load_model(tmp_path / "out")
    same = heatgraph.learn(frame, model="gaussian", cv=2, groups=subjects)
    pd.testing.assert_frame_equal(model.selection_, same.selection_)
    assert not model.selection_.equals(HeatCovariance().fit(frame).selection_)
    assert model.graph_ == same.graph_


def test_a_kernel_reaches_the_model(run, frame, signals, tmp_path):
    run("learn", signals, "-o", tmp_path / "out", *GIVEN, "--kernel", "tikhonov")
    same = HeatCovariance(kernel="tikhonov").fit(frame)
    np.testing.assert_array_equal(load_model(tmp_path / "out").covariance_, same.covariance_)


def test_a_lag_is_one_within_a_group(run, frame, grouped, tmp_path):
    path, subjects = grouped
    given = ("--groups", "subject", "--lag", 1)
    done = run("learn", path, "-o", tmp_path / "out", *GIVEN[:-1], *given)
    assert "column 'subject' has 3 groups" in done.stderr
    assert "beside each are the values of lag 1" in done.stderr
    model = load_model(tmp_path / "out")
    assert model.graph_.names == (*frame.columns, *(f"{name} (t-1)" for name in frame.columns))
    assert model.n_signals_ == len(frame) - 3
    same = heatgraph.learn(frame, model="gaussian", groups=subjects, lag=1)
    assert model.graph_ == same.graph_
    directed = pd.read_csv(tmp_path / "out" / "directed.csv")
    across = [
        (one.removesuffix(" (t-1)"), other)
        for pair in model.graph_.to_pandas()[["source", "target"]].to_numpy().tolist()
        for one, other in (pair, pair[::-1])
        if one.endswith("(t-1)") and not other.endswith("(t-1)") and one != f"{other} (t-1)"
    ]
    assert sorted(zip(directed["source"], directed["target"], strict=True)) == sorted(across)


@pytest.mark.slow
def test_a_comparison_takes_them_too(run, frame, grouped, tmp_path):
    path, subjects = grouped
    given = ("--methods", "HeatCovariance,LedoitWolf", "--no-report", "--json")
    options = ("--groups", "subject", "--cv", 2, "--lag", 1)
    done = run("compare", path, "-o", tmp_path / "out", *given, *options)
    told = {row["name"]: row["missed"] for row in json.loads(done.stdout)["methods"]}
    methods = ["HeatCovariance", "LedoitWolf"]
    same = heatgraph.compare(frame, methods, cv=2, groups=subjects, lag=1)
    for name in methods:
        assert told[name] == pytest.approx(same[name].missed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--groups", "patient"], "has no column 'patient' for --groups; it has 'oslo'"),
        (["--groups", "subject", "--transpose"], "--groups names a column"),
        (["--groups", "subject", "--method", "smooth"], "--groups has no meaning with --method"),
        (["--lag", "often"], "--lag must be a number of steps, or several such as 1,2; got"),
        (["--lag", "40", "--groups", "subject"], "lag 40 needs more than 40 signals of each group"),
        (
            ["--lag", "1", "--coordinates", "x.csv"],
            "--lag and --coordinates cannot be given together",
        ),
        (["--cv", "1", "--groups", "subject"], "--cv must be an integer >= 2"),
        (["--kernel", "cold", "--groups", "subject"], "--kernel must be one of 'heat'"),
    ],
)
def test_what_cannot_be_is_refused(refused, grouped, tmp_path, options, message):
    assert message in refused("learn", grouped[0], "-q", "-o", tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()


def test_an_empty_cell_is_no_group(refused, frame, tmp_path):
    frame.assign(subject=["a", "", *["b"] * (len(frame) - 2)]).to_csv(tmp_path / "s.csv")
    line = refused("learn", tmp_path / "s.csv", "-q", "-o", tmp_path / "o", "--groups", "subject")
    assert "line 3: --groups: the cell is empty" in line
