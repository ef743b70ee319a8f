"""A sparse Laplacian on candidate edges, as the compiled core takes it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from heatgraph.arrays import Array
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels.native import TERMS, WIDTH, apply, quadratic
from heatgraph.kernels.series import QuadraticSeries

Blocks = NDArray[np.floating[Any]]
Longs = NDArray[np.int64]
Ints = NDArray[np.int32]
Part = TypeVar("Part")

ALIGNMENT = 64  # bytes: a load of one register then stays inside one cache line
DOUBLE = 8  # bytes
FEW = 1 << 14  # numbers in blocks: to start a thread takes as long as the work on so many


def block_width(dtype: DTypeLike) -> int:
    """Columns of one block: single precision has twice as many as double precision."""
    return WIDTH * DOUBLE // np.dtype(dtype).itemsize


@dataclass(frozen=True, eq=False)
class EdgeLayout:
    """Candidate edges with nodes renumbered so that neighbours are close in memory.

    ``order[new]`` is the old number of a node.  ``pairs`` lists each candidate at its first node:
    indptr (N + 1,), the second node, the number of the candidate; ``rows`` lists it at both.
    """

    candidates: CandidateEdges
    order: NDArray[np.intp]
    pairs: tuple[Longs, Ints, Longs]
    rows: tuple[Longs, Ints, Longs]

    @classmethod
    def of(cls, candidates: CandidateEdges, order: NDArray[np.intp] | None = None) -> EdgeLayout:
        """Numbered by reverse Cuthill-McKee, or as given."""
        N, E = candidates.n_nodes, candidates.n_edges
        if order is None:
            ends = (candidates.i, candidates.j)
            pattern = coo_array((np.ones(E, dtype=np.int8), ends), shape=(N, N)).tocsr()
            order = reverse_cuthill_mckee((pattern + pattern.T).tocsr(), symmetric_mode=True)
        place = np.empty(N, dtype=np.intp)
        place[order] = np.arange(N)
        i, j = place[candidates.i], place[candidates.j]
        i, j, edge = np.minimum(i, j), np.maximum(i, j), np.arange(E)
        both = np.concatenate([i, j]), np.concatenate([j, i]), np.concatenate([edge, edge])
        return cls(
            candidates, np.asarray(order, dtype=np.intp), _listed(N, i, j, edge), _listed(N, *both)
        )

    @property
    def n_nodes(self) -> int:
        return self.candidates.n_nodes

    @cached_property
    def place(self) -> NDArray[np.intp]:
        """The new number of a node, by its old one."""
        place = np.empty(self.n_nodes, dtype=np.intp)
        place[self.order] = np.arange(self.n_nodes)
        return place

    def laplacian(self, w: Array) -> SparseLaplacian:
        """``L(w)``, without the candidates whose weight is zero."""
        candidates, (indptr, ends, edge) = self.candidates, self.rows
        i, j, N = candidates.i, candidates.j, self.n_nodes
        degrees: Array = np.bincount(i, w, N).astype(np.float64) + np.bincount(j, w, N)
        bound = spectral_bound(degrees, candidates, w)
        a = 0.5 * bound if bound > 0.0 else 1.0
        weights = w[edge]
        kept = weights > 0.0
        return SparseLaplacian(
            self,
            a,
            np.concatenate([[0], np.cumsum(kept)])[indptr],
            ends[kept],
            -weights[kept] / a,
            degrees[self.order] / a - 1.0,
        )


@dataclass(frozen=True, eq=False)
class SparseLaplacian:
    """``A = L / a - I``, whose spectrum is in [-1, 1]: ``a`` is half a bound on that of ``L``."""

    layout: EdgeLayout
    a: float
    indptr: Longs
    indices: Ints
    values: Array
    diagonal: Array

    @property
    def _operator(self) -> tuple[Longs, Ints, Array, Array]:
        return self.indptr, self.indices, self.values, self.diagonal

    def apply(self, blocks: Blocks, C: Array, n_threads: int = 1) -> Blocks:
        """``sum_k C_rk T_k(A) X``: blocks (B, N, W) to (B, N, R, W), for ``C`` (R, n)."""
        C = _padded(C)
        out = aligned((len(blocks), blocks.shape[1], len(C), blocks.shape[2]), blocks.dtype)

        def work(some: slice) -> None:
            apply(*self._operator, blocks[some], C, out[some])

        _in_threads(work, blocks, n_threads)
        return out

    def quadratic(
        self, blocks: Blocks, series: QuadraticSeries, n_threads: int = 1
    ) -> tuple[Array, Array]:
        """``<X, T_k(A) X>`` (n,) and the slope of ``tr(X^T g(L) X)`` in every candidate (E,)."""
        C, n = _padded(series.factors), series.c.size
        E = self.layout.candidates.n_edges

        def work(some: slice) -> tuple[Array, Array]:
            moments, slope = np.zeros(C.shape[1]), np.zeros(E)
            quadratic(
                *self._operator,
                *self.layout.pairs,
                blocks[some],
                C,
                series.signs,
                moments,
                slope,
            )
            return moments, slope

        parts = _in_threads(work, blocks, n_threads)
        moments = np.sum([part[0] for part in parts], axis=0)
        slope = np.sum([part[1] for part in parts], axis=0)
        return moments[:n], slope / self.a


def spectral_bound(degrees: Array, candidates: CandidateEdges, w: Array) -> float:
    """A bound on the largest eigenvalue of ``L`` from degrees alone, often within 10%.

    The smaller of ``max_ij (d_i + d_j)`` over edges and ``max_i (d_i + sum_j w_ij d_j / d_i)``.
    """
    i, j, N = candidates.i, candidates.j, degrees.size
    edges = float((degrees[i] + degrees[j])[w > 0.0].max(initial=0.0))
    around = np.bincount(i, w * degrees[j], N) + np.bincount(j, w * degrees[i], N)
    nodes = degrees + np.divide(around, degrees, out=np.zeros(N), where=degrees > 0.0)
    return min(edges, float(nodes.max(initial=0.0)))


def aligned(shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> Blocks:
    """An empty array whose rows of one block begin at multiples of 64 bytes."""
    size, item = int(np.prod(shape)), np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT // item, dtype)
    first = -memory.ctypes.data % ALIGNMENT // item
    return memory[first : first + size].reshape(shape)


def to_blocks(X: Array, order: NDArray[np.intp], dtype: DTypeLike = np.float64) -> Blocks:
    """Signals (M, N) as blocks (B, N, W) of nodes in ``order``; zeros fill the last block."""
    M, N = X.shape
    W = block_width(dtype)
    B = -(-M // W)
    blocks = aligned((B, N, W), dtype)
    for b in range(B):
        rows = X[b * W : (b + 1) * W]
        blocks[b, :, : len(rows)] = rows.T[order]
        blocks[b, :, len(rows) :] = 0.0
    return blocks


def from_blocks(blocks: Blocks, order: NDArray[np.intp], n_signals: int) -> Array:
    """Blocks (B, N, W) as signals (M, N) of nodes in their own order."""
    B, N, W = blocks.shape
    X = np.empty((n_signals, N))
    X[:, order] = blocks.transpose(0, 2, 1).reshape(B * W, N)[:n_signals]
    return X


def _listed(
    N: int, first: NDArray[np.intp], second: NDArray[np.intp], edge: NDArray[np.intp]
) -> tuple[Longs, Ints, Longs]:
    by = np.lexsort((second, first))
    indptr = np.zeros(N + 1, dtype=np.int64)
    np.cumsum(np.bincount(first, minlength=N), out=indptr[1:])
    return indptr, second[by].astype(np.int32), edge[by].astype(np.int64)


def _padded(C: Array) -> Array:
    """Zero coefficients up to a multiple of ``TERMS``."""
    return np.ascontiguousarray(np.pad(C, ((0, 0), (0, -C.shape[1] % TERMS))))


def _in_threads(work: Callable[[slice], Part], blocks: Blocks, n_threads: int) -> list[Part]:
    """``work`` on slices of the blocks, one per thread; the results in order.

    Of few numbers one after the other: same slices, same sums, and no thread to wait for.
    """
    n = max(1, min(n_threads, len(blocks)))
    ends = np.linspace(0, len(blocks), n + 1).astype(int)
    slices = [slice(int(p), int(q)) for p, q in pairwise(ends)]
    if n == 1 or blocks.size <= FEW:
        return [work(some) for some in slices]
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(work, slices))
