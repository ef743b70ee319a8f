"""Signals of a part as batches, from memory or read one chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heatgraph.distributed.parquet import ParquetRows
from heatgraph.models.heat import Signals
from heatgraph.solvers import engine

__all__ = ["Chunk", "Counts", "Source", "Stream", "batches", "make_part"]

Array = NDArray[np.float64]
Counts = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows as a Dask task that this worker runs whenever it needs them."""

    graph: Mapping[Any, Any]
    key: Any

    def pieces(self) -> Iterator[Array]:
        import dask

        yield np.asarray(dask.get(self.graph, self.key))


@dataclass(frozen=True, eq=False)
class Stream:
    """The signals of a part that is read again at every step, one chunk at a time.

    ``first`` rows of the first chunk belong to the part before.
    """

    chunks: Sequence[Chunk | ParquetRows]
    first: int
    n_signals: int
    unit: float
    masked: bool

    def rows(self) -> Iterator[Array]:
        """The rows that are in the part, as they are read."""
        left, skip = self.n_signals, self.first
        for piece in (piece for chunk in self.chunks for piece in chunk.pieces()):
            rows = piece[skip : skip + left]
            left, skip = left - len(rows), max(0, skip - len(piece))
            yield rows
            if not left:
                return
        raise ValueError(f"X: its chunks have {left} signals less than when the fit began.")


Source = Signals | Stream


def make_part(rows: Any, unit: float, masked: bool) -> Signals:
    """Signals (m, N) as columns of size one; ``masked`` if any part has missing entries."""
    X = np.asarray(rows, dtype=np.float64)
    signals = Signals.from_missing(np.ascontiguousarray(X.T) / unit)
    if masked and signals.observed is None:
        return Signals(signals.X, np.ones(signals.X.shape, dtype=bool))
    return signals


def batches(source: Source, counts: Counts | None = None) -> Iterator[Signals]:
    """The signals whose count is not zero, one batch at a time."""
    chosen = None if counts is None else np.flatnonzero(counts)
    if isinstance(source, Stream):
        yield from _read_batches(source, chosen)
        return
    M = source.X.shape[1] if chosen is None else chosen.size
    for k in range(0, M, engine.BATCH):
        some = slice(k, k + engine.BATCH)
        yield source.take(some if chosen is None else chosen[some])


def _read_batches(stream: Stream, chosen: NDArray[np.intp] | None) -> Iterator[Signals]:
    size = engine.BATCH
    waiting = np.empty((0, 0))  # rows read that do not fill a batch yet
    n_read = 0
    for rows in stream.rows():
        n_before, n_read = n_read, n_read + len(rows)
        if chosen is not None:
            here = slice(*np.searchsorted(chosen, (n_before, n_read)))
            rows = rows[chosen[here] - n_before]
        if len(waiting):
            rows = np.concatenate([waiting, rows])
        whole = len(rows) - len(rows) % size
        for k in range(0, whole, size):
            yield make_part(rows[k : k + size], stream.unit, stream.masked)
        # A copy, so that the chunk is not held for the sake of its last rows.
        waiting = rows[whole:].copy()
    if len(waiting):
        yield make_part(waiting, stream.unit, stream.masked)
