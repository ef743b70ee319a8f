"""The minimiser of a lasso over a support, with the signs of its atoms held.

Along the way there atoms reach zero and leave; which ones enter is decided elsewhere.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from heatgraph.kernels.lanes import lanes, load, load_row, minus_scaled, store
from heatgraph.solvers.cholesky_update import continue_factor, solve_lower, solve_upper, without_row
from heatgraph.solvers.gram import Gram, compiled_with, gather

__all__ = ["Work", "correlate", "descend_on_support"]

Array = NDArray[np.float64]
Ints = NDArray[np.intp]

# Rows: correlations, a step, a row of the Gram matrix, one over the diagonal of the factor, and
# what the factor was solved for; the support; and the Cholesky factor of its Gram matrix (in both
# triangles).
Work = tuple[Array, Ints, Array]

_borrowing = compiled_with(nrt=False)
# Part of whatever calls it, and in the order in which it is written: compiled on its own besides,
# sums could be taken in another, and which of the two is run depends on what was in the cache.
_inside = compiled_with(nrt=False, fastmath={"contract", "nsz"}, inside=True)


@_borrowing
def descend_on_support(
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
        reach, leaver = _until_zero(h, support, y, n, reach)
        if reach == np.inf:  # where nothing reaches zero it is flat, and as flat the other way
            for k in range(n):
                y[k] = -y[k]
            reach, leaver = _until_zero(h, support, y, n, reach)
        if reach == np.inf:
            break
        if not _advance(h, support, y, n, reach, leaver):
            break
        n, done, solved = _drop_zeros(work, h, n, done)
    correlate(gram, c, h, q, support, n)
    return n, done


@_inside
def _until_zero(h: Array, support: Ints, y: Array, n: int, reach: float) -> tuple[float, int]:
    """How far along ``y`` the first atom reaches zero, and its place; ``reach`` and -1 if none."""
    leaver = -1
    for k in range(n):
        old = h[support[k]]
        until = -old / y[k]
        # Signs are compared, as the product of two tiny numbers is zero.
        inward = ((old > 0.0) & (y[k] < 0.0)) | ((old < 0.0) & (y[k] > 0.0))
        first = inward & (until <= reach)
        reach, leaver = until if first else reach, k if first else leaver
    return reach, leaver


@_inside
def _advance(h: Array, support: Ints, y: Array, n: int, reach: float, leaver: int) -> bool:
    """Go along ``y``; whether an atom is at zero then."""
    zeros = 0
    for k in range(n):
        old = h[support[k]]
        new = old + reach * y[k]
        # Two that reach zero together: rounding must not take the other to the far side.
        stays = ((new > 0.0) == (old > 0.0)) & (new != 0.0) & (k != leaver)
        h[support[k]] = new if stays else 0.0
        zeros += not stays
    return zeros > 0


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


@_inside
def correlate(gram: Gram, c: Array, h: Array, q: Array, support: Ints, n: int) -> None:
    """``q = c - G h``, afresh; by rows, as G is symmetric and h sparse."""
    G, K = gram[0], q.size
    W = lanes(q.dtype)
    for j in range(K):
        q[j] = c[j]
    # Four atoms at a time, along their rows.
    for k in range(0, n // 4 * 4, 4):
        i0, i1, i2, i3 = support[k], support[k + 1], support[k + 2], support[k + 3]
        x0, x1, x2, x3 = h[i0], h[i1], h[i2], h[i3]
        for start in range(0, K - W + 1, W):
            some = minus_scaled(load(q, start), x0, load_row(G, i0, start))
            some = minus_scaled(some, x1, load_row(G, i1, start))
            some = minus_scaled(some, x2, load_row(G, i2, start))
            store(q, start, minus_scaled(some, x3, load_row(G, i3, start)))
    for k in range(n // 4 * 4, n):
        x, i = h[support[k]], support[k]
        for start in range(0, K - W + 1, W):
            store(q, start, minus_scaled(load(q, start), x, load_row(G, i, start)))
    for k in range(n):
        x, row = h[support[k]], G[support[k]]
        for j in range(K // W * W, K):
            q[j] -= x * row[j]
