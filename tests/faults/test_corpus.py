"""Files on which a reader once failed, and bombs: each is refused by an error that names it."""

import gzip
import importlib.util
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from heatgraph.cli.tables import TableOptions, read_signals

HERE = Path(__file__).parent
CORPUS = sorted((HERE / "corpus").iterdir())

specification = importlib.util.spec_from_file_location("fuzz", HERE / "fuzz.py")
fuzz = importlib.util.module_from_spec(specification)
specification.loader.exec_module(fuzz)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_a_file_that_was_a_finding_is_none_any_more(path, tmp_path):
    reader = fuzz.Reader(path.name.split("-")[0], tmp_path)
    reader(path.read_bytes())  # raises unless the file is read, or refused by its name
    assert reader.count == 1


@pytest.mark.slow
def test_a_small_file_of_gzip_does_not_fill_the_memory(tmp_path):
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"0,0\n" * 8_000_000))
    assert path.stat().st_size < 100_000
    with pytest.raises(ValueError, match=r"bomb\.csv\.gz has \d+ bytes and unpacks to more than"):
        read_signals(path, TableOptions())


def test_a_small_file_of_parquet_does_not_fill_the_memory(tmp_path):
    path = tmp_path / "bomb.parquet"
    pd.DataFrame(np.zeros((1_500_000, 2)), columns=["a", "b"]).to_parquet(path)
    assert path.stat().st_size < 20_000
    with pytest.raises(ValueError, match=r"bomb\.parquet cannot be read as Parquet \(it declares"):
        read_signals(path, TableOptions())


def test_a_long_text_that_a_small_file_of_parquet_repeats_does_not_fill_the_memory(tmp_path):
    path = tmp_path / "bomb.parquet"
    frame = pd.DataFrame({"label": ["x" * 10_000] * 3000, "a": range(3000), "b": 1.5})
    frame.to_parquet(path)
    assert path.stat().st_size < 60_000
    with pytest.raises(ValueError, match=r"bomb\.parquet cannot be read as Parquet \(it declares"):
        read_signals(path, TableOptions())


def test_lists_in_parquet_are_refused_by_the_name_of_their_column(tmp_path):
    path = tmp_path / "lists.parquet"
    pd.DataFrame({"a": [[0.0, 1.0], [2.0]], "b": [1.0, 2.0]}).to_parquet(path)
    with pytest.raises(ValueError, match=r"lists\.parquet .*the column 'a' holds list"):
        read_signals(path, TableOptions())


def test_many_columns_of_text_take_no_long_time(tmp_path):
    path = tmp_path / "wide.csv"
    names = ",".join(f"x{k}" for k in range(2000))
    path.write_text("\n".join([names, *[",".join("a" * 2000)] * 2]))
    began = time.process_time()
    with pytest.raises(ValueError, match=r"wide\.csv has no column of numbers"):
        read_signals(path, TableOptions())
    assert time.process_time() - began < 10.0  # it was minutes
