"""Signals around an unknown level: the level is the best one, and the gradients still hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.models.heat import ATOMS, PENALTIES, HeatObjective, LogSum, Signals
from heatgraph.solvers.engine import LocalEngine, code_signals
from heatgraph.solvers.heat import solve_heat
from heatgraph.solvers.result import Solution, Status
from heatgraph.solvers.signal_model import (
    InterceptEngine,
    LevelCodes,
    LevelProblem,
    SignalModel,
    engine_of,
    level_of,
    subtract_level,
)

N, M, TAU = 10, 40, np.array([1.0, 3.0])
LEVEL = np.random.default_rng(7).normal(size=N)
WITH_LEVEL = SignalModel(fit_intercept=True)


def make_signals(missing=0.0, level=LEVEL, n_signals=M):
    graph = make_graph("er", N, random_state=2, p=0.35)
    X, _ = make_heat_signals(graph, TAU, n_signals, n_sources=2, noise_std=0.02, random_state=2)
    gone = np.random.default_rng(0).random(X.shape) < missing
    return Signals.from_missing(np.where(gone, np.nan, X + level).T.copy())


def make_objective(alpha=0.05, atoms="unit"):
    return HeatObjective(CandidateEdges.complete(N), alpha, 0.05, ATOMS[atoms])


def weights(objective, rng):
    w = rng.uniform(0.5, 1.5, objective.candidates.n_edges)
    return w * (objective.total / w.sum())


def mean_residual(signals, D, codes):
    """The largest mean residual of a node, over the size of the signals."""
    R = subtract_level(signals, codes.u).X - D.synthesis(codes.h).T
    if signals.observed is not None:
        R = np.where(signals.observed, R, 0.0)
    n = np.maximum(signals.n_observed, 1)
    return np.abs(R.sum(axis=1) / n).max() / np.sqrt(signals.energy.sum() / n.sum())


class TestModel:
    def test_signals_of_an_unknown_kind_have_no_engine(self):
        with pytest.raises(TypeError, match="list"):
            engine_of([1.0], make_objective())

    @pytest.mark.parametrize("penalty", PENALTIES)
    def test_positive_sources_of_either_penalty(self, rng, penalty):
        objective, signals = make_objective(), make_signals(level=0.0)
        D = objective.dictionary(weights(objective, rng), TAU)
        given = D, signals, objective.alpha, PENALTIES[penalty]
        assert code_signals(*given, positive=True).h.min() >= 0.0
        assert code_signals(*given).h.min() < 0.0

    def test_unobserved_entries_have_no_level(self):
        signals = make_signals(0.3)
        around = subtract_level(signals, LEVEL)
        assert not around.X[~signals.observed].any()
        assert around.X[signals.observed] == pytest.approx(
            (signals.X - LEVEL[:, None])[signals.observed]
        )


class TestLevel:
    @pytest.mark.parametrize("missing", [0.0, 0.3])
    @pytest.mark.parametrize("positive", [False, True])
    @pytest.mark.parametrize("alpha", [0.3, 0.05, 0.02])
    def test_residuals_have_no_mean(self, rng, missing, positive, alpha):
        objective, signals = make_objective(alpha), make_signals(missing)
        D = objective.dictionary(weights(objective, rng), TAU)
        engine = engine_of(signals, objective, SignalModel(positive, True))
        codes, _ = engine.code(D, engine.zero_codes(D.n_atoms), None)
        assert mean_residual(signals, D, codes) < 1e-6
        assert codes.h.min() >= 0.0 or not positive

    @pytest.mark.parametrize("missing", [0.0, 0.3])
    @pytest.mark.parametrize("positive", [False, True])
    def test_against_an_interior_point_method(self, rng, missing, positive):
        cp = pytest.importorskip("cvxpy")
        objective, signals = make_objective(), make_signals(missing, n_signals=8)
        D = objective.dictionary(weights(objective, rng), TAU)
        discount = rng.uniform(0.3, 1.0, (8, D.n_atoms))
        engine = engine_of(signals, objective, SignalModel(positive, True))
        _, moments = engine.code(D, engine.zero_codes(D.n_atoms), discount)
        found = moments.fit + objective.alpha * float(np.vdot(D.omega, moments.c))
        h, u = cp.Variable((8, D.n_atoms), nonneg=positive), cp.Variable((1, N))
        seen = np.ones((8, N)) if signals.observed is None else signals.observed.T.astype(float)
        residual = cp.multiply(seen, signals.X.T - np.ones((8, 1)) @ u - h @ D.kernel.atoms(TAU).T)
        penalty = cp.sum(cp.multiply(objective.alpha * D.omega.ravel() * discount, cp.abs(h)))
        problem = cp.Problem(cp.Minimize(cp.sum_squares(residual) + penalty))
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11)
        assert found == pytest.approx(problem.value, rel=1e-7)

    def test_is_found_again_from_itself_at_once(self, rng, monkeypatch):
        objective, signals = make_objective(), make_signals()
        D = objective.dictionary(weights(objective, rng), TAU)
        engine = engine_of(signals, objective, WITH_LEVEL)
        codes, _ = engine.code(D, engine.zero_codes(D.n_atoms), None)
        monkeypatch.setattr(LevelProblem, "step", lambda self, point: None)
        again, _ = engine.code(D, codes, None)
        assert again.h == pytest.approx(codes.h, abs=1e-9)
        assert np.array_equal(again.u, codes.u)

    def test_shifts_with_the_signals(self, rng):
        objective = make_objective()
        D = objective.dictionary(weights(objective, rng), TAU)
        found = []
        for level in (LEVEL, LEVEL + 3.0):
            engine = engine_of(make_signals(0.2, level), objective, WITH_LEVEL)
            found.append(engine.code(D, engine.zero_codes(D.n_atoms), None)[0])
        assert found[1].u - found[0].u == pytest.approx(np.full(N, 3.0), abs=1e-5)
        assert found[1].h == pytest.approx(found[0].h, abs=1e-4)

    def test_a_node_that_was_never_observed_has_none(self, rng):
        objective, signals = make_objective(), make_signals()
        observed = np.ones((N, M), dtype=bool)
        observed[4] = False
        signals = Signals(np.where(observed, signals.X, 0.0), observed)
        D = objective.dictionary(weights(objective, rng), TAU)
        engine = engine_of(signals, objective, WITH_LEVEL)
        codes, _ = engine.code(D, engine.zero_codes(D.n_atoms), None)
        assert codes.u[4] == 0.0
        assert mean_residual(signals, D, codes) < 1e-6

    def test_without_sources_it_is_the_mean(self, rng):
        objective, signals = make_objective(1e3), make_signals(0.3)
        D = objective.dictionary(weights(objective, rng), TAU)
        engine = engine_of(signals, objective, WITH_LEVEL)
        codes, _ = engine.code(D, engine.zero_codes(D.n_atoms), None)
        assert not codes.h.any()
        assert codes.u == pytest.approx(signals.X.sum(axis=1) / signals.n_observed, rel=1e-5)

    def test_no_penalty_leaves_any_level(self, rng):
        objective = make_objective(0.0)
        D = objective.dictionary(weights(objective, rng), TAU)
        engine = engine_of(make_signals(), objective, WITH_LEVEL)
        codes, moments = engine.code(D, engine.zero_codes(D.n_atoms), None)
        assert moments.fit <= 1e-9 * engine.local.signals.energy.sum()
        assert np.isfinite(codes.u).all()

    @pytest.mark.parametrize("missing", [0.0, 0.3])
    def test_curvature_is_that_of_the_residuals(self, rng, missing):
        """``d (sum_m r_m) / d u = -C``, by finite differences."""
        objective, signals = make_objective(), make_signals(missing)
        D = objective.dictionary(weights(objective, rng), TAU)
        problem = LevelProblem(LocalEngine(objective, signals), D, D.kernel.atoms(TAU), None)
        start = np.zeros((M, D.n_atoms))

        def left(u):
            h = problem.at(u, start).codes.h
            return problem.residual(u, h).sum(axis=1)

        C = problem.curvature(problem.at(LEVEL, start).codes.h)
        np.testing.assert_allclose(C, C.T, atol=1e-9)
        for _ in range(3):
            d = 1e-6 * rng.standard_normal(N)
            assert left(LEVEL - d) - left(LEVEL + d) == pytest.approx(2.0 * C @ d, rel=1e-4)


@pytest.mark.parametrize("atoms", ["unit", "raw"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("positive", [False, True])
def test_gradient_in_the_graph_and_the_scales(rng, atoms, missing, positive):
    """Of ``phi(w, tau) = min_{H, u}``, along the valid set, with penalties that differ."""
    objective, signals = make_objective(atoms=atoms), make_signals(missing)
    n = objective.candidates.n_edges
    engine = engine_of(signals, objective, SignalModel(positive, True))
    discount = rng.uniform(0.3, 1.0, (M, TAU.size * N))

    def reduced(x, codes):
        return engine.evaluate(x[:n], x[n:], codes, discount)

    x = np.concatenate([weights(objective, rng), TAU])
    at = reduced(x, engine.zero_codes(TAU.size * N))
    for _ in range(4):
        d = rng.standard_normal(x.size)
        d[:n] -= d[:n].mean()
        d *= 1e-4 / np.abs(d).max()
        change = reduced(x + d, at.aux).value - reduced(x - d, at.aux).value
        assert change == pytest.approx(2.0 * at.gradient @ d, rel=1e-3, abs=1e-9 * at.value)


@pytest.fixture(scope="module", params=[False, True], ids=["free", "positive"])
def fit(request):
    objective, signals = make_objective(), make_signals(0.1, 0.1 * LEVEL)
    engine = engine_of(signals, objective, SignalModel(request.param, True))
    w = np.full(objective.candidates.n_edges, objective.total / objective.candidates.n_edges)
    options = {"learn_scales": True, "max_iter": 500, "tol": 1e-6}
    first = solve_heat(engine, Solution(w, TAU), **options)
    log = engine_of(signals, replace(objective, penalty=LogSum()), SignalModel(request.param, True))
    return objective, engine, first, solve_heat(log, first, **options)


class TestFit:
    def test_descends_to_a_vanishing_residual(self, fit):
        for solution in fit[2:]:
            assert solution.status is Status.CONVERGED
            assert solution.residual <= 1e-6
            assert (np.diff(solution.objective) <= 1e-10 * solution.objective[0]).all()

    def test_level_is_stationary(self, fit):
        objective, engine, *solutions = fit
        for solution in solutions:
            D = objective.dictionary(solution.w, solution.tau)
            # Newton's step ends at a fall of 1e-12 of the energy: a residual near its root, 1e-6.
            assert mean_residual(engine.local.signals, D, solution.codes) < 3e-6
            assert np.array_equal(level_of(solution, N), solution.codes.u)

    def test_objective_is_lower_than_without(self, fit):
        _, engine, first, _ = fit
        start = Solution(first.w, first.tau)
        plain = solve_heat(engine.local, start, learn_scales=True, max_iter=500, tol=1e-6)
        assert first.objective[-1] < plain.objective[-1]
        assert not level_of(plain, N).any()

    def test_positive_sources_are(self, fit):
        _, engine, *solutions = fit
        for solution in solutions:
            assert solution.codes.h.min() >= 0.0 or not engine.local.positive


def test_codes_come_back_from_a_file(rng):
    engine = InterceptEngine(LocalEngine(make_objective(), make_signals()))
    codes = LevelCodes(np.where(rng.random((M, 20)) < 0.2, rng.normal(size=(M, 20)), 0.0), LEVEL)
    again = engine.unpack(engine.pack(codes), 20)
    assert np.array_equal(again.h, codes.h)
    assert np.array_equal(again.u, codes.u)
