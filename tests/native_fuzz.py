"""The compiled core on arrays of random shapes; run by ``make test-native``, under sanitizers.

Usage: native_fuzz.py path/to/_native_1.so [seconds]
"""

from __future__ import annotations

import sys
import time
from importlib.util import module_from_spec, spec_from_file_location

import numpy as np


def load(path):
    spec = spec_from_file_location("_native_1", path)
    core = module_from_spec(spec)
    spec.loader.exec_module(core)
    return core


def fuzz_lasso(core, rng):
    M, N, K = rng.integers(1, 6), rng.integers(1, 12), rng.integers(1, 40)
    # Small integers: atoms repeat, depend on each other and reach zero together.
    D = rng.integers(-1, 2, (N, K)).astype(float) if rng.random() < 0.5 else rng.normal(size=(N, K))
    observed = rng.random((M, N)) < rng.choice([0.0, 0.5, 1.0])
    X = np.where(observed, rng.normal(size=(M, N)), 0.0)
    a = rng.uniform(0.0, 2.0, (rng.choice([1, M]), K))
    positive = bool(rng.random() < 0.5)
    h = rng.normal(size=(M, K)) * (rng.random((M, K)) < rng.random())
    h, report = (np.abs(h) if positive else h), np.empty((M, 2))
    energy = (X**2).sum(axis=1)
    core.lasso(D.T @ D, X @ D, a, energy, 1e-10, positive, D, observed, h, report)
    assert np.isfinite(h).all()
    R = np.where(observed, X - h @ D.T, 0.0)
    value = (R**2).sum(axis=1) + (a * np.abs(h)).sum(axis=1)
    np.testing.assert_allclose(report[:, 0], value, atol=1e-6 * (1.0 + energy.max()))


def fuzz_model(core, rng):
    n, n_scales, r = rng.integers(1, 50), rng.integers(0, 4), rng.integers(0, 9)
    size = n + n_scales
    V, middle = rng.normal(size=(r, size)), np.diag(rng.uniform(-1.0, 0.0, r))
    y, metric = np.full(size, 1.0 / n), rng.uniform(0.5, 2.0, size)
    core.minimise_model(rng.normal(size=size), metric, V, middle, 1.0, 1.0, n, 40, 0.1, y)
    assert y.min() > -1e-9
    np.testing.assert_allclose(y[:n].sum(), 1.0, rtol=1e-8)


def fuzz_divided_differences(core, rng):
    N, S = rng.integers(1, 30), rng.integers(0, 4)
    K, lam = np.empty((N, N)), np.sort(rng.exponential(size=N))
    t, Q = rng.exponential(size=S), rng.normal(size=(S, N, N))
    core.divided_differences(lam, t, Q, K)
    expected = np.zeros((N, N))
    for time_, q in zip(t, Q, strict=True):
        d = time_ * np.abs(lam[:, None] - lam)
        quotient = np.where(d > 0.0, -np.expm1(-d) / np.where(d > 0.0, d, 1.0), 1.0)
        expected += q * np.exp(-time_ * np.minimum(lam[:, None], lam)) * quotient
    np.testing.assert_allclose(K, expected, atol=1e-12)


def fuzz_chebyshev(core, rng):
    n, n_terms, R = rng.integers(1, 40), core.TERMS * rng.integers(1, 4), rng.integers(1, 5)
    A = np.triu(rng.random((n, n)) < 0.2, 1)
    i, j = np.nonzero(A | A.T)
    indptr = np.searchsorted(i, np.arange(n + 1))
    operator = indptr, j.astype(np.int32), rng.normal(size=j.size) / n, rng.normal(size=n) / n
    dtype, width = [(np.float64, core.WIDTH), (np.float32, 2 * core.WIDTH)][rng.integers(2)]
    X = rng.normal(size=(rng.integers(1, 4), n, width)).astype(dtype)
    C, out = rng.normal(size=(R, n_terms)), np.empty((len(X), n, R, width), dtype)
    core.apply(*operator, X, C, out)
    moments, slope = np.zeros(n_terms), np.zeros(max(j.size, 1))
    number = np.arange(j.size)
    core.quadratic(*operator, indptr, operator[1], number, X, C, np.ones(R), moments, slope)
    assert np.isfinite(out).all()
    assert np.isfinite(slope).all()


def fuzz_wrong_shapes(core, rng):
    """Shapes that do not fit are refused before anything is read or written."""
    N = int(rng.integers(1, 9))
    sizes = rng.integers(0, 9, 4)
    if (sizes == N).all():
        return
    try:
        K = np.empty((sizes[2], sizes[3]))
        core.divided_differences(np.ones(N), np.ones(2), np.ones((2, sizes[0], sizes[1])), K)
    except ValueError:
        return
    raise AssertionError(f"shapes {sizes} with {N} nodes were taken")


def main(path, seconds="30"):
    core, rng, until = load(path), np.random.default_rng(0), time.monotonic() + float(seconds)
    runs = 0
    while time.monotonic() < until:
        for fuzz in (
            fuzz_lasso,
            fuzz_model,
            fuzz_divided_differences,
            fuzz_chebyshev,
            fuzz_wrong_shapes,
        ):
            fuzz(core, rng)
        runs += 1
    print(f"{runs} runs of every function, nothing found")


if __name__ == "__main__":
    main(*sys.argv[1:])
