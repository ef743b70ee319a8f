"""The lasso on the working set of one signal: sparse atoms, a small exact problem.

Its Gram matrix is made from the atoms themselves, so that it is never indefinite; the exact coder
of small graphs solves on it.  A working set too large to be solved whole is solved by
neighbourhoods that overlap and take turns.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from heatgraph.models.sparse import SparseAtoms
from heatgraph.solvers.compiled_lasso import code_one, work_for
from heatgraph.solvers.gram import FASTMATH
from heatgraph.solvers.signal_access import CODING_TOL

__all__ = ["WHOLE", "dense_gram", "excess", "solve_exactly", "sparse_gram", "take_turns"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

WHOLE = 400  # atoms of a working set that is solved at once
CORE = 24  # of a neighbourhood in a larger one, to which those near it are added
STRONG = 0.25  # squared cosine between atoms, from which on they are near
TURNS = 30  # of the neighbourhoods, at most
RIDGE = 1e-10  # without a penalty, dependent atoms could grow without bound

_compiled = numba.njit(cache=True, nogil=True, fastmath=FASTMATH)


@_compiled
def excess(q: float, a: float, h: float) -> float:
    """How far a correlation is from ``sign(h) a / 2``, or leaves [-a/2, a/2] where h is zero."""
    if h > 0.0:
        return abs(q - 0.5 * a)
    if h < 0.0:
        return abs(q + 0.5 * a)
    return abs(q) - 0.5 * a


@_compiled
def dense_gram(atoms: SparseAtoms, chosen: Ints, observed: Bools, m: int, head: Ints) -> Array:
    """The Gram matrix of a few atoms on the observed entries of a signal, whole.

    ``head``, by node, is -1 throughout, and left so.
    """
    n = chosen.size
    G = np.zeros((n, n))
    total = 0
    for k in range(n):
        total += atoms.indptr[chosen[k] + 1] - atoms.indptr[chosen[k]]
    # The entries of the atoms before at a node, as a chain from the last one back.
    who, value, before = np.empty(total, np.int64), np.empty(total), np.empty(total, np.int64)
    t = 0
    for k in range(n):
        own, row = 0.0, G[k]
        for p in range(atoms.indptr[chosen[k]], atoms.indptr[chosen[k] + 1]):
            i = atoms.rows[p]
            if observed.size > 0 and not observed[m, i]:
                continue
            v = float(atoms.values[p])
            own += v * v
            last = head[i]
            while last >= 0:
                row[who[last]] += v * value[last]
                last = before[last]
            who[t], value[t], before[t] = k, v, head[i]
            head[i] = t
            t += 1
        G[k, k] = own
        for j in range(k):
            G[j, k] = G[k, j]
    for k in range(n):
        for p in range(atoms.indptr[chosen[k]], atoms.indptr[chosen[k] + 1]):
            head[atoms.rows[p]] = -1
    return G


@_compiled
def sparse_gram(
    atoms: SparseAtoms, chosen: Ints, observed: Bools, m: int, place: Ints, head: Ints
) -> tuple[Ints, Ints, Array]:
    """The Gram matrix of the chosen atoms on the observed entries of a signal, row by row.

    ``place`` and ``head``, by atom and by node, are -1 throughout, and left so.
    """
    n = chosen.size
    total = 0
    for k in range(n):
        total += atoms.indptr[chosen[k] + 1] - atoms.indptr[chosen[k]]
    # The entries of all atoms at a node, as a chain from the last one back.
    who, value, before = np.empty(total, np.int64), np.empty(total), np.empty(total, np.int64)
    t = 0
    for k in range(n):
        for p in range(atoms.indptr[chosen[k]], atoms.indptr[chosen[k] + 1]):
            i = atoms.rows[p]
            if observed.size > 0 and not observed[m, i]:
                continue
            who[t], value[t], before[t] = k, atoms.values[p], head[i]
            head[i] = t
            t += 1
    indptr = np.zeros(n + 1, np.int64)
    ends, entries = np.empty(64 * n, np.int64), np.empty(64 * n)
    for k in range(n):
        size = indptr[k]
        if size + n > ends.size:
            ends = np.append(ends, np.empty(ends.size + n, np.int64))
            entries = np.append(entries, np.empty(entries.size + n))
        for p in range(atoms.indptr[chosen[k]], atoms.indptr[chosen[k] + 1]):
            i = atoms.rows[p]
            if observed.size > 0 and not observed[m, i]:
                continue
            v = atoms.values[p]
            t = head[i]
            while t >= 0:
                other = who[t]
                if place[other] < 0:
                    place[other] = size
                    ends[size], entries[size] = other, 0.0
                    size += 1
                entries[place[other]] += v * value[t]
                t = before[t]
        for t in range(indptr[k], size):
            place[ends[t]] = -1
        indptr[k + 1] = size
    for k in range(n):
        for p in range(atoms.indptr[chosen[k]], atoms.indptr[chosen[k] + 1]):
            head[atoms.rows[p]] = -1
    return indptr, ends[: indptr[n]], entries[: indptr[n]]


@_compiled
def solve_exactly(G: Array, a: Array, h: Array, q: Array, energy: float) -> None:
    """Minimise over ``h`` (n,), given ``G = D^T D``, ``q = D^T r`` and ``energy = |r|^2``."""
    n = h.size
    c = q.copy()
    # What is left plus what these atoms explain: x' = r + D h, D^T x' = q + G h and
    # |x'|^2 = |r|^2 + h.(q + D^T x').
    for k in range(n):
        G[k, k] *= 1.0 + RIDGE
        if h[k] != 0.0:
            energy += h[k] * q[k]
            for j in range(n):
                c[j] += h[k] * G[k, j]
    for k in range(n):
        energy += h[k] * c[k]
    whole = (G, np.ones(n, np.bool_), np.empty((0, 0)))
    code_one(whole, work_for(n), c, a, energy, h, CODING_TOL, False)


@_compiled
def take_turns(
    gram: tuple[Ints, Ints, Array],
    a: Array,
    h: Array,
    q: Array,
    energy: float,
    least: float,
    lent: Array,
) -> None:
    """The same where they are many: by neighbourhoods that overlap, one after the other."""
    parts, starts = _neighbourhoods(gram)
    for _ in range(TURNS):
        moved = False
        for t in range(starts.size - 1):
            part = parts[starts[t] : starts[t + 1]]
            worst = 0.0
            for k in part:
                worst = max(worst, excess(q[k], a[k], h[k]))
            if worst > 0.1 * least:
                moved = True
                _solve_part(gram, part, a, h, q, energy, lent)
        if not moved:
            break


@_compiled
def _neighbourhoods(gram: tuple[Ints, Ints, Array]) -> tuple[Ints, Ints]:
    """Overlapping parts that cover all atoms: grown along the Gram matrix, and what is around.

    ``parts[starts[t]:starts[t + 1]]`` is one, ascending.
    """
    indptr, ends, entries = gram
    n = indptr.size - 1
    own = np.empty(n)
    for k in range(n):
        for p in range(indptr[k], indptr[k + 1]):
            if ends[p] == k:
                own[k] = entries[p]
    taken, part_of = np.zeros(n, np.bool_), np.full(n, -1)
    parts = np.empty(n, np.int64)
    starts = [0]
    total = 0
    for seed in range(n):
        if taken[seed]:
            continue
        t = len(starts) - 1
        queue = np.empty(n, np.int64)
        queue[0], size, head = seed, 1, 0
        part_of[seed] = t
        core = 0
        while head < size and core < CORE:
            k = queue[head]
            head += 1
            if taken[k]:
                continue  # of another core: it is around this one, and goes no further
            taken[k] = True
            core += 1
            for p in range(indptr[k], indptr[k + 1]):
                other = ends[p]
                near = entries[p] * entries[p] >= STRONG * own[k] * own[other]
                if near and part_of[other] != t:
                    part_of[other] = t
                    queue[size] = other
                    size += 1
        if total + size > parts.size:
            parts = np.append(parts, np.empty(parts.size + size, np.int64))
        parts[total : total + size] = np.sort(queue[:size])
        total += size
        starts.append(total)
    return parts[:total], np.array(starts)


@_compiled
def _solve_part(
    gram: tuple[Ints, Ints, Array],
    part: Ints,
    a: Array,
    h: Array,
    q: Array,
    energy: float,
    lent: Array,
) -> None:
    """Minimise over some of the codes, exactly, the others held."""
    indptr, ends, entries = gram
    n = part.size
    G, code, bound, left = np.zeros((n, n)), np.empty(n), np.empty(n), np.empty(n)
    for k in range(n):
        code[k], bound[k], left[k] = h[part[k]], a[part[k]], q[part[k]]
        for p in range(indptr[part[k]], indptr[part[k] + 1]):
            lent[ends[p]] = entries[p]
        for j in range(n):
            G[k, j] = lent[part[j]]
        for p in range(indptr[part[k]], indptr[part[k] + 1]):
            lent[ends[p]] = 0.0
    solve_exactly(G, bound, code, left, energy)
    for k in range(n):
        step = code[k] - h[part[k]]
        if step != 0.0:
            h[part[k]] = code[k]
            for p in range(indptr[part[k]], indptr[part[k] + 1]):
                q[ends[p]] -= step * entries[p]
