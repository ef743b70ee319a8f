"""Tables in files, as CSV, Parquet and NPY: read into columns, and written back in their shape."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from heatgraph.arrays import Array
from heatgraph.cli.table_layout import Columns
from heatgraph.errors import needed
from heatgraph.files import read_array, write_atomically

TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
PARQUET = (".parquet", ".pq")
NPY = ".npy"
ROWS_OF_TEXT = 64
# What a compressed file may unpack to: so many bytes, and so many times its own.
UNPACKED_AT_LEAST, UNPACKED_TIMES = 2**24, 200
# What reading a damaged Parquet file ends in, besides the errors of pyarrow.
DAMAGED = (ValueError, OSError, TypeError, LookupError, AttributeError)
PARQUET_EXTRA = '"heatgraph[parquet]"'
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
MISSING = {"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "-", "--", "?"}
SAVE_AS_UTF8 = (
    'save it as "CSV UTF-8" in the spreadsheet, or convert it, such as by '
    "iconv -f latin1 -t utf-8 OLD > NEW"
)
ROWS_LOOKED_AT = 1000  # for the guess of the decimal mark
SPACES = " \u00a0\u202f'"  # that separate thousands, besides commas and points
GROUPED = {
    mark: re.compile(rf"[-+]?[1-9]\d{{0,2}}(?:{re.escape(mark)}\d{{3}})+(?:[.,]\d+)?")
    for mark in (",", ".", *SPACES)
}
NUMERIC = re.compile(rf"[-+]?(?:\d+|[1-9]\d{{0,2}}(?:[.,{SPACES}]\d{{3}})+)(?:[.,]\d+)?")


def kind_of(path: Path) -> str:
    """The suffix that says what a file holds, such as .csv or .csv.gz."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() + suffix if suffix == ".gz" else suffix


def refuse_existing(path: Path, force: bool) -> None:
    """Refuse to replace a file unless that was asked for."""
    if path.exists() and not force:
        raise FileExistsError(f"{path} is there already; --force replaces it")


def check_output(path: Path, force: bool) -> None:
    """Refuse a path that no table can be written to, before there is one."""
    if path.is_dir():
        raise IsADirectoryError(f"--output must name a file, and {path} is a folder")
    if kind_of(path) not in (*TEXT, *PARQUET, NPY):
        raise ValueError(
            f"--output: a table is written as {', '.join((*TEXT[:4], PARQUET[0], NPY))}, not as "
            f"{kind_of(path) or 'no suffix'}, got {path}"
        )
    refuse_existing(path, force)


@dataclass(frozen=True, eq=False)
class Origin:
    """The table that signals came from, the places of its columns of values, and its way round."""

    columns: Columns
    nodes: Sequence[int]
    transposed: bool = False

    def only(self, signals: Sequence[int], nodes: Sequence[int]) -> Origin:
        """With some of its signals and nodes; its other columns are written as they were."""
        return replace(
            self, columns=self.columns.rows(signals), nodes=[self.nodes[k] for k in nodes]
        )

    def write(self, path: Path, signals: Array) -> None:
        """Write a table of this shape, with other values (n_signals, n_nodes)."""
        values = signals.T if self.transposed else signals
        kind = kind_of(path)
        if kind in TEXT:
            content = self._text(values, kind).encode()
            content = gzip.compress(content, mtime=0) if kind.endswith(".gz") else content
        else:
            buffer = io.BytesIO()
            if kind == NPY:
                np.save(buffer, np.ascontiguousarray(values))
            else:
                self._parquet(path, values, buffer)
            content = buffer.getvalue()
        with write_atomically(path) as file:
            file.write(content)

    def _text(self, values: Array, kind: str) -> str:
        decimal, delimiter = self.columns.decimal, self.columns.delimiter
        delimiter = delimiter if delimiter in ",;" else ","
        text: str = self._frame(values).to_csv(
            sep="\t" if kind.startswith(".tsv") else ";" if delimiter == decimal else delimiter,
            decimal=decimal,
            header=self.columns.names is not None,
            index=self._indexed,
        )
        return text

    @property
    def _indexed(self) -> bool:
        """Whether the first column is the index of a data frame."""
        return self.columns.index is not None and 0 not in self.nodes

    def _parquet(self, path: Path, values: Array, buffer: io.BytesIO) -> None:
        needed("pyarrow", f"writing {path}", PARQUET_EXTRA)
        self._frame(values).to_parquet(buffer)

    def _frame(self, values: Array) -> pd.DataFrame:
        names, number = self.columns.names, {place: k for k, place in enumerate(self.nodes)}
        beside = self.columns.frame.reset_index(drop=True)
        parts = {
            k: pd.Series(values[:, number[k]]) if k in number else beside.iloc[:, k]
            for k in range(int(self._indexed), self.columns.n_columns)
        }
        # Nodes without names are counted from 0, as everywhere else.
        label = "node" if self.transposed else "signal"
        titles = [names[k] if names else str(number.get(k, label)) for k in parts]
        frame = pd.concat(parts, axis=1).set_axis(titles, axis=1)
        return frame.set_axis(self.columns.index, axis=0) if self._indexed else frame


@dataclass(frozen=True)
class NumberFormat:
    """How numbers are written; ``thousands`` is empty where nothing separates thousands."""

    decimal: str = "."
    thousands: str = ""

    def number(self, text: str) -> float | None:
        """The number that a cell stands for, NaN if it is missing, None if the cell is text."""
        text = text.strip()
        if text.lower() in MISSING:
            return np.nan
        if self.thousands and GROUPED[self.thousands].fullmatch(text):
            text = text.replace(self.thousands, "")
        try:  # Python reads 2017_07, which is a label, as a number
            return None if "_" in text else float(text.replace(self.decimal, "."))
        except ValueError:
            return None


def columns_of_text(
    names: tuple[str, ...] | None,
    rows: Sequence[Sequence[str]],
    written: NumberFormat,
    line: Callable[[int], str] = str,
    delimiter: str = ",",
) -> Columns:
    """The columns of rows of text, in which numbers are written in some way."""
    width = len(rows[0]) if rows else len(names or ())
    cells = [[cell.strip() for cell in row] for row in rows]
    frame = pd.DataFrame(cells, columns=range(width), dtype=object)
    numbers = [[written.number(cell) for cell in row] for row in cells]
    values = np.array(numbers, dtype=np.float64).reshape(len(rows), width)  # of None, NaN
    is_text = np.array([[number is None for number in row] for row in numbers], dtype=bool)
    is_text = is_text.reshape(values.shape)
    return Columns(names, frame, values, is_text, line, None, delimiter, written.decimal)


def check_distinct(path: Path, names: Sequence[str]) -> None:
    """Refuse names that several columns have."""
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        more = f", as do {len(repeated) - 1} more" if len(repeated) > 1 else ""
        raise ValueError(
            f"{path}: more than one column has the name {repeated[0]!r}{more}; every node needs a "
            "name of its own"
        )


def read_parquet_file(path: Path) -> Columns:
    """The columns of a Parquet file, its index first."""
    pyarrow = needed("pyarrow", f"reading {path}", PARQUET_EXTRA)
    from pyarrow import parquet

    with open(path, "rb") as file:
        try:
            opened = parquet.ParquetFile(file)
            check_distinct(path, opened.schema_arrow.names)
            frame: pd.DataFrame = _unpacked(opened, path.stat().st_size).to_pandas()
        except (*DAMAGED, pyarrow.ArrowException) as error:
            raise ValueError(f"{path} cannot be read as Parquet ({error})") from error
    if frame.shape[1] == 0 or not len(frame):
        raise ValueError(f"{path} is empty")
    index = None
    if not isinstance(frame.index, pd.RangeIndex):
        index = frame.index
        frame = frame.reset_index(names="index" if index.name is None else index.name)
    kinds = pd.api.types
    values, is_text = np.full(frame.shape, np.nan), np.ones(frame.shape, dtype=bool)
    for k in range(frame.shape[1]):
        column = frame.iloc[:, k]
        if kinds.is_numeric_dtype(column) and not kinds.is_complex_dtype(column):
            values[:, k] = column.to_numpy(dtype=np.float64, na_value=np.nan)
            is_text[:, k] = False
    names = tuple(map(str, frame.columns))
    columns = Columns(names, frame, values, is_text, lambda k: f"row {k + 1}", index)
    try:
        for k in np.flatnonzero(is_text[0]).tolist():
            columns.text(k)
    except UnicodeDecodeError as error:  # text is decoded when it is looked at
        raise ValueError(f"{path} holds text that is not UTF-8 ({error})") from error
    return columns


def _unpacked(opened: Any, size: int) -> Any:
    """The table in a Parquet file, unless it repeats so much that it would fill the memory."""
    import pyarrow

    most = max(UNPACKED_AT_LEAST, UNPACKED_TIMES * size)

    def check(n_bytes: int) -> None:
        if n_bytes > most:
            raise ValueError(
                f"it declares {n_bytes} bytes of values, or more, in {size} bytes; if you trust "
                "it, write it without compression first"
            )

    for field in opened.schema_arrow:
        if pyarrow.types.is_nested(getattr(field.type, "storage_type", field.type)):
            raise ValueError(f"the column {field.name!r} holds {field.type}, not numbers or text")
    metadata = opened.metadata
    check(8 * metadata.num_rows * metadata.num_columns)
    # How long a text is, is known when it is unpacked: by few rows at a time.
    kinds = {opened.schema.column(k).physical_type for k in range(metadata.num_columns)}
    rows_at_once = ROWS_OF_TEXT if kinds & {"BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"} else 2**16
    batches, unpacked = [], 0
    for batch in opened.iter_batches(rows_at_once):
        for column in batch.columns:
            known = pyarrow.types.is_dictionary(column.type)
            unpacked += (column.dictionary_decode() if known else column).nbytes
        check(unpacked)
        batches.append(batch)
    return pyarrow.Table.from_batches(batches, opened.schema_arrow).unify_dictionaries()


def read_npy_file(path: Path) -> Columns:
    """The columns of an array, which have no names."""
    with open(path, "rb") as file:
        content = read_array(file, path.stat().st_size, str(path))
    if content.ndim != 2 or content.dtype.kind not in "biuf" or not content.size:
        raise ValueError(
            f"{path} must hold a matrix of real numbers, "
            f"got {content.dtype} of shape {content.shape}"
        )
    values = content.astype(np.float64)
    no_text = np.zeros(values.shape, dtype=bool)
    return Columns(None, pd.DataFrame(values), values, no_text, lambda k: f"row {k + 1}")


def read_cells(path: Path) -> tuple[str, list[int], list[list[str]]]:
    """What separates the columns of a file of text; its rows that are not blank, and their lines.

    The separator, a comma, a semicolon or a tab, is the one that makes most fields of the first
    line.  All rows have the same length.
    """
    with _opened(path) as file:
        try:
            # A quoted name need not end before a separator that is only tried.
            firsts = {mark: next(_rows(path, file, mark, False), (0, [])) for mark in DELIMITERS}
            delimiter = max(firsts, key=lambda mark: len(firsts[mark][1]))
            found = list(_rows(path, file, delimiter))
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 text; {SAVE_AS_UTF8}") from error
    if not found:
        raise ValueError(f"{path} is empty")
    width = len(found[0][1])
    usual = Counter(len(row) for _, row in found).most_common(1)[0][0]
    above = "; remove what stands above the names of the columns" if width < usual else ""
    for line, row in found:
        if len(row) != width:
            raise ValueError(
                f"{path}, line {line}: {len(row)} fields, the first line has {width}{above}"
            )
    return delimiter, [line for line, _ in found], [row for _, row in found]


def _rows(
    path: Path, file: IO[str], delimiter: str, strict: bool = True
) -> Iterator[tuple[int, list[str]]]:
    file.seek(0)
    reader = csv.reader(file, delimiter=delimiter, strict=strict)
    try:
        yield from ((reader.line_num, row) for row in reader if any(map(str.strip, row)))
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: not CSV ({error})") from error


def _opened(path: Path) -> IO[str]:
    """A file of text, or one of gzip that unpacks to no more than tables of measurements do."""
    # utf-8-sig, because spreadsheets put a byte-order mark first.
    if path.suffix.lower() != ".gz":
        return open(path, encoding="utf-8-sig", newline="")
    size = path.stat().st_size
    most = UNPACKED_AT_LEAST + UNPACKED_TIMES * size
    content = bytearray()
    try:
        with gzip.open(path) as packed:
            # By parts: as many bytes as there may be would be asked of the system for any file.
            while len(content) <= most and (part := packed.read(2**16)):
                content += part
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path} is not a whole file of gzip ({error})") from error
    if len(content) > most:
        raise ValueError(
            f"{path} has {size} bytes and unpacks to more than {most}; if you trust it, unpack it "
            "first"
        )
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")


def guess_format(
    path: Path,
    rows: Sequence[Sequence[str]],
    delimiter: str,
    decimal: str | None,
    thousands: str | None,
) -> tuple[NumberFormat, list[str]]:
    """How the numbers of a file are written, and what to tell of it.

    What the user says is not guessed.  A comma in a number is a decimal mark unless every comma is
    followed by groups of three digits; where that leaves both readings open, the user is asked.
    """
    for option, mark in (("--decimal", decimal), ("--thousands", thousands)):
        if mark is not None and mark not in (GROUPED if option == "--thousands" else (".", ",")):
            raise ValueError(f"{option} must be a point or a comma, got {mark!r}")
    if decimal is not None and decimal == thousands:
        raise ValueError(f"--decimal and --thousands cannot both be {decimal!r}")
    if decimal == delimiter:
        raise ValueError(
            f"{path}: --decimal says that commas mark decimals, but they separate the columns"
        )
    cells = (cell.strip() for row in rows[:ROWS_LOOKED_AT] for cell in row)
    numbers = [cell for cell in cells if NUMERIC.fullmatch(cell)]
    if decimal is None:
        decimal = _decimal_mark(path, numbers, delimiter, thousands)
    if thousands is None:
        thousands = _thousands_mark(numbers, decimal)
    written = NumberFormat(decimal, thousands)
    usual = "" if decimal == "." else decimal
    told = []
    for mark, what in ((usual, "marks decimals"), (thousands, "separates thousands")):
        seen = next((text for text in numbers if mark and mark in text), None)
        if seen is not None:
            told.append(f"{mark!r} {what} ({seen!r} is read as {written.number(seen):.10g})")
    return written, told


def _decimal_mark(path: Path, numbers: Sequence[str], delimiter: str, thousands: str | None) -> str:
    with_comma = [text for text in numbers if "," in text]
    if thousands == "." or any(text.count(".") > 1 for text in numbers):  # "1.234.567"
        return ","
    if not with_comma or thousands == ",":
        return "."
    if any(not GROUPED[","].fullmatch(text) for text in with_comma):
        # "1,5", or "1.234,5"; a point beside it that is no separator of thousands decides.
        points = [text for text in numbers if "." in text and not GROUPED["."].fullmatch(text)]
        return "." if points else ","
    certain = any("." in text for text in numbers) or any(text.count(",") > 1 for text in numbers)
    if certain or delimiter == ",":
        return "."
    whole, part = with_comma[0].split(",")
    raise ValueError(
        f"{path}: {with_comma[0]!r} may be {whole}{part} or {whole}.{part}; say --thousands , or "
        "--decimal ,"
    )


def _thousands_mark(numbers: Sequence[str], decimal: str) -> str:
    for mark in (",", ".", *SPACES):
        with_mark = [text for text in numbers if mark in text]
        if mark != decimal and with_mark:
            grouped = all(GROUPED[mark].fullmatch(text) for text in with_mark)
            return mark if grouped else ""
    return ""
