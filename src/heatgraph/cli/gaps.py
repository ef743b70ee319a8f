"""Values of a table that stand for no value, and columns that never change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["CONSTANT", "constant_columns", "gaps_marked"]

Array = NDArray[np.float64]

# Values that data loggers and archives write where nothing was measured.
GAP_VALUES = (-999.0, -999.9, -999.99, -9999.0, -9999.9, -99999.0, -99.9, -99.99, 9999.0, 99999.0)


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


CONSTANT = "never changes"


def constant_columns(values: Array, shown: Callable[[int], str]) -> list[str]:
    """A warning of columns that have one value only, in several signals."""
    filled = ~np.isnan(values)
    low = np.where(filled, values, np.inf).min(axis=0, initial=np.inf)
    high = np.where(filled, values, -np.inf).max(axis=0, initial=-np.inf)
    constant = np.flatnonzero((low == high) & (filled.sum(axis=0) > 1))
    if not 0 < constant.size < values.shape[1]:  # that nothing varies is an error of the fit
        return []
    k = int(constant[0])
    more = f", and {constant.size - 1} more," if constant.size > 1 else ""
    return [
        f"the {shown(k)}{more} {CONSTANT} (it is {low[k]:g}): nothing tells what such a node is "
        "connected to; leave it out if its sensor was stuck"
    ]
