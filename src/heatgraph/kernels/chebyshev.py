"""The heat kernel without ever forming it: Chebyshev polynomials of a sparse Laplacian.

With the spectrum of ``L`` in ``[0, 2a]`` and ``A = L / a - I``, ``exp(-t L)`` is
``sum_k c_k(t) T_k(A)`` to a tolerance that fixes the degree beforehand.  Everything here is exact
for that polynomial: applied to sources of several scales at once (Clenshaw), and differentiated in
the edge weights.

Columns come in blocks of `lanes`, W, which the machine works on at once.  The terms of a recurrence
are ``(N, n_terms, W)``: those of one node side by side, as the sums over all terms that the
gradient is made of want them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.special import ive

from heatgraph.kernels.lanes import (
    fill,
    lanes,
    load,
    minus,
    pick,
    plus,
    plus_product,
    plus_scaled,
    store,
    total,
)

__all__ = [
    "Operator",
    "Polynomial",
    "ascend",
    "bilinear_gradient",
    "clenshaw",
    "gradient_factors",
    "heat_polynomial",
    "next_term",
    "spectral_bound",
    "times_row",
]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Block = NDArray[Any]  # float64 or float32

LOWEST_DEGREE = 2
MAX_DEGREE = 20_000

# Sums may be reordered so that they vectorise: the same bits on every run.
_compiled = numba.njit(cache=True, nogil=True, fastmath=True)
_inlined = numba.njit(cache=True, nogil=True, fastmath=True, inline="always")


class Operator(NamedTuple):
    """``A = L / a - I`` row by row, ``diagonal`` (N,) apart from the other entries; and ``1 / a``.

    A named tuple, as compiled code takes it whole.
    """

    indptr: Ints
    indices: NDArray[np.int32]
    values: Block
    diagonal: Block
    inverse: float


@dataclass(frozen=True, eq=False)
class Polynomial:
    """``c`` (K + 1, S): ``exp(-t_s L) = sum_k c_ks T_k(A)``; ``slope`` its derivative in ``t``."""

    c: Array
    slope: Array

    @property
    def degree(self) -> int:
        return len(self.c) - 1

    def shortened(self, tol: float) -> Array:
        """The coefficients up to a degree beyond which those left sum to ``tol`` at most."""
        tail = np.abs(self.c[::-1]).cumsum(axis=0)[::-1].max(axis=1)
        return self.c[: max(LOWEST_DEGREE + 1, int((tail > tol).sum()))]


def heat_polynomial(t: Array, a: float, tol: float) -> Polynomial:
    """The shortest Chebyshev series of ``exp(-t_s a (1 + x))`` whose tail sums to ``tol`` at most.

    ``c_k = 2 (-1)^k I_k(t a) exp(-t a)``, half of that for k = 0.  The derivative in ``t`` is
    ``-a (1 + x)`` times the function, and ``x T_k = (T_{k+1} + T_{|k-1|}) / 2``.
    """
    z = np.asarray(t, dtype=np.float64) * a
    size = 64
    while True:
        k = np.arange(size)
        size_of = 2.0 * ive(k[:, None], z[None, :])
        tail = np.cumsum(size_of[::-1], axis=0)[::-1].max(axis=1)
        if tail[-1] <= 0.01 * tol:
            break
        size *= 2
        if size > MAX_DEGREE:
            raise ValueError(
                f"A scale of {float(np.max(t)):.3g} on a graph whose largest eigenvalue may be "
                f"{2 * a:.3g} needs a polynomial of a degree above {MAX_DEGREE}; pass smaller "
                "scales."
            )
    K = max(LOWEST_DEGREE, int(np.flatnonzero(tail[1:] <= tol)[0]))
    k = np.arange(K + 2)
    c = 2.0 * ive(k[:, None], z[None, :]) * np.where(k % 2, -1.0, 1.0)[:, None]
    c[0] *= 0.5
    beside = 0.5 * c[1:].copy()  # (c_{k-1} + c_{k+1}) / 2, where T_1 also comes from x T_0
    beside[1:] += 0.5 * c[:-2]
    beside[1] += 0.5 * c[0]
    return Polynomial(c[: K + 1].copy(), -a * (c[: K + 1] + beside[: K + 1]))


def spectral_bound(degrees: Array, i: NDArray[np.intp], j: NDArray[np.intp], w: Array) -> float:
    """A bound on the largest eigenvalue of ``L`` from degrees alone, often within 10%.

    The smaller of ``max_ij (d_i + d_j)`` over edges and ``max_i (d_i + sum_j w_ij d_j / d_i)``.
    """
    N = degrees.size
    edges = float((degrees[i] + degrees[j])[w > 0.0].max(initial=0.0))
    around = np.bincount(i, w * degrees[j], N) + np.bincount(j, w * degrees[i], N)
    nodes = degrees + np.divide(around, degrees, out=np.zeros(N), where=degrees > 0.0)
    return min(edges, float(nodes.max(initial=0.0)))


def gradient_factors(c: Array, tol: float) -> tuple[Array, Array]:
    """``u`` (K, r) and ``v`` (S, K, r): the gradient of ``p_s`` as a sum of r products.

    ``(p_s(x) - p_s(y)) / (x - y) = sum_r (sum_k u_kr T_k(x)) (sum_l v_slr T_l(y))``, the first
    factor shared by all scales.  Interpolation at Chebyshev nodes, which is exact for polynomials,
    and a singular value decomposition cut at ``tol``.
    """
    K = len(c) - 1
    angle = np.pi * (np.arange(K + 1) + 0.5) / (K + 1)
    x = np.cos(angle)
    T = np.cos(np.outer(np.arange(K + 1), angle))  # T_k at the nodes
    transform = 2.0 / (K + 1) * T
    transform[0] *= 0.5
    k = np.arange(K + 1)[:, None]
    slope_of_T = k * np.sin(k * angle) / np.sin(angle)
    apart = x[:, None] - x[None, :]
    np.fill_diagonal(apart, 1.0)
    matrices = []
    for coefficients in c.T:
        p = coefficients @ T
        quotient = (p[:, None] - p[None, :]) / apart
        np.fill_diagonal(quotient, coefficients @ slope_of_T)
        matrices.append(transform @ quotient @ transform.T)
    left, size, right = np.linalg.svd(np.hstack(matrices), full_matrices=False)
    r = max(1, int((size > tol * size[0]).sum()))
    v = right[:r].reshape(r, len(matrices), K + 1).transpose(1, 2, 0)
    return left[:, :r] * size[:r], np.ascontiguousarray(v)


# In the compiled code below arrays are flat, and the term ``k`` of row ``i`` is at
# ``(i * n_terms + k) * W``.


@_inlined
def times_row(A: Operator, X: Block, n_terms: int, k: int, i: int) -> Any:
    """``(A X_k)_i`` of the terms ``X``."""
    W, zero = lanes(X.dtype), fill(X.dtype.type(0.0))
    row = plus_scaled(zero, A.diagonal[i], load(X, (i * n_terms + k) * W))
    for p in range(A.indptr[i], A.indptr[i + 1]):
        there = load(X, (pick(A.indices, p) * n_terms + k) * W)
        row = plus_scaled(row, pick(A.values, p), there)
    return row


@_compiled
def clenshaw(A: Operator, c: Block, H: Block, B: Block, near: Block) -> None:
    """``B_0 = sum_s p_s(L) H_s`` of sources ``H`` (S, N, W), one recurrence for all scales.

    ``B_k = sum_s c_ks H_s + 2 A B_{k+1} - B_{k+2}``, with one ``A`` for ``k = 0``; all are kept in
    ``B`` (N, K + 1, W), for the gradient.  ``near`` (N, 2, W) has the last two, close together.
    """
    K, S, N, W = c.shape[0] - 1, H.shape[0], B.shape[0], lanes(B.dtype)
    terms, last, sources = B.reshape(-1), near.reshape(-1), H.reshape(-1)
    zero, one = H.dtype.type(0.0), H.dtype.type(1.0)
    for k in range(K, -1, -1):
        times = one if k == 0 else one + one
        for i in range(N):
            row = fill(zero)
            if k < K:
                row = plus_scaled(row, times, times_row(A, last, 2, (k + 1) % 2, i))
            for s in range(S):
                row = plus_scaled(row, c[k, s], load(sources, (s * N + i) * W))
            if k + 2 <= K:
                row = minus(row, load(last, (2 * i + k % 2) * W))
            store(last, (2 * i + k % 2) * W, row)
            store(terms, (i * (K + 1) + k) * W, row)


@_inlined
def next_term(A: Operator, k: int, terms: Block, i: int) -> Any:
    """``(T_k V_0)_i`` from the two terms before it, (N, 2, W); written over the first of them."""
    W = lanes(terms.dtype)
    row, at = times_row(A, terms, 2, (k - 1) % 2, i), (2 * i + k % 2) * W
    if k > 1:
        row = minus(plus(row, row), load(terms, at))
    store(terms, at, row)
    return row


@_compiled
def ascend(A: Operator, k: int, V: Block) -> None:
    """``V_k = T_k V_0`` from the two terms before it, ``V`` (N, 2, W) turning."""
    terms = V.reshape(-1)
    for i in range(V.shape[0]):
        next_term(A, k, terms, i)


@_compiled
def _edge_sums(
    indptr: Ints, ends: NDArray[np.int32], edge: Ints, B: Block, V: Block, f: float, g: Array
) -> None:
    """``g_e += f sum_k f_k <B_k+1[i] - B_k+1[j], V_k[i] - V_k[j]>`` over the candidate edges.

    They are listed by their first node.  ``f_0 = 1`` and 2 for the others.
    """
    n_terms, W = B.shape[1], lanes(B.dtype)
    left, right = B.reshape(-1), V.reshape(-1)
    zero = B.dtype.type(0.0)
    for i in range(indptr.size - 1):
        here = i * n_terms * W
        for p in range(indptr[i], indptr[i + 1]):
            there = pick(ends, p) * n_terms * W
            b = minus(load(left, here + W), load(left, there + W))
            first = plus_product(fill(zero), b, minus(load(right, here), load(right, there)))
            others = fill(zero)
            for q in range(W, (n_terms - 1) * W, W):
                b = minus(load(left, here + q + W), load(left, there + q + W))
                v = minus(load(right, here + q), load(right, there + q))
                others = plus_product(others, b, v)
            g[edge[p]] += f * total(plus(first, plus(others, others)))


@_compiled
def bilinear_gradient(
    A: Operator,
    edges: tuple[Ints, NDArray[np.int32], Ints],
    B: Block,
    V: Block,
    near: Block,
    factor: float,
    g: Array,
    H: Block,
    moments: Array,
) -> None:
    """Add ``factor`` times the gradient in ``w`` of ``<R, sum_s p_s(L(w)) H_s>`` to ``g`` (E,).

    ``(1 / a) sum_k f_k <B_k[i] - B_k[j], T_{k-1} R [i] - T_{k-1} R [j]>`` for the edge (i, j), with
    ``B`` as `clenshaw` left it, ``f_1 = 1`` and 2 for the others.  ``R`` is the first term of
    ``near`` (N, 2, W); ``V``, as large as ``B``, is to work on.  ``moments[k, s]`` grows by
    ``<T_k R, H_s>``: what the gradient in the scales is made of.
    """
    N, n_terms, W = V.shape[0], V.shape[1], lanes(V.dtype)
    terms, last, sources = V.reshape(-1), near.reshape(-1), H.reshape(-1)
    zero = V.dtype.type(0.0)
    for i in range(N):
        store(terms, i * n_terms * W, load(last, 2 * i * W))
    for k in range(1, n_terms):
        for i in range(N):
            store(terms, (i * n_terms + k) * W, next_term(A, k, last, i))
    for s in range(moments.shape[1]):
        for k in range(n_terms):
            along = fill(zero)
            for i in range(N):
                there = load(sources, (s * N + i) * W)
                along = plus_product(along, load(terms, (i * n_terms + k) * W), there)
            moments[k, s] += total(along)
    _edge_sums(edges[0], edges[1], edges[2], B, V, factor * A.inverse, g)
