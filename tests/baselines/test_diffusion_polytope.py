"""DiffusionPolytope: its linear program against another solver, its own paper's setting."""

from __future__ import annotations

import cvxpy as cp
import networkx as nx
import numpy as np
import pandas as pd
import pytest

from heatgraph import DiffusionPolytope, Graph
from heatgraph.baselines.diffusion_polytope import least_diffusion
from heatgraph.metrics import edge_scores


@pytest.fixture(scope="module")
def truth():
    return Graph.from_networkx(nx.connected_watts_strogatz_graph(12, 4, 0.3, seed=1))


@pytest.fixture(scope="module")
def diffusion(truth):
    W = truth.adjacency().toarray()
    return W / np.sqrt(np.outer(W.sum(0), W.sum(0)))


@pytest.mark.parametrize("criterion", ["simple", "sparse"])
def test_the_optimum_is_that_of_another_solver(diffusion, criterion):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 12)) @ (np.eye(12) + diffusion)
    V = np.linalg.eigh(X.T @ X)[1][:, ::-1]
    found, T = least_diffusion(V, criterion)
    values = cp.Variable(12)
    matrix = V @ cp.diag(values) @ V.T
    cost = cp.trace(matrix) if criterion == "simple" else cp.sum(matrix)
    limits = [matrix >= 0, values[0] == 1, cp.abs(values) <= 1]
    problem = cp.Problem(cp.Minimize(cost), limits)
    problem.solve(solver="CLARABEL")
    assert found.fun == pytest.approx(problem.value, abs=1e-6)
    assert T.min() >= -1e-7


@pytest.mark.parametrize("n_signals", [None, 3000])
def test_a_graph_without_loops_is_found(truth, diffusion, n_signals):
    """The claim of the paper: of all these matrices, the graph is that without loops."""
    if n_signals is None:
        V = np.linalg.eigh(diffusion)[1][:, ::-1]
        model = DiffusionPolytope(eigenvectors=V).fit(np.ones((1, 12)))
    else:
        X = np.random.default_rng(0).standard_normal((n_signals, 12)) @ (np.eye(12) + diffusion)
        model = DiffusionPolytope(n_edges=truth.n_edges).fit(X)
    assert model.status_ == "converged"
    assert model.residual_ <= 1e-6
    assert edge_scores(truth, model.graph_).f_measure > 0.95
    assert model.eigenvalues_[0] == 1.0
    V = model.eigenvectors_
    assert model.diffusion_ == pytest.approx((V * model.eigenvalues_) @ V.T)
    assert np.trace(model.laplacian_) == pytest.approx(12.0)


def test_names_and_the_number_of_edges(diffusion):
    X = np.random.default_rng(0).standard_normal((3000, 12)) @ (np.eye(12) + diffusion)
    model = DiffusionPolytope(n_edges=3).fit(pd.DataFrame(X).add_prefix("n"))
    assert model.graph_.n_edges == 3
    assert model.graph_.names[0] == "n0"


def test_the_identity_alone_is_said():
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 12)))[0]
    with pytest.warns(UserWarning, match="the graph has no edge"):
        model = DiffusionPolytope(eigenvectors=V).fit(np.ones((1, 12)))
    assert model.diffusion_ == pytest.approx(np.eye(12), abs=1e-6)


@pytest.mark.parametrize(
    ("X", "parameters", "message"),
    [
        (np.eye(4), {"criterion": "small"}, "criterion must be one of"),
        (np.eye(4), {"eigenvectors": np.eye(3)}, r"eigenvectors must be \(4, 4\)"),
        (np.eye(4), {"eigenvectors": np.ones((4, 4))}, "eigenvectors must be orthonormal"),
        (np.zeros((5, 4)), {}, "every entry is zero"),
    ],
)
def test_bad_input_is_named(X, parameters, message):
    with pytest.raises(ValueError, match=message):
        DiffusionPolytope(**parameters).fit(X)
