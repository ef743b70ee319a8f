"""Divided differences of exponentials: how a heat kernel changes with its Laplacian."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["exp_divided_differences"]

Array = NDArray[np.float64]


def exp_divided_differences(lam: Array, t: float) -> Array:
    """``(exp(-t lam_k) - exp(-t lam_l)) / (lam_k - lam_l)`` (N, N), ``-t exp(-t lam_k)`` at ties.

    With ``d = t |lam_k - lam_l|`` this is ``-t exp(-t min(lam_k, lam_l)) (1 - exp(-d)) / d``, in
    which nothing overflows and no difference of close numbers is taken.

    Examples
    --------
    >>> exp_divided_differences(np.array([0.0, 0.0, 1.0]), 2.0).round(4)
    array([[-2.    , -2.    , -0.8647],
           [-2.    , -2.    , -0.8647],
           [-0.8647, -0.8647, -0.2707]])
    """
    d = t * np.abs(lam[:, None] - lam[None, :])
    apart = d > 0.0
    quotient = np.ones_like(d)
    np.divide(-np.expm1(-d), d, out=quotient, where=apart)
    differences: Array = -t * np.exp(-t * np.minimum(lam[:, None], lam[None, :])) * quotient
    return differences
