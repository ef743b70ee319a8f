import numpy as np
import pytest

from heatgraph.kernels.series import (
    chebyshev_nodes,
    degree_for,
    interpolate,
    quadratic_series,
    symmetric_factors,
)


def values_of(c, x):
    return np.cos(np.outer(np.arccos(x), np.arange(len(c)))) @ c


def test_interpolation_reproduces_values_and_polynomials():
    rng = np.random.default_rng(0)
    c = rng.standard_normal(9)
    x = chebyshev_nodes(9)
    np.testing.assert_allclose(interpolate(values_of(c, x)), c, atol=1e-14)


@pytest.mark.parametrize("tol", [1e-4, 1e-10])
@pytest.mark.parametrize("rate", [1.0, 12.0, 60.0])
def test_degree_reaches_the_tolerance_between_nodes(rate, tol):
    def g(x):
        return np.exp(rate * (x - 1.0))[None]

    n = degree_for(g, tol)
    x = np.linspace(-1.0, 1.0, 501)
    error = values_of(interpolate(g(chebyshev_nodes(n))[0]), x) - g(x)[0]
    assert np.abs(error).max() <= 2.0 * tol


def test_factors_are_the_divided_differences_of_the_polynomial():
    n = 24
    x = chebyshev_nodes(n)
    g = 1.0 / (np.exp(-4.0 * (1.0 + x)) + 0.01)
    series = quadratic_series(g, 1.0 / g)
    y = np.linspace(-0.99, 0.98, 40)
    q = np.stack([values_of(f, y) for f in series.factors])
    p = values_of(series.c, y)
    apart = y[:, None] - y[None, :]
    np.fill_diagonal(apart, 1.0)
    expected = (p[:, None] - p[None, :]) / apart
    h = 1e-6
    slope = (values_of(series.c, y + h) - values_of(series.c, y - h)) / (2.0 * h)
    np.fill_diagonal(expected, slope)
    found = np.einsum("r,rx,ry->xy", series.signs, q, q)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


def test_a_constant_has_no_slope():
    series = quadratic_series(np.full(16, 3.0), np.ones(16))
    assert np.abs(series.factors).max() < 1e-6


def test_factors_of_a_zero_matrix_are_zero():
    factors, signs = symmetric_factors(np.zeros((8, 8)), np.ones(8))
    assert factors.shape == (1, 8)
    assert not factors.any()
    assert signs.shape == (1,)
