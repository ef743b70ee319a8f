"""Signals from a table: CSV, Parquet or NPY, with a word on everything that was decided."""

from __future__ import annotations

import re
import shlex
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heatgraph.cli.csv_reader import (
    DELIMITERS,
    UNPACKED_AT_LEAST,
    UNPACKED_TIMES,
    delimiter_of,
    has_header,
    is_number,
    number_reader,
    rows_of,
)
from heatgraph.cli.table_format import TEXT, Origin, kind_of
from heatgraph.cli.wording import counted
from heatgraph.files import read_array
from heatgraph.graph.storage import NOT_XML

__all__ = ["SignalTable", "TableOptions", "label_column", "read_pairs", "read_signals"]

INDEX_NAME = re.compile(
    r"|id|ids|index|idx|time|timestamp|date|datetime|year|month|day|hour|signal|sample|row"
    r"|node|nodes|name|names|unnamed: 0|.*[_ ](id|time|date|at)",
    re.IGNORECASE,
)


TICKS = 5  # steps of one size that are no chance
EVEN = 1e-6  # of a step, relatively: what rounding of times in a file may leave


@dataclass(frozen=True)
class TableOptions:
    """How the user wants a table read; None leaves it to the content.

    ``index_column`` is a name, or "none"; ``nodes`` are the columns that a model knows.
    """

    index_column: str | None = None
    transpose: bool = False
    header: bool | None = None
    decimal: str = "."
    nodes: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class SignalTable:
    """Signals in rows, nodes in columns; ``notes`` say what was decided on the way.

    ``order`` are the places of the nodes in the table that is the ``origin``, if others.
    """

    values: NDArray[np.float64]
    names: tuple[str, ...] | None
    labels: tuple[str, ...] | None
    notes: tuple[str, ...]
    origin: Origin = field(default_factory=Origin)
    order: tuple[int, ...] | None = None

    @property
    def frame(self) -> pd.DataFrame | NDArray[np.float64]:
        """What an estimator takes: a data frame if the nodes have names."""
        if self.names is None:
            return self.values
        return pd.DataFrame(self.values, columns=list(self.names))

    @property
    def n_nodes(self) -> int:
        return int(self.values.shape[1])

    def label(self, signal: int) -> str:
        return str(signal) if self.labels is None else self.labels[signal]

    def give_back(self, path: Path, values: NDArray[np.float64]) -> None:
        """Write other values of these signals (n_signals, n_nodes) as the table they came from."""
        back = np.array(values)
        if self.order is not None:
            back[:, self.order] = values
        self.origin.write(path, back)


@dataclass(eq=False)
class _Raw:
    """A table before it is known which column is a node.

    ``side`` is the column that may hold labels, as text, at position ``at``; ``values`` are the
    others.
    """

    path: Path
    names: list[str] | None
    values: NDArray[np.float64]
    side: list[str] | None
    at: int
    line: Callable[[int], str]
    notes: list[str] = field(default_factory=list)
    indexed: bool = False  # the file itself says that the side column labels the rows
    index: Any = None  # the side column as the file has it
    delimiter: str = ","

    @property
    def side_name(self) -> str:
        return "" if self.names is None else self.names[self.at]


def read_signals(path: Path, options: TableOptions) -> SignalTable:
    """Read a table by its suffix, or raise a ValueError that names the file and the column."""
    readers = dict.fromkeys(TEXT, _read_csv)
    readers |= {".parquet": _read_parquet, ".pq": _read_parquet, ".npy": _read_npy}
    suffix = kind_of(path)
    if suffix not in readers:
        raise ValueError(
            f"{path}: signals are read from {', '.join(readers)}, not from {suffix or 'no suffix'}"
        )
    raw = readers[suffix](path, options)
    table = _settle(raw, options)
    return _check(path, table)


def _read_csv(path: Path, options: TableOptions) -> _Raw:
    delimiter = delimiter_of(path)
    rows = rows_of(path, delimiter)
    line, first = next(rows, (0, []))
    if not first:
        raise ValueError(f"{path} is empty")
    number = number_reader(delimiter, options.decimal)
    titled = has_header(first, number) if options.header is None else options.header
    names = [cell.strip() for cell in first] if titled else None
    at = _side_position(path, names, options)
    side: list[str] = []
    lines = array("q")
    values = array("d")

    def take(line: int, row: list[str]) -> None:
        if len(row) != len(first):
            raise ValueError(
                f"{path}, line {line}: {len(row)} fields, the first line has {len(first)}"
            )
        side.append(row.pop(at).strip())
        lines.append(line)
        try:
            values.extend(map(number, row))
        except ValueError:
            raise _not_a_number(path, line, row, at, names, number, options.decimal) from None

    if not titled:
        take(line, list(first))
    for line, row in rows:
        take(line, row)
    if not side:
        raise ValueError(f"{path} has a first line of names and no signal below it")
    raw = _Raw(
        path,
        names,
        np.frombuffer(values, dtype=np.float64).reshape(len(side), len(first) - 1),
        side,
        at,
        lambda k: f"line {lines[k]}",
        index=pd.Series(side, name="" if names is None else names[at], dtype=object),
        delimiter=delimiter,
    )
    raw.notes.append(f"{path} is separated by {DELIMITERS[delimiter]}")
    if not titled and options.header is None:
        raw.notes.append("its first line holds numbers, so the nodes have no names")
    return raw


def _side_position(path: Path, names: list[str] | None, options: TableOptions) -> int:
    wanted = options.index_column
    if wanted is None or wanted == "none":
        return 0
    if names is None or wanted not in names:
        raise ValueError(
            f"{path} has no column {wanted!r} for --index-column; "
            + ("its columns have no names" if names is None else f"it has {_some(names)}")
        )
    return names.index(wanted)


def _not_a_number(
    path: Path,
    line: int,
    row: Sequence[str],
    at: int,
    names: list[str] | None,
    number: Callable[[str], float],
    decimal: str,
) -> ValueError:
    k = next(k for k, cell in enumerate(row) if not is_number(cell, number))
    column = k + (k >= at)
    named = f"column {column + 1}" if names is None else f"column {names[column]!r}"
    hint = "; leave a value that is not known empty"
    if names is not None:
        hint += f", or say --index-column {shlex.quote(names[column])} if it labels the signals"
    if decimal == "." and re.fullmatch(r"\s*-?\d+,\d+\s*", row[k]):
        hint = "; if commas mark decimals, say --decimal ,"
    return ValueError(f"{path}, line {line}, {named}: {row[k]!r} is not a number{hint}")


def _read_parquet(path: Path, options: TableOptions) -> _Raw:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ValueError(
            f"{path}: Parquet is read by pyarrow, which is not installed; "
            'install it with pip install "heatgraph[parquet]"'
        ) from error
    with open(path, "rb") as file:
        try:
            _check_values(parquet.ParquetFile(file).metadata, path.stat().st_size)
            content = parquet.read_table(file)
            _check_distinct(path, content.column_names)
            frame: pd.DataFrame = content.to_pandas()
        except (ValueError, OSError, TypeError) as error:
            raise ValueError(f"{path} cannot be read as Parquet ({error})") from error
    if frame.shape[1] == 0 or not len(frame):
        raise ValueError(f"{path} is empty")
    index, indexed = frame.index, not isinstance(frame.index, pd.RangeIndex)
    if indexed:
        name = "index" if frame.index.name is None else frame.index.name
        frame = frame.reset_index(names=name)
    names = [str(name) for name in frame.columns]
    at = _side_position(path, names, options)
    columns = [_floats(path, names[k], frame.iloc[:, k]) for k in range(len(names)) if k != at]
    values = np.column_stack(columns) if columns else np.empty((len(frame), 0))
    side = ["" if pd.isna(cell) else str(cell) for cell in frame.iloc[:, at]]
    return _Raw(
        path,
        names,
        values,
        side,
        at,
        lambda k: f"row {k + 1}",
        indexed=indexed,
        index=index if indexed and at == 0 else frame.iloc[:, at],
    )


def _check_values(metadata: Any, size: int) -> None:
    """Refuse a file whose columns repeat so much that it would fill the memory."""
    declared = 8 * metadata.num_rows * metadata.num_columns
    if declared > max(UNPACKED_AT_LEAST, UNPACKED_TIMES * size):
        raise ValueError(
            f"it declares {declared} bytes of values in {size} bytes; if you trust it, write it "
            "without compression first"
        )


def _floats(path: Path, name: str, column: pd.Series[Any]) -> NDArray[np.float64]:
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_complex_dtype(column):
        raise ValueError(
            f"{path}, column {name!r}: {column.dtype} is not a type of numbers; if it labels the "
            f"signals, say --index-column {shlex.quote(name)}"
        )
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _read_npy(path: Path, options: TableOptions) -> _Raw:
    if options.index_column not in (None, "none"):
        raise ValueError(f"{path}: an array has no column names, so --index-column cannot be given")
    with open(path, "rb") as file:
        content = read_array(file, path.stat().st_size, str(path))
    if content.ndim != 2 or content.dtype.kind not in "biuf" or not content.size:
        raise ValueError(
            f"{path} must hold a matrix of real numbers, "
            f"got {content.dtype} of shape {content.shape}"
        )
    values = content.astype(np.float64)
    return _Raw(path, None, values, None, 0, lambda k: f"row {k + 1}")


def _settle(raw: _Raw, options: TableOptions) -> SignalTable:
    """Decide whether the side column holds labels, and which way round the table is."""
    names, values, labels = raw.names, raw.values, None
    origin = Origin(transposed=options.transpose, delimiter=raw.delimiter, decimal=options.decimal)
    if raw.side is not None:
        number = number_reader("", options.decimal)
        if _is_index(raw, options, number):
            labels = tuple(raw.side)
            names = None if names is None else names[: raw.at] + names[raw.at + 1 :]
            beside = isinstance(raw.index, pd.Index)
            origin = replace(origin, index=raw.index, at=None if beside else raw.at)
        else:
            values = np.insert(values, raw.at, _numbers(raw, number), axis=1)
    across = None if names is None else tuple(names)
    origin = replace(origin, names=across)
    if not options.transpose and options.nodes is None and options.index_column is None:
        raw.notes += _doubt_clocks(raw, values)
    if options.transpose:
        return SignalTable(values.T, labels, across, tuple(raw.notes), origin)
    return SignalTable(values, across, labels, tuple(raw.notes), origin)


def _is_index(raw: _Raw, options: TableOptions, number: Callable[[str], float]) -> bool:
    """Whether the side column labels the rows; says so in the notes."""
    name, side = raw.side_name, raw.side or []
    shown = f"column {name!r}" if name else "first column"
    if options.index_column is not None:
        return options.index_column != "none"
    if options.nodes is not None and not options.transpose and name in options.nodes:
        return False
    told = f"the {shown} labels the {'nodes' if options.transpose else 'signals'}"
    if not options.transpose:
        told += " and is not a node (--index-column none would make it one)"
    unread = [cell for cell in side if not is_number(cell, number)]
    if raw.indexed or (unread and (2 * len(unread) >= len(side) or _are_dates(side))):
        raw.notes.append(told)
        return True
    named = raw.names is not None and INDEX_NAME.fullmatch(name) is not None
    if not unread and named and _counts(side, number):
        raw.notes.append(told)
        return True
    if not unread and not options.transpose and options.nodes is None:
        raw.notes += _doubt(raw, number)
    return False


def _doubt(raw: _Raw, number: Callable[[str], float]) -> list[str]:
    """A word on a first column that was taken for a node and looks like numbers of rows."""
    numbers = np.array([number(cell) for cell in raw.side or []])
    if len(numbers) < 3 or not (np.diff(numbers) > 0).all() or (numbers % 1.0).any():
        return []
    if raw.names is None:
        remedy = "give the columns names and name it in --index-column"
    else:
        remedy = f"say --index-column {shlex.quote(raw.side_name)}"
    return [
        "the first column holds whole numbers that increase, and was taken for a node; if it "
        f"labels the signals, {remedy}"
    ]


def _doubt_clocks(raw: _Raw, values: NDArray[np.float64]) -> list[str]:
    """A word on columns that were taken for nodes and rise by the same step at every signal."""
    with np.errstate(all="ignore"):  # what is infinite is refused later
        steps = np.diff(values, axis=0)
    if len(steps) < TICKS or any("was taken for a node" in note for note in raw.notes):
        return []
    least, most = steps.min(axis=0), steps.max(axis=0)
    clocks = np.flatnonzero((least > 0.0) & (most <= (1.0 + EVEN) * least))
    if not clocks.size:
        return []
    k = int(clocks[0])
    names = raw.names or []
    if len(names) > values.shape[1]:  # one of them labels the signals
        names = names[: raw.at] + names[raw.at + 1 :]
    which, remedy = f"column {k + 1}", "take it out"
    if names:
        which, remedy = f"column {names[k]!r}", f"say --index-column {shlex.quote(names[k])}"
    return [
        f"the {which} rises in even steps, and was taken for a node; if it labels the signals, "
        f"{remedy}"
    ]


def label_column(
    path: Path, names: list[str], side: list[str], options: TableOptions
) -> tuple[str | None, list[str]]:
    """The name of the first column of a file if it labels the signals, and what to say of it."""
    raw = _Raw(path, names, np.empty((len(side), 0)), side, 0, lambda k: f"row {k + 1}")
    named = INDEX_NAME.fullmatch(names[0]) is not None
    found = _is_index(raw, options, number_reader("", ".")) if named else False
    if not named and all(is_number(cell, float) for cell in side):
        raw.notes += _doubt(raw, float)
    return names[0] if found else None, raw.notes


def _are_dates(cells: Sequence[str]) -> bool:
    return bool(pd.to_datetime(pd.Series(cells), errors="coerce", format="ISO8601").notna().all())


def _counts(cells: Sequence[str], number: Callable[[str], float]) -> bool:
    """Different numbers, in order or whole: what ids and times are."""
    numbers = np.array([number(cell) for cell in cells])
    if not np.isfinite(numbers).all() or len(np.unique(numbers)) < len(numbers):
        return False
    steps = np.diff(numbers)
    return bool((steps > 0).all() or (steps < 0).all() or (numbers == np.rint(numbers)).all())


def _numbers(raw: _Raw, number: Callable[[str], float]) -> NDArray[np.float64]:
    cells = raw.side or []
    bad = next((k for k, cell in enumerate(cells) if not is_number(cell, number)), None)
    if bad is not None:
        named = f"column {raw.side_name!r}" if raw.names is not None else "column 1"
        raise ValueError(
            f"{raw.path}, {raw.line(bad)}, {named}: {cells[bad]!r} is not a number; mend it, or "
            "name the column in --index-column if it labels the signals"
        )
    return np.array([number(cell) for cell in cells])


def _check(path: Path, table: SignalTable) -> SignalTable:
    """Nodes with usable names, no infinity, something observed at every node."""
    n_signals, n_nodes = table.values.shape
    if table.names is not None:
        _check_distinct(path, table.names)
        for k, name in enumerate(table.names):
            if not name or NOT_XML.search(name):
                raise ValueError(f"{path}: node {k + 1} has no printable name, got {name!r}")
    if n_nodes < 2:
        raise ValueError(f"{path} has {counted(n_nodes, 'node')}; a graph needs at least 2")

    def column(k: int) -> str:
        return f"node {k + 1}" if table.names is None else f"column {table.names[k]!r}"

    infinite = np.argwhere(np.isinf(table.values))
    if len(infinite):
        signal, node = infinite[0].tolist()
        raise ValueError(
            f"{path}, {column(node)}: signal {table.label(signal)!r} is infinite; leave a value "
            "that is not known empty"
        )
    missing = np.isnan(table.values)
    notes = list(table.notes)
    notes.append(f"{counted(n_signals, 'signal')} on {counted(n_nodes, 'node')}")
    if missing.any():
        notes.append(
            f"{int(missing.sum())} of {missing.size} values are missing and taken as not observed"
        )
    return replace(table, notes=tuple(notes))


def _check_distinct(path: Path, names: Sequence[str]) -> None:
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        more = f", as do {len(repeated) - 1} more" if len(repeated) > 1 else ""
        raise ValueError(
            f"{path}: more than one column has the name {repeated[0]!r}{more}; every node needs a "
            "name of its own"
        )


def _some(names: Sequence[str], at_most: int = 8) -> str:
    text = ", ".join(map(repr, names[:at_most]))
    return text if len(names) <= at_most else f"{text}, ..."


def read_pairs(path: Path, names: Sequence[str]) -> list[tuple[str, str]]:
    """The first two columns of a list of edges, after a line of titles if there is one."""
    known = set(names)
    pairs: list[tuple[str, str]] = []
    for k, (line, row) in enumerate(rows_of(path, delimiter_of(path))):
        if len(row) < 2:
            raise ValueError(f"{path}, line {line}: an edge has two columns of node names")
        ends = row[0].strip(), row[1].strip()
        unknown = [end for end in ends if end not in known]
        if k == 0 and len(unknown) == 2:
            continue
        if unknown:
            raise ValueError(f"{path}, line {line}: {unknown[0]!r} is not a node of the signals")
        pairs.append(ends)
    if not pairs:
        raise ValueError(f"{path} names no pair of nodes of the signals")
    return pairs
