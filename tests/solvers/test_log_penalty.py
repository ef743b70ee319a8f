"""The logarithmic penalty: its tangents, the descent of its rounds, and what they end at."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.models.heat import ATOMS, L1, HeatObjective, LogSum, Signals
from heatgraph.models.simplex import ValidSet
from heatgraph.solvers.engine import LocalEngine, code_signals, lasso_of
from heatgraph.solvers.heat import solve_heat
from heatgraph.solvers.result import Solution, Status

N, M = 9, 40
TAU = np.array([1.0, 3.0])


def make_signals(missing: float = 0.0) -> Signals:
    graph = make_graph("er", N, random_state=2, p=0.3)
    X = make_heat_signals(graph, TAU, M, n_sources=2, noise_std=0.01, random_state=2)[0].T.copy()
    X[np.random.default_rng(2).random(X.shape) < missing] = np.nan
    return Signals.from_missing(X)


def make_objective(alpha: float = 0.03, atoms: str = "unit") -> HeatObjective:
    return HeatObjective(CandidateEdges.complete(N), alpha, 0.01, ATOMS[atoms], penalty=LogSum())


def uniform(objective: HeatObjective) -> np.ndarray:
    n = objective.candidates.n_edges
    return np.full(n, objective.total / n)


def log_objective(objective, signals, w, tau, h):
    """``||X - sum E_s H_s||^2 + alpha^2 sum log(1 + omega |H| / alpha) + beta ||L||^2``."""
    D = objective.dictionary(w, tau)
    R = signals.X - D.synthesis(h).T
    if signals.observed is not None:
        R = R[signals.observed]
    a = objective.alpha
    penalty = 0.0 if a == 0.0 else a * a * np.log1p(D.omega.ravel() * np.abs(h) / a).sum()
    return np.sum(R**2) + penalty + objective.beta * np.sum(objective.candidates.laplacian(w) ** 2)


def first_fit(objective, signals, **options):
    settings = {"learn_scales": True, "max_iter": 1000, "tol": 1e-5} | options
    engine = LocalEngine(replace(objective, penalty=L1()), signals)
    return solve_heat(engine, Solution(uniform(objective), TAU), **settings)


def refined(objective, signals, start, **options):
    settings = {"learn_scales": True, "max_iter": 1000, "tol": 1e-5} | options
    return solve_heat(LocalEngine(objective, signals), start, **settings)


@pytest.mark.parametrize("atoms", ["unit", "raw"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_gradient_of_a_discounted_round(rng, atoms, missing):
    """Of ``phi(w, tau) = min_H``, every code with a penalty of its own, along the valid set."""
    objective, signals = make_objective(atoms=atoms), make_signals(missing)
    n = objective.candidates.n_edges
    discount = rng.uniform(0.05, 1.0, (M, TAU.size * N))
    engine = LocalEngine(objective, signals)

    def reduced(x, codes):
        return engine.evaluate(x[:n], x[n:], codes, discount)

    w = rng.uniform(0.5, 1.5, n)
    x = np.concatenate([w * (objective.total / w.sum()), TAU])
    codes = np.zeros((M, TAU.size * N))
    gradient = reduced(x, codes).gradient
    for _ in range(4):
        d = rng.standard_normal(x.size)
        d[:n] -= d[:n].mean()
        d *= 1e-5 / np.abs(d).max()
        change = reduced(x + d, codes).value - reduced(x - d, codes).value
        assert change == pytest.approx(2.0 * gradient @ d, rel=1e-4)


@pytest.fixture(scope="module", params=["complete", "missing", "scales held"])
def case(request):
    objective = make_objective()
    signals = make_signals(0.2 if request.param == "missing" else 0.0)
    options = {"learn_scales": request.param != "scales held"}
    start = first_fit(objective, signals, **options)
    return objective, signals, start, refined(objective, signals, start, **options)


class TestRounds:
    def test_history_never_rises(self, case):
        _, _, start, solution = case
        assert (np.diff(solution.objective) <= 1e-11 * solution.objective[0]).all()
        assert solution.objective.size == solution.n_iter + 1
        assert np.array_equal(solution.objective[: start.n_iter], start.objective[:-1])

    def test_last_value_is_that_of_the_point(self, case):
        objective, signals, _, solution = case
        value = log_objective(objective, signals, solution.w, solution.tau, solution.codes)
        assert solution.objective[-1] == pytest.approx(value, rel=1e-10)

    def test_lowers_the_objective_of_the_l1_fit(self, case):
        objective, signals, start, solution = case
        before = log_objective(objective, signals, start.w, start.tau, start.codes)
        assert solution.objective[-1] < 0.99 * before

    def test_point_is_valid(self, case):
        objective, _, _, solution = case
        assert solution.status is Status.CONVERGED
        assert (solution.w >= 0.0).all()
        assert solution.w.sum() == pytest.approx(objective.total)

    def test_is_stationary_for_the_logarithm_itself(self, case):
        """In the weights and scales by finite differences, in the sources by their conditions."""
        objective, signals, _, solution = case
        n, S = objective.candidates.n_edges, solution.tau.size

        def value(x):
            tau = x[n:] if x.size > n else solution.tau
            return log_objective(objective, signals, x[:n], tau, solution.codes)

        held = np.isnan(solution.residual) or solution.tau.tolist() == TAU.tolist()
        x = solution.w if held else np.append(solution.w, solution.tau)
        gradient = np.empty(x.size)
        for k in range(x.size):
            step = np.zeros(x.size)
            step[k] = 1e-6
            gradient[k] = (value(x + step) - value(x - step)) / 2e-6
        promised = ValidSet(n, objective.total).descent(x, gradient) / value(x)
        assert promised <= 1e-5 * 1.01
        assert promised <= solution.residual * 1.01
        D = objective.dictionary(solution.w, solution.tau)
        h, a = solution.codes, objective.alpha
        R = signals.X - D.synthesis(h).T
        if signals.observed is not None:
            R = np.where(signals.observed, R, 0.0)
        pull = 2.0 * R.T @ D.kernel.atoms(solution.tau)
        price = a * D.omega.ravel() * LogSum().slope(np.abs(h) * D.omega.ravel(), a)
        off = np.where(h != 0.0, np.abs(pull - np.sign(h) * price), np.abs(pull) - price)
        assert h.shape == (M, S * N)
        assert off.max() <= 1e-5 * a

    def test_sources_are_shrunk_less(self, case):
        _, _, start, solution = case
        largest = [np.sort(np.abs(s.codes), axis=1)[:, -1].mean() for s in (start, solution)]
        assert largest[1] > largest[0]


def test_a_round_without_iterations_still_states_its_value():
    """With so large a tolerance the graph stays, and only the sources are found anew."""
    objective, signals = make_objective(), make_signals()
    start = first_fit(objective, signals, max_iter=0, tol=1e3)
    solution = refined(objective, signals, start, tol=1e3)
    assert (start.n_iter, solution.n_iter) == (0, 0)
    value = log_objective(objective, signals, solution.w, solution.tau, solution.codes)
    assert solution.objective == pytest.approx([value], rel=1e-10)
    before = log_objective(objective, signals, start.w, start.tau, start.codes)
    assert np.array_equal(solution.w, start.w)
    assert value < before


@pytest.mark.parametrize("max_iter", [1, 5, 60])
def test_iterations_of_all_rounds_are_limited(max_iter):
    objective, signals = make_objective(), make_signals()
    start = first_fit(objective, signals, max_iter=max_iter, tol=1e-9)
    solution = refined(objective, signals, start, max_iter=max_iter, tol=1e-9)
    assert solution.n_iter == max_iter
    assert solution.status is Status.MAX_ITER
    value = log_objective(objective, signals, solution.w, solution.tau, solution.codes)
    assert solution.objective[-1] == pytest.approx(value, rel=1e-10)


def test_without_alpha_nothing_is_left_to_refine():
    """The sources fit every signal exactly, whatever the graph: it is spread evenly."""
    objective, signals = make_objective(alpha=0.0), make_signals()
    solution = refined(objective, signals, first_fit(objective, signals))
    assert solution.w == pytest.approx(uniform(objective), abs=1e-4)
    value = log_objective(objective, signals, solution.w, solution.tau, solution.codes)
    assert solution.objective[-1] == pytest.approx(value, rel=1e-8)


class TestInterrupt:
    @pytest.mark.parametrize("at", [0, 7])
    def test_keeps_the_best_so_far(self, at):
        objective, signals = make_objective(), make_signals()
        start = first_fit(objective, signals)

        def stop(step):
            if step.iteration == start.n_iter + at:
                raise KeyboardInterrupt

        solution = refined(objective, signals, start, monitor=stop)
        assert solution.status is Status.INTERRUPTED
        assert solution.n_iter == start.n_iter + at
        assert (np.diff(solution.objective) <= 1e-11 * solution.objective[0]).all()

    @pytest.mark.parametrize("call", ["evaluate", "tangent", "settle"])
    def test_keeps_the_last_point_where_the_next_is_not_complete(self, call):
        objective, signals = make_objective(), make_signals()
        start = first_fit(objective, signals)

        class Stopped(LocalEngine):
            def __getattribute__(self, name):
                if name == call:
                    raise KeyboardInterrupt
                return super().__getattribute__(name)

        options = {"learn_scales": True, "max_iter": 1000, "tol": 1e-5}
        solution = solve_heat(Stopped(objective, signals), start, **options)
        assert solution.status is Status.INTERRUPTED
        assert np.isfinite(solution.objective).all()
        assert call == "settle" or np.array_equal(solution.w, start.w)

    def test_no_round_follows_an_l1_fit_that_was_interrupted(self):
        objective, signals = make_objective(), make_signals()

        def stop(step):
            if step.iteration == 3:
                raise KeyboardInterrupt

        start = first_fit(objective, signals, monitor=stop)
        both = refined(objective, signals, Solution(uniform(objective), TAU), monitor=stop)
        assert start.status is both.status is Status.INTERRUPTED
        assert start.n_iter == both.n_iter == 3
        assert np.array_equal(both.codes, start.codes)


def test_monitor_sees_one_history():
    objective, signals = make_objective(), make_signals()
    start = first_fit(objective, signals)
    steps = []
    solution = refined(objective, signals, start, monitor=steps.append)
    iterations = [step.iteration for step in steps]
    assert iterations == sorted(iterations)
    assert iterations[-1] == solution.n_iter
    assert {step.max_iter for step in steps} == {1000}
    assert (np.diff([step.objective for step in steps]) <= 1e-11 * steps[0].objective).all()


def test_one_call_is_the_l1_fit_and_then_the_rounds():
    objective, signals = make_objective(), make_signals()
    both = refined(objective, signals, Solution(uniform(objective), TAU))
    start = first_fit(objective, signals, tol=1e-2)
    assert np.array_equal(both.w, refined(objective, signals, start).w)


@pytest.mark.parametrize("scales", [(0.5, 1.5), (20.0, 60.0)])
def test_of_two_starts_the_better_is_taken(scales):
    objective, signals = replace(make_objective(), penalty=L1()), make_signals()
    engine, options = LocalEngine(objective, signals), {"max_iter": 200, "tol": 1e-4}
    start = Solution(uniform(objective), TAU)
    one, two, both = (
        solve_heat(engine, s, learn_scales=True, **options, **more)
        for s, more in (
            (start, {}),
            (replace(start, tau=np.array(scales)), {}),
            (start, {"second_scales": np.array(scales)}),
        )
    )
    wins = two.objective[-1] < 0.999 * one.objective[-1]
    assert np.array_equal(both.w, two.w if wins else one.w)


class TestCoding:
    def test_every_round_descends(self):
        """In the objective with the logarithmic penalty, the graph held."""
        objective, signals = make_objective(), make_signals(0.1)
        w = uniform(objective)
        D = objective.dictionary(w, TAU)
        values = [log_objective(objective, signals, w, TAU, np.zeros((M, 2 * N)))]
        codes = code_signals(D, signals, objective.alpha)
        for _ in range(4):
            values.append(log_objective(objective, signals, w, TAU, codes.h))
            slopes = LogSum().slope(np.abs(codes.h) * D.omega.ravel(), objective.alpha)
            codes = lasso_of(D, D.gram, signals, objective.alpha, codes.h, slopes)
        final = code_signals(D, signals, objective.alpha, LogSum(), n_rounds=4)
        values.append(log_objective(objective, signals, w, TAU, final.h))
        assert (np.diff(values) < 0.0).all()
        assert final.h == pytest.approx(codes.h, abs=1e-6)

    def test_threads_give_the_same_bits(self):
        D = make_objective().dictionary(uniform(make_objective()), TAU)
        one, two = (code_signals(D, make_signals(), 0.03, LogSum(), n_threads=n).h for n in (1, 2))
        assert np.array_equal(one, two)

    def test_signal_without_an_observed_entry_has_no_source(self):
        D = make_objective().dictionary(uniform(make_objective()), TAU)
        X = make_signals().X.copy()
        X[:, 4] = np.nan
        codes = code_signals(D, Signals.from_missing(X), 0.03, LogSum())
        assert not codes.h[4].any()
        assert codes.h[3].any()
