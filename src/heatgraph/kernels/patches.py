"""Columns of the heat kernel where they are not negligible, a patch of nodes at a time.

The columns of ``exp(-t L)`` at the nodes of a patch are found together, one block wide, on the rows
that heat reaches; what it would bring beyond them is below a threshold.  A function of the columns
is differentiated in the edge weights on the same rows.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from heatgraph.kernels.chebyshev import Operator, bilinear_gradient, clenshaw, next_term
from heatgraph.kernels.lanes import lanes, load, plus_scaled, store
from heatgraph.kernels.reach import Patches

__all__ = [
    "columns_gradient",
    "columns_of",
    "columns_size",
    "gradient_size",
    "heat_columns",
]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Block = NDArray[Any]
Edges = tuple[Ints, NDArray[np.int32], Ints]
Columns = tuple[Ints, NDArray[np.int32], Block]

_compiled = numba.njit(cache=True, nogil=True, fastmath=True)


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
    indices, values = np.empty(size + 1, np.int32), np.empty(size + 1, A.values.dtype)
    diagonal = np.zeros(rows.size + 1, A.values.dtype)
    n = 0
    for k in range(rows.size):
        i = rows[k]
        diagonal[k] = A.diagonal[i]
        for p in range(A.indptr[i], A.indptr[i + 1]):
            j = position[A.indices[p]]
            # Written over by the next one unless it counts, so that nothing is guessed.
            indices[n], values[n] = j, A.values[p]
            n += j >= 0
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
    ends, edge = np.empty(size + 1, np.int32), np.empty(size + 1, np.int64)
    n = 0
    for k in range(rows.size):
        i = rows[k]
        for p in range(edges[0][i], edges[0][i + 1]):
            j = position[edges[1][p]]
            outside = j < 0
            ends[n], edge[n] = (rows.size if outside else j), edges[2][p]
            n += outside | (j > k)
        indptr[k + 1] = n
    indptr[rows.size + 1] = n
    return indptr, ends[:n], edge[:n]


def columns_size(n_rows: int, S: int, dtype: Any) -> int:
    """Numbers that `heat_columns` works on."""
    return (2 + S) * (n_rows + 1) * lanes(np.dtype(dtype))


@_compiled
def heat_columns(
    A: Operator,
    nodes: Ints,
    rows: Ints,
    c: Block,
    least: float,
    position: NDArray[np.int32],
    lent: Block,
) -> Columns:
    """The columns of ``p_s(L)``, s = 1..S, at ``nodes``: ``(counts, rows, values)``.

    Column by column, the scales of a node side by side; entries below ``least`` in size are left
    out, but for the diagonal.  ``lent``, of `columns_size`, is to work on.
    """
    K, S, W = c.shape[0] - 1, c.shape[1], lanes(lent.dtype)
    n = rows.size + 1
    local = _restrict(A, rows, position)
    V = lent[: 2 * n * W].reshape(n, 2, W)
    Y = lent[2 * n * W : (2 + S) * n * W].reshape(S, n, W)
    V[:] = 0
    Y[:] = 0
    terms, columns = V.reshape(-1), Y.reshape(-1)
    for b in range(nodes.size):
        V[position[nodes[b]], 0, b] = 1.0
    for b in range(nodes.size):
        for s in range(S):
            Y[s, position[nodes[b]], b] = c[0, s]
    for k in range(1, K + 1):
        for r in range(rows.size):
            term = next_term(local, k, terms, r)
            for s in range(S):
                here = (s * n + r) * W
                store(columns, here, plus_scaled(load(columns, here), c[k, s], term))
    counts, size = np.zeros(nodes.size * S, np.int64), 0
    where = np.empty(nodes.size * S * n, np.int32)
    values = np.empty(where.size, lent.dtype)
    for b in range(nodes.size):
        own = position[nodes[b]]
        for s in range(S):
            first = size
            for r in range(rows.size):
                # Written over by the next one unless it counts, so that nothing is guessed.
                where[size], values[size] = rows[r], Y[s, r, b]
                size += (abs(Y[s, r, b]) >= least) | (r == own)
            counts[b * S + s] = size - first
    position[rows] = -1
    return counts, where[:size], values[:size]


@_compiled
def columns_of(
    A: Operator,
    patches: Patches,
    which: Ints,
    c: Block,
    least: float,
    position: NDArray[np.int32],
    lent: Block,
) -> Columns:
    """The same for all nodes of some patches, one after the other."""
    n_columns, typical = 0, 0
    for p in which:
        columns = (patches.starts[p + 1] - patches.starts[p]) * c.shape[1]
        n_columns += columns
        typical += columns * (patches.indptr[p + 1] - patches.indptr[p]) // 4
    counts = np.empty(n_columns, np.int64)
    where, values = np.empty(typical, np.int32), np.empty(typical, lent.dtype)
    size, n = 0, 0
    for p in which:
        nodes = patches.nodes[patches.starts[p] : patches.starts[p + 1]]
        rows = patches.rows[patches.indptr[p] : patches.indptr[p + 1]]
        number, at, what = heat_columns(A, nodes, rows, c, least, position, lent)
        if size + at.size > where.size:
            where = np.append(where, np.empty(where.size + at.size, np.int32))
            values = np.append(values, np.empty(values.size + at.size, lent.dtype))
        where[size : size + at.size] = at
        values[size : size + at.size] = what
        counts[n : n + number.size] = number
        size += at.size
        n += number.size
    return counts, where[:size], values[:size]


def gradient_size(n_rows: int, K: int, S: int, dtype: Any) -> int:
    """Numbers that `columns_gradient` works on, the slopes that it is given included."""
    return (2 * (K + 1) + 2 + S) * (n_rows + 1) * lanes(np.dtype(dtype))


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

    ``P`` (S, rows + 1, W) are the slopes of a function in the entries of the columns, zero in the
    last row and beyond the nodes.  ``modes[k, s]`` grows by ``sum_i <P_is, [T_k]_i>``.  ``lent``
    is to work on: with ``P``, `gradient_size` numbers.
    """
    K, W = c.shape[0] - 1, lanes(lent.dtype)
    n = rows.size + 1
    size = n * W
    local = _restrict(A, rows, position)
    near = _restrict_edges(edges, rows, position)
    B = lent[: (K + 1) * size].reshape(n, K + 1, W)
    V = lent[(K + 1) * size : 2 * (K + 1) * size].reshape(n, K + 1, W)
    last = lent[2 * (K + 1) * size : (2 * (K + 1) + 2) * size].reshape(n, 2, W)
    clenshaw(local, c, P, B, last)
    last[:, 0] = 0
    for b in range(nodes.size):
        last[position[nodes[b]], 0, b] = 1.0
    bilinear_gradient(local, near, B, V, last, 1.0, g, P, modes)
    position[rows] = -1
