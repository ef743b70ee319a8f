"""Columns of the heat kernel where they are not negligible: patches of nodes and what is near.

Heat that started in a patch of neighbouring nodes stays near it for a while.  The columns of
``exp(-t L)`` at the nodes of a patch are found together, one block wide, on the rows that heat
reaches; what it would bring beyond them is below a threshold.  From these columns come the norms of
the atoms, their derivatives, and the Gram matrix of the dictionary, all sparse.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from heatgraph.kernels.chebyshev import WIDTH, Operator, _ascend, _edge_sums

__all__ = ["columns_gradient", "heat_columns", "make_patches", "reached_rows"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Block = NDArray[Any]
Edges = tuple[Ints, NDArray[np.int32], Ints]

LEFT = np.iinfo(np.int32).max  # no patch yet, but too few neighbours left for one of its own

_compiled = numba.njit(cache=True, nogil=True, fastmath=True)


@_compiled
def make_patches(indptr: Ints, indices: NDArray[np.int32], values: Array) -> NDArray[np.int32]:
    """The patch of every node (N,): at most `WIDTH` nodes each, grown along the heaviest edges.

    What is left between patches is put together in the order of the nodes.
    """
    N = indptr.size - 1
    patch = np.full(N, -1, np.int32)
    best = np.zeros(N)  # the heaviest edge from the growing patch to a node
    members = np.empty(WIDTH, np.int64)
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
            if size == WIDTH:
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
        if 2 * size > WIDTH:
            count += 1
        else:
            for k in range(size):
                patch[members[k]] = LEFT
    filled = WIDTH
    for node in range(N):
        if patch[node] == LEFT:
            if filled == WIDTH:
                count, filled = count + 1, 0
            patch[node] = count - 1
            filled += 1
    return patch


@_compiled
def reached_rows(
    A: Operator,
    nodes: Ints,
    t: float,
    threshold: float,
    most: int,
    u: Array,
    v: Array,
    position: NDArray[np.int32],
) -> tuple[Ints, float]:
    """The rows, ascending, where heat from ``nodes`` is above ``threshold`` at time ``t``.

    Explicit Euler steps of ``u' = -L u`` so short that nothing turns negative, from one at every
    node, so that each column is less.  Only rows above a tenth of the threshold are spread
    any further, and those above it kept; the ``most`` hottest where they are more.  Also returns
    the threshold that was kept to.

    ``u``, ``v`` (N,) of zeros and ``position`` (N,) of -1 are lent, and returned as they were.
    """
    a = 1.0 / A.inverse
    fastest = a * (A.diagonal.max() + 1.0)  # the largest degree
    # A few more than stability asks for: short steps have the longer tail, as heat has.
    n_steps = 16 + int(np.ceil(t * fastest))
    step = t / n_steps * a
    touched = np.empty(u.size, np.int64)
    n = 0
    for i in nodes:
        u[i] = 1.0
        position[i] = n
        touched[n] = i
        n += 1
    for _ in range(n_steps):
        for k in range(n):
            i = touched[k]
            if u[i] > 0.1 * threshold:
                v[i] -= step * (A.diagonal[i] + 1.0) * u[i]
                for p in range(A.indptr[i], A.indptr[i + 1]):
                    j = A.indices[p]
                    if position[j] < 0:
                        position[j] = n
                        touched[n] = j
                        n += 1
                    v[j] -= step * A.values[p] * u[i]
        for k in range(n):
            i = touched[k]
            u[i] += v[i]
            v[i] = 0.0
    kept = 0.1 * threshold
    if n > most:
        kept = max(kept, np.sort(u[touched[:n]])[n - most])
    count = 0
    for k in range(n):
        i = touched[k]
        keep = u[i] > kept or k < nodes.size
        u[i], position[i] = 0.0, -1
        if keep:
            touched[count] = i
            count += 1
    return np.sort(touched[:count]), max(kept, threshold)


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
    c: Array,
    threshold: float,
    position: NDArray[np.int32],
    diagonals: Array,
) -> tuple[Ints, NDArray[np.int32], Array]:
    """The columns of ``p_q(L)``, q = 1..Q, at ``nodes``, and the diagonals of every ``T_k``.

    Returns them node by node: ``(counts, rows, values (n, Q))``, entries at most ``threshold`` in
    size left out.  ``diagonals`` (K + 1, N) is written at the nodes.
    """
    K, Q = c.shape[0] - 1, c.shape[1]
    local = _restrict(A, rows, position)
    V = np.zeros((3, rows.size + 1, WIDTH), A.values.dtype)
    out = np.zeros((Q, rows.size, WIDTH), A.values.dtype)
    for b in range(nodes.size):
        V[0, position[nodes[b]], b] = 1.0
    for k in range(K + 1):
        if k > 0:
            _ascend(local, k, V)
        X = V[k % 3]
        for b in range(nodes.size):
            diagonals[k, nodes[b]] = X[position[nodes[b]], b]
        for q in range(Q):
            weight = c[k, q]
            for r in range(rows.size):
                for b in range(WIDTH):
                    out[q, r, b] += weight * X[r, b]
    counts = np.zeros(nodes.size, np.int64)
    keep = np.zeros((rows.size, WIDTH), np.bool_)
    for b in range(nodes.size):
        keep[position[nodes[b]], b] = Q > 0  # the diagonal, however small
    for r in range(rows.size):
        for b in range(nodes.size):
            for q in range(Q):
                if abs(out[q, r, b]) > threshold:
                    keep[r, b] = True
            counts[b] += keep[r, b]
    total = counts.sum()
    where, values = np.empty(total, np.int32), np.empty((total, Q))
    n = 0
    for b in range(nodes.size):
        for r in range(rows.size):
            if keep[r, b]:
                where[n] = rows[r]
                for q in range(Q):
                    values[n, q] = out[q, r, b]
                n += 1
    position[rows] = -1
    return counts, where, values


@_compiled
def columns_gradient(
    A: Operator,
    nodes: Ints,
    rows: Ints,
    u: Block,
    v: Block,
    weight: Array,
    edges: Edges,
    factor: float,
    position: NDArray[np.int32],
    g: Array,
) -> None:
    """Add ``factor`` times the gradient of ``sum_s sum_i weight_si [p_s(L(w))]_ii`` to ``g``.

    The sum is over the ``nodes``: ``<I, sum_s p_s(L) diag(weight_s)>`` on the columns of the patch.
    ``u`` and ``v`` are those of `gradient_factors`: a few products in place of one a degree.
    """
    K, rank = u.shape
    S, n = v.shape[0], rows.size + 1
    local = _restrict(A, rows, position)
    near = _restrict_edges(edges, rows, position)
    V = np.zeros((3, n, WIDTH), A.values.dtype)
    Z = np.zeros((rank, n, WIDTH), A.values.dtype)
    Y = np.zeros((rank, n, WIDTH), A.values.dtype)
    own = np.zeros((rank, WIDTH), A.values.dtype)
    for b in range(nodes.size):
        V[0, position[nodes[b]], b] = 1.0
    for k in range(K):
        if k > 0:
            _ascend(local, k, V)
        X = V[k % 3]
        for r in range(rank):
            for b in range(nodes.size):
                total = 0.0
                for s in range(S):
                    total += v[s, k, r] * weight[s, nodes[b]]
                own[r, b] = total
            share = u[k, r]
            for i in range(n):
                for b in range(WIDTH):
                    Z[r, i, b] += share * X[i, b]
                    Y[r, i, b] += own[r, b] * X[i, b]
    for r in range(rank):
        _edge_sums(near[0], near[1], near[2], Z[r], Y[r], factor * A.inverse, g)
    position[rows] = -1
