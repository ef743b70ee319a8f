"""Sources on sparse atoms: the exact lasso, whatever is taken at a time."""

import numpy as np
import pytest

from heatgraph.objective.sparse import SparseAtoms
from heatgraph.solvers import neighbourhoods
from heatgraph.solvers.coding import code
from heatgraph.solvers.neighbourhoods import LANES, code_block, correlate_block, subtract_block

NOTHING_MISSING = np.empty((0, 0), dtype=np.bool_)


def atoms_on_a_line(n_nodes, width=6.0):
    """Bells of two widths at every node, zero where they are small; a dense copy (K, N)."""
    at = np.arange(n_nodes)
    bells = [np.exp(-((at[:, None] - at) ** 2) / (s * width)) for s in (1.0, 2.0)]
    D = np.stack(bells, axis=1).reshape(2 * n_nodes, n_nodes)
    D[D < 1e-3] = 0.0
    rows = [np.flatnonzero(d) for d in D]
    indptr = np.append(0, np.cumsum([r.size for r in rows])).astype(np.int64)
    atoms = SparseAtoms(indptr, np.concatenate(rows).astype(np.int32), D[D != 0.0])
    return atoms, D


def signals_of(D, n_signals, n_sources, rng):
    K = len(D)
    H = np.zeros((n_signals, K))
    for row in H:
        row[rng.choice(K, n_sources, replace=False)] = rng.normal(size=n_sources)
    return H @ D + 0.01 * rng.normal(size=(n_signals, D.shape[1]))


def solve(atoms, X, a, observed=NOTHING_MISSING, rounds=100, tol=1e-9):
    M, N = X.shape
    K = atoms.indptr.size - 1
    H, R, Q = np.zeros((M, K)), np.zeros((N, LANES)), np.empty((K, LANES))
    R[:, :M] = X.T if observed.size == 0 else np.where(observed, X, 0.0).T
    open_, patch = np.ones(M, dtype=bool), np.repeat(np.arange(N) // 16, K // N)
    size = np.linalg.norm(X, axis=1)
    for _ in range(rounds):
        correlate_block(atoms, R, Q)
        if not code_block(atoms, patch, a, H, observed, R, Q, open_, size, tol):
            break
    return H, R


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
        assert np.count_nonzero(H, axis=1).max() > neighbourhoods.WHOLE
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
    assert pytest.approx(left, abs=1e-10) == R[:, : len(X)].T
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
        R = np.zeros((50, LANES))
        subtract_block(atoms, H, mask, R)
        explained = H @ D if mask.size == 0 else np.where(mask, H @ D, 0.0)
        assert pytest.approx(explained) == -R[:, :3].T


def test_correlations_are_those_of_the_dense_atoms(rng):
    atoms, D = atoms_on_a_line(50)
    R = rng.normal(size=(50, LANES))
    Q = np.empty((100, LANES))
    correlate_block(atoms, R, Q)
    assert pytest.approx(D @ R) == Q


def test_neighbourhoods_cover_all_atoms_and_overlap(rng):
    atoms, D = atoms_on_a_line(300)
    chosen = np.arange(0, 600, 2)
    place, head = np.full(600, -1), np.full(300, -1)
    gram = neighbourhoods._gram(atoms, chosen, NOTHING_MISSING, 0, place, head)
    assert (place == -1).all()
    assert (head == -1).all()
    dense = np.zeros((300, 300))
    dense[np.repeat(np.arange(300), np.diff(gram[0])), gram[1]] = gram[2]
    assert dense == pytest.approx(D[chosen] @ D[chosen].T)
    parts, starts = neighbourhoods._neighbourhoods(gram)
    sizes = np.diff(starts)
    assert set(parts) == set(range(300))
    assert sizes.sum() > 300
    assert sizes.max() < 300


@pytest.mark.parametrize("missing", [False, True])
def test_a_gram_matrix_of_few_atoms_is_whole(rng, missing):
    atoms, D = atoms_on_a_line(50)
    chosen = np.sort(rng.choice(100, 30, replace=False))
    observed = rng.random((2, 50)) > 0.3 if missing else NOTHING_MISSING
    head = np.full(50, -1)
    G = neighbourhoods._dense_gram(atoms, chosen, observed, 1, head)
    part = D[chosen][:, observed[1]] if missing else D[chosen]
    assert pytest.approx(part @ part.T) == G
    assert (G == G.T).all()
    assert (head == -1).all()


@pytest.mark.parametrize("K", [1, 63, 64, 65, 500])
def test_who_is_active_and_who_exceeds_its_penalty(rng, K):
    h = np.where(rng.random(K) < 0.1, rng.normal(size=K), 0.0)
    q, a = rng.normal(size=K), rng.uniform(1.0, 5.0, size=K)
    found = np.empty(K, np.int64)
    assert found[: neighbourhoods._nonzero(h, found)].tolist() == np.flatnonzero(h).tolist()
    n = neighbourhoods._exceeding(q, a, h, 0.2, found)
    expected = np.flatnonzero((np.abs(q) - 0.5 * a > 0.2) & (h == 0.0))
    assert found[:n].tolist() == expected.tolist()


def test_the_foremost_of_every_region_enter(rng):
    q, a = np.array([3.0, 2.9, 1.2, -5.0, 0.1, 1.4]), np.full(6, 2.0)
    region, best = np.array([0, 0, 0, 1, 1, 2]), np.zeros(3)
    silent = np.array([0, 1, 2, 3, 5])
    chosen = neighbourhoods._foremost(q, a, region, best, silent)
    assert chosen.tolist() == [0, 1, 3, 5]
    assert not best.any()
    assert neighbourhoods._merged(np.array([2, 4]), chosen).tolist() == [0, 1, 2, 3, 4, 5]
