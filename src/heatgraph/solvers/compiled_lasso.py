"""Sparse coding of signals on a fixed dictionary: the lasso, solved exactly.

For every signal ``x``: minimise ``||x - D h||^2 + sum_j a_j |h_j|`` over ``h``, or over ``h >= 0``,
on the entries of ``x`` that were observed.  All work is on the Gram matrix ``G = D^T D`` and the
correlations ``q = D^T (x - D h)``; the residual itself is never formed.

The dictionary of heat atoms is so coherent that coordinate descent and proximal steps crawl.
Here the support is kept small and independent, the minimiser on it is solved for by Cholesky,
and atoms enter only where their correlation exceeds its bound by the most; a warm start whose
support is right costs one small solve.
"""

from __future__ import annotations

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
    magnitude,
    minus_scaled,
    plus_scaled,
)
from heatgraph.solvers.active_set import Work, correlate, descend_on_support
from heatgraph.solvers.gram import (
    FASTMATH,
    Gram,
    compiled_with,
    gather,
    know,
    subtract,
)

__all__ = ["code_one", "work_for"]

Array = NDArray[np.float64]
Ints = NDArray[np.intp]

ENTRY_SHARE = 0.3  # atoms enter together where their excess is at least this share of the largest
FEW = 4  # atoms by which codes to start from are judged
FAR = 5.0  # times its bound: a correlation of codes of which few will stay
WEAK = 0.2  # of the strongest code: a weaker one is not worth to start from, where few will stay
NEWTON_MAX = 400  # a larger support is swept by coordinates: its factor would cost more
MAX_ROUNDS = 1000
GAP_WORTH = 0.1  # the duality gap is computed once no correlation exceeds its bound by more
ROUNDING = 1e-14  # an excess this small, relative to the correlations, is rounding
NEARLY_HALF = 0.5 - 1e-12  # of a bound: what rounding may take for within it is looked at
MAX_IDLE = 10  # rounds that do not lower the value: nearly dependent atoms taking turns

_compiled = numba.njit(cache=True, nogil=True, fastmath=FASTMATH)


_borrowing = compiled_with(nrt=False)
# Part of whatever calls it, and in the order in which it is written: compiled on its own besides,
# sums could be taken in another, and which of the two is run depends on what was in the cache.
_inside = compiled_with(nrt=False, fastmath={"contract", "nsz"}, inside=True)
# A largest value is found several at a time only where none can be NaN.
_comparing = compiled_with(nrt=False, fastmath=FASTMATH | {"nnan"})


@_compiled
def work_for(K: int) -> Work:
    """Room to code a signal with ``K`` atoms in, to be used for one after the other."""
    cap = min(K, NEWTON_MAX)
    # Few arrays: compiled code hands each from function to function by its seven parts.
    return np.empty((5, K)), np.empty(K, np.intp), np.empty((cap, cap))


@_borrowing
def code_one(
    gram: Gram,
    work: Work,
    c: Array,
    a: Array,
    energy: float,
    h: Array,
    tol: float,
    positive: bool,
) -> tuple[float, float]:
    """Code one signal, from ``h`` and in place; the value and the duality gap that it ends with.

    Where ``positive``, ``h >= 0`` on entry.  Atoms keep their sign while they are on the support,
    so that it is enough to let none enter with a negative one.
    """
    q, support, factor = work[0][0], work[1], work[2]
    n = _list_support(h, support)
    known = gram[1]
    for k in range(n):
        if not known[support[k]]:
            know(gram, support[k])
    if n > FEW and _is_far(gram, work, c, a, h, n):
        n = _keep_strongest(h, support, n)
    if n > factor.shape[0]:
        correlate(gram, c, h, q, support, n)
    done, best, idle = 0, np.inf, 0
    widest, negligible = 0.5 * _largest(a), ROUNDING * _largest(c)
    for _ in range(MAX_ROUNDS):
        solved = n <= factor.shape[0]
        if solved:
            n, done = descend_on_support(gram, work, c, a, h, n, done)
        else:
            for j in range(h.size):
                _update(gram, a, h, q, j, positive)
            n, done = _list_support(h, support), 0
        worst = _largest_excess(a, q, positive)
        if worst <= max(GAP_WORTH * widest, negligible):
            value, gap = _duality_gap(energy, c, a, h, q, support, n, positive)
            idle = 0 if value < best else idle + 1
            best = min(best, value)
            # With nothing to enter, a support that was solved is the answer; a swept one not yet.
            if gap <= tol * energy or idle >= MAX_IDLE or (solved and worst <= negligible):
                return value, gap
        n = _activate(gram, a, h, q, support, n, worst, positive)
    return _duality_gap(energy, c, a, h, q, support, n, positive)


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
    n, W = 0, lanes(h.dtype)
    for start in range(0, h.size, W):
        if start + W <= h.size and above(load(h, start), fill(0.0)) == 0:
            continue
        for j in range(start, min(start + W, h.size)):
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
def _pull(q: float, positive: bool) -> float:
    """The part of a correlation that asks for a code: either sign, or the positive one only."""
    return q if positive else abs(q)


@_borrowing
def _update(gram: Gram, a: Array, h: Array, q: Array, j: int, positive: bool) -> None:
    """Minimise exactly over atom ``j``: soft threshold of ``q_j + G_jj h_j`` at ``a_j / 2``."""
    if h[j] == 0.0 and _pull(q[j], positive) <= 0.5 * a[j]:
        return
    if not gram[1][j]:
        know(gram, j)
    d = gram[0][j, j]
    if d <= 0.0:
        return
    z = q[j] + d * h[j]
    size = max(_pull(z, positive) - 0.5 * a[j], 0.0) / d
    step = (size if z > 0.0 else -size) - h[j]
    if step != 0.0:
        h[j] += step
        subtract(gram, j, step, q)


@_comparing
def _largest_excess(a: Array, q: Array, positive: bool) -> float:
    """How far the correlations leave [-a/2, a/2]; on the support they are at its ends.

    Where codes are ``positive`` they may be as negative as they like.
    """
    W, several = lanes(q.dtype), fill(0.0)
    for j in range(0, q.size - W + 1, W):
        pull = load(q, j) if positive else magnitude(load(q, j))
        several = larger(several, minus_scaled(pull, 0.5, load(a, j)))
    most: float = largest(several)
    for j in range(q.size // W * W, q.size):
        most = max(most, _pull(q[j], positive) - 0.5 * a[j])
    return most


@_borrowing
def _activate(
    gram: Gram,
    a: Array,
    h: Array,
    q: Array,
    support: Ints,
    n: int,
    worst: float,
    positive: bool,
) -> int:
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
            if _pull(q[j], positive) - 0.5 * a[j] >= share and h[j] == 0.0:
                _update(gram, a, h, q, j, positive)
                if h[j] != 0.0:
                    support[n] = j
                    n += 1
    return n


@_borrowing
def _duality_gap(
    energy: float,
    c: Array,
    a: Array,
    h: Array,
    q: Array,
    support: Ints,
    n: int,
    positive: bool,
) -> tuple[float, float]:
    """Primal value and duality gap of ``||x - D h||^2 + sum_j a_j |h_j|``.

    The dual is ``max u.x - ||u||^2 / 4`` over ``|D_j.u| <= a_j``, or over ``D_j.u <= a_j`` where
    codes are ``positive``; ``u = 2 theta r`` with the largest feasible ``theta <= 1``.
    ``q = D^T r``, ``r.x = ||x||^2 - c.h``.
    """
    rx, rr, l1 = energy, energy, 0.0
    theta = 1.0
    for k in range(n):
        j = support[k]
        rx -= c[j] * h[j]
        rr -= (c[j] + q[j]) * h[j]
        l1 += a[j] * abs(h[j])
    W = lanes(q.dtype)
    for start in range(0, q.size, W):
        # Most correlations are far within their bounds.
        if start + W <= q.size:
            bar = plus_scaled(fill(0.0), NEARLY_HALF / theta, load(a, start))
            if above(load(q, start), bar) == 0:
                continue
        for j in range(start, min(start + W, q.size)):
            pull = _pull(q[j], positive)
            if 2.0 * pull * theta > a[j]:
                theta = a[j] / (2.0 * pull)
    rr = max(rr, 0.0)
    primal = rr + l1
    dual = 2.0 * theta * rx - theta * theta * rr
    return primal, max(primal - dual, 0.0)
