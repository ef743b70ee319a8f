"""Sources without a Gram matrix, against the exact lasso on the array of all pairs."""

from dataclasses import dataclass

import numpy as np
import pytest

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators.model import DenseModel
from heatgraph.graph import CandidateEdges
from heatgraph.models.heat import Signals
from heatgraph.models.sparse_heat import SparseDictionary
from heatgraph.solvers.lasso import LargeLasso, SparseCoding, joined, silent

N, M, ALPHA = 300, 12, 0.05
TAU = np.array([2.5, 4.0])


@dataclass
class Problem:
    D: SparseDictionary
    X: np.ndarray
    dense: object

    def signals(self, missing=0.0):
        X = self.X.copy()
        X[np.random.default_rng(0).random(X.shape) < missing] = np.nan
        return Signals.from_missing(np.ascontiguousarray(X.T))

    def exact(self, signals, penalty, positive=False):
        model = DenseModel(self.dense, TAU, "unit", penalty, 1, positive)
        return model.code(signals, ALPHA)

    def values(self, signals, h):
        """Of the l1 penalty."""
        R = signals.X.T - self.D.synthesis(h)
        if signals.observed is not None:
            R = R * signals.observed.T
        return (R**2).sum(axis=1) + ALPHA * np.abs(h) @ self.D.omega


@pytest.fixture(scope="module")
def problem():
    graph = make_graph("geometric", N, random_state=2)
    X, _ = make_heat_signals(graph, TAU, M, 3, noise_std=0.005, random_state=2)
    edges, w = graph.edges.astype(np.intp), np.array(graph.weights)
    w *= 0.5 * N / w.sum()
    pairs = CandidateEdges(N, edges[:, 0].copy(), edges[:, 1].copy())
    return Problem(SparseDictionary(pairs, w, TAU), X, pairs.laplacian(w))


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("positive", [False, True])
def test_the_l1_penalty_is_minimised_to_the_stated_gap(problem, missing, positive):
    signals = problem.signals(missing)
    coding = LargeLasso(problem.D, ALPHA, "l1", positive, 1e-5).code(signals)
    best = problem.exact(signals, "l1", positive)
    h = coding.h.toarray()
    excess = problem.values(signals, h) - problem.values(signals, best.h)
    assert (coding.gap <= 1e-5 * signals.energy).all()
    assert (excess <= coding.gap + 1e-9 * signals.energy).all()
    np.testing.assert_allclose(coding.value, problem.values(signals, h), rtol=1e-9)
    assert not positive or h.min() >= 0.0
    both = ((h != 0) & (best.h != 0)).sum()
    assert both >= 0.9 * max((h != 0).sum(), (best.h != 0).sum())


def test_the_logarithmic_penalty_ends_where_the_dense_one_does(problem):
    signals = problem.signals()
    coding = LargeLasso(problem.D, ALPHA, "log", tol=1e-6).code(signals)
    best = problem.exact(signals, "log")
    h = coding.h.toarray()

    def values(h):
        R = signals.X.T - problem.D.synthesis(h)
        sizes = np.log1p(np.abs(h) * problem.D.omega / ALPHA).sum(axis=1)
        return (R**2).sum(axis=1) + ALPHA**2 * sizes

    np.testing.assert_allclose(coding.value, values(h), rtol=1e-9)
    alike = np.abs(values(h) - values(best.h)) <= 1e-4 * signals.energy
    assert alike.mean() >= 0.9  # the penalty is not convex
    assert ((h != 0) == (best.h != 0)).all(axis=1).mean() >= 0.75


def test_sources_are_stationary_under_the_logarithmic_penalty(problem):
    """``2 q_j = a_j sign(h_j)`` where ``h_j`` is not zero, else ``|2 q_j| <= a_j``."""
    signals = problem.signals()
    coding = LargeLasso(problem.D, ALPHA, "log", tol=1e-8).code(signals)
    h, omega = coding.h.toarray(), problem.D.omega
    a = ALPHA * omega / (1.0 + omega * np.abs(h) / ALPHA)
    q = 2.0 * problem.D.correlations(signals.X.T - problem.D.synthesis(h))
    assert (np.abs(q) <= 1.02 * a).mean() > 0.999
    assert np.abs(q - np.sign(h) * a)[h != 0].max() < 0.05 * ALPHA


def test_signals_of_nothing_have_no_sources(problem):
    X = np.zeros((N, 3))
    X[:, 1] = problem.X[0]
    coding = LargeLasso(problem.D, ALPHA).code(Signals(X))
    assert coding.h[[0, 2]].nnz == 0
    assert coding.h[[1]].nnz > 0


def test_the_units_of_signals_do_not_matter(problem):
    signals = problem.signals()
    one = LargeLasso(problem.D, ALPHA).code(signals)
    other = LargeLasso(problem.D, 1024.0 * ALPHA).code(Signals(1024.0 * signals.X))
    np.testing.assert_allclose(other.h.toarray(), 1024.0 * one.h.toarray(), rtol=1e-9)


def test_what_a_checkpoint_keeps_comes_back(problem):
    signals = problem.signals()
    coding = LargeLasso(problem.D, ALPHA, tol=1e-2).code(signals)
    again = SparseCoding.of(coding.record(), 2 * N)
    assert (again.h != coding.h).nnz == 0
    assert (again.gap == coding.gap).all()
    longer = joined([again, silent(signals, 2 * N)])
    assert longer.h.shape == (2 * M, 2 * N)
    np.testing.assert_array_equal(longer.value[M:], signals.energy)
