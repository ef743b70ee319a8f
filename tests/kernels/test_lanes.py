"""Eight numbers at a time against NumPy."""

import numba
import numpy as np
import pytest
from numba import TypingError

from heatgraph.kernels.lanes import (
    LANES,
    fill,
    larger,
    largest,
    load,
    minus,
    pick,
    plus,
    plus_product,
    plus_scaled,
    store,
    total,
)


@numba.njit(fastmath=False)
def _every_operation(x, y, factor, out):
    a, b = load(x, 3), load(y, 1)
    store(out, 0 * LANES, plus(a, b))
    store(out, 1 * LANES, minus(a, b))
    store(out, 2 * LANES, plus_scaled(a, factor, b))
    store(out, 3 * LANES, plus_product(fill(factor), a, b))
    store(out, 4 * LANES, larger(a, b))
    return total(a), largest(b), pick(x, 2)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_operations(dtype):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 12)).astype(dtype)
    out, factor = np.full(42, 7.0, dtype), dtype(0.3)
    found = _every_operation(x, y, factor, out)
    a, b = x[3:11], y[1:9]
    expected = [a + b, a - b, a + factor * b, factor + a * b, np.maximum(a, b)]
    tol = 4.0 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(out[:40], np.concatenate(expected), atol=tol)
    np.testing.assert_array_equal(out[40:], 7.0)  # what is beyond is left alone
    assert found == pytest.approx((a.sum(), b.max(), x[2]), abs=10 * tol)


def test_lanes_of_two_types_do_not_mix():
    @numba.njit(fastmath=False)
    def mixed(x, y):
        return total(plus(load(x, 0), load(y, 0)))

    with pytest.raises(TypingError):
        mixed(np.ones(8), np.ones(8, np.float32))


def test_an_array_that_is_not_contiguous_is_refused():
    @numba.njit(fastmath=False)
    def first(x):
        return total(load(x, 0))

    assert first(np.arange(8.0)) == 28.0
    with pytest.raises(TypingError):
        first(np.arange(16.0)[::2])
