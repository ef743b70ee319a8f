"""Signals from a table: CSV, Parquet or NPY, with a word on everything that was decided."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from heatgraph.arrays import Array
from heatgraph.cli.console import counted
from heatgraph.cli.csv_reader import (
    DELIMITERS,
    TEXT,
    UNPACKED_AT_LEAST,
    UNPACKED_TIMES,
    NumberFormat,
    Origin,
    guess_format,
    is_number,
    kind_of,
    read_cells,
    to_numbers,
)
from heatgraph.cli.options import TableOptions
from heatgraph.cli.table_layout import (
    LABEL_NAME,
    Columns,
    Layout,
    ask_about_clocks,
    constant_columns,
    coordinate_pair,
    gaps_marked,
    layout_of,
    some_of,
    summaries,
)
from heatgraph.estimators.time_series import TimeSeries, with_past
from heatgraph.files import read_array
from heatgraph.graph.storage import NOT_XML

# What reading a damaged Parquet file ends in, besides the errors of pyarrow.
DAMAGED = (ValueError, OSError, TypeError, LookupError, AttributeError)
FEW_UNITS = 3  # rows that a table must have for a second line of text to be one of names


@dataclass(frozen=True, eq=False)
class SignalTable:
    """Signals in rows, nodes in columns.

    ``notes`` say what was decided on the way, ``warnings`` what may be wrong with the values.
    ``order`` are the places of the nodes in the table that is the ``origin``, if others.
    ``coordinates`` has one row per node, where the table has them.  ``groups`` says which signals
    belong together; ``series`` if the values of earlier signals are beside the present ones.
    """

    values: Array
    names: tuple[str, ...] | None
    labels: tuple[str, ...] | None
    notes: tuple[str, ...]
    origin: Origin = field(default_factory=Origin)
    order: tuple[int, ...] | None = None
    warnings: tuple[str, ...] = ()
    coordinates: pd.DataFrame | None = None
    groups: tuple[str, ...] | None = None
    series: TimeSeries | None = None

    @property
    def frame(self) -> pd.DataFrame | Array:
        """What an estimator takes: a data frame if the nodes have names."""
        if self.names is None:
            return self.values
        return pd.DataFrame(self.values, columns=list(self.names))

    @property
    def n_nodes(self) -> int:
        return int(self.values.shape[1])

    def label(self, signal: int) -> str:
        return str(signal) if self.labels is None else self.labels[signal]

    def with_past(self, lags: Sequence[int]) -> SignalTable:
        """The values of so many signals before, of the same group, beside the present ones."""
        if not lags:
            return self
        groups = self.groups or ("",) * len(self.values)
        series, rows = with_past(self.frame, groups, lags)

        def some(texts: tuple[str, ...] | None) -> tuple[str, ...] | None:
            return None if texts is None else tuple(texts[k] for k in rows)

        steps = ", ".join(map(str, series.lags[1:]))
        return replace(
            self,
            values=np.asarray(series.signals, dtype=np.float64),
            names=None if self.names is None else tuple(series.signals.columns),
            labels=some(self.labels),
            notes=(
                *self.notes,
                f"beside each are the values of lag {steps}, as nodes of their own",
            ),
            coordinates=None,
            groups=some(self.groups),
            series=series,
        )

    def give_back(self, path: Path, values: Array) -> None:
        """Write other values of these signals (n_signals, n_nodes) as the table they came from."""
        back = np.array(values)
        if self.order is not None:
            back[:, self.order] = values
        self.origin.write(path, back)


@dataclass(eq=False)
class _Raw:
    """A table before it is known which columns are nodes.

    ``frame`` are its columns as a typed file has them, ``index`` the index that such a file says.
    """

    columns: Columns
    line: Callable[[int], str]
    notes: list[str] = field(default_factory=list)
    frame: pd.DataFrame | None = None
    index: Any = None
    origin: Origin = field(default_factory=Origin)
    groups: tuple[str, ...] | None = None


def read_signals(path: Path, options: TableOptions) -> SignalTable:
    """Read a table by its suffix, or raise a ValueError that names the file and the column."""
    readers = dict.fromkeys(TEXT, _read_text)
    readers |= {".parquet": _read_parquet, ".pq": _read_parquet, ".npy": _read_npy}
    suffix = kind_of(path)
    if suffix not in readers:
        raise ValueError(
            f"{path}: signals are read from {', '.join(readers)}, not from {suffix or 'no suffix'}"
        )
    raw = readers[suffix](path, options)
    if options.groups is not None:
        raw = _without_groups(path, raw, options)
    return _check(path, _settle(path, raw, options), options)


def _read_text(path: Path, options: TableOptions) -> _Raw:
    cells = read_cells(path)
    written, notes = guess_format(path, cells, options.decimal, options.thousands)
    rows = cells.rows
    names, n_titles, told = _titles(rows, written, options.header)
    if len(rows) == n_titles:
        raise ValueError(f"{path} has a first line of names and no signal below it")
    text = [[row[k].strip() for row in rows[n_titles:]] for k in range(len(rows[0]))]
    read = [to_numbers(column, written) for column in text]
    columns = Columns(names, text, [values for values, _ in read], [where for _, where in read])
    # A separator at the end of each line makes one more column, without a name or a cell.
    nothing = [names is not None and not names[k] and not any(text[k]) for k in range(len(text))]
    if any(nothing):
        columns = columns.only([k for k, is_nothing in enumerate(nothing) if not is_nothing])
        told = [*told, f"{counted(sum(nothing), 'empty column')} without a name left out"]
    separated = f"{path} is separated by {DELIMITERS[cells.delimiter]}"
    return _Raw(
        columns,
        lambda k: f"line {cells.lines[k + n_titles]}",
        [separated, *notes, *told],
        origin=Origin(delimiter=cells.delimiter, decimal=written.decimal),
    )


def _titles(
    rows: Sequence[Sequence[str]], written: NumberFormat, given: bool | None
) -> tuple[tuple[str, ...] | None, int, list[str]]:
    """The names of the columns, on how many lines they are, and what to tell of it."""
    first = tuple(cell.strip() for cell in rows[0])
    if given is None and not _are_names(first, written):
        return None, 0, ["its first line holds numbers, so the nodes have no names"]
    if given is False:
        return None, 0, []
    if len(rows) < FEW_UNITS or not _are_titles(rows[1], rows[2], written):
        return first, 1, []
    second = tuple(cell.strip() for cell in rows[1])
    values = [k for k, cell in enumerate(rows[2]) if is_number(cell, written)]
    if _distinct([first[k] for k in values]):
        units = next(second[k] for k in values if second[k])
        return first, 2, [f"its second line ({units!r}, ...) was taken for units and left out"]
    if _distinct([second[k] for k in values]):
        names = tuple(b or a for a, b in zip(first, second, strict=True))
        return names, 2, [f"the names of the columns are on its second line ({names[values[0]]!r})"]
    names = tuple(f"{a} {b}".strip() for a, b in zip(first, second, strict=True))
    return names, 2, [f"its first two lines are the names ({names[values[0]]!r})"]


def _are_names(cells: Sequence[str], written: NumberFormat) -> bool:
    """Names, unless all are numbers that no one would name nodes by."""
    if not all(cell and is_number(cell, written) for cell in cells):
        return True
    return all(cell.isdecimal() for cell in cells) and _distinct(cells)


def _are_titles(second: Sequence[str], third: Sequence[str], written: NumberFormat) -> bool:
    """Whether the second line has text wherever the third has numbers.

    A dash is a unit here, as of a share, not a gap.
    """
    above = [a.strip() for a, b in zip(second, third, strict=True) if is_number(b, written) and b]
    return any(above) and not any(cell.strip("-?") and is_number(cell, written) for cell in above)


def _distinct(cells: Sequence[str]) -> bool:
    return len(set(cells)) == len(cells) and all(cells)


def _read_parquet(path: Path, options: TableOptions) -> _Raw:
    try:
        import pyarrow
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
        except (*DAMAGED, pyarrow.ArrowException) as error:
            raise ValueError(f"{path} cannot be read as Parquet ({error})") from error
    if frame.shape[1] == 0 or not len(frame):
        raise ValueError(f"{path} is empty")
    index = None
    if not isinstance(frame.index, pd.RangeIndex):
        index = frame.index
        frame = frame.reset_index(names="index" if index.name is None else index.name)
    try:
        columns = _typed_columns(frame, index is not None)
    except UnicodeDecodeError as error:  # text is decoded when it is looked at
        raise ValueError(f"{path} holds text that is not UTF-8 ({error})") from error
    return _Raw(columns, lambda k: f"row {k + 1}", frame=frame, index=index)


def _check_values(metadata: Any, size: int) -> None:
    """Refuse a file whose columns repeat so much that it would fill the memory."""
    declared = 8 * metadata.num_rows * metadata.num_columns
    if declared > max(UNPACKED_AT_LEAST, UNPACKED_TIMES * size):
        raise ValueError(
            f"it declares {declared} bytes of values in {size} bytes; if you trust it, write it "
            "without compression first"
        )


def _typed_columns(frame: pd.DataFrame, first_is_index: bool) -> Columns:
    everywhere, text, values, text_at = range(len(frame)), [], [], []
    for k in range(frame.shape[1]):
        column = frame.iloc[:, k]
        kinds = pd.api.types
        numeric = kinds.is_numeric_dtype(column) and not kinds.is_complex_dtype(column)
        text.append(["" if pd.isna(cell) else str(cell) for cell in column])
        text_at.append([] if numeric else everywhere)
        values.append(
            column.to_numpy(dtype=np.float64, na_value=np.nan)
            if numeric
            else np.full(len(frame), np.nan)
        )
    return Columns(tuple(map(str, frame.columns)), text, values, text_at, first_is_index)


def _read_npy(path: Path, options: TableOptions) -> _Raw:
    if options.index_column and tuple(options.index_column) != ("none",):
        raise ValueError(f"{path}: an array has no column names, so --index-column cannot be given")
    with open(path, "rb") as file:
        content = read_array(file, path.stat().st_size, str(path))
    if content.ndim != 2 or content.dtype.kind not in "biuf" or not content.size:
        raise ValueError(
            f"{path} must hold a matrix of real numbers, "
            f"got {content.dtype} of shape {content.shape}"
        )
    values = content.astype(np.float64).T
    columns = Columns(None, [[""] * len(content)] * len(values), list(values), [()] * len(values))
    return _Raw(columns, lambda k: f"row {k + 1}")


def _without_groups(path: Path, raw: _Raw, options: TableOptions) -> _Raw:
    """The table without the column that says which signals belong together."""
    if options.transpose:
        raise ValueError("--groups names a column, and with --transpose the columns are signals")
    columns = raw.columns
    k = _column(path, columns, options.groups or "", "--groups")
    rest = [other for other in range(len(columns)) if other != k]
    values = list(columns.text[k])
    if not all(values):
        raise ValueError(f"{path}, {raw.line(values.index(''))}: --groups: the cell is empty")
    return replace(
        raw,
        columns=columns.only(rest),
        notes=[*raw.notes, f"{columns.shown(k)} has {counted(len(set(values)), 'group')}"],
        frame=None if raw.frame is None else raw.frame.iloc[:, rest],
        index=raw.index if k else None,
        groups=tuple(values),
    )


def _column(path: Path, columns: Columns, name: str, option: str) -> int:
    """Where a column is that an option names."""
    names = columns.names
    if names is None or name not in names:
        raise ValueError(
            f"{path} has no column {name!r} for {option}; "
            + ("its columns have no names" if names is None else f"it has {some_of(names, 8)}")
        )
    return names.index(name)


def _settle(path: Path, raw: _Raw, options: TableOptions) -> SignalTable:
    """Take the labels apart from the values, and turn the table if its rows are nodes."""
    columns = raw.columns
    layout = _layout(path, raw, options)
    nodes = [k for k in range(len(columns)) if k not in layout.labels]
    if not nodes and options.index_column is None:
        texts = [k for k in layout.labels if columns.text_at[k]]
        k = texts[-1] if texts else 0
        raise ValueError(
            f"{path} has no column of numbers: {columns.shown(k)} has "
            f"{some_of(columns.text[k])}. Columns of text are separated by commas, semicolons or "
            "tabs, and a cell has a number alone, without its unit"
        )
    for k in nodes:
        if columns.text_at[k]:
            raise _not_a_number(path, raw, k, columns.text_at[k][0])
    values = np.column_stack([np.empty((columns.n_rows, 0)), *(columns.values[k] for k in nodes)])
    across = None if columns.names is None else tuple(columns.names[k] for k in nodes)
    others = [k for k in layout.labels if layout.coordinates is None or k not in layout.coordinates]
    down = _row_labels(columns, others or list(layout.labels))
    origin = _origin(raw, layout, across, bool(options.transpose))
    notes = (*raw.notes, *layout.notes)
    if not options.transpose:
        table = SignalTable(values, across, down, notes, origin, groups=raw.groups)
        return _without_coordinates(table)
    places = None
    if layout.coordinates is not None and down is not None:
        axes = [(columns.names or ())[k] for k in layout.coordinates]
        places = _places(down, axes, [columns.values[k] for k in layout.coordinates])
    return SignalTable(values.T, down, across, notes, origin, coordinates=places)


def _without_coordinates(table: SignalTable) -> SignalTable:
    """A table whose first rows are the coordinates of its nodes, without these rows."""
    rows = coordinate_pair(table.labels or ())
    if rows is None or table.names is None or table.labels is None:
        return table
    axes = [table.labels[k] for k in rows]
    signals = [k for k in range(len(table.labels)) if k not in rows]
    return replace(
        table,
        values=table.values[signals],
        labels=tuple(table.labels[k] for k in signals),
        notes=(*table.notes, f"the rows {axes[0]!r} and {axes[1]!r} are coordinates, not signals"),
        origin=table.origin.with_rows(signals),
        coordinates=_places(table.names, axes, [table.values[k] for k in rows]),
        groups=None if table.groups is None else tuple(table.groups[k] for k in signals),
    )


def _places(nodes: Sequence[str], axes: Sequence[str], across: Sequence[Array]) -> pd.DataFrame:
    """The coordinates of the nodes, as ``--coordinates`` would have them."""
    x, y = ("x", "y") if axes[0].lower() == "easting" else ("longitude", "latitude")
    return pd.DataFrame({"node": nodes, x: across[0], y: across[1]}, index=list(nodes))


def _layout(path: Path, raw: _Raw, options: TableOptions) -> Layout:
    """The labels that the user names, or those that the content shows."""
    columns, given = raw.columns, options.index_column
    if given is None:
        layout = layout_of(path, columns, options.transpose, options.nodes)
        if options.nodes is None and not options.transpose:
            ask_about_clocks(path, columns, layout)
        return layout
    if tuple(given) == ("none",):
        return Layout()
    return Layout(tuple(sorted(_column(path, columns, name, "--index-column") for name in given)))


def _row_labels(columns: Columns, labels: Sequence[int]) -> tuple[str, ...] | None:
    """One label per row: the cells of all columns that label the rows, beside each other."""
    if not labels:
        return None
    return tuple(" ".join(cells) for cells in zip(*(columns.text[k] for k in labels), strict=True))


def _origin(raw: _Raw, layout: Layout, across: tuple[str, ...] | None, transposed: bool) -> Origin:
    columns, index = raw.columns, None
    labels = list(layout.labels)
    if raw.index is not None and 0 in labels:
        index = raw.index
        labels.remove(0)
    shift = 0 if index is None else 1
    names = columns.names
    cells = (
        columns.text if raw.frame is None else [raw.frame.iloc[:, k] for k in range(len(columns))]
    )
    beside = tuple((k - shift, None if names is None else names[k], cells[k]) for k in labels)
    return replace(raw.origin, names=across, index=index, beside=beside, transposed=transposed)


def _not_a_number(path: Path, raw: _Raw, k: int, row: int) -> ValueError:
    cell, names = raw.columns.text[k][row], raw.columns.names
    hint = "; leave a value that is not known empty"
    if names is not None:
        hint += f", or say --index-column {shlex.quote(names[k])} if it labels the signals"
    if re.fullmatch(r"-?\d+,\d+", cell):
        hint = "; if commas mark decimals, say --decimal ,"
    return ValueError(
        f"{path}, {raw.line(row)}, {raw.columns.shown(k)}: {cell!r} is not a number{hint}"
    )


def label_column(
    path: Path, names: list[str], side: list[str], options: TableOptions
) -> tuple[str | None, list[str]]:
    """The name of the first column of a file if it labels the signals, and what to say of it."""
    values, text_at = to_numbers(side, NumberFormat())
    layout = layout_of(path, Columns((names[0],), [side], [values], [text_at]), None, options.nodes)
    # By its name too: it is left out of all files, of which only the first rows were seen.
    labels = layout.labels and LABEL_NAME.fullmatch(names[0]) is not None
    return (names[0], layout.notes) if labels else (None, [])


def _check(path: Path, table: SignalTable, options: TableOptions) -> SignalTable:
    """Nodes with usable names, no infinity; gaps marked, and doubts told."""
    if table.names is not None:
        _check_distinct(path, table.names)
        for k, name in enumerate(table.names):
            if not name or NOT_XML.search(name):
                raise ValueError(f"{path}: node {k + 1} has no printable name, got {name!r}")
    n_signals, n_nodes = table.values.shape
    if n_nodes < 2:
        raise ValueError(
            f"{path} has {counted(n_nodes, 'node')}; a graph needs at least 2. Columns of text are "
            "separated by commas, semicolons or tabs"
        )

    def column(k: int) -> str:
        return f"node {k + 1}" if table.names is None else f"column {table.names[k]!r}"

    infinite = np.argwhere(np.isinf(table.values))
    if len(infinite):
        signal, node = infinite[0].tolist()
        raise ValueError(
            f"{path}, {column(node)}: signal {table.label(signal)!r} is infinite; leave a value "
            "that is not known empty"
        )
    values, marked = gaps_marked(table.values, options.missing)
    notes = [*table.notes, f"{counted(n_signals, 'signal')} on {counted(n_nodes, 'node')}", *marked]
    n_missing = int(np.isnan(values).sum())
    if n_missing:
        notes.append(f"{n_missing} of {values.size} values are missing and taken as not observed")
    warnings = []
    if options.nodes is None:
        named = summaries(table.names or (), table.labels or ())
        warnings = [*constant_columns(values, column), *named, *_few_signals(values, options)]
    return replace(table, values=values, notes=tuple(notes), warnings=tuple(warnings))


def _few_signals(values: Array, options: TableOptions) -> list[str]:
    n_signals, n_nodes = values.shape
    if options.transpose is not None or n_signals >= n_nodes:
        return []
    return [
        f"there are fewer signals ({n_signals}) than nodes ({n_nodes}); if the rows of the table "
        "are nodes, say --transpose"
    ]


def _check_distinct(path: Path, names: Sequence[str]) -> None:
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        more = f", as do {len(repeated) - 1} more" if len(repeated) > 1 else ""
        raise ValueError(
            f"{path}: more than one column has the name {repeated[0]!r}{more}; every node needs a "
            "name of its own"
        )


def read_pairs(path: Path, names: Sequence[str]) -> list[tuple[str, str]]:
    """The first two columns of a list of edges, after a line of titles if there is one."""
    known = set(names)
    pairs: list[tuple[str, str]] = []
    cells = read_cells(path)
    for k, (line, row) in enumerate(zip(cells.lines, cells.rows, strict=True)):
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
