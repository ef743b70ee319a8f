"""Signals for the matrix-free engine: coded a few at a time, their codes kept sparse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels.chebyshev import WIDTH, gradient_factors
from heatgraph.kernels.layout import Layout
from heatgraph.kernels.pool import run_threads
from heatgraph.objective.heat import Signals
from heatgraph.objective.pricing import RANK_TOL, signal_factors
from heatgraph.objective.sparse import Codes, SparseDictionary, SparseMoments, SparseObjective
from heatgraph.solvers.ensemble import above_tangent, discount_of
from heatgraph.solvers.neighbourhoods import (
    LANES,
    code_block,
    correlate_block,
    subtract_block,
)

__all__ = ["SparseSignals", "absolute", "as_rows"]

Array = NDArray[np.float64]
Block = NDArray[Any]

ROUNDS = 50  # of letting atoms in, at most
# How far correlations may leave the set where codes are optimal, relative to the penalty.
EXCESS = {np.dtype(np.float64): 1e-7, np.dtype(np.float32): 1e-4}
NOTHING_MISSING = np.empty((0, 0), dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class SparseSignals:
    """Signals in memory for the matrix-free engine."""

    layout: Layout
    signals: Signals
    dtype: Any = np.float64
    n_threads: int = 1

    @property
    def n_signals(self) -> int:
        return int(self.signals.X.shape[1])

    def of_type(self, dtype: Any) -> SparseSignals:
        """The same in another precision."""
        return self if self.dtype == dtype else replace(self, dtype=dtype)

    @cached_property
    def rows(self) -> Block:
        """The signals (M, N), nodes in the order of the layout."""
        return np.ascontiguousarray(self.signals.X[self.layout.order].T, self.dtype)

    @cached_property
    def observed(self) -> NDArray[np.bool_]:
        """The mask in the same order; of no size where all was observed."""
        if self.signals.observed is None:
            return NOTHING_MISSING
        return np.ascontiguousarray(self.signals.observed[self.layout.order].T)

    @property
    def _blocks(self) -> list[slice]:
        return [slice(m, m + LANES) for m in range(0, self.n_signals, LANES)]

    def contrasts(self, candidates: CandidateEdges) -> tuple[Array, float]:
        X = self.signals.X
        return candidates.squared_distances(X), float(np.einsum("nm,nm->", X, X))

    def silence(self, n_atoms: int) -> Codes:
        return Codes(np.zeros(self.n_signals + 1, np.int64), np.zeros(0, np.int64), np.zeros(0))

    def code(
        self,
        objective: SparseObjective,
        D: SparseDictionary,
        start: Codes,
        discount: Codes | None,
    ) -> tuple[Codes, SparseMoments]:
        codes, R = self.encode(objective, D, start, discount)
        return codes, objective.moments(D, R, codes, absolute(codes, discount, D.n_atoms))

    def encode(
        self,
        objective: SparseObjective,
        D: SparseDictionary,
        start: Codes,
        discount: Codes | None = None,
    ) -> tuple[Codes, Block]:
        """The sources of every signal, and what they leave unexplained (M, N)."""
        R = np.empty_like(self.rows)
        penalty = objective.alpha * D.omega.T.reshape(1, -1)
        region = _region_of_atoms(D)

        def coded(block: slice) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
            H = as_rows(start, block, D.n_atoms, 0.0)
            a = penalty
            if discount is not None:
                a = penalty * as_rows(discount, block, D.n_atoms, 1.0)
            left = self._left(D, H, block)
            Q, open_ = np.empty((D.n_atoms, LANES), self.dtype), np.ones(len(H), dtype=bool)
            size = np.linalg.norm(self.rows[block], axis=1).astype(np.float64)
            tol = EXCESS[np.dtype(self.dtype)]
            for _ in range(ROUNDS):
                correlate_block(D.atoms, left, Q)
                if not code_block(
                    D.atoms, region, a, H, self.observed[block], left, Q, open_, size, tol
                ):
                    break
            R[block] = left[:, : len(H)].T
            return _collect(H)

        parts = run_threads(coded, self._blocks, self.n_threads)
        indptr = np.zeros(self.n_signals + 1, np.int64)
        np.cumsum(np.concatenate([counts for counts, _, _ in parts]), out=indptr[1:])
        where = np.concatenate([at for _, at, _ in parts])
        return Codes(indptr, where, np.concatenate([what for _, _, what in parts])), R

    def _left(self, D: SparseDictionary, H: Array, block: slice) -> Block:
        """What codes leave of the signals of a block, (N, LANES)."""
        left = np.zeros((self.layout.n_nodes, LANES), self.dtype)
        left[:, : len(H)] = self.rows[block].T
        subtract_block(D.atoms, H, self.observed[block], left)
        return left

    def correlations(self, D: SparseDictionary, R: Block) -> Iterator[Block]:
        """``<d_k, R_m>`` of all atoms with rows (M, N), (S N, W) for one block after another."""
        for block in self._blocks:
            part = R[block]
            left = np.zeros((self.layout.n_nodes, LANES), self.dtype)
            left[:, : len(part)] = part.T
            Q = np.empty((D.n_atoms, LANES), self.dtype)
            correlate_block(D.atoms, left, Q)
            yield Q[:, : len(part)]

    def residuals(self, D: SparseDictionary, codes: Codes) -> Block:
        """``X - sum_s E_s H_s`` (M, N), zero where nothing was observed."""
        R = np.empty_like(self.rows)

        def subtract(block: slice) -> None:
            H = as_rows(codes, block, D.n_atoms, 0.0)
            R[block] = self._left(D, H, block)[:, : len(H)].T

        run_threads(subtract, self._blocks, self.n_threads)
        return R

    def factors(self, D: SparseDictionary, codes: Codes) -> tuple[Block, Block]:
        """Of the gradient of the fit over all pairs, (N, r n_blocks W) each: see `price`."""
        S, N = D.omega.shape
        u, v = gradient_factors(D.heat.c, RANK_TOL)
        rank = u.shape[1]
        blocks = [slice(m, m + WIDTH) for m in range(0, self.n_signals, WIDTH)]
        left = np.zeros((N, len(blocks), rank, WIDTH), np.float32)
        right = np.zeros((N, len(blocks), rank, WIDTH), np.float32)
        R = self.residuals(D, codes)

        def fill(b: int) -> None:
            H = as_rows(codes, blocks[b], D.n_atoms, 0.0)
            W = len(H)
            residual, sources = (
                np.zeros((N, WIDTH), self.dtype),
                np.zeros((S, N, WIDTH), self.dtype),
            )
            residual[:, :W] = R[blocks[b]].T
            sources[:, :, :W] = H.reshape(W, N, S).transpose(2, 1, 0)
            V = np.empty((N, 3, WIDTH), self.dtype)
            Z, Y = (np.empty((N, rank, WIDTH), self.dtype) for _ in range(2))
            signal_factors(D.narrow, u, v, residual, sources, V, Z, Y)
            left[:, b], right[:, b] = Z, Y

        run_threads(fill, range(len(blocks)), self.n_threads)
        return left.reshape(N, -1), right.reshape(N, -1)

    def discount(self, D: SparseDictionary, codes: Codes, alpha: float) -> tuple[Codes, float]:
        sizes = np.abs(codes.what) * D.omega.T.ravel()[codes.where]
        return codes._replace(what=discount_of(sizes, alpha)), above_tangent(sizes, alpha)

    def moments(
        self, objective: SparseObjective, D: SparseDictionary, codes: Codes
    ) -> SparseMoments:
        discount, _ = self.discount(D, codes, objective.alpha)
        R = self.residuals(D, codes)
        return objective.moments(D, R, codes, np.abs(codes.what) * discount.what)

    def sources(self, codes: Codes, n_scales: int) -> Array:
        """Nothing: the codes stay sparse."""
        return np.empty((n_scales, self.layout.n_nodes, 0))

    def whole(self, codes: Codes, n_scales: int) -> Array:
        """The codes as the paper's (S, N, M)."""
        N, M = self.signals.X.shape
        H = np.zeros((n_scales, N, M))
        where = codes.where
        H[where % n_scales, self.layout.order[where // n_scales], codes.signal] = codes.what
        return H

    def pack(self, codes: Codes) -> dict[str, NDArray[Any]]:
        return {
            "indptr": codes.indptr.astype("<i8"),
            "where": codes.where.astype("<i8"),
            "what": codes.what.astype("<f8"),
        }

    def unpack(self, arrays: Mapping[str, NDArray[Any]], n_atoms: int) -> Codes:
        codes = Codes(arrays["indptr"], arrays["where"], arrays["what"])
        indptr, where = codes.indptr, codes.where
        if indptr.shape != (self.n_signals + 1,) or indptr[0] or (np.diff(indptr) < 0).any():
            raise ValueError("its codes do not fit the signals")
        if where.shape != (indptr[-1],) or codes.what.shape != where.shape:
            raise ValueError("its codes do not fit the signals")
        if where.size and not 0 <= where.min() <= where.max() < n_atoms:
            raise ValueError(f"its codes name atoms that are not among the {n_atoms}")
        return codes


def _region_of_atoms(D: SparseDictionary) -> NDArray[np.int64]:
    """In which region every atom starts (S N,)."""
    S, N = D.omega.shape
    number = np.empty(N, np.int64)
    for patch in D.patches:
        number[patch.nodes] = patch.region
    return np.repeat(number, S)


def as_rows(codes: Codes, block: slice, n_atoms: int, fill: float) -> Array:
    """The codes of some signals as rows (W, S N), ``fill`` where there is none."""
    indptr = codes.indptr[block.start : block.stop + 1]
    rows = np.full((indptr.size - 1, n_atoms), fill)
    _fill(indptr, codes.where, codes.what, rows)
    return rows


@numba.njit(cache=True, nogil=True, fastmath=False)
def _fill(indptr: NDArray[np.int64], where: NDArray[np.int64], what: Array, rows: Array) -> None:
    for m in range(indptr.size - 1):
        for p in range(indptr[m], indptr[m + 1]):
            rows[m, where[p]] = what[p]


@numba.njit(cache=True, nogil=True, fastmath=False)
def _collect(rows: Array) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """How many entries of each row are not zero, where they are, and what."""
    counts = np.zeros(len(rows), np.int64)
    for m in range(len(rows)):
        for k in range(rows.shape[1]):
            counts[m] += rows[m, k] != 0.0
    where, what = np.empty(counts.sum(), np.int64), np.empty(counts.sum())
    n = 0
    for m in range(len(rows)):
        for k in range(rows.shape[1]):
            if rows[m, k] != 0.0:
                where[n], what[n] = k, rows[m, k]
                n += 1
    return counts, where, what


def absolute(codes: Codes, discount: Codes | None, n_atoms: int) -> Array:
    """The sizes of the codes, each discounted; those that had no discount whole."""
    sizes: Array = np.abs(codes.what)
    if discount is None:
        return sizes
    key = codes.signal * n_atoms + codes.where
    known = discount.signal * n_atoms + discount.where
    at = np.searchsorted(known, key)
    found = np.append(known, -1)[at] == key
    return sizes * np.where(found, np.append(discount.what, 1.0)[at], 1.0)
