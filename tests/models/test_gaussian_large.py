import numpy as np
import pytest

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph import CandidateEdges
from heatgraph.kernels.probing import Probes, probing_vectors
from heatgraph.kernels.sparse_laplacian import EdgeLayout, from_blocks, to_blocks
from heatgraph.kernels.spectral import KERNELS
from heatgraph.models.gaussian import GaussianHeat, HeatSpectrum, LogPenalty
from heatgraph.models.gaussian_large import (
    BlockSignals,
    LargeGaussianHeat,
    StartPrior,
    fit_spectrum,
)
from heatgraph.models.moments import condition, log_likelihoods
from heatgraph.models.sparse_heat import HeatOperator, SparseHeat
from heatgraph.solvers.gaussian import shrunk

N, RHO = 60, 0.01


@pytest.fixture(scope="module")
def signals():
    graph = make_graph("geometric", N, random_state=0)
    X, _ = make_heat_signals(graph, [2.0], 150, N, noise_std=0.05, random_state=0)
    return graph, X


def point_of(graph, n_scales, rng):
    pairs = CandidateEdges.complete(N)
    w = 2.0 * graph.adjacency().toarray()[pairs.i, pairs.j] + 0.01 * rng.random(pairs.n_edges)
    others = {1: [np.log(0.3), np.log(3e-3)], 2: [np.log(0.3), np.log(0.7), -0.7, np.log(3e-3)]}
    return pairs, np.concatenate([w, others[n_scales]])


def exact_probes():
    return Probes(np.arange(N), np.ones(N))


@pytest.mark.parametrize("kernel", ["heat", "matern"])
@pytest.mark.parametrize("n_scales", [1, 2])
def test_value_gradient_and_information_are_those_of_eigenvectors(signals, n_scales, kernel):
    graph, X = signals
    pairs, x = point_of(graph, n_scales, np.random.default_rng(1))
    layout = EdgeLayout.of(pairs)
    g = KERNELS[kernel]
    blocks = BlockSignals.of(X, layout, 2)
    large = LargeGaussianHeat(layout, blocks, exact_probes(), n_scales, RHO, kernel=g)
    dense = GaussianHeat(pairs, shrunk(X.T @ X / len(X), RHO), n_scales, kernel=g).at(x)
    sparse = large.at(x)
    assert sparse.value == pytest.approx(dense.value, rel=1e-6)
    error = np.abs(sparse.gradient - dense.gradient).max()
    assert error < 1e-6 * np.abs(dense.gradient).max()
    np.testing.assert_allclose(sparse.diagonal, dense.diagonal, rtol=1e-2)


def test_single_precision_is_far_below_the_sampling_error(signals):
    graph, X = signals
    pairs, x = point_of(graph, 1, np.random.default_rng(1))
    layout = EdgeLayout.of(pairs)
    double = LargeGaussianHeat(layout, BlockSignals.of(X, layout), exact_probes()).at(x)
    blocks = BlockSignals.of(X, layout, dtype=np.float32)
    single = LargeGaussianHeat(layout, blocks, exact_probes(), dtype=np.float32).at(x)
    assert single.value == pytest.approx(double.value, abs=1e-4)
    sampling_error = np.sqrt(2.0 * double.diagonal / len(X))
    assert np.abs((single.gradient - double.gradient) / sampling_error).max() < 1e-3
    np.testing.assert_allclose(single.diagonal, double.diagonal, rtol=1e-3)


def test_gradient_is_that_of_the_probed_value_with_penalties(signals):
    graph, X = signals
    rng = np.random.default_rng(2)
    pairs, x = point_of(graph, 2, rng)
    layout = EdgeLayout.of(pairs)
    strong = x[: pairs.n_edges] * (x[: pairs.n_edges] > 0.1)
    probes = probing_vectors(pairs, strong, 2, 20, rng)
    terms = (
        StartPrior(strong, 0.3, 150.0),
        LogPenalty(2.0, np.full(pairs.n_edges, 0.1), 150.0),
    )
    problem = LargeGaussianHeat(layout, BlockSignals.of(X, layout), probes, 2, RHO, terms)
    d = rng.standard_normal(x.size)
    d[: pairs.n_edges] *= strong > 0.0
    h = 1e-6
    slope = (problem.at(x + h * d).value - problem.at(x - h * d).value) / (2.0 * h)
    assert problem.at(x).gradient @ d == pytest.approx(slope, rel=1e-5)


def test_spectrum_of_a_known_graph_is_found(signals):
    graph, X = signals
    edges = np.sort(graph.edges, axis=1)
    pairs = CandidateEdges(N, edges[:, 0].copy(), edges[:, 1].copy())
    layout = EdgeLayout.of(pairs)
    problem = LargeGaussianHeat(layout, BlockSignals.of(X, layout), exact_probes())
    x = np.concatenate([0.3 * graph.weights, [0.0, np.log(0.5)]])
    found, value = fit_spectrum(problem, x)
    stretch = found[0] / graph.weights[0]
    assert stretch == pytest.approx(2.0, rel=0.05)  # the scale
    assert np.exp(0.5 * found[-1]) == pytest.approx(0.05, rel=0.1)
    assert value <= problem.at(x).value
    assert problem.at(found).value == pytest.approx(value, rel=1e-4)


def test_signals_survive_the_way_to_blocks_and_back():
    rng = np.random.default_rng(3)
    X, order = rng.standard_normal((11, 7)), rng.permutation(7)
    np.testing.assert_array_equal(from_blocks(to_blocks(X, order), order, 11), X)


@pytest.fixture(scope="module")
def heat(signals):
    graph, _ = signals
    edges = np.sort(graph.edges, axis=1)
    pairs = CandidateEdges(N, edges[:, 0].copy(), edges[:, 1].copy())
    spectrum = HeatSpectrum(np.array([0.5, 0.2]), np.array([0.7, 2.0]), 1e-3)
    lam, U = np.linalg.eigh(graph.laplacian().toarray())
    C = (U * spectrum.values(np.maximum(lam, 0.0))) @ U.T
    return SparseHeat(pairs, graph.weights, spectrum, 2), C, (lam, U)


def test_products_are_those_of_the_covariance(heat, signals):
    model, C, _ = heat
    X = signals[1][:5]
    np.testing.assert_allclose(model.covariance_times(X), X @ C, atol=1e-7)
    np.testing.assert_allclose(model.precision_times(X) @ C, X, atol=1e-5)
    np.testing.assert_allclose(model.root_times(model.root_times(X)), X @ C, atol=1e-7)
    operator = HeatOperator(model, inverse=False)
    np.testing.assert_allclose(operator @ X[0], C @ X[0], atol=1e-7)
    np.testing.assert_allclose(operator @ X.T, C @ X.T, atol=1e-7)


def test_likelihood_is_that_of_the_multivariate_normal(heat, signals):
    model, C, _ = heat
    X = signals[1][:5]
    exact = log_likelihoods(X, np.zeros(N), C)
    # The log-determinant is by probing vectors: exact enough to compare models by.
    np.testing.assert_allclose(model.log_likelihoods(X), exact, atol=0.02 * N)
    apart = model.log_likelihoods(X) - exact
    np.testing.assert_allclose(apart, apart[0], atol=1e-4)


def test_missing_entries_and_their_deviations_are_conditional(heat, signals):
    model, C, _ = heat
    X = signals[1][:6].copy()
    X[:, ::5] = np.nan
    X[0] = np.nan
    filled, std = model.filled(X), model.standard_deviations(X)
    for part in condition(X, np.zeros(N), C):
        where = np.ix_(part.rows, part.missing)
        np.testing.assert_allclose(filled[where], part.mean, atol=1e-4)
        exact = np.sqrt(np.diag(part.covariance))
        if part.missing.size < N:
            np.testing.assert_allclose(std[where], np.tile(exact, (part.rows.size, 1)), rtol=0.05)
    seen = ~np.isnan(X)
    np.testing.assert_array_equal(filled[seen], X[seen])
    assert not std[seen].any()


@pytest.mark.parametrize("missing", [slice(40, 80), slice(0, 300, 3), slice(0, 290)])
def test_deviations_hold_on_a_long_path_too(missing):
    n = 300
    pairs = CandidateEdges(n, np.arange(n - 1), np.arange(1, n))
    spectrum = HeatSpectrum(np.array([1.0]), np.array([2.0]), 1e-3)
    L = pairs.laplacian(np.ones(n - 1))
    lam, U = np.linalg.eigh(L)
    C = (U * spectrum.values(np.maximum(lam, 0.0))) @ U.T
    X = np.zeros((1, n))
    X[0, missing] = np.nan
    std = SparseHeat(pairs, np.ones(n - 1), spectrum).standard_deviations(X)
    (part,) = condition(X, np.zeros(n), C)
    exact = np.sqrt(np.diag(part.covariance))
    np.testing.assert_allclose(std[0, part.missing], exact, rtol=0.02)


def test_sources_and_their_diffusion(heat, signals):
    model, C, (lam, U) = heat
    X = signals[1][:4]
    H = model.sources(X)
    for s, (v, tau) in enumerate(zip(model.spectrum.v, model.spectrum.tau, strict=True)):
        E = (U * np.exp(-tau * lam)) @ U.T
        np.testing.assert_allclose(H[:, s], v * np.linalg.solve(C, X.T).T @ E, atol=1e-4)
    smooth = [(U * np.exp(-t * lam)) @ U.T for t in model.spectrum.tau]
    expected = sum(H[:, s] @ E for s, E in enumerate(smooth))
    np.testing.assert_allclose(model.diffused(H), expected, atol=1e-6)
