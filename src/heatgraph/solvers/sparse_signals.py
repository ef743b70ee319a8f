"""Signals for the matrix-free engine: in blocks, their codes kept sparse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from threading import local
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from heatgraph.kernels.chebyshev import (
    WIDTH,
    adjoint,
    bilinear_gradient,
    clenshaw,
    gradient_factors,
)
from heatgraph.kernels.layout import Layout
from heatgraph.kernels.pool import in_groups, run_threads
from heatgraph.objective.heat import Signals
from heatgraph.objective.pricing import RANK_TOL, signal_factors
from heatgraph.objective.sparse import SparseDictionary, SparseMoments, SparseObjective
from heatgraph.solvers.coding import code
from heatgraph.solvers.ensemble import CODING_TOL, above_tangent, discount_of
from heatgraph.solvers.shrinkage import shrink

__all__ = ["BlockCodes", "SparseSignals"]

Array = NDArray[np.float64]

PROXIMAL_STEPS = 6  # towards the sources in every evaluation, on graphs without a Gram matrix
ROUGH = 1e-4  # tolerance of the kernel in these steps; value and gradient are not rough
NOTHING_MISSING = np.empty((0, 0), dtype=np.bool_)
FILLINGS = 100  # of missing entries; where much is missing and penalties are small, not the last
SETTLED = 1e-6

_compiled = numba.njit(cache=True, nogil=True)


@dataclass(frozen=True, eq=False)
class BlockCodes:
    """Codes of one block: those of signal ``m`` are ``where[indptr[m]:indptr[m + 1]]``.

    An atom is ``node * S + s``, nodes in the order of the layout.
    """

    indptr: NDArray[np.int64]
    where: NDArray[np.int64]
    what: Array

    @classmethod
    def of(cls, rows: Array) -> BlockCodes:
        signal, where = np.nonzero(rows)
        indptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(np.bincount(signal, minlength=len(rows)), out=indptr[1:])
        return cls(indptr, where, rows[signal, where])

    @property
    def signal(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr))

    def rows(self, n_atoms: int, fill: float = 0.0) -> Array:
        """As rows (W, S N)."""
        rows = np.full((self.indptr.size - 1, n_atoms), fill)
        rows[self.signal, self.where] = self.what
        return rows


Codes = Sequence[BlockCodes]


class _Workspace(local):
    """Arrays that a thread keeps from one block to the next."""

    def __init__(self) -> None:
        self.shape: tuple[Any, ...] = ()
        self.arrays: tuple[NDArray[Any], ...] = ()

    def take(self, K: int, S: int, N: int, dtype: Any) -> tuple[NDArray[Any], ...]:
        """``B`` (K + 1, N, W), ``V`` (3, N, W), ``R`` (N, W), ``H`` and ``Q`` (S, N, W)."""
        if self.shape[1:] != (S, N, dtype) or self.shape[0] < K:
            self.shape = (K, S, N, dtype)
            sizes = (K + 1, N, WIDTH), (3, N, WIDTH), (N, WIDTH), (S, N, WIDTH), (S, N, WIDTH)
            self.arrays = tuple(np.empty(size, dtype) for size in sizes)
        return self.arrays


@dataclass(frozen=True, eq=False)
class SparseSignals:
    """Signals in memory for the matrix-free engine; codes are a :class:`BlockCodes` a block."""

    layout: Layout
    signals: Signals
    dtype: Any = np.float64
    n_threads: int = 1
    n_steps: int = PROXIMAL_STEPS

    @property
    def n_signals(self) -> int:
        return int(self.signals.X.shape[1])

    @cached_property
    def blocks(self) -> NDArray[Any]:
        """The signals (n_blocks, N, W), nodes in the order of the layout, zeros at the end."""
        N, M = self.signals.X.shape
        return self._blocked(self.signals.X, np.zeros((-(-M // WIDTH), N, WIDTH), self.dtype))

    @cached_property
    def observed(self) -> NDArray[np.bool_] | None:
        """The mask in the same blocks, true at the end; None where all was observed."""
        if self.signals.observed is None:
            return None
        return self._blocked(self.signals.observed, np.ones(self.blocks.shape, dtype=bool))

    def _blocked(self, values: NDArray[Any], blocks: NDArray[Any]) -> NDArray[Any]:
        for b, block in enumerate(blocks):
            part = values[:, b * WIDTH : (b + 1) * WIDTH]
            block[:, : part.shape[1]] = part[self.layout.order]
        return blocks

    @cached_property
    def _workspace(self) -> _Workspace:
        return _Workspace()

    def silence(self, n_atoms: int) -> Codes:
        nothing = BlockCodes(np.zeros(WIDTH + 1, np.int64), np.zeros(0, np.int64), np.zeros(0))
        return (nothing,) * len(self.blocks)

    def code(
        self,
        objective: SparseObjective,
        D: SparseDictionary,
        start: Codes,
        discount: Codes | None,
    ) -> tuple[Codes, SparseMoments]:
        def coded(b: int) -> BlockCodes:
            return self._code(objective, D, b, start[b], None if discount is None else discount[b])

        codes = run_threads(coded, range(len(self.blocks)), self.n_threads)
        return codes, self._moments(objective, D, codes, discount)

    def _code(
        self,
        objective: SparseObjective,
        D: SparseDictionary,
        b: int,
        start: BlockCodes,
        discount: BlockCodes | None,
    ) -> BlockCodes:
        if not D.has_gram:
            return self._shrink(objective, D, b, start, discount)
        if self.observed is None:
            return self._code_whole(objective, D, self.blocks[b], start, discount)
        # Entries that were not observed are filled with what the codes diffuse into.  The fit of
        # the filled block bounds that of the observed entries from above, and touches it there:
        # to code it anew lowers both.
        S, N = D.omega.shape
        c, codes = D.heat.c.astype(self.dtype), start
        for _ in range(FILLINGS):
            B, _, R, H, _ = self._workspace.take(D.heat.degree, S, N, self.dtype)
            _as_sources(codes.indptr, codes.where, codes.what, H)
            clenshaw(D.narrow, c, H, B, R)
            filled = np.where(self.observed[b], self.blocks[b], R)
            following = self._code_whole(objective, D, filled, codes, discount)
            settled = _change(codes, following, D.n_atoms) <= SETTLED
            codes = following
            if settled:
                break
        return codes

    def _shrink(
        self,
        objective: SparseObjective,
        D: SparseDictionary,
        b: int,
        start: BlockCodes,
        discount: BlockCodes | None,
    ) -> BlockCodes:
        """Better sources than ``start``, by a number of proximal steps."""
        S, N = D.omega.shape
        B, V, R, H, Q = self._workspace.take(D.heat.degree, S, N, self.dtype)
        _as_sources(start.indptr, start.where, start.what, H)
        a = np.empty((S, N, WIDTH), self.dtype)
        a[:] = (objective.alpha * D.omega)[:, :, None]
        if discount is not None:
            a[discount.where % S, discount.where // S, discount.signal] *= discount.what
        observed = NOTHING_MISSING if self.observed is None else self.observed[b]
        c = D.heat.shortened(ROUGH).astype(self.dtype)
        shrink(D.narrow, c, self.blocks[b], observed, a, H, self.n_steps, B, V, R, Q)
        rows = H.transpose(2, 1, 0).reshape(WIDTH, S * N)
        return BlockCodes.of(rows.astype(np.float64))

    def _code_whole(
        self,
        objective: SparseObjective,
        D: SparseDictionary,
        X: NDArray[Any],
        start: BlockCodes,
        discount: BlockCodes | None,
    ) -> BlockCodes:
        """Code a block of which every entry is there."""
        c = D.heat.c.astype(self.dtype)
        S, N = D.omega.shape
        _, V, _, _, Q = self._workspace.take(D.heat.degree, S, N, self.dtype)
        adjoint(D.narrow, c, X, V, Q)
        penalty = objective.alpha * D.omega.T.ravel()
        if discount is not None:
            penalty = penalty * discount.rows(D.n_atoms, 1.0)
        coding = code(
            (*D.near, D.gram, _pairs(S), np.empty(0)),
            Q.transpose(2, 1, 0).reshape(WIDTH, D.n_atoms).astype(np.float64),
            penalty,
            np.einsum("nb,nb->b", X, X, dtype=np.float64),
            start.rows(D.n_atoms),
            tol=CODING_TOL,
        )
        return BlockCodes.of(coding.h)

    def residual(self, D: SparseDictionary, codes: BlockCodes, b: int) -> NDArray[Any]:
        """``X - sum_s E_s H_s`` (N, W) of a block, zero where nothing was observed."""
        S, N = D.omega.shape
        B, _, R, H, _ = self._workspace.take(D.heat.degree, S, N, self.dtype)
        self._residual(D, D.heat.c.astype(self.dtype), codes, b, B, R, H)
        return R.copy()

    def _residual(
        self,
        D: SparseDictionary,
        c: NDArray[Any],
        codes: BlockCodes,
        b: int,
        B: NDArray[Any],
        R: NDArray[Any],
        H: NDArray[Any],
    ) -> None:
        """``R = X - sum_s E_s H_s`` of a block where it was observed, ``H`` from its codes."""
        _as_sources(codes.indptr, codes.where, codes.what, H)
        clenshaw(D.narrow, c, H, B, R)
        np.subtract(self.blocks[b], R, out=R)
        if self.observed is not None:
            R[~self.observed[b]] = 0

    def _moments(
        self,
        objective: SparseObjective,
        D: SparseDictionary,
        codes: Codes,
        discount: Codes | None,
    ) -> SparseMoments:
        S, N = D.omega.shape
        K, c = D.heat.degree, D.heat.c.astype(self.dtype)

        def part(group: Sequence[int]) -> SparseMoments:
            B, V, R, H, _ = self._workspace.take(K, S, N, self.dtype)
            g, modes, size = np.zeros(objective.candidates.n_edges), np.zeros((K + 1, S)), 0.0
            sums = np.zeros(S * N)
            for b in group:
                self._residual(D, c, codes[b], b, B, R, H)
                size += float(np.einsum("nb,nb->", R, R, dtype=np.float64))
                bilinear_gradient(D.narrow, K, self.layout.upper, B, R, V, -2.0, g, H, modes)
                absolute = np.abs(codes[b].what)
                if discount is not None:
                    absolute *= _matched(discount[b], codes[b], D.n_atoms)
                np.add.at(sums, codes[b].where, absolute)
            return SparseMoments(size, g, modes, sums.reshape(N, S).T)

        groups = in_groups(range(len(self.blocks)))
        parts = run_threads(part, groups, self.n_threads)
        return SparseMoments(
            sum(p.fit for p in parts),
            np.sum([p.gradient for p in parts], axis=0),
            np.sum([p.modes for p in parts], axis=0),
            np.sum([p.c for p in parts], axis=0),
        )

    def factors(self, D: SparseDictionary, codes: Codes) -> tuple[NDArray[Any], NDArray[Any]]:
        """Of the gradient of the fit over all pairs, (N, r n_blocks W) each: see `price`."""
        S, N = D.omega.shape
        u, v = gradient_factors(D.heat.c, RANK_TOL)
        rank, n = u.shape[1], len(self.blocks)
        left = np.empty((N, n, rank, WIDTH), np.float32)
        right = np.empty((N, n, rank, WIDTH), np.float32)
        c = D.heat.c.astype(self.dtype)

        def fill(b: int) -> None:
            B, V, R, H, _ = self._workspace.take(D.heat.degree, S, N, self.dtype)
            self._residual(D, c, codes[b], b, B, R, H)
            Z, Y = (np.empty((N, rank, WIDTH), self.dtype) for _ in range(2))
            signal_factors(D.narrow, u, v, R, H, V, Z, Y)
            left[:, b], right[:, b] = Z, Y

        run_threads(fill, range(n), self.n_threads)
        return left.reshape(N, -1), right.reshape(N, -1)

    def discount(self, D: SparseDictionary, codes: Codes, alpha: float) -> tuple[Codes, float]:
        omega = D.omega.T.ravel()
        sizes = [np.abs(block.what) * omega[block.where] for block in codes]
        slopes = [
            BlockCodes(block.indptr, block.where, discount_of(u, alpha))
            for block, u in zip(codes, sizes, strict=True)
        ]
        return slopes, sum(above_tangent(u, alpha) for u in sizes)

    def moments(
        self, objective: SparseObjective, D: SparseDictionary, codes: Codes
    ) -> SparseMoments:
        discount, _ = self.discount(D, codes, objective.alpha)
        return self._moments(objective, D, codes, discount)

    def sources(self, codes: Codes, n_scales: int) -> Array:
        """Nothing: the codes stay in their blocks."""
        return np.empty((n_scales, self.layout.n_nodes, 0))

    def whole(self, codes: Codes, n_scales: int) -> Array:
        """The codes as the paper's (S, N, M)."""
        N, M = self.signals.X.shape
        H = np.zeros((n_scales, N, M))
        for b, block in enumerate(codes):
            m = b * WIDTH + block.signal
            H[block.where % n_scales, self.layout.order[block.where // n_scales], m] = block.what
        return H

    def pack(self, codes: Codes) -> dict[str, NDArray[Any]]:
        return {
            "indptr": np.concatenate([block.indptr for block in codes]).astype("<i8"),
            "where": np.concatenate([block.where for block in codes]).astype("<i8"),
            "what": np.concatenate([block.what for block in codes]).astype("<f8"),
        }

    def unpack(self, arrays: Mapping[str, NDArray[Any]], n_atoms: int) -> Codes:
        indptr = arrays["indptr"].reshape(len(self.blocks), WIDTH + 1)
        ends = np.cumsum(indptr[:, -1])
        where, what = np.split(arrays["where"], ends), np.split(arrays["what"], ends)
        if ends[-1] != arrays["where"].size or ends[-1] != arrays["what"].size:
            raise ValueError("its codes do not fit the signals")
        held = arrays["where"]
        if held.size and not 0 <= held.min() <= held.max() < n_atoms:
            raise ValueError(f"its codes name atoms that are not among the {n_atoms}")
        if indptr[:, 0].any() or (np.diff(indptr, axis=1) < 0).any():
            raise ValueError("its codes do not fit the signals")
        return [BlockCodes(*block) for block in zip(indptr, where, what, strict=False)]


def _pairs(S: int) -> NDArray[np.intp]:
    """Which of the pairs ``s <= t``, in order, two scales are."""
    pair = np.empty((S, S), dtype=np.intp)
    for k, (s, t) in enumerate(combinations_with_replacement(range(S), 2)):
        pair[s, t] = pair[t, s] = k
    return pair


def _change(before: BlockCodes, after: BlockCodes, n_atoms: int) -> float:
    """The largest change of a code, relative to the largest code."""
    moved = np.abs(after.rows(n_atoms) - before.rows(n_atoms)).max()
    return float(moved) / (float(np.abs(after.what).max(initial=0.0)) or 1.0)


def _matched(discount: BlockCodes, codes: BlockCodes, n_atoms: int) -> Array:
    """The discount of every code, 1 for those that had none."""
    key = codes.signal * n_atoms + codes.where
    known = discount.signal * n_atoms + discount.where
    at = np.searchsorted(known, key)
    found = np.append(known, -1)[at] == key
    return np.where(found, np.append(discount.what, 1.0)[at], 1.0)


@_compiled
def _as_sources(
    indptr: NDArray[np.int64], where: NDArray[np.int64], what: Array, H: NDArray[Any]
) -> None:
    """Write codes into ``H`` (S, N, W)."""
    S = H.shape[0]
    H[:] = 0
    for m in range(indptr.size - 1):
        for p in range(indptr[m], indptr[m + 1]):
            H[where[p] % S, where[p] // S, m] = what[p]
