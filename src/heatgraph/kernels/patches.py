"""Columns of the heat kernel where they are not negligible: patches of nodes and what is near.

Heat that started in a patch of neighbouring nodes stays near it for a while.  The columns of
``exp(-t L)`` at the nodes of a patch are found together, one block wide, on the rows that heat
reaches; what it would bring beyond them is below a threshold.  A function of the columns is
differentiated in the edge weights on the same rows.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from heatgraph.kernels.chebyshev import (
    WIDTH,
    Operator,
    ascend,
    bilinear_gradient,
    clenshaw,
    times_row,
)
from heatgraph.kernels.lanes import LANES, fill, larger, largest, load, plus_scaled, store

__all__ = [
    "columns_gradient",
    "gradient_size",
    "heat_columns",
    "lend",
    "make_patches",
    "reached_rows",
]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Block = NDArray[Any]
Edges = tuple[Ints, NDArray[np.int32], Ints]
# To follow heat on, for each of N rows: `TOGETHER` zeros, twice, to be left as they were; as many
# numbers of any kind, whether heat spreads from it, which one it is; and -1, to be left so.
Lent = tuple[Block, Block, Block, NDArray[np.bool_], Ints, NDArray[np.int32]]

SPREADS = 0.3  # of the threshold, from which on a row heats its neighbours
JOINED = 0.03  # heat of a row, from which on the other ends of its candidate edges are rows too
TOGETHER = LANES  # groups of nodes whose heat is followed at once
PATCHES = TOGETHER // 2  # to either half of which such a group belongs
LEFT = np.iinfo(np.int32).max  # no patch yet, but too few neighbours left for one of its own

_compiled = numba.njit(cache=True, nogil=True, fastmath=True)


def lend(N: int, dtype: Any) -> Lent:
    """Memory for `reached_rows`."""
    return (
        np.zeros(N * TOGETHER, dtype),
        np.zeros(N * TOGETHER, dtype),
        np.empty(N * TOGETHER, dtype),
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
    node, a few nodes together, so that each column is less.  Only rows near the threshold or above
    it spread any further.

    What a candidate edge of a hot row would bring is seen only if its other end is a row, too.

    ``lent`` is of :func:`lend`.
    """
    u, v, hottest, spreads, touched, position = lent
    a = 1.0 / A.inverse
    fastest = a * (A.diagonal.max() + 1.0)  # the largest degree
    # A few more than stability asks for: short steps have the longer tail, as heat has.
    n_steps = 4 + int(np.ceil(t * fastest))
    n = 0
    for p in range(starts.size - 1):
        half = (starts[p] + starts[p + 1] + 1) // 2
        for k in range(starts[p], starts[p + 1]):
            n = _touch(nodes[k], n, hottest, spreads, touched, position)
            u[nodes[k] * TOGETHER + 2 * p + (k >= half)] = 1.0
            hottest[k * TOGETHER + 2 * p] = 1.0
    one, factor = u.dtype.type(1.0), u.dtype.type(-t / n_steps * a)
    heat, cooled = u, v
    for now in range(n_steps):
        for k in range(n):
            if spreads[k] or largest(load(hottest, k * TOGETHER)) <= SPREADS * threshold:
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
            here = load(heat, i * TOGETHER)
            change = plus_scaled(times_row(A, heat, 1, 0, i), one, here)  # L / a = A + I
            after = plus_scaled(here, factor, change)
            store(cooled, i * TOGETHER, after)
            if counts:
                after = larger(after, load(hottest, k * TOGETHER))
            store(hottest, k * TOGETHER, after)
        heat, cooled = cooled, heat
    for k in range(n):
        position[touched[k]] = -1
        for b in range(touched[k] * TOGETHER, (touched[k] + 1) * TOGETHER):
            u[b] = v[b] = 0
    indptr, kept = np.zeros(starts.size, np.int64), np.empty(starts.size - 1)
    rows, size = np.empty(position.size, np.int64), 0
    found, of_patch = np.empty(position.size, np.int64), np.empty(n, hottest.dtype)
    for p in range(starts.size - 1):
        for k in range(n):
            of_patch[k] = max(hottest[k * TOGETHER + 2 * p], hottest[k * TOGETHER + 2 * p + 1])
        own = touched[starts[p] : starts[p + 1]]
        kept[p] = _hottest_above(of_patch, threshold, most)
        count = _rows_of(of_patch, kept[p], own, touched, edges, position, found)
        if size + count > rows.size:
            rows = np.append(rows, np.empty(rows.size + count, np.int64))
        rows[size : size + count] = np.sort(found[:count])
        size += count
        indptr[p + 1] = size
    return indptr, rows[:size].copy(), kept


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
    store(hottest, n * TOGETHER, fill(hottest.dtype.type(0.0)))
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
def _restrict(A: Operator, rows: Ints, position: NDArray[np.int32]) -> Operator:
    """The operator on some rows and columns, the diagonal as it was: heat that leaves is gone.

    One more row, the last, is always zero: it stands for every other node.
    """
    size = 0
    for k in range(rows.size):
        position[rows[k]] = k
        size += A.indptr[rows[k] + 1] - A.indptr[rows[k]]
    indptr = np.zeros(rows.size + 2, np.int64)
    indices, values = np.empty(size, np.int32), np.empty(size, A.values.dtype)
    diagonal = np.zeros(rows.size + 1, A.values.dtype)
    n = 0
    for k in range(rows.size):
        i = rows[k]
        diagonal[k] = A.diagonal[i]
        for p in range(A.indptr[i], A.indptr[i + 1]):
            j = position[A.indices[p]]
            if j >= 0:
                indices[n], values[n] = j, A.values[p]
                n += 1
        indptr[k + 1] = n
    indptr[rows.size + 1] = n
    return Operator(indptr, indices[:n], values[:n], diagonal, A.inverse)


@_compiled
def _restrict_edges(edges: Edges, rows: Ints, position: NDArray[np.int32]) -> Edges:
    """The candidate edges at some rows, which ``position`` numbers, each once.

    ``edges`` lists a candidate at either end.  One that leads out of the rows ends at the last.
    """
    size = 0
    for i in rows:
        size += edges[0][i + 1] - edges[0][i]
    indptr = np.zeros(rows.size + 2, np.int64)
    ends, edge = np.empty(size, np.int32), np.empty(size, np.int64)
    n = 0
    for k in range(rows.size):
        i = rows[k]
        for p in range(edges[0][i], edges[0][i + 1]):
            j = position[edges[1][p]]
            if j < 0 or j > k:
                ends[n], edge[n] = (j if j >= 0 else rows.size), edges[2][p]
                n += 1
        indptr[k + 1] = n
    indptr[rows.size + 1] = n
    return indptr, ends[:n], edge[:n]


@_compiled
def heat_columns(
    A: Operator,
    nodes: Ints,
    rows: Ints,
    c: Block,
    least: float,
    position: NDArray[np.int32],
    lent: Block,
) -> tuple[Ints, NDArray[np.int32], Block]:
    """The columns of ``p_s(L)``, s = 1..S, at ``nodes``: ``(counts, rows, values)``.

    Column by column, the scales of a node side by side; entries below ``least`` in size are left
    out, but for the diagonal.  ``lent`` is to work on.
    """
    K, S = c.shape[0] - 1, c.shape[1]
    n = rows.size + 1
    local = _restrict(A, rows, position)
    V = lent[: 3 * n * WIDTH].reshape(n, 3, WIDTH)
    Y = lent[3 * n * WIDTH : (3 + S) * n * WIDTH].reshape(S, n, WIDTH)
    V[:] = 0
    Y[:] = 0
    terms, columns = V.reshape(-1), Y.reshape(-1)
    for b in range(nodes.size):
        V[position[nodes[b]], 0, b] = 1.0
    for k in range(K + 1):
        if k > 0:
            ascend(local, k, V)
        now = k % 3
        for s in range(S):
            for r in range(rows.size):
                here = (s * n + r) * WIDTH
                term = load(terms, (3 * r + now) * WIDTH)
                store(columns, here, plus_scaled(load(columns, here), c[k, s], term))
    counts = np.zeros(nodes.size * S, np.int64)
    for s in range(S):
        for r in range(rows.size):
            for b in range(nodes.size):
                if abs(Y[s, r, b]) >= least or rows[r] == nodes[b]:
                    counts[b * S + s] += 1
    at = np.cumsum(counts) - counts
    where = np.empty(counts.sum(), np.int32)
    values = np.empty(where.size, lent.dtype)
    for s in range(S):
        for r in range(rows.size):
            for b in range(nodes.size):
                if abs(Y[s, r, b]) >= least or rows[r] == nodes[b]:
                    where[at[b * S + s]], values[at[b * S + s]] = rows[r], Y[s, r, b]
                    at[b * S + s] += 1
    position[rows] = -1
    return counts, where, values


def gradient_size(n_rows: int, K: int, S: int) -> int:
    """Numbers that `columns_gradient` works on."""
    return (2 * (K + 1) + S + 3) * (n_rows + 1) * WIDTH


@_compiled
def columns_gradient(
    A: Operator,
    nodes: Ints,
    rows: Ints,
    c: Block,
    edges: Edges,
    P: Block,
    position: NDArray[np.int32],
    lent: Block,
    g: Array,
    modes: Array,
) -> None:
    """Add the gradient of ``sum_s sum_i <P_is, [p_s(L(w))]_i>`` to ``g``, i over ``nodes``.

    ``P`` (n, S, rows) are the slopes of a function in the entries of the columns.  ``modes[k, s]``
    grows by ``sum_i <P_is, [T_k]_i>``.  ``lent``, of `gradient_size`, is to work on.
    """
    K, S = c.shape[0] - 1, c.shape[1]
    n = rows.size + 1
    size = n * WIDTH
    local = _restrict(A, rows, position)
    near = _restrict_edges(edges, rows, position)
    B = lent[: (K + 1) * size].reshape(n, K + 1, WIDTH)
    V = lent[(K + 1) * size : 2 * (K + 1) * size].reshape(n, K + 1, WIDTH)
    H = lent[2 * (K + 1) * size : (2 * (K + 1) + S) * size].reshape(S, n, WIDTH)
    last = lent[(2 * (K + 1) + S) * size : (2 * (K + 1) + S + 3) * size].reshape(n, 3, WIDTH)
    H[:] = 0
    for b in range(nodes.size):
        for s in range(S):
            for r in range(rows.size):
                H[s, r, b] = P[b, s, r]
    clenshaw(local, c, H, B, last)
    last[:, 0] = 0
    for b in range(nodes.size):
        last[position[nodes[b]], 0, b] = 1.0
    bilinear_gradient(local, near, B, V, last, 1.0, g, H, modes)
    position[rows] = -1
