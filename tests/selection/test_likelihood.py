"""The choice of shrinkage and penalty by held-out likelihood."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph import CandidateEdges
from heatgraph.models.moments import Moments
from heatgraph.selection.likelihood import (
    PENALTIES,
    PILOT,
    SHRINKAGES,
    Fold,
    Strength,
    choose_strength,
    fit_at,
)
from heatgraph.solvers.gaussian import GaussianFitter, shrunk

N = 8
FITTER = GaussianFitter(CandidateEdges.complete(N))


def folds_of(M, noise=0.05):
    graph = make_graph("er", N, random_state=0)
    X, _ = make_heat_signals(graph, (2.0,), M, n_sources=N, noise_std=noise, random_state=0)
    parts = [Moments.of(part) for part in np.array_split(X / X.std(), 3)]

    def fold(k):
        rest = reduce(add, parts[:k] + parts[k + 1 :])
        return Fold(rest, lambda point, location: point.misfit(parts[k].around(location)))

    return [fold(k) for k in range(3)]


@pytest.fixture(scope="module")
def few():
    return choose_strength(FITTER, folds_of(12), SHRINKAGES, PENALTIES)


def test_is_the_best_that_was_tried(few):
    strength, table, interrupted = few
    assert not interrupted
    best = table.loc[table["log_likelihood"].idxmax()]
    assert (best["shrinkage"], best["penalty"]) == (strength.rho, strength.c)
    assert bool(best["relaxed"]) is strength.relaxed
    assert not table.duplicated(["shrinkage", "penalty", "relaxed"]).any()
    assert np.isfinite(table.to_numpy(dtype=float)).all()


def test_few_signals_are_shrunk_more_than_many(few):
    many = choose_strength(FITTER, folds_of(600), SHRINKAGES, PENALTIES)
    assert few[0].rho > many[0].rho


@pytest.mark.parametrize("rho", [0.0, 0.05])
def test_what_is_held_is_held(rho):
    strength, table, _ = choose_strength(FITTER, folds_of(30), (rho,), PENALTIES)
    assert strength.rho == rho
    assert set(table["shrinkage"]) == {rho}
    strength, table, _ = choose_strength(FITTER, folds_of(30), SHRINKAGES, (1.0,))
    assert strength.c == 1.0
    assert set(table["penalty"]) == {1.0}


def test_threads_change_nothing(few):
    strength, table, _ = choose_strength(FITTER, folds_of(12), SHRINKAGES, PENALTIES, n_jobs=3)
    assert strength == few[0]
    assert table.equals(few[1])


@pytest.mark.parametrize("after", [1, 3])
def test_stopped_by_the_user_it_keeps_the_best_so_far(after):
    def stop(done, of):
        assert done < of
        if done == after:
            raise KeyboardInterrupt

    strength, table, interrupted = choose_strength(
        FITTER, folds_of(12), SHRINKAGES, PENALTIES, report=stop
    )
    assert interrupted
    assert len(table) == after
    assert strength.rho in set(table["shrinkage"])


def test_the_likelihood_is_that_of_the_held_out_signals():
    """One strength, by hand: rough fits, so to a tenth of a nat."""
    folds, strength = folds_of(90), Strength(0.01, 2.0)
    _, table, _ = choose_strength(FITTER, folds, (0.01,), (2.0,))
    by_hand = []
    for fold in folds:
        pilot = shrunk(fold.S, PILOT)
        start = FITTER.likeliest(pilot, FITTER.start(pilot, fold.train.count))
        S = shrunk(fold.S, strength.rho)
        fit = fit_at(FITTER, S, fold.train.count, strength, start)
        by_hand.append(-0.5 * fold.judge(fit.point, fold.location))
    row = table.iloc[0]
    assert row["log_likelihood"] == pytest.approx(np.mean(by_hand), abs=0.1)
    assert row["standard_error"] == pytest.approx(np.std(by_hand, ddof=1) / np.sqrt(3), rel=0.5)


def test_fit_at():
    fold = folds_of(90)[0]
    S, M = shrunk(fold.S, 0.01), fold.train.count
    likeliest = FITTER.likeliest(S, FITTER.start(S, M))
    assert fit_at(FITTER, S, M, Strength(0.01, 0.0), likeliest).point.problem.penalty is None
    sparse = fit_at(FITTER, S, M, Strength(0.01, 3.0), likeliest)
    relaxed = fit_at(FITTER, S, M, Strength(0.01, 3.0, relaxed=True), likeliest)
    assert sparse.point.problem.penalty.c == 3.0
    assert relaxed.point.problem.penalty is None
    assert relaxed.point.problem.n_edges == int((sparse.point.w > 0.0).sum())


def test_without_an_intercept_the_location_is_zero():
    moments = Moments.of(np.array([[1.0, 2.0], [3.0, 4.0]]))
    fold = Fold(moments, lambda point, location: 0.0, fit_intercept=False)
    assert not fold.location.any()
    np.testing.assert_allclose(fold.S, [[5.0, 7.0], [7.0, 10.0]])
