"""LakeTenenbaum: its optimum as written in the paper, the choice of beta, bad input."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

from heatgraph import LakeTenenbaum
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.metrics import edge_scores


@pytest.fixture(scope="module")
def truth():
    return make_graph("er", 12, random_state=0)


@pytest.fixture(scope="module")
def signals(truth):
    return make_heat_signals(truth, (1.0,), 150, 12, noise_std=0.02, random_state=0)[0] + 2.0


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_the_optimum_is_that_of_a_conic_solver(beta):
    X, _ = make_heat_signals(make_graph("er", 7, 0), (1.0,), 30, 7, 0.05, random_state=0)
    model = LakeTenenbaum(beta=beta).fit(X)
    centred = (X - X.mean(axis=0)).T
    W, q = cp.Variable((7, 7), symmetric=True), cp.Variable()
    D = cp.diag(W @ np.ones(7)) - W + q * np.eye(7)
    likely = cp.log_det(D) - cp.trace(D @ centred @ centred.T) / 30 - beta / 30 * cp.sum(W)
    problem = cp.Problem(cp.Maximize(likely), [W >= 0, cp.diag(W) == 0])
    problem.solve(solver="CLARABEL")
    assert -model.objective_[-1] >= problem.value - 1e-6
    assert model.precision_ == pytest.approx(D.value, abs=1e-3 * np.abs(D.value).max())
    assert model.variance_ == pytest.approx(1.0 / q.value, rel=1e-3)
    assert model.residual_ <= 1e-8


def test_edges_are_found_and_entries_predicted(truth, signals):
    model = LakeTenenbaum().fit(pd.DataFrame(signals[:100]).add_prefix("n"))
    assert edge_scores(truth, model.weights_.cut(n_edges=truth.n_edges)).f_measure > 0.8
    assert model.graph_.names[0] == "n0"
    assert model.score_hidden(pd.DataFrame(signals[100:]).add_prefix("n")) > 0.4


def test_beta_is_chosen_and_gives_the_same_fit_when_given(signals):
    chosen = LakeTenenbaum().fit(signals)
    given = LakeTenenbaum(beta=chosen.beta_).fit(signals)
    assert given.laplacian_ == pytest.approx(chosen.laplacian_, abs=1e-6)
    few = LakeTenenbaum().fit(signals[:12])
    assert few.beta_ / 12 > chosen.beta_ / 150  # few signals need more of it


def test_gaps_and_units(signals):
    X = signals.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    one, other = LakeTenenbaum().fit(X), LakeTenenbaum().fit(1024.0 * X)
    assert one.status_ == "converged"
    assert other.laplacian_ == pytest.approx(one.laplacian_)
    assert other.variance_ == pytest.approx(1024.0**2 * one.variance_)
    whole = LakeTenenbaum().fit(signals).laplacian_
    assert np.linalg.norm(one.laplacian_ - whole) < 0.5 * np.linalg.norm(whole)


def test_nodes_with_the_same_signal_are_held_by_a_penalty(signals):
    X = np.column_stack([signals, signals[:, 0]])
    X[3, 0] = np.nan
    model = LakeTenenbaum().fit(X)
    assert model.beta_ > 0.0
    assert model.status_ == "converged"
    with pytest.raises(ValueError, match=r"columns 0 and 12 hold the same signal.*penalise"):
        LakeTenenbaum(beta=0.0).fit(X)
    # Nor is it forgotten where no fold leaves something of every node to fit.
    for fold, node in zip(np.array_split(np.arange(len(X)), 3), (1, 2, 3), strict=True):
        X[np.setdiff1d(np.arange(len(X)), fold), node] = np.nan
    assert LakeTenenbaum().fit(X).beta_ > 0.0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"beta": "best"}, 'beta must be a number >= 0 or "auto"'),
        ({"beta": -1.0}, "beta must be a finite number >= 0"),
    ],
)
def test_bad_input_is_named(signals, parameters, message):
    with pytest.raises(ValueError, match=message):
        LakeTenenbaum(**parameters).fit(signals)


def test_signals_that_do_not_vary_are_named():
    with pytest.raises(ValueError, match=r"column 0 is constant.*drop the 4"):
        LakeTenenbaum().fit(np.ones((5, 4)))
