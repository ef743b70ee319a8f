"""``heatgraph compare``: a table, a verdict, files; and what it refuses."""

import json

import pandas as pd
import pytest

import heatgraph.cli.compare as command
from heatgraph.datasets import make_graph

QUICK = "ggl, HeatFilter,LedoitWolf"


@pytest.fixture
def edges(frame, tmp_path):
    ring = make_graph("ring", 6, 0)
    table = ring.to_pandas()
    for end in ("source", "target"):
        table[end] = [frame.columns[k] for k in table[end]]
    table.to_csv(tmp_path / "edges.csv", index=False)
    return tmp_path / "edges.csv"


@pytest.fixture
def blank_pictures():
    """Draw the pictures here."""


def test_files_and_summary(run, signals, edges, tmp_path):
    out = tmp_path / "out"
    done = run("compare", signals, "-o", out, "--truth", edges, "--methods", QUICK, "--json")
    told = json.loads(done.stdout)
    assert told["command"] == "compare"
    assert {row["name"] for row in told["methods"]} == {"GGL", "HeatFilter", "LedoitWolf", "mean"}
    assert told["verdict"].startswith(f"{told['best']} predicts best")
    names = {path.name for path in out.iterdir()}
    expected = {"comparison.csv", "comparison.json", "graphs.csv", "graphs.png", "report.html"}
    assert names == expected
    assert told["verdict"][:20] in (out / "report.html").read_text(encoding="utf-8")
    table = pd.read_csv(out / "comparison.csv", index_col="name")
    assert 0.0 <= table.loc["GGL", "average_precision"] <= 1.0
    assert (out / "graphs.png").stat().st_size > 5000


def test_a_reader_gets_a_table_and_the_verdict(run, signals, tmp_path):
    done = run("compare", signals, "-o", tmp_path / "out", "--methods", QUICK, "--no-report")
    assert not (tmp_path / "out" / "report.html").exists()
    assert any(line.split()[:1] == ["HeatFilter"] for line in done.stdout.splitlines())
    assert "missed" in done.stdout
    assert "predicts best" in done.stdout
    assert "Open in a browser" not in done.stdout
    again = run("compare", signals, "-o", tmp_path / "out", "--methods", "ggl", "--force")
    assert "LedoitWolf" not in again.stdout
    assert f"Open in a browser: {(tmp_path / 'out' / 'report.html').as_uri()}" in again.stdout


def test_ctrl_c_keeps_what_is_done(run, signals, tmp_path, monkeypatch):
    whole = command.compare_methods

    def stopped(X, chosen, *rest):
        return whole(X, {"GGL": "ggl", "never": _Stopped()}, *rest)

    monkeypatch.setattr(command, "compare_methods", stopped)
    done = run("compare", signals, "-o", tmp_path / "out", "--methods", "ggl", code=130)
    assert "Stopped by the user" in done.stdout
    assert (tmp_path / "out" / "comparison.csv").exists()


class _Stopped:
    def __sklearn_clone__(self):
        return self

    def get_params(self):
        return {}

    def fit(self, X):
        raise KeyboardInterrupt


def test_bad_options_are_named(refused, signals, edges, tmp_path):
    out = tmp_path / "out"
    assert "--methods: 'magic' is none of" in refused(
        "compare", signals, "-o", out, "--methods", "magic"
    )
    assert "--cv must be an integer >= 2" in refused("compare", signals, "-o", out, "--cv", 1)
    assert "--jobs must be" in refused("compare", signals, "-o", out, "--jobs", 0)
    edges.write_text("source,target\noslo,paris\n")
    assert "'paris' is not a node" in refused("compare", signals, "-o", out, "--truth", edges)
    assert not out.exists()
