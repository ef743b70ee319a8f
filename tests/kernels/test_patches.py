"""Columns of the kernel on the rows that heat reaches, against the whole kernel."""

import numpy as np
import pytest

from heatgraph.kernels.chebyshev import heat_polynomial
from heatgraph.kernels.lanes import aligned, lanes
from heatgraph.kernels.patches import (
    columns_gradient,
    columns_of,
    columns_size,
    gradient_size,
    heat_columns,
)
from heatgraph.kernels.reach import (
    PATCHES,
    Patches,
    follow,
    lend,
    make_patches,
    reached_rows,
)

from .test_chebyshev import TAU, problem

WIDTH = lanes(np.dtype(np.float64))


@pytest.fixture(params=["geometric", "grid", "ba"])
def setting(request):
    layout, w, kernel = problem(request.param, 150)
    A = layout.operator(w)
    return layout, w, kernel, A


def rows_of_each(A, patches, threshold, t=8.0, limit=None, first=8.0, edges=None):
    n = A.diagonal.size
    lent = lend(n, A.values.dtype)
    most = n if limit is None else limit
    none = np.zeros(n + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64)
    edges = none if edges is None else edges
    starts = np.cumsum([0, *map(len, patches)])
    nodes = np.concatenate(patches)
    indptr, rows, kept = reached_rows(A, nodes, starts, first, t, threshold, most, edges, lent)
    assert (kept >= threshold).all()
    assert not lent[0].any()
    assert not lent[1].any()
    assert (lent[5] == -1).all()  # given back as it was
    return np.split(rows, indptr[1:-1])


def rows_of(A, nodes, threshold, **how):
    return rows_of_each(A, [nodes], threshold, **how)[0]


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
    patches = patches_of(A)[:PATCHES]
    for nodes, rows in zip(patches, rows_of_each(A, patches, 1e-6), strict=True):
        assert (np.diff(rows) > 0).all()
        cold = np.setdiff1d(np.arange(A.diagonal.size), rows)
        assert np.isin(nodes, rows).all()
        assert np.abs(E[np.ix_(cold, nodes)]).max(initial=0.0) <= 1e-5


def test_a_patch_has_the_same_rows_whichever_are_followed_with_it(setting):
    A = setting[3]
    patches = patches_of(A)[: PATCHES - 1]
    # Rows near the threshold spread for all, so that more is known of each, not less.
    for nodes, rows in zip(patches, rows_of_each(A, patches, 1e-4), strict=True):
        assert np.isin(rows_of(A, nodes, 1e-4), rows).all()


def test_rows_that_have_cooled_since_the_first_scale_are_kept(setting):
    layout, _, kernel, A = setting
    E = kernel.operator(0.2)[np.ix_(layout.order, layout.order)]
    for nodes in patches_of(A)[:3]:
        rows = rows_of(A, nodes, 1e-2, t=50.0, first=0.2)
        cold = np.setdiff1d(np.arange(A.diagonal.size), rows)
        assert np.abs(E[np.ix_(cold, nodes)]).max(initial=0.0) <= 1.1e-2


def test_other_ends_of_candidates_at_hot_rows_are_rows(setting):
    layout, _, _, A = setting
    nodes = patches_of(A)[0]
    hot = rows_of(A, nodes, 1e-2, t=1.0, first=1.0)
    rows = rows_of(A, nodes, 1e-2, t=1.0, first=1.0, edges=layout.both)
    indptr, ends, _ = layout.both
    near = np.concatenate([ends[indptr[i] : indptr[i + 1]] for i in nodes])
    assert np.isin(hot, rows).all()
    assert np.isin(near, rows).all()


def test_of_too_many_rows_the_hottest_are_kept(setting):
    layout, _, kernel, A = setting
    nodes = patches_of(A)[0]
    few, many = rows_of(A, nodes, 1e-12, limit=60), rows_of(A, nodes, 1e-12)
    assert nodes.size <= few.size <= 60 + nodes.size
    assert np.isin(few, many).all()
    columns = kernel.operator(8.0)[np.ix_(layout.order, layout.order)][nodes]
    halves = np.split(columns, [(nodes.size + 1) // 2])  # as many parts as lanes a patch
    heat = np.max([half.sum(axis=0) for half in halves], axis=0)
    left_out = np.setdiff1d(many, few)
    assert heat[left_out].max() <= 1.5 * heat[np.setdiff1d(few, nodes)].min()


def test_columns_and_gradient_are_those_of_the_whole_kernel(setting):
    layout, w, kernel, A = setting
    n = layout.n_nodes
    p = heat_polynomial(TAU, 1.0 / A.inverse, 1e-10)
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=(2, n, n))  # of a function in the entries [p_s(L)]_ri, by s, i, r
    # Of the near ones: what a candidate would bring from far away is not seen from here.
    slopes *= kernel.operator(8.0)[np.ix_(layout.order, layout.order)] > 1e-3
    g, modes = np.zeros(layout.candidates.n_edges), np.zeros((p.degree + 1, 2))
    whole = [kernel.operator(t)[np.ix_(layout.order, layout.order)] for t in TAU]
    position = np.full(n, -1, np.int32)
    lent = aligned(gradient_size(n, p.degree, 2, np.float64), np.float64)
    for nodes in patches_of(A):
        rows = rows_of(A, nodes, 1e-11)
        counts, where, values = heat_columns(A, nodes, rows, p.c, 1e-11, position, lent)
        dense = np.zeros((2 * nodes.size, n))
        dense[np.repeat(np.arange(counts.size), counts), where] = values
        for s in range(2):
            assert np.abs(dense[s::2] - whole[s][nodes]).max() <= 1e-8
        P = np.zeros((2, rows.size + 1, WIDTH))
        P[:, :-1, : nodes.size] = slopes[:, nodes][:, :, rows].transpose(0, 2, 1)
        columns_gradient(A, nodes, rows, p.c, layout.both, P, position, lent, g, modes)
        assert (position == -1).all()
    # d sum_si <slopes_si, [exp(-t_s L)]_i>, also for candidates that lead out of the rows.
    U = kernel.U[layout.order]
    exact = layout.candidates.adjoint(
        kernel.adjoint_derivative(TAU, np.stack([U.T @ P.T @ U for P in slopes]))
    )
    error = np.abs(g - exact) / np.abs(exact).max()
    assert error[w > 0.0].max() <= 1e-6
    assert error.max() <= 1e-3  # one without weight may lead out of the rows
    for s, t in enumerate(TAU):
        change = (kernel.operator(t + 1e-5) - kernel.operator(t - 1e-5)) / 2e-5
        by_time = np.vdot(slopes[s], change[np.ix_(layout.order, layout.order)])
        assert p.slope[:, s] @ modes[:, s] == pytest.approx(by_time, rel=1e-5)


def test_entries_below_the_least_are_left_out_but_for_the_diagonal(setting):
    A = setting[3]
    n = A.diagonal.size
    p = heat_polynomial(TAU, 1.0 / A.inverse, 1e-8)
    nodes = patches_of(A)[0]
    rows = rows_of(A, nodes, 1e-9)
    position, lent = np.full(n, -1, np.int32), np.empty(columns_size(n, 2, np.float64))
    counts, where, values = heat_columns(A, nodes, rows, p.c, 1e-2, position, lent)
    column = np.repeat(np.repeat(nodes, 2), counts)
    assert (np.abs(values[where != column]) >= 1e-2).all()
    counts, where, values = heat_columns(A, nodes, rows, p.c, 10.0, position, lent)
    assert (counts == 1).all()
    assert (where == np.repeat(nodes, 2)).all()


def test_many_patches_are_as_each_of_them(setting):
    layout, _, _, A = setting
    n, dtype = layout.n_nodes, A.values.dtype
    number = make_patches(A.indptr, A.indices, -A.values, WIDTH)
    nodes, starts = np.argsort(number, kind="stable"), np.append(0, np.cumsum(np.bincount(number)))
    count = starts.size - 1
    assert count > PATCHES
    which = np.arange(0, count, PATCHES)[::-1].copy()  # the last has fewer patches after it
    lent, how = lend(n, dtype), (2.5, 4.0, 1e-3, n)
    indptr, rows, kept = follow(A, nodes, starts, which, *how, layout.both, lent)
    order = np.concatenate([np.arange(p, min(p + PATCHES, count)) for p in which])
    assert kept.size == indptr.size - 1 == count
    for p in which:
        some = slice(p, min(p + PATCHES, count) + 1)
        own = starts[some] - starts[p]
        inside = nodes[starts[p] : starts[some][-1]]
        ends, alone, _ = reached_rows(A, inside, own, *how, layout.both, lent)
        at = int(np.flatnonzero(order == p)[0])
        assert rows[indptr[at] : indptr[at + own.size - 1]].tolist() == alone.tolist()
        assert np.diff(indptr)[at : at + own.size - 1].tolist() == np.diff(ends).tolist()

    sizes = np.diff(starts)[order]
    by_patch = np.concatenate([nodes[starts[p] : starts[p + 1]] for p in order])
    patches = Patches(by_patch, np.append(0, np.cumsum(sizes)), rows, indptr, kept, order)
    assert patches.n_patches == count
    p = heat_polynomial(TAU, 1.0 / A.inverse, 1e-6)
    position, lent = np.full(n, -1, np.int32), aligned(columns_size(n, 2, dtype), dtype)
    c = p.c
    counts, where, values = columns_of(A, patches, np.arange(count), c, 1e-3, position, lent)
    alone = [
        heat_columns(A, patches.nodes_of(k), patches.rows_of(k), c, 1e-3, position, lent)
        for k in range(count)
    ]
    assert counts.tolist() == np.concatenate([part[0] for part in alone]).tolist()
    assert where.tolist() == np.concatenate([part[1] for part in alone]).tolist()
    assert values.tolist() == np.concatenate([part[2] for part in alone]).tolist()
