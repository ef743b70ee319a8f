"""Sums over the signals of a Dask collection, chunk by chunk: moments, quadratic forms, slopes.

What travels in a step is the graph, to the workers, and one slope per candidate, back.  Chunks are
read again at every step; ``X.persist()`` keeps them on the workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from heatgraph.arrays import Array
from heatgraph.distributed.from_dask import as_array
from heatgraph.distributed.signals import FAN_IN
from heatgraph.distributed.trouble import TOO_LARGE, complete_rows, compute_sums
from heatgraph.kernels.series import QuadraticSeries
from heatgraph.kernels.sparse_laplacian import EdgeLayout, SparseLaplacian
from heatgraph.models.gaussian_large import BlockSignals
from heatgraph.models.moments import Moments


def fold_moments(X: Any, n_folds: int) -> list[Moments]:
    """The moments of ``n_folds`` contiguous runs of chunks of a Dask collection.

    Chunks are read once, by the workers of the client that is there, and never held.

    Raises
    ------
    ValueError
        If a value is missing or not finite.
    """
    import dask

    rows = as_array(X)
    of_chunk = dask.delayed(_moments, pure=False)
    chunks = [of_chunk(block, rows.shape[1]) for block in rows.to_delayed().ravel()]
    runs = np.array_split(np.arange(len(chunks)), min(n_folds, len(chunks)))
    total = dask.delayed(_total, pure=False)
    found = compute_sums(
        [_tree([chunks[k] for k in run], total) for run in runs], chunks, rows.chunks[0]
    )
    if not all(np.isfinite(part.scatter).all() for part in found):
        raise ValueError(TOO_LARGE)
    return [part for part in found if part.count > 0]


def _moments(block: Any, n_nodes: int) -> Moments:
    X = complete_rows(block, n_nodes)
    return Moments.of(X) if len(X) else Moments(0.0, np.zeros(n_nodes), X.T @ X)


def _tree(parts: list[Any], total: Any) -> Any:
    """The sum of parts, some at a time: no worker ever holds more of them."""
    while len(parts) > 1:
        parts = [total(parts[k : k + FAN_IN]) for k in range(0, len(parts), FAN_IN)]
    return parts[0]


def _total(parts: list[Moments]) -> Moments:
    filled = [part for part in parts if part.count > 0] or parts[:1]
    return reduce(add, filled)


SAMPLE = 2000  # signals, from all chunks alike, by which nearest rows are found


@dataclass(frozen=True, eq=False)
class ChunkedSource:
    """Chunks of rows with their counts, sums, sums of squares, and some rows of each."""

    chunks: tuple[Any, ...]
    counts: tuple[int, ...]
    total: Array
    squares: float
    sample: Array

    @classmethod
    def of(cls, X: Any) -> ChunkedSource:
        """One pass over a Dask array or data frame.

        Raises
        ------
        ValueError
            If a value is missing or not finite.
        """
        import dask

        rows = as_array(X)
        chunks = rows.to_delayed().ravel()
        per_chunk = max(1, SAMPLE // len(chunks))
        look = dask.delayed(_look, pure=False)
        looks = [look(chunk, rows.shape[1], per_chunk) for chunk in chunks]
        found = compute_sums(looks, looks, rows.chunks[0])
        if not all(np.isfinite(part[2]) for part in found):
            raise ValueError(TOO_LARGE)
        kept = [k for k, part in enumerate(found) if part[0]]
        if not kept:
            raise ValueError("X holds no signal: every chunk of the Dask collection is empty.")
        return cls(
            tuple(chunks[k] for k in kept),
            tuple(found[k][0] for k in kept),
            np.sum([found[k][1] for k in kept], axis=0),
            float(sum(found[k][2] for k in kept)),
            np.concatenate([found[k][3] for k in kept]),
        )

    @property
    def n_signals(self) -> int:
        return sum(self.counts)

    def blocks(
        self, some: slice, layout: EdgeLayout, location: Array, unit: float, dtype: DTypeLike
    ) -> ChunkedSignals:
        """``(x - location) / unit`` of some chunks, with nodes in the order of a layout."""
        import dask

        make = dask.delayed(_blocks, pure=False)
        how = dask.delayed((location, unit, layout.order, dtype), traverse=False, pure=False)
        parts = tuple(make(chunk, how) for chunk in self.chunks[some])
        measure = dask.delayed(_energy, pure=False)
        energy = sum(compute_sums([measure(part) for part in parts], (), ()))
        n = sum(self.counts[some])
        return ChunkedSignals(parts, n, energy / (n * layout.n_nodes))


@dataclass(frozen=True, eq=False)
class ChunkedSignals:
    """Signals that workers hold: ``chunks`` are delayed :class:`BlockSignals`."""

    chunks: tuple[Any, ...]
    n_signals: int
    mean_variance: float

    def quadratic(self, L: SparseLaplacian, series: QuadraticSeries) -> tuple[Array, Array]:
        """The sums over all chunks, see :class:`heatgraph.models.gaussian_large.SignalBlocks`."""
        import dask

        graph = dask.delayed((L, series), traverse=False, pure=False)
        form, add = dask.delayed(_form, pure=False), dask.delayed(_add, pure=False)
        total = _tree([form(chunk, graph) for chunk in self.chunks], add)
        found: tuple[Array, Array] = compute_sums([total], (), ())[0]
        return found


def _look(block: Any, n_nodes: int, n: int) -> tuple[int, Array, float, Array]:
    X = complete_rows(block, n_nodes)
    some = np.linspace(0, len(X) - 1, min(n, len(X))).astype(np.intp)
    return len(X), X.sum(axis=0), float(np.square(X).sum()), X[some]


def _blocks(block: Any, how: tuple[Array, float, Any, DTypeLike]) -> BlockSignals:
    location, unit, order, dtype = how
    X = (np.asarray(block, dtype=np.float64) - location) / unit
    return BlockSignals.ordered(X, order, dtype=dtype)


def _energy(signals: BlockSignals) -> float:
    return float(signals.mean_variance * signals.n_signals * signals.blocks.shape[1])


def _form(
    signals: BlockSignals, graph: tuple[SparseLaplacian, QuadraticSeries]
) -> tuple[Array, Array]:
    return signals.quadratic(*graph)


def _add(parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    return np.sum([part[0] for part in parts], axis=0), np.sum([part[1] for part in parts], axis=0)
