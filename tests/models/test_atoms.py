"""The weights of the penalty and their derivatives, against the matrix exponential."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import expm

from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels.eigen import DenseHeat
from heatgraph.models.heat import ATOMS, RawAtoms, UnitAtoms

Array = NDArray[np.float64]
N = 6
EDGES = CandidateEdges.complete(N)


def weights_of(kind: str) -> Array:
    """Weights of sum N/2: no ties, one eigenvalue N - 1 times, two parts."""
    i, j = EDGES.i, EDGES.j
    w = {
        "random": np.random.default_rng(0).exponential(size=EDGES.n_edges),
        "uniform": np.ones(EDGES.n_edges),
        "two parts": ((i < 2) == (j < 2)).astype(np.float64),
    }[kind]
    return np.asarray(w * (0.5 * N / w.sum()))


def penalty_by_expm(L: Array, tau: Array, c: Array) -> float:
    norms = [np.linalg.norm(expm(-t * L), axis=0) for t in tau]
    return float(np.sum(c * np.array(norms)))


@pytest.mark.parametrize("tau", [(0.0,), (0.7, 2.5), (0.2, 2.0, 1e3)])
@pytest.mark.parametrize("kind", ["random", "uniform", "two parts"])
class TestUnitAtoms:
    def test_weights_are_the_norms(self, kind: str, tau: tuple[float, ...]) -> None:
        L = EDGES.laplacian(weights_of(kind))
        omega = UnitAtoms().weights(DenseHeat.from_laplacian(L), np.array(tau))
        expected = np.array([np.linalg.norm(expm(-t * L), axis=0) for t in tau])
        np.testing.assert_allclose(omega, expected, rtol=1e-11)

    def test_gradient_in_the_graph(
        self, kind: str, tau: tuple[float, ...], rng: np.random.Generator
    ) -> None:
        w, t, c = weights_of(kind), np.array(tau), rng.exponential(size=(len(tau), N))
        kernel = DenseHeat.from_laplacian(EDGES.laplacian(w))
        traces = UnitAtoms().traces(kernel, t, UnitAtoms().weights(kernel, t), c)
        assert traces is not None
        K = kernel.power_trace_slopes(t, traces)
        g = EDGES.adjoint(kernel.U @ K @ kernel.U.T)
        # A fourth-order difference; steps that the fastest mode, tau = 1e3, still resolves.
        h = 1e-3 / max(1.0, t.max())
        for e in range(EDGES.n_edges):
            f = [
                penalty_by_expm(EDGES.laplacian(w + k * h * np.eye(w.size)[e]), t, c)
                for k in (-2, -1, 1, 2)
            ]
            slope = (f[0] - 8.0 * f[1] + 8.0 * f[2] - f[3]) / (12.0 * h)
            assert g[e] == pytest.approx(slope, rel=1e-6, abs=1e-8 * max(1.0, t.max()))

    def test_gradient_in_the_scales(
        self, kind: str, tau: tuple[float, ...], rng: np.random.Generator
    ) -> None:
        L, t, c = EDGES.laplacian(weights_of(kind)), np.array(tau), rng.exponential(size=(3, N))
        c = c[: t.size]
        kernel = DenseHeat.from_laplacian(L)
        g = UnitAtoms().gradient_tau(kernel, t, UnitAtoms().weights(kernel, t), c)
        h = 1e-3
        for s in range(t.size):
            step = h * np.eye(t.size)[s]
            f = [penalty_by_expm(L, t + k * step, c) for k in (-2, -1, 1, 2)]
            slope = (f[0] - 8.0 * f[1] + 8.0 * f[2] - f[3]) / (12.0 * h)
            assert g[s] == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_heat_that_has_not_moved_costs_one() -> None:
    kernel = DenseHeat.from_laplacian(EDGES.laplacian(weights_of("random")))
    np.testing.assert_allclose(UnitAtoms().weights(kernel, np.zeros(2)), 1.0, rtol=1e-14)


def test_raw_atoms_cost_one_and_have_no_slope(rng: np.random.Generator) -> None:
    kernel = DenseHeat.from_laplacian(EDGES.laplacian(weights_of("random")))
    tau, c = np.array([0.5, 3.0]), rng.exponential(size=(2, N))
    omega = RawAtoms().weights(kernel, tau)
    np.testing.assert_array_equal(omega, np.ones((2, N)))
    assert RawAtoms().traces(kernel, tau, omega, c) is None
    np.testing.assert_array_equal(RawAtoms().gradient_tau(kernel, tau, omega, c), 0.0)


def test_atoms_by_name() -> None:
    assert isinstance(ATOMS["raw"], RawAtoms)
    assert isinstance(ATOMS["unit"], UnitAtoms)
