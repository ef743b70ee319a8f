"""The small problems of signals on sparse atoms: Gram matrices, and parts that take turns."""

import numpy as np
import pytest

from heatgraph.models.sparse import SparseAtoms
from heatgraph.solvers.neighbourhoods import _neighbourhoods, dense_gram, sparse_gram

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


def test_neighbourhoods_cover_all_atoms_and_overlap(rng):
    atoms, D = atoms_on_a_line(300)
    chosen = np.arange(0, 600, 2)
    place, head = np.full(600, -1), np.full(300, -1)
    gram = sparse_gram(atoms, chosen, NOTHING_MISSING, 0, place, head)
    assert (place == -1).all()
    assert (head == -1).all()
    dense = np.zeros((300, 300))
    dense[np.repeat(np.arange(300), np.diff(gram[0])), gram[1]] = gram[2]
    assert dense == pytest.approx(D[chosen] @ D[chosen].T)
    parts, starts = _neighbourhoods(gram)
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
    G = dense_gram(atoms, chosen, observed, 1, head)
    part = D[chosen][:, observed[1]] if missing else D[chosen]
    assert pytest.approx(part @ part.T) == G
    assert (G == G.T).all()
    assert (head == -1).all()
