"""Any kernel by eigenvectors: that of heat again, gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest

from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels.eigen import DenseHeat, DenseKernel, dense_kernel
from heatgraph.kernels.spectral import KERNELS, MaternKernel
from heatgraph.models.heat import ATOMS, HeatObjective, Signals

N, M = 6, 5
TAU = np.array([0.4, 1.7])
TESTED = {**KERNELS, "rough": MaternKernel(0.7)}


@pytest.fixture
def L():
    rng = np.random.default_rng(0)
    return CandidateEdges.complete(N).laplacian(rng.random(15) * (rng.random(15) < 0.6))


def test_heat_is_one_of_them(L):
    own, general = DenseHeat.from_laplacian(L), dense_kernel(L, KERNELS["heat"])
    assert isinstance(general, DenseKernel)
    assert not isinstance(dense_kernel(L, None), DenseKernel)
    P = np.random.default_rng(1).standard_normal((2, N, N))
    for name in ("decay", "powers", "slopes_in_tau", "power_slopes_in_tau", "gram"):
        assert getattr(general, name)(TAU) == pytest.approx(getattr(own, name)(TAU), abs=1e-12)
    for name in ("trace_slopes", "power_trace_slopes"):
        expected = getattr(own, name)(TAU, P)
        assert getattr(general, name)(TAU, P) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", TESTED)
def test_operators_are_functions_of_the_matrix(L, name):
    """Through the powers of ``g`` on a matrix with known eigenvectors."""
    general, g = dense_kernel(L, TESTED[name]), TESTED[name]
    lam, U = np.linalg.eigh(L)
    E = [(U * g.value(np.maximum(lam, 0.0), t)) @ U.T for t in TAU.tolist()]
    D = np.hstack(E)
    assert general.atoms(TAU) == pytest.approx(D)
    assert general.gram(TAU) == pytest.approx(D.T @ D)
    assert ATOMS["unit"].weights(general, TAU).ravel() == pytest.approx(np.linalg.norm(D, axis=0))


@pytest.mark.parametrize("atoms", ["raw", "unit"])
@pytest.mark.parametrize("name", TESTED)
@pytest.mark.parametrize("tau", [TAU, np.array([0.0, 1.7])], ids=["apart", "zero"])
def test_gradients_of_the_objective(name, atoms, tau):
    rng = np.random.default_rng(2)
    candidates = CandidateEdges.complete(N)
    w, H = rng.random(15), rng.standard_normal((M, 2 * N))
    X = rng.standard_normal((N, M))
    X[0, 0] = np.nan
    signals = Signals.from_missing(X)
    objective = HeatObjective(candidates, 0.3, 0.2, ATOMS[atoms], TESTED[name])

    def value(w, tau):
        D = objective.dictionary(w, tau)
        return objective.value(D, w, objective.moments(D, signals, H))

    D = objective.dictionary(w, tau)
    moments = objective.moments(D, signals, H)
    h = 1e-5
    by_w = [(value(w + h * e, tau) - value(w - h * e, tau)) / (2 * h) for e in np.eye(15)]
    gradient = objective.evaluate(D, w, moments)[1]
    assert gradient[:15] == pytest.approx(np.array(by_w), abs=1e-5)
    # One-sided where a scale is 0: it cannot be less.
    ahead = [
        (4 * value(w, tau + h * e) - value(w, tau + 2 * h * e) - 3 * value(w, tau)) / (2 * h)
        for e in np.eye(2)
    ]
    assert gradient[15:] == pytest.approx(np.array(ahead), abs=1e-4)
