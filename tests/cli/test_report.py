"""``heatgraph report``, and the page that `learn` leaves."""

import json
import subprocess
import sys

from heatgraph.cli.report import read_coordinates


def test_report_of_a_model_and_its_signals(run, learned, tmp_path):
    out = tmp_path / "page.html"
    done = run("report", learned / "result", learned / "signals.csv", "-o", out, "--title", "Mine")
    assert done.stdout == f"Open in a browser: {out.as_uri()}\n"
    text = out.read_text(encoding="utf-8")
    assert "<h1>Mine</h1>" in text
    assert "signal minus fit" in text


def test_report_alone_shows_the_fit(run, learned, tmp_path):
    out = tmp_path / "page.html"
    summary = json.loads(
        run("report", learned / "result" / "model.npz", "-o", out, "--json").stdout
    )
    assert summary["files"] == [str(out)]
    assert summary["size"] == out.stat().st_size
    assert "The signals were not given" in out.read_text(encoding="utf-8")


def test_coordinates_from_a_file(run, learned, frame, tmp_path):
    table = tmp_path / "places.csv"
    rows = [f"{name},{k},{k % 3 + 50},Town" for k, name in enumerate(frame.columns)]
    table.write_text("\n".join(["code,lon,lat,name", *rows]), encoding="utf-8")
    out = tmp_path / "page.html"
    run("report", learned / "result", "-o", out, "--coordinates", table)
    assert "where their coordinates say" in out.read_text(encoding="utf-8")


def test_what_is_refused(run, refused, learned, tmp_path):
    out = tmp_path / "page.html"
    out.write_text("old")
    assert "--force" in refused("report", learned / "result", "-o", out)
    assert out.read_text() == "old"
    text = tmp_path / "page.txt"
    assert f"--output: the page is an .html file, got {text}" in refused(
        "report", learned / "result", "-o", text
    )
    table = tmp_path / "places.csv"
    table.write_text("name,x\nmoss,1\n")
    where = ("--coordinates", table, "-o", tmp_path / "other.html")
    assert "two coordinates" in refused("report", learned / "result", *where)
    table.write_text("name,x,y\nmoss,1,2\n")
    assert "the column 'name' lacks 'oslo'" in refused("report", learned / "result", *where)
    table.write_text("name,x,y\nBodø,1,2\n", encoding="latin-1")
    assert "is not UTF-8 text; save it" in refused("report", learned / "result", *where)
    assert "No such file" in refused("report", learned / "result", "-o", out, "--force",
                                     "--coordinates", tmp_path / "none.csv")  # fmt: skip
    assert out.read_text() == "old"
    run("report", learned / "result", "-o", out, "--force")
    assert out.read_text(encoding="utf-8") != "old"


def test_numbers_as_names(tmp_path):
    table = tmp_path / "places.csv"
    table.write_text("007;1.5;2\n", encoding="utf-8")
    table.write_text("station;x;y\n007;1.5;2\n", encoding="utf-8")
    assert read_coordinates(table).index.tolist() == ["007"]


def test_learn_leaves_a_page(run, signals, tmp_path):
    out = tmp_path / "out"
    done = run("learn", signals, "-o", out, "--tol", 1e-2, "--report", "--alpha", 0.05,
               "--beta", 0.01)  # fmt: skip
    page = out / "report.html"
    *_, address, if_wrong = done.stdout.splitlines()
    assert address == f"Open in a browser: {page.as_uri()}"
    assert if_wrong.startswith("If the graph looks wrong: ")
    assert str(page) in json.loads((out / "summary.json").read_text())["files"]
    assert "<h1>The graph learned from signals.csv</h1>" in page.read_text(encoding="utf-8")


def test_learn_without_extras_loses_nothing(signals, tmp_path):
    out = tmp_path / "out"
    # In a process that has imported nothing yet, as where they were never installed.
    start = (
        "import sys; sys.modules.update(dict.fromkeys(['bokeh', 'dask', 'geopandas', 'pyarrow', "
        "'pygsp', 'pynndescent', 'scs'])); from heatgraph.cli import main; main()"
    )
    given = ["learn", signals, "-o", out, "--tol", "1e-2", "--alpha", "0.05", "--beta", "0.01"]
    done = subprocess.run(
        [sys.executable, "-c", start, *given], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "heatgraph[report]" in done.stderr
    assert (out / "model.npz").exists()
    assert not (out / "report.html").exists()
