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


@pytest.mark.parametrize("n_sources", [3, 40])  # one problem; neighbourhoods that take turns
@pytest.mark.parametrize("missing", [False, True])
def test_the_sources_are_those_of_the_whole_lasso(rng, n_sources, missing):
    atoms, D = atoms_on_a_line(400)
    X = signals_of(D, 5, n_sources, rng)
    a = np.full((1, len(D)), 0.1)
    observed = rng.random(X.shape) > 0.2 if missing else NOTHING_MISSING
    H, R = solve(atoms, X, a, observed)
    if n_sources == 40:
        assert np.count_nonzero(H, axis=1).max() > neighbourhoods.WHOLE / 2
    mask = observed if missing else np.ones(X.shape, dtype=bool)
    for m, x in enumerate(X):
        part = D[:, mask[m]]
        y = x[mask[m]]
        best = code(
            part @ part.T, (part @ y)[None], a[0], np.array([y @ y]), np.zeros_like(a), tol=1e-12
        )
        reached = value(D, X, H, a, mask)[m]
        assert reached == pytest.approx(best.value[0], rel=1e-7)
    left = np.where(mask, X - H @ D, 0.0)
    assert pytest.approx(left, abs=1e-10) == R[:, : len(X)].T


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
