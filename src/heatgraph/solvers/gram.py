"""How compiled code reaches into a Gram matrix, whole or sparse, without knowing which it is.

Whole: ``(G, known, D)``, the matrix, which of its rows are there, and the atoms to make the others
from.  Sparse: ``(indptr, rows, values, pair, lent)``, the atoms of a node side by side (atom
``node * S + s``); ``rows[indptr[i]:indptr[i + 1]]`` are the nodes near node ``i``, ascending,
``values`` (n, P) one entry for each pair of scales, ``pair`` (S, S) which that is, and ``lent`` a
vector of zeros as long as the codes, to work on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

__all__ = ["FASTMATH", "Gram", "SparseGram", "WholeGram", "diagonal", "gather", "know", "subtract"]

Array = NDArray[np.float64]
Ints = NDArray[np.intp]

WholeGram = tuple[Array, NDArray[np.bool_], Array]
SparseGram = tuple[NDArray[np.int64], NDArray[np.int32], Array, Ints, Array]
Gram = WholeGram | SparseGram

# Sums may be reordered so that they vectorise: the same bits on every run, not the same as NumPy's.
FASTMATH = {"reassoc", "contract", "nsz"}
WHOLE = 3  # the length of the tuple tells the forms apart


def know(gram: Gram, j: int) -> None:
    """Make sure that row ``j`` is there."""
    raise NotImplementedError("known only to compiled code")


def subtract(gram: Gram, j: int, step: float, q: Array) -> None:
    """``q -= step G_j``."""
    raise NotImplementedError("known only to compiled code")


def gather(gram: Gram, j: int, support: Ints, n: int, out: Array) -> None:
    """``out[k] = G[j, support[k]]`` for the first ``n`` of the support."""
    raise NotImplementedError("known only to compiled code")


def diagonal(gram: Gram, j: int) -> float:
    """``G_jj``."""
    raise NotImplementedError("known only to compiled code")


def _of_either(function: Any, whole: Any, sparse: Any) -> None:
    """Compile a function for the form that it is called with."""

    # Unannotated: the compiler wants the same signatures as those of the forms.
    def choose_two(gram, j):  # type: ignore[no-untyped-def]
        return whole if len(gram) == WHOLE else sparse

    def choose_four(gram, j, step, q):  # type: ignore[no-untyped-def]
        return whole if len(gram) == WHOLE else sparse

    def choose_five(gram, j, support, n, out):  # type: ignore[no-untyped-def]
        return whole if len(gram) == WHOLE else sparse

    choices: dict[int, Any] = {2: choose_two, 4: choose_four, 5: choose_five}
    choose = choices[function.__code__.co_argcount]
    overload(function, jit_options={"fastmath": FASTMATH})(choose)


def _know_whole(gram, j):  # type: ignore[no-untyped-def]
    G, known, D = gram
    if not known[j]:
        G[j] = np.ascontiguousarray(D[:, j]) @ D
        known[j] = True


def _know_sparse(gram, j):  # type: ignore[no-untyped-def]
    pass


def _subtract_whole(gram, j, step, q):  # type: ignore[no-untyped-def]
    G = gram[0]
    for i in range(q.size):
        q[i] -= step * G[j, i]


def _subtract_sparse(gram, j, step, q):  # type: ignore[no-untyped-def]
    indptr, rows, values, pair, _ = gram
    S = pair.shape[0]
    i, s = j // S, j % S
    for p in range(indptr[i], indptr[i + 1]):
        k = rows[p] * S
        for t in range(S):
            q[k + t] -= step * values[p, pair[s, t]]


def _gather_whole(gram, j, support, n, out):  # type: ignore[no-untyped-def]
    G = gram[0]
    for k in range(n):
        out[k] = G[j, support[k]]


def _gather_sparse(gram, j, support, n, out):  # type: ignore[no-untyped-def]
    indptr, rows, values, pair, lent = gram
    S = pair.shape[0]
    i, s = j // S, j % S
    for p in range(indptr[i], indptr[i + 1]):
        k = rows[p] * S
        for t in range(S):
            lent[k + t] = values[p, pair[s, t]]
    for k in range(n):
        out[k] = lent[support[k]]
    for p in range(indptr[i], indptr[i + 1]):
        k = rows[p] * S
        for t in range(S):
            lent[k + t] = 0.0


def _diagonal_whole(gram, j):  # type: ignore[no-untyped-def]
    return gram[0][j, j]


def _diagonal_sparse(gram, j):  # type: ignore[no-untyped-def]
    indptr, rows, values, pair, _ = gram
    S = pair.shape[0]
    i, s = j // S, j % S
    first, last = indptr[i], indptr[i + 1]
    return values[first + np.searchsorted(rows[first:last], i), pair[s, s]]


_of_either(know, _know_whole, _know_sparse)
_of_either(subtract, _subtract_whole, _subtract_sparse)
_of_either(gather, _gather_whole, _gather_sparse)
_of_either(diagonal, _diagonal_whole, _diagonal_sparse)
