"""Signals in Parquet files: read in pieces, as pandas would read them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from heatgraph import LearnHeat
from heatgraph.distributed import codes, from_dask, parquet
from heatgraph.distributed.parquet import read_parquet
from heatgraph.solvers import engine

pytest.importorskip("pyarrow")

GIVEN = {"n_scales": 1, "alpha": 0.05, "beta": 0.05, "tol": 0.1}


@pytest.fixture
def frame(rng):
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=23),
            "b": rng.normal(size=23).astype(np.float32),
            "c": rng.integers(-5, 5, 23),
            "d": rng.random(23) < 0.5,
            "e": pd.array(rng.integers(0, 9, 23), dtype="Int16"),
        }
    )
    frame.loc[::3, "a"] = np.nan
    frame.loc[5:9, "e"] = pd.NA
    return frame


def numbers(frame):
    return frame.astype({"e": "Float64"}).to_numpy(dtype=np.float64, na_value=np.nan)


def test_reads_what_pandas_reads(frame, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ROWS_AT_ONCE", 4)
    frame[:13].to_parquet(tmp_path / "0.parquet", row_group_size=6)
    frame[13:].iloc[:, ::-1].to_parquet(tmp_path / "1.parquet")
    signals = read_parquet(sorted(tmp_path.iterdir()))
    assert signals.columns == tuple("abcde")
    assert signals.shape == (23, 5)
    assert [rows.n_rows for rows in signals.row_groups] == [6, 6, 1, 10]
    assert [len(piece) for piece in signals.row_groups[0].pieces()] == [4, 2]
    read = np.concatenate([rows.read() for rows in signals.row_groups])
    np.testing.assert_array_equal(read, numbers(frame))
    pytest.importorskip("dask")
    np.testing.assert_array_equal(signals.to_dask_array().compute(), numbers(frame))


def test_leaves_out_labels_and_the_index_of_pandas(frame, tmp_path):
    labelled = frame.assign(day="monday").set_index(pd.Index(range(5, 28), name="k") * 2)
    labelled.to_parquet(tmp_path / "0.parquet")
    assert read_parquet([tmp_path / "0.parquet"], ["day"]).columns == tuple("abcde")


@pytest.mark.parametrize(
    ("leave_out", "message"),
    [
        ([], "column 'day': .* is not a type of numbers"),
        (["month"], "has no column 'month'"),
        (["day", "a"], "must have the same columns, but only one of them has 'a'"),
    ],
)
def test_refuses_what_does_not_serve(frame, tmp_path, leave_out, message):
    frame.drop(columns="a").assign(day="x").to_parquet(tmp_path / "0.parquet")
    frame.assign(day="x").rename(columns={"e": "a", "a": "e"}).to_parquet(tmp_path / "1.parquet")
    paths = sorted(tmp_path.iterdir())
    with pytest.raises(ValueError, match=message):
        read_parquet(paths[1:] * 2 if leave_out == [] else paths, leave_out[:1])


def test_refuses_no_file_and_no_parquet(tmp_path):
    with pytest.raises(ValueError, match="at least one"):
        read_parquet([])
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        read_parquet([tmp_path / "x.parquet"])


@pytest.mark.parametrize("share", [0.1, 0.0], ids=["held", "read anew"])
def test_a_fit_is_that_of_the_same_signals_in_memory(client, signals, tmp_path, monkeypatch, share):
    monkeypatch.setattr(engine, "BATCH", 4)
    monkeypatch.setattr(parquet, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(from_dask, "HELD_SHARE", share)  # of the memory of the workers
    frame = pd.DataFrame(signals, columns=list("abcdef")).where(lambda x: x != signals[3, 3])
    for k, rows in enumerate((frame[:15], frame[15:])):
        rows.to_parquet(tmp_path / f"{k}.parquet", row_group_size=7)
    there = LearnHeat(**GIVEN).fit(read_parquet(sorted(tmp_path.iterdir())))
    here = LearnHeat(**GIVEN).fit(frame)
    assert list(there.feature_names_in_) == list("abcdef")
    np.testing.assert_allclose(there.laplacian_, here.laplacian_, rtol=0.0, atol=1e-10)
    assert there.objective_[-1] == pytest.approx(here.objective_[-1], rel=1e-11)
    assert codes.kept() == {}
