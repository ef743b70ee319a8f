"""The dense heat kernel against Pade approximants of the matrix exponential."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import block_diag, expm, expm_frechet

from heatgraph.kernels.eigen import DenseHeat, divided_difference_sum
from heatgraph.models.heat import UnitAtoms

Array = NDArray[np.float64]
N = 6


def laplacian(W: Array) -> Array:
    """The Laplacian, of trace N, of a symmetric matrix of weights."""
    L = np.diag(W.sum(axis=1)) - W
    return np.asarray(L * (len(L) / np.trace(L)))


def random_weights(n: int, seed: int) -> Array:
    W = np.triu(np.random.default_rng(seed).exponential(size=(n, n)), k=1)
    return W + W.T


RING = np.roll(np.eye(N), 1, axis=0) + np.roll(np.eye(N), -1, axis=0)
GRAPHS = {
    "random": random_weights(N, 0),
    "uniform": np.ones((N, N)) - np.eye(N),  # one eigenvalue N - 1 times
    "ring": RING,  # eigenvalues in pairs
    "two parts": block_diag(random_weights(2, 1), random_weights(4, 2)),  # zero twice
    "isolated": block_diag(np.zeros((2, 2)), random_weights(4, 3)),
}


@pytest.fixture(params=GRAPHS)
def L(request: pytest.FixtureRequest) -> Array:
    return laplacian(GRAPHS[request.param])


class TestKernel:
    @pytest.mark.parametrize("t", [0.0, 1e-8, 0.7, 4.0, 1e3])
    def test_operator_is_the_exponential(self, L: Array, t: float) -> None:
        E = DenseHeat.from_laplacian(L).operator(t)
        np.testing.assert_allclose(E, expm(-t * L), rtol=0, atol=1e-12)
        np.testing.assert_array_equal(E, E.T)
        np.testing.assert_allclose(E.sum(axis=0), 1.0, atol=1e-12)  # heat is conserved

    def test_heat_never_grows(self, L: Array) -> None:
        kernel = DenseHeat.from_laplacian(L)
        assert np.all(kernel.lam >= 0.0)
        assert np.all(np.diff(kernel.lam) >= 0.0)
        assert np.all(kernel.decay(np.array([0.0, 1.0, 1e300])) <= 1.0)

    def test_gram_and_norms_are_those_of_the_atoms(self, L: Array) -> None:
        kernel, tau = DenseHeat.from_laplacian(L), np.array([0.0, 0.6, 2.5])
        D = kernel.atoms(tau)
        np.testing.assert_allclose(D, np.hstack([expm(-t * L) for t in tau]), atol=1e-13)
        np.testing.assert_allclose(kernel.gram(tau), D.T @ D, atol=1e-13)
        np.testing.assert_array_equal(kernel.gram(tau), kernel.gram(tau).T)
        norms = np.linalg.norm(D, axis=0).reshape(3, N)
        np.testing.assert_allclose(UnitAtoms().weights(kernel, tau), norms, rtol=1e-13)

    def test_largest_eigenvalue_of_the_gram_is_the_number_of_scales(self, L: Array) -> None:
        gram = DenseHeat.from_laplacian(L).gram(np.array([0.3, 1.0, 7.0]))
        assert np.linalg.eigvalsh(gram)[-1] == pytest.approx(3.0, rel=1e-12)

    def test_norms_settle_at_the_size_of_the_part(self) -> None:
        kernel = DenseHeat.from_laplacian(laplacian(GRAPHS["two parts"]))
        norms = UnitAtoms().weights(kernel, np.array([1e6]))[0]
        np.testing.assert_allclose(norms, [0.5**0.5] * 2 + [0.25**0.5] * 4, rtol=1e-9)


class TestDividedDifferences:
    @pytest.mark.parametrize(
        "lam",
        [
            [0.0, 0.5, 2.0],
            [0.0, 0.0, 1.0, 1.0, 1.0],
            [0.0, 1e-16, 1e-12, 1e-8, 1e-4],
            [0.0, 1.0, np.nextafter(1.0, 2.0), 1.0 + 1e-9, 1.0 + 1e-5],
            [0.0, 0.999, 1.0, 1.001, 2.0],
            [3.0, 30.0, 300.0, 300.0],
        ],
    )
    @pytest.mark.parametrize("t", [1e-3, 1.0, 3.0])
    def test_against_the_exponential_of_a_block(self, lam: list[float], t: float) -> None:
        # The corner of exp([[x, 1], [0, y]]) is the divided difference of exp at x and y.
        x = -t * np.array(lam)
        expected = [[expm(np.array([[a, 1.0], [0.0, b]]))[0, 1] for b in x] for a in x]
        ones = np.ones((1, len(lam), len(lam)))
        B = divided_difference_sum(np.array(lam), np.array([t]), ones) / -t
        np.testing.assert_allclose(B, expected, rtol=2e-13, atol=1e-300)

    def test_close_to_the_switch_of_formulas(self) -> None:
        for d in (1.0 - 1e-12, 1.0, 1.0 + 1e-12):
            B = -divided_difference_sum(np.array([0.0, d]), np.ones(1), np.ones((1, 2, 2)))
            assert B[0, 1] == pytest.approx(-np.expm1(-d) / d, rel=1e-15)

    def test_extreme_arguments_stay_finite(self) -> None:
        lam = np.array([0.0, 5e-324, 1e-300, 1.0, 1e3, 1e3, 1e150])
        for t in (0.0, 1e-300, 1.0, 1e3, 1e150):
            B = divided_difference_sum(lam, np.array([t]), np.ones((1, 7, 7)))
            assert np.all(np.isfinite(B))
            assert np.all(B <= 0.0)
            assert np.all(np.abs(B) <= t)  # the derivative of exp is at most 1 here

    def test_scales_add_up(self, rng: np.random.Generator) -> None:
        lam, t = np.sort(rng.uniform(size=4)), np.array([0.3, 2.0, 5.0])
        P = rng.normal(size=(3, 4, 4))
        parts = [divided_difference_sum(lam, t[s : s + 1], P[s : s + 1]) for s in range(3)]
        np.testing.assert_allclose(divided_difference_sum(lam, t, P), sum(parts), rtol=1e-13)

    def test_more_modes_than_a_tile_and_every_distance(self, rng: np.random.Generator) -> None:
        lam, t = np.sort(rng.uniform(0.0, 3.0, 75)), 1.3
        P = rng.normal(size=(1, 75, 75))
        d = t * np.abs(lam[:, None] - lam)
        quotient = np.divide(-np.expm1(-d), d, out=np.ones_like(d), where=d > 0.0)
        B = np.exp(-t * np.minimum(lam[:, None], lam)) * quotient
        K = divided_difference_sum(lam, np.array([t]), P)
        np.testing.assert_array_equal(K, K.T)
        np.testing.assert_allclose(K, -0.5 * t * (P[0] + P[0].T) * B, rtol=1e-14)


class TestAdjointDerivative:
    @pytest.mark.parametrize("tau", [(0.7,), (0.1, 2.5), (0.0, 1.0, 1e3)])
    def test_against_the_frechet_derivative(
        self, L: Array, tau: tuple[float, ...], rng: np.random.Generator
    ) -> None:
        kernel = DenseHeat.from_laplacian(L)
        A = rng.normal(size=(len(tau), N, N))  # not symmetric
        K = kernel.trace_slopes(np.array(tau), kernel.U.T @ A @ kernel.U)
        G = kernel.U @ K @ kernel.U.T
        np.testing.assert_allclose(G, G.T, atol=1e-12 * np.abs(G).max())
        for _ in range(4):
            V = rng.normal(size=(N, N))
            V = V + V.T
            expected = sum(
                np.trace(a @ expm_frechet(-t * L, -t * V, compute_expm=False))
                for a, t in zip(A, tau, strict=True)
            )
            size = max(1.0, np.linalg.norm(G))
            assert np.sum(G * V) == pytest.approx(expected, rel=1e-10, abs=1e-12 * size)


def test_as_many_times_as_matrices():
    with pytest.raises(ValueError, match="2 times, and 1"):
        divided_difference_sum(np.arange(3.0), np.ones(2), np.ones((1, 3, 3)))
