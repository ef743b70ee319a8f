"""Signals of a part as batches, from memory or read a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heatgraph.distributed.memory import give_back_libraries
from heatgraph.distributed.parquet import ParquetRows
from heatgraph.models.heat import Signals
from heatgraph.solvers import signal_access

__all__ = ["Chunk", "Counts", "Source", "Stream", "batches", "make_part", "whole"]

Array = NDArray[np.float64]
Counts = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows as a task that has not been run: what Dask would compute, for this worker to compute."""

    graph: Mapping[Any, Any]
    key: Any

    def pieces(self) -> Iterator[Array]:
        import dask

        give_back_libraries()
        yield np.asarray(dask.get(self.graph, self.key))


@dataclass(frozen=True, eq=False)
class Stream:
    """The signals of a part that is read anew whenever it is asked for, a chunk at a time.

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
        raise ValueError(f"chunks have {left} signals less than they had before")


Source = Signals | Stream


def make_part(rows: Any, unit: float, masked: bool) -> Signals:
    """Signals (m, N) as columns of size one; ``masked`` if there are missing entries in any part.

    With a mask that hides nothing the sums are the same but for rounding, and no part may differ.
    """
    X = np.asarray(rows, dtype=np.float64)
    signals = Signals.from_missing(np.ascontiguousarray(X.T) / unit)
    if masked and signals.observed is None:
        return Signals(signals.X, np.ones(signals.X.shape, dtype=bool))
    return signals


def batches(
    source: Source, size: int, counts: Counts | None = None
) -> Iterator[tuple[Signals, Counts | None]]:
    """The signals that count, ``size`` at a time, and how often each does."""
    chosen = None if counts is None else np.flatnonzero(counts)
    if isinstance(source, Stream):
        found = _read_batches(source, chosen, size)
    else:
        found = _held_batches(source, chosen, size)
    for k, batch in enumerate(found):
        if counts is None or chosen is None:
            yield batch, None
        else:
            yield batch, counts[chosen[k * size : (k + 1) * size]]


def _held_batches(
    signals: Signals, chosen: NDArray[np.intp] | None, size: int
) -> Iterator[Signals]:
    M = signals.X.shape[1] if chosen is None else chosen.size
    for k in range(0, M, size):
        some = slice(k, k + size)
        yield signals.take(some if chosen is None else chosen[some])


def _read_batches(stream: Stream, chosen: NDArray[np.intp] | None, size: int) -> Iterator[Signals]:
    waiting: list[Array] = []  # less than a batch
    n_waiting = n_read = 0
    for rows in stream.rows():
        n_read, n_before = n_read + len(rows), n_read
        if chosen is not None:
            here = slice(*np.searchsorted(chosen, (n_before, n_read)))
            rows = rows[chosen[here] - n_before]
        while n_waiting + len(rows) >= size:
            waiting.append(rows[: size - n_waiting])
            rows = rows[size - n_waiting :]
            yield make_part(np.concatenate(waiting), stream.unit, stream.masked)
            waiting, n_waiting = [], 0
        if len(rows):
            # A copy, so that the chunk is not held for the sake of what is left of it.
            waiting.append(rows.copy())
            n_waiting += len(rows)
    if n_waiting:
        yield make_part(np.concatenate(waiting), stream.unit, stream.masked)


def whole(sources: Sequence[Source]) -> Signals:
    """All signals of all parts, in memory."""
    parts: list[Signals] = []
    for source in sources:
        if isinstance(source, Signals):
            parts.append(source)
        else:
            parts.extend(_read_batches(source, None, signal_access.BATCH))
    observed = None
    if parts[0].observed is not None:
        observed = np.concatenate([np.asarray(part.observed) for part in parts], axis=1)
    return Signals(np.concatenate([part.X for part in parts], axis=1), observed)
