"""The Cholesky factor of the Gram matrix of a support, continued as atoms enter, cut as they leave.

Both triangles are kept, so that every loop runs along rows, and one over the diagonal.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from heatgraph.kernels.lanes import fill, lanes, load, plus_product, total
from heatgraph.solvers.gram import compiled_with, gather

__all__ = ["continue_factor", "solve_lower", "solve_upper", "without_row"]

Array = NDArray[np.float64]
Ints = NDArray[np.intp]

# A pivot this far below its diagonal marks an atom spanned by the others.  As small as rounding
# lets it be: the step that drops such an atom raises the fit by up to this times its square.
DEPENDENT = 1e-14
COLUMNS = 4  # of a factor that are worked on together

_borrowing = compiled_with(nrt=False)
# Part of whatever calls it, and in the order in which it is written: compiled on its own besides,
# sums could be taken in another, and which of the two is run depends on what was in the cache.
_inside = compiled_with(nrt=False, fastmath={"contract", "nsz"}, inside=True)


@_borrowing
def continue_factor(
    G: Array, support: Ints, factor: Array, inverse: Array, n: int, done: int
) -> int:
    """Continue the Cholesky factor of ``G_AA`` from row ``done``; stop at an unsafe pivot.

    Four columns at a time, whose part is taken out of what is left of each new row together.  Both
    triangles are kept, so that every loop runs along rows.
    """
    for k in range(done, n):
        gather(G, support[k], support, k + 1, factor[k])
    first = 0
    while first + COLUMNS < n:
        for k in range(max(first, done), first + COLUMNS):
            if not _new_row(G, support, factor, inverse, first, k):
                return k
        for k in range(max(first + COLUMNS, done), n):
            _take_out(factor, inverse, first, k)
        first += COLUMNS
    for k in range(max(first, done), n):
        if not _new_row(G, support, factor, inverse, first, k):
            return k
    return n


@_inside
def _new_row(G: Array, support: Ints, factor: Array, inverse: Array, first: int, k: int) -> bool:
    """The last columns, from ``first`` on, of row ``k``; False at an unsafe pivot."""
    pivot = factor[k, k]
    for m in range(first, k):
        x = factor[k, m] * inverse[m]
        factor[k, m] = x
        factor[m, k] = x
        pivot -= x * x
        for p in range(m + 1, k):
            factor[k, p] -= x * factor[m, p]
    if pivot <= DEPENDENT * G[support[k], support[k]]:
        return False
    factor[k, k] = np.sqrt(pivot)
    inverse[k] = 1.0 / factor[k, k]
    return True


@_inside
def _take_out(factor: Array, inverse: Array, first: int, k: int) -> None:
    """The entries of row ``k`` in four columns, and their part taken out of those that follow."""
    second, third, fourth, end = first + 1, first + 2, first + 3, first + COLUMNS
    x0 = factor[k, first] * inverse[first]
    x1 = (factor[k, second] - x0 * factor[first, second]) * inverse[second]
    x2 = factor[k, third] - x0 * factor[first, third] - x1 * factor[second, third]
    x2 *= inverse[third]
    x3 = factor[k, fourth] - x0 * factor[first, fourth] - x1 * factor[second, fourth]
    x3 = (x3 - x2 * factor[third, fourth]) * inverse[fourth]
    factor[k, first] = factor[first, k] = x0
    factor[k, second] = factor[second, k] = x1
    factor[k, third] = factor[third, k] = x2
    factor[k, fourth] = factor[fourth, k] = x3
    if x0 == 0.0 and x1 == 0.0 and x2 == 0.0 and x3 == 0.0:
        return  # atoms far apart do not meet
    # Counted from zero, or the compiler would allow for negative indices every time.
    row = factor[k, end : k + 1]
    c0, c1 = factor[first, end : k + 1], factor[second, end : k + 1]
    c2, c3 = factor[third, end : k + 1], factor[fourth, end : k + 1]
    for p in range(row.size):
        row[p] -= x0 * c0[p] + x1 * c1[p] + x2 * c2[p] + x3 * c3[p]


@_inside
def without_row(factor: Array, inverse: Array, k: int, done: int) -> None:
    """Take row ``k`` out of the factor of the first ``done`` atoms, whose other rows it follows.

    Without that row, the columns from ``k`` on reach one above the diagonal.  Turning each by the
    next one, in the plane of the two, takes that away and leaves their products what they are.
    """
    for m in range(k):
        row = factor[m]
        for p in range(k, done - 1):
            row[p] = row[p + 1]
            factor[p, m] = row[p]
    for m in range(k, done - 1):
        # Columns of the factor are rows of the other triangle.  The next one was not moved yet.
        column, after = factor[m, m + 1 : done], factor[m + 1, m + 1 : done]
        size = math.sqrt(column[0] * column[0] + after[0] * after[0])
        cosine, sine = column[0] / size, after[0] / size
        for p in range(1, column.size):
            turned = cosine * column[p] + sine * after[p]
            after[p] = cosine * after[p] - sine * column[p]
            column[p] = turned
        inverse[m] = 1.0 / size
        factor[m, m] = size
        for p in range(m + 1, done - 1):
            factor[m, p] = factor[m, p + 1]
            factor[p, m] = factor[m, p]


@_inside
def solve_lower(F: Array, inverse: Array, b: Array, first: int, n: int) -> None:
    """Solve with the factor of the first ``n`` atoms, in place, from row ``first`` on."""
    W = lanes(b.dtype)
    for k in range(first, n):
        several, row = fill(0.0), F[k]
        for m in range(0, k - W + 1, W):
            several = plus_product(several, load(row, m), load(b, m))
        x = b[k] - total(several)
        for m in range(k // W * W, k):
            x -= row[m] * b[m]
        b[k] = x * inverse[k]


@_inside
def solve_upper(F: Array, inverse: Array, b: Array, n: int) -> None:
    """Solve with its transpose, in place."""
    for k in range(n - 1, -1, -1):
        x = b[k] * inverse[k]
        b[k] = x
        for m in range(k):
            b[m] -= F[k, m] * x
