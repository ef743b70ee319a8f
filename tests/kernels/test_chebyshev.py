"""The heat kernel by polynomials against the kernel by its eigenvectors."""

import numpy as np
import pytest

from heatgraph.datasets import make_graph
from heatgraph.graph import CandidateEdges
from heatgraph.kernels.chebyshev import (
    bilinear_gradient,
    clenshaw,
    heat_polynomial,
    spectral_bound,
)
from heatgraph.kernels.eigen import DenseHeat
from heatgraph.kernels.lanes import lanes
from heatgraph.kernels.layout import Layout

TAU = np.array([2.5, 4.0])


def problem(kind, n, seed=0):
    """A layout with some candidates that carry no weight, weights, and the dense kernel."""
    graph = make_graph(kind, n, random_state=seed)
    rng = np.random.default_rng(seed)
    absent = rng.integers(0, n, (n, 2))
    pairs = np.vstack([graph.edges, np.sort(absent[absent[:, 0] != absent[:, 1]], axis=1)])
    pairs, first = np.unique(pairs, axis=0, return_index=True)
    w = np.concatenate([graph.weights, np.zeros(len(absent))])[first]
    candidates = CandidateEdges(n, pairs[:, 0].astype(np.intp), pairs[:, 1].astype(np.intp))
    w *= 0.5 * n / w.sum()
    return Layout.of(candidates), w, DenseHeat.from_laplacian(candidates.laplacian(w))


def blocks(rng, *shape):
    return rng.standard_normal((*shape, lanes(np.dtype(np.float64))))


@pytest.mark.parametrize("kind", ["geometric", "ba", "ring"])
@pytest.mark.parametrize(("tol", "error"), [(1e-4, 1e-4), (1e-8, 1e-8), (1e-13, 1e-12)])
def test_the_polynomial_is_the_exponential(kind, tol, error):
    layout, w, kernel = problem(kind, 60)
    A = layout.operator(w)
    p = heat_polynomial(TAU, 1.0 / A.inverse, tol)
    x = A.inverse * kernel.lam - 1.0
    T = np.cos(np.outer(np.arange(p.degree + 1), np.arccos(np.clip(x, -1.0, 1.0))))
    assert np.abs(p.c.T @ T - kernel.decay(TAU)).max() <= error
    assert np.abs(p.slope.T @ T + kernel.lam * kernel.decay(TAU)).max() <= 100 * error


def test_the_degree_grows_as_the_tolerance_falls():
    degrees = [heat_polynomial(TAU, 2.0, tol).degree for tol in (1e-2, 1e-4, 1e-8, 1e-13)]
    assert degrees == sorted(set(degrees))


def test_a_scale_beyond_all_reason_is_refused():
    with pytest.raises(ValueError, match="smaller scales"):
        heat_polynomial(np.array([1e9]), 10.0, 1e-8)


@pytest.mark.parametrize("kind", ["geometric", "ba", "er", "grid"])
def test_the_bound_holds_and_is_not_wild(kind):
    layout, w, kernel = problem(kind, 80)
    c = layout.candidates
    bound = spectral_bound(c.degrees(w), c.i, c.j, w)
    assert kernel.lam[-1] <= bound <= 2.0 * kernel.lam[-1]


@pytest.mark.parametrize(("tol", "error"), [(1e-8, 1e-7), (1e-13, 1e-11)])
def test_diffusion_its_adjoint_and_its_gradient(tol, error):
    layout, w, kernel = problem("geometric", 70)
    n, rng, A = layout.n_nodes, np.random.default_rng(1), layout.operator(w)
    p = heat_polynomial(TAU, 1.0 / A.inverse, tol)
    H, R = blocks(rng, 2, n), blocks(rng, n)
    B, V, near = blocks(rng, n, p.degree + 1), blocks(rng, n, p.degree + 1), blocks(rng, n, 2)
    clenshaw(A, p.c, H, B, near)
    Y = B[:, 0].copy()
    E = [kernel.operator(t)[np.ix_(layout.order, layout.order)] for t in TAU]
    expected = E[0] @ H[0] + E[1] @ H[1]
    assert np.abs(Y - expected).max() <= error * np.abs(expected).max()
    # <R, E H> = <E R, H>: the dot test, to rounding, whatever the tolerance.
    there = 0.0
    for s in range(2):
        clenshaw(A, p.c[:, s : s + 1].copy(), R[None], V, near)
        there += np.vdot(V[:, 0], H[s])
    assert np.vdot(R, Y) == pytest.approx(there, rel=1e-12)

    near[:, 0] = R
    g, modes = np.zeros(layout.candidates.n_edges), np.zeros((p.degree + 1, 2))
    bilinear_gradient(A, layout.upper, B, V, near, 1.0, g, H, modes)
    U = kernel.U[layout.order]
    P = np.stack([U.T @ (R @ H[s].T) @ U for s in range(2)])
    exact = layout.candidates.adjoint(kernel.adjoint_derivative(TAU, P))
    assert np.abs(g - exact).max() <= error * np.abs(exact).max()
    slope = [
        -np.vdot(R, U @ (kernel.lam * np.exp(-t * kernel.lam) * (U.T @ h).T).T)
        for t, h in zip(TAU, H, strict=True)
    ]
    assert np.sum(p.slope * modes, axis=0) == pytest.approx(slope, rel=100 * error)


def test_the_gradient_is_that_of_the_polynomial_by_finite_differences():
    layout, w, _ = problem("er", 25)
    n, rng = layout.n_nodes, np.random.default_rng(2)
    a = 1.0 / layout.operator(w).inverse
    p = heat_polynomial(TAU, a, 1e-3)  # coarse: the gradient is exact for it all the same
    H, R = blocks(rng, 2, n), blocks(rng, n)
    B, V, near = blocks(rng, n, p.degree + 1), blocks(rng, n, p.degree + 1), blocks(rng, n, 2)

    def operator(weights):
        # The interval is held, as the polynomial is.
        A = layout.operator(weights)
        return A._replace(
            values=A.values / A.inverse / a,
            diagonal=(A.diagonal + 1.0) / A.inverse / a - 1.0,
            inverse=1.0 / a,
        )

    def value(weights):
        clenshaw(operator(weights), p.c, H, B, near)
        return float(np.vdot(R, B[:, 0]))

    value(w)
    g = np.zeros(w.size)
    none = np.zeros((p.degree + 1, 0))
    near[:, 0] = R
    bilinear_gradient(operator(w), layout.upper, B, V, near, 1.0, g, H, none)
    for e in np.flatnonzero(w)[:5]:
        step = np.zeros(w.size)
        step[e] = 1e-6
        slope = (value(w + step) - value(w - step)) / 2e-6
        assert g[e] == pytest.approx(slope, rel=1e-6, abs=1e-7)


def test_single_precision_agrees():
    layout, w, _ = problem("geometric", 50)
    rng = np.random.default_rng(3)
    H = rng.standard_normal((2, layout.n_nodes, lanes(np.dtype(np.float32))))
    out = {}
    for dtype in (np.float64, np.float32):
        A = layout.operator(w, dtype)
        p = heat_polynomial(TAU, 1.0 / A.inverse, 1e-6)
        W = lanes(np.dtype(dtype))
        B = np.empty((layout.n_nodes, p.degree + 1, W), dtype)
        near = np.empty((layout.n_nodes, 2, W), dtype)
        parts = []
        for start in range(0, H.shape[2], W):  # one block, or two
            part = np.ascontiguousarray(H[:, :, start : start + W], dtype)
            clenshaw(A, p.c.astype(dtype), part, B, near)
            parts.append(B[:, 0].copy())
        out[dtype] = np.hstack(parts)
    assert out[np.float32].shape == (layout.n_nodes, 16)
    assert np.abs(out[np.float64] - out[np.float32]).max() <= 1e-5
