"""Functions of a sparse Laplacian as Chebyshev series, and their derivatives in the edge weights.

With the spectrum of ``L`` in ``[0, 2a]`` and ``A = L / a - I``, a smooth ``g(L)`` is
``sum_k c_k T_k(A)``.  Coefficients interpolate ``g`` at the Chebyshev nodes ``x`` (n,) and are
linear in the values of ``g`` there: the series of a derivative in a parameter is the derivative of
the series.

``d tr(g(L) S) / dL`` needs the divided differences of ``g``, a smooth function of two variables of
low numerical rank: ``(g(x) - g(y)) / (x - y) = sum_r s_r q_r(x) q_r(y)`` with ``s_r = 1 or -1``.
For ``S = X^T X`` the slope in the weight of the edge (i, j) is then

    (1 / a) sum_r s_r || (q_r(A) X)[i] - (q_r(A) X)[j] ||^2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.fft import dct

from heatgraph.arrays import Array
from heatgraph.kernels.native import TERMS

MOST_TERMS = 2048  # a series that needs more is cut there
CHECKED_BETWEEN = 3  # points between two nodes at which the error of a series is looked at
FACTOR_TOL = 1e-6  # of the largest factor: smaller ones are left out


def chebyshev_nodes(n: int) -> Array:
    """``cos(pi (j + 1/2) / n)``, j = 0, ..., n - 1."""
    return np.cos(np.pi * (np.arange(n) + 0.5) / n)


def interpolate(values: Array) -> Array:
    """Coefficients (n, ...) of the polynomial through ``values`` (n, ...) at the nodes.

    Examples
    --------
    >>> x = chebyshev_nodes(4)
    >>> interpolate(2.0 * x**2 - 1.0).round(12) + 0.0  # T_2
    array([0., 0., 1., 0.])
    """
    coefficients: Array = dct(values, type=2, axis=0) / len(values)
    coefficients[0] *= 0.5
    return coefficients


def degree_for(functions: Callable[[Array], Array], tol: float) -> int:
    """The number of terms, a multiple of ``TERMS``, that a family of functions needs.

    ``functions(x)`` (F, n) has a function in each row, scaled so that an error of 1 is an error of
    100%.  The error is looked at between the nodes.
    """
    n = 2 * TERMS
    while n < MOST_TERMS:
        between = chebyshev_nodes((CHECKED_BETWEEN + 1) * n)
        terms = np.cos(np.outer(np.arccos(between), np.arange(n)))
        error = terms @ interpolate(functions(chebyshev_nodes(n)).T) - functions(between).T
        if np.abs(error).max() <= tol:
            return n
        n += max(TERMS, n // 4 // TERMS * TERMS)
    return MOST_TERMS


@dataclass(frozen=True, eq=False)
class QuadraticSeries:
    """``x^T g(L) x`` and its slope: ``c`` (n,), ``factors`` (R, n), ``signs`` (R,)."""

    c: Array
    factors: Array
    signs: Array


def quadratic_series(g: Array, size: Array, tol: float = FACTOR_TOL) -> QuadraticSeries:
    """From the values ``g`` (n,) of a function at the nodes.

    ``size`` (n,) is the energy that is expected of the signals at each node: errors of the factors
    matter in proportion to it; factors below ``tol`` of the largest are left out.
    """
    c = interpolate(g)
    factors, signs = symmetric_factors(_divided_differences(g, c), size, tol)
    return QuadraticSeries(c, factors, signs)


def symmetric_factors(D: Array, size: Array, tol: float = FACTOR_TOL) -> tuple[Array, Array]:
    """``factors`` (R, n) and ``signs`` with ``D_xy = sum_r signs_r q_r(x) q_r(y)`` at the nodes.

    Coefficients of ``q_r``.  What is left out is ``tol`` of the largest, weighted by ``size``.
    """
    root = np.sqrt(size)
    s, U = np.linalg.eigh(root[:, None] * D * root)
    kept = np.abs(s) > tol * np.abs(s).max(initial=0.0)
    values = U[:, kept] * np.sqrt(np.abs(s[kept])) / root[:, None]
    if not kept.any():
        values, s, kept = np.zeros((len(D), 1)), np.ones(1), np.ones(1, dtype=bool)
    return np.ascontiguousarray(interpolate(values).T), np.sign(s[kept])


def _divided_differences(g: Array, c: Array) -> Array:
    """Of the polynomial with values ``g`` and coefficients ``c``, between all nodes."""
    n = g.size
    angle = np.pi * (np.arange(n) + 0.5) / n
    x, k = np.cos(angle), np.arange(n)
    apart = x[:, None] - x[None, :]
    np.fill_diagonal(apart, 1.0)
    D = (g[:, None] - g[None, :]) / apart
    slope_of_T = k[:, None] * np.sin(np.outer(k, angle)) / np.sin(angle)
    np.fill_diagonal(D, c @ slope_of_T)
    return D
