"""The compiled core against the NumPy lines that it equals, on every instruction set here."""

import numpy as np
import pytest
from scipy import sparse

from heatgraph.kernels import native

LEVELS = native.levels()


def matrix(n, rng, density=0.2):
    """A symmetric sparse matrix with its spectrum in [-1, 1], as the core takes it."""
    A = sparse.random_array((n, n), density=density, rng=rng)
    A = (A + A.T).toarray()
    A /= np.abs(np.linalg.eigvalsh(A)).max() or 1.0
    diagonal = np.diag(A).copy()
    off = sparse.csr_array(A - np.diag(diagonal))
    operator = off.indptr.astype(np.int64), off.indices.astype(np.int32), off.data, diagonal
    return A, operator


def terms_of(A, X, n_terms):
    terms = [X, A @ X]
    while len(terms) < n_terms:
        terms.append(2.0 * A @ terms[-1] - terms[-2])
    return np.array(terms[:n_terms])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("n", "n_terms", "n_blocks", "R"), [(1, 8, 1, 1), (9, 16, 3, 2), (40, 24, 2, 5)]
)
def test_apply_combines_chebyshev_terms(level, n, n_terms, n_blocks, R):
    core, rng = LEVELS[level], np.random.default_rng(n)
    A, operator = matrix(n, rng)
    X = rng.standard_normal((n_blocks, n, core.WIDTH))
    C = rng.standard_normal((R, n_terms))
    out = np.empty((n_blocks, n, R, core.WIDTH))
    core.apply(*operator, X, C, out)
    for block, found in zip(X, out, strict=True):
        expected = np.einsum("rk,knw->nrw", C, terms_of(A, block, n_terms))
        np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(C).sum())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("shuffled", [False, True])
def test_apply_keeps_the_rows_that_later_terms_read(level, shuffled):
    """Nodes that read near ones only, so that few rows of a term are kept, or any."""
    core, rng, n = LEVELS[level], np.random.default_rng(0), 6000
    i = np.arange(n - 3)
    order = rng.permutation(n) if shuffled else np.arange(n)
    ends, ones = (order[np.append(i, i)], order[np.append(i + 1, i + 3)]), np.full(2 * i.size, 0.2)
    A = sparse.coo_array((ones, ends), shape=(n, n))
    A = (A + A.T).tocsr()
    operator = A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data, np.full(n, 0.1)
    X, C = rng.standard_normal((1, n, core.WIDTH)), rng.standard_normal((3, 32))
    out = np.empty((1, n, 3, core.WIDTH))
    core.apply(*operator, X, C, out)
    terms = terms_of(A + 0.1 * sparse.eye_array(n), X[0], 32)
    np.testing.assert_allclose(out[0], np.einsum("rk,knw->nrw", C, terms), atol=1e-10)


@pytest.mark.parametrize("level", LEVELS)
def test_quadratic_sums_moments_and_distances_of_pairs(level):
    core, rng = LEVELS[level], np.random.default_rng(1)
    n, n_terms, R = 30, 16, 3
    A, operator = matrix(n, rng)
    X = rng.standard_normal((2, n, core.WIDTH))
    C, signs = rng.standard_normal((R, n_terms)), np.array([1.0, -1.0, 1.0])
    i, j = np.triu_indices(n, 1)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=n))])
    number = rng.permutation(i.size)
    moments, slope = np.ones(n_terms), np.ones(i.size)  # sums are added to what is there
    core.quadratic(*operator, indptr, j.astype(np.int32), number, X, C, signs, moments, slope)
    T = np.stack([terms_of(A, block, n_terms) for block in X])
    np.testing.assert_allclose(moments, 1.0 + np.einsum("bnw,bknw->k", X, T))
    Y = np.einsum("rk,bknw->brnw", C, T)
    distances = np.einsum("r,brnw->n", signs, np.square(Y[:, :, i] - Y[:, :, j]))
    np.testing.assert_allclose(slope[number], 1.0 + distances)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("K", [1, 3, 8, 21])
def test_lasso_meets_its_optimality_conditions(level, positive, K):
    core, rng = LEVELS[level], np.random.default_rng(K)
    D, X, a = rng.normal(size=(12, K)), rng.normal(size=(6, 12)), rng.uniform(0.5, 3.0, (6, K))
    observed = rng.uniform(size=X.shape) < 0.7
    observed[0] = True
    X = np.where(observed, X, 0.0)
    h, report = np.abs(rng.normal(size=(6, K))), np.empty((6, 2))
    core.lasso(D.T @ D, X @ D, a, (X**2).sum(axis=1), 1e-12, positive, D, observed, h, report)
    R = np.where(observed, X - h @ D.T, 0.0)
    slope = 2.0 * R @ D
    np.testing.assert_allclose(slope[h != 0.0], (a * np.sign(h))[h != 0.0], atol=1e-9)
    assert np.all((slope if positive else np.abs(slope)) <= a + 1e-9)
    assert not positive or h.min() >= 0.0
    np.testing.assert_allclose(report[:, 0], (R**2).sum(axis=1) + (a * np.abs(h)).sum(axis=1))
    assert np.all(report[:, 1] <= 1e-12 * (X**2).sum(axis=1))


def projected(v, metric, n, total):
    """The point of the valid set nearest to ``v`` in the metric, by bisection."""
    low, high = (v[:n] * metric[:n]).min() - total * metric.max(), (v[:n] * metric[:n]).max()
    for _ in range(200):
        theta = 0.5 * (low + high)
        above = np.maximum(v[:n] - theta / metric[:n], 0.0).sum() > total
        low, high = (theta, high) if above else (low, theta)
    return np.append(np.maximum(v[:n] - low / metric[:n], 0.0), np.maximum(v[n:], 0.0))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("n", "n_scales", "r"), [(1, 0, 0), (5, 2, 0), (19, 0, 3), (40, 3, 7)])
def test_minimise_model_ends_where_a_projected_step_stays(level, n, n_scales, r):
    core, rng = LEVELS[level], np.random.default_rng(n)
    size, total = n + n_scales, 4.0
    metric, sigma = rng.uniform(0.5, 2.0, size), 3.0
    V = rng.normal(size=(r, size)) / np.sqrt(size)
    middle = np.diag(rng.uniform(-2.0, 0.5, r))  # so that B stays positive definite
    B = sigma * np.diag(metric) - V.T @ middle @ V
    x, g = projected(rng.normal(size=size), metric, n, total), rng.normal(size=size)
    y = x.copy()
    core.minimise_model(g, metric, V, middle, sigma, total, n, 2000, 1e-9, y)
    slope = g + B @ (y - x)
    np.testing.assert_allclose(projected(y - slope / metric, metric, n, total), y, atol=1e-6)


@pytest.mark.parametrize("level", LEVELS)
def test_minimise_model_leaves_a_concave_model_after_one_step(level):
    y, g = np.array([1.0, 0.5, 2.0]), np.array([0.0, 0.0, -1.0])
    V, middle = np.array([[0.0, 0.0, 1.0]]), np.array([[2.0]])  # B = diag(1, 1, -1)
    LEVELS[level].minimise_model(g, np.ones(3), V, middle, 1.0, 1.5, 2, 40, 0.05, y)
    assert y == pytest.approx([1.0, 0.5, 3.0])


@pytest.mark.parametrize("level", LEVELS)
def test_single_precision_takes_blocks_of_twice_the_width(level):
    core, rng = LEVELS[level], np.random.default_rng(2)
    n, n_terms, R = 600, 16, 3  # more nodes than are summed in single precision
    A, operator = matrix(n, rng, density=0.02)
    X = rng.standard_normal((2, n, 2 * core.WIDTH)).astype(np.float32)
    C, signs = rng.standard_normal((R, n_terms)), np.array([1.0, -1.0, 1.0])
    indptr = np.append(np.arange(n), n - 1)
    moments, slope = np.zeros(n_terms), np.zeros(n - 1)
    ends, number = np.arange(1, n, dtype=np.int32), np.arange(n - 1)
    core.quadratic(*operator, indptr, ends, number, X, C, signs, moments, slope)
    T = np.stack([terms_of(A, block, n_terms) for block in X.astype(np.float64)])
    expected = np.einsum("bnw,bknw->k", X, T)
    np.testing.assert_allclose(moments, expected, atol=1e-6 * np.abs(expected).max())
    Y = np.einsum("rk,bknw->bnrw", C, T)
    distances = np.einsum("r,bnrw->n", signs, np.square(Y[:, 1:] - Y[:, :-1]))
    np.testing.assert_allclose(slope, distances, atol=1e-5 * np.abs(distances).max())
    out = np.empty((2, n, R, 2 * core.WIDTH), dtype=np.float32)
    core.apply(*operator, X, C, out)
    np.testing.assert_allclose(out, Y, atol=1e-5 * np.abs(Y).max())
    with pytest.raises((ValueError, TypeError)):
        core.apply(*operator, X[:, :, : core.WIDTH].copy(), C, out)


def good_arguments(core):
    _, operator = matrix(4, np.random.default_rng(0), density=0.9)
    X, C = np.zeros((1, 4, core.WIDTH)), np.zeros((2, 8))
    return [*operator, X, C, np.empty((1, 4, 2, core.WIDTH))]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("position", "change"),
    [
        (0, lambda a: a + 1),
        (0, lambda a: a[::-1].copy()),
        (1, lambda a: a + 100),
        (1, lambda a: a - 100),
        (2, lambda a: a[:-1].copy()),
        (3, lambda a: a[:-1].copy()),
        (4, lambda a: a[:, :-1].copy()),
        (5, lambda a: a[:, :-1].copy()),
        (6, lambda a: a[:, :, :1].copy()),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(level, position, change):
    core = LEVELS[level]
    arguments = good_arguments(core)
    core.apply(*arguments)
    arguments[position] = change(arguments[position])
    with pytest.raises(ValueError, match=r"must|one|index|entry"):
        core.apply(*arguments)


def test_the_highest_level_of_the_processor_is_taken():
    assert max(LEVELS) == native.LEVEL
    assert LEVELS[native.LEVEL].WIDTH == native.WIDTH
