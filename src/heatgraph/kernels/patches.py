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
    _ascend,
    bilinear_gradient,
    clenshaw,
)

__all__ = ["columns_gradient", "heat_columns", "make_patches", "reached_rows"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Block = NDArray[Any]
Edges = tuple[Ints, NDArray[np.int32], Ints]

SPREADS = 0.3  # of the threshold, from which on a row heats its neighbours
JOINED = 0.03  # heat of a row, from which on the other ends of its candidate edges are rows too
TOGETHER = 8  # groups of nodes whose heat is followed apart
LEFT = np.iinfo(np.int32).max  # no patch yet, but too few neighbours left for one of its own

_compiled = numba.njit(cache=True, nogil=True, fastmath=True)


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
    first: float,
    t: float,
    threshold: float,
    most: int,
    edges: Edges,
    u: Block,
    v: Block,
    position: NDArray[np.int32],
) -> tuple[Ints, float]:
    """The rows, ascending, where heat from ``nodes`` is above ``threshold`` at scales up to ``t``.

    Explicit Euler steps of ``u' = -L u`` so short that nothing turns negative, from one at every
    node, a few nodes together, so that each column is less.  Only rows near the threshold or above
    it spread any further, and those above it are kept; the ``most`` hottest where they are more.
    Also returns the threshold that was kept to.  ``first`` is the smallest scale.

    What a candidate edge of a hot row would bring is seen only if its other end is a row, too.

    ``u``, ``v`` (N, TOGETHER) of zeros and ``position`` (N,) of -1 are lent, and returned as they
    were.
    """
    a = 1.0 / A.inverse
    fastest = a * (A.diagonal.max() + 1.0)  # the largest degree
    # A few more than stability asks for: short steps have the longer tail, as heat has.
    n_steps = 4 + int(np.ceil(t * fastest))
    step = t / n_steps * a
    touched = np.empty(position.size, np.int64)
    spreads = np.zeros(position.size, np.bool_)
    hottest = np.zeros(position.size)
    n = 0
    for i in nodes:
        u[i, (n * TOGETHER) // nodes.size] = 1.0
        hottest[n] = 1.0
        position[i] = n
        touched[n] = i
        n += 1
    row = np.empty(TOGETHER, u.dtype)
    factor = u.dtype.type(step)
    for now in range(n_steps):
        for k in range(n):
            if spreads[k] or hottest[k] <= SPREADS * threshold:
                continue
            spreads[k] = True
            i = touched[k]
            for p in range(A.indptr[i], A.indptr[i + 1]):
                j = A.indices[p]
                if position[j] < 0:
                    position[j] = n
                    touched[n] = j
                    n += 1
        for k in range(n):
            i = touched[k]
            d = A.diagonal[i] + 1.0
            for b in range(TOGETHER):
                row[b] = d * u[i, b]
            for p in range(A.indptr[i], A.indptr[i + 1]):
                j, weight = A.indices[p], A.values[p]
                for b in range(TOGETHER):
                    row[b] += weight * u[j, b]
            for b in range(TOGETHER):
                v[i, b] = u[i, b] - factor * row[b]
        for k in range(n):
            i = touched[k]
            top = v[i, 0]
            for b in range(TOGETHER):
                u[i, b] = v[i, b]
                top = max(top, v[i, b])
            # The last step before the first scale is the first that counts.
            counts = (now + 1) * t >= first * n_steps
            hottest[k] = max(hottest[k], top) if counts else top
    for k in range(n):
        position[touched[k]] = -1
        for b in range(TOGETHER):
            u[touched[k], b] = 0
            v[touched[k], b] = 0
    kept = threshold
    if n > most:
        kept = max(kept, np.sort(hottest[:n])[n - most])
    count = 0
    for k in range(n):
        if hottest[k] >= kept or k < nodes.size:
            touched[count], hottest[count] = touched[k], hottest[k]
            position[touched[k]] = count
            count += 1
    hot = count
    for k in range(hot):
        if hottest[k] >= JOINED:
            i = touched[k]
            for p in range(edges[0][i], edges[0][i + 1]):
                j = edges[1][p]
                if position[j] < 0:
                    position[j] = count
                    touched[count] = j
                    count += 1
    rows = np.sort(touched[:count])
    for i in rows:
        position[i] = -1
    return rows, kept


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
    V = lent[: 3 * n * WIDTH].reshape(3, n, WIDTH)
    Y = lent[3 * n * WIDTH : (3 + S) * n * WIDTH].reshape(S, n, WIDTH)
    V[:] = 0
    Y[:] = 0
    for b in range(nodes.size):
        V[0, position[nodes[b]], b] = 1.0
    for k in range(K + 1):
        if k > 0:
            _ascend(local, k, V)
        X = V[k % 3]
        for s in range(S):
            weight = c[k, s]
            for r in range(rows.size):
                for b in range(WIDTH):
                    Y[s, r, b] += weight * X[r, b]
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
    grows by ``sum_i <P_is, [T_k]_i>``.
    """
    K, S = c.shape[0] - 1, c.shape[1]
    n = rows.size + 1
    size = n * WIDTH
    local = _restrict(A, rows, position)
    near = _restrict_edges(edges, rows, position)
    B = lent[: (K + 1) * size].reshape(K + 1, n, WIDTH)
    V = lent[(K + 1) * size : (K + 4) * size].reshape(3, n, WIDTH)
    H = lent[(K + 4) * size : (K + 4 + S) * size].reshape(S, n, WIDTH)
    unit = lent[(K + 4 + S) * size : (K + 5 + S) * size].reshape(n, WIDTH)
    H[:] = 0
    unit[:] = 0
    for b in range(nodes.size):
        unit[position[nodes[b]], b] = 1.0
        for s in range(S):
            for r in range(rows.size):
                H[s, r, b] = P[b, s, r]
    clenshaw(local, c, H, B, B[0])
    bilinear_gradient(local, K, near, B, unit, V, 1.0, g, H, modes)
    position[rows] = -1
