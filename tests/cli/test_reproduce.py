"""``heatgraph reproduce``: what it writes, refuses and lists."""

import json

import pytest

from heatgraph.experiments import EXPERIMENTS, Experiment, Outcome
from heatgraph.experiments.writing import RESULTS


@pytest.fixture
def toy(monkeypatch):
    """Two experiments that take no time, in place of the real ones."""

    def run(self, settings):
        settings.report(1, 1, "done")
        numbers = {"seed": settings.seed, "ba": settings.readings.ba}
        return Outcome(self.name, self.name.title(), {}, numbers, {}, f"# {self.name}")

    monkeypatch.setattr(Experiment, "run", run)
    monkeypatch.setattr(
        "heatgraph.cli.reproduce.EXPERIMENTS",
        {name: Experiment(name, f"the {name}", "none") for name in ("one", "two")},
    )
    monkeypatch.setattr(
        "heatgraph.cli.reproduce.get_experiment", lambda name: Experiment(name, "", "none")
    )


def test_list_names_every_experiment(run):
    printed = run("reproduce", "--list").stdout
    assert all(name in printed for name in EXPERIMENTS)
    listed = json.loads(run("reproduce", "--list", "--json").stdout)
    assert listed["experiments"].keys() == EXPERIMENTS.keys()


def test_all_are_written(run, toy, tmp_path):
    done = run("reproduce", "all", "-o", tmp_path / "out", "--seed", 4, "--ba", 1, "--json")
    summary = json.loads(done.stdout)
    assert summary["experiments"]["two"]["numbers"] == {"seed": 4, "ba": 1}
    for name in ("one", "two"):
        content = json.loads((tmp_path / "out" / name / RESULTS).read_text())
        assert content["asked"]["readings"]["ba"] == 1
    assert "## two" in (tmp_path / "out" / "index.md").read_text()


def test_the_same_request_may_be_repeated_and_another_not(run, refused, toy, tmp_path):
    run("reproduce", "one", "-o", tmp_path)
    run("reproduce", "one", "-o", tmp_path)
    assert "--force" in refused("reproduce", "one", "-o", tmp_path, "--seed", 1)
    run("reproduce", "one", "-o", tmp_path, "--seed", 1, "--force")
    assert json.loads((tmp_path / "one" / RESULTS).read_text())["numbers"]["seed"] == 1


def test_what_is_wrong_is_said(refused, tmp_path):
    assert "figure1" in refused("reproduce", "-o", tmp_path)
    assert "figure1" in refused("reproduce", "figure99", "-o", tmp_path)
    assert "--output" in refused("reproduce", "figure1")
    given = ("reproduce", "figure1", "-o", tmp_path)
    assert "--rbf must be" in refused(*given, "--rbf", "length")
    assert "--jobs must be 1 or more" in refused(*given, "--jobs", 0)
    assert "--data-home must be a folder" in refused(*given, "--data-home", tmp_path / "no")


def test_a_variable_that_names_no_folder(refused, tmp_path, monkeypatch):
    monkeypatch.setenv("HEATGRAPH_DATA", str(tmp_path / "no"))
    line = refused("reproduce", "etex", "-o", tmp_path / "out")
    assert "the variable HEATGRAPH_DATA must be a folder that exists" in line


def test_the_quick_size_is_a_rehearsal(run, toy, tmp_path):
    out = tmp_path / "a" / "out"
    assert "not comparable" not in run("reproduce", "one", "-o", out).stdout
    assert "rehearsal" not in (out / "one" / "page.md").read_text()
    done = run("reproduce", "one", "-o", out, "--quick", "--force")
    assert "not comparable with those of the paper" in done.stdout
    page = (out / "one" / "page.md").read_text()
    assert page.startswith("# one\n\n**This is a rehearsal")


def test_an_interruption_says_that_one_can_go_on(run, toy, tmp_path, monkeypatch):
    def stop(self, settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(Experiment, "run", stop)
    assert "the same command continues" in run("reproduce", "one", "-o", tmp_path, code=130).stderr


def test_of_several_one_that_fails_does_not_stop_the_others(run, toy, tmp_path, monkeypatch):
    real = Experiment.run

    def fail(self, settings):
        if self.name == "one":
            raise FileNotFoundError("there is no data set")
        return real(self, settings)

    monkeypatch.setattr(Experiment, "run", fail)
    done = run("reproduce", "all", "-o", tmp_path, "--json", code=2)
    assert "one: there is no data set" in done.stderr
    summary = json.loads(done.stdout)
    assert summary["experiments"].keys() == {"two"}
    assert summary["failed"].keys() == {"one"}
