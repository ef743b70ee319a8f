"""A small table of signals, a result learned from it, and a way to run commands."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from heatgraph.cli.app import app
from heatgraph.datasets import make_graph, make_heat_signals

NAMES = ["oslo", "bergen", "Bodø", "moss", "voss", "røros"]
PNG = b"\x89PNG\r\n\x1a\n"  # what a picture starts with
SPARSE = ("--model", "sparse", "--no-intercept", "--tol", 1e-3)


def _run(*arguments, code=0):
    """Run a command in this process and return what it printed.

    `learn` writes no page unless asked to: the page has tests of its own, and takes a second.
    """
    given = [str(argument) for argument in arguments]
    if given[0] == "learn" and "--report" not in given:
        given.append("--no-report")
    done = CliRunner().invoke(app, given)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.stderr
    return done


def _refused(*arguments):
    """Run a command that must fail with one line, and return the line."""
    done = _run(*arguments, code=2)
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("heatgraph: error: ")
    return line


@pytest.fixture(autouse=True)
def blank_pictures(monkeypatch):
    """Save files without a picture, which takes longer to draw than all else that a command does.

    What is made once for all tests, `learned` and the demo, has its pictures.
    """

    def save(self, file, **how):
        if how.get("format") == "svg":
            file.write("<svg/>")
        elif hasattr(file, "write"):
            file.write(PNG)
        else:
            Path(file).write_bytes(PNG)

    monkeypatch.setattr(Figure, "savefig", save)


@pytest.fixture(scope="session")
def run():
    return _run


@pytest.fixture(scope="session")
def refused():
    return _refused


@pytest.fixture(scope="session")
def frame() -> pd.DataFrame:
    X, _ = make_heat_signals(make_graph("ring", 6, 0), [1.0, 3.0], 30, 2, 0.01, 0)
    return pd.DataFrame(X, columns=NAMES)


@pytest.fixture(scope="session")
def learned(frame, tmp_path_factory):
    """A folder with ``signals.csv`` and the ``result`` of learning from it."""
    folder = tmp_path_factory.mktemp("learned")
    frame.to_csv(folder / "signals.csv", index=False)
    _run("learn", folder / "signals.csv", "--output", folder / "result", *SPARSE)
    return folder


@pytest.fixture
def signals(frame, tmp_path):
    path = tmp_path / "signals.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def workers(monkeypatch):
    """Workers in threads of this process, for commands that would start some."""
    distributed = pytest.importorskip("distributed")

    @contextmanager
    def in_this_process(scheduler, n_workers, out):
        how = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
        with distributed.Client(processes=False, **how):
            yield

    monkeypatch.setattr("heatgraph.cli.learn.cluster", in_this_process)
