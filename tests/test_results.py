"""Measured numbers: pages quote what results files have, and say when the code is another."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import results  # noqa: E402  # the repository is no installed package


def about(**more):
    return {
        "command": "make x",
        "commit": "0123456789ab",
        "date": "2026-01-02",
        "cores": 2,
        "numbers": {},
        "modules": {},
    } | more


@pytest.fixture
def files(monkeypatch, tmp_path):
    """A folder of results files in place of the real one; returns a function that writes one."""
    monkeypatch.setattr(results, "RESULTS", tmp_path)

    def write(name, **more):
        (tmp_path / f"{name}.json").write_text(json.dumps(about(**more)))

    return write


def test_every_page_quotes_what_its_results_files_have():
    assert results.complaints() == []


@pytest.mark.parametrize("path", sorted(results.RESULTS.glob("*.json")), ids=lambda p: p.stem)
def test_every_results_file_says_where_it_comes_from(path):
    content = results.read(path.stem)
    if "command" in content:  # else of a benchmark that has a format of its own
        assert {"commit", "date", "cores", "modules", "numbers"} <= content.keys()
        assert content["command"] in results.when(content)


def test_a_number_that_the_file_does_not_have_is_found(files):
    files("speed", numbers={"f": 0.98765, "deep": [{"share": 0.125}]})
    head = "<!-- results: speed; constants: 0.35 -->\n"
    assert results.unfounded(head + "F is 0.988 or 0.99, 12.5 % of it, cut at 0.35.") == []
    assert results.unfounded(head + "F is 0.987.") == ["0.987"]
    # Code and formulas are no claims.
    assert results.unfounded(head + "`tol=0.25` and $0.75$\n```python\nx = 0.1\n```\n") == []


def test_a_page_without_the_comment_may_quote_nothing():
    assert results.unfounded("F is 0.5") == ["0.5"]


def test_a_page_that_names_a_file_which_is_not_there_is_told(files, monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- results: speed -->\nF is 0.98765.\n")
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "pages", lambda: [page])
    assert results.complaints() == ["page.md names the results files speed, which are not there"]
    files("speed", numbers={"f": 0.98765})
    assert results.complaints() == []


def test_a_change_of_the_code_is_told_and_one_of_its_comments_is_not(monkeypatch, tmp_path):
    monkeypatch.setattr(results, "ROOT", tmp_path)
    module = tmp_path / "benchmarks" / "toy.py"
    module.parent.mkdir()
    module.write_text('"""One."""\nx = 1\n')
    content = about(modules=results.digests(["benchmarks.toy"]))
    assert "changed since" not in results.when(content)
    module.write_text('"""Two."""\n\n# A comment.\nx = 1\n')
    assert results.changed(content) == []
    module.write_text("x = 2\n")
    assert "The code has changed since, in `benchmarks.toy`" in results.when(content)
    module.unlink()
    assert results.changed(content) == ["benchmarks.toy"]


def test_what_changed_is_listed():
    pytest.importorskip("PIL", reason="needs the extra docs")
    from benchmarks.make_results import differences

    old = {"f": {"rbf": 0.9, "er": 0.8}, "scales": [1.0, 2.0]}
    new = {"f": {"rbf": 0.9, "er": 0.7}, "scales": [1.0, 3.0]}
    assert list(differences(old, new)) == ["f/er: 0.8 -> 0.7", "scales/1: 2.0 -> 3.0"]
    assert list(differences(old, old)) == []


def test_a_change_of_the_compiled_core_is_told_and_one_of_its_comments_is_not(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(results, "ROOT", tmp_path)
    core = tmp_path / "src" / "native" / "core.cpp"
    core.parent.mkdir(parents=True)
    core.write_text("int one() { return 1; }\n")
    content = about(modules=results.digests(["src/native"]))
    core.write_text("// One.\nint one() {\n  return 1; /* or\n two */ }\n")
    assert results.changed(content) == []
    core.write_text("int one() { return 2; }\n")
    assert results.changed(content) == ["src/native"]


# What runs in every fit and has no part in its numbers: checks, messages, plain values, files.
NO_NUMBERS = {
    "heatgraph.distributed.from_dask",
    "heatgraph.estimators.checkpoint",
    "heatgraph.estimators.fit_warnings",
    "heatgraph.estimators.progress",
    "heatgraph.estimators.time_series",
    "heatgraph.estimators.validation",
    "heatgraph.graph.checks",
    "heatgraph.graph.value",
    "heatgraph.solvers.result",
    "heatgraph.solvers.threads",
}


def modules_that_ran(call):
    """The modules of the package of which a function was called."""
    files = set()

    def note(frame, event, _):
        if event == "call":
            files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    source = ROOT / "src"
    paths = [Path(file) for file in files if file.startswith(str(source / "heatgraph"))]
    return {".".join(path.relative_to(source).with_suffix("").parts) for path in paths}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["heat", "templates", "smooth", "paper, scales learned"])
def test_the_modules_that_a_table_comes_from_are_all_listed(method):
    pytest.importorskip("PIL", reason="needs the extra docs")
    from benchmarks.make_results import SOURCES
    from heatgraph.experiments.synthetic_runs import ESTIMATORS, no_truth, path

    spec = {"kind": "er", "options": {}, "n_nodes": 8, "n_signals": 30, "noise_std": 0.02}
    spec |= {"seed": 0, "instance": 0}
    row = [0.5] if method == "templates" else [0.01, 0.01]
    ran = modules_that_ran(lambda: path(spec, method, [row]))
    if method in ESTIMATORS:
        ran |= modules_that_ran(lambda: no_truth(spec, method))
    assert len(ran) > 5
    assert ran - NO_NUMBERS <= set(SOURCES["table1"].modules)


def test_every_listed_module_is_there():
    pytest.importorskip("PIL", reason="needs the extra docs")
    from benchmarks.make_results import SOURCES

    for name, source in SOURCES.items():
        assert results.digests([*source.modules, *source.summaries]), name


def numbers_in(value):
    """Every number of a nested value, in order."""
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers_in(item)]
    if isinstance(value, list):
        return [number for item in value for number in numbers_in(item)]
    return [value]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["figure1", "figure4"])
def test_a_file_has_what_its_command_finds_or_says_that_the_code_has_changed(name, tmp_path):
    from heatgraph.experiments import EXPERIMENTS, Settings, write_outcome
    from heatgraph.experiments.writing import RESULTS

    content = results.read(name)
    if results.changed(content):
        assert "changed since" in results.when(content)
        return
    write_outcome(EXPERIMENTS[name].run(Settings(n_jobs=2)), tmp_path)
    found = json.loads((tmp_path / RESULTS).read_text("utf-8"))["numbers"]
    # Another processor rounds otherwise, and a fit stops within a tolerance.
    expected = pytest.approx(numbers_in(content["numbers"][name]), rel=0.02, abs=0.005)
    assert numbers_in(found) == expected
