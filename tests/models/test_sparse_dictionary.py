"""Atoms on a sparse graph as operators, against the eigenvectors of its Laplacian."""

import numpy as np
import pytest
from scipy.linalg import expm

from heatgraph.datasets import make_graph
from heatgraph.graph import CandidateEdges
from heatgraph.kernels.spectral import KERNELS
from heatgraph.models import sparse_heat
from heatgraph.models.sparse_heat import SparseDictionary

TAU = np.array([1.5, 4.0])
N = 90


@pytest.fixture
def pairs():
    graph = make_graph("geometric", N, random_state=0)
    edges = graph.edges.astype(np.intp)
    return CandidateEdges(N, edges[:, 0].copy(), edges[:, 1].copy()), np.array(graph.weights)


@pytest.fixture
def dictionary(pairs):
    return SparseDictionary(*pairs, TAU)


@pytest.fixture
def atoms(pairs):
    """The atoms as rows (S N, N)."""
    candidates, w = pairs
    L = candidates.laplacian(w)
    return np.concatenate([expm(-t * L) for t in TAU])


def test_sources_diffuse_into_sums_of_atoms(dictionary, atoms, rng):
    h = rng.normal(size=(5, 2 * N))
    np.testing.assert_allclose(dictionary.synthesis(h), h @ atoms, atol=1e-7)


def test_correlations_are_the_adjoint(dictionary, rng):
    h, x = rng.normal(size=(7, 2 * N)), rng.normal(size=(7, N))
    left = (dictionary.synthesis(h) * x).sum()
    assert left == pytest.approx((h * dictionary.correlations(x)).sum(), rel=1e-12)


def test_the_norm_of_the_dictionary_is_the_root_of_the_number_of_scales(atoms):
    assert np.linalg.norm(atoms, 2) ** 2 == pytest.approx(TAU.size)


def test_norms_of_atoms(dictionary, atoms):
    np.testing.assert_allclose(dictionary.omega, np.linalg.norm(atoms, axis=1), rtol=1e-6)


@pytest.mark.parametrize("name", ["wave", "tikhonov", "matern", "diffusion-plus-identity"])
def test_other_kernels_are_functions_of_the_laplacian(pairs, rng, name):
    candidates, w = pairs
    lam, U = np.linalg.eigh(candidates.laplacian(w))
    lam = np.maximum(lam, 0.0)
    dictionary = SparseDictionary(*pairs, TAU, kernel=KERNELS[name])
    atoms = np.concatenate([(U * KERNELS[name].value(lam, t)) @ U.T for t in TAU.tolist()])
    h = rng.normal(size=(5, 2 * N))
    np.testing.assert_allclose(dictionary.synthesis(h), h @ atoms, atol=1e-6)
    np.testing.assert_allclose(dictionary.omega, np.linalg.norm(atoms, axis=1), rtol=1e-6)
    np.testing.assert_allclose(dictionary.short_atoms.toarray(), atoms, atol=1.01e-4)


def test_raw_atoms_all_cost_the_same(pairs):
    assert (SparseDictionary(*pairs, TAU, unit_atoms=False).omega == 1.0).all()


def test_norms_by_probing_vectors(pairs, atoms, monkeypatch):
    monkeypatch.setattr(sparse_heat, "EXACT_NODES", 10)
    omega = SparseDictionary(*pairs, TAU).omega
    np.testing.assert_allclose(omega, np.linalg.norm(atoms, axis=1), rtol=1e-3)


def test_short_atoms_leave_thin_heat_out(dictionary, atoms):
    short = dictionary.short_atoms.toarray()
    assert np.abs(short - atoms).max() < 5e-3
    assert np.linalg.norm(short - atoms, axis=1).max() < 0.02 * np.linalg.norm(atoms, axis=1).min()


def test_atoms_that_reach_everywhere_are_bounded(monkeypatch):
    monkeypatch.setattr(sparse_heat, "MOST_ENTRIES", 20)
    star = CandidateEdges(N, np.zeros(N - 1, dtype=np.intp), np.arange(1, N))
    short = SparseDictionary(star, np.full(N - 1, 1.0), TAU).short_atoms
    assert short.nnz <= 21 * 2 * N


def test_threads_give_the_same_bits(pairs, rng):
    h = rng.normal(size=(40, 2 * N))
    one, two = (SparseDictionary(*pairs, TAU, n_threads=n).synthesis(h) for n in (1, 2))
    assert (one == two).all()
