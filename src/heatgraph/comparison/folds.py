"""Which signals are held out together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["contiguous_folds", "contiguous_halves"]

Indices = NDArray[np.intp]


def contiguous_folds(n_signals: int, n_folds: int) -> list[tuple[Indices, Indices]]:
    """Pairs of signals to fit and signals held out: blocks of rows that follow each other.

    Signals of a time series resemble those next to them; at random, a signal would be predicted
    from its neighbours in time.
    """
    rows = np.arange(n_signals)
    return [(np.setdiff1d(rows, part), part) for part in np.array_split(rows, n_folds)]


def contiguous_halves(n_signals: int) -> list[Indices]:
    """The first and the second half of the rows."""
    return np.array_split(np.arange(n_signals), 2)
