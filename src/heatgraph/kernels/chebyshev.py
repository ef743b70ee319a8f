"""The heat kernel without ever forming it: Chebyshev polynomials of a sparse Laplacian.

With the spectrum of ``L`` in ``[0, 2a]`` and ``A = L / a - I``, ``exp(-t L)`` is
``sum_k c_k(t) T_k(A)`` to a tolerance that fixes the degree beforehand.  Everything here is exact
for that polynomial: applied to sources of several scales at once (Clenshaw), applied to residuals
(the three-term recurrence, which is its adjoint), and differentiated in the edge weights.

Columns come in blocks of `WIDTH`, an array ``(N, WIDTH)`` each, so that the inner loops are vector
code of a length known to the compiler.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.special import ive

__all__ = [
    "WIDTH",
    "Operator",
    "Polynomial",
    "adjoint",
    "bilinear_gradient",
    "clenshaw",
    "gradient_factors",
    "heat_polynomial",
    "spectral_bound",
]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Block = NDArray[Any]  # float64 or float32

WIDTH = 32
LOWEST_DEGREE = 2
MAX_DEGREE = 20_000

# Sums may be reordered so that they vectorise: the same bits on every run.
_compiled = numba.njit(cache=True, nogil=True, fastmath=True)


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


@_compiled
def _times_row(A: Operator, X: Block, i: int, out: Block) -> None:
    """``out = (A X)_i``; four neighbours at a time, so that ``out`` stays in registers."""
    d = A.diagonal[i]
    for b in range(WIDTH):
        out[b] = d * X[i, b]
    p, end = A.indptr[i], A.indptr[i + 1]
    while p + 4 <= end:
        j0, j1 = A.indices[p], A.indices[p + 1]
        j2, j3 = A.indices[p + 2], A.indices[p + 3]
        v0, v1, v2, v3 = A.values[p], A.values[p + 1], A.values[p + 2], A.values[p + 3]
        for b in range(WIDTH):
            out[b] += v0 * X[j0, b] + v1 * X[j1, b] + v2 * X[j2, b] + v3 * X[j3, b]
        p += 4
    while p < end:
        j0, v0 = A.indices[p], A.values[p]
        for b in range(WIDTH):
            out[b] += v0 * X[j0, b]
        p += 1


@_compiled
def clenshaw(A: Operator, c: Block, H: Block, B: Block, Y: Block) -> None:
    """``Y = sum_s p_s(L) H_s`` of sources ``H`` (S, N, W), one recurrence for all scales.

    ``B_k = sum_s c_ks H_s + 2 A B_{k+1} - B_{k+2}``, kept in ``B`` (K + 1, N, W) for the gradient.
    """
    K, S, N = c.shape[0] - 1, H.shape[0], Y.shape[0]
    row = np.empty(WIDTH, H.dtype)
    two = row.dtype.type(2.0)
    for k in range(K, -1, -1):
        out = B[k] if k > 0 else Y
        for i in range(N):
            if k == K:
                for b in range(WIDTH):
                    row[b] = 0
            else:
                _times_row(A, B[k + 1], i, row)
                if k > 0:
                    for b in range(WIDTH):
                        row[b] *= two
            for s in range(S):
                weight = c[k, s]
                for b in range(WIDTH):
                    row[b] += weight * H[s, i, b]
            if k + 2 <= K:
                for b in range(WIDTH):
                    out[i, b] = row[b] - B[k + 2, i, b]
            else:
                for b in range(WIDTH):
                    out[i, b] = row[b]


@_compiled
def _ascend(A: Operator, k: int, V: Block) -> None:
    """``V[k % 3] = T_k R`` from the two before it, ``V`` (3, N, W) turning."""
    X, before, out = V[(k - 1) % 3], V[(k - 2) % 3], V[k % 3]
    row = np.empty(WIDTH, V.dtype)
    for i in range(X.shape[0]):
        _times_row(A, X, i, row)
        if k == 1:
            for b in range(WIDTH):
                out[i, b] = row[b]
        else:
            for b in range(WIDTH):
                out[i, b] = row[b] + row[b] - before[i, b]


@_compiled
def adjoint(A: Operator, c: Block, R: Block, V: Block, Q: Block) -> None:
    """``Q_s = p_s(L) R`` (S, N, W): the same operator, which is its own adjoint, on one block."""
    K, S, N = c.shape[0] - 1, Q.shape[0], R.shape[0]
    V[0] = R
    for k in range(K + 1):
        if k > 0:
            _ascend(A, k, V)
        X = V[k % 3]
        for s in range(S):
            weight = c[k, s]
            for i in range(N):
                if k == 0:
                    for b in range(WIDTH):
                        Q[s, i, b] = weight * X[i, b]
                else:
                    for b in range(WIDTH):
                        Q[s, i, b] += weight * X[i, b]


@_compiled
def _edge_sums(
    indptr: Ints, ends: NDArray[np.int32], edge: Ints, B: Block, V: Block, f: float, g: Array
) -> None:
    """``g_e += f <B_i - B_j, V_i - V_j>`` over the candidate edges, listed by their first node."""
    width = B.shape[1]  # a length the compiler knows would be unrolled instead of vectorised
    for i in range(indptr.size - 1):
        for p in range(indptr[i], indptr[i + 1]):
            j = ends[p]
            total = 0.0
            for b in range(width):
                total += (B[i, b] - B[j, b]) * (V[i, b] - V[j, b])
            g[edge[p]] += f * total


@_compiled
def bilinear_gradient(
    A: Operator,
    K: int,
    edges: tuple[Ints, NDArray[np.int32], Ints],
    B: Block,
    R: Block,
    V: Block,
    factor: float,
    g: Array,
    H: Block,
    moments: Array,
) -> None:
    """Add ``factor`` times the gradient in ``w`` of ``<R, sum_s p_s(L(w)) H_s>`` to ``g`` (E,).

    ``(1 / a) sum_k f_k <B_k[i] - B_k[j], T_{k-1} R [i] - T_{k-1} R [j]>`` for the edge (i, j), with
    ``B`` as `clenshaw` left it, ``f_1 = 1`` and 2 for the others.  ``moments[k, s]`` grows by
    ``<T_k R, H_s>``: what the gradient in the scales is made of.
    """
    V[0] = R
    S, N = moments.shape[1], R.shape[0]
    for k in range(K + 1 if S > 0 else K):
        if k > 0:
            _ascend(A, k, V)
        X = V[k % 3]
        for s in range(S):
            total = 0.0
            for i in range(N):
                for b in range(WIDTH):
                    total += X[i, b] * H[s, i, b]
            moments[k, s] += total
        if k < K:
            f = factor * A.inverse * (1.0 if k == 0 else 2.0)
            _edge_sums(edges[0], edges[1], edges[2], B[k + 1], X, f, g)
