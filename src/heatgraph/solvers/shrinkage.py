"""Sources by accelerated proximal steps: no Gram matrix, for graphs where one would not fit.

Each step diffuses the sources once and the residual once, a block of signals at a time.  It is not
exact, as the active sets of small graphs are; warm starts make up for that as a fit goes on.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from heatgraph.kernels.chebyshev import WIDTH, Operator, adjoint, clenshaw

__all__ = ["shrink"]

Block = NDArray[Any]


@numba.njit(cache=True, nogil=True, fastmath=True)
def shrink(
    A: Operator,
    c: Block,
    X: Block,
    observed: NDArray[np.bool_],
    a: Block,
    H: Block,
    n_steps: int,
    B: Block,
    V: Block,
    R: Block,
    Q: Block,
) -> None:
    """Lower ``||X - sum_s E_s H_s||^2 + sum a |H|`` for every signal of a block, in ``H``.

    FISTA with the step ``1 / (2 S)``: ``D D^T = sum_s exp(-2 tau_s L)`` has the largest eigenvalue
    ``S``.  The momentum of a signal starts anew where it points uphill.  ``observed`` is empty
    where every entry was.  ``B``, ``V``, ``R``, ``Q`` are lent.
    """
    S, N = H.shape[0], H.shape[1]
    step = H.dtype.type(1.0 / S)
    zero = H.dtype.type(0.0)
    old = H.copy()
    Y = np.empty_like(H)
    t = np.ones(WIDTH)
    momentum, uphill = np.empty(WIDTH, H.dtype), np.empty(WIDTH, H.dtype)
    for _ in range(n_steps):
        for b in range(WIDTH):
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t[b] * t[b]))
            momentum[b] = (t[b] - 1.0) / following
            t[b] = following
            uphill[b] = 0.0
        for s in range(S):
            for i in range(N):
                for b in range(WIDTH):
                    Y[s, i, b] = H[s, i, b] + momentum[b] * (H[s, i, b] - old[s, i, b])
        clenshaw(A, c, Y, B, R)
        for i in range(N):
            for b in range(WIDTH):
                R[i, b] = X[i, b] - R[i, b]
        if observed.size > 0:
            for i in range(N):
                for b in range(WIDTH):
                    if not observed[i, b]:
                        R[i, b] = zero
        adjoint(A, c, R, V, Q)
        for s in range(S):
            for i in range(N):
                for b in range(WIDTH):
                    z = Y[s, i, b] + step * Q[s, i, b]
                    bound = H.dtype.type(0.5) * step * a[s, i, b]
                    h = max(z - bound, zero) + min(z + bound, zero)
                    uphill[b] += (Y[s, i, b] - h) * (h - H[s, i, b])
                    old[s, i, b] = H[s, i, b]
                    H[s, i, b] = h
        for b in range(WIDTH):
            if uphill[b] > 0.0:
                t[b] = 1.0
