"""How compiled code reaches into a Gram matrix whose rows are made as they are needed.

``(G, known, D)``: the matrix, which of its rows are there, and the atoms to make the others from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["FASTMATH", "Gram", "compiled_with", "gather", "know", "subtract"]

Array = NDArray[np.float64]
Ints = NDArray[np.intp]
F = TypeVar("F", bound=Callable[..., Any])

Gram = tuple[Array, NDArray[np.bool_], Array]

# Sums may be reordered so that they vectorise: the same bits on every run, not the same as NumPy's.
FASTMATH = {"reassoc", "contract", "nsz"}


def compiled_with(
    nrt: bool, fastmath: set[str] = FASTMATH, inside: bool = False
) -> Callable[[F], F]:
    """Compile with or without counting who holds an array; ``inside`` whatever calls it.

    What codes one signal works on arrays that others hold, and allocates nothing: it need not
    count, which on supports of ten atoms takes longer than the algebra.
    """
    options: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": nrt, "forceinline": inside}
    # To look for a division by zero before each one is a branch more.
    return numba.njit(fastmath=fastmath, error_model="numpy", **options)  # type: ignore[no-any-return]


_borrowing, _holding = compiled_with(nrt=False), compiled_with(nrt=True)


@_holding
def know(gram: Gram, j: int) -> None:
    """Make sure that row ``j`` is there."""
    G, known, D = gram
    if not known[j]:
        G[j] = np.ascontiguousarray(D[:, j]) @ D
        known[j] = True


@_borrowing
def subtract(gram: Gram, j: int, step: float, q: Array) -> None:
    """``q -= step G_j``."""
    G = gram[0]
    for i in range(q.size):
        q[i] -= step * G[j, i]


@_borrowing
def gather(G: Array, j: int, support: Ints, n: int, out: Array) -> None:
    """``out[k] = G[j, support[k]]`` for the first ``n`` of the support."""
    for k in range(n):
        out[k] = G[j, support[k]]
