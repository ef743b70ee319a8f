"""The logarithmic penalty: its tangents, the descent of its rounds, and what they end at."""

from __future__ import annotations

import numpy as np
import pytest

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.models.atoms import ATOMS
from heatgraph.models.heat import HeatObjective, Signals
from heatgraph.models.simplex import ValidSet
from heatgraph.solvers import log_penalty
from heatgraph.solvers.heat import _Reduced, as_sources, code_signals, solve_heat
from heatgraph.solvers.log_penalty import (
    PENALTIES,
    code_log,
    discount_of,
    keep_l1,
    refine_log,
)
from heatgraph.solvers.result import Status
from heatgraph.solvers.signal_access import LocalSignals, above_tangent

N, M = 9, 40
TAU = np.array([1.0, 3.0])


def make_signals(missing: float = 0.0) -> Signals:
    graph = make_graph("er", N, random_state=2, p=0.3)
    X = make_heat_signals(graph, TAU, M, n_sources=2, noise_std=0.01, random_state=2)[0].T.copy()
    X[np.random.default_rng(2).random(X.shape) < missing] = np.nan
    return Signals.from_missing(X)


def make_objective(alpha: float = 0.03, atoms: str = "unit") -> HeatObjective:
    return HeatObjective(CandidateEdges.complete(N), alpha, 0.01, ATOMS[atoms])


def uniform(objective: HeatObjective) -> np.ndarray:
    n = objective.candidates.n_edges
    return np.full(n, objective.total / n)


def log_objective(objective, signals, w, tau, H):
    """``||X - sum E_s H_s||^2 + alpha^2 sum log(1 + omega |H| / alpha) + beta ||L||^2``."""
    D = objective.dictionary(w, tau)
    R = signals.X - D.synthesis(H)
    if signals.observed is not None:
        R = R[signals.observed]
    a = objective.alpha
    penalty = 0.0 if a == 0.0 else a * a * np.log1p(D.omega[:, :, None] * np.abs(H) / a).sum()
    return np.sum(R**2) + penalty + objective.beta * np.sum(objective.candidates.laplacian(w) ** 2)


def first_fit(objective, signals, **options):
    settings = {"learn_scales": True, "max_iter": 1000, "tol": 1e-5} | options
    return solve_heat(objective, signals, uniform(objective), TAU, **settings)


def refined(objective, signals, start, **options):
    settings = {"learn_scales": True, "max_iter": 1000, "tol": 1e-5} | options
    return refine_log(objective, signals, start, **settings)


class TestTangent:
    def test_discount_is_the_slope_of_the_penalty(self, rng):
        u, alpha, step = rng.exponential(size=50), 0.3, 1e-6

        def penalty(u):
            return alpha**2 * np.log1p(u / alpha)

        slope = (penalty(u + step) - penalty(u - step)) / (2 * step)
        assert alpha * discount_of(u, alpha) == pytest.approx(slope, rel=1e-7)

    def test_discount_lies_between_none_and_all(self):
        u = np.array([0.0, 0.3, 1e300])
        assert discount_of(u, 0.3) == pytest.approx([1.0, 0.5, 0.0])

    @pytest.mark.parametrize("alpha", [1e-3, 0.3, 50.0])
    def test_lies_above_the_penalty_and_touches_it(self, rng, alpha):
        u0 = alpha * rng.exponential(size=30)
        u = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 100)]) * alpha
        for at in u0:
            one = np.array([at])
            tangent = alpha * discount_of(one, alpha) * u + above_tangent(one, alpha)
            assert (tangent >= alpha**2 * np.log1p(u / alpha) - 1e-12 * alpha**2).all()
        touching = alpha * float(discount_of(u0, alpha) @ u0) + above_tangent(u0, alpha)
        assert touching == pytest.approx(alpha**2 * np.log1p(u0 / alpha).sum())

    def test_l1_is_the_tangent_at_no_sources(self):
        assert discount_of(np.zeros(4), 0.2) == pytest.approx(np.ones(4))
        assert above_tangent(np.zeros(4), 0.2) == 0.0

    def test_no_penalty_is_not_discounted(self):
        assert np.array_equal(discount_of(np.array([0.0, 2.0]), 0.0), [1.0, 1.0])
        assert above_tangent(np.array([0.0, 2.0]), 0.0) == 0.0


@pytest.mark.parametrize("atoms", ["unit", "raw"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_gradient_of_a_discounted_round(rng, atoms, missing):
    """Of ``phi(w, tau) = min_H``, every code with a penalty of its own, along the valid set."""
    objective, signals = make_objective(atoms=atoms), make_signals(missing)
    n = objective.candidates.n_edges
    discount = rng.uniform(0.05, 1.0, (M, TAU.size * N))
    reduced = _Reduced(objective, LocalSignals(signals), TAU, True, discount)
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
        value = log_objective(objective, signals, solution.w, solution.tau, solution.H)
        assert solution.objective[-1] == pytest.approx(value, rel=1e-10)

    def test_lowers_the_objective_of_the_l1_fit(self, case):
        objective, signals, start, solution = case
        before = log_objective(objective, signals, start.w, start.tau, start.H)
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
            return log_objective(objective, signals, x[:n], tau, solution.H)

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
        R = signals.X - D.synthesis(solution.H)
        if signals.observed is not None:
            R = np.where(signals.observed, R, 0.0)
        pull = 2.0 * R.T @ D.kernel.atoms(solution.tau)
        price = a * D.omega.ravel() * discount_of(np.abs(h) * D.omega.ravel(), a)
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
    value = log_objective(objective, signals, solution.w, solution.tau, solution.H)
    assert solution.objective == pytest.approx([value], rel=1e-10)
    before = log_objective(objective, signals, start.w, start.tau, start.H)
    assert np.array_equal(solution.w, start.w)
    assert value < before


@pytest.mark.parametrize("max_iter", [1, 5, 60])
def test_iterations_of_all_rounds_are_limited(max_iter):
    objective, signals = make_objective(), make_signals()
    start = first_fit(objective, signals, max_iter=max_iter, tol=1e-9)
    solution = refined(objective, signals, start, max_iter=max_iter, tol=1e-9)
    assert solution.n_iter == max_iter
    assert solution.status is Status.MAX_ITER
    value = log_objective(objective, signals, solution.w, solution.tau, solution.H)
    assert solution.objective[-1] == pytest.approx(value, rel=1e-10)


def test_without_alpha_nothing_is_left_to_refine():
    """The sources fit every signal exactly, whatever the graph: it is spread evenly."""
    objective, signals = make_objective(alpha=0.0), make_signals()
    solution = refined(objective, signals, first_fit(objective, signals))
    assert solution.w == pytest.approx(uniform(objective), abs=1e-4)
    value = log_objective(objective, signals, solution.w, solution.tau, solution.H)
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

    def test_keeps_the_last_round_where_the_next_has_no_point_yet(self, monkeypatch):
        objective, signals = make_objective(), make_signals()
        start = first_fit(objective, signals)

        def stop(*args, **options):
            raise KeyboardInterrupt

        monkeypatch.setattr(log_penalty, "solve_heat", stop)
        solution = refined(objective, signals, start)
        assert solution.status is Status.INTERRUPTED
        assert np.array_equal(solution.w, start.w)

    def test_nothing_follows_an_interrupted_fit(self):
        objective, signals = make_objective(), make_signals()

        def stop(step):
            if step.iteration == 3:
                raise KeyboardInterrupt

        start = first_fit(objective, signals, monitor=stop)
        solution = refined(objective, signals, start)
        assert solution.status is Status.INTERRUPTED
        assert solution.n_iter == 3
        assert np.array_equal(solution.H, start.H)


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


def test_the_l1_fit_is_its_own_refinement():
    refine, code = PENALTIES["l1"]
    objective, signals = make_objective(), make_signals()
    start = first_fit(objective, signals, max_iter=3)
    assert refine is keep_l1
    assert code is code_signals
    options = {"learn_scales": True, "max_iter": 9, "tol": 1e-3}
    assert refine(objective, signals, start, **options) is start


class TestCoding:
    def test_every_round_descends(self):
        """In the objective with the logarithmic penalty, the graph held."""
        objective, signals = make_objective(), make_signals(0.1)
        w = uniform(objective)
        D = objective.dictionary(w, TAU)
        values = [log_objective(objective, signals, w, TAU, np.zeros((2, N, M)))]
        codes = code_signals(D, signals, objective.alpha)
        for _ in range(4):
            values.append(log_objective(objective, signals, w, TAU, as_sources(codes.h, 2)))
            discount = discount_of(np.abs(codes.h) * D.omega.ravel(), objective.alpha)
            codes = code_signals(D, signals, objective.alpha, start=codes.h, discount=discount)
        final = code_log(D, signals, objective.alpha, n_rounds=4)
        values.append(log_objective(objective, signals, w, TAU, as_sources(final.h, 2)))
        assert (np.diff(values) < 0.0).all()
        assert final.h == pytest.approx(codes.h, abs=1e-6)

    def test_threads_give_the_same_bits(self):
        D = make_objective().dictionary(uniform(make_objective()), TAU)
        one, two = (code_log(D, make_signals(), 0.03, n_threads=n).h for n in (1, 2))
        assert np.array_equal(one, two)

    def test_signal_without_an_observed_entry_has_no_source(self):
        D = make_objective().dictionary(uniform(make_objective()), TAU)
        X = make_signals().X.copy()
        X[:, 4] = np.nan
        codes = code_log(D, Signals.from_missing(X), 0.03)
        assert not codes.h[4].any()
        assert codes.h[3].any()
