"""Signals from a table: CSV, Parquet or NPY, with a word on everything that was decided."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from heatgraph.arrays import Array
from heatgraph.cli.console import counted
from heatgraph.cli.options import TableOptions
from heatgraph.cli.table_files import (
    DELIMITERS,
    NPY,
    PARQUET,
    TEXT,
    NumberFormat,
    Origin,
    check_distinct,
    columns_of_text,
    guess_format,
    kind_of,
    read_cells,
    read_npy_file,
    read_parquet_file,
)
from heatgraph.cli.table_layout import (
    LABEL_NAME,
    Columns,
    Layout,
    ask_about_clocks,
    coded_columns,
    constant_columns,
    coordinate_pair,
    gaps_marked,
    index_columns,
    layout_of,
    some_of,
    summaries,
    summary_columns,
)
from heatgraph.estimators.time_series import TimeSeries, with_past
from heatgraph.graph.storage import NOT_XML

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
    origin: Origin | None = None
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
        if self.origin is None:
            raise ValueError("signals that are not from a file have no table to be given back as")
        self.origin.write(path, back)


def read_signals(path: Path, options: TableOptions) -> SignalTable:
    """Read a table by its suffix, or raise a ValueError that names the file and the column."""
    suffix, notes = kind_of(path), list[str]()
    if suffix in TEXT:
        columns, notes = _read_text(path, options)
    elif suffix in PARQUET:
        columns = read_parquet_file(path)
    elif suffix == NPY:
        if options.index_column and tuple(options.index_column) != ("none",):
            raise ValueError(
                f"{path}: an array has no column names, so --index-column cannot be given"
            )
        columns = read_npy_file(path)
    else:
        raise ValueError(
            f"{path}: signals are read from {', '.join((*TEXT, *PARQUET, NPY))}, not from "
            f"{suffix or 'no suffix'}"
        )
    groups = None
    if options.leave_out:
        unread = {_column(path, columns, name, "--leave-out") for name in options.leave_out}
        columns = columns.only([k for k in range(columns.n_columns) if k not in unread])
    if options.groups is not None:
        columns, groups, told = _without_groups(path, columns, options)
        notes = [*notes, told]
    table = replace(_settle(path, columns, options, notes), groups=groups)
    if not options.transpose:
        table = _without_coordinates(table)
    return _check(path, table, options)


def _read_text(path: Path, options: TableOptions) -> tuple[Columns, list[str]]:
    delimiter, lines, rows = read_cells(path)
    written, notes = guess_format(path, rows, delimiter, options.decimal, options.thousands)
    names, n_titles, told = _titles(rows, written, options.header)
    if len(rows) == n_titles:
        raise ValueError(f"{path} has a first line of names and no signal below it")
    columns = columns_of_text(
        names, rows[n_titles:], written, lambda k: f"line {lines[k + n_titles]}", delimiter
    )
    notes = [f"{path} is separated by {DELIMITERS[delimiter]}", *notes, *told]
    # A separator at the end of each line makes one more column, without a name or a cell.
    kept = [k for k in range(columns.n_columns) if not names or names[k] or any(columns.text(k))]
    if len(kept) < columns.n_columns:
        n_empty = counted(columns.n_columns - len(kept), "empty column")
        return columns.only(kept), [*notes, f"{n_empty} without a name left out"]
    return columns, notes


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
        return first, 1, _doubtful_names(rows, written) if given is None else []
    second = tuple(cell.strip() for cell in rows[1])
    values = [k for k, cell in enumerate(rows[2]) if written.number(cell) is not None]
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
    if not all(cell and written.number(cell) is not None for cell in cells):
        return True
    return all(cell.isdecimal() for cell in cells) and _distinct(cells)


def _doubtful_names(rows: Sequence[Sequence[str]], written: NumberFormat) -> list[str]:
    """What to tell of a first line that has both numbers and words above columns of numbers."""
    below = rows[min(1, len(rows) - 1)]
    pairs = zip(rows[0], below, strict=True)
    above = [name.strip() for name, cell in pairs if written.number(cell) is not None]
    numbers = [written.number(name) is not None for name in above if name]
    if all(numbers) or not any(numbers):
        return []
    return [f"its first line ({some_of(above)}) was taken for names (--no-header: for a signal)"]


def _are_titles(second: Sequence[str], third: Sequence[str], written: NumberFormat) -> bool:
    """Whether the second line has text wherever the third has numbers.

    A dash is a unit here, as of a share, not a gap.
    """
    pairs = zip(second, third, strict=True)
    above = [a.strip() for a, b in pairs if b and written.number(b) is not None]
    return any(above) and all(written.number(cell) is None for cell in above if cell.strip("-?"))


def _distinct(cells: Sequence[str]) -> bool:
    return len(set(cells)) == len(cells) and all(cells)


def _without_groups(
    path: Path, columns: Columns, options: TableOptions
) -> tuple[Columns, tuple[str, ...], str]:
    """The table without the column that says which signals belong together, its cells, a note."""
    if options.transpose:
        raise ValueError("--groups names a column, and with --transpose the columns are signals")
    k = _column(path, columns, options.groups or "", "--groups")
    values = tuple(columns.text(k))
    if not all(values):
        raise ValueError(f"{path}, {columns.line(values.index(''))}: --groups: the cell is empty")
    told = f"{columns.shown(k)} has {counted(len(set(values)), 'group')}"
    rest = [other for other in range(columns.n_columns) if other != k]
    return columns.only(rest), values, told


def _column(path: Path, columns: Columns, name: str, option: str) -> int:
    """Where a column is that an option names."""
    names = columns.names
    if names is None or name not in names:
        raise ValueError(
            f"{path} has no column {name!r} for {option}; "
            + ("its columns have no names" if names is None else f"it has {some_of(names, 8)}")
        )
    return names.index(name)


def _settle(
    path: Path, columns: Columns, options: TableOptions, notes: Sequence[str]
) -> SignalTable:
    """Take the labels apart from the values, and turn the table if its rows are nodes."""
    layout = _layout(path, columns, options)
    nodes = [k for k in range(columns.n_columns) if k not in layout.labels]
    if not nodes and options.index_column is None:
        k = next((k for k in reversed(layout.labels) if columns.has_text(k)), 0)
        besides = " besides coordinates" if layout.coordinates else ""
        raise ValueError(
            f"{path} has no column of numbers{besides}: {columns.shown(k)} has "
            f"{some_of(columns.text(k))}. Columns of text are separated by commas, semicolons or "
            "tabs, and a cell has a number alone, without its unit"
        )
    for k in nodes:
        if columns.has_text(k):
            raise _not_a_number(path, columns, k, layout.labels)
    values = np.ascontiguousarray(columns.values[:, nodes])
    across = None if columns.names is None else tuple(columns.names[k] for k in nodes)
    pair = layout.coordinates or ()
    texts = [k for k in layout.labels if k not in pair] or layout.labels
    down = _row_labels(columns, texts, options)
    origin = Origin(columns, nodes, bool(options.transpose))
    notes = (*notes, *layout.notes)
    if not options.transpose:
        return SignalTable(values, across, down, notes, origin)
    places = None
    if pair and down is not None:
        axes = [(columns.names or ())[k] for k in pair]
        places = _places(down, axes, [columns.values[:, k] for k in pair])
    return SignalTable(values.T, down, across, notes, origin, coordinates=places)


def _without_coordinates(table: SignalTable) -> SignalTable:
    """A table whose first rows are the coordinates of its nodes, without these rows."""
    rows = coordinate_pair(table.labels or ())
    if rows is None or table.names is None or table.labels is None or table.origin is None:
        return table
    axes = [table.labels[k] for k in rows]
    signals = [k for k in range(len(table.labels)) if k not in rows]
    return replace(
        table,
        values=table.values[signals],
        labels=tuple(table.labels[k] for k in signals),
        notes=(*table.notes, f"the rows {axes[0]!r} and {axes[1]!r} are coordinates, not signals"),
        origin=replace(table.origin, columns=table.origin.columns.rows(signals)),
        coordinates=_places(table.names, axes, [table.values[k] for k in rows]),
        groups=None if table.groups is None else tuple(table.groups[k] for k in signals),
    )


def _without_summaries(table: SignalTable, known: Sequence[str]) -> SignalTable:
    """A table without columns and rows that are the sum, the mean, ... of the others.

    Columns that a model knows stay.  A turned table stays as it is.
    """
    if table.names is None or table.origin is None or table.origin.transposed:
        return table
    names, labels, values = table.names, table.labels, table.values
    columns = [k for k in summary_columns(values, names) if names[k] not in known]
    nodes = [k for k in range(len(names)) if k not in columns]
    rows = [] if labels is None else summary_columns(values[:, nodes].T, labels)
    signals = [k for k in range(len(values)) if k not in rows]
    left_out = [f"the column {names[k]!r}" for k in columns]
    left_out += [f"the row {labels[k]!r}" for k in rows if labels is not None]
    if not left_out:
        return table
    are = "is a summary" if len(left_out) == 1 else "are summaries"
    return replace(
        table,
        values=values[np.ix_(signals, nodes)],
        names=tuple(names[k] for k in nodes),
        labels=None if labels is None else tuple(labels[k] for k in signals),
        notes=(*table.notes, f"{' and '.join(left_out)} {are} of the others and left out"),
        origin=table.origin.only(signals, nodes),
        coordinates=None if table.coordinates is None else table.coordinates.iloc[nodes],
        groups=None if table.groups is None else tuple(table.groups[k] for k in signals),
    )


def _places(nodes: Sequence[str], axes: Sequence[str], across: Sequence[Array]) -> pd.DataFrame:
    """The coordinates of the nodes, as ``--coordinates`` would have them."""
    x, y = ("x", "y") if axes[0].lower() == "easting" else ("longitude", "latitude")
    return pd.DataFrame({"node": nodes, x: across[0], y: across[1]}, index=list(nodes))


def _layout(path: Path, columns: Columns, options: TableOptions) -> Layout:
    """The labels that the user names, or those that the content shows."""
    given = options.index_column
    if given is None:
        layout = layout_of(path, columns, options.transpose, options.nodes)
        if options.nodes is None and not options.transpose:
            ask_about_clocks(path, columns, layout)
        return layout
    if tuple(given) == ("none",):
        return Layout()
    return Layout(tuple(sorted(_column(path, columns, name, "--index-column") for name in given)))


def _row_labels(
    columns: Columns, labels: Sequence[int], options: TableOptions
) -> tuple[str, ...] | None:
    """One label per row: the cells of all columns that label the rows, beside each other.

    Unless the user named the columns, names are enough for nodes, and a column without a name
    that only counts the rows is left out.
    """
    if not labels:
        return None
    texts = {k: columns.text(k) for k in labels}
    if options.index_column is None:
        names = (k for k in labels if columns.has_text(k) and _distinct(texts[k]))
        if options.transpose and (k := next(names, None)) is not None:
            return tuple(texts[k])
        counts = [list(map(str, range(k, k + columns.n_rows))) for k in (0, 1)]
        nameless = columns.names is not None and columns.names[0] in ("", "Unnamed: 0")
        if nameless and len(texts) > 1 and texts.get(0) in counts:
            del texts[0]
    return tuple(map(" ".join, zip(*texts.values(), strict=True)))


def _not_a_number(path: Path, columns: Columns, k: int, labels: Sequence[int]) -> ValueError:
    row, names = int(columns.is_text[:, k].argmax()), columns.names
    cell = columns.text(k)[row]
    hint = "; leave a value that is not known empty"
    if names is not None:
        hint += f", or say {index_columns(names, [*labels, k])} if it labels the signals"
        hint += f", or --leave-out {shlex.quote(names[k])}"
    if re.fullmatch(r"-?\d+,\d+", cell):
        hint = "; if commas mark decimals, say --decimal ,"
    return ValueError(
        f"{path}, {columns.line(row)}, {columns.shown(k)}: {cell!r} is not a number{hint}"
    )


def label_column(
    path: Path, name: str, cells: list[str], options: TableOptions
) -> tuple[str | None, list[str]]:
    """The name of the first column of a file if it labels the signals, and what to say of it."""
    side = columns_of_text((name,), [[cell] for cell in cells], NumberFormat())
    layout = layout_of(path, side, None, options.nodes)
    # By its name too: it is left out of all files, of which only the first rows were seen.
    labels = layout.labels and LABEL_NAME.fullmatch(name) is not None
    return (name, layout.notes) if labels else (None, [])


def _check(path: Path, table: SignalTable, options: TableOptions) -> SignalTable:
    """Nodes with usable names, no infinity; gaps marked, and doubts told."""
    if table.names is not None:
        check_distinct(path, table.names)
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
    table = _without_summaries(replace(table, values=values), options.nodes or ())
    values = table.values
    n_signals, n_nodes = values.shape
    notes = [*table.notes, f"{counted(n_signals, 'signal')} on {counted(n_nodes, 'node')}", *marked]
    n_missing = int(np.isnan(values).sum())
    if n_missing:
        notes.append(f"{n_missing} of {values.size} values are missing and taken as not observed")
    warnings = []
    if options.nodes is None:
        named = summaries(table.names or (), table.labels or ())
        warnings = [
            *constant_columns(values, column),
            *coded_columns(values, column),
            *named,
            *_few_signals(values, options),
        ]
    return replace(table, values=values, notes=tuple(notes), warnings=tuple(warnings))


def _few_signals(values: Array, options: TableOptions) -> list[str]:
    n_signals, n_nodes = values.shape
    if options.transpose is not None or n_signals >= n_nodes:
        return []
    return [
        f"there are fewer signals ({n_signals}) than nodes ({n_nodes}); if the rows of the table "
        "are nodes, say --transpose"
    ]


def read_pairs(path: Path, names: Sequence[str]) -> list[tuple[str, str]]:
    """The first two columns of a list of edges, after a line of titles if there is one."""
    known = set(names)
    pairs: list[tuple[str, str]] = []
    _, lines, rows = read_cells(path)
    for k, (line, row) in enumerate(zip(lines, rows, strict=True)):
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
