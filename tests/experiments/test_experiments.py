"""Every experiment at a toy size: it runs, writes all that it promises, and repeats itself."""

import json
import re

import pytest

from heatgraph.experiments import EXPERIMENTS, Settings, synthetic_runs, write_outcome
from heatgraph.experiments.writing import PAGE, RESULTS

PAPER = (
    "table1",
    "table2",
    "figure1",
    "figure2",
    "figure3",
    "figure4",
    "figure5",
    "long_times",
)
SLOW = ("table1", "table2")


def toy(**more):
    return Settings(quick=True, instances=1, **more)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Cells that several tests here need; only these, for their estimators are hasty."""
    return tmp_path_factory.mktemp("cells")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else []) for name in PAPER],
)
def test_runs_at_a_toy_size(name, hasty, shared, tmp_path):
    steps = []
    outcome = EXPERIMENTS[name].run(toy(cache=shared, report=lambda *step: steps.append(step)))
    assert outcome.name == name
    assert steps[-1][0] == steps[-1][1] > 0
    files = {path.name for path in write_outcome(outcome, tmp_path / name)}
    assert {RESULTS, PAGE, f"{name}.png", f"{name}.svg"} <= files
    assert any(file.endswith(".csv") for file in files)
    assert f"]({name}.png)" in outcome.page
    # Every experiment says what became of the paper's conclusion.
    assert re.search("hold|at or above the paper's F|nearer", outcome.page)
    assert json.loads((tmp_path / name / RESULTS).read_text())["numbers"]


@pytest.mark.slow
def test_a_table_has_every_row_and_the_other_readings(hasty, shared):
    outcome = EXPERIMENTS["table2"].run(toy(cache=shared))
    table = outcome.tables["table2"]
    assert len(table) == 3 * 9 * 5
    assert set(table["protocol"]) == {"oracle", "no truth"}
    assert table["paper"].notna().all()
    others = outcome.tables["other_readings"]
    free = others[others["method"] == "LearnHeat()"]
    # The paper's own words: distance and 13 dB.
    assert set(free["reading"]) == {
        "RBF edges kept by distance",
        "noise 13 dB below the signals of each graph",
        "noise 13 dB below the signals of each graph, RBF edges kept by distance",
    }
    assert "0.02 is the variance of the noise" in set(others["reading"])
    assert outcome.numbers["signal_to_noise_db"].keys() == {"rbf", "er", "ba"}


def test_same_numbers_for_one_job_and_for_two():
    settings = {"quick": True, "instances": 1}
    one = EXPERIMENTS["figure4"].run(Settings(**settings))
    two = EXPERIMENTS["figure4"].run(Settings(**settings, n_jobs=2, backend="threading"))
    assert one.numbers == two.numbers
    assert one.tables["grid"].equals(two.tables["grid"])
    other = EXPERIMENTS["figure4"].run(Settings(**settings, seed=1))
    assert one.numbers != other.numbers


def test_finished_cells_are_not_computed_again(hasty, shared, monkeypatch):
    first = EXPERIMENTS["figure4"].run(toy(cache=shared))

    def never(*arguments):
        raise AssertionError("computed again")

    monkeypatch.setitem(synthetic_runs.PATHS, "heat", never)
    assert EXPERIMENTS["figure4"].run(toy(cache=shared)).numbers == first.numbers


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER)
def test_quick_as_a_user_runs_it(name, tmp_path):
    outcome = EXPERIMENTS[name].run(Settings(quick=True, n_jobs=2, cache=tmp_path))
    assert outcome.numbers
