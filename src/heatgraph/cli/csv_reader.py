"""Tables in text files: how they are written, and what is in them."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from heatgraph.arrays import Array
from heatgraph.files import write_atomically

TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
PARQUET = (".parquet", ".pq")
NPY = ".npy"


def kind_of(path: Path) -> str:
    """The suffix that says what a file holds, such as .csv or .csv.gz."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() + suffix if suffix == ".gz" else suffix


def check_output(path: Path, force: bool) -> None:
    """Refuse a path that no table can be written to, before there is one."""
    if path.is_dir():
        raise IsADirectoryError(f"--output must name a file, and {path} is a folder")
    if kind_of(path) not in (*TEXT, *PARQUET, NPY):
        raise ValueError(
            f"--output: a table is written as {', '.join((*TEXT[:4], PARQUET[0], NPY))}, not as "
            f"{kind_of(path) or 'no suffix'}, got {path}"
        )
    if path.exists() and not force:
        raise FileExistsError(f"{path} is there already; --force replaces it")


@dataclass(frozen=True, eq=False)
class Origin:
    """What a file has beside the values of its signals.

    ``names`` are those of its columns of values.  ``beside`` are the columns that label its rows:
    the place, the name and the cells of each; ``index`` is the index of a data frame.
    """

    names: tuple[str, ...] | None = None
    index: Any = None
    beside: tuple[tuple[int, str | None, Any], ...] = ()
    transposed: bool = False
    delimiter: str = ","
    decimal: str = "."

    def with_rows(self, rows: list[int]) -> Origin:
        """The same with some of its rows."""
        beside = tuple((at, name, pd.Series(cells).iloc[rows]) for at, name, cells in self.beside)
        index = None if self.index is None else self.index[rows]
        return replace(self, beside=beside, index=index)

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
        delimiter = self.delimiter if self.delimiter in ",;" else ","
        if delimiter == self.decimal:
            delimiter = ";"
        text: str = self._frame(values).to_csv(
            sep="\t" if kind.startswith(".tsv") else delimiter,
            decimal=self.decimal,
            header=self.names is not None,
            index=self.index is not None,
        )
        return text

    def _parquet(self, path: Path, values: Array, buffer: io.BytesIO) -> None:
        try:
            self._frame(values).to_parquet(buffer)
        except ImportError as error:
            raise ImportError(
                f"{path}: Parquet is written by pyarrow, which is not installed; "
                'install it with pip install "heatgraph[parquet]"'
            ) from error

    def _frame(self, values: Array) -> pd.DataFrame:
        # Nodes without names are counted from 0, as everywhere else.
        names = self.names or tuple(map(str, range(values.shape[1])))
        frame = pd.DataFrame(values, columns=list(names))
        for at, name, cells in self.beside:
            title = ("node" if self.transposed else "signal") if name is None else name
            frame.insert(at, title, pd.Series(cells).to_numpy(), allow_duplicates=True)
        return frame if self.index is None else frame.set_axis(self.index, axis=0)


DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
# What a file of gzip may unpack to: so many bytes, and so many times its own.
UNPACKED_AT_LEAST, UNPACKED_TIMES = 2**24, 200
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


@dataclass(frozen=True, eq=False)
class Cells:
    """The rows of a file that are not blank, as text, all of one length, and their lines."""

    rows: list[list[str]]
    lines: list[int]
    delimiter: str


@dataclass(frozen=True)
class NumberFormat:
    """How numbers are written; ``thousands`` is empty where nothing separates thousands."""

    decimal: str = "."
    thousands: str = ""

    def number(self, text: str) -> float:
        """The number that a cell stands for, NaN if it stands for a missing one."""
        text = text.strip()
        if text.lower() in MISSING:
            return np.nan
        if "_" in text:  # Python reads 2017_07 as a number
            raise ValueError(text)
        if self.thousands and GROUPED[self.thousands].fullmatch(text):
            text = text.replace(self.thousands, "")
        return float(text.replace(",", ".") if self.decimal == "," else text)


def read_cells(path: Path) -> Cells:
    """Read a file whose columns are separated by commas, semicolons or tabs.

    The separator is the one that makes most fields of the first line.
    """
    found = {mark: len(_rows(path, mark, first_only=True).rows[0]) for mark in DELIMITERS}
    delimiter = max(found, key=lambda mark: found[mark])
    cells = _rows(path, delimiter)
    width = len(cells.rows[0])
    usual = Counter(map(len, cells.rows)).most_common(1)[0][0]
    above = "; remove what stands above the names of the columns" if width < usual else ""
    for row, line in zip(cells.rows, cells.lines, strict=True):
        if len(row) != width:
            raise ValueError(
                f"{path}, line {line}: {len(row)} fields, the first line has {width}{above}"
            )
    return cells


def _rows(path: Path, delimiter: str, *, first_only: bool = False) -> Cells:
    rows, lines = [], []
    with _opened(path) as file:
        # A quoted name need not end before a separator that is only tried.
        reader = csv.reader(file, delimiter=delimiter, strict=not first_only)
        try:
            for row in reader:
                if any(cell.strip() for cell in row):
                    rows.append(row)
                    lines.append(reader.line_num)
                    if first_only:
                        break
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 text; {SAVE_AS_UTF8}") from error
        except csv.Error as error:
            raise ValueError(f"{path}, line {reader.line_num}: not CSV ({error})") from error
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise ValueError(f"{path} is not a whole file of gzip ({error})") from error
    if not rows:
        raise ValueError(f"{path} is empty")
    return Cells(rows, lines, delimiter)


class _Unpacked(gzip.GzipFile):
    """A file of gzip that may not unpack to much more than tables of measurements do."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self.path, self.size, self.unpacked = path, path.stat().st_size, 0

    def read1(self, size: int = -1) -> bytes:
        content = super().read1(size)
        self.unpacked += len(content)
        if self.unpacked > UNPACKED_AT_LEAST + UNPACKED_TIMES * self.size:
            raise ValueError(
                f"{self.path} has {self.size} bytes and unpacks to more than {self.unpacked - 1}; "
                "if you trust it, unpack it first"
            )
        return content


def _opened(path: Path) -> IO[str]:
    # utf-8-sig, because spreadsheets put a byte-order mark first.
    if path.suffix.lower() == ".gz":
        return io.TextIOWrapper(_Unpacked(path), encoding="utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")


def is_number(text: str, written: NumberFormat) -> bool:
    """Whether a cell is a number, or stands for a missing one."""
    try:
        written.number(text)
    except ValueError:
        return False
    return True


def to_numbers(cells: Sequence[str], written: NumberFormat) -> tuple[Array, list[int]]:
    """The numbers of a column, NaN where there is none, and the places of cells that are text."""
    values, text = np.full(len(cells), np.nan), []
    for k, cell in enumerate(cells):
        try:
            values[k] = written.number(cell)
        except ValueError:
            text.append(k)
    return values, text


def guess_format(
    path: Path, cells: Cells, decimal: str | None, thousands: str | None
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
    if decimal == cells.delimiter:
        raise ValueError(
            f"{path}: --decimal says that commas mark decimals, but they separate the columns"
        )
    numbers = [
        cell.strip()
        for row in cells.rows[:ROWS_LOOKED_AT]
        for cell in row
        if NUMERIC.fullmatch(cell.strip())
    ]
    if decimal is None:
        decimal = _decimal_mark(path, numbers, cells.delimiter, thousands)
    if thousands is None:
        thousands = _thousands_mark(numbers, decimal)
    return NumberFormat(decimal, thousands), _told(numbers, decimal, thousands)


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


def _told(numbers: Sequence[str], decimal: str, thousands: str) -> list[str]:
    told = []
    written = NumberFormat(decimal, thousands)
    usual = "" if decimal == "." else decimal
    for mark, what in ((usual, "marks decimals"), (thousands, "separates thousands")):
        seen = next((text for text in numbers if mark and mark in text), None)
        if seen is not None:
            told.append(f"{mark!r} {what} ({seen!r} is read as {written.number(seen):.10g})")
    return told
