"""Patches of neighbouring nodes, and the rows where heat from them is not negligible.

Heat that started in a patch stays near it for a while.  It is followed from a few patches at once,
on the rows that it comes to.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from heatgraph.kernels.chebyshev import Operator, times_row
from heatgraph.kernels.lanes import (
    aligned,
    fill,
    lanes,
    larger,
    largest,
    load,
    plus_scaled,
    store,
)

__all__ = ["PATCHES", "Patches", "follow", "lend", "make_patches", "reached_rows"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Block = NDArray[Any]
Edges = tuple[Ints, NDArray[np.int32], Ints]
# To follow heat on, for each of N rows: `lanes` zeros, twice, to be left as they were; as many
# numbers of any kind, whether heat spreads from it, which one it is; and -1, to be left so.
Lent = tuple[Block, Block, Block, NDArray[np.bool_], Ints, NDArray[np.int32]]

JOINED = 0.03  # heat of a row, from which on the other ends of its candidate edges are rows too
PATCHES = 4  # whose heat is followed at once, each in as many parts as there are lanes for
LEFT = np.iinfo(np.int32).max  # no patch yet, but too few neighbours left for one of its own

_compiled = numba.njit(cache=True, nogil=True, fastmath=True)


class Patches(NamedTuple):
    """The nodes of patch ``p`` are ``nodes[starts[p]:starts[p + 1]]``; together, all there are.

    Around it are ``rows[indptr[p]:indptr[p + 1]]``, ascending, where heat from it is above about
    ``threshold[p]``.  Patches of one ``region`` are neighbours, too.
    """

    nodes: Ints
    starts: Ints
    rows: Ints
    indptr: Ints
    threshold: Array
    region: Ints

    @property
    def n_patches(self) -> int:
        return self.starts.size - 1

    def nodes_of(self, p: int) -> Ints:
        return self.nodes[self.starts[p] : self.starts[p + 1]]

    def rows_of(self, p: int) -> Ints:
        return self.rows[self.indptr[p] : self.indptr[p + 1]]


def lend(N: int, dtype: Any) -> Lent:
    """Memory for `reached_rows`."""
    W = lanes(np.dtype(dtype))
    u, v, hottest = (aligned(N * W, dtype) for _ in range(3))
    u[:] = v[:] = 0.0
    return (
        u,
        v,
        hottest,
        np.empty(N, np.bool_),
        np.empty(N, np.int64),
        np.full(N, -1, np.int32),
    )


@_compiled
def make_patches(
    indptr: Ints, indices: NDArray[np.int32], values: Array, most: int
) -> NDArray[np.int32]:
    """The patch of every node (N,): at most ``most`` nodes each, grown along the heaviest edges.

    What is left between patches is put together in the order of the nodes.
    """
    N = indptr.size - 1
    patch = np.full(N, -1, np.int32)
    best = np.zeros(N)  # the heaviest edge from the growing patch to a node
    members = np.empty(most, np.int64)
    count = 0
    for seed in range(N):
        if patch[seed] >= 0:
            continue
        size, node = 0, seed
        frontier = [seed]
        while node >= 0:
            patch[node] = count
            members[size] = node
            size += 1
            if size == most:
                break
            for p in range(indptr[node], indptr[node + 1]):
                j = indices[p]
                if patch[j] < 0 and values[p] > 0.0:
                    if best[j] == 0.0:
                        frontier.append(int(j))
                    best[j] = max(best[j], values[p])
            node, heaviest = -1, 0.0
            for j in frontier:
                if patch[j] < 0 and best[j] > heaviest:
                    node, heaviest = j, best[j]
        for j in frontier:
            best[j] = 0.0
        if 2 * size > most:
            count += 1
        else:
            for k in range(size):
                patch[members[k]] = LEFT
    filled = most
    for node in range(N):
        if patch[node] == LEFT:
            if filled == most:
                count, filled = count + 1, 0
            patch[node] = count - 1
            filled += 1
    return patch


@_compiled
def reached_rows(
    A: Operator,
    nodes: Ints,
    starts: Ints,
    first: float,
    t: float,
    threshold: float,
    most: int,
    edges: Edges,
    lent: Lent,
) -> tuple[Ints, Ints, Array]:
    """The rows where heat from neighbouring patches is above ``threshold`` at scales up to ``t``.

    The patches are ``nodes[starts[p]:starts[p + 1]]``, at most `PATCHES`.  Returns ``indptr``, the
    rows of each patch one after the other, ascending, and the threshold that was kept to for each:
    of more than ``most`` rows the hottest are kept.  ``first`` is the smallest scale.

    Explicit Euler steps of ``u' = -L u`` so short that nothing turns negative, from one at every
    node, a few nodes together, so that each column is less.  Only rows above the threshold spread
    any further.

    What a candidate edge of a hot row would bring is seen only if its other end is a row, too.

    ``lent`` is of :func:`lend`.
    """
    u, v, hottest, spreads, touched, position = lent
    W = lanes(u.dtype)
    parts = W // PATCHES
    a = 1.0 / A.inverse
    fastest = a * (A.diagonal.max() + 1.0)  # the largest degree
    # A few more than stability asks for: short steps have the longer tail, as heat has.
    n_steps = 4 + int(np.ceil(t * fastest))
    n = 0
    for p in range(starts.size - 1):
        size = starts[p + 1] - starts[p]
        for k in range(starts[p], starts[p + 1]):
            n = _touch(nodes[k], n, hottest, spreads, touched, position)
            u[nodes[k] * W + parts * p + (k - starts[p]) * parts // size] = 1.0
            hottest[k * W + parts * p] = 1.0
    one, factor = u.dtype.type(1.0), u.dtype.type(-t / n_steps * a)
    heat, cooled = u, v
    for now in range(n_steps):
        for k in range(n):
            if spreads[k] or largest(load(hottest, k * W)) <= threshold:
                continue
            spreads[k] = True
            i = touched[k]
            for p in range(A.indptr[i], A.indptr[i + 1]):
                j = A.indices[p]
                if position[j] < 0:
                    n = _touch(j, n, hottest, spreads, touched, position)
        # The last step before the first scale is the first that counts.
        counts = (now + 1) * t >= first * n_steps
        for k in range(n):
            i = touched[k]
            here = load(heat, i * W)
            change = plus_scaled(times_row(A, heat, 1, 0, i), one, here)  # L / a = A + I
            after = plus_scaled(here, factor, change)
            store(cooled, i * W, after)
            if counts:
                after = larger(after, load(hottest, k * W))
            store(hottest, k * W, after)
        heat, cooled = cooled, heat
    for k in range(n):
        position[touched[k]] = -1
        for b in range(touched[k] * W, (touched[k] + 1) * W):
            u[b] = v[b] = 0
    indptr, kept = np.zeros(starts.size, np.int64), np.empty(starts.size - 1)
    rows, total = np.empty(position.size, np.int64), 0
    found, of_patch = np.empty(position.size, np.int64), np.empty(n, hottest.dtype)
    for p in range(starts.size - 1):
        for k in range(n):
            at = k * W + parts * p
            of_patch[k] = hottest[at]
            for part in range(1, parts):
                of_patch[k] = max(of_patch[k], hottest[at + part])
        own = touched[starts[p] : starts[p + 1]]
        kept[p] = _hottest_above(of_patch, threshold, most)
        count = _rows_of(of_patch, kept[p], own, touched, edges, position, found)
        if total + count > rows.size:
            rows = np.append(rows, np.empty(rows.size + count, np.int64))
        rows[total : total + count] = np.sort(found[:count])
        total += count
        indptr[p + 1] = total
    return indptr, rows[:total].copy(), kept


@_compiled
def _touch(
    i: int,
    n: int,
    hottest: Block,
    spreads: NDArray[np.bool_],
    touched: Ints,
    position: NDArray[np.int32],
) -> int:
    """Number a row that heat has come to; how many there are now."""
    position[i] = n
    touched[n] = i
    spreads[n] = False
    store(hottest, n * lanes(hottest.dtype), fill(hottest.dtype.type(0.0)))
    return n + 1


@_compiled
def _hottest_above(heat: Block, threshold: float, most: int) -> float:
    """The threshold, or a higher one that not many more than ``most`` rows are above."""
    above = 0
    for k in range(heat.size):
        above += heat[k] >= threshold
    if above <= most:
        return threshold
    return float(np.sort(heat)[heat.size - most])


@_compiled
def _rows_of(
    heat: Block,
    kept: float,
    own: Ints,
    touched: Ints,
    edges: Edges,
    position: NDArray[np.int32],
    rows: Ints,
) -> int:
    """A patch's ``own`` nodes, what is hot around it, and what candidate edges join to the hottest.

    Written to ``rows``; returns how many.  ``position`` marks them, and is returned as it was.
    """
    count = 0
    for i in own:
        rows[count], position[i] = i, count
        count += 1
    for k in range(heat.size):
        i = touched[k]
        if heat[k] >= kept and position[i] < 0:
            rows[count], position[i] = i, count
            count += 1
    for k in range(heat.size):
        if heat[k] >= JOINED:
            i = touched[k]
            for p in range(edges[0][i], edges[0][i + 1]):
                j = edges[1][p]
                if position[j] < 0:
                    rows[count], position[j] = j, count
                    count += 1
    for k in range(count):
        position[rows[k]] = -1
    return count


@_compiled
def follow(
    A: Operator,
    nodes: Ints,
    starts: Ints,
    which: Ints,
    first: float,
    t: float,
    threshold: float,
    most: int,
    edges: Edges,
    lent: Lent,
) -> tuple[Ints, Ints, Array]:
    """The same for many patches: those numbered ``which``, a few after each of them included.

    Their rows are in that order.
    """
    n_patches, P = 0, starts.size - 1
    for p in which:
        n_patches += min(PATCHES, P - p)
    indptr, kept = np.zeros(n_patches + 1, np.int64), np.empty(n_patches)
    rows, size, n = np.empty(64 * n_patches, np.int64), 0, 0
    for p in which:
        last = min(p + PATCHES, P)
        near, own = nodes[starts[p] : starts[last]], starts[p : last + 1] - starts[p]
        ends, found, above = reached_rows(A, near, own, first, t, threshold, most, edges, lent)
        if size + found.size > rows.size:
            rows = np.append(rows, np.empty(rows.size + found.size, np.int64))
        rows[size : size + found.size] = found
        for k in range(last - p):
            indptr[n + 1], kept[n] = size + ends[k + 1], above[k]
            n += 1
        size += found.size
    return indptr, rows[:size].copy(), kept
