"""How likely held-out signals are by the covariance of a dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.models.heat import ATOMS, HeatObjective, Signals
from heatgraph.selection.likelihood import fit_variances, surprise

N, M = 9, 400
SHARES = np.array([0.4, 0.6])
TAU = np.array([1.0, 3.0])


def dictionary(graph, tau=TAU):
    pairs = CandidateEdges.complete(N)
    L = graph.normalized().laplacian().toarray()
    w = np.maximum(-L[pairs.i, pairs.j], 0.0)
    return HeatObjective(pairs, 0.1, 0.1, ATOMS["unit"]).dictionary(w, tau)


@pytest.fixture(scope="module")
def graph():
    return make_graph("er", N, random_state=2, p=0.4)


@pytest.fixture(scope="module")
def X(graph):
    return make_heat_signals(graph, TAU, M, 2, noise_std=0.02, random_state=2)[0].T.copy()


def covariance(D, v):
    U = D.kernel.U
    return (U * (v @ np.vstack([SHARES @ np.square(D.decay), np.ones(N)]))) @ U.T


def test_variances_are_the_most_likely(rng):
    A = np.vstack([np.exp(-np.linspace(0.0, 4.0, 30)), np.ones(30)])
    q = np.array([2.0, 0.1]) @ A * rng.chisquare(50, 30) / 50

    def unlikely(logs):
        f = np.exp(logs) @ A
        return float(np.sum(np.log(f) + q / f))

    best = minimize(unlikely, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-9})
    assert fit_variances(A, q) == pytest.approx(np.exp(best.x), rel=1e-3)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_variances_scale_with_the_signals(rng, scale):
    A = np.vstack([np.exp(-np.linspace(0.0, 4.0, 30)), np.ones(30)])
    q = rng.chisquare(3, 30)
    assert fit_variances(A, scale * q) == pytest.approx(scale * fit_variances(A, q))


def test_is_the_gaussian_likelihood(graph, X):
    D = dictionary(graph)
    A = np.vstack([SHARES @ np.square(D.decay), np.ones(N)])
    v = fit_variances(A, np.square(D.kernel.U.T @ X).mean(axis=1))
    normal = multivariate_normal(np.zeros(N), covariance(D, v))
    expected = -2.0 * normal.logpdf(X.T) - N * np.log(2.0 * np.pi)
    assert surprise(D, Signals(X), SHARES) == pytest.approx(expected)


def test_missing_entries_have_no_part_in_it(graph, X, rng):
    D = dictionary(graph)
    complete = surprise(D, Signals(X), SHARES)
    everything = surprise(D, Signals(X, np.ones(X.shape, dtype=bool)), SHARES)
    assert everything == pytest.approx(complete, rel=1e-4)
    seen = rng.random(X.shape) < 0.8
    one = surprise(D, Signals(np.where(seen, X, 0.0), seen), SHARES)
    seen[:, 0] = False  # a signal of which nothing is known
    other = surprise(D, Signals(np.where(seen, X, 0.0), seen), SHARES)
    assert other[0] == 0.0
    assert other[1:] == pytest.approx(one[1:], rel=0.05, abs=0.5)


@pytest.mark.parametrize("share", [1.0, 0.7])
def test_the_true_scales_and_graph_are_the_most_likely(graph, X, rng, share):
    seen = rng.random(X.shape) < share
    signals = Signals(np.where(seen, X, 0.0), seen if share < 1.0 else None)
    own = surprise(dictionary(graph), signals, SHARES).sum()
    for factor in (0.6, 1.6):
        assert surprise(dictionary(graph, factor * TAU), signals, SHARES).sum() > own
    other = make_graph("er", N, random_state=3, p=0.4)
    assert surprise(dictionary(other), signals, SHARES).sum() > own + 100.0


def test_no_signal_is_no_obstacle(graph):
    assert np.isfinite(surprise(dictionary(graph), Signals(np.zeros((N, 3))), SHARES)).all()


@pytest.mark.parametrize("share", [0.9, 0.6])
def test_variances_of_signals_with_gaps_are_the_most_likely(graph, X, rng, share):
    """By another solver, on the likelihood that scipy gives each signal."""
    D, some = dictionary(graph), X[:, :80]
    seen = rng.random(some.shape) < share

    def unlikely(logs):
        C = covariance(D, np.exp(logs))
        return -2.0 * sum(
            multivariate_normal(np.zeros(o.sum()), C[np.ix_(o, o)]).logpdf(x[o])
            + 0.5 * o.sum() * np.log(2.0 * np.pi)
            for x, o in zip(some.T, seen.T, strict=True)
            if o.any()
        )

    best = minimize(unlikely, np.log([0.2, 1e-3]), method="Nelder-Mead", tol=1e-5)
    found = surprise(D, Signals(np.where(seen, some, 0.0), seen), SHARES)
    assert found.sum() == pytest.approx(best.fun, abs=1e-3)
