"""Fits of heat from Gaussian sources: stationary, no worse than scipy's, from whatever start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph import CandidateEdges
from heatgraph.kernels.spectral import KERNELS
from heatgraph.models.gaussian import GaussianHeat, LogPenalty
from heatgraph.models.moments import Moments
from heatgraph.solvers.gaussian import GaussianFitter, shrunk
from heatgraph.solvers.result import Status


def moment(family, N, M, noise=0.05, scales=(2.0,), seed=None):
    """In units of its mean variance; the unit second."""
    seed = N if seed is None else seed
    graph = make_graph(family, N, random_state=seed)
    X, _ = make_heat_signals(graph, scales, M, n_sources=N, noise_std=noise, random_state=seed)
    moments = Moments.of(X)
    S = moments.around(moments.mean)
    unit = float(np.trace(S)) / N
    return S / unit, unit


def fitter(N, S=1, tol=1e-7, **more):
    return GaussianFitter(CandidateEdges.complete(N), S, tol, 1000, **more)


def by_scipy(problem, x):
    def both(y):
        point = problem.at(y)
        return point.value, point.gradient

    bounds = list(zip(*np.clip(problem.bounds, -60.0, 60.0), strict=True))
    options = {"maxiter": 5000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-9}
    return minimize(both, x, jac=True, bounds=bounds, method="L-BFGS-B", options=options)


class TestLikeliest:
    @pytest.mark.parametrize("scales", [(2.0,), (1.0, 4.0)])
    @pytest.mark.parametrize(("family", "N", "M"), [("er", 8, 300), ("ba", 6, 40), ("rbf", 10, 9)])
    def test_is_no_worse_than_scipys(self, family, N, M, scales):
        S = shrunk(moment(family, N, M, scales=scales)[0], 0.01)
        # Scales trade against each other, and a residual scaled by the diagonal does not see it.
        fit = fitter(N, len(scales), tol=1e-8 if len(scales) == 1 else 1e-10)
        found = fit.likeliest(S, fit.start(S, M))
        assert found.status is Status.CONVERGED
        assert found.residual <= fit.tol
        # From its own end scipy finds nothing better: the fit is stationary.
        scipy = by_scipy(found.point.problem, found.x)
        assert found.point.value <= scipy.fun + 1e-5

    def test_never_rises(self):
        S, _ = moment("er", 8, 100)
        fit = fitter(8)
        found = fit.likeliest(S, fit.start(S, 100))
        assert (np.diff(found.history) < 0.0).all()
        assert found.n_iter == len(found.history) - 1

    @pytest.mark.parametrize(
        ("family", "N", "M"), [("er", 8, 50), ("er", 12, 300), ("ba", 8, 300), ("rbf", 10, 200)]
    )
    def test_the_start_is_not_beaten_by_random_ones(self, family, N, M):
        """With more signals than nodes; with fewer, optima with and without noise compete."""
        S = shrunk(moment(family, N, M)[0], 1e-3)
        fit, rng = fitter(N), np.random.default_rng(0)
        usual = fit.likeliest(S, fit.start(S, M)).point.value
        E = fit.candidates.n_edges
        for _ in range(4):
            w = rng.exponential(rng.choice([0.05, 0.3, 1.0]), E) * (rng.random(E) < 0.7)
            x = np.concatenate([w, rng.normal(size=1), [np.log(10.0 ** rng.uniform(-5, -0.3))]])
            random = fit.likeliest(S, x).point.value
            assert 0.5 * (usual - random) < 1e-3  # nats per signal

    # Signals so few that noise and light weights explain them alike: the first start alone ends up
    # to 0.2 above random ones.
    @pytest.mark.parametrize(
        ("family", "M", "seed"), [("ba", 8, 4001), ("rbf", 8, 4002), ("ba", 30, 4000)]
    )
    def test_with_few_signals_a_start_with_low_noise_is_not_beaten(self, rng, family, M, seed):
        N = 20
        S = shrunk(moment(family, N, M, noise=0.0, seed=seed)[0], 0.1)
        fit = fitter(N, tol=1e-5)
        first = fit.likeliest(S, fit.start(S, M))
        found = fit.from_low_noise(first)
        assert found.point.value < first.point.value - 0.01
        for _ in range(4):
            x = first.x.copy()
            x[: fit.candidates.n_edges] = rng.exponential(0.1, fit.candidates.n_edges)
            x[-2:] = rng.uniform(0.0, 3.0), np.log(10.0) * rng.uniform(-5.0, -0.5)
            assert found.point.value <= fit.likeliest(S, x).point.value + 1e-3

    @pytest.mark.parametrize("family", ["er", "ba", "rbf"])
    def test_permuting_the_nodes_permutes_the_weights(self, rng, family):
        S = shrunk(moment(family, 7, 60)[0], 0.01)
        order, fit = rng.permutation(7), fitter(7, tol=1e-10)
        one = fit.likeliest(S, fit.start(S, 60))
        permuted = S[np.ix_(order, order)]
        other = fit.likeliest(permuted, fit.start(permuted, 60))
        assert other.point.value == pytest.approx(one.point.value, abs=1e-6)
        L = fit.candidates.laplacian(one.point.w)[np.ix_(order, order)]
        np.testing.assert_allclose(fit.candidates.laplacian(other.point.w), L, atol=2e-3)


class TestStart:
    def test_is_exact_where_there_is_hardly_any_noise(self):
        """A covariance of heat on a graph is turned into that graph."""
        graph = make_graph("er", 9, random_state=3)
        L = graph.laplacian().toarray()
        lam, U = np.linalg.eigh(L)
        C = (U * np.exp(-2.0 * 0.5 * lam)) @ U.T
        fit = fitter(9)
        x = fit.start(C, 1e9)
        problem = GaussianHeat(fit.candidates, C)
        assert np.corrcoef(x[: fit.candidates.n_edges], -L[np.triu_indices(9, 1)])[0, 1] > 0.95
        assert problem.at(x).value - fit.likeliest(C, x).point.value < 0.5

    def test_of_waves_is_before_the_zero(self):
        """Heat that went far starts at frequencies where a cosine has changed its sign."""
        L = 9.0 * make_graph("er", 9, random_state=3).laplacian().toarray()
        lam, U = np.linalg.eigh(L)
        C = (U * np.exp(-2.0 * lam)) @ U.T
        pairs = CandidateEdges.complete(9)

        def largest(fit):
            return np.linalg.eigvalsh(pairs.laplacian(fit.start(C, 1e9)[: pairs.n_edges]))[-1]

        assert largest(fitter(9, kernel=KERNELS["wave"])) < 0.25 * np.pi**2 < largest(fitter(9))

    @pytest.mark.parametrize("S", [1, 2, 3])
    def test_of_a_moment_of_rank_one_is_finite(self, rng, S):
        a = rng.normal(size=5)
        assert np.isfinite(fitter(5, S).start(np.outer(a, a), 1.0)).all()


@pytest.fixture(scope="module")
def case():
    """A moment, a fitter, the likeliest fit."""
    S, _ = moment("er", 10, 300, seed=1)
    fit = fitter(10)
    return S, fit, fit.likeliest(S, fit.start(S, 300))


class TestStages:
    def test_a_penalty_makes_weights_zero(self, case):
        S, fit, likeliest = case
        found = [fit.sparse(S, 300, c, likeliest) for c in (1.0, 3.0)]
        n = [int((one.point.w > 0.0).sum()) for one in (likeliest, *found)]
        assert n[0] > n[1] > n[2]
        for one in found:
            assert one.status is Status.CONVERGED
            assert isinstance(one.point.problem.penalty, LogPenalty)
            scipy = by_scipy(one.point.problem, one.x)
            assert one.point.value <= scipy.fun + 1e-5

    def test_relaxed_is_the_likeliest_on_what_was_kept(self, case):
        S, fit, likeliest = case
        sparse = fit.sparse(S, 300, 3.0, likeliest)
        relaxed = fit.relaxed(S, sparse)
        assert relaxed.point.problem.penalty is None
        assert relaxed.point.problem.n_edges == (sparse.point.w > 0.0).sum()
        assert relaxed.point.value <= sparse.point.misfit(S) + 1e-9
        assert relaxed.point.value >= likeliest.point.value - 1e-4

    @pytest.mark.parametrize("seed", [0, 2])
    def test_relaxed_tells_two_scales_apart(self, seed):
        """Where edges are known; with every pair a candidate one scale fits as well as two."""
        S, _ = moment("er", 20, 1000, noise=0.02, scales=(1.0, 4.0), seed=seed)
        ends = []
        for n_scales in (1, 2):
            fit = fitter(20, n_scales, tol=1e-5)
            sparse = fit.sparse(S, 1000, 3.0, fit.likeliest(S, fit.start(S, 1000)))
            ends.append(fit.relaxed(S, sparse).point)
        assert ends[1].spectrum.tau[0] == pytest.approx(0.25, abs=0.12)
        assert 500.0 * (ends[0].value - ends[1].value) > 5.0  # nats, for two parameters more

    def test_ctrl_c_ends_every_stage(self, case):
        S, fit, likeliest = case

        def stop(state):
            raise KeyboardInterrupt

        stopped = replace(fit, report=stop)
        sparse = stopped.sparse(S, 300, 2.0, likeliest)
        assert sparse.status is Status.INTERRUPTED
        assert stopped.relaxed(S, sparse).status is Status.INTERRUPTED
        assert stopped.likeliest(S, likeliest.x).point.value == pytest.approx(likeliest.point.value)


@pytest.mark.parametrize(("family", "N"), [("er", 20), ("ba", 20), ("rbf", 20)])
def test_scales_and_noise_within_five_percent_at_2000_signals(family, N):
    S, unit = moment(family, N, 2000, noise=0.1, seed=1)
    fit = fitter(N, tol=1e-6)
    sparse = fit.sparse(S, 2000, 3.0, fit.likeliest(S, fit.start(S, 2000)))
    point = fit.relaxed(S, sparse).point
    tau = 2.0 * point.w.sum() / N * point.spectrum.tau[0]  # in a graph of trace N
    assert tau == pytest.approx(2.0, rel=0.05)
    assert point.spectrum.sigma2 * unit == pytest.approx(0.01, rel=0.05)
    assert point.spectrum.v[0] * unit == pytest.approx(1.0, rel=0.05)


def test_shrunk_keeps_the_trace(rng):
    A = rng.normal(size=(4, 4))
    S = A @ A.T
    np.testing.assert_allclose(shrunk(S, 0.3), 0.7 * S + 0.3 * np.trace(S) / 4 * np.eye(4))
