"""Several numbers at a time against NumPy."""

import numba
import numpy as np
import pytest
from numba import TypingError

from heatgraph.kernels.lanes import (
    above,
    aligned,
    fill,
    lanes,
    larger,
    largest,
    load,
    load_row,
    magnitude,
    minus,
    minus_scaled,
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
    W = lanes(x.dtype)
    store(out, 0 * W, plus(a, b))
    store(out, 1 * W, minus(a, b))
    store(out, 2 * W, plus_scaled(a, factor, b))
    store(out, 3 * W, plus_product(fill(factor), a, b))
    store(out, 4 * W, larger(a, b))
    store(out, 5 * W, minus_scaled(a, factor, b))
    store(out, 6 * W, magnitude(a))
    return total(a), largest(b), pick(x, 2), above(a, b)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_operations(dtype):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 20)).astype(dtype)
    W = lanes(np.dtype(dtype))
    out, factor = np.full(7 * W + 2, 7.0, dtype), dtype(0.3)
    *found, exceeding = _every_operation(x, y, factor, out)
    a, b = x[3 : 3 + W], y[1 : 1 + W]
    expected = [a + b, a - b, a + factor * b, factor + a * b, np.maximum(a, b)]
    expected += [a - factor * b, np.abs(a)]
    tol = 4.0 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(out[: 7 * W], np.concatenate(expected), atol=tol)
    np.testing.assert_array_equal(out[7 * W :], 7.0)  # what is beyond is left alone
    assert found == pytest.approx([a.sum(), b.max(), x[2]], abs=10 * tol)
    assert [exceeding >> k & 1 for k in range(W)] == (np.abs(a) > b).tolist()
    assert exceeding >> W == 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_part_of_a_row(dtype):
    @numba.njit(fastmath=False)
    def part(matrix, row, start, out):
        store(out, 0, load_row(matrix, row, start))

    W = lanes(np.dtype(dtype))
    matrix, out = np.arange(3 * 25, dtype=dtype).reshape(3, 25), np.empty(W, dtype)
    part(matrix, 1, 7, out)
    assert out.tolist() == matrix[1, 7 : 7 + W].tolist()
    with pytest.raises(TypingError):
        part(matrix.T, 1, 7, out)


def test_as_many_lanes_as_a_register_holds():
    assert lanes(np.dtype(np.float64)) == 8
    assert lanes(np.dtype(np.float32)) == 16


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_aligned_memory(dtype, size):
    for _ in range(5):
        memory = aligned(size, dtype)
        assert memory.shape == (size,)
        assert memory.dtype == dtype
        assert memory.ctypes.data % 64 == 0


def test_lanes_of_two_types_do_not_mix():
    @numba.njit(fastmath=False)
    def mixed(x, y):
        return total(plus(load(x, 0), load(y, 0)))

    with pytest.raises(TypingError):
        mixed(np.ones(8), np.ones(16, np.float32))


def test_an_array_that_is_not_contiguous_is_refused():
    @numba.njit(fastmath=False)
    def first(x):
        return total(load(x, 0))

    assert first(np.arange(8.0)) == 28.0
    with pytest.raises(TypingError):
        first(np.arange(16.0)[::2])
