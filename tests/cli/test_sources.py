"""``heatgraph sources`` on the graph of an earlier fit."""

import csv
import json
import os

import numpy as np
import pandas as pd
import pytest

from heatgraph.storage import load_model


@pytest.fixture
def new(frame, tmp_path):
    path = tmp_path / "new.csv"
    frame[:4].to_csv(path, index=False)
    return path


def test_sources_are_those_of_the_model(run, learned, frame, new, tmp_path):
    out = tmp_path / "sources.csv"
    done = run("sources", learned / "result", new, "--output", out, "--json", "--top", 2)
    model = load_model(learned / "result" / "model.npz")
    expected = model.code(frame[:4]).sources
    with open(out, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == np.count_nonzero(expected)
    for row in rows:
        s = model.scales_.tolist().index(float(row["scale"]))
        at = int(row["signal"]), s, frame.columns.get_loc(row["node"])
        assert float(row["strength"]) == pytest.approx(expected[at], rel=1e-9)
    summary = json.loads(done.stdout)
    assert summary["n_sources"] == len(rows)
    assert 0 <= summary["largest_gap"] < 1e-8
    first = [row for row in summary["top"] if row["signal"] == "0"]
    assert len(first) == min(2, np.count_nonzero(expected[0]))
    assert abs(first[0]["strength"]) == np.abs(expected[0]).max()


def test_heat_that_was_added_at_once(run, learned, frame, new, tmp_path):
    out = tmp_path / "out"
    done = run("sources", learned / "result", new, "--at-once", "--output", out, "--json")
    model = load_model(learned / "result" / "model.npz")
    expected = model.locate(frame[:4])
    with open(out / "sources.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["node"] for row in rows] == expected["node"].tolist()
    assert [float(row["scale"]) for row in rows] == pytest.approx(expected["scale"].tolist())
    assert [float(row["strength"]) for row in rows] == pytest.approx(expected["strength"].tolist())
    assert json.loads(done.stdout)["largest_gap"] is None
    assert "at the one scale" in run("sources", learned / "result", new, "--at-once").stdout


def test_what_is_printed(run, learned, new):
    done = run("sources", learned / "result" / "model.npz", new)
    assert "duality gap is at most" in done.stdout
    assert "4 signals on 6 nodes" in done.stderr


def test_a_folder_for_the_sources(refused, run, learned, new, tmp_path):
    out = tmp_path / "out"
    run("sources", learned / "result", new, "--output", out)
    assert {path.name for path in out.iterdir()} == {"sources.csv", "sources.png", "summary.json"}
    assert "--force" in refused("sources", learned / "result", new, "-q", "--output", out)
    run("sources", learned / "result", new, "--output", out, "--force")


def test_columns_are_matched_by_name(run, learned, frame, new, tmp_path):
    turned = frame[:4][frame.columns[::-1]].copy()
    turned.insert(0, "day", ["a", "b", "c", "d"])
    turned.to_csv(tmp_path / "turned.csv", index=False)
    one = json.loads(run("sources", learned / "result", new, "--json").stdout)
    other = json.loads(run("sources", learned / "result", tmp_path / "turned.csv", "--json").stdout)
    assert [row["strength"] for row in other["top"]] == [row["strength"] for row in one["top"]]
    assert other["top"][0]["signal"] == "a"


def test_a_node_called_as_an_index_is_a_node(run, frame, tmp_path):
    frame = frame.rename(columns={"oslo": "id"})
    frame["id"] = np.arange(30.0)
    frame.to_csv(tmp_path / "s.csv", index=False)
    given = ("--index-column", "none", "--model", "gaussian")
    run("learn", tmp_path / "s.csv", "-o", tmp_path / "out", *given)
    done = run("sources", tmp_path / "out", tmp_path / "s.csv", "--json")
    assert json.loads(done.stdout)["n_nodes"] == 6


def test_arrays_are_matched_by_order(refused, run, learned, frame, new, tmp_path):
    np.save(tmp_path / "new.npy", frame[:4].to_numpy())
    done = run("sources", learned / "result", tmp_path / "new.npy", "--json")
    assert "matched by their order" in done.stderr
    one = json.loads(run("sources", learned / "result", new, "--json").stdout)
    assert json.loads(done.stdout)["top"] == one["top"]
    np.save(tmp_path / "new.npy", frame.iloc[:4, :5].to_numpy())
    line = refused("sources", learned / "result", tmp_path / "new.npy")
    assert "has 5 nodes, the model has 6" in line


def test_missing_and_unknown_nodes(refused, learned, frame, tmp_path):
    path = tmp_path / "s.csv"
    frame[:4].drop(columns=["moss"]).to_csv(path, index=False)
    assert "it lacks 'moss'" in refused("sources", learned / "result", path)
    frame[:4].assign(york=1.5).to_csv(path, index=False)
    assert "the model does not know 'york'" in refused("sources", learned / "result", path)
    frame[:4].T.to_csv(path)
    told = refused("sources", learned / "result", path)
    assert told.endswith("s.csv: its rows are the nodes of the model: say --transpose")


def test_values_that_were_not_observed(run, learned, frame, tmp_path):
    gaps = frame[:4].copy()
    gaps.iloc[0, 1] = np.nan
    gaps.to_csv(tmp_path / "s.csv", index=False)
    done = run("sources", learned / "result", tmp_path / "s.csv", "-o", tmp_path / "out")
    assert "1 of 24 values are missing" in done.stderr


def test_bad_model_files(refused, learned, new, tmp_path):
    path = tmp_path / "model.npz"
    whole = (learned / "result" / "model.npz").read_bytes()
    for content in (b"", b"not a model", whole[:-100]):
        path.write_bytes(content)
        line = refused("sources", path, new)
        assert f"cannot load the model {path}" in line
        assert "learn the model anew" in line
    assert "No such file" in refused("sources", tmp_path / "no.npz", new)
    assert "holds no model.npz; name a folder that learn left" in refused(
        "sources", tmp_path / "..", new
    )


def test_output_that_cannot_be_written(refused, learned, new, tmp_path):
    out = tmp_path / "sources.csv"
    out.write_text("old")
    assert "--force replaces it" in refused("sources", learned / "result", new, "-q", "-o", out)
    assert out.read_text() == "old"
    for name in ("s.parquet", "s.npy", "s.json"):
        line = refused("sources", learned / "result", new, "-q", "-o", tmp_path / name)
        assert "written as a .csv file or into a folder" in line
        assert not (tmp_path / name).exists()


def test_one_signal_in_a_new_folder(run, learned, frame, tmp_path):
    frame[:1].to_csv(tmp_path / "one.csv", index=False)
    out = tmp_path / "a" / "b" / "sources.csv"
    done = run("sources", learned / "result", tmp_path / "one.csv", "-o", out)
    assert out.exists()
    assert "1 signal on 6 nodes" in done.stderr
    assert "of 1 signal;" in done.stdout


def test_signals_without_a_source(run, learned, frame, tmp_path):
    (0.0 * frame[:2] + 1e-9).to_csv(tmp_path / "still.csv", index=False)
    given = ("-o", tmp_path / "out", "--index-column", "none", "--json")
    done = run("sources", learned / "result", tmp_path / "still.csv", *given)
    assert json.loads(done.stdout)["n_sources"] == 0
    assert (tmp_path / "out" / "sources.png").exists()


def test_names_give_no_orders_to_the_terminal(run, learned, frame, tmp_path):
    path = tmp_path / "new\x1b[2J.csv"
    labels = ["red \x1b[31m", "title \x9d0;x", "turned \u202e", "Bodø"]
    frame[:4].set_axis(pd.Index(labels, name="signal")).to_csv(path)
    done = run("sources", learned / "result", path)
    for mark in "\x1b\x9d\u202e":
        assert mark not in done.stdout + done.stderr
        assert f"\\u{ord(mark):04x}" in done.stdout
    assert "Bodø" in done.stdout
    found = run("sources", learned / "result", path, "--json").stdout
    assert "\u202e" not in found
    assert set(labels) >= {row["signal"] for row in json.loads(found)["top"]}


@pytest.mark.skipif(os.name != "posix", reason="names of files are bytes on POSIX alone")
def test_a_name_of_a_file_that_is_not_utf_8(run, learned, new, tmp_path):
    path, out = (tmp_path / os.fsdecode(name) for name in (b"\xff.csv", b"out\xff"))
    new.rename(path)
    done = run("sources", learned / "result", path, "--output", out)
    assert "\\udcff.csv" in done.stderr
    assert json.loads((out / "summary.json").read_text("utf-8"))["n_signals"] == 4
