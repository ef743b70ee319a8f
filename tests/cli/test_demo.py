"""``heatgraph demo``, and what belongs to no command."""

import json
import subprocess
import sys

from heatgraph import __version__
from heatgraph.metrics import EdgeScores


def test_demo(run, tmp_path):
    out = tmp_path / "out"
    done = run("demo", "--output", out, "--json")
    summary = json.loads(done.stdout)
    assert summary["status"] == "converged"
    assert tuple(summary["scores"]) == EdgeScores._fields
    assert summary["scores"]["f_measure"] > 0.9
    assert summary["new_signals"]["share_located"] > 0.7
    assert len(summary["files"]) == len(list(out.iterdir())) == 14
    # What it suggests to try works.
    done = run("sources", out, out / "new_signals.csv")
    assert "20 signals on 20 nodes" in done.stderr


def test_demo_tells_where_to_look(run, tmp_path):
    done = run("demo", "--output", tmp_path / "out")
    assert "The true graph has" in done.stdout
    assert "graph.png" in done.stdout
    assert "heatgraph sources" in done.stdout
    assert "--force" in run("demo", "--output", tmp_path / "out", code=2).stderr


def test_version_and_help(run):
    assert run("--version").stdout == f"heatgraph {__version__}\n"
    help_text = run("--help").stdout
    for command in ("learn", "sources", "impute", "demo"):
        assert command in help_text
        assert "--json" in run(command, "--help").stdout


def test_module_runs():
    done = subprocess.run(
        [sys.executable, "-m", "heatgraph", "--version"], capture_output=True, text=True
    )
    assert done.stdout == f"heatgraph {__version__}\n"
