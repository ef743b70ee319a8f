"""Sources on sparse atoms: the exact lasso, whatever is taken at a time."""

import numpy as np
import pytest

from heatgraph.solvers.lasso import code
from heatgraph.solvers.neighbourhoods import WHOLE
from heatgraph.solvers.working_sets import (
    TOGETHER,
    _foremost,
    _merged,
    _screen,
    code_block,
    correlate_block,
    lend,
    residual_block,
    side_by_side,
)

from .test_neighbourhoods import NOTHING_MISSING, atoms_on_a_line


def signals_of(D, n_signals, n_sources, rng):
    K = len(D)
    H = np.zeros((n_signals, K))
    for row in H:
        row[rng.choice(K, n_sources, replace=False)] = rng.normal(size=n_sources)
    return H @ D + 0.01 * rng.normal(size=(n_signals, D.shape[1]))


def solve(atoms, X, a, observed=NOTHING_MISSING, rounds=100, tol=1e-9, start=None):
    """The codes (M, K) and what they leave, (M, N); penalties by signal (1 or M, K)."""
    M, N = X.shape
    K = atoms.indptr.size - 1
    signals = X if observed.size == 0 else np.where(observed, X, 0.0)
    penalties = np.ones((K, TOGETHER if len(a) > 1 else 1))
    penalties[:, : len(a)] = a.T
    lent, R = lend(N, K, N // 16 + 1, X.dtype), np.empty_like(X)
    region = np.repeat(np.arange(N) // 16, K // N)
    codes = sparse(np.zeros((M, K)) if start is None else start)
    found = code_block(
        atoms, region, penalties.astype(X.dtype), *codes, signals, observed, tol, rounds, lent, R
    )
    for memory in (lent.H, lent.line, lent.best, lent.head + 1, lent.place + 1):
        assert not memory.any()  # given back as it was
    H = np.zeros((M, K))
    H[np.repeat(np.arange(M), found[0]), found[1]] = found[2]
    return H, R


def sparse(H):
    counts = np.count_nonzero(H, axis=1)
    return np.append(0, np.cumsum(counts)), np.nonzero(H)[1], H[H != 0.0]


def value(D, X, H, a, observed=None):
    left = X - H @ D
    if observed is not None:
        left = np.where(observed, left, 0.0)
    return (left**2).sum(axis=1) + (a * np.abs(H)).sum(axis=1)


# One problem; neighbourhoods that take turns.
@pytest.mark.parametrize(("n_nodes", "n_sources"), [(400, 3), (400, 40), (1800, 300)])
@pytest.mark.parametrize("missing", [False, True])
def test_the_sources_are_those_of_the_whole_lasso(rng, n_nodes, n_sources, missing):
    atoms, D = atoms_on_a_line(n_nodes)
    X = signals_of(D, 5 if n_sources < 300 else 2, n_sources, rng)
    a = np.full((1, len(D)), 0.1)
    observed = rng.random(X.shape) > 0.2 if missing else NOTHING_MISSING
    H, R = solve(atoms, X, a, observed, rounds=400)
    if n_sources == 300:
        assert np.count_nonzero(H, axis=1).max() > WHOLE
    mask = observed if missing else np.ones(X.shape, dtype=bool)
    for m, x in enumerate(X if n_sources < 300 else []):
        part = D[:, mask[m]]
        y = x[mask[m]]
        best = code(
            part @ part.T, (part @ y)[None], a[0], np.array([y @ y]), np.zeros_like(a), tol=1e-12
        )
        reached = value(D, X, H, a, mask)[m]
        assert reached == pytest.approx(best.value[0], rel=1e-7)
    left = np.where(mask, X - H @ D, 0.0)
    assert pytest.approx(left, abs=1e-10) == R
    slope = 2.0 * left @ D.T
    assert (np.abs(slope) <= a + 2e-6).all()  # rounding counts in units of the signal
    assert slope[H != 0.0] == pytest.approx((a * np.sign(H))[H != 0.0], abs=2e-6)


def test_every_signal_may_have_its_own_penalties(rng):
    atoms, D = atoms_on_a_line(60)
    X = signals_of(D, 4, 3, rng)
    a = rng.uniform(0.05, 0.5, size=(4, len(D)))
    H, _ = solve(atoms, X, a)
    G = D @ D.T
    best = code(G, X @ D.T, a, (X**2).sum(axis=1), np.zeros_like(H), tol=1e-12)
    assert value(D, X, H, a) == pytest.approx(best.value, rel=1e-8)


def test_what_codes_explain_is_subtracted_where_it_was_observed(rng):
    atoms, D = atoms_on_a_line(50)
    H = np.where(rng.random((3, 100)) < 0.1, rng.normal(size=(3, 100)), 0.0)
    observed = rng.random((3, 50)) > 0.5
    for mask in (NOTHING_MISSING, observed):
        R = np.zeros((3, 50))
        residual_block(atoms, *sparse(H), mask, R)
        explained = H @ D if mask.size == 0 else np.where(mask, H @ D, 0.0)
        assert pytest.approx(explained) == -R


@pytest.mark.parametrize(("W", "N"), [(1, 5), (3, 16), (32, 50)])
def test_signals_side_by_side(rng, W, N):
    X, left = rng.normal(size=(W, N)), np.full((N, TOGETHER), np.nan)
    side_by_side(X, left)
    assert (left[:, :W] == X.T).all()
    assert not left[:, W:].any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_start_changes_no_codes(rng, dtype):
    atoms, D = atoms_on_a_line(100)
    atoms = atoms._replace(values=atoms.values.astype(dtype))
    X, a = signals_of(D, 6, 5, rng).astype(dtype), np.full((1, len(D)), 0.1)
    tol = 1e-9 if dtype is np.float64 else 1e-5
    cold, _ = solve(atoms, X, a, tol=tol)
    start = np.where(rng.random(cold.shape) < 0.05, rng.normal(size=cold.shape), 0.0)
    for warm in (cold, start):
        H, R = solve(atoms, X, a, tol=tol, start=warm)
        assert R.dtype == dtype
        assert value(D, X, H, a) == pytest.approx(value(D, X, cold, a), rel=100 * tol)


def test_correlations_are_those_of_the_dense_atoms(rng):
    atoms, D = atoms_on_a_line(50)
    R = rng.normal(size=(50, TOGETHER))
    Q = np.empty((100, TOGETHER))
    correlate_block(atoms, R, Q)
    assert pytest.approx(D @ R) == Q


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("each", [False, True])
def test_who_exceeds_its_penalty(rng, dtype, each):
    K = 70
    H = np.where(rng.random((TOGETHER, K)) < 0.1, 1.0, 0.0)
    Q = rng.normal(size=(K, TOGETHER)).astype(dtype)
    a = rng.uniform(1.0, 5.0, size=(K, TOGETHER if each else 1)).astype(dtype)
    least = np.where(np.arange(TOGETHER) % 5 == 0, np.inf, 2.0)  # every fifth is done
    silent = np.empty((TOGETHER, K), np.int64)
    counts = _screen(Q, a, least, H, silent)
    for m in range(TOGETHER):
        over = (np.abs(Q) - 0.5 * a)[:, m] > 0.1 * least[m]
        assert silent[m, : counts[m]].tolist() == np.flatnonzero(over & (H[m] == 0.0)).tolist()
    assert counts[1] > 0


def test_the_foremost_of_every_region_enter(rng):
    q, a = np.array([3.0, 2.9, 1.2, -5.0, 0.1, 1.4]), np.full(6, 2.0)
    region, best = np.array([0, 0, 0, 1, 1, 2]), np.zeros(3)
    silent = np.array([0, 1, 2, 3, 5])
    chosen = _foremost(q, a, region, best, silent)
    assert chosen.tolist() == [0, 1, 3, 5]
    assert not best.any()
    assert _merged(np.array([2, 4]), chosen).tolist() == [0, 1, 2, 3, 4, 5]
