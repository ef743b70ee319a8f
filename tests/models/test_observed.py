"""The likelihood of what was observed: its value, its slope, its level."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from heatgraph.graph import CandidateEdges
from heatgraph.models.gaussian import GaussianHeat, LogPenalty
from heatgraph.models.moments import Moments
from heatgraph.models.observed import ObservedHeat
from heatgraph.solvers.gaussian import shrunk

N, M = 5, 14
PAIRS = CandidateEdges.complete(N)


def problem(rng, *, share=0.3, rho=0.1, intercept=True, penalised=False, target=1.3):
    X = rng.normal(size=(M, N)) + 0.5
    X[rng.random(X.shape) < share] = np.nan
    penalty = LogPenalty(2.0, rng.uniform(0.1, 0.5, PAIRS.n_edges), M) if penalised else None
    heat = GaussianHeat(PAIRS, np.eye(N), 1, penalty)
    return ObservedHeat(heat, X, rho, target, np.full(N, 0.2), intercept)


def somewhere(rng):
    return np.concatenate([rng.uniform(0.05, 0.6, PAIRS.n_edges), [0.2, -1.5]])


@pytest.mark.parametrize("intercept", [True, False])
def test_value_is_the_likelihood_of_scipy(rng, intercept):
    asked = problem(rng, rho=0.0, intercept=intercept)
    point = asked.at(somewhere(rng))
    C, total = point.heat.covariance, 0.0
    for x in asked.X:
        o = ~np.isnan(x)
        if o.any():
            density = multivariate_normal(point.level[o], C[np.ix_(o, o)])
            total += -2.0 * density.logpdf(x[o]) - o.sum() * np.log(2.0 * np.pi)
    assert point.value == pytest.approx(total / M, rel=1e-10)


def test_without_gaps_it_is_that_of_the_shrunk_moment(rng):
    X = rng.normal(size=(M, N))
    S = Moments.of(X).around(X.mean(axis=0))
    heat = GaussianHeat(PAIRS, shrunk(S, 0.2))
    x = somewhere(rng)
    point = ObservedHeat(heat, X, 0.2, np.trace(S) / N, np.zeros(N)).at(x)
    np.testing.assert_allclose(point.level, X.mean(axis=0), atol=1e-12)
    assert point.value == pytest.approx(heat.at(x).value, rel=1e-12)
    np.testing.assert_allclose(point.gradient, heat.at(x).gradient, atol=1e-10)
    np.testing.assert_allclose(point.diagonal, heat.at(x).diagonal, rtol=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("penalised", [True, False])
def test_gradient_is_that_of_finite_differences(rng, intercept, penalised):
    asked = problem(rng, intercept=intercept, penalised=penalised)
    x = somewhere(rng)
    slope = approx_fprime(x, lambda y: asked.at(y).value, 1e-7)
    np.testing.assert_allclose(asked.at(x).gradient, slope, atol=2e-5)


def test_level_is_the_best_and_unseen_nodes_keep_theirs(rng):
    asked = problem(rng)
    asked.X[:, 2] = np.nan
    x = somewhere(rng)
    point = asked.at(x)
    assert point.level[2] == 0.2
    for _ in range(5):
        level = point.level + 0.01 * rng.normal(size=N)
        worse = ObservedHeat(asked.heat, asked.X, asked.rho, asked.target, level, False)
        assert worse.at(x).value > point.value


def test_information_between_some_is_a_part_of_it(rng):
    point = problem(rng).at(somewhere(rng))
    some = np.array([0, 3, 10, 11])
    d = np.zeros(point.x.size)
    d[some] = rng.normal(size=some.size)
    np.testing.assert_allclose(
        point.information_between(some) @ d[some], point.information(d)[some], rtol=1e-8
    )
    assert (point.diagonal <= point.heat.diagonal).all()
