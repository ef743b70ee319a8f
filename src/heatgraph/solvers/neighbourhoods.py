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
WHOLE = 400  # atoms of a working set that is solved at once
CORE = 24  # of a neighbourhood in a larger one, to which those near it are added
STRONG = 0.25  # squared cosine between atoms, from which on they are near
TILE = 16  # rows that are transposed together
STRIDE = 64  # numbers that are looked at together, for one that counts among them
TURNS = 30  # of the neighbourhoods, at most
SHARE = 0.5  # of the largest excess around it, from which on an atom enters
ROUNDING = 1e-8  # of the size of a signal: correlations below this are taken for zero
RIDGE = 1e-10  # without a penalty, dependent atoms could grow without bound

_compiled = numba.njit(cache=True, nogil=True, fastmath=FASTMATH)
# A largest value is found several at a time only where none can be NaN.
_comparing = numba.njit(cache=True, nogil=True, fastmath=FASTMATH | {"nnan"})


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
    head, energies = np.full(R.shape[0], -1), _energies(R)
    active, silent = np.empty(K, np.int64), np.empty(K, np.int64)
    n_open, largest = 0, a[0].max()
    for m in range(H.shape[0]):
        if not open_[m]:
            continue
        row, now = a[m if a.shape[0] > 1 else 0], by_signal[m]
        if a.shape[0] > 1:
            largest = row.max()
        least = tol * 0.5 * largest + ROUNDING * size[m]
        n_active = _nonzero(H[m], active)
        n_silent = _exceeding(now, row, H[m], 0.1 * least, silent)
        worst = _worst(now, row, H[m], active[:n_active], silent[:n_silent])
        if worst <= least:
            open_[m] = False
            continue
        n_open += 1
        foremost = _foremost(now, row, region, best, silent[:n_silent])
        chosen = _merged(active[:n_active], foremost)
        h, bound, q = np.empty(chosen.size), np.empty(chosen.size), np.empty(chosen.size)
        for k in range(chosen.size):
            h[k], bound[k], q[k] = H[m, chosen[k]], row[chosen[k]], now[chosen[k]]
        if chosen.size <= WHOLE:
            G = _dense_gram(atoms, chosen, observed, m, head)
            _solve_exactly(G, bound, h, q, energies[m])
        else:
            gram = _gram(atoms, chosen, observed, m, place, head)
            _take_turns(gram, bound, h, q, energies[m], least, lent)
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
def _nonzero(h: Array, found: Ints) -> int:
    """List where ``h`` is not zero, ascending; how many there are."""
    n = 0
    for start in range(0, h.size, STRIDE):
        part = h[start : start + STRIDE]
        some = 0
        for k in range(part.size):
            some += part[k] != 0.0
        if some > 0:
            for k in range(part.size):
                if part[k] != 0.0:
                    found[n] = start + k
                    n += 1
    return n


@_comparing
def _exceeding(q: Array, a: Array, h: Array, least: float, found: Ints) -> int:
    """List the silent atoms whose correlation exceeds its bound by more than ``least``."""
    n = 0
    for start in range(0, q.size, STRIDE):
        now, bound = q[start : start + STRIDE], a[start : start + STRIDE]
        worst = 0.0
        for k in range(now.size):
            worst = max(worst, abs(now[k]) - 0.5 * bound[k])
        if worst > least:
            for k in range(now.size):
                if abs(now[k]) - 0.5 * bound[k] > least and h[start + k] == 0.0:
                    found[n] = start + k
                    n += 1
    return n


@_compiled
def _worst(q: Array, a: Array, h: Array, active: Ints, silent: Ints) -> float:
    """How far the codes are from optimal: the largest excess."""
    worst = 0.0
    for k in active:
        worst = max(worst, _excess(q[k], a[k], h[k]))
    for k in silent:
        worst = max(worst, _excess(q[k], a[k], 0.0))
    return worst


@_compiled
def _foremost(q: Array, a: Array, region: Ints, best: Array, silent: Ints) -> Ints:
    """Of silent atoms that exceed their penalty the foremost of each region."""
    for k in silent:
        best[region[k]] = max(best[region[k]], abs(q[k]) - 0.5 * a[k])
    n = 0
    kept = np.empty(silent.size, np.int64)
    for k in silent:
        if abs(q[k]) - 0.5 * a[k] > SHARE * best[region[k]]:
            kept[n] = k
            n += 1
    for k in silent:
        best[region[k]] = 0.0
    return kept[:n]


@_compiled
def _merged(first: Ints, second: Ints) -> Ints:
    """Two ascending lists as one."""
    out = np.empty(first.size + second.size, np.int64)
    i = j = 0
    for k in range(out.size):
        if j == second.size or (i < first.size and first[i] < second[j]):
            out[k] = first[i]
            i += 1
        else:
            out[k] = second[j]
            j += 1
    return out


@_compiled
def _energies(R: Block) -> Array:
    """``|r|^2`` of every signal of a block (W,)."""
    energies = np.zeros(R.shape[1])
    for i in range(R.shape[0]):
        for m in range(energies.size):
            energies[m] += float(R[i, m]) * float(R[i, m])
    return energies


@_compiled
def _dense_gram(atoms: SparseAtoms, chosen: Ints, observed: Bools, m: int, head: Ints) -> Array:
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
def _gram(
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
def _solve_exactly(G: Array, a: Array, h: Array, q: Array, energy: float) -> None:
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
    _code_one(whole, _work(n), c, a, energy, h, CODING_TOL)


@_compiled
def _take_turns(
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
    G, code, bound, left = np.zeros((n, n)), np.empty(n), np.empty(n), np.empty(n)
    for k in range(n):
        code[k], bound[k], left[k] = h[part[k]], a[part[k]], q[part[k]]
        for p in range(indptr[part[k]], indptr[part[k] + 1]):
            lent[ends[p]] = entries[p]
        for j in range(n):
            G[k, j] = lent[part[j]]
        for p in range(indptr[part[k]], indptr[part[k] + 1]):
            lent[ends[p]] = 0.0
    _solve_exactly(G, bound, code, left, energy)
    for k in range(n):
        step = code[k] - h[part[k]]
        if step != 0.0:
            h[part[k]] = code[k]
            for p in range(indptr[part[k]], indptr[part[k] + 1]):
                q[ends[p]] -= step * entries[p]
