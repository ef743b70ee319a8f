"""What is held out is held out: series without a graph predict nothing, scores have no level."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.model_selection import TimeSeriesSplit

from heatgraph import HeatCovariance, LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators.hidden import Predicted


def series(seed, M, N, rho):
    """Independent AR(1) series; with ``rho = 1`` random walks."""
    noise = np.random.default_rng(seed).standard_normal((M, N))
    X = noise.copy()
    for m in range(1, M):
        X[m] = rho * X[m - 1] + noise[m]
    return X


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.0, 0.9, 1.0])
def test_independent_series_show_no_graph(rho):
    """With 5 in 100 false graphs, more than 4 of 20 come by chance once in 400 times."""
    trusted = 0
    for seed in range(20):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            LearnHeat(n_scales=1, tol=1e-2).fit(series(seed, 60, 6, rho))
        trusted += not any("show no diffusion" in str(w.message) for w in caught)
    assert trusted <= 4


@pytest.fixture(scope="module")
def signals():
    graph = make_graph("er", 8, random_state=0, p=0.35)
    return make_heat_signals(graph, (2.0,), 45, n_sources=2, noise_std=0.02, random_state=0)[0]


def test_the_score_of_a_fit_is_beside_that_of_no_graph(signals):
    model = LearnHeat(n_scales=1, tol=1e-2).fit(signals)
    score = model.held_out_
    assert 0.3 < score.predicted < 1.0
    assert score.standard_error > 0.0
    assert -0.5 < score.ledoit_wolf < 1.0
    assert score.n_signals == len(signals)
    assert f"{score.predicted:.1%}" in str(score)
    assert "LedoitWolf" in str(score)


@pytest.mark.parametrize("kind", [LearnHeat, HeatCovariance])
def test_splitters_and_groups_decide_what_is_held_out(signals, kind):
    seen = []

    class Spy(TimeSeriesSplit):
        def split(self, X, y=None, groups=None):
            seen.append((np.shape(X), None if groups is None else len(groups)))
            return super().split(X, y, groups)

    given = {"tol": 1e-2, "n_scales": 1}
    kind(cv=Spy(3), **given).fit(signals)
    assert seen == [((45, 8), None)]
    groups = np.arange(45) // 5
    one, other = (kind(**given).fit(signals, groups=g).selection_ for g in (groups, None))
    assert not one.equals(other)
    with pytest.raises(ValueError, match="one label per signal"):
        kind(**given).fit(signals, groups=groups[:3])


@pytest.mark.parametrize(("error", "is_worse"), [(0.01, True), (0.03, False), (np.nan, False)])
def test_no_graph_is_better_only_by_more_than_chance(error, is_worse):
    predicted = Predicted(0.75, 0.02, 0.80, error)
    assert predicted.is_worse == is_worse
    head, _, tail = str(predicted).partition("; LedoitWolf, without a graph, predicts 80.0%")
    assert head == "predicts 75.0% ± 2.0% of the variance of hidden values"
    assert tail.startswith(", which is 5.0% ± ") == np.isfinite(error)
    assert tail.endswith("more and may be chance") == (not is_worse and np.isfinite(error))
