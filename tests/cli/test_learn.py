"""``heatgraph learn`` from a table to a folder."""

import csv
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators import HeatCovariance, LearnHeat
from heatgraph.graph import Graph
from heatgraph.models.heat import HeatObjective
from heatgraph.storage import load_model

PENALTIES = ("--alpha", 0.05, "--beta", 0.05)  # to choose them takes seconds
SPARSE = ("--model", "sparse", "--no-intercept")

FILES = {
    "convergence.png",
    "edges.csv",
    "graph.graphml",
    "graph.png",
    "model.npz",
    "selection.csv",
    "selection.png",
    "sources.csv",
    "stretches.csv",
    "stretches.png",
    "summary.json",
}
CHOICE = {"selection.csv", "selection.png", "stretches.csv", "stretches.png"}


def test_the_folder_holds_the_result(learned, frame):
    folder = learned / "result"
    assert {path.name for path in folder.iterdir()} == FILES
    model = load_model(folder / "model.npz")
    direct = LearnHeat(tol=1e-3).fit(frame)
    assert model.graph_ == direct.graph_
    assert Graph.load(folder / "graph.graphml") == model.graph_
    with open(folder / "edges.csv", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == model.graph_.n_edges
    with open(folder / "sources.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == np.count_nonzero(model.sources_)
    row = rows[0]
    s = model.scales_.tolist().index(float(row["scale"]))
    value = model.sources_[int(row["signal"]), s, frame.columns.get_loc(row["node"])]
    assert float(row["strength"]) == value
    for picture in ("graph.png", "convergence.png"):
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    assert os.listdir(learned).count("result") == 1
    assert len(os.listdir(learned)) == 2


def test_what_is_printed(run, signals, tmp_path):
    done = run("learn", signals, "--output", tmp_path / "out", *SPARSE, *PENALTIES)
    assert "Learned a graph of 6 nodes and" in done.stdout
    assert "Status: converged" in done.stdout
    assert "The fit settled within its tolerance." in done.stdout
    assert "Open in a browser" not in done.stdout
    assert "strongest edges" in done.stdout
    heat = np.abs(load_model(tmp_path / "out").sources_).sum(axis=(0, 2))
    for share in heat / heat.sum():
        assert f"({share:.0%} of the heat)" in done.stdout
    assert str(tmp_path / "out") in done.stdout.replace("\n", "")
    assert "30 signals on 6 nodes" in done.stderr
    done = run("learn", signals, "--output", tmp_path / "quiet", "--quiet", *PENALTIES)
    assert done.stderr == ""


def test_a_second_scale_of_little_heat_is_warned_of(run, tmp_path):
    X, _ = make_heat_signals(make_graph("er", 8, 3), [2.0], 60, 1, 0.02, random_state=3)
    pd.DataFrame(X).add_prefix("n").to_csv(tmp_path / "s.csv", index=False)
    fit = ("learn", tmp_path / "s.csv", *SPARSE, "--tol", 1e-3, "--alpha", 0.1, "--beta", 0.1)
    done = run(*fit, "-o", tmp_path / "two")
    (warning,) = json.loads((tmp_path / "two" / "summary.json").read_text())["warnings"]
    assert "has 0% of the heat, and may be one too many: --n-scales 1 learns" in warning
    assert warning in done.stderr
    assert "one too many" not in run(*fit, "-o", tmp_path / "one", "--n-scales", 1).stderr


def test_json_is_all_of_standard_output(run, signals, tmp_path):
    done = run("learn", signals, "--output", tmp_path / "out", *SPARSE, "--json", "--max-iter", 1)
    summary = json.loads(done.stdout)
    assert summary["command"] == "learn"
    assert (summary["model"], summary["comparison"]) == ("sparse", None)
    assert summary["warnings"] == []
    assert summary["status"] == "max_iter"
    assert "raise" in summary["advice"]
    assert (summary["n_nodes"], summary["n_signals"]) == (6, 30)
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == summary
    assert all(os.path.exists(path) for path in summary["files"])
    assert len(summary["files"]) == len(FILES)


def test_options_reach_the_estimator(run, signals, tmp_path):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("from,to\noslo,bergen\nbergen,Bodø\nmoss,voss\n", encoding="utf-8")
    options = ["--alpha", "0.1", "--beta", "auto", "--scales", "1,2.5,4", "--hold-scales"]
    options += ["--atoms", "raw", "--solver", "dense", "--n-edges", "2", "--max-iter", "7"]
    options += ["--tol", "0.001", "--seed", "3", "--jobs", "1", "--candidates", pairs]
    run("learn", signals, "--output", tmp_path / "out", *options)
    model = load_model(tmp_path / "out" / "model.npz")
    expected = {
        "n_scales": 3,
        "alpha": 0.1,
        "beta": "auto",
        "scales": (1.0, 2.5, 4.0),
        "learn_scales": False,
        "atoms": "raw",
        "solver": "dense",
        "n_edges": 2,
        "max_iter": 7,
        "tol": 0.001,
        "random_state": 3,
        "n_jobs": 1,
        "candidates": [("oslo", "bergen"), ("bergen", "Bodø"), ("moss", "voss")],
    }
    assert expected.items() <= model.get_params().items()
    assert model.graph_.n_edges == 2
    assert model.weights_.n_edges <= 3


def test_npy_and_neighbours(run, frame, tmp_path):
    np.save(tmp_path / "s.npy", frame.to_numpy())
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("0,1\n1,2\n")
    for k, candidates in enumerate(["2", pairs]):
        out = tmp_path / f"out{k}"
        given = ("--candidates", candidates, "--model", "gaussian")
        run("learn", tmp_path / "s.npy", "-o", out, *given)
        assert load_model(out / "model.npz").graph_.names is None


def test_missing_values_are_allowed(run, frame, tmp_path):
    gaps = frame.copy()
    gaps.iloc[::5, 2] = np.nan
    gaps.to_csv(tmp_path / "s.csv", index=False)
    done = run("learn", tmp_path / "s.csv", "-o", tmp_path / "out", *SPARSE, *PENALTIES)
    assert "6 of 180 values are missing" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--alpha", "much"], '--alpha must be a number >= 0 or "auto"'),
        (["--beta", "-1"], "--beta must be"),
        (["--scales", "2.5;4"], "--scales must be numbers separated by commas"),
        (["--scales", "2.5,4", "--n-scales", "3"], "--scales has 2 values but n_scales is 3"),
        (["--hold-scales"], "--scales must be given to be held"),
        (["--atoms", "heavy"], "--atoms must be one of"),
        (["--solver", "magic"], "--solver must be one of"),
        (["--solver", "paper", "--model", "sparse"], '--atoms must be "raw"'),
        (["--jobs", "0"], "--jobs must be a number of threads"),
        (["--n-edges", "0"], "--n-edges must be"),
        (["--candidates", "nowhere.csv"], "a number of neighbours or a CSV file of pairs"),
        (["--index-column", "nowhere"], "no column 'nowhere'"),
        (["--decimal", "x"], "--decimal must be a point or a comma"),
    ],
)
def test_bad_options(refused, signals, tmp_path, options, message):
    before = set(tmp_path.iterdir())
    assert message in refused("learn", signals, "--output", tmp_path / "out", "-q", *options)
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,inf\n", "column 'b': signal '0' is infinite"),
        ("a,b\n1,cold\n", "line 2, column 'b': 'cold' is not a number"),
        ("a,a\n1,2\n", "'a'; every node needs a name of its own"),
        ("a,b\n0,0\n0,0\n", "holds no signal"),
        ("", "is empty"),
    ],
)
def test_bad_signals(refused, tmp_path, text, message):
    path = tmp_path / "s.csv"
    path.write_text(text)
    assert message in refused("learn", path, "--output", tmp_path / "out", "-q")
    assert list(tmp_path.iterdir()) == [path]


def test_missing_signals(refused, tmp_path):
    line = refused("learn", tmp_path / "no.csv", "--output", tmp_path / "out")
    assert "no.csv: No such file or directory" in line


def forbid_fit(monkeypatch):
    for kind in (LearnHeat, HeatCovariance):
        monkeypatch.setattr(kind, "fit", lambda *a, **k: pytest.fail("fitted"))


def test_a_bad_output_is_said_before_the_fit(refused, signals, tmp_path, monkeypatch):
    forbid_fit(monkeypatch)
    assert "a file has that name" in refused("learn", signals, "--output", signals)
    assert "there is no folder" in refused("learn", signals, "--output", signals / "out")
    monkeypatch.chdir(tmp_path)
    assert "as a whole" in refused("learn", signals, "--output", ".", "--force")


def test_missing_parents_are_made_for_a_result_only(run, refused, signals, tmp_path):
    out = tmp_path / "a" / "b" / "out"
    refused("learn", signals, "-q", "-o", out, "--index-column", "nowhere")
    assert not (tmp_path / "a").exists()
    run("learn", signals, "-o", out, "--tol", 1e-2, "--alpha", 0.05, "--beta", 0.01)
    assert (out / "model.npz").exists()


def test_a_full_folder_is_replaced_only_by_force(refused, run, signals, tmp_path, monkeypatch):
    out = tmp_path / "out"
    run("learn", signals, "--output", out, "--tol", 1e-2, *PENALTIES)
    (out / "notes.txt").write_text("mine")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert "--force" in refused("learn", signals, "--output", out)

    with monkeypatch.context() as patch:
        patch.setattr("heatgraph.cli.result_folder.write_sources", fail)
        again = ("learn", signals, "--output", out, "--force", "-q", *PENALTIES)
        assert "disk full" in refused(*again)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert {path.name for path in tmp_path.iterdir()} == {"out", "signals.csv"}

    run("learn", signals, "--output", out, "--force", "--max-iter", 1, *PENALTIES)
    assert json.loads((out / "summary.json").read_text())["status"] == "max_iter"
    assert (out / "notes.txt").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"out", "signals.csv"}


def fail(*args):
    raise OSError("disk full")


def test_a_picture_that_fails_loses_nothing(run, signals, tmp_path, monkeypatch):
    def cannot(*args, **kwargs):
        raise RuntimeError("no ink")

    monkeypatch.setattr("heatgraph.cli.result_folder.plot_graph", cannot)
    done = run("learn", signals, "--output", tmp_path / "out", *SPARSE, *PENALTIES)
    assert "graph.png could not be drawn (no ink)" in done.stderr
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert "graph.png could not be drawn (no ink)" in summary["warnings"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES - CHOICE - {"graph.png"}


def test_warnings_are_one_line_each(run, signals, tmp_path):
    options = ["--atoms", "raw", "--alpha", "0.01", "--beta", "0.01", "--max-iter", "200"]
    done = run("learn", signals, "--output", tmp_path / "out", "-q", *options)
    for line in done.stderr.splitlines():
        assert line.startswith("heatgraph: warning: ")
        assert "iteration limit" not in line


def test_debug_shows_the_traceback(run, tmp_path):
    with pytest.raises(FileNotFoundError):
        run("learn", tmp_path / "no.csv", "--output", tmp_path / "out", "--debug")


# The command in a process of its own, which says when it is in the middle of a fit.
# What runs in the background is started with interrupts ignored, and its children too.
SLOW = """
import signal, sys, time
from contextlib import contextmanager
from heatgraph.cli import console, main
from heatgraph.estimators import progress

signal.signal(signal.SIGINT, signal.default_int_handler)

def tell(now):
    print("iteration", now.iteration, file=sys.stderr, flush=True)
    time.sleep(0.2 if now.iteration >= 2 else 0.0)

@contextmanager
def bars(tol=None):
    yield progress.Watch(tell, None)

progress.progress_bars = bars
console.Output.shows_progress = True
main()
"""


def interrupted_run(arguments):
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        if line.startswith("iteration 2"):
            break
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    return process.returncode, stdout, stderr


@pytest.mark.skipif(os.name != "posix", reason="POSIX signals")
def test_ctrl_c_keeps_the_best_so_far(signals, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "model.npz").write_text("old")
    arguments = ["learn", signals, "--output", out, "--force", "--tol", 0, "--json", "--no-report"]
    arguments += [*SPARSE, *PENALTIES]
    code, stdout, stderr = interrupted_run(arguments)
    assert code == 130, stderr
    assert "Traceback" not in stderr
    summary = json.loads(stdout)
    assert summary["status"] == "interrupted"
    assert 2 <= summary["n_iter"] < 20
    model = load_model(out / "model.npz")
    assert model.status_ == "interrupted"
    assert {path.name for path in out.iterdir()} == FILES - CHOICE
    assert {path.name for path in tmp_path.iterdir()} == {"out", "signals.csv"}


@pytest.mark.slow  # that a folder survives a kill has a faster test of its own
@pytest.mark.skipif(os.name != "posix", reason="POSIX signals")
def test_killed_in_the_middle_leaves_the_old_result(run, signals, tmp_path):
    out = tmp_path / "out"
    run("learn", signals, "--output", out, "--tol", 1e-2, *PENALTIES)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            SLOW,
            "learn",
            str(signals),
            "--output",
            str(out),
            "--force",
            *map(str, (*SPARSE, *PENALTIES)),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        if line.startswith("iteration 2"):
            break
    process.kill()
    process.communicate()
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


class TestCheckpoint:
    def test_is_there_until_the_results_are(self, run, signals, tmp_path, monkeypatch):
        checkpoint, output = tmp_path / "fit", tmp_path / "result"

        def full(*args):
            raise OSError(28, "No space left on device", "sources.csv")

        given = ("learn", signals, "-o", output, "--checkpoint", checkpoint, *SPARSE, *PENALTIES)
        with monkeypatch.context() as patched:
            patched.setattr("heatgraph.cli.learn.write_fit", full)
            done = run(*given, code=2)
        assert "No space left" in done.stderr
        assert checkpoint.exists()
        assert not output.exists()
        run(*given)
        assert not checkpoint.exists()
        assert (output / "model.npz").exists()

    def test_ctrl_c_while_parameters_are_chosen_says_how_to_go_on(
        self, run, signals, tmp_path, monkeypatch
    ):
        checkpoint, output = tmp_path / "fit", tmp_path / "result"
        evaluate, calls = HeatObjective.evaluate, []

        def stopped(*args):
            calls.append(1)
            if len(calls) == 400:  # the first alpha is done
                raise KeyboardInterrupt
            return evaluate(*args)

        given = ("learn", signals, "-o", output, "--checkpoint", checkpoint, "--beta", 0.1)
        monkeypatch.setattr(HeatObjective, "evaluate", stopped)
        done = run(*given, code=130)
        assert f"{checkpoint} is kept: the same command with --force goes on" in done.stderr
        assert load_model(output).status_ == "interrupted"
        run(*given, "--force")
        assert not checkpoint.exists()
        assert load_model(output).status_ == "converged"

    def test_ctrl_c_before_anything_was_tried_says_so(self, run, signals, tmp_path, monkeypatch):
        def stopped(*args):
            raise KeyboardInterrupt

        output = tmp_path / "result"
        monkeypatch.setattr(HeatObjective, "evaluate", stopped)
        done = run("learn", signals, "-q", "-o", output, "--model", "sparse", code=130)
        (line,) = done.stderr.splitlines()
        assert "stopped before there was a graph, and nothing was written" in line
        assert "--checkpoint" in line
        assert not output.exists()

    def test_of_another_fit_is_refused(self, run, refused, signals, tmp_path, monkeypatch):
        checkpoint = tmp_path / "fit"
        given = ("learn", signals, "-o", tmp_path / "result", "-q", "--checkpoint", checkpoint)
        given += ("--model", "gaussian")
        with monkeypatch.context() as patched:
            patched.setattr("heatgraph.cli.learn.write_fit", lambda *args: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                run(*given, "--tol", 1e-3)
        line = refused(*given, "--tol", 1e-2)
        assert "belongs to another fit: tol is 0.01, in the file 0.001" in line
        assert not (tmp_path / "result").exists()

    def test_a_file_of_data_is_no_checkpoint(self, refused, signals, tmp_path):
        before = signals.read_bytes()
        given = ("-q", "--checkpoint", signals, *SPARSE)
        line = refused("learn", signals, "-o", tmp_path / "out", *given)
        assert "--checkpoint:" in line
        assert "is not a checkpoint; name another file" in line
        assert signals.read_bytes() == before


class TestCluster:
    def test_several_files_are_fitted_by_workers(self, run, frame, tmp_path, workers):
        frame.to_csv(tmp_path / "signals.csv", index=False)
        for k, rows in enumerate((frame[:20], frame[20:])):
            rows.to_parquet(tmp_path / f"{k}.parquet")
        given = ("--alpha", 0.1, "--beta", 0.1, "--no-intercept", "--tol", 1e-2)
        given += ("--json", "-q", "-o")
        here = run("learn", tmp_path / "signals.csv", *given, tmp_path / "here")
        there = run(
            "learn", tmp_path / "0.parquet", tmp_path / "1.parquet", *given, tmp_path / "there"
        )
        one, other = (json.loads(done.stdout) for done in (here, there))
        assert other["n_signals"] == len(frame)
        assert other["objective"] == pytest.approx(one["objective"], rel=1e-10)
        assert other["strongest_edges"][0]["source"] == one["strongest_edges"][0]["source"]
        assert not (tmp_path / "there" / "sources.csv").exists()
        assert (tmp_path / "there" / "model.npz").exists()
        for k, rows in enumerate((frame[:20], frame[20:])):
            days = [f"day {m}" for m in rows.index]
            labelled = rows.assign(day=days)[["day", *frame.columns]]
            labelled.to_parquet(tmp_path / f"{k}.parquet", index=False)
        done = run(
            *("learn", tmp_path / "0.parquet", tmp_path / "1.parquet", "-o", tmp_path / "days"),
            *("--alpha", 0.1, "--beta", 0.1, "--tol", 1e-2),
        )
        assert "column 'day' labels the signals" in done.stderr
        assert "2 Parquet files on 6 nodes" in done.stderr
        assert "There is no sources.csv and no report.html" in done.stdout

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("a.parquet", "b.parquet", "--method", "smooth"), "needs its signals in a single"),
            (("a.parquet", "b.parquet", "--transpose"), "--transpose needs"),
            (("0.parquet", "a.parquet"), "leave it out (--index-column oslo)"),
            (("a.parquet", "signals.csv"), "have to be Parquet"),
            (("no-*.parquet",), "no-*.parquet matches no Parquet files"),
            (("empty",), "the folder empty has no Parquet files, which end in .parquet"),
            (("result",), "result holds results, not signals"),
        ],
    )
    def test_what_does_not_serve_is_said_before_workers_start(
        self, refused, frame, tmp_path, monkeypatch, arguments, message
    ):
        monkeypatch.setattr("heatgraph.cli.learn.cluster", lambda *args: pytest.fail("started"))
        monkeypatch.chdir(tmp_path)
        (tmp_path / "empty").mkdir()
        (tmp_path / "result").mkdir()
        (tmp_path / "result" / "model.npz").touch()
        frame.to_parquet("a.parquet")
        frame.to_parquet("b.parquet")
        frame.assign(oslo="x").to_parquet("0.parquet")
        frame.to_csv("signals.csv")
        assert message in refused("learn", *arguments, "-q", "-o", "out")

    def test_without_dask_it_says_so(self, refused, signals, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "distributed", None)
        line = refused("learn", signals, "-q", "-o", tmp_path / "out", "--scheduler", "tcp://x:1")
        assert 'pip install "heatgraph[dask]"' in line
