"""``heatgraph demo``, and what belongs to no command."""

import inspect
import json
import subprocess
import sys
from importlib import import_module

import pytest

from heatgraph import __version__
from heatgraph.cli import main
from heatgraph.cli.app import COMMANDS
from heatgraph.cli.demo import tour
from heatgraph.metrics import EdgeScores


def test_demo(run, demo_folder):
    out = demo_folder
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["status"] == "converged"
    assert tuple(summary["scores"]) == EdgeScores._fields
    assert summary["scores"]["f_measure"] > 0.9
    assert summary["new_signals"]["share_located"] > 0.7
    assert len(summary["files"]) == len(list(out.iterdir())) == 18
    # What it suggests to try works.
    done = run("sources", out, out / "new_signals.csv")
    assert "20 signals on 20 nodes" in done.stderr
    done = run("impute", out, out / "gaps.csv", "--output", out.parent / "filled.csv", "--json")
    assert json.loads(done.stdout)["n_filled"] > 20
    assert json.loads(done.stdout)["predicted"] > 0.3


def test_demo_tells_where_to_look(run, demo_folder):
    printed = (demo_folder.parent / "printed.txt").read_text(encoding="utf-8")
    assert "The true graph has" in printed
    assert "graph.png" in printed
    assert printed.splitlines()[-1].endswith((demo_folder / "report.html").as_uri())
    assert "heatgraph sources" in printed
    assert "--force" in run("demo", "--output", demo_folder, code=2).stderr


def test_the_tour_names_the_page_only_where_it_is(tmp_path):
    def shown():
        return [row for part in tour(tmp_path) if hasattr(part, "columns")
                for row in part.columns[0].cells]  # fmt: skip

    assert "report.html" not in map(str, shown())
    (tmp_path / "report.html").touch()
    assert "report.html" in map(str, shown())


def test_version_and_help(run):
    assert run("--version").stdout == f"heatgraph {__version__}\n"
    help_text = run("--help").stdout
    for command in ("learn", "sources", "impute", "report", "demo"):
        assert command in help_text
        assert "--json" in run(command, "--help").stdout


def test_module_runs():
    done = subprocess.run(
        [sys.executable, "-m", "heatgraph", "--version"], capture_output=True, text=True
    )
    assert done.stdout == f"heatgraph {__version__}\n"


def test_help_is_that_of_the_commands(run):
    for name, text in COMMANDS.items():
        function = getattr(import_module(f"heatgraph.cli.{name}"), name)
        assert inspect.getdoc(function).splitlines()[0] == text
        assert name in run("--help").stdout


def test_answers_without_loading_the_libraries():
    script = (
        "import sys, heatgraph.cli\n"
        "sys.argv = ['heatgraph', sys.argv[1]]\n"
        "try:\n    heatgraph.cli.main()\n"
        "except SystemExit:\n    pass\n"
        "print(sorted({'numpy', 'scipy', 'sklearn', 'matplotlib'} & set(sys.modules)))"
    )
    for option in ("--version", "--help"):
        done = subprocess.run(
            [sys.executable, "-c", script, option], capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-1] == "[]", done.stdout


def test_ctrl_c_while_it_loads_is_one_line(capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("heatgraph.cli.app.app", interrupted)
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 130
    assert capsys.readouterr().err == "heatgraph: stopped; nothing was written\n"


def test_ctrl_c_while_a_command_loads(run, monkeypatch):
    def interrupted(name):
        raise KeyboardInterrupt

    monkeypatch.setattr("heatgraph.cli.app.import_module", interrupted)
    assert "Traceback" not in run("learn", "signals.csv", code=130).output
