"""CausalGraphProcess: its three problems against other solvers, its graph, its forecasts."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso
from sklearn.utils.estimator_checks import parametrize_with_checks

from heatgraph import CausalGraphProcess
from heatgraph.baselines.causal_solver import (
    Lags,
    coefficients,
    commuting_filters,
    nearest_shift,
)

LIMITS = {"max_iter": 500, "tol": 1e-7}


def process(A, c, n_times, seed):
    """A series by the model, with noise of unit variance, after 100 steps from rest."""
    rng, N, P = np.random.default_rng(seed), len(A), len(c)
    powers = [np.linalg.matrix_power(A, j) for j in range(P + 1)]
    filters = [sum(a * power for a, power in zip(row, powers, strict=False)) for row in c]
    x = np.zeros((n_times + 100, N))
    for k in range(P, len(x)):
        x[k] = sum(R @ x[k - 1 - i] for i, R in enumerate(filters)) + rng.standard_normal(N)
    return x[100:], np.array(filters)


@pytest.fixture(scope="module")
def shift():
    rng = np.random.default_rng(3)
    A = (rng.random((7, 7)) < 0.3) * rng.choice([-1.0, 1.0], (7, 7)) * rng.uniform(0.4, 1.0, (7, 7))
    np.fill_diagonal(A, 0.0)
    return A * (0.7 / np.abs(np.linalg.eigvals(A)).max())


TRUE_C = [[0.0, 1.0], [0.1, -0.1, 0.2]]


@pytest.fixture(scope="module")
def series(shift):
    return process(shift, TRUE_C, 1500, 0)[0]


@pytest.mark.parametrize("lam", [0.0, 0.3])
def test_with_one_lag_it_is_a_lasso_for_each_node(series, lam):
    found = commuting_filters(Lags.of(series, 1), lam, 1.0, **LIMITS)
    past, now = series[:-1], series[1:]
    for node in range(7):
        if lam:
            fit = Lasso(lam, fit_intercept=False, tol=1e-10).fit(past, now[:, node])
            expected = fit.coef_
        else:
            expected = np.linalg.lstsq(past, now[:, node], rcond=None)[0]
        assert found.R[0, node] == pytest.approx(expected, abs=1e-5)


def test_the_first_problem_is_stationary_in_every_block(series):
    """Each filter, the other one held, is the minimiser that a conic solver finds."""
    lam, mu = 0.05, 2.0
    lags = Lags.of(series[:300], 2)
    found = commuting_filters(lags, lam, mu, **LIMITS)
    assert found.status == "converged"
    assert (np.diff(found.objective) <= 1e-12).all()
    rows = [series[2 - i : 300 - i] for i in range(3)]
    for k in range(2):
        R = [found.R[0], found.R[1]]
        R[k] = cp.Variable((7, 7))
        miss = rows[0].T - R[0] @ rows[1].T - R[1] @ rows[2].T
        other = found.R[1 - k]
        value = cp.sum_squares(miss) / (2 * 298)
        value += 0.5 * mu * cp.sum_squares(R[k] @ other - other @ R[k])
        value += lam * cp.sum(cp.abs(R[0]))
        problem = cp.Problem(cp.Minimize(value))
        problem.solve(solver="CLARABEL")
        assert found.objective[-1] == pytest.approx(problem.value, abs=1e-5)
        assert found.R[k] == pytest.approx(R[k].value, abs=1e-3)


def test_the_second_problem_is_that_of_a_conic_solver(series):
    R = commuting_filters(Lags.of(series[:300], 2), 0.02, 1.0, **LIMITS).R
    A = cp.Variable((7, 7))
    value = 0.5 * cp.sum_squares(A - R[0]) + 0.03 * cp.sum(cp.abs(A))
    value += 0.5 * cp.sum_squares(A @ R[1] - R[1] @ A)
    problem = cp.Problem(cp.Minimize(value))
    problem.solve(solver="CLARABEL")
    assert nearest_shift(R, 0.03, 1.0, 1e-8) == pytest.approx(A.value, abs=1e-4)


def test_coefficients_are_those_of_the_process(shift):
    X, _ = process(shift, TRUE_C, 20_000, 1)
    c = coefficients(X, shift, 2, 0.0)
    assert c[0].tolist() == [0.0, 1.0]
    assert c[1] == pytest.approx(TRUE_C[1], abs=0.05)
    assert coefficients(X, shift, 2, 1.0)[1] == pytest.approx(np.zeros(3), abs=1e-9)


def test_arrows_go_from_cause_to_effect(shift, series):
    model = CausalGraphProcess().fit(series)
    assert model.status_ == "converged"
    assert model.residual_ <= 1e-5
    assert model.graph_.directed
    true = {(j, i) for i, j in np.argwhere(shift)}
    strongest = model.weights_.cut(n_edges=len(true))
    assert len(true & set(map(tuple, strongest.edges.tolist()))) >= 0.9 * len(true)
    assert np.linalg.norm(model.adjacency_ - shift) < 0.3 * np.linalg.norm(shift)
    assert model.score(series) > CausalGraphProcess(order=1, lam=0.9).fit(series).score(series)


def test_forecasts_are_those_of_the_recursion(series):
    X = series + 5.0
    model = CausalGraphProcess(lam=0.02).fit(X)
    R1, R2 = model.filters_
    around = X - model.location_
    first = R1 @ around[-1] + R2 @ around[-2]
    second = R1 @ first + R2 @ around[-1]
    assert model.predict(X, 2) == pytest.approx(np.array([first, second]) + model.location_)
    A, c = model.adjacency_, model.coefficients_[1]
    assert pytest.approx(c[0] * np.eye(7) + c[1] * A + c[2] * A @ A) == R2
    ahead = np.array([model.predict(X[: k + 1])[0] for k in range(2, 40)])
    share = np.sum((X[3:41] - ahead) ** 2) / np.sum((X[3:41] - model.location_) ** 2)
    assert model.score(X[1:41]) == pytest.approx(1.0 - share)


def test_names_and_number_of_edges(series):
    frame = pd.DataFrame(series, columns=list("abcdefg"))
    model = CausalGraphProcess(order=1, n_edges=4).fit(frame)
    assert model.graph_.names == tuple("abcdefg")
    assert model.graph_.n_edges == 4
    assert list(model.predict(frame, 3).columns) == list("abcdefg")


def test_the_unit_does_not_matter(series):
    one, other = (CausalGraphProcess(lam=0.05).fit(a * series) for a in (1.0, 2.0**-300))
    assert other.adjacency_ == pytest.approx(one.adjacency_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:CausalGraphProcess")
@parametrize_with_checks(
    [CausalGraphProcess(order=1, lam=0.1)],
    expected_failed_checks=lambda estimator: {
        "check_methods_sample_order_invariance": "rows are times, in order",
        "check_methods_subset_invariance": "a forecast is of what follows all rows",
    },
)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


def test_no_edge_and_no_end_are_said(series):
    alone, _ = process(np.diag([0.9, 0.0, 0.0, 0.0]), [[0.0, 1.0]], 300, 0)
    with pytest.warns(UserWarning, match="no node acts on another"):
        assert CausalGraphProcess(order=1, lam=0.9).fit(alone).adjacency_[0, 0] > 0.0
    with pytest.warns(ConvergenceWarning, match="CausalGraphProcess.*max_iter"):
        assert CausalGraphProcess(lam=0.01, max_iter=1).fit(series).status_ == "max_iter"


@pytest.mark.parametrize(
    ("X", "parameters", "message"),
    [
        (np.eye(5), {"order": 0}, "order must be an integer >= 1"),
        (np.eye(5), {"lam": 1.0}, "lam must be below 1"),
        (np.eye(5), {"lam": "best"}, "lam must be a number >= 0"),
        (np.eye(5), {"mu": -1.0}, "mu must be a finite number >= 0"),
        (np.eye(5), {"nu": -1.0}, "nu must be a finite number >= 0"),
        (np.eye(5), {"n_edges": 0}, "n_edges must be an integer >= 1"),
        (np.eye(5), {"order": 4}, "minimum of 6 signals"),
        (np.ones((9, 3)), {}, "every column is constant"),
        (np.full((9, 3), np.nan), {}, "NaN in 27 entries"),
    ],
)
def test_bad_input_is_named(X, parameters, message):
    with pytest.raises(ValueError, match=message):
        CausalGraphProcess(**parameters).fit(X)
