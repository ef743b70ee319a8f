"""Sparse coding of signals on a fixed dictionary: the lasso, solved exactly.

For every signal ``x``: minimise ``||x - D h||^2 + sum_j a_j |h_j|`` over ``h``, or over ``h >= 0``,
on the entries of ``x`` that were observed.

The dictionary of heat atoms is so coherent that coordinate descent and proximal steps crawl.  The
compiled core (``src/native/lasso.hpp``) keeps the support small and independent and solves for the
minimiser on it by Cholesky.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from heatgraph.arrays import Array, Mask
from heatgraph.kernels import native
from heatgraph.solvers.threads import run_threads


@dataclass(frozen=True)
class Coding:
    """Codes ``h`` (M, K), one row per signal, with the value and duality gap each row reached."""

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
    observed: Mask | None = None,
    n_threads: int = 1,
    positive: bool = False,
) -> Coding:
    """Solve the lasso of every signal to a duality gap of ``tol`` times its energy.

    Parameters
    ----------
    G : (K, K) Gram matrix ``D^T D``.
    C : (M, K) correlations ``D^T x`` of the observed entries, one row per signal.
    a : (K,) penalty of each atom, or (M, K) where it differs between signals.
    energy : (M,) squared norm of the observed entries.
    start : (M, K) codes to start from; not written to.
    tol : relative duality gap.
    D, observed : (N, K) dictionary and (M, N) mask, where entries are missing.
    n_threads : signals are independent, so any number of threads gives the same bits.
    positive : whether codes are held at ``h >= 0``; negative ones of ``start`` are taken for zero.
    """
    h = np.array(start, dtype=np.float64, order="C")
    if positive:
        np.maximum(h, 0.0, out=h)
    if observed is None:
        D, observed = np.empty((0, h.shape[1])), np.empty((len(h), 0), dtype=np.bool_)
    elif D is None:
        raise ValueError("D is needed to code signals with missing entries.")
    G, C, D, a, energy = (np.ascontiguousarray(x, dtype=np.float64) for x in (G, C, D, a, energy))
    a = np.atleast_2d(a)
    report = np.empty((len(h), 2))

    def run(rows: slice) -> None:
        bounds = a if len(a) == 1 else a[rows]
        part = C[rows], bounds, energy[rows], tol, positive, D, observed[rows]
        native.lasso(G, *part, h[rows], report[rows])

    n_chunks = min(n_threads, len(h))
    if n_chunks <= 1:
        run(slice(None))
    else:
        ends = [k * len(h) // n_chunks for k in range(n_chunks + 1)]
        run_threads(run, [slice(*both) for both in pairwise(ends)], n_chunks)
    return Coding(h, report[:, 0], report[:, 1])
