"""One setting for every test: reproducible arithmetic, no window, no deadline."""

from __future__ import annotations

import os

# One BLAS thread: sums in a fixed order, so results are the same at every run. Read when the
# libraries load, hence before anything imports numpy; subprocesses inherit it.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["MPLBACKEND"] = "Agg"

import numpy as np
import pytest
from hypothesis import settings

# No deadline: the first call of a compiled function includes its compilation.
# The examples are the same at every run, so that more of them would find nothing new.
settings.register_profile(
    "heatgraph", deadline=None, derandomize=True, print_blob=True, max_examples=40
)
settings.load_profile("heatgraph")


@pytest.fixture(scope="session")
def demo_folder(tmp_path_factory):
    """What ``heatgraph demo`` leaves; what it prints is in ``printed.txt`` beside it."""
    from typer.testing import CliRunner

    from heatgraph.cli.app import app

    folder = tmp_path_factory.mktemp("demo") / "out"
    done = CliRunner().invoke(app, ["demo", "--output", str(folder)])
    assert done.exit_code == 0, done.stderr
    (folder.parent / "printed.txt").write_text(done.stdout, encoding="utf-8")
    return folder


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator in the same state for every test."""
    return np.random.default_rng(20170723)
