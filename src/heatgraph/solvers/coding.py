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

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["Coding", "code"]

Array = NDArray[np.float64]
Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]

DEPENDENT = 1e-11  # a pivot this far below its diagonal marks an atom spanned by the others
NEWTON_MAX = 400  # a larger support is swept by coordinates: its factor would cost more
MAX_ROUNDS = 1000


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
    a : (K,) penalty of each atom.
    energy : (M,) squared norm of the observed entries.
    start : (M, K) codes to start from; not written to.
    tol : relative duality gap.
    D, observed : (N, K) dictionary and (M, N) mask, where entries are missing.
    n_threads : signals are independent, so any number of threads gives the same bits.
    """
    h = np.array(start, dtype=np.float64, order="C")
    report = np.empty((len(h), 2))
    if observed is None:
        D, observed = np.empty((0, 0)), np.empty((len(h), 0), dtype=np.bool_)
    elif D is None:
        raise ValueError("D is needed to code signals with missing entries.")

    def run(rows: slice) -> None:
        _code_rows(G, D, observed[rows], C[rows], a, energy[rows], h[rows], report[rows], tol)

    chunks = [
        slice(b[0], b[-1] + 1)
        for b in np.array_split(np.arange(len(h)), max(1, n_threads))
        if b.size
    ]
    if len(chunks) == 1:
        run(chunks[0])
    else:
        with ThreadPoolExecutor(len(chunks)) as pool:
            list(pool.map(run, chunks))
    return Coding(h, report[:, 0], report[:, 1])


@numba.njit(cache=True, nogil=True)
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
    for m in range(C.shape[0]):
        if np.all(observed[m]):
            no_atoms = np.empty((0, 0))
            known = np.ones(a.size, dtype=np.bool_)
            report[m] = _code_one(G, known, no_atoms, C[m], a, energy[m], h[m], tol)
        else:
            # The Gram matrix of the observed rows alone, filled a row at a time as atoms enter.
            seen = D[observed[m]]
            partial = np.empty_like(G)
            known = np.zeros(a.size, dtype=np.bool_)
            report[m] = _code_one(partial, known, seen, C[m], a, energy[m], h[m], tol)


@numba.njit(cache=True, nogil=True)
def _code_one(
    G: Array, known: Bools, D: Array, c: Array, a: Array, energy: float, h: Array, tol: float
) -> tuple[float, float]:
    for j in np.flatnonzero(h):
        _know(G, known, D, j)
    q = np.empty_like(c)
    _correlate(G, c, h, q)
    value, gap = energy, np.inf
    for _ in range(MAX_ROUNDS):
        if np.count_nonzero(h) <= NEWTON_MAX:
            _descend_on_support(G, c, a, h, q)
        else:
            for j in range(h.size):
                _update(G, known, D, a, h, q, j)
        value, gap = _duality_gap(energy, c, a, h, q)
        if gap <= tol * energy or not _activate(G, known, D, a, h, q):
            break
    return value, gap


@numba.njit(cache=True, nogil=True)
def _know(G: Array, known: Bools, D: Array, j: int) -> None:
    """Make sure that row ``j`` of the Gram matrix is there."""
    if not known[j]:
        G[j] = D[:, j] @ D
        known[j] = True


@numba.njit(cache=True, nogil=True)
def _correlate(G: Array, c: Array, h: Array, q: Array) -> None:
    """``q = c - G h``, afresh; by rows, as G is symmetric and h sparse."""
    q[:] = c
    for j in np.flatnonzero(h):
        for k in range(q.size):
            q[k] -= h[j] * G[j, k]


@numba.njit(cache=True, nogil=True)
def _update(G: Array, known: Bools, D: Array, a: Array, h: Array, q: Array, j: int) -> None:
    """Minimise exactly over atom ``j``: soft threshold of ``q_j + G_jj h_j`` at ``a_j / 2``."""
    if h[j] == 0.0 and abs(q[j]) <= 0.5 * a[j]:
        return
    _know(G, known, D, j)
    if G[j, j] <= 0.0:
        return
    z = q[j] + G[j, j] * h[j]
    size = max(abs(z) - 0.5 * a[j], 0.0) / G[j, j]
    step = (size if z > 0.0 else -size) - h[j]
    if step != 0.0:
        h[j] += step
        for k in range(q.size):
            q[k] -= step * G[j, k]


@numba.njit(cache=True, nogil=True)
def _activate(G: Array, known: Bools, D: Array, a: Array, h: Array, q: Array) -> bool:
    """Bring in the silent atoms whose correlation leaves [-a/2, a/2] by the most.

    Only those within half of the largest excess: each one that enters explains its neighbours,
    and a support of dependent atoms is what makes coding slow.
    """
    worst = 0.0
    for j in range(h.size):
        if h[j] == 0.0:
            worst = max(worst, abs(q[j]) - 0.5 * a[j])
    if worst <= 0.0:
        return False
    for j in range(h.size):
        if h[j] == 0.0 and abs(q[j]) - 0.5 * a[j] >= 0.5 * worst:
            _update(G, known, D, a, h, q, j)
    return True


@numba.njit(cache=True, nogil=True)
def _descend_on_support(G: Array, c: Array, a: Array, h: Array, q: Array) -> None:
    """Minimise exactly over the support with its signs held, dropping atoms that reach zero.

    Along each direction the objective falls as long as no sign changes; the first atom to reach
    zero leaves, and the next direction is taken on what is left.
    """
    support = np.flatnonzero(h)
    A = np.empty((support.size, support.size))
    y = np.empty(support.size)
    while support.size > 0:
        reach = _direction(G, c, a, h, support, A, y)
        leaver = -1
        for k in range(support.size):
            old = h[support[k]]
            if y[k] * old < 0.0 and -old / y[k] <= reach:
                reach, leaver = -old / y[k], k
        if reach == np.inf:
            break
        for k in range(support.size):
            h[support[k]] += reach * y[k]
        if leaver < 0:
            break
        h[support[leaver]] = 0.0
        support = np.flatnonzero(h)
    _correlate(G, c, h, q)


@numba.njit(cache=True, nogil=True)
def _direction(G: Array, c: Array, a: Array, h: Array, support: Ints, A: Array, y: Array) -> float:
    """Write the step to take on the support into ``y``; return how far it may go.

    Where the atoms are independent: the step to the minimiser with the signs held, of length 1.
    Where atom k depends on those before it: the null vector of ``G_AA``, along which the fit
    stands still and the penalty falls, as far as the first sign change.
    """
    n = support.size
    for k in range(n):
        for m in range(k + 1):
            A[k, m] = G[support[k], support[m]]
    bad = _factor(A, n)
    if bad == n:
        for k in range(n):
            j = support[k]
            y[k] = c[j] - 0.5 * a[j] * np.sign(h[j])
        _solve_lower(A, y, n)
        _solve_upper(A, y, n)
        for k in range(n):
            y[k] -= h[support[k]]
        return 1.0
    for k in range(bad):
        y[k] = -A[bad, k]
    _solve_upper(A, y, bad)
    y[bad] = 1.0
    y[bad + 1 : n] = 0.0
    slope = 0.0
    for k in range(n):
        j = support[k]
        slope += a[j] * np.sign(h[j]) * y[k]
    if slope > 0.0:
        for k in range(n):
            y[k] = -y[k]
    return np.inf


@numba.njit(cache=True, nogil=True)
def _factor(A: Array, n: int) -> int:
    """Cholesky of ``A[:n, :n]`` in place, lower; the row of the first unsafe pivot, or n."""
    for k in range(n):
        pivot = A[k, k]
        floor = DEPENDENT * pivot
        for m in range(k):
            A[k, m] -= _dot(A, k, m)
            A[k, m] /= A[m, m]
            pivot -= A[k, m] * A[k, m]
        if pivot <= floor:
            return k
        A[k, k] = np.sqrt(pivot)
    return n


@numba.njit(cache=True, nogil=True)
def _dot(A: Array, k: int, m: int) -> float:
    total = 0.0
    for p in range(m):
        total += A[k, p] * A[m, p]
    return total


@numba.njit(cache=True, nogil=True)
def _solve_lower(A: Array, b: Array, n: int) -> None:
    for k in range(n):
        x = b[k]
        for m in range(k):
            x -= A[k, m] * b[m]
        b[k] = x / A[k, k]


@numba.njit(cache=True, nogil=True)
def _solve_upper(A: Array, b: Array, n: int) -> None:
    for k in range(n - 1, -1, -1):
        b[k] /= A[k, k]
        for m in range(k):
            b[m] -= A[k, m] * b[k]


@numba.njit(cache=True, nogil=True)
def _duality_gap(energy: float, c: Array, a: Array, h: Array, q: Array) -> tuple[float, float]:
    """Primal value and duality gap of ``||x - D h||^2 + sum_j a_j |h_j|``.

    The dual is ``max u.x - ||u||^2 / 4`` over ``|D_j.u| <= a_j``; ``u = 2 theta r`` with the
    largest feasible ``theta <= 1``.  ``q = D^T r``, ``r.x = ||x||^2 - c.h``.
    """
    rx, rr, l1 = energy, energy, 0.0
    theta = 1.0
    for j in range(h.size):
        rx -= c[j] * h[j]
        rr -= (c[j] + q[j]) * h[j]
        l1 += a[j] * abs(h[j])
        if 2.0 * abs(q[j]) * theta > a[j]:
            theta = a[j] / (2.0 * abs(q[j]))
    rr = max(rr, 0.0)
    primal = rr + l1
    dual = 2.0 * theta * rx - theta * theta * rr
    return primal, max(primal - dual, 0.0)
