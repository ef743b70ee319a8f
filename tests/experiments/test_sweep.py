"""Cells: computed once, kept, found again, and the same on any number of processes."""

import json

import numpy as np
import pytest

from heatgraph.experiments import Settings
from heatgraph.experiments.sweep import cell_key, sweep


def draw(seed, size):
    return {"values": np.random.default_rng([seed, size]).standard_normal(size)}


def fail_at(number, at, log):
    """Write down that it ran; stop the sweep at one cell."""
    if number == at:
        raise KeyboardInterrupt
    with open(log, "a") as file:
        file.write(f"{number}\n")
    return {"number": number}


CELLS = [{"seed": seed, "size": 3} for seed in range(5)]


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_same_numbers_for_any_number_of_jobs(backend):
    one = sweep(draw, CELLS, Settings())
    two = sweep(draw, CELLS, Settings(n_jobs=2, backend=backend))
    assert one == two
    assert one[1]["values"] == np.random.default_rng([1, 3]).standard_normal(3).tolist()


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path):
    settings = Settings(cache=tmp_path / "cells")
    log = tmp_path / "log"
    cells = [{"number": k, "at": 3, "log": str(log)} for k in range(5)]
    with pytest.raises(KeyboardInterrupt):
        sweep(fail_at, cells, settings)
    assert log.read_text().split() == ["0", "1", "2"]
    # The cells that were finished are not computed again, and the others are.
    again = [cell if cell["number"] < 3 else {**cell, "at": None} for cell in cells]
    results = sweep(fail_at, again, settings)
    assert [result["number"] for result in results] == [0, 1, 2, 3, 4]
    assert log.read_text().split() == ["0", "1", "2", "3", "4"]


def test_a_damaged_cell_is_computed_again(tmp_path):
    settings = Settings(cache=tmp_path)
    first = sweep(draw, CELLS[:1], settings)
    (path,) = tmp_path.rglob("*.json")
    assert json.loads(path.read_text())["cell"] == CELLS[0]
    path.write_text("{")
    assert sweep(draw, CELLS[:1], settings) == first
    assert json.loads(path.read_text())["result"] == first[0]


def test_progress_is_reported():
    seen = []
    sweep(draw, CELLS[:2], Settings(report=lambda *step: seen.append(step)), "drawing")
    assert seen == [(0, 2, "drawing"), (1, 2, "drawing"), (2, 2, "drawing")]


def test_keys_depend_on_function_and_parameters():
    keys = {cell_key(f, cell) for f in (draw, fail_at) for cell in CELLS}
    assert len(keys) == 2 * len(CELLS)


def test_an_unknown_backend_is_named():
    with pytest.raises(ValueError, match="carrier pigeon"):
        sweep(draw, CELLS, Settings(n_jobs=2, backend="carrier pigeon"))


def test_a_cluster_gives_the_same_numbers():
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    one = sweep(draw, CELLS, Settings())
    # Threads of this process, which can import the tests' functions.
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
        address = cluster.scheduler_address
        assert one == sweep(draw, CELLS, Settings(backend="dask", scheduler=address))
