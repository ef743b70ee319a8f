"""The objective of LearnHeat and its gradients, against matrix exponentials and differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import expm

from heatgraph.graph.candidates import CandidateEdges
from heatgraph.models.heat import ATOMS, Dictionary, HeatObjective, Moments, Signals, spread

Array = NDArray[np.float64]
N, M = 6, 4
ALPHA, BETA = 0.3, 0.2


def rows_of(H: Array) -> Array:
    """Sources (S, N, M) as codes, one row per signal."""
    return np.ascontiguousarray(H.transpose(2, 0, 1)).reshape(H.shape[2], -1)


@dataclass(frozen=True)
class Case:
    """A point away from any optimum, with NaN where the signals are not observed."""

    objective: HeatObjective
    X: Array
    w: Array
    H: Array
    tau: Array

    @property
    def signals(self) -> Signals:
        return Signals.from_missing(self.X)

    @property
    def unit(self) -> bool:
        return self.objective.atoms is ATOMS["unit"]

    def dictionary(self) -> Dictionary:
        return self.objective.dictionary(self.w, self.tau)

    def moments(self, D: Dictionary) -> Moments:
        return self.objective.moments(D, self.signals, rows_of(self.H))

    def gradient(self) -> Array:
        """In the weights, then the scales."""
        D = self.dictionary()
        return self.objective.evaluate(D, self.w, self.moments(D))[1]

    def by_expm(
        self, w: Array | None = None, H: Array | None = None, tau: Array | None = None
    ) -> float:
        """The objective as the formula says it; ``w`` may leave the valid set."""
        w, H, tau = (
            own if given is None else given
            for own, given in ((self.w, w), (self.H, H), (self.tau, tau))
        )
        L = self.objective.candidates.laplacian(w)
        E = [expm(-t * L) for t in tau]
        residual = self.X - sum(e @ h for e, h in zip(E, H, strict=True))
        omega = [np.linalg.norm(e, axis=0) if self.unit else np.ones(N) for e in E]
        l1 = sum(o @ np.abs(h).sum(axis=1) for o, h in zip(omega, H, strict=True))
        return float(np.nansum(residual**2) + ALPHA * l1 + BETA * np.sum(L**2))


def slope(f: list[float], h: float) -> float:
    """A derivative of fourth order from values at -2h, -h, h, 2h."""
    return (f[0] - 8.0 * f[1] + 8.0 * f[2] - f[3]) / (12.0 * h)


STENCIL = (-2, -1, 1, 2)


def make_weights(kind: str, edges: CandidateEdges) -> Array:
    hop = (edges.j - edges.i) % N
    w = {
        "random": np.random.default_rng(1).exponential(size=edges.n_edges),
        "uniform": np.ones(edges.n_edges),
        "ring": np.isin(hop, (1, N - 1)).astype(np.float64),
        "two parts": ((edges.i < 2) == (edges.j < 2)).astype(np.float64),
        "one edge": np.eye(edges.n_edges)[0],  # zero is an eigenvalue N - 1 times
    }[kind]
    return np.asarray(w * (0.5 * N / w.sum()))


def make_case(kind: str, tau: tuple[float, ...], atoms: str, missing: bool) -> Case:
    rng = np.random.default_rng(2)
    edges = CandidateEdges.complete(N)
    X, H = rng.normal(size=(N, M)), rng.normal(size=(len(tau), N, M))
    if missing:
        X[rng.uniform(size=X.shape) < 0.3] = np.nan
        X[:, 0] = rng.normal(size=N)  # one signal whole
        X[:, 1] = np.nan  # one not observed at all
    objective = HeatObjective(edges, ALPHA, BETA, ATOMS[atoms])
    return Case(objective, X, make_weights(kind, edges), H, np.array(tau))


@pytest.fixture(params=["random", "uniform", "ring", "two parts", "one edge"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[(0.8,), (0.0, 2.5), (0.3, 3.0, 1e3)], ids=["S=1", "S=2", "S=3"])
def tau(request: pytest.FixtureRequest) -> tuple[float, ...]:
    return tuple(request.param)


@pytest.fixture(params=["raw", "unit"])
def atoms(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["whole", "missing"])
def case(request: pytest.FixtureRequest, kind: str, tau: tuple[float, ...], atoms: str) -> Case:
    return make_case(kind, tau, atoms, request.param)


class TestGradients:
    def test_value(self, case: Case) -> None:
        D = case.dictionary()
        moments = case.moments(D)
        value = case.objective.value(D, case.w, moments)
        assert value == pytest.approx(case.by_expm(), rel=1e-11)
        assert case.objective.evaluate(D, case.w, moments)[0] == value

    def test_weights(self, case: Case) -> None:
        g = case.gradient()[: case.w.size]
        # The steps resolve the largest tau; the bound is relative to the largest slope.
        h = 1e-3 / max(1.0, case.tau.max())
        units = np.eye(case.w.size)
        expected = np.array(
            [slope([case.by_expm(w=case.w + k * h * u) for k in STENCIL], h) for u in units]
        )
        np.testing.assert_allclose(g, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())

    def test_scales(self, case: Case) -> None:
        g = case.gradient()[case.w.size :]
        h = 1e-3
        units = np.eye(case.tau.size)
        expected = [
            slope([case.by_expm(tau=case.tau + k * h * u) for k in STENCIL], h) for u in units
        ]
        np.testing.assert_allclose(g, expected, rtol=1e-6, atol=1e-9 * case.by_expm())


class TestDictionary:
    def test_adjoint_of_the_synthesis(self, case: Case, rng: np.random.Generator) -> None:
        D, R = case.dictionary(), rng.normal(size=(N, M))
        h = rows_of(case.H)
        forward = np.vdot(D.synthesis(h), R.T)
        correlations = D.correlations(R.T @ D.kernel.U)
        assert np.vdot(correlations, h) == pytest.approx(forward, rel=1e-11)
        atoms = D.kernel.atoms(case.tau)
        np.testing.assert_allclose(correlations, R.T @ atoms, atol=1e-12)
        np.testing.assert_allclose(D.synthesis(h), h @ atoms.T, atol=1e-12)
        assert D.n_atoms == atoms.shape[1]


class TestSpread:
    def test_value_and_gradient(self, rng: np.random.Generator) -> None:
        case = make_case("random", (1.0,), "raw", False)
        w = rng.normal(size=case.w.size)
        value, gradient = spread(case.objective.candidates, case.objective.beta, w)
        L = case.objective.candidates.laplacian(w)
        assert value == pytest.approx(BETA * np.sum(L**2), rel=1e-13)
        np.testing.assert_allclose(
            gradient, 2.0 * BETA * case.objective.candidates.adjoint(L), rtol=1e-12, atol=1e-13
        )

    def test_total_gives_the_trace(self) -> None:
        case = make_case("random", (1.0,), "raw", False)
        assert case.w.sum() == pytest.approx(case.objective.total)
        assert np.trace(case.objective.candidates.laplacian(case.w)) == pytest.approx(N)


class TestSignals:
    def test_whole_signals_have_no_mask(self, rng: np.random.Generator) -> None:
        X = rng.normal(size=(N, M))
        signals = Signals.from_missing(X)
        assert signals.observed is None
        np.testing.assert_allclose(signals.energy, np.sum(X**2, axis=0))

    def test_missing_entries_weigh_nothing(self, rng: np.random.Generator) -> None:
        X = rng.normal(size=(N, M))
        X[2, 1] = X[3, 0] = np.nan
        signals = Signals.from_missing(X)
        assert signals.observed is not None
        np.testing.assert_array_equal(signals.observed, ~np.isnan(X))
        np.testing.assert_allclose(signals.energy, np.nansum(X**2, axis=0))
        assert np.isnan(X[2, 1])  # the caller's array is not written

    def test_a_mask_that_hides_nothing_changes_nothing(self) -> None:
        case = make_case("random", (0.5, 2.0), "unit", False)
        D = case.dictionary()
        whole = case.objective.moments(D, Signals(case.X), rows_of(case.H))
        masked = Signals(case.X, np.ones(case.X.shape, dtype=bool))
        seen = case.objective.moments(D, masked, rows_of(case.H))
        assert seen.fit == pytest.approx(whole.fit, rel=1e-12)
        np.testing.assert_allclose(seen.P, whole.P, atol=1e-12)
