"""The matrix-free objective against the dense one, term by term."""

from dataclasses import replace

import numpy as np
import pytest

from heatgraph.graph import CandidateEdges
from heatgraph.kernels.chebyshev import gradient_factors
from heatgraph.kernels.layout import Layout
from heatgraph.models.all_pairs_gradient import price
from heatgraph.models.atoms import ATOMS
from heatgraph.models.heat import HeatObjective, Signals
from heatgraph.models.sparse import SparseObjective
from heatgraph.solvers.signal_access import LocalSignals
from heatgraph.solvers.sparse_signals import SparseSignals

TAU = np.array([2.0, 3.5])
ALPHA, BETA = 0.05, 0.02


def make(n=60, m=40, k=6, missing=0.0, seed=0):
    """Nearest-row candidates of heat signals, half of them without weight."""
    from heatgraph.datasets import make_graph, make_heat_signals

    graph = make_graph("geometric", n, random_state=seed)
    X, _ = make_heat_signals(graph, TAU, m, n_sources=2, random_state=seed)
    rng = np.random.default_rng(seed)
    near = np.argsort(((X.T[:, None] - X.T[None]) ** 2).sum(axis=2), axis=1)[:, 1 : k + 1]
    pairs = np.sort(np.stack([np.repeat(np.arange(n), k), near.ravel()], axis=1), axis=1)
    pairs = np.unique(np.vstack([pairs, graph.edges]), axis=0)
    candidates = CandidateEdges(n, pairs[:, 0].copy(), pairs[:, 1].copy())
    w = rng.uniform(size=len(pairs)) * (rng.uniform(size=len(pairs)) < 0.6)
    observed = rng.uniform(size=X.T.shape) >= missing
    signals = Signals(np.where(observed, X.T, 0.0), observed if missing else None)
    return candidates, w * (0.5 * n / w.sum()), signals


def both(atoms, tol=1e-10, dtype=np.float64, **how):
    candidates, w, signals = make(**how)
    dense = HeatObjective(candidates, ALPHA, BETA, ATOMS[atoms]), LocalSignals(signals)
    layout = Layout.of(candidates)
    matrix_free = (
        SparseObjective(layout, ALPHA, BETA, atoms == "unit", tol=tol, dtype=dtype),
        SparseSignals(layout, signals, dtype),
    )
    return w, dense, matrix_free


# How far single precision is from the dense objective, in value, and in gradients at the same
# sources, where slopes of either sign cancel.
@pytest.mark.parametrize(
    ("dtype", "value", "slope"), [(np.float64, 1e-7, 1e-7), (np.float32, 1e-4, 1e-4)]
)
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("atoms", ["raw", "unit"])
def test_value_and_gradients_are_those_of_the_dense_objective(atoms, missing, dtype, value, slope):
    tol = 1e-10 if dtype is np.float64 else 1e-6
    w, (dense, local), (objective, ensemble) = both(atoms, tol, dtype, missing=missing)
    D, E = dense.dictionary(w, TAU), objective.dictionary(w, TAU)
    order = objective.layout.order
    assert E.omega == pytest.approx(D.omega[:, order], abs=max(1e-8, tol))
    _, sums = local.code(dense, D, local.silence(D.n_atoms), None)
    codes, moments = ensemble.code(objective, E, ensemble.silence(E.n_atoms), None)
    assert objective.value(E, w, moments) == pytest.approx(dense.value(D, w, sums), rel=value)

    # At the same sources, which near-dependent atoms leave undetermined to that accuracy.
    H = ensemble.whole(codes, 2)
    rows = np.ascontiguousarray(H.transpose(2, 0, 1)).reshape(local.n_signals, -1)
    sums = local.sums(dense, D, rows, None)
    exact = dense.gradient_w(D, w, sums)
    assert np.abs(objective.gradient_w(E, w, moments) - exact).max() <= slope * np.abs(exact).max()
    assert objective.gradient_tau(E, moments) == pytest.approx(
        dense.gradient_tau(D, sums), rel=10 * slope, abs=1e-2 * slope
    )


def test_the_tangent_of_the_logarithmic_penalty_is_the_same():
    w, (dense, local), (objective, ensemble) = both("unit")
    D, E = dense.dictionary(w, TAU), objective.dictionary(w, TAU)
    rows, _ = local.code(dense, D, local.silence(D.n_atoms), None)
    codes, _ = ensemble.code(objective, E, ensemble.silence(E.n_atoms), None)
    slopes, above = local.discount(D, rows, ALPHA)
    sparse_slopes, sparse_above = ensemble.discount(E, codes, ALPHA)
    assert sparse_above == pytest.approx(above, rel=1e-6)
    _, sums = local.code(dense, D, rows, slopes)
    _, moments = ensemble.code(objective, E, codes, sparse_slopes)
    assert objective.value(E, w, moments) == pytest.approx(dense.value(D, w, sums), rel=1e-6)


def test_threads_do_not_change_a_bit():
    w, _, (objective, ensemble) = both("unit", m=70)
    out = []
    for n_threads in (1, 3):
        problem = replace(objective, n_threads=n_threads)
        signals = replace(ensemble, n_threads=n_threads)
        D = problem.dictionary(w, TAU)
        _, moments = signals.code(problem, D, signals.silence(D.n_atoms), None)
        out.append(problem.gradient_w(D, w, moments))
    assert (out[0] == out[1]).all()


def test_codes_can_be_packed_and_unpacked():
    w, _, (objective, ensemble) = both("unit")
    D = objective.dictionary(w, TAU)
    codes, _ = ensemble.code(objective, D, ensemble.silence(D.n_atoms), None)
    again = ensemble.unpack(ensemble.pack(codes), D.n_atoms)
    assert (ensemble.whole(again, 2) == ensemble.whole(codes, 2)).all()
    broken = {**ensemble.pack(codes), "what": np.zeros(1)}
    with pytest.raises(ValueError, match="do not fit"):
        ensemble.unpack(broken, D.n_atoms)
    with pytest.raises(ValueError, match="name atoms"):
        ensemble.unpack(ensemble.pack(codes), 3)
    first = int(np.flatnonzero(np.diff(codes.indptr) > 1)[0])
    twice = ensemble.pack(codes)
    twice["where"][codes.indptr[first] + 1] = codes.where[codes.indptr[first]]
    with pytest.raises(ValueError, match="twice"):
        ensemble.unpack(twice, D.n_atoms)


def test_the_factors_give_the_divided_difference():
    from heatgraph.kernels.chebyshev import heat_polynomial

    p = heat_polynomial(TAU, 2.0, 1e-10)
    u, v = gradient_factors(p.c, tol=1e-9)
    assert u.shape[1] < p.degree  # a handful, which is the point of it
    x, y = np.array([-0.9, 0.1, 0.3]), np.array([-0.5, 0.2, 0.95])
    T = [np.cos(np.outer(np.arange(p.degree + 1), np.arccos(z))) for z in (x, y)]
    for s in range(2):
        f = [p.c[:, s] @ t for t in T]
        quotient = (f[0][:, None] - f[1][None]) / (x[:, None] - y[None])
        assert (u.T @ T[0]).T @ (v[s].T @ T[1]) == pytest.approx(quotient, abs=1e-7)


@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-5), (np.float32, 1e-4)])
@pytest.mark.parametrize("atoms", ["raw", "unit"])
def test_prices_of_all_pairs_are_the_gradient_over_all_pairs(atoms, dtype, error):
    w, _, (objective, ensemble) = both(atoms, 1e-10 if dtype is np.float64 else 1e-6, dtype)
    n, c = objective.layout.n_nodes, objective.candidates
    D = objective.dictionary(w, TAU)
    codes, moments = ensemble.code(objective, D, ensemble.silence(D.n_atoms), None)
    prices = price(objective, D, w, moments, ensemble.factors(D, codes), tol=1e-3, most=n)
    every = CandidateEdges.complete(n)
    everywhere = np.zeros((n, n))
    everywhere[c.i, c.j] = w
    full = HeatObjective(every, ALPHA, BETA, ATOMS[atoms])
    weights = everywhere[every.i, every.j]
    K = full.dictionary(weights, TAU)
    H = ensemble.whole(codes, 2)
    signals = ensemble.signals
    sums = full.moments(K, signals, H, K.kernel.U.T @ signals.X)
    exact = full.gradient_w(K, weights, sums)
    gap = (exact @ weights - 0.5 * n * exact.min()) / full.value(K, weights, sums)
    assert prices.gap == pytest.approx(gap, rel=10 * error)
    G = np.zeros((n, n))
    G[every.i, every.j] = exact
    i, j = np.sort(prices.pairs, axis=1).T
    assert prices.gradient == pytest.approx(G[i, j], abs=error * np.abs(exact).max())
    heavy = w > 0.0
    assert (w == 0.0).any()  # so that some candidates can be named again
    assert not np.isin(i * n + j, c.i[heavy] * n + c.j[heavy]).any()
    assert (np.diff(prices.gradient) >= 0).all()


def test_pairs_that_would_pay_start_with_a_little_weight():
    w, _, (objective, _) = both("unit")
    c, n = objective.candidates, objective.layout.n_nodes
    known = np.flatnonzero(w == 0.0)[:2]
    listed = set(zip(c.i.tolist(), c.j.tolist(), strict=True))
    new = next((i, j) for i in range(n) for j in range(i + 1, n) if (i, j) not in listed)
    pairs = np.array([(c.j[known[0]], c.i[known[0]]), new])
    layout, weights = objective.layout.with_pairs(pairs, w, 0.003)
    d = layout.candidates
    after = dict(zip(zip(d.i.tolist(), d.j.tolist(), strict=True), weights, strict=True))
    assert d.n_edges == c.n_edges + 1
    assert after[new] == 0.003
    for k, pair in enumerate(zip(c.i.tolist(), c.j.tolist(), strict=True)):
        assert after[pair] == (0.003 if k == known[0] else w[k])


def test_no_node_gets_more_new_pairs_than_allowed():
    w, _, (objective, ensemble) = both("unit")
    D = objective.dictionary(w, TAU)
    codes, moments = ensemble.code(objective, D, ensemble.silence(D.n_atoms), None)
    prices = price(objective, D, w, moments, ensemble.factors(D, codes), tol=0.0, most=2)
    assert 0 < np.bincount(prices.pairs.ravel()).max() <= 2


@pytest.mark.parametrize("alpha", [0.0, 1e-7, 1e-3])
def test_a_small_penalty_does_not_let_sources_grow_without_bound(alpha):
    w, _, (objective, ensemble) = both("unit", tol=1e-7)
    problem = replace(objective, alpha=alpha)
    D = problem.dictionary(w, TAU)
    silent = float(ensemble.signals.energy.sum()) + problem.spread(w)[0]
    _, moments = ensemble.code(problem, D, ensemble.silence(D.n_atoms), None)
    assert problem.value(D, w, moments) <= silent


def test_heat_everywhere_is_no_certificate(monkeypatch):
    monkeypatch.setattr("heatgraph.models.sparse.MOST_ROWS", 35)
    w, _, (objective, ensemble) = both("unit")
    objective = replace(objective, reach=1e-6)
    D = objective.dictionary(w, TAU)
    assert D.threshold > 1e-3
    codes, moments = ensemble.code(objective, D, ensemble.silence(D.n_atoms), None)
    prices = price(objective, D, w, moments, ensemble.factors(D, codes), tol=0.0, most=2)
    assert np.isnan(prices.gap)


@pytest.mark.parametrize("atoms", ["raw", "unit"])
def test_value_and_gradient_together_are_those_alone(atoms):
    w, *engines = both(atoms)
    for objective, ensemble in engines:
        D = objective.dictionary(w, TAU)
        _, moments = ensemble.code(objective, D, ensemble.silence(D.n_atoms), None)
        value, gradient = objective.evaluate(D, w, moments)
        assert value == objective.value(D, w, moments)
        assert (gradient == objective.gradient_w(D, w, moments)).all()
        # Nothing that was handed over is written to.
        assert objective.evaluate(D, w, moments)[0] == value
        assert (objective.evaluate(D, w, moments)[1] == gradient).all()
