"""GeneralizedLaplacian: its optimum against a conic solver, gaps, and input that does not serve."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from heatgraph import GeneralizedLaplacian
from heatgraph.baselines.precision_solver import FORMS, fit_precision, penalised_moment
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph import CandidateEdges
from heatgraph.metrics import edge_scores
from heatgraph.models.moments import log_likelihoods

CONSTRAINTS = ["generalized", "dominant", "combinatorial"]


@pytest.fixture(scope="module")
def truth():
    return make_graph("er", 12, random_state=0)


@pytest.fixture(scope="module")
def signals(truth):
    return make_heat_signals(truth, (1.0,), 150, 12, noise_std=0.02, random_state=0)[0] + 2.0


def conic(K, form):
    """The minimum and the minimiser by Clarabel."""
    n = len(K)
    T = cp.Variable((n, n), symmetric=True)
    sums = cp.sum(T, axis=1)
    limits = [T[i, j] <= 0 for i in range(n) for j in range(i)]
    if form == "shared":
        level = cp.Variable()
        limits += [sums == level]
    elif form != "generalized":
        limits += [sums >= 0 if form == "dominant" else sums == 0]
    shift = np.full((n, n), 1.0 / n) if form == "combinatorial" else 0.0
    problem = cp.Problem(cp.Minimize(-cp.log_det(T + shift) + cp.trace(K @ T)), limits)
    problem.solve(solver="CLARABEL")
    return problem.value, T.value


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("n_signals", "lam"), [(40, 0.0), (5, 0.0), (40, 0.01)])
def test_the_optimum_is_that_of_a_conic_solver(form, n_signals, lam):
    X, _ = make_heat_signals(make_graph("er", 8, 0), (1.0,), n_signals, 8, 0.05, random_state=0)
    K = penalised_moment(np.cov(X.T, bias=True), lam)
    fit = fit_precision(K, form, CandidateEdges.complete(8))
    value, T = conic(K, form)
    assert fit.status == "converged"
    assert fit.objective[-1] <= value + 1e-6
    assert pytest.approx(T, abs=1e-3 * np.abs(T).max()) == fit.T
    assert (np.diff(fit.objective) <= 1e-12).all()


@pytest.mark.parametrize("form", FORMS)
def test_the_penalty_is_the_sum_of_off_diagonals(form):
    rng = np.random.default_rng(0)
    W = np.abs(np.triu(rng.standard_normal((5, 5)), 1))
    T = np.diag(rng.random(5)) - W - W.T
    S = np.eye(5)
    off = np.abs(T).sum() - np.abs(np.diag(T)).sum()
    assert np.vdot(penalised_moment(S, 0.3), T) == pytest.approx(np.vdot(S, T) + 0.3 * off)


@pytest.mark.parametrize("form", FORMS)
def test_smooth_signals_are_no_harder(form):
    """Heat that diffused for long: the covariance has a condition number of 1e9 and more."""
    X, _ = make_heat_signals(make_graph("er", 40, 0), (4.0,), 200, 40, 1e-5, random_state=0)
    S = np.cov(X.T, bias=True)
    fit = fit_precision(S, form, CandidateEdges.complete(40))
    assert fit.status == "converged"
    assert fit.n_iter <= 30


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_a_fit_holds_its_results(truth, signals, constraint):
    model = GeneralizedLaplacian(constraint).fit(signals)
    assert model.status_ == "converged"
    assert model.residual_ <= 1e-8
    assert np.trace(model.laplacian_) == pytest.approx(12.0)
    assert model.graph_ == model.weights_.cut(weight=1e-4)
    assert edge_scores(truth, model.graph_).f_measure > 0.8
    T, S = model.precision_, np.cov(signals.T, bias=True)
    assert (T - np.diag(np.diag(T)) <= 0.0).all()
    shift = 1.0 / 12 if constraint == "combinatorial" else 0.0
    value = np.vdot(S, T) - np.linalg.slogdet(T + shift)[1]
    # In the units of the signals, up to J, which has none.
    assert model.objective_[-1] == pytest.approx(value, abs=1e-6)
    if constraint == "combinatorial":
        assert T.sum(axis=1) == pytest.approx(np.zeros(12), abs=1e-9 * T.max())


def test_hidden_entries_are_predicted(signals):
    model = GeneralizedLaplacian().fit(signals[:100])
    assert model.score_hidden(signals[100:]) > 0.4
    assert model.score(signals[100:]) > 0.5
    gaps = signals[100:].copy()
    gaps[:, 3] = np.nan
    filled = model.impute(gaps)
    P, u = model.precision_, model.location_
    others = np.delete(np.arange(12), 3)
    mean = u[3] - (signals[100:, others] - u[others]) @ P[others, 3] / P[3, 3]
    assert filled[:, 3] == pytest.approx(mean)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_gaps_are_filled_by_expectation_and_maximisation(signals, constraint):
    X = signals.copy()
    X[np.random.default_rng(1).random(X.shape) < 0.15] = np.nan
    model = GeneralizedLaplacian(constraint).fit(X)
    assert model.status_ == "converged"
    assert (
        np.corrcoef(
            model.weights_.adjacency().toarray().ravel(),
            GeneralizedLaplacian(constraint).fit(signals).weights_.adjacency().toarray().ravel(),
        )[0, 1]
        > 0.9
    )
    if constraint == "generalized":  # no precision nearby makes what was observed likelier
        at = log_likelihoods(X, model.location_, np.linalg.inv(model.precision_)).sum()
        for scale in (0.97, 1.03):
            C = np.linalg.inv(scale * model.precision_)
            assert log_likelihoods(X, model.location_, C).sum() < at
            C = np.linalg.inv(model.precision_)
            assert log_likelihoods(X, scale * model.location_, C).sum() < at


def test_results_do_not_depend_on_the_unit(signals):
    one = GeneralizedLaplacian(lam=0.001).fit(signals)
    other = GeneralizedLaplacian(lam=0.001 * 1e80).fit(1e40 * signals)
    assert other.laplacian_ == pytest.approx(one.laplacian_, abs=1e-6)
    assert other.precision_ * 1e80 == pytest.approx(one.precision_, rel=1e-4, abs=1e-4)


def test_the_generalized_form_takes_any_unit_of_a_node(signals):
    sizes = np.geomspace(0.01, 100.0, 12)
    one = GeneralizedLaplacian(tol=1e-12).fit(signals).precision_
    other = GeneralizedLaplacian(tol=1e-12).fit(signals * sizes).precision_
    assert other * np.outer(sizes, sizes) == pytest.approx(one, abs=1e-5 * np.abs(one).max())


def test_names_candidates_and_number_of_edges(signals):
    frame = pd.DataFrame(signals, columns=[f"n{k}" for k in range(12)])
    model = GeneralizedLaplacian(n_edges=5).fit(frame)
    assert model.graph_.names == tuple(frame.columns)
    assert model.graph_.n_edges == 5
    ring = [(k, (k + 1) % 12) for k in range(12)]
    learned = GeneralizedLaplacian("combinatorial", candidates=ring).fit(signals)
    assert {tuple(edge) for edge in learned.weights_.edges} <= {tuple(sorted(e)) for e in ring}
    assert isinstance(model.impute(frame), pd.DataFrame)


def test_a_large_penalty_leaves_no_edge(signals):
    with pytest.warns(UserWarning, match="no edge; penalise"):
        model = GeneralizedLaplacian("dominant", lam=1e3).fit(signals)
    assert model.graph_.n_edges == 0


def test_stopping_early_is_said(signals):
    with pytest.warns(ConvergenceWarning, match="GeneralizedLaplacian.*max_iter"):
        assert GeneralizedLaplacian(max_iter=1).fit(signals).status_ == "max_iter"


def test_an_interruption_keeps_the_best_so_far(signals):
    def stop(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt

    X = signals.copy()
    assert GeneralizedLaplacian().fit(X, monitor=stop).status_ == "interrupted"
    X[::7, 3] = np.nan
    assert GeneralizedLaplacian().fit(X, monitor=stop).status_ == "interrupted"


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("lam", [0.4, 1.0])
def test_a_penalty_beyond_the_covariances_leaves_few_edges(signals, constraint, lam):
    S = np.cov(signals[:10].T, bias=True)
    K = penalised_moment(S, lam * float(np.diag(S).mean()))
    assert K.sum() < 0.0
    fit = fit_precision(K, constraint, CandidateEdges.complete(12))
    value, _ = conic(K, constraint)
    assert fit.status == "converged"
    assert fit.objective[-1] <= value + 1e-6


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_a_penalty_holds_what_few_gappy_signals_do_not(signals, constraint):
    """Many pairs were observed together once: without a penalty their weights are infinite."""
    X = signals[:10].copy()
    X[np.random.default_rng(1).random(X.shape) < 0.4] = np.nan
    with pytest.raises(
        ValueError, match=r"wherever both were observed \(\d of 10 signals\).*penal"
    ):
        GeneralizedLaplacian(constraint).fit(X)
    model = GeneralizedLaplacian(constraint, lam=0.05 * np.nanvar(X)).fit(X)
    assert model.status_ == "converged"
    assert model.residual_ <= 1e-6


def test_signals_that_agree_where_both_were_observed_are_named(signals):
    X = np.column_stack([signals, 2.0 * signals[:, 5] + 1.0])
    X[:4, 5], X[7:11, 12] = np.nan, np.nan
    with pytest.raises(ValueError, match=r"columns 5 and 12 hold the same.*\(142 of 150 signals\)"):
        GeneralizedLaplacian().fit(X)
    assert GeneralizedLaplacian("dominant").fit(X).status_ == "converged"  # of another size
    others = [(i, j) for i in range(13) for j in range(i) if (i, j) != (12, 5)]
    assert GeneralizedLaplacian(candidates=others).fit(X).status_ == "converged"


RANDOM = np.random.default_rng(1).standard_normal((20, 4))
ALIKE = np.column_stack([RANDOM, RANDOM[:, 1]])
ONCE = np.column_stack([RANDOM, np.where(np.arange(20) == 3, 1.0, np.nan)])


@pytest.mark.parametrize(
    ("X", "parameters", "message"),
    [
        (RANDOM, {"constraint": "loose"}, "constraint must be one of"),
        (RANDOM, {"lam": -1.0}, "lam must be a finite number >= 0"),
        (RANDOM[:1], {}, "minimum of 2 signals"),
        (np.column_stack([RANDOM, np.ones(20)]), {}, "column 4 is constant.*drop the 1"),
        (np.column_stack([RANDOM, np.full(20, np.nan)]), {}, "column 4 holds NaN only"),
        (ONCE, {}, "column 4 is constant wherever it was observed.*drop the 1"),
        (ONCE, {"constraint": "dominant"}, "column 4 is constant wherever it was observed"),
        (ALIKE, {}, "columns 1 and 4 hold the same signal"),
        (ALIKE, {"constraint": "combinatorial"}, "columns 1 and 4 hold the same signal"),
        (
            RANDOM,
            {"constraint": "combinatorial", "candidates": [(0, 1), (2, 3)]},
            "candidates: they leave the graph in pieces",
        ),
    ],
)
def test_bad_input_is_named(X, parameters, message):
    with pytest.raises(ValueError, match=message):
        GeneralizedLaplacian(**parameters).fit(X)
