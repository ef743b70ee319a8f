"""Which columns of a table label its signals, which way round it is, and which values are gaps.

What is decided here is told to the user.  Where a table can be read in two ways that lead to
different graphs, a ValueError asks, and names the option that answers.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from heatgraph.arrays import Array, Mask

# Values that data loggers and archives write where nothing was measured.
GAP_VALUES = (
    *(-99.0, -99.9, -99.99, -999.0, -999.9, -999.99, -9999.0, -9999.9, -99999.0),
    *(999.0, 999.9, 999.99, 9999.0, 9999.9, 99999.0),
    *(-32767.0, -32768.0, 1e20, -1e30),
)
# Names of columns and rows that sum up the others.
SUMMARY = re.compile(
    r"(?:grand[_ ]?)?total|sum|mean|average|avg|median|min|max|minimum|maximum|std|sd",
    re.IGNORECASE,
)
SUMMARIES = (np.sum, np.mean, np.median, np.min, np.max)
ROUNDED = 1e-3  # of what is summed up: by how much rounding in a file may change a summary


def gaps_marked(values: Array, given: Sequence[str] | None) -> tuple[Array, list[str]]:
    """The values with NaN for those that stand for a gap, and what to tell of it.

    Those that the user names stand for one.  Otherwise the usual ones do where they lie further
    from all other values than these lie from each other.
    """
    if given is not None:
        gaps = [] if tuple(given) == ("none",) else [_number(text) for text in given]
    else:
        gaps = [gap for gap in GAP_VALUES if (values == gap).any()]
        others = values[~np.isin(values, gaps) & ~np.isnan(values)]
        low, high = (others.min(), others.max()) if others.size else (0.0, 0.0)
        gaps = [gap for gap in gaps if max(low - gap, gap - high) > high - low]
    marked, notes = values, []
    for gap in gaps:
        n = int((values == gap).sum())
        if n:
            marked = np.where(values == gap, np.nan, marked)
            times = "1 value" if n == 1 else f"{n} values"
            more = "" if given is not None else " (--missing none would read them as numbers)"
            notes.append(f"{times} of {gap:g} {'stands' if n == 1 else 'stand'} for gaps{more}")
    return marked, notes


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--missing must be a number or none, got {text!r}") from None


CONSTANT = "never change"  # in the warning of one column, or of several


def constant_columns(values: Array, shown: Callable[[int], str]) -> list[str]:
    """A warning of columns that have one value only, in several signals."""
    filled = ~np.isnan(values)
    low = np.where(filled, values, np.inf).min(axis=0, initial=np.inf)
    high = np.where(filled, values, -np.inf).max(axis=0, initial=-np.inf)
    constant = np.flatnonzero((low == high) & (filled.sum(axis=0) > 1))
    if not 0 < constant.size < values.shape[1]:  # that nothing varies is an error of the fit
        return []
    k = int(constant[0])
    which = f"{CONSTANT}s (it is {low[k]:g})"
    if constant.size > 1:
        which = f"and {constant.size - 1} more {CONSTANT} (the first is {low[k]:g})"
    return [
        f"the {shown(k)} {which}: nothing tells what such a node is connected to; if its sensor "
        "was stuck, leave it out (--leave-out)"
    ]


def coded_columns(values: Array, shown: Callable[[int], str]) -> list[str]:
    """A warning of a column of few whole numbers among columns of measurements."""
    whole = (np.isnan(values) | (values == np.rint(values))).all(axis=0)
    if len(values) < MANY_ROWS or 2 * whole.sum() >= whole.size:
        return []
    for k in np.flatnonzero(whole).tolist():
        found = np.unique(values[~np.isnan(values[:, k]), k])
        if 1 < found.size <= MOST_CODES:
            return [
                f"the {shown(k)} has {found.size} whole numbers only ({found[0]:g} to "
                f"{found[-1]:g}), and others have decimals: if it is a code, such as a class or "
                "the quality of a measurement, leave it out (--leave-out)"
            ]
    return []


def summary_columns(values: Array, names: Sequence[str]) -> list[int]:
    """The columns that are called a sum, a mean, ... and are that of the others in each row."""
    called = [k for k, name in enumerate(names) if SUMMARY.fullmatch(name.strip())]
    others = np.delete(values, called, axis=1)
    whole = ~np.isnan(others).any(axis=1)
    size = ROUNDED * np.abs(others).sum(axis=1)
    found = []
    for k in called:
        rows = whole & ~np.isnan(values[:, k])
        if others.shape[1] > 1 and rows.sum() > 1:
            off = (np.abs(values[rows, k] - f(others[rows], axis=1)) for f in SUMMARIES)
            found += [k] if any((error <= size[rows]).all() for error in off) else []
    return found


def summaries(names: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Warnings of columns and rows that sum up the others, by what they are called."""
    return [
        f"{what} {name!r} may be a summary of the others, and was read as a {kind}; if so, "
        + ("leave it out (--leave-out)" if what == "column" else "remove it from the table")
        for what, kind, some in (("column", "node", names), ("row", "signal", labels))
        for name in some
        if SUMMARY.fullmatch(name.strip())
    ]


LABEL_NAME = re.compile(
    r"id|ids|index|idx|time|times|timestamp|date|datetime|year|quarter|month|week|day|hour|minute"
    r"|second|signal|sample|row|step|t|obs|observation|run|trial|epoch|frame|iteration|period"
    r"|node|nodes|name|names|unnamed: 0|.*[_ ](id|time|date|at)",
    re.IGNORECASE,
)
NODE_LABEL = re.compile(
    r"nodes?|stations?|sites?|sensors?|channels?|electrodes?|regions?|zones?|cit(?:y|ies)|towns?"
    r"|count(?:y|ies)|countr(?:y|ies)|detectors?|locations?|(?:.*[_ ])(?:node|station|site|sensor)",
    re.IGNORECASE,
)
TIME_NAME = re.compile(  # the last are years and dates as R writes them, X2020 and X2020.05.17
    r"(?:t|time|day|week|month|year|hour|step|obs|sample|signal|run|q)[_ ]?\d+"
    r"|x?(?:1[5-9]|20)\d\d(?:[._]\d\d?){0,2}",
    re.IGNORECASE,
)
DAY_OR_CLOCK = re.compile(
    r"\d{1,4}([./-])\d{1,2}\1\d{1,4}|\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?(?: ?[ap]m)?", re.IGNORECASE
)
COORDINATES = (
    (("longitude", "lon", "lng", "long"), ("latitude", "lat")),
    (("easting",), ("northing",)),
)
MANY_ROWS = 30  # from which on few different numbers are no chance
MOST_CODES = 10
FEW_ROWS = 3  # with fewer rows than this, numbers that increase are no sign of anything
FEW_LABELS = 10
TICKS = 5  # so many equal steps are not chance
EVEN = 1e-6  # of a step, relatively: what rounding of times in a file may leave


@dataclass(frozen=True, eq=False)
class Columns:
    """A table before it is known which of its columns are nodes.

    ``frame`` has the cells as the file has them, ``values`` (n_rows, n_columns) their numbers, NaN
    where there is none, and ``is_text`` which cells are neither numbers nor missing.  ``line``
    names a row in a message.  ``index`` is that of a data frame; it is the first column as well.
    """

    names: tuple[str, ...] | None
    frame: pd.DataFrame
    values: Array
    is_text: Mask
    line: Callable[[int], str]
    index: Any = None
    delimiter: str = ","
    decimal: str = "."

    @property
    def n_rows(self) -> int:
        return len(self.values)

    @property
    def n_columns(self) -> int:
        return int(self.values.shape[1])

    def text(self, k: int) -> list[str]:
        """The cells of a column as text."""
        return ["" if pd.isna(cell) else str(cell) for cell in self.frame.iloc[:, k]]

    def has_text(self, k: int) -> bool:
        return bool(self.is_text[:, k].any())

    def only(self, kept: Sequence[int]) -> Columns:
        """Some of the columns."""
        return replace(
            self,
            names=None if self.names is None else tuple(self.names[k] for k in kept),
            frame=self.frame.iloc[:, list(kept)],
            values=self.values[:, kept],
            is_text=self.is_text[:, kept],
            index=self.index if 0 in kept else None,
        )

    def rows(self, kept: Sequence[int]) -> Columns:
        """Some of the rows."""
        some = list(kept)
        return replace(
            self,
            frame=self.frame.iloc[some],
            values=self.values[some],
            is_text=self.is_text[some],
            index=None if self.index is None else self.index[some],
        )

    def shown(self, k: int) -> str:
        """A column, for a message."""
        if self.names is None:
            return f"column {k + 1}"
        return f"column {self.names[k]!r}" if self.names[k] else "first column"


@dataclass(frozen=True)
class Layout:
    """The columns that label the rows, those of them that are coordinates, and what to tell."""

    labels: tuple[int, ...] = ()
    coordinates: tuple[int, int] | None = None  # of longitude and latitude, or x and y
    notes: list[str] = field(default_factory=list)


def layout_of(
    path: object, columns: Columns, transpose: bool | None, nodes: Sequence[str] | None
) -> Layout:
    """What the content of a table says of its columns.

    ``nodes`` are the columns that a model knows: they are never labels, and nothing is asked.
    """
    names, known = columns.names or (), nodes or ()
    pair = coordinate_pair(names)
    if pair is not None and any(columns.has_text(k) or names[k] in known for k in pair):
        pair = None
    places = pair or ()
    labels = tuple(
        k for k in range(columns.n_columns) if k in places or _labels_rows(columns, k, known)
    )
    layout = Layout(labels, pair, _told(columns, labels, places, transpose))
    if nodes is None:
        if transpose is None:
            _ask_about_rows(path, columns, layout)
        if not transpose:
            _ask_about_long(path, columns, layout)
            _ask_about_counts(path, columns, layout)
    return layout


def coordinate_pair(names: Sequence[str]) -> tuple[int, int] | None:
    """Where longitude and latitude are among some names, or easting and northing."""
    plain = [name.strip().lower() for name in names]
    for across, up in COORDINATES:
        x = next((k for k, name in enumerate(plain) if name in across), None)
        y = next((k for k, name in enumerate(plain) if name in up), None)
        if x is not None and y is not None:
            return x, y
    return None


def _labels_rows(columns: Columns, k: int, nodes: Sequence[str]) -> bool:
    name = None if columns.names is None else columns.names[k]
    if name in nodes:
        return False
    if k == 0 and columns.index is not None:
        return True
    n_text = int(columns.is_text[:, k].sum())
    if n_text:
        cells = columns.text(k)
        leading = bool(columns.is_text[:, :k].any(axis=0).all())
        if n_text == sum(map(bool, map(str.strip, cells))) > 1 or (
            leading and 2 * n_text >= len(cells)
        ):
            return True
        return leading and _are_dates(cells)
    named = name is not None and (LABEL_NAME.fullmatch(name) is not None or (k == 0 and not name))
    return named and _counts(columns.values[:, k])


def _are_dates(cells: Sequence[str]) -> bool:
    if not all(cell.strip()[:1].isdigit() for cell in cells):
        return False
    # Clocks that are put forward in spring have two distances from UTC.
    times = pd.to_datetime(pd.Series(cells), errors="coerce", format="ISO8601", utc=True)
    return bool(times.notna().all())


def _are_times(cells: Sequence[str]) -> bool:
    return _are_dates(cells) or all(map(DAY_OR_CLOCK.fullmatch, cells))


def _counts(numbers: Array) -> bool:
    """Whole numbers, or numbers in order: what ids and times are."""
    if not np.isfinite(numbers).all():
        return False
    steps = np.diff(numbers)
    return bool((numbers == np.rint(numbers)).all() or (steps > 0).all() or (steps < 0).all())


def _told(
    columns: Columns, labels: Sequence[int], places: Sequence[int], transpose: bool | None
) -> list[str]:
    told = []
    rows = "nodes" if transpose else "signals"
    for some, what in (
        ([k for k in labels if k not in places], f"label{{}} the {rows}"),
        (sorted(places), "hold{} coordinates"),
    ):
        if some:
            many = len(some) > 1
            text = f"the {_shown_names(columns, some)} {what.format('' if many else 's')}"
            if not transpose:
                are, them = ("are not nodes", "them nodes") if many else ("is not a node", "it one")
                text += f" and {are} (--index-column none would make {them})"
            told.append(text)
    return told


def _shown_names(columns: Columns, some: Sequence[int]) -> str:
    """Some columns, for a message."""
    if len(some) == 1:
        return columns.shown(some[0])
    names = [str(k + 1) if columns.names is None else repr(columns.names[k]) for k in some]
    return f"columns {', '.join(names)}"


def _texts(columns: Columns, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """The columns that label the rows by text other than times, with their cells."""
    texts = ((k, columns.text(k)) for k in layout.labels if columns.has_text(k))
    return ((k, cells) for k, cells in texts if not _are_times(cells))


def _ask_about_rows(path: object, columns: Columns, layout: Layout) -> None:
    """Ask whether rows are nodes, if their labels or the names of the columns look like that."""
    k, cells = next(_texts(columns, layout), (0, []))
    if not cells or columns.names is None:
        return
    across = [name for k, name in enumerate(columns.names) if k not in layout.labels]
    if len(set(cells)) < len(cells) or not across:
        return
    times = _are_dates(across) or all(TIME_NAME.fullmatch(name) for name in across)
    named = NODE_LABEL.fullmatch(columns.names[k]) is not None
    if times or named or layout.coordinates is not None:
        raise ValueError(
            f"{path}: are its rows nodes ({some_of(cells)}) and its columns signals "
            f"({some_of(across)})? If so, say --transpose; if its rows are signals, --no-transpose."
        )


def _ask_about_long(path: object, columns: Columns, layout: Layout) -> None:
    """Refuse a table with one row for each pair of a node and a time, which has few columns."""
    layout = replace(layout, labels=layout.labels[:FEW_LABELS])
    labels = {k: columns.text(k) for k in layout.labels}
    for k, nodes in _texts(columns, layout):
        for other, times in labels.items():
            n_pairs = len(set(zip(nodes, times, strict=True)))
            both_repeat = len(set(nodes)) < len(nodes) and len(set(times)) < len(times)
            full = 2 * len(nodes) >= len(set(nodes)) * len(set(times))
            if other != k and both_repeat and n_pairs == len(nodes) and full:
                raise ValueError(
                    f"{path} looks like a table with one row for each pair of "
                    f"{columns.shown(k)} and {columns.shown(other)}; a table of signals has one "
                    "row per signal and one column per node, such as pandas makes by "
                    f"frame.pivot(index=..., columns=..., values=...). If its rows are signals all "
                    f"the same, name the columns that label them by --index-column."
                )


def _ask_about_counts(path: object, columns: Columns, layout: Layout) -> None:
    """Ask about a first column of whole numbers that increase."""
    if 0 in layout.labels or columns.has_text(0) or columns.n_rows < FEW_ROWS:
        return
    numbers = columns.values[:, 0]
    if (np.diff(numbers) > 0).all() and not (numbers % 1.0).any():
        raise _question(path, columns, 0, "holds whole numbers that increase", layout.labels)


def ask_about_clocks(path: object, columns: Columns, layout: Layout) -> None:
    """Ask about columns that rise by the same step from each row to the next."""
    if columns.n_rows <= TICKS:
        return
    with np.errstate(all="ignore"):  # what is infinite is refused later
        steps = np.diff(columns.values, axis=0)
        least, most = steps.min(axis=0), steps.max(axis=0)
    for k in np.flatnonzero((least > 0.0) & (most <= (1.0 + EVEN) * least)).tolist():
        if k not in layout.labels and not columns.has_text(k):
            raise _question(path, columns, k, "rises in even steps", layout.labels)


def _question(
    path: object, columns: Columns, k: int, what: str, labels: Sequence[int]
) -> ValueError:
    if columns.names is None:
        answer = "give the columns names (a first line), and name it in --index-column"
    else:
        answer = f"say {index_columns(columns.names, [*labels, k])}"
    none = index_columns(columns.names or (), labels) or "--index-column none"
    return ValueError(
        f"{path}: does the {columns.shown(k)}, which {what}, label the signals? If so, {answer}; "
        f"if it is a node, say {none}."
    )


def index_columns(names: Sequence[str], labels: Sequence[int]) -> str:
    """The options that name all columns of labels: with one of them, the others are not guessed."""
    return " ".join(f"--index-column {shlex.quote(names[k])}" for k in sorted(labels))


def some_of(names: Sequence[str], at_most: int = 3) -> str:
    """The first names, for a message."""
    text = ", ".join(map(repr, names[:at_most]))
    return text if len(names) <= at_most else f"{text}, ..."
