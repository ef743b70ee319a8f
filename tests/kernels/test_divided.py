"""Divided differences of exponentials against long doubles and scipy's Frechet derivative."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm_frechet

from heatgraph.kernels.spectral import exp_divided_differences


def in_long_double(lam, t):
    """The quotient as it is written; at ties, and near them, the series of ``expm1``."""
    lam = np.asarray(lam, dtype=np.longdouble)
    apart = lam[:, None] - lam[None, :]
    near = np.abs(t * apart) < 1e-3
    series = sum((-t * apart) ** k / np.prod(np.arange(1.0, k + 2)) for k in range(8))
    quotient = (np.exp(-t * lam)[:, None] - np.exp(-t * lam)[None, :]) / np.where(near, 1, apart)
    return np.where(near, -t * np.exp(-t * lam)[None, :] * series, quotient).astype(float)


@pytest.mark.parametrize("t", [1e-8, 0.3, 2.0, 50.0])
def test_equal_to_long_doubles(rng, t):
    lam = np.sort(rng.uniform(0.0, 4.0, 12))
    lam[3] = lam[2]  # a tie
    lam[5] = lam[4] * (1.0 + 1e-15)  # nearly one
    lam[7] = lam[6] + 1e-7
    np.testing.assert_allclose(exp_divided_differences(lam, t), in_long_double(lam, t), rtol=1e-13)


@pytest.mark.parametrize("t", [0.1, 1.0, 5.0])
def test_gives_the_derivative_of_the_heat_kernel(rng, t):
    """``d exp(-t L) = U (F o U^T dL U) U^T``."""
    L, dL = (A + A.T for A in rng.normal(size=(2, 6, 6)))
    L = L @ L / 10.0
    lam, U = np.linalg.eigh(L)
    found = U @ (exp_divided_differences(lam, t) * (U.T @ dL @ U)) @ U.T
    expected = expm_frechet(-t * L, -t * dL, compute_expm=False)
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max() + 1e-14)


def test_all_tied():
    F = exp_divided_differences(np.full(4, 0.7), 3.0)
    np.testing.assert_allclose(F, -3.0 * np.exp(-2.1), rtol=1e-15)


@pytest.mark.filterwarnings("error")
@given(
    st.lists(st.floats(0.0, 1e3), min_size=1, max_size=6),
    st.floats(1e-6, 1e3),
)
def test_finite_symmetric_and_bounded_by_the_slopes(lam, t):
    """A divided difference is a slope somewhere between: exponents up to 10^6 are no matter."""
    lam = np.array(lam)
    F = exp_divided_differences(lam, t)
    slope = -t * np.exp(-t * lam)
    assert np.array_equal(F, F.T)
    assert (np.minimum(slope[:, None], slope[None, :]) * (1.0 + 1e-12) <= F).all()
    assert (np.maximum(slope[:, None], slope[None, :]) * (1.0 - 1e-12) >= F).all()


def test_far_apart():
    """``t lam`` of 1000: the kernel has vanished, its divided difference to 0 has not."""
    F = exp_divided_differences(np.array([0.0, 1000.0]), 1.0)
    np.testing.assert_allclose(F, [[-1.0, -1e-3], [-1e-3, 0.0]], rtol=1e-15)
