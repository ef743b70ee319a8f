"""Rows and numbers of a file of text whose columns are separated by some mark."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np

__all__ = [
    "DELIMITERS",
    "SAVE_AS_UTF8",
    "delimiter_of",
    "has_header",
    "is_number",
    "number_reader",
    "rows_of",
]

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
# What a file of gzip may unpack to: so many bytes, and so many times its own.
UNPACKED_AT_LEAST, UNPACKED_TIMES = 2**24, 200
MISSING = {"", "na", "n/a", "nan", "null", "none"}
SAVE_AS_UTF8 = (
    'save it as "CSV UTF-8" in the spreadsheet, or convert it, such as by '
    "iconv -f latin1 -t utf-8 OLD > NEW"
)


def delimiter_of(path: Path) -> str:
    """The one that makes most fields of the first line."""
    # Not strictly: a quoted name ends before a delimiter, which it may not be.
    counts = {d: len(next(rows_of(path, d, strict=False), (0, []))[1]) for d in DELIMITERS}
    return max(counts, key=lambda d: counts[d])


def rows_of(path: Path, delimiter: str, strict: bool = True) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, with their line numbers."""
    with _opened(path) as file:
        reader = csv.reader(file, delimiter=delimiter, strict=strict)
        try:
            for row in reader:
                if any(cell.strip() for cell in row):
                    yield reader.line_num, row
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 text; {SAVE_AS_UTF8}") from error
        except csv.Error as error:
            raise ValueError(f"{path}, line {reader.line_num}: not CSV ({error})") from error
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise ValueError(f"{path} is not a whole file of gzip ({error})") from error


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


def number_reader(delimiter: str, decimal: str) -> Callable[[str], float]:
    """From text to a number; what stands for a missing value is NaN."""
    if decimal not in (".", ","):
        raise ValueError(f"the decimal mark must be '.' or ',', got {decimal!r}")
    if decimal == delimiter:
        raise ValueError("the decimal mark is a comma, and so is what separates the columns")

    def number(text: str) -> float:
        if "_" in text:  # Python reads 2017_07 as a number
            raise ValueError
        try:
            return float(text.replace(",", ".") if decimal == "," else text)
        except ValueError:
            if text.strip().lower() in MISSING:
                return np.nan
            raise

    return number


def is_number(text: str, number: Callable[[str], float]) -> bool:
    """Whether it is one, or stands for a missing one."""
    try:
        number(text)
    except ValueError:
        return False
    return True


def has_header(first: Sequence[str], number: Callable[[str], float]) -> bool:
    """Names, unless all are numbers that no one would name nodes by."""
    cells = [cell.strip() for cell in first]
    if not all(cell and is_number(cell, number) for cell in cells):
        return True
    return all(cell.isdecimal() for cell in cells) and len(set(cells)) == len(cells)
