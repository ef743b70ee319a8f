"""What has to be known of signals before they are scaled: one pass over all chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heatgraph.distributed.parquet import ParquetRows
from heatgraph.solvers import engine

__all__ = ["SignalSummary", "summarise", "summarise_row_group", "total"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SignalSummary:
    """Sizes of some signals.

    ``squares`` and ``sums`` (N,) are in units of ``top``, the largest absolute value, so that the
    square of no value overflows.  ``checksum`` depends on the bits of the values, but not on the
    chunks, nor on the order of the signals.
    """

    n_signals: int
    top: float
    squares: float
    sums: Array
    n_observed: NDArray[np.intp]
    n_infinite: int
    checksum: int = 0

    @property
    def masked(self) -> bool:
        """Whether there are missing entries."""
        return bool((self.n_observed < self.n_signals).any())

    @property
    def node_means(self) -> Array:
        """The mean of what was observed of each node; 0 where nothing was."""
        means: Array = self.sums / np.maximum(self.n_observed, 1) * self.top
        return means

    def energy_over(self, unit: float) -> float:
        """The squared norm of all signals, in units of ``unit``."""
        return self.squares * (self.top / unit) ** 2

    def __add__(self, other: SignalSummary) -> SignalSummary:
        top = max(self.top, other.top)
        shares = [part.top / top if top > 0.0 else 0.0 for part in (self, other)]
        return SignalSummary(
            self.n_signals + other.n_signals,
            top,
            self.squares * shares[0] ** 2 + other.squares * shares[1] ** 2,
            self.sums * shares[0] + other.sums * shares[1],
            self.n_observed + other.n_observed,
            self.n_infinite + other.n_infinite,
            (self.checksum + other.checksum) % 2**64,
        )


def total(parts: Sequence[SignalSummary]) -> SignalSummary:
    """The summary of several parts together."""
    return reduce(add, parts)


def summarise(rows: Any) -> SignalSummary:
    """The summary of signals (m, N), one batch at a time."""
    X = np.asarray(rows)
    n_batches = max(1, -(-len(X) // engine.BATCH))
    return total([_of_batch(some) for some in np.array_split(X, n_batches)])


def summarise_row_group(rows: ParquetRows) -> SignalSummary:
    """The summary of a row group of a Parquet file."""
    return total([_of_batch(piece) for piece in rows.pieces()])


def _of_batch(rows: Any) -> SignalSummary:
    X = np.asarray(rows, dtype=np.float64)
    n_observed = (~np.isnan(X)).sum(axis=0)
    n_infinite = int(np.isinf(X).sum())
    if n_infinite:
        return SignalSummary(len(X), 0.0, 0.0, np.zeros(X.shape[1]), n_observed, n_infinite)
    top = float(np.nanmax(np.abs(X), initial=0.0))
    relative = X / top if top > 0.0 else np.zeros(X.shape)
    squares, sums = float(np.nansum(np.square(relative))), np.nansum(relative, axis=0)
    odd = 2 * np.arange(X.shape[1], dtype=np.uint64) + 1  # differs by column: their order counts
    bits = np.where(np.isnan(X), 0.0, X).view(np.uint64)
    checksum = int((bits.sum(axis=0, dtype=np.uint64) * odd).sum(dtype=np.uint64))
    return SignalSummary(len(X), top, squares, sums, n_observed, 0, checksum)
