"""Sources of a block of signals on sparse atoms, exact: working sets that grow by what exceeds.

Of all atoms a signal needs a few.  These form its working set, on which a small problem is solved;
then atoms whose correlation with what is left exceeds their penalty enter, the foremost of every
region at once, until none does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from heatgraph.kernels.lanes import above, aligned, fill, lanes, load, pick, plus_scaled, store
from heatgraph.models.sparse import SparseAtoms
from heatgraph.solvers.gram import FASTMATH
from heatgraph.solvers.neighbourhoods import (
    WHOLE,
    dense_gram,
    excess,
    solve_exactly,
    sparse_gram,
    take_turns,
)

__all__ = [
    "TOGETHER",
    "Lent",
    "code_block",
    "correlate_block",
    "lend",
    "residual_block",
    "side_by_side",
]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Block = NDArray[Any]

TOGETHER = 32  # signals in a block
TILE = 16  # rows that are transposed together
SHARE = 0.5  # of the largest excess around it, from which on an atom enters
ROUNDING = 1e-8  # of the size of a signal: correlations below this are taken for zero

_compiled = numba.njit(cache=True, nogil=True, fastmath=FASTMATH)


class Lent(NamedTuple):
    """Memory to code a block of signals on; whatever is said to be zero or -1 is left so.

    ``left`` (N, T) is what codes leave of the signals, ``Q`` (K, T) its correlations with the
    atoms.  ``H`` (T, K) zero, to hold the codes; ``active`` and ``silent`` (T, K) list atoms.
    ``head`` (N,) and ``place`` (K,) -1; ``line`` (K,) and ``best`` (n_regions,) zero.
    """

    left: Block
    Q: Block
    H: Array
    active: Ints
    silent: Ints
    head: Ints
    place: Ints
    line: Array
    best: Array


def lend(N: int, K: int, n_regions: int, dtype: Any) -> Lent:
    """Memory for `code_block` with K atoms on N nodes."""
    return Lent(
        aligned(N * TOGETHER, dtype).reshape(N, TOGETHER),
        aligned(K * TOGETHER, dtype).reshape(K, TOGETHER),
        np.zeros((TOGETHER, K)),
        np.empty((TOGETHER, K), np.int64),
        np.empty((TOGETHER, K), np.int64),
        np.full(N, -1),
        np.full(K, -1),
        np.zeros(K),
        np.zeros(n_regions),
    )


@_compiled
def residual_block(
    atoms: SparseAtoms, indptr: Ints, where: Ints, what: Array, observed: Bools, R: Block
) -> None:
    """Subtract what codes explain from signals ``R`` (M, N) where these were observed.

    Those of signal ``m`` are ``what[indptr[m]:indptr[m + 1]]``, at the atoms ``where[...]``.
    """
    for m in range(R.shape[0]):
        for p in range(indptr[m], indptr[m + 1]):
            _subtract(atoms, where[p], what[p], m, observed, R[m])


@_compiled
def _subtract(atoms: SparseAtoms, k: int, h: float, m: int, observed: Bools, r: Block) -> None:
    for p in range(atoms.indptr[k], atoms.indptr[k + 1]):
        i = atoms.rows[p]
        if observed.size == 0 or observed[m, i]:
            r[i] -= h * atoms.values[p]


@_compiled
def side_by_side(R: Block, left: Block) -> None:
    """Signals (M, N) as the columns of ``left`` (N, T), zeros beyond them."""
    M, N = R.shape
    # A few rows at a time, so that each cache line is read once.
    for first in range(0, N, TILE):
        last = min(first + TILE, N)
        for m in range(M):
            for i in range(first, last):
                left[i, m] = R[m, i]
        for m in range(M, TOGETHER):
            for i in range(first, last):
                left[i, m] = 0


@numba.njit(cache=True, nogil=True, fastmath=True)
def correlate_block(atoms: SparseAtoms, left: Block, Q: Block) -> None:
    """``Q_k = <d_k, left>`` for every signal of a block, (K, T)."""
    signals, found = left.reshape(-1), Q.reshape(-1)
    zero, W = left.dtype.type(0.0), lanes(left.dtype)
    for k in range(Q.shape[0]):
        # All of a block at once: four registers, or two.
        q0 = q1 = q2 = q3 = fill(zero)
        for p in range(atoms.indptr[k], atoms.indptr[k + 1]):
            i, v = pick(atoms.rows, p) * TOGETHER, pick(atoms.values, p)
            q0 = plus_scaled(q0, v, load(signals, i))
            q1 = plus_scaled(q1, v, load(signals, i + W))
            if 4 * W == TOGETHER:
                q2 = plus_scaled(q2, v, load(signals, i + 2 * W))
                q3 = plus_scaled(q3, v, load(signals, i + 3 * W))
        store(found, k * TOGETHER, q0)
        store(found, k * TOGETHER + W, q1)
        if 4 * W == TOGETHER:
            store(found, k * TOGETHER + 2 * W, q2)
            store(found, k * TOGETHER + 3 * W, q3)


@_compiled
def code_block(
    atoms: SparseAtoms,
    region: Ints,
    a: Block,
    indptr: Ints,
    where: Ints,
    what: Array,
    X: Block,
    observed: Bools,
    tol: float,
    rounds: int,
    lent: Lent,
    R: Block,
) -> tuple[Ints, Ints, Array]:
    """The sources of signals ``X`` (M, N), starting from codes as in `residual_block`.

    Those of a signal are ascending, here and in what is returned: how many every signal has, where
    they are, and what; ``R`` (M, N) is what they leave.

    ``a`` (K, 1 or T) are the penalties, ``region`` (K,) says which atoms are neighbours.  A signal
    is done once no correlation leaves the set where its codes are optimal by more than ``tol``,
    relative to the largest penalty, and than rounding, relative to the size of the signal; atoms
    are let in ``rounds`` times at most.
    """
    M = X.shape[0]
    H, active = lent.H, lent.active
    R[:] = X
    residual_block(atoms, indptr, where, what, observed, R)
    n_active, least = np.zeros(M, np.int64), np.full(TOGETHER, np.inf)
    for m in range(M):
        for p in range(indptr[m], indptr[m + 1]):
            if what[p] != 0.0:
                H[m, where[p]] = what[p]
                active[m, n_active[m]] = where[p]
                n_active[m] += 1
        least[m] = ROUNDING * np.sqrt(_energy(X[m]))
    largest = np.zeros(a.shape[1])
    for k in range(a.shape[0]):
        for s in range(a.shape[1]):
            largest[s] = max(largest[s], float(a[k, s]))
    for m in range(M):
        least[m] += 0.5 * tol * largest[m if a.shape[1] > 1 else 0]
    for _ in range(rounds):
        side_by_side(R, lent.left)
        correlate_block(atoms, lent.left, lent.Q)
        if not _let_in(atoms, region, a, observed, least, n_active, lent, R):
            break
    at, found, n = np.empty(n_active.sum(), np.int64), np.empty(n_active.sum()), 0
    for m in range(M):
        for p in range(n_active[m]):
            k = active[m, p]
            at[n], found[n] = k, H[m, k]
            H[m, k] = 0.0
            n += 1
    return n_active, at, found


@_compiled
def _let_in(
    atoms: SparseAtoms,
    region: Ints,
    a: Block,
    observed: Bools,
    least: Array,
    n_active: Ints,
    lent: Lent,
    R: Block,
) -> int:
    """Let atoms into the working sets and solve on them; how many signals were not done yet.

    ``least`` (T,) is how far correlations may leave the set where codes are optimal, and becomes
    infinite where they do not.
    """
    Q, H, active, silent = lent.Q, lent.H, lent.active, lent.silent
    n_open, n_silent = 0, _screen(Q, a, least, H, silent)
    for m in range(n_active.size):
        if least[m] == np.inf:
            continue
        s = m if a.shape[1] > 1 else 0
        now, others = active[m, : n_active[m]], silent[m, : n_silent[m]]
        worst = 0.0
        for k in now:
            worst = max(worst, excess(float(Q[k, m]), float(a[k, s]), H[m, k]))
        for k in others:
            worst = max(worst, excess(float(Q[k, m]), float(a[k, s]), 0.0))
        if worst <= least[m]:
            least[m] = np.inf
            continue
        n_open += 1
        chosen = _merged(now, _foremost(Q[:, m], a[:, s], region, lent.best, others))
        n = chosen.size
        h, bound, q = np.empty(n), np.empty(n), np.empty(n)
        for k in range(n):
            h[k], bound[k], q[k] = H[m, chosen[k]], a[chosen[k], s], Q[chosen[k], m]
        energy = _energy(R[m])
        if n <= WHOLE:
            G = dense_gram(atoms, chosen, observed, m, lent.head)
            solve_exactly(G, bound, h, q, energy)
        else:
            sparse = sparse_gram(atoms, chosen, observed, m, lent.place, lent.head)
            take_turns(sparse, bound, h, q, energy, least[m], lent.line)
        n_active[m] = 0
        for k in range(n):
            step = h[k] - H[m, chosen[k]]
            if step != 0.0:
                _subtract(atoms, chosen[k], step, m, observed, R[m])
                H[m, chosen[k]] = h[k]
            if h[k] != 0.0:
                active[m, n_active[m]] = chosen[k]
                n_active[m] += 1
    return n_open


@_compiled
def _screen(Q: Block, a: Block, least: Array, H: Array, silent: Ints) -> Ints:
    """List the silent atoms whose correlation exceeds its bound by a tenth of ``least`` (T,).

    Returns how many there are for every signal, (T,).
    """
    counts, W = np.zeros(TOGETHER, np.int64), lanes(Q.dtype)
    values, penalties, bars = Q.reshape(-1), a.reshape(-1), np.empty(TOGETHER, Q.dtype)
    half = Q.dtype.type(0.5)
    for m in range(TOGETHER):
        bars[m] = 0.1 * least[m]
    for k in range(Q.shape[0]):
        for start in range(0, TOGETHER, W):
            own = load(penalties, k * TOGETHER + start) if a.shape[1] > 1 else fill(penalties[k])
            bar = plus_scaled(load(bars, start), half, own)
            exceeding = above(load(values, k * TOGETHER + start), bar)
            if exceeding == 0:
                continue
            for m in range(start, start + W):
                if exceeding >> (m - start) & 1 and H[m, k] == 0.0:
                    silent[m, counts[m]] = k
                    counts[m] += 1
    return counts


@_compiled
def _foremost(q: Block, a: Block, region: Ints, best: Array, silent: Ints) -> Ints:
    """Of silent atoms that exceed their penalty the foremost of each region."""
    n = 0
    kept, over = np.empty(silent.size, np.int64), np.empty(silent.size)
    for p in range(silent.size):
        k = silent[p]
        over[p] = excess(float(q[k]), float(a[k]), 0.0)
        best[region[k]] = max(best[region[k]], over[p])
    for p in range(silent.size):
        if over[p] > SHARE * best[region[silent[p]]]:
            kept[n] = silent[p]
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
def _energy(r: Block) -> float:
    energy = 0.0
    for i in range(r.size):
        energy += float(r[i]) ** 2
    return energy
