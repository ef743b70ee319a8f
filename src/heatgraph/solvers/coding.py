"""Sparse coding of signals on a fixed dictionary: the lasso, solved exactly.

For every signal ``x``: minimise ``||x - D h||^2 + sum_j a_j |h_j|`` over ``h``, on the entries of
``x`` that were observed.  All work is on the Gram matrix ``G = D^T D`` and the correlations
``q = D^T (x - D h)``; the residual itself is never formed.

The dictionary of heat atoms is so coherent that coordinate descent and proximal steps crawl.
Here the support is kept small and independent, the minimiser on it is solved for by Cholesky,
and atoms enter only where their correlation exceeds its bound by the most; a warm start whose
support is right costs one small solve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numba
import numpy as np
from numpy.typing import NDArray

from heatgraph.kernels.lanes import (
    above,
    fill,
    lanes,
    larger,
    largest,
    load,
    load_row,
    magnitude,
    minus_scaled,
    plus_scaled,
    store,
)
from heatgraph.kernels.pool import run_threads
from heatgraph.solvers.cholesky import continue_factor, solve_lower, solve_upper, without_row
from heatgraph.solvers.gram import (
    FASTMATH,
    Gram,
    compiled_with,
    gather,
    know,
    subtract,
)

__all__ = ["Coding", "code"]

Array = NDArray[np.float64]
Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]

# Rows: correlations, a step, a row of the Gram matrix, one over the diagonal of the factor, and
# what the factor was solved for; the support; and the Cholesky factor of its Gram matrix (in both
# triangles).
Work = tuple[Array, Ints, Array]

ENTRY_SHARE = 0.3  # atoms enter together where their excess is at least this share of the largest
FEW = 4  # atoms by which codes to start from are judged
FAR = 5.0  # times its bound: a correlation of codes of which few will stay
WEAK = 0.2  # of the strongest code: a weaker one is not worth to start from, where few will stay
NEWTON_MAX = 400  # a larger support is swept by coordinates: its factor would cost more
MAX_ROUNDS = 1000
GAP_WORTH = 0.1  # the duality gap is computed once no correlation exceeds its bound by more
ROUNDING = 1e-14  # an excess this small, relative to the correlations, is rounding
MAX_IDLE = 10  # rounds that do not lower the value: nearly dependent atoms taking turns

_compiled = numba.njit(cache=True, nogil=True, fastmath=FASTMATH)


_borrowing = compiled_with(nrt=False)
# Part of whatever calls it, and in the order in which it is written: compiled on its own besides,
# sums could be taken in another, and which of the two is run depends on what was in the cache.
_inside = compiled_with(nrt=False, fastmath={"contract", "nsz"}, inside=True)
# A largest value is found several at a time only where none can be NaN.
_comparing = compiled_with(nrt=False, fastmath=FASTMATH | {"nnan"})


@dataclass(frozen=True)
class Coding:
    """Codes ``h`` (M, K), a row a signal, with the value and duality gap each row reached."""

    h: Array
    value: Array
    gap: Array


def code(
    G: Array,
    C: Array,
    a: Array,
    energy: Array,
    start: Array,
    *,
    tol: float,
    D: Array | None = None,
    observed: Bools | None = None,
    n_threads: int = 1,
) -> Coding:
    """Solve the lasso of every signal to a duality gap of ``tol`` times its energy.

    Parameters
    ----------
    G : (K, K) Gram matrix ``D^T D``.
    C : (M, K) correlations ``D^T x`` of the observed entries, a row a signal.
    a : (K,) penalty of each atom, or (M, K) where it differs between signals.
    energy : (M,) squared norm of the observed entries.
    start : (M, K) codes to start from; not written to.
    tol : relative duality gap.
    D, observed : (N, K) dictionary and (M, N) mask, where entries are missing.
    n_threads : signals are independent, so any number of threads gives the same bits.
    """
    G, C = (np.ascontiguousarray(x, dtype=np.float64) for x in (G, C))
    h = np.array(start, dtype=np.float64, order="C")
    # A row for all signals or one for each, in one kind of array: every other is compiled anew.
    a = np.array(a, dtype=np.float64, order="C", ndmin=2)
    shared = len(a) == 1
    report = np.empty((len(h), 2))
    if observed is None:
        D, observed = np.empty((0, 0)), np.empty((len(h), 0), dtype=np.bool_)
    elif D is None:
        raise ValueError("D is needed to code signals with missing entries.")

    def run(rows: slice) -> None:
        part = C[rows], a if shared else a[rows], energy[rows], h[rows], report[rows], tol
        _code_rows(G, D, observed[rows], *part)

    n_chunks = max(1, min(n_threads, len(h)))
    ends = [k * len(h) // n_chunks for k in range(n_chunks + 1)]
    run_threads(run, [slice(*both) for both in pairwise(ends)], n_chunks)
    return Coding(h, report[:, 0], report[:, 1])


@_compiled
def _code_rows(
    G: Array,
    D: Array,
    observed: Bools,
    C: Array,
    a: Array,
    energy: Array,
    h: Array,
    report: Array,
    tol: float,
) -> None:
    work = _work(a.shape[1])
    whole = (G, np.ones(a.shape[1], np.bool_), np.empty((0, 0)))
    for m in range(C.shape[0]):
        bounds = a[m if a.shape[0] > 1 else 0]
        gram = whole
        if observed.shape[1] > 0 and not np.all(observed[m]):
            # The Gram matrix of the observed rows alone, filled a row at a time as atoms enter.
            gram = (np.empty_like(G), np.zeros(a.shape[1], np.bool_), D[observed[m]])
        report[m] = _code_one(gram, work, C[m], bounds, energy[m], h[m], tol)


@_compiled
def _work(K: int) -> Work:
    cap = min(K, NEWTON_MAX)
    # Few arrays: compiled code hands each from function to function by its seven parts.
    return np.empty((5, K)), np.empty(K, np.intp), np.empty((cap, cap))


@_borrowing
def _code_one(
    gram: Gram, work: Work, c: Array, a: Array, energy: float, h: Array, tol: float
) -> tuple[float, float]:
    q, support, factor = work[0][0], work[1], work[2]
    n = _list_support(h, support)
    known = gram[1]
    for k in range(n):
        if not known[support[k]]:
            know(gram, support[k])
    if n > FEW and _is_far(gram, work, c, a, h, n):
        n = _keep_strongest(h, support, n)
    if n > factor.shape[0]:
        _correlate(gram, c, h, q, support, n)
    done, best, idle = 0, np.inf, 0
    widest, negligible = 0.5 * _largest(a), ROUNDING * _largest(c)
    for _ in range(MAX_ROUNDS):
        solved = n <= factor.shape[0]
        if solved:
            n, done = _descend_on_support(gram, work, c, a, h, n, done)
        else:
            for j in range(h.size):
                _update(gram, a, h, q, j)
            n, done = _list_support(h, support), 0
        worst = _largest_excess(a, q)
        if worst <= max(GAP_WORTH * widest, negligible):
            value, gap = _duality_gap(energy, c, a, h, q, support, n)
            idle = 0 if value < best else idle + 1
            best = min(best, value)
            # With nothing to enter, a support that was solved is the answer; a swept one not yet.
            if gap <= tol * energy or idle >= MAX_IDLE or (solved and worst <= negligible):
                return value, gap
        n = _activate(gram, a, h, q, support, n, worst)
    return _duality_gap(energy, c, a, h, q, support, n)


@_comparing
def _largest(x: Array) -> float:
    """``max |x_j|``."""
    W, several = lanes(x.dtype), fill(0.0)
    for j in range(0, x.size - W + 1, W):
        several = larger(several, magnitude(load(x, j)))
    most: float = largest(several)
    for j in range(x.size // W * W, x.size):
        most = max(most, abs(x[j]))
    return most


@_inside
def _list_support(h: Array, support: Ints) -> int:
    n = 0
    for j in range(h.size):
        support[n] = j  # without a branch, which nothing could foresee
        n += h[j] != 0.0
    return n


@_borrowing
def _is_far(gram: Gram, work: Work, c: Array, a: Array, h: Array, n: int) -> bool:
    """Whether codes to start from are of another dictionary, by some atoms of their support.

    At a minimiser the correlations of these atoms are at the bounds.
    """
    G, row, support = gram[0], work[0][2], work[1]
    for k in range(FEW):
        j = support[k * n // FEW]
        gather(G, j, support, n, row)
        q = c[j]
        for m in range(n):
            q -= row[m] * h[support[m]]
        if abs(q) > 0.5 * FAR * a[j] and a[j] > 0.0:
            return True
    return False


@_borrowing
def _keep_strongest(h: Array, support: Ints, n: int) -> int:
    """Silence what is weak beside the strongest code: to drop it later takes a solution each."""
    strongest = 0.0
    for k in range(n):
        strongest = max(strongest, abs(h[support[k]]))
    kept = 0
    for k in range(n):
        j = support[k]
        if abs(h[j]) < WEAK * strongest:
            h[j] = 0.0
        else:
            support[kept] = j
            kept += 1
    return kept


@_inside
def _correlate(gram: Gram, c: Array, h: Array, q: Array, support: Ints, n: int) -> None:
    """``q = c - G h``, afresh; by rows, as G is symmetric and h sparse."""
    G, K = gram[0], q.size
    W = lanes(q.dtype)
    # Some correlations at a time, in registers until all atoms are subtracted.
    for start in range(0, K - 4 * W + 1, 4 * W):
        q0, q1 = load(c, start), load(c, start + W)
        q2, q3 = load(c, start + 2 * W), load(c, start + 3 * W)
        for k in range(n):
            j = support[k]
            x = h[j]
            q0 = minus_scaled(q0, x, load_row(G, j, start))
            q1 = minus_scaled(q1, x, load_row(G, j, start + W))
            q2 = minus_scaled(q2, x, load_row(G, j, start + 2 * W))
            q3 = minus_scaled(q3, x, load_row(G, j, start + 3 * W))
        store(q, start, q0)
        store(q, start + W, q1)
        store(q, start + 2 * W, q2)
        store(q, start + 3 * W, q3)
    for j in range(K // (4 * W) * 4 * W, K):
        q[j] = c[j]
    for k in range(n):
        x, row = h[support[k]], G[support[k]]
        for j in range(K // (4 * W) * 4 * W, K):
            q[j] -= x * row[j]


@_borrowing
def _update(gram: Gram, a: Array, h: Array, q: Array, j: int) -> None:
    """Minimise exactly over atom ``j``: soft threshold of ``q_j + G_jj h_j`` at ``a_j / 2``."""
    if h[j] == 0.0 and abs(q[j]) <= 0.5 * a[j]:
        return
    if not gram[1][j]:
        know(gram, j)
    d = gram[0][j, j]
    if d <= 0.0:
        return
    z = q[j] + d * h[j]
    size = max(abs(z) - 0.5 * a[j], 0.0) / d
    step = (size if z > 0.0 else -size) - h[j]
    if step != 0.0:
        h[j] += step
        subtract(gram, j, step, q)


@_comparing
def _largest_excess(a: Array, q: Array) -> float:
    """How far the correlations leave [-a/2, a/2]; on the support they are at its ends."""
    W, several = lanes(q.dtype), fill(0.0)
    for j in range(0, q.size - W + 1, W):
        several = larger(several, minus_scaled(magnitude(load(q, j)), 0.5, load(a, j)))
    most: float = largest(several)
    for j in range(q.size // W * W, q.size):
        most = max(most, abs(q[j]) - 0.5 * a[j])
    return most


@_borrowing
def _activate(gram: Gram, a: Array, h: Array, q: Array, support: Ints, n: int, worst: float) -> int:
    """Bring in the silent atoms whose excess is at least a share of the largest.

    Only those: each one that enters explains its neighbours, and a support of dependent atoms is
    what makes coding slow.  Returns the new size of the support.
    """
    W, share = lanes(q.dtype), ENTRY_SHARE * worst
    for start in range(0, h.size, W):
        # Eight at a time, of which most have nothing to say; each changes the correlations of all.
        if start + W <= h.size:
            bar = plus_scaled(fill(share), 0.5, load(a, start))
            if above(load(q, start), bar) == 0:
                continue
        for j in range(start, min(start + W, h.size)):
            if abs(q[j]) - 0.5 * a[j] >= share and h[j] == 0.0:
                _update(gram, a, h, q, j)
                if h[j] != 0.0:
                    support[n] = j
                    n += 1
    return n


@_borrowing
def _descend_on_support(
    gram: Gram, work: Work, c: Array, a: Array, h: Array, n: int, done: int
) -> tuple[int, int]:
    """Minimise exactly over the support with its signs held, dropping atoms that reach zero.

    Along each direction the objective falls as long as no sign changes; the first atom to reach
    zero leaves, and the next direction is taken on what is left.  Returns the size of the support
    and how many rows of its Cholesky factor hold: those before an atom that left still do.
    """
    q, y, support = work[0][0], work[0][1], work[1]
    solved = done
    while n > 0:
        done = solved = _continue(gram[0], work, c, a, h, n, done, solved)
        reach = _direction(gram[0], work, c, a, h, n, done)
        if done == n and _cross(work, c, a, h, n):
            n, done, solved = _drop_zeros(work, h, n, done)
            continue
        leaver = -1
        for k in range(n):
            old = h[support[k]]
            until = -old / y[k]
            first = (y[k] * old < 0.0) & (until <= reach)
            reach, leaver = until if first else reach, k if first else leaver
        if reach == np.inf:
            break
        for k in range(n):
            old = h[support[k]]
            new = old + reach * y[k]
            # Two that reach zero together: rounding must not take the other to the far side.
            h[support[k]] = new if new * old > 0.0 else 0.0
        if leaver < 0:
            break
        h[support[leaver]] = 0.0
        n, done, solved = _drop_zeros(work, h, n, done)
    _correlate(gram, c, h, q, support, n)
    return n, done


@_inside
def _continue(
    G: Array, work: Work, c: Array, a: Array, h: Array, n: int, done: int, solved: int
) -> int:
    """Continue the factor from row ``done``, and the solution with it for ``c - a sign(h) / 2``.

    An atom that is in keeps its sign, so that the first ``solved`` rows stay what they are.
    """
    support, factor, (inverse, b) = work[1], work[2], (work[0][3], work[0][4])
    rows: int = continue_factor(G, support, factor, inverse, n, done)
    for k in range(solved, rows):
        j = support[k]
        b[k] = c[j] - math.copysign(0.5 * a[j], h[j])
    solve_lower(factor, inverse, b, solved, rows)
    return rows


@_borrowing
def _cross(work: Work, c: Array, a: Array, h: Array, n: int) -> bool:
    """Take the whole step, every atom that would change sign stopping at zero, if that descends.

    Where sources are far apart their atoms reach zero without regard to each other; to stop at the
    first one would solve for all of them again each time.  Written to ``h`` where two or more stop
    and the objective falls; the change is ``d.G d - 2 q.d + sum_j a_j (|h_j + d_j| - |h_j|)``.
    """
    (v, y, d), support, factor = (work[0][0], work[0][1], work[0][2]), work[1], work[2]
    crossing = 0
    for k in range(n):
        old = h[support[k]]
        crosses = old * (old + y[k]) <= 0.0
        d[k] = -old if crosses else y[k]
        crossing += crosses
    if crossing < 2:
        return False
    change = 0.0
    for k in range(n):
        new, old = h[support[k]] + d[k], h[support[k]]
        change += a[support[k]] * (abs(new) - abs(old)) - 2.0 * c[support[k]] * d[k]
    # G = F F^T with F the factor, so d.G (d + 2 h) is F v with v = F^T d, times d + 2 h.
    for k in range(n):
        v[k] = 0.0
        for m in range(k + 1):
            v[m] += factor[k, m] * d[k]
    for k in range(n):
        Gd = 0.0
        for m in range(k + 1):
            Gd += factor[k, m] * v[m]
        change += Gd * (d[k] + 2.0 * h[support[k]])
    if change >= 0.0:
        return False
    for k in range(n):
        h[support[k]] += d[k]
        if d[k] != y[k]:
            h[support[k]] = 0.0
    return True


@_borrowing
def _drop_zeros(work: Work, h: Array, n: int, done: int) -> tuple[int, int, int]:
    """Take every atom at zero off the support: ties bring several there at once.

    Returns how many are left, how many rows of the factor hold, and how many of what was solved
    with it.  The factor could take the latter along, but not from a nearly dependent atom, whose
    solution is so large that little is left of the others in its rounding.
    """
    support = work[1]
    kept, solved = 0, done
    for k in range(n):
        if h[support[k]] == 0.0:
            if kept < done:
                without_row(work[2], work[0][3], kept, done)
                done -= 1
                solved = min(solved, kept)
        else:
            support[kept] = support[k]
            kept += 1
    return kept, done, solved


@_borrowing
def _direction(G: Array, work: Work, c: Array, a: Array, h: Array, n: int, done: int) -> float:
    """Write the step to take on the support into ``y``; return how far it may go.

    Where the atoms are independent: the step to the minimiser with the signs held, of length 1.
    Where atom ``done`` depends on those before it: the null vector of ``G_AA``, along which the
    objective is linear, down to the first sign change.  Its slope has a part of the fit: between
    nearly dependent atoms that is of the size of the penalty's, and decides which of them stays.
    """
    y, row, inverse = work[0][1], work[0][2], work[0][3]
    support, factor = work[1], work[2]
    if done == n:
        for k in range(n):
            y[k] = work[0][4][k]
        solve_upper(factor, inverse, y, n)
        for k in range(n):
            y[k] -= h[support[k]]
        return 1.0
    for k in range(done):
        y[k] = -factor[done, k]
    solve_upper(factor, inverse, y, done)
    y[done] = 1.0
    for k in range(done + 1, n):
        y[k] = 0.0
    slope = 0.0
    for k in range(done + 1):
        j = support[k]
        q = c[j]
        gather(G, j, support, n, row)
        for m in range(n):
            q -= row[m] * h[support[m]]
        slope += (a[j] * np.sign(h[j]) - 2.0 * q) * y[k]
    if slope > 0.0:
        for k in range(done + 1):
            y[k] = -y[k]
    return np.inf


@_borrowing
def _duality_gap(
    energy: float, c: Array, a: Array, h: Array, q: Array, support: Ints, n: int
) -> tuple[float, float]:
    """Primal value and duality gap of ``||x - D h||^2 + sum_j a_j |h_j|``.

    The dual is ``max u.x - ||u||^2 / 4`` over ``|D_j.u| <= a_j``; ``u = 2 theta r`` with the
    largest feasible ``theta <= 1``.  ``q = D^T r``, ``r.x = ||x||^2 - c.h``.
    """
    rx, rr, l1 = energy, energy, 0.0
    theta = 1.0
    for k in range(n):
        j = support[k]
        rx -= c[j] * h[j]
        rr -= (c[j] + q[j]) * h[j]
        l1 += a[j] * abs(h[j])
    for j in range(q.size):
        if 2.0 * abs(q[j]) * theta > a[j]:
            theta = a[j] / (2.0 * abs(q[j]))
    rr = max(rr, 0.0)
    primal = rr + l1
    dual = 2.0 * theta * rx - theta * theta * rr
    return primal, max(primal - dual, 0.0)
