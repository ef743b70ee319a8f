"""Columns of the kernel on the rows that heat reaches, against the whole kernel."""

import numpy as np
import pytest

from heatgraph.kernels.chebyshev import WIDTH, gradient_factors, heat_polynomial
from heatgraph.kernels.patches import columns_gradient, heat_columns, make_patches, reached_rows

from .test_chebyshev import TAU, problem


@pytest.fixture(params=["geometric", "grid", "ba"])
def setting(request):
    layout, w, kernel = problem(request.param, 150)
    A = layout.operator(w)
    return layout, w, kernel, A


def rows_of(A, nodes, threshold, t=8.0, limit=None):
    n = A.diagonal.size
    u, v, position = np.zeros(n), np.zeros(n), np.full(n, -1, np.int32)
    most = n if limit is None else limit
    rows, kept = reached_rows(A, nodes, t, threshold, most, u, v, position)
    assert kept >= threshold
    lent = np.concatenate([u, v, position + 1])
    assert not lent.any()  # given back as it was
    return rows


def patches_of(A):
    number = make_patches(A.indptr, A.indices, -A.values, WIDTH)
    return [np.flatnonzero(number == k) for k in range(number.max() + 1)]


def test_every_node_is_in_one_patch_of_a_block(setting):
    A = setting[3]
    patches = patches_of(A)
    assert sorted(np.concatenate(patches)) == list(range(A.diagonal.size))
    assert max(map(len, patches)) <= WIDTH
    assert len(patches) <= 2 * A.diagonal.size / WIDTH + 1


def test_rows_left_out_are_cold(setting):
    layout, _, kernel, A = setting
    E = kernel.operator(8.0)[np.ix_(layout.order, layout.order)]
    for nodes in patches_of(A)[:3]:
        rows = rows_of(A, nodes, 1e-6)
        cold = np.setdiff1d(np.arange(A.diagonal.size), rows)
        assert np.isin(nodes, rows).all()
        assert np.abs(E[np.ix_(cold, nodes)]).max(initial=0.0) <= 1e-5


def test_of_too_many_rows_the_hottest_are_kept(setting):
    layout, _, kernel, A = setting
    nodes = patches_of(A)[0]
    few, many = rows_of(A, nodes, 1e-12, limit=60), rows_of(A, nodes, 1e-12)
    assert nodes.size <= few.size <= 60 + nodes.size
    assert np.isin(few, many).all()
    heat = kernel.operator(8.0)[np.ix_(layout.order, layout.order)][nodes].sum(axis=0)
    left_out = np.setdiff1d(many, few)
    assert heat[left_out].max() <= 1.5 * heat[np.setdiff1d(few, nodes)].min()


def test_columns_diagonals_and_gradient_are_those_of_the_whole_kernel(setting):
    layout, _, kernel, A = setting
    n = layout.n_nodes
    p = heat_polynomial(2.0 * TAU, 1.0 / A.inverse, 1e-10)
    diagonals = np.empty((p.degree + 1, n))
    factors = gradient_factors(p.c, 1e-10)
    weight = np.random.default_rng(0).uniform(size=(2, n))
    g = np.zeros(layout.candidates.n_edges)
    whole = [kernel.operator(2.0 * t)[np.ix_(layout.order, layout.order)] for t in TAU]
    position = np.full(n, -1, np.int32)
    for nodes in patches_of(A):
        rows = rows_of(A, nodes, 1e-11)
        counts, where, values = heat_columns(A, nodes, rows, p.c, 1e-11, position, diagonals)
        dense = np.zeros((2, nodes.size, n))
        column = np.repeat(np.arange(nodes.size), counts)
        dense[:, column, where] = values.T
        for q in range(2):
            assert np.abs(dense[q] - whole[q][nodes]).max() <= 1e-8
        columns_gradient(A, nodes, rows, *factors, weight, layout.both, 1.0, position, g)
    for q in range(2):
        assert p.c[:, q] @ diagonals == pytest.approx(np.diag(whole[q]), abs=1e-8)
    # d sum_i weight_i [exp(-t L)]_ii, also for candidates that lead out of the rows.
    U = kernel.U[layout.order]
    P = np.stack([U.T @ (a[:, None] * U) for a in weight])
    exact = layout.candidates.adjoint(kernel.adjoint_derivative(2.0 * TAU, P))
    assert np.abs(g - exact).max() <= 1e-6 * np.abs(exact).max()
