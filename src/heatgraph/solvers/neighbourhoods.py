"""The lasso on a dictionary of sparse atoms: a small exact problem for every signal.

Of all atoms a signal needs a few.  These form a working set, whose Gram matrix is sparse and is
made from the atoms themselves, so that it is never indefinite; the exact coder of small graphs
solves on it, and atoms whose correlation with what is left exceeds their penalty enter, the
foremost of every neighbourhood at once.  A working set too large to be solved whole is solved by
neighbourhoods that overlap and take turns.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from heatgraph.kernels.lanes import fill, load, pick, plus_scaled, store
from heatgraph.objective.sparse import SparseAtoms
from heatgraph.solvers.coding import _code_one, _work
from heatgraph.solvers.ensemble import CODING_TOL
from heatgraph.solvers.gram import FASTMATH

__all__ = ["LANES", "code_block", "correlate_block", "subtract_block"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Block = NDArray[Any]

LANES = 32  # signals in a block
WHOLE = 80  # atoms of a working set that is solved at once
CORE = 24  # of a neighbourhood in a larger one, to which those near it are added
STRONG = 0.25  # squared cosine between atoms, from which on they are near
TILE = 16  # rows that are transposed together
TURNS = 30  # of the neighbourhoods, at most
SHARE = 0.5  # of the largest excess around it, from which on an atom enters
ROUNDING = 1e-8  # of the size of a signal: correlations below this are taken for zero
RIDGE = 1e-10  # without a penalty, dependent atoms could grow without bound

_compiled = numba.njit(cache=True, nogil=True, fastmath=FASTMATH)


@_compiled
def subtract_block(atoms: SparseAtoms, H: Array, observed: Bools, R: Block) -> None:
    """``R_m -= sum_k H_mk d_k``, for ``H`` (W, S N) and ``R`` (N, W), where it was observed."""
    for m in range(H.shape[0]):
        for k in range(H.shape[1]):
            if H[m, k] != 0.0:
                _subtract(atoms, k, H[m, k], m, observed, R)


@_compiled
def _subtract(atoms: SparseAtoms, k: int, h: float, m: int, observed: Bools, R: Block) -> None:
    for p in range(atoms.indptr[k], atoms.indptr[k + 1]):
        i = atoms.rows[p]
        if observed.size == 0 or observed[m, i]:
            R[i, m] -= h * atoms.values[p]


@numba.njit(cache=True, nogil=True, fastmath=True)
def correlate_block(atoms: SparseAtoms, R: Block, Q: Block) -> None:
    """``Q_k = <d_k, R>`` for every signal of a block, (S N, W)."""
    signals, found = R.reshape(-1), Q.reshape(-1)
    zero = R.dtype.type(0.0)
    for k in range(Q.shape[0]):
        # All of a block at once, in four times eight lanes.
        q0 = q1 = q2 = q3 = fill(zero)
        for p in range(atoms.indptr[k], atoms.indptr[k + 1]):
            i, v = pick(atoms.rows, p) * LANES, pick(atoms.values, p)
            q0 = plus_scaled(q0, v, load(signals, i))
            q1 = plus_scaled(q1, v, load(signals, i + 8))
            q2 = plus_scaled(q2, v, load(signals, i + 16))
            q3 = plus_scaled(q3, v, load(signals, i + 24))
        store(found, k * LANES, q0)
        store(found, k * LANES + 8, q1)
        store(found, k * LANES + 16, q2)
        store(found, k * LANES + 24, q3)


@_compiled
def code_block(
    atoms: SparseAtoms,
    region: Ints,
    a: Array,
    H: Array,
    observed: Bools,
    R: Block,
    Q: Block,
    open_: Bools,
    size: Array,
    tol: float,
) -> int:
    """Let atoms into the working sets of the signals of a block, and solve on them.

    ``H`` (W, S N) and ``R`` (N, W) hold the codes and what they leave; ``Q`` the correlations of
    that.  ``a`` (1 or W, S N) are the penalties, ``region`` (S N,) says which atoms are neighbours.
    A signal is no longer ``open_`` once no correlation leaves the set where its codes are optimal
    by more than ``tol``, relative to the largest penalty, and than rounding, relative to the size
    of the signal (``size``).  Returns how many still are.
    """
    K = H.shape[1]
    best = np.zeros(region.max() + 1)
    lent, place, by_signal = np.zeros(K), np.full(K, -1), _transposed(Q, H.shape[0])
    n_open = 0
    for m in range(H.shape[0]):
        if not open_[m]:
            continue
        row, now = a[m if a.shape[0] > 1 else 0], by_signal[m]
        worst = _excesses(now, row, H[m], region, best)
        least = tol * 0.5 * row.max() + ROUNDING * size[m]
        if worst <= least:
            open_[m] = False
            continue
        n_open += 1
        chosen = _working_set(now, row, H[m], region, best, least)
        gram = _gram(atoms, chosen, observed, m, R.shape[0], place)
        h, bound, q = np.empty(chosen.size), np.empty(chosen.size), np.empty(chosen.size)
        for k in range(chosen.size):
            h[k], bound[k], q[k] = H[m, chosen[k]], row[chosen[k]], now[chosen[k]]
        energy = 0.0
        for i in range(R.shape[0]):
            energy += R[i, m] * R[i, m]
        _solve(gram, bound, h, q, energy, least, lent)
        for k in range(chosen.size):
            step = h[k] - H[m, chosen[k]]
            if step != 0.0:
                _subtract(atoms, chosen[k], step, m, observed, R)
                H[m, chosen[k]] = h[k]
    return n_open


@_compiled
def _transposed(Q: Block, W: int) -> Array:
    """The first columns as rows, a few at a time, so that each cache line is read once."""
    rows = np.empty((W, Q.shape[0]))
    for start in range(0, Q.shape[0], TILE):
        for m in range(W):
            for k in range(start, min(start + TILE, Q.shape[0])):
                rows[m, k] = Q[k, m]
    return rows


@_compiled
def _excess(q: float, a: float, h: float) -> float:
    """How far a correlation is from ``sign(h) a / 2``, or leaves [-a/2, a/2] where h is zero."""
    if h > 0.0:
        return abs(q - 0.5 * a)
    if h < 0.0:
        return abs(q + 0.5 * a)
    return abs(q) - 0.5 * a


@_compiled
def _excesses(q: Array, a: Array, h: Array, region: Ints, best: Array) -> float:
    """The largest of all, and of the silent atoms of every region."""
    best[:] = 0.0
    worst = 0.0
    for k in range(h.size):
        off = _excess(q[k], a[k], h[k])
        worst = max(worst, off)
        if h[k] == 0.0 and off > best[region[k]]:
            best[region[k]] = off
    return worst


@_compiled
def _working_set(q: Array, a: Array, h: Array, region: Ints, best: Array, least: float) -> Ints:
    """The support, and of silent atoms that exceed their penalty the foremost of each region."""
    chosen = np.empty(h.size, np.int64)
    n = 0
    for k in range(h.size):
        excess = abs(q[k]) - 0.5 * a[k]
        if h[k] != 0.0 or excess > max(0.1 * least, SHARE * best[region[k]]):
            chosen[n] = k
            n += 1
    return chosen[:n].copy()


@_compiled
def _gram(
    atoms: SparseAtoms, chosen: Ints, observed: Bools, m: int, N: int, place: Ints
) -> tuple[Ints, Ints, Array]:
    """The Gram matrix of the chosen atoms on the observed entries of a signal, row by row."""
    n = chosen.size
    count = np.zeros(N + 1, np.int64)
    for k in range(n):
        for p in range(atoms.indptr[chosen[k]], atoms.indptr[chosen[k] + 1]):
            count[atoms.rows[p] + 1] += 1
    for i in range(N):
        count[i + 1] += count[i]
    who, value = np.empty(count[N], np.int64), np.empty(count[N])
    at = count[:N].copy()
    for k in range(n):
        for p in range(atoms.indptr[chosen[k]], atoms.indptr[chosen[k] + 1]):
            i = atoms.rows[p]
            who[at[i]], value[at[i]] = k, atoms.values[p]
            at[i] += 1
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
            for t in range(count[i], count[i + 1]):
                other = who[t]
                if place[other] < 0:
                    place[other] = size
                    ends[size], entries[size] = other, 0.0
                    size += 1
                entries[place[other]] += v * value[t]
        for t in range(indptr[k], size):
            place[ends[t]] = -1
        indptr[k + 1] = size
    return indptr, ends[: indptr[n]], entries[: indptr[n]]


@_compiled
def _solve(
    gram: tuple[Ints, Ints, Array],
    a: Array,
    h: Array,
    q: Array,
    energy: float,
    least: float,
    lent: Array,
) -> None:
    """Minimise over ``h`` (n,), given ``q = D^T r`` and ``energy = |r|^2``."""
    n = h.size
    if n <= WHOLE:
        _solve_part(gram, np.arange(n), a, h, q, energy, lent)
        return
    parts, starts = _neighbourhoods(gram)
    for _ in range(TURNS):
        moved = False
        for t in range(starts.size - 1):
            part = parts[starts[t] : starts[t + 1]]
            worst = 0.0
            for k in part:
                worst = max(worst, _excess(q[k], a[k], h[k]))
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
    G, code, bound, c = np.zeros((n, n)), np.empty(n), np.empty(n), np.empty(n)
    for k in range(n):
        code[k], bound[k], c[k] = h[part[k]], a[part[k]], q[part[k]]
        for p in range(indptr[part[k]], indptr[part[k] + 1]):
            lent[ends[p]] = entries[p]
        for j in range(n):
            G[k, j] = lent[part[j]]
        G[k, k] *= 1.0 + RIDGE
        for p in range(indptr[part[k]], indptr[part[k] + 1]):
            lent[ends[p]] = 0.0
    # What is left plus what these atoms explain: x' = r + D h, D^T x' = q + G h and
    # |x'|^2 = |r|^2 + h.(q + D^T x').
    for k in range(n):
        if code[k] != 0.0:
            energy += code[k] * q[part[k]]
            for j in range(n):
                c[j] += code[k] * G[k, j]
    for k in range(n):
        energy += code[k] * c[k]
    whole = (G, np.ones(n, np.bool_), np.empty((0, 0)))
    _code_one(whole, _work(n), c, bound, energy, code, CODING_TOL)
    for k in range(n):
        step = code[k] - h[part[k]]
        if step != 0.0:
            h[part[k]] = code[k]
            for p in range(indptr[part[k]], indptr[part[k] + 1]):
                q[ends[p]] -= step * entries[p]
