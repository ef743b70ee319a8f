"""Tables are read as their authors meant them, or refused by file, line and column."""

import gzip
import io
import pickle
import sys

import numpy as np
import pandas as pd
import pytest

from heatgraph.cli.tables import TableOptions, read_pairs, read_signals


def write(tmp_path, text, name="s.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding) if isinstance(text, str) else text)
    return path


def read(tmp_path, text, **options):
    return read_signals(write(tmp_path, text), TableOptions(**options))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters_are_found(tmp_path, delimiter):
    table = read(tmp_path, "a,b\n1,2\n3,4.5\n".replace(",", delimiter))
    assert table.names == ("a", "b")
    assert table.values.tolist() == [[1.0, 2.0], [3.0, 4.5]]
    assert table.labels is None


def test_what_spreadsheets_do(tmp_path):
    table = read(tmp_path, '\ufeff"a b","c, d"\r\n1,2\r\n\r\n3,4\r\n')
    assert table.names == ("a b", "c, d")
    assert table.values.shape == (2, 2)


def test_decimal_commas(tmp_path):
    text = "a;b\n1,5;2\n"
    assert read(tmp_path, text, decimal=",").values.tolist() == [[1.5, 2.0]]
    table = read(tmp_path, text)
    assert table.values.tolist() == [[1.5, 2.0]]
    assert "',' marks decimals ('1,5' is read as 1.5)" in table.notes
    with pytest.raises(ValueError, match="line 2, column 'b': '2,5' is not a number; if commas"):
        read(tmp_path, "a;b\n1.5;2,5\n2;1\n1;1\n")
    with pytest.raises(ValueError, match="but they separate the columns"):
        read(tmp_path, "a,b\n1,2\n", decimal=",")


def test_missing_values_are_kept_as_such(tmp_path):
    table = read(tmp_path, "a,b,c\n1,,NaN\nNA,2,3\n")
    assert np.isnan(table.values).tolist() == [[False, True, True], [True, False, False]]
    assert "3 of 6 values are missing and taken as not observed" in table.notes


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("day,a,b\nmon,1,2\ntue,3,4\n", ("mon", "tue")),
        ("when,a,b\n2020-01-01,1,2\n2020-01-02,3,4\n", ("2020-01-01", "2020-01-02")),
        ("when,a,b\n2020-01-01 10:00,1,2\n2020-01-02 11:00,3,4\n", None),
        ("month,a,b\n2017_07,1,2\n2017_08,3,4\n", ("2017_07", "2017_08")),
        (",a,b\n0,1,2\n1,3,4\n", ("0", "1")),
        ("id,a,b\n17,1,2\n4,3,4\n", ("17", "4")),
        ("Time,a,b\n0.5,1,2\n1.5,3,4\n", ("0.5", "1.5")),
    ],
)
def test_labels_are_found_and_said(tmp_path, text, labels):
    table = read(tmp_path, text)
    assert table.names == ("a", "b")
    assert table.labels is not None
    assert labels is None or table.labels == labels
    assert any("labels the signals and is not a node" in note for note in table.notes)


@pytest.mark.parametrize(
    "text",
    [
        "time,a,b\n0.5,1,2\n0.2,3,4\n0.9,3,4\n",  # neither in order nor whole
        "oslo,a,b\n1,1,2\n2,3,4\n",  # an ordinary name
        "t,a,b\n1.5,1,2\n-2.5,3,4\n0.5,3,4\n",
    ],
)
def test_columns_of_numbers_are_nodes(tmp_path, text):
    table = read(tmp_path, text)
    assert len(table.names) == 3
    assert table.labels is None


def test_index_column_can_be_said(tmp_path):
    text = "id,a,b,tag\n1,5,6,x\n2,7,8,y\n"
    table = read(tmp_path, text)
    assert table.names == ("a", "b")
    assert table.labels == ("1 x", "2 y")
    assert any("columns 'id', 'tag' label the signals and are not nodes" in n for n in table.notes)
    table = read(tmp_path, text, index_column=["tag"])
    assert table.names == ("id", "a", "b")
    assert table.labels == ("x", "y")
    assert table.values[:, 0].tolist() == [1.0, 2.0]
    table = read(tmp_path, "id,a\n1,5\n2,7\n", index_column=["none"])
    assert table.names == ("id", "a")
    with pytest.raises(ValueError, match="has no column 'no' for --index-column; it has 'id'"):
        read(tmp_path, text, index_column=["no"])
    with pytest.raises(ValueError, match="line 3, column 'day': 'x' is not a number"):
        read(tmp_path, "day,a,b\n1,1,1\nx,2,2\n", index_column=["none"])


def test_one_bad_cell_makes_no_index(tmp_path):
    with pytest.raises(ValueError, match=r"line 4, column 'a': '12x' is not a number; leave"):
        read(tmp_path, "a,b\n1,2\n3,4\n12x,5\n7,8\n")


def test_a_file_without_names(tmp_path):
    table = read(tmp_path, "0.5,1.5\n2.5,3.5\n")
    assert table.names is None
    assert table.values.shape == (2, 2)
    assert any("the nodes have no names" in note for note in table.notes)
    assert read(tmp_path, "3,3\n2,3\n").names is None
    assert read(tmp_path, "0,1\n2,3\n").names == ("0", "1")
    assert read(tmp_path, "0,1\n2,3\n", header=False).values.shape == (2, 2)
    assert read(tmp_path, "0.5,1.5\n2,3\n", header=True).names == ("0.5", "1.5")


def test_nodes_in_rows(tmp_path):
    table = read(tmp_path, "node,mon,tue,tue\na,1,2,3\nb,4,5,6\n", transpose=True)
    assert table.names == ("a", "b")
    assert table.labels == ("mon", "tue", "tue")
    assert table.values.tolist() == [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
    with pytest.raises(ValueError, match="'a'; every node needs a name of its own"):
        read(tmp_path, "node,mon\na,1\na,2\n", transpose=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("a,b\n", "no signal below it"),
        ("a,b\n1,2\n3\n", "line 3: 1 fields, the first line has 2"),
        ("a,b\n1,2,3\n", "line 2: 3 fields, the first line has 2"),
        ("a,a,b\n1,2,3\n", "'a'; every node needs a name of its own"),
        ("a,,b\n1,2,3\n", "node 2 has no printable name"),
        ("a\n1\n2\n", "has 1 node; a graph needs at least 2"),
        ("a,b\n1,inf\n", "column 'b': signal '0' is infinite"),
        ("a,b\n1,-Infinity\n", "column 'b'"),
        ("a,b\n1,hot\n", "line 2, column 'b': 'hot' is not a number"),
        ("a,b\n1,1_000\n", "'1_000' is not a number"),
        ('a,b\n1,"2\n', "not CSV"),
        ("a\x01,b\n1,2\n", "no printable name"),
    ],
)
def test_bad_tables(tmp_path, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path, text)
    assert "s.csv" in str(caught.value)


def test_other_encodings_are_refused(tmp_path):
    for encoding in ("utf-16", "latin-1"):
        path = write(tmp_path, "å,b\n1,2\n", encoding=encoding)
        with pytest.raises(ValueError, match=r"not UTF-8 text; save it as .*, or convert it"):
            read_signals(path, TableOptions())


def test_compressed_text(tmp_path):
    path = write(tmp_path, gzip.compress(b"a,b\n1,2\n"), "s.csv.gz")
    assert read_signals(path, TableOptions()).values.tolist() == [[1.0, 2.0]]
    for damaged in (path.read_bytes()[:-12], b"a,b\n1,2\n"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="not a whole file of gzip"):
            read_signals(path, TableOptions())


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("station,a\n1000,5\n1001,7\n1002,6\n", "say --index-column station;"),
        ("my node,a\n1,5\n2,7\n3,6\n", "say --index-column 'my node';"),
        ("1,0.5\n2,0.7\n3,0.6\n", "give the columns names"),
        ("oslo,a\n1,5\n3,7\n2,6\n", None),
        ("oslo,a\n1.5,5\n2,7\n3,6\n", None),
        ("id,a,b\n1,5,6\n2,7,8\n3,6,8\n", None),
    ],
)
def test_a_first_column_that_counts_is_asked_about(tmp_path, text, asked):
    if asked is None:
        read(tmp_path, text)
        return
    with pytest.raises(ValueError, match="holds whole numbers that increase") as question:
        read(tmp_path, text)
    assert asked in str(question.value)
    assert read(tmp_path, text, index_column=["none"]).n_nodes == 2


@pytest.mark.parametrize(
    ("titles", "step", "asked"),
    [
        ("a,b,seen", 1.0, "say --index-column seen"),
        ("id,b,seen", 0.1, "say --index-column id --index-column seen"),
        ("elapsed,a,b", 0.25, "say --index-column elapsed"),
        ("a,b,seen", 0.0, None),
        ("a,b,seen", -1.0, None),
    ],
)
def test_clocks_are_asked_about(tmp_path, titles, step, asked):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(8, 3)).round(3), columns=titles.split(","))
    rows["elapsed" if "elapsed" in rows else "seen"] = np.round(step * np.arange(8), 3)
    if "id" in rows:
        rows["id"] = range(8)
    text = rows.to_csv(index=False)
    if asked is None:
        assert "seen" in read(tmp_path, text).names
        return
    with pytest.raises(ValueError, match="rises in even steps") as question:
        read(tmp_path, text)
    assert asked in str(question.value)
    assert read(tmp_path, text, index_column=["none"]).n_nodes == 3


def test_infinities_are_refused_and_nothing_else_is_said_of_them(tmp_path):
    text = "a,b\n" + "".join(f"{k}.5,inf\n" for k in (3, 1, 4, 1, 5, 9, 2))
    with pytest.raises(ValueError, match="column 'b': signal '0' is infinite"):
        read(tmp_path, text)


@pytest.mark.parametrize("cell", ["north", "n.d."])
def test_a_cell_of_text_comes_with_a_remedy(tmp_path, cell):
    message = rf"column 'b': '{cell}' is not a number; leave a value .* or say --index-column b"
    with pytest.raises(ValueError, match=message):
        read(tmp_path, f"a,b\n1,{cell}\n2,3\n")


def test_unknown_suffix(tmp_path):
    with pytest.raises(ValueError, match=r"read from \.csv"):
        read_signals(write(tmp_path, "a,b\n1,2\n", "s.xlsx"), TableOptions())


def test_parquet(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, np.nan]})
    path = tmp_path / "s.parquet"
    frame.to_parquet(path)
    table = read_signals(path, TableOptions())
    assert table.names == ("a", "b")
    assert table.labels is None
    assert np.array_equal(table.values, frame.to_numpy(), equal_nan=True)
    frame.index = pd.date_range("2020-01-01", periods=2, name="day")
    frame.to_parquet(path)
    table = read_signals(path, TableOptions())
    assert table.names == ("a", "b")
    assert table.labels[0].startswith("2020-01-01")
    frame.reset_index().to_parquet(path)
    assert read_signals(path, TableOptions()).names == ("a", "b")
    frame.assign(c=["x", "y"]).to_parquet(path)
    table = read_signals(path, TableOptions())
    assert table.names == ("a", "b")
    assert table.labels[1].endswith(" y")
    with pytest.raises(ValueError, match=r"row 1, column 'c': 'x' is not a number"):
        read_signals(path, TableOptions(index_column=["day"]))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        read_signals(path, TableOptions())


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"pip install \"heatgraph\[parquet\]\""):
        read_signals(write(tmp_path, b"", "s.parquet"), TableOptions())


def test_npy(tmp_path):
    path = tmp_path / "s.npy"
    np.save(path, np.arange(6).reshape(2, 3))
    table = read_signals(path, TableOptions())
    assert table.names is None
    assert table.values.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert read_signals(path, TableOptions(transpose=True)).values.shape == (3, 2)
    with pytest.raises(ValueError, match="no column names"):
        read_signals(path, TableOptions(index_column=["a"]))


def huge():
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**9)}
    )
    return buffer.getvalue()


def saved(array, allow_pickle=False):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (saved(np.array([[{}, {}]]), allow_pickle=True), "pickled objects"),
        (pickle.dumps([1]), "not in the .npy format"),
        (b"", "not in the .npy format"),
        (huge(), "does not match its size"),
        (saved(np.ones((3, 3)))[:-8], "does not match its size"),
        (saved(np.ones(3)), "must hold a matrix"),
        (saved(np.ones((2, 2)) * 1j), "must hold a matrix"),
        (saved(np.array([["a", "b"]])), "must hold a matrix"),
        (saved(np.array([[1.0, np.inf]])), "node 2: signal '0' is infinite"),
    ],
)
def test_bad_npy(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_signals(write(tmp_path, content, "s.npy"), TableOptions())


def test_pairs(tmp_path):
    names = ["a", "b", "c"]
    assert read_pairs(write(tmp_path, "source,target,weight\na,b,1\n"), names) == [("a", "b")]
    assert read_pairs(write(tmp_path, "a;b\nb;c\n"), names) == [("a", "b"), ("b", "c")]
    for text, message in [
        ("a,b\na,x\n", "line 2: 'x' is not a node"),
        ("a,b\nc\n", "line 2: 1 fields, the first line has 2"),
        ("x,y\n", "names no pair"),
    ]:
        with pytest.raises(ValueError, match=message):
            read_pairs(write(tmp_path, text), names)
