"""Signals for the matrix-free engine: coded a few at a time, their codes kept sparse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from threading import local
from typing import Any, ClassVar

import numba
import numpy as np
from numpy.typing import NDArray

from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels.chebyshev import gradient_factors
from heatgraph.kernels.lanes import aligned, lanes
from heatgraph.kernels.layout import Layout
from heatgraph.kernels.pool import run_threads
from heatgraph.models.all_pairs_gradient import RANK_TOL, signal_factors
from heatgraph.models.heat import Signals
from heatgraph.models.sparse import Codes, SparseDictionary, SparseMoments, SparseObjective
from heatgraph.solvers.signal_access import STEPS_PER_TANGENT, above_tangent, discount_of
from heatgraph.solvers.working_sets import (
    TOGETHER,
    code_block,
    correlate_block,
    lend,
    residual_block,
    side_by_side,
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
    steps_per_tangent: ClassVar[int] = STEPS_PER_TANGENT

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
        return [slice(m, m + TOGETHER) for m in range(0, self.n_signals, TOGETHER)]

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
        penalty = (objective.alpha * D.omega.T.reshape(-1, 1)).astype(self.dtype)
        region = _region_of_atoms(D)
        how, lent = (EXCESS[np.dtype(self.dtype)], ROUNDS), local()

        def coded(block: slice) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
            if not hasattr(lent, "memory"):
                lent.memory = lend(self.layout.n_nodes, D.n_atoms, region.max() + 1, self.dtype)
            a = penalty if discount is None else _discounted(penalty, discount, block)
            which = start.indptr[block.start : block.stop + 1], start.where, start.what
            signals = self.rows[block], self.observed[block]
            return code_block(D.atoms, region, a, *which, *signals, *how, lent.memory, R[block])

        parts = run_threads(coded, self._blocks, self.n_threads)
        indptr = np.zeros(self.n_signals + 1, np.int64)
        np.cumsum(np.concatenate([counts for counts, _, _ in parts]), out=indptr[1:])
        where = np.concatenate([at for _, at, _ in parts])
        return Codes(indptr, where, np.concatenate([what for _, _, what in parts])), R

    def correlations(self, D: SparseDictionary, R: Block) -> Iterator[Block]:
        """``<d_k, R_m>`` of all atoms with rows (M, N), (S N, W) for one block after another."""
        for block in self._blocks:
            part = R[block]
            left = aligned(self.layout.n_nodes * TOGETHER, self.dtype).reshape(-1, TOGETHER)
            Q = aligned(D.n_atoms * TOGETHER, self.dtype).reshape(-1, TOGETHER)
            side_by_side(part, left)
            correlate_block(D.atoms, left, Q)
            yield Q[:, : len(part)]

    def residuals(self, D: SparseDictionary, codes: Codes) -> Block:
        """``X - sum_s E_s H_s`` (M, N), zero where nothing was observed."""
        R = self.rows.copy()

        def subtract(block: slice) -> None:
            which = codes.indptr[block.start : block.stop + 1], codes.where, codes.what
            residual_block(D.atoms, *which, self.observed[block], R[block])

        run_threads(subtract, self._blocks, self.n_threads)
        return R

    def factors(self, D: SparseDictionary, codes: Codes) -> tuple[Block, Block]:
        """Of the gradient of the fit over all pairs, (N, r n_blocks W) each: see `price`."""
        S, N = D.omega.shape
        u, v = gradient_factors(D.heat.c, RANK_TOL)
        rank, width = u.shape[1], lanes(np.dtype(self.dtype))
        blocks = [slice(m, m + width) for m in range(0, self.n_signals, width)]
        left = np.zeros((N, len(blocks), rank, width), np.float32)
        right = np.zeros((N, len(blocks), rank, width), np.float32)
        R = self.residuals(D, codes)

        def fill(b: int) -> None:
            H = as_rows(codes, blocks[b], D.n_atoms, 0.0)
            W = len(H)
            residual, sources = (
                np.zeros((N, width), self.dtype),
                np.zeros((S, N, width), self.dtype),
            )
            residual[:, :W] = R[blocks[b]].T
            sources[:, :, :W] = H.reshape(W, N, S).transpose(2, 1, 0)
            V = np.empty((N, 2, width), self.dtype)
            Z, Y = (np.empty((N, rank, width), self.dtype) for _ in range(2))
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

    def settle(self, objective: SparseObjective, D: SparseDictionary, codes: Codes) -> Codes:
        """Codes as they are: they are found anew with every step, to a rough tolerance."""
        return codes

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
        if (np.diff(codes.signal * n_atoms + where) <= 0).any():
            raise ValueError("its codes name an atom twice, or not in their order")
        return codes


def _region_of_atoms(D: SparseDictionary) -> NDArray[np.int64]:
    """In which region every atom starts (S N,)."""
    S, N = D.omega.shape
    number = np.empty(N, np.int64)
    number[D.patches.nodes] = np.repeat(D.patches.region, np.diff(D.patches.starts))
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


def _discounted(penalty: Block, discount: Codes, block: slice) -> Block:
    """The penalties (K, T) of some signals, from those that all would have, (K, 1)."""
    a = np.repeat(penalty, TOGETHER, axis=1)
    indptr = discount.indptr[block.start : block.stop + 1]
    some = slice(indptr[0], indptr[-1])
    signal = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    a[discount.where[some], signal] *= discount.what[some].astype(a.dtype)
    return a


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
