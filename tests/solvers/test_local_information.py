"""Standard errors from the information around each edge, against those from all of it."""

import numpy as np
import pytest

from heatgraph.datasets import make_graph
from heatgraph.graph import CandidateEdges
from heatgraph.models.gaussian import GaussianHeat
from heatgraph.solvers.local_information import local_edge_tests

M = 500


def point_on(kind, n, noise, n_scales=1):
    graph = make_graph(kind, n, random_state=0)
    edges = np.sort(graph.edges, axis=1)
    order = np.lexsort((edges[:, 1], edges[:, 0]))
    pairs = CandidateEdges(n, edges[order, 0].copy(), edges[order, 1].copy())
    others = {1: [0.0, np.log(noise)], 2: [-0.5, 0.0, -1.0, np.log(noise)]}
    return pairs, np.concatenate([3.0 * graph.weights[order], others[n_scales]])


def exact(pairs, x, free):
    point = GaussianHeat(pairs, np.eye(pairs.n_nodes)).at(x)
    F = point.information_matrix(pairs, pairs)
    F = F[: len(F) - (not free), : len(F) - (not free)]
    E = pairs.n_edges
    covariance, w = 2.0 / M * np.linalg.inv(F)[:E, :E], x[:E]
    unit = 0.5 * pairs.n_nodes / w.sum()
    slopes = unit * (np.eye(E) - np.outer(w / w.sum(), np.ones(E)))
    se = np.sqrt(np.diag(slopes @ covariance @ slopes.T))
    return unit * w, se, w / np.sqrt(np.diag(covariance))


@pytest.mark.parametrize("free", [True, False])
def test_a_neighbourhood_knows_the_errors_of_its_edges(free):
    pairs, x = point_on("geometric", 250, 1e-3)
    w, se, z = exact(pairs, x, free)
    table = local_edge_tests(pairs, x, M, noise_is_free=free, n_threads=2)
    np.testing.assert_allclose(table["weight"], w)
    assert np.quantile(np.abs(table["standard_error"] / se - 1.0), 0.95) < 0.02
    assert np.quantile(np.abs(table["z"] / z - 1.0), 0.95) < 0.02


def test_a_graph_that_fits_into_one_neighbourhood_is_exact():
    pairs, x = point_on("er", 30, 1e-2)
    _, se, z = exact(pairs, x, True)
    table = local_edge_tests(pairs, x, M)
    np.testing.assert_allclose(table["standard_error"], se, rtol=0.02)
    np.testing.assert_allclose(table["z"], z, rtol=0.02)
    assert ((table["p_value"] < 0.05) == (table["z"] > 1.6449)).all()


def test_two_scales_that_are_close_leave_the_errors_finite():
    pairs, x = point_on("geometric", 100, 1e-3, 2)
    table = local_edge_tests(pairs, x, M, n_scales=2)
    assert np.isfinite(table.to_numpy()).all()
    assert (table["z"] > 0.0).all()


def test_beside_weights_that_make_two_nodes_one_an_error_may_be_unknown_but_no_p_value_is():
    pairs, x = point_on("geometric", 300, 1e-4)
    x[: pairs.n_edges : 37] *= 300.0
    table = local_edge_tests(pairs, x, M)
    unknown = table["standard_error"].isna()
    assert unknown.any()
    assert (table["p_value"][unknown] == 0.5).all()
    assert table.drop(columns="standard_error").notna().all().all()
