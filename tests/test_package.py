"""What the package promises as a whole: it imports, it builds, its rooms are in order."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def run(*arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of the files in a freshly built wheel."""
    folder = tmp_path_factory.mktemp("dist")
    # A folder of its own: tests of another process may build at the same time.
    run("-m", "build", "--wheel", "--outdir", folder, f"-Cbuild-dir={folder / 'objects'}")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_import_in_a_fresh_interpreter():
    run("-W", "error", "-c", "import heatgraph")


def test_version_has_one_source():
    assert version("heatgraph") == PROJECT["version"]


def test_console_script_is_declared():
    (script,) = entry_points(group="console_scripts", name="heatgraph")
    assert script.value == PROJECT["scripts"]["heatgraph"]


@pytest.mark.slow
def test_wheel_ships_the_compiled_core(wheel_names):
    assert any(name.startswith("heatgraph/kernels/_native_1.") for name in wheel_names)


@pytest.mark.slow
def test_wheel_ships_its_types(wheel_names):
    assert "heatgraph/py.typed" in wheel_names


@pytest.mark.slow
def test_wheel_ships_the_parts_of_the_page(wheel_names):
    parts = {"page.html", "report.css", "report.js", "signals.html"}
    assert {f"heatgraph/report/{part}" for part in parts} <= wheel_names


@pytest.mark.slow
def test_wheel_ships_the_grouping_of_zones(wheel_names):
    assert "heatgraph/datasets/data/new_york_29_zones.csv" in wheel_names


@pytest.mark.slow
def test_wheel_holds_the_package_and_nothing_else(wheel_names):
    metadata = f"heatgraph-{PROJECT['version']}.dist-info"
    assert {name.split("/")[0] for name in wheel_names} == {"heatgraph", metadata}
    assert not {name for name in wheel_names if Path(name).name.startswith("test_")}


def test_rooms_import_one_way(capsys):
    status = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert status == 0, capsys.readouterr().out


FITS = """
import hashlib, sys
import numpy as np
from heatgraph import LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
X, _ = make_heat_signals(make_graph("er", 8, 0), (2.5, 4), 20, noise_std=0.02, random_state=0)
holes = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
for data in (X, holes):
    model = LearnHeat(alpha=0.1, beta=0.05).fit(data)
    print(hashlib.sha256(model.laplacian_.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_the_same_bits_in_another_process_which_loads_no_compiler(capsys):
    exec(FITS, {})
    here = capsys.readouterr().out
    compilers = """print(sorted({"numba", "llvmlite"} & set(sys.modules)))"""
    assert run("-W", "ignore", "-c", FITS + compilers) == here + "[]\n"
