"""The gradient over all pairs of nodes, a block of rows at a time: which edges are missing.

The divided differences of ``exp(-t x)``, as a series in two Chebyshev variables, have a numerical
rank of a handful, so that the gradient over all pairs is a few products of tall matrices a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from heatgraph.kernels.chebyshev import (
    Operator,
    ascend,
    gradient_factors,
    heat_polynomial,
)
from heatgraph.kernels.lanes import lanes, load, plus_product, plus_scaled, store
from heatgraph.kernels.layout import Layout
from heatgraph.kernels.patches import _restrict
from heatgraph.models.sparse import SparseDictionary, SparseMoments, SparseObjective

__all__ = ["Prices", "price", "signal_factors"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Block = NDArray[Any]

ROWS = 512
RANK_TOL = 1e-6
BLURRED = 1e-4  # a certificate needs the columns of the kernel to be known better than this

_compiled = numba.njit(cache=True, nogil=True, fastmath=True)


@dataclass(frozen=True, eq=False)
class Prices:
    """The pairs that would lower the objective most, and the certificate.

    ``pairs`` (n, 2) are node numbers, ``gradient`` (n,) their slopes, ascending; ``gap`` is the
    relative fall of the objective that the gradient over all pairs still promises, to a few parts
    in a million, NaN where the kernel is not known well enough to say; ``lowest`` the smallest
    slope of all.
    """

    pairs: NDArray[np.intp]
    gradient: Array
    gap: float
    lowest: float


@_compiled
def signal_factors(
    A: Operator, u: Array, v: Array, R: Block, H: Block, V: Block, Z: Block, Y: Block
) -> None:
    """``Z_r = sum_k u_kr T_k R`` and ``Y_r = sum_s sum_k v_skr T_k H_s``, (N, r, W) each."""
    K, rank = u.shape
    N, W, terms = R.shape[0], lanes(V.dtype), V.reshape(-1)
    Z[:] = 0
    Y[:] = 0
    for source in range(H.shape[0] + 1):
        V[:, 0] = R if source == 0 else H[source - 1]
        for k in range(K):
            if k > 0:
                ascend(A, k, V)
            factors = u[k] if source == 0 else v[source - 1, k]
            out = Z.reshape(-1) if source == 0 else Y.reshape(-1)
            for i in range(N):
                term = load(terms, (2 * i + k % 2) * W)
                for r in range(rank):
                    at = (i * rank + r) * W
                    store(out, at, plus_scaled(load(out, at), Z.dtype.type(factors[r]), term))


@_compiled
def _column_factors(
    A: Operator,
    nodes: Ints,
    rows: Ints,
    u: Array,
    v: Array,
    weight: Array,
    position: NDArray[np.int32],
) -> tuple[Array, Array]:
    """The two factors for the columns at a few nodes of a patch, (rows, r W) each."""
    K, rank = u.shape
    S, n = weight.shape[0], rows.size
    local = _restrict(A, rows, position)
    W = lanes(u.dtype)
    V = np.zeros((n + 1, 2, W))
    Z, Y = np.zeros((n, rank, W)), np.zeros((n, rank, W))
    terms, left, right = V.reshape(-1), Z.reshape(-1), Y.reshape(-1)
    shares = np.zeros(rank * W)
    for b in range(nodes.size):
        V[position[nodes[b]], 0, b] = 1.0
    for k in range(K):
        if k > 0:
            ascend(local, k, V)
        for r in range(rank):
            for b in range(nodes.size):
                shares[r * W + b] = 0.0
                for s in range(S):
                    shares[r * W + b] += v[s, k, r] * weight[s, nodes[b]]
        for i in range(n):
            term = load(terms, (2 * i + k % 2) * W)
            for r in range(rank):
                at = (i * rank + r) * W
                store(left, at, plus_scaled(load(left, at), u[k, r], term))
                store(right, at, plus_product(load(right, at), load(shares, r * W), term))
    position[rows] = -1
    return Z.reshape(n, rank * W), Y.reshape(n, rank * W)


def price(
    objective: SparseObjective,
    D: SparseDictionary,
    w: Array,
    moments: SparseMoments,
    factors: tuple[Block, Block],
    *,
    tol: float,
    most: int,
) -> Prices:
    """Look at every pair: the best ``most`` a node that promise more than ``tol`` of the value.

    ``factors`` are those of the residuals and the sources, (N, anything) each, nodes in the order
    of the layout.
    """
    value = objective.value(D, w, moments)
    on_candidates = objective.gradient_w(D, w, moments)
    multiplier = float(on_candidates @ w) / objective.total
    # <g, w - y> over the points y of the simplex is at most total times (multiplier - min g).
    bound = multiplier - tol * value / objective.total
    # Where there is no weight yet, the other end of an edge may be out of the reach of atoms; the
    # factors know better.
    lowest = float(on_candidates[w > 0.0].min())
    found: list[tuple[NDArray[np.intp], Array]] = []
    for first, block in _gradient_rows(objective, D, w, moments, factors):
        lowest = min(lowest, float(block.min()))
        kept = min(most, block.shape[1])
        best = np.argpartition(block, kept - 1, axis=1)[:, :kept]
        slopes = np.take_along_axis(block, best, axis=1)
        row, column = np.nonzero(slopes < bound)
        pairs = np.stack([first + row, best[row, column]], axis=1)
        found.append((pairs, slopes[row, column]))
    gap = max(float(on_candidates @ w) - objective.total * lowest, 0.0) / value
    if D.threshold > BLURRED:
        gap = float("nan")  # heat is everywhere, and what was left out of it may matter
    pairs, slopes = _best_by_node(found, objective.layout.n_nodes, most)
    return Prices(objective.layout.order[pairs], slopes, gap, lowest)


def _gradient_rows(
    objective: SparseObjective,
    D: SparseDictionary,
    w: Array,
    moments: SparseMoments,
    factors: tuple[Block, Block],
) -> Iterator[tuple[int, Array]]:
    """The gradient on rows of the upper triangle, infinite where the pair has weight."""
    layout, N = objective.layout, objective.layout.n_nodes
    Z, Y = factors
    own = np.einsum("nk,nk->n", Z, Y, dtype=np.float64)
    degrees = objective.candidates.degrees(w)[layout.order]
    scale = -2.0 * D.operator.inverse
    near = _NearPart.of(objective, D, moments) if objective.unit_atoms else None
    for first in range(0, N, ROWS):
        rows = slice(first, min(first + ROWS, N))
        block = np.add.outer(own[rows], own)
        block -= Z[rows] @ Y.T
        block -= Y[rows] @ Z.T
        block *= scale
        block += 2.0 * objective.beta * np.add.outer(degrees[rows], degrees)
        if near is not None:
            near.add_to(block, rows.start, rows.stop)
        for k in range(rows.start, rows.stop):
            block[k - first, : k + 1] = np.inf
        _leave_out(block, first, layout, w > 0.0)
        yield first, block


def _leave_out(block: Array, first: int, layout: Layout, some: NDArray[np.bool_]) -> None:
    """Make the gradient on some of the candidates infinite, in rows from ``first`` on."""
    indptr, ends, edge = layout.upper
    for k in range(len(block)):
        listed = slice(indptr[first + k], indptr[first + k + 1])
        block[k, ends[listed][some[edge[listed]]]] = np.inf


@dataclass(frozen=True, eq=False)
class _NearPart:
    """The penalty's part of the gradient: its cross terms vanish between nodes far apart."""

    objective: SparseObjective
    D: SparseDictionary
    u: Array
    v: Array
    weight: Array
    own: Array

    @classmethod
    def of(
        cls, objective: SparseObjective, D: SparseDictionary, moments: SparseMoments
    ) -> _NearPart:
        twice = heat_polynomial(2.0 * D.tau, 1.0 / D.operator.inverse, objective.tol)
        u, v = gradient_factors(twice.c, RANK_TOL)
        weight = moments.c / (2.0 * D.omega)
        part = cls(objective, D, u, v, weight, np.zeros(objective.layout.n_nodes))
        for p in range(D.patches.n_patches):
            Z, Y = part.factors(p)
            part.own[D.patches.rows_of(p)] += np.einsum("nk,nk->n", Z, Y)
        return part

    def factors(self, p: int) -> tuple[Array, Array]:
        """Both for the columns of a patch, (rows, anything) each, always in double precision."""
        position = np.full(self.own.size, -1, dtype=np.int32)
        width, inside, rows = (
            lanes(self.u.dtype),
            self.D.patches.nodes_of(p),
            self.D.patches.rows_of(p),
        )
        parts = [
            _column_factors(self.D.operator, nodes, rows, self.u, self.v, self.weight, position)
            for nodes in np.split(inside, range(width, inside.size, width))
        ]
        left, right = zip(*parts, strict=True)
        return np.hstack(left), np.hstack(right)

    def add_to(self, block: Array, start: int, stop: int) -> None:
        scale = self.objective.alpha * self.D.operator.inverse
        block += scale * np.add.outer(self.own[start:stop], self.own)
        for p in range(self.D.patches.n_patches):
            rows = self.D.patches.rows_of(p)
            inside = slice(*np.searchsorted(rows, (start, stop)))
            if inside.start == inside.stop:
                continue
            Z, Y = self.factors(p)
            cross = Z[inside] @ Y.T + Y[inside] @ Z.T
            block[np.ix_(rows[inside] - start, rows)] -= scale * cross


def _best_by_node(
    found: list[tuple[NDArray[np.intp], Array]], N: int, most: int
) -> tuple[NDArray[np.intp], Array]:
    """The steepest pairs first, no node in more than ``most`` of them.

    Without that limit one node would be flooded with edges, each of which explains the others.
    """
    pairs = np.concatenate([pair for pair, _ in found])
    slopes = np.concatenate([slope for _, slope in found])
    by = np.argsort(slopes, kind="stable")
    count = np.zeros(N, dtype=np.intp)
    kept = []
    for k in by:
        i, j = pairs[k]
        if count[i] < most and count[j] < most:
            count[i] += 1
            count[j] += 1
            kept.append(k)
    return pairs[kept].reshape(-1, 2), slopes[kept]
