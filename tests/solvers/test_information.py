"""Standard errors and tests of edges: against inverses, and against refits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph import CandidateEdges, Graph
from heatgraph.models.moments import Moments
from heatgraph.solvers.gaussian import GaussianFitter
from heatgraph.solvers.information import edge_tests

N, M = 6, 400


def every_pair(n=N):
    return np.stack(np.triu_indices(n, 1), axis=1)


@pytest.fixture(scope="module")
def truth():
    pairs = np.array([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5)])
    return Graph(pairs, np.array([0.5, 1.0, 0.7, 0.4, 0.6, 0.8]) * N / 8.0, N)


@pytest.fixture(scope="module")
def moment(truth):
    X, _ = make_heat_signals(truth, (1.0,), M, n_sources=N, noise_std=0.1, random_state=0)
    moments = Moments.of(X)
    S = moments.around(moments.mean)
    return S * N / np.trace(S)


@pytest.fixture(scope="module")
def fitter():
    return GaussianFitter(CandidateEdges.complete(N), tol=1e-9)


class TestWald:
    def test_standard_errors_by_the_inverse(self, fitter, moment, truth):
        """Of normalised weights, with slopes by finite differences."""
        table = edge_tests(fitter, moment, M, truth, truth.edges)
        pairs = CandidateEdges(N, truth.edges[:, 0].copy(), truth.edges[:, 1].copy())
        fit = GaussianFitter(pairs, tol=1e-9)
        point = fit.likeliest(moment, fit.start(moment, M)).point
        F = np.stack([point.information(d) for d in np.eye(point.x.size)])
        covariance = np.linalg.inv(0.5 * M * F)
        raw = np.sqrt(np.diag(covariance))[: pairs.n_edges]
        np.testing.assert_allclose(table["z"], point.w / raw, rtol=1e-3)

        def normalised(w):
            return 0.5 * N * w / w.sum()

        h = 1e-6 * np.eye(pairs.n_edges)
        J = np.stack([(normalised(point.w + d) - normalised(point.w - d)) / 2e-6 for d in h], 1)
        within = covariance[: pairs.n_edges, : pairs.n_edges]
        np.testing.assert_allclose(
            table["standard_error"], np.sqrt(np.diag(J @ within @ J.T)), rtol=1e-3
        )
        np.testing.assert_allclose(table["weight"], normalised(point.w), rtol=1e-3)
        np.testing.assert_allclose(table["p_value"], norm.sf(table["z"]))

    def test_errors_shrink_with_the_root_of_the_signals(self, fitter, moment, truth):
        one, other = (edge_tests(fitter, moment, m, truth, truth.edges) for m in (M, 4 * M))
        np.testing.assert_allclose(one["standard_error"], 2.0 * other["standard_error"], rtol=1e-2)


class TestScore:
    def test_is_the_likelihood_ratio_of_a_refit(self, fitter, moment, truth):
        """For a small effect ``z^2`` is twice the gain in log-likelihood of adding the edge."""
        asked = np.array([(0, 2), (1, 4), (2, 5), (0, 3), (1, 3), (3, 5)])
        table = edge_tests(fitter, moment, M, truth, asked)
        assert (table["weight"] == 0.0).all()
        assert table["standard_error"].isna().all()

        def value(edges):
            edges = np.array(sorted(map(tuple, edges)))
            pairs = CandidateEdges(N, edges[:, 0].copy(), edges[:, 1].copy())
            fit = GaussianFitter(pairs, tol=1e-9)
            return fit.likeliest(moment, fit.start(moment, M)).point.value

        before = value(truth.edges)
        for pair, z in zip(asked, table["z"], strict=True):
            ratio = M * (before - value([*truth.edges, pair]))
            if z > 0.0:
                assert ratio == pytest.approx(z**2, rel=0.25, abs=0.05)
            else:  # it would have a negative weight, and gets none
                assert ratio == pytest.approx(0.0, abs=1e-3)

    def test_finds_an_edge_that_was_left_out(self, fitter, moment, truth):
        without = Graph(truth.edges[1:], truth.weights[1:], N)
        table = edge_tests(fitter, moment, M, without, every_pair())
        assert int(table["z"].where(table["weight"] == 0.0).idxmax()) == 0  # the pair (0, 1)
        assert table["p_value"].iloc[0] < 1e-6

    def test_of_a_graph_without_edges(self, fitter, moment):
        empty = Graph(np.empty((0, 2), dtype=int), np.empty(0), N)
        table = edge_tests(fitter, moment, M, empty, every_pair())
        assert np.isfinite(table[["weight", "z", "p_value"]].to_numpy()).all()


@pytest.mark.slow
def test_p_values_of_absent_edges_are_uniform_and_z_scores_standard():
    graph = make_graph("er", 10, random_state=0)
    absent = np.array([p for p in every_pair(10) if tuple(p) not in set(map(tuple, graph.edges))])
    fitter, p, z = GaussianFitter(CandidateEdges.complete(10), tol=1e-6), [], []
    for seed in range(60):
        X, _ = make_heat_signals(graph, (1.0,), 500, n_sources=10, noise_std=0.1, random_state=seed)
        moments = Moments.of(X)
        S = moments.around(moments.mean)
        S *= 10 / np.trace(S)
        p.append(edge_tests(fitter, S, 500, graph, absent)["p_value"])
        table = edge_tests(fitter, S, 500, graph, graph.edges)
        z.append(
            (table["weight"] - graph.weights * 5.0 / graph.weights.sum()) / table["standard_error"]
        )
    assert 0.035 < np.mean(np.concatenate(p) < 0.05) < 0.065
    assert 0.9 < np.nanstd(np.concatenate(z)) < 1.1
