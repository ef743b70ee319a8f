"""The choice of alpha, beta and the scales: its units, its folds, and what it rests on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from heatgraph import LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.models.heat import ATOMS, PENALTIES, HeatObjective, Signals, units_of
from heatgraph.selection.choose_parameters import (
    CODINGS,
    MOST_STEPS,
    STRETCHES,
    WITH_GAPS,
    Grid,
    Part,
    Point,
    Search,
    Trial,
    choose,
    fit_part,
    hold_out,
    predict_hidden,
)
from heatgraph.selection.folds import Folds, Split, make_folds
from heatgraph.selection.masked_prediction import HiddenPart
from heatgraph.solvers.driver import NO_CHECKPOINT
from heatgraph.solvers.result import Solution, Status
from heatgraph.solvers.signal_model import PLAIN, SignalModel

N, M = 8, 30


@pytest.fixture(scope="module")
def signals():
    graph = make_graph("er", N, random_state=1, p=0.35)
    X = make_heat_signals(graph, (2.0,), M, n_sources=1, noise_std=0.01, random_state=1)[0]
    return Signals(np.ascontiguousarray(X.T))


def search(signals, grid, seed=0, **options):
    candidates = CandidateEdges.complete(signals.X.shape[0])
    penalty = PENALTIES[options.pop("penalty", "log")]
    objective = HeatObjective(candidates, np.nan, np.nan, ATOMS["unit"], penalty=penalty)
    w = np.exp(options.pop("shaken", 0.0) * np.sin(np.arange(candidates.n_edges)))
    w *= 0.5 * candidates.n_nodes / w.sum()
    rng = np.random.default_rng(seed)
    folds = make_folds(signals.X.T, rng=rng)
    settings = {"learn_scales": True, "rng": rng}
    return choose(objective, signals, w, grid, folds, **(settings | options))


GRID = Grid((0.02, 0.1), (0.01, 0.001), (np.array([1.7]),))


class TestUnits:
    def test_are_those_of_a_typical_signal(self, rng):
        X = rng.standard_normal((N, M))
        alpha, beta = units_of(Signals(X))
        assert alpha == pytest.approx(np.linalg.norm(X) / np.sqrt(M))
        assert beta == pytest.approx(np.linalg.norm(X) ** 2 / N)

    def test_scale_with_the_signals(self, rng):
        X = rng.standard_normal((N, M))
        one, other = units_of(Signals(X)), units_of(Signals(8.0 * X))
        assert other == (8.0 * one[0], 64.0 * one[1])

    def test_alpha_does_not_depend_on_how_many_signals_there_are(self, rng):
        X = rng.standard_normal((N, M))
        one, other = units_of(Signals(X)), units_of(Signals(np.hstack([X, X])))
        assert other == pytest.approx((one[0], 2.0 * one[1]))


class TestSplit:
    def test_no_signal_is_on_both_sides(self, rng):
        X = np.arange(1.0, 1.0 + N * M).reshape(N, M)
        held = np.array([3, 8, 20])
        rest = np.setdiff1d(np.arange(M), held)
        part = hold_out(Signals(X), rest, held, rng)
        hidden = part.held_out
        assert part.share == (M - 3) / M
        assert np.array_equal(part.training.X, X[:, rest])
        assert np.array_equal(hidden.visible.X + hidden.truth, np.tile(X[:, held], hidden.n_turns))
        assert np.array_equal(hidden.energy, np.square(X[:, held]).sum(axis=0))  # each entry once


@pytest.fixture(scope="module")
def choice(signals):
    return search(signals, GRID)


class TestChoose:
    def test_what_is_chosen_is_in_the_table(self, choice):
        measured = {"missed", "standard_error", "log_likelihood"}
        assert set(choice.table) == {"n_scales", "alpha", "beta", "n_edges", "scale1"} | measured
        row = choice.table[
            (choice.table["alpha"] == choice.alpha) & (choice.table["beta"] == choice.beta)
        ].squeeze()
        assert row["missed"] == choice.missed
        assert row["standard_error"] == choice.standard_error
        assert choice.missed <= choice.table["missed"].min() + 0.2
        assert choice.predicts

    def test_other_processes_choose_the_same(self, signals, choice):
        other = search(signals, GRID, n_jobs=2)
        pd.testing.assert_frame_equal(other.table, choice.table, check_exact=True)

    def test_progress_is_told_by_point(self, signals, choice):
        told = []
        search(signals, GRID, report=lambda done, of: told.append((done, of)))
        assert [done for done, _ in told] == list(range(1, len(choice.table) + 1))
        assert all(done < of for done, of in told)

    def test_missing_entries_are_not_predicted(self, signals, rng):
        X = np.where(rng.random(signals.X.shape) < 0.2, np.nan, signals.X)
        choice = search(Signals.from_missing(X), GRID)
        assert 0.0 < choice.missed < 1.0
        assert choice.held_out.predicted > 0.0

    def test_two_signals_are_enough(self, signals):
        assert np.isfinite(search(signals.take(np.array([0, 1])), GRID).missed)

    def test_a_fold_of_zeros_has_nothing_to_predict(self, signals):
        X = np.zeros_like(signals.X)
        X[:, 5] = signals.X[:, 5]
        assert np.isfinite(search(Signals(X), GRID).table["missed"]).all()

    def test_scales_are_stretched_and_hidden_entries_predicted_with_less(self, signals):
        grid = Grid(GRID.alphas, GRID.betas, GRID.starts, stretch=True)
        choice = search(signals, grid)
        table = choice.stretches
        of_choice = (table["scale1"] == choice.scales[0]) & (table["beta"] == choice.beta)
        row = table[of_choice & (table["coding"] == choice.coding)]
        assert row["missed"].item() == choice.missed
        assert table["stretch"].between(STRETCHES[0], STRETCHES[-1]).all()
        assert set(table["coding"][of_choice]) == set(CODINGS)
        assert set(table["coding"][~of_choice]) <= {1.0}
        assert choice.w.sum() == pytest.approx(0.5 * N)

    def test_little_depends_on_how_the_solver_steps(self):
        """A start that differs by a hundredth leads the solver on another way to the same end."""
        graph = make_graph("er", 8, random_state=3)
        X = make_heat_signals(graph, (2.0, 4.0), 40, 2, noise_std=0.02, random_state=3)[0]
        grid = Grid((0.2, 0.1, 0.05), (0.05, 0.15, 0.015), (np.array([1.0, 3.0]),), stretch=True)
        signals = Signals(np.ascontiguousarray(X.T) / np.linalg.norm(X) * np.sqrt(len(X)))
        own, found = (search(signals, grid, shaken=size) for size in (0.0, 0.01))
        assert found.scales == pytest.approx(own.scales, rel=0.1)
        assert found.alpha == own.alpha

    def test_what_was_given_stays(self, signals):
        choice = search(signals, Grid((0.05,), (0.003,), GRID.starts, stretch=True))
        assert (choice.alpha, choice.beta) == (0.05, 0.003)
        assert len(choice.table) == 1
        assert not any(name.endswith(("alpha", "beta")) for name in choice.ends)


class Scripted(Search):
    """A search that is told how unlikely signals are, per point and signal, in place of fits."""

    def __init__(self, grid, errors, unlikely=None, observed=None):
        hidden = np.ones((2, 4), dtype=bool)
        of_nothing = Signals(np.zeros((2, 4)), ~hidden)
        truth = np.sqrt(0.5) * np.ones((2, 4))
        training = Signals(of_nothing.X, observed)
        part = Part(training, of_nothing, HiddenPart(of_nothing, truth, hidden), 0.5)
        self.script, self.asked = errors, []
        self.unlikely = errors if unlikely is None else unlikely
        folds = Folds([Split(np.arange(4), np.arange(4))] * 2)
        objective = HeatObjective(CandidateEdges.complete(2), 0.0, 0.0, ATOMS["unit"])
        super().__init__(
            objective,
            [part] * 2,
            np.ones(1),
            grid,
            folds,
            True,
            1,
            None,
            NO_CHECKPOINT,
            PLAIN,
        )

    def _try(self, point, before, base):
        if point in self.trials:
            return
        self.asked.append(point)
        fit = Solution(np.ones(1), np.empty((1, 2, 0)), np.ones(1), np.ones(1), Status.CONVERGED, 0)
        unlikely, errors = (np.split(f(point), 2) for f in (self.unlikely, self.script))
        self.trials[point] = Trial([fit, fit], unlikely, [half[None] for half in errors])


JITTER = np.array([0.1, -0.1, 0.05, -0.05, 0.02, -0.02, 0.1, -0.1])
ONE = (np.array([1.0]),)


class TestRule:
    def test_a_smaller_alpha_has_to_be_better_by_an_error(self):
        errors = {0.4: 0.6, 0.2: 0.3, 0.1: 0.299}
        search = Scripted(
            Grid((0.4, 0.2, 0.1), (1.0,), ONE), lambda p: errors[p.alpha] + JITTER * p.alpha
        )
        assert search.along_alpha().alpha == 0.2

    def test_a_path_ends_where_it_gets_worse(self):
        grid = Grid((0.4, 0.2, 0.1, 0.05), (1.0,), ONE)
        search = Scripted(grid, lambda p: np.full(8, 0.3 + abs(np.log(p.alpha / 0.2))))
        assert search.along_alpha().alpha == 0.2
        assert [p.alpha for p in search.asked] == [0.4, 0.2, 0.1]

    def test_beyond_the_largest_alpha_it_goes_on(self):
        search = Scripted(Grid((0.4, 0.2), (1.0,), ONE), lambda p: np.full(8, 1.0 - p.alpha))
        best = search.along_alpha()
        assert best.alpha == 0.4 * 2.0**MOST_STEPS
        assert "largest alpha" in search.ends(best)

    def test_fewer_scales_where_more_add_nothing(self):
        starts = (np.array([1.0]), np.array([1.0, 3.0]))
        for gain, wanted in ((0.0, 0), (0.2, 1)):
            search = Scripted(
                Grid((0.1,), (1.0,), starts), lambda p, g=gain: 0.5 - g * p.start + JITTER
            )
            assert search.along_alpha().start == wanted

    @pytest.mark.parametrize("wanted", [0.25, 0.5, 1.0, 4.0])
    def test_beta_is_followed_either_way(self, wanted):
        grid = Grid((0.1,), (1.0, 4.0, 0.5, 0.25), ONE)
        search = Scripted(grid, lambda p: np.full(8, abs(np.log(p.beta / wanted))))
        best = search.along_beta(search.along_alpha())
        assert best.beta == wanted
        assert ("smallest beta" in search.ends(best)) == (wanted == 0.25)
        assert ("largest beta" in search.ends(best)) == (wanted == 4.0)

    def test_signals_with_gaps_are_judged_by_prediction(self):
        """And scales by the likelihood, whatever predicts better."""
        grid = Grid((0.4, 0.2, 0.1), (1.0, 4.0, 0.5), ONE, stretch=True)

        def predicts(p):  # best at the smallest alpha and beta, and at long scales
            return np.full(8, np.log(p.alpha) + 0.1 * np.log(p.beta) - p.stretch) + 0.01 * JITTER

        def unlikely(p):
            return np.full(8, np.log(max(p.stretch, 1.0)) ** 2)

        search = Scripted(grid, predicts, unlikely, np.arange(8).reshape(2, 4) != 5)
        best = search.along_beta(search.along_alpha())
        assert (best.alpha, best.beta) == (0.1, pytest.approx(0.5 * WITH_GAPS))
        assert search.along_stretch(best, np.ones(1)).stretch <= 1.0
        without = Scripted(grid, predicts, unlikely)
        assert without.along_alpha().alpha >= 0.4

    @pytest.mark.parametrize(
        "observed", [[[True] * 4, [False] * 4], [[True, False, True, True]] * 2]
    )
    def test_nodes_and_signals_that_were_never_observed_are_no_gaps(self, observed):
        grid = Grid((0.4, 0.2, 0.1), (1.0,), ONE)
        search = Scripted(
            grid,
            lambda p: np.full(8, p.alpha) + 0.01 * JITTER,  # best at the smallest alpha
            lambda p: np.full(8, -p.alpha),
            np.array(observed),
        )
        assert search.along_alpha().alpha >= 0.4

    def test_the_stretch_is_at_the_top_of_a_parabola(self):
        wanted = 1.25  # between two that are tried
        search = Scripted(
            Grid((0.1,), (1.0,), ONE, True), lambda p: np.full(8, np.log(p.stretch / wanted) ** 2)
        )
        best = search.along_stretch(Point(0, 0.1, 1.0), np.ones(1))
        assert best.stretch == pytest.approx(wanted)
        assert best in search.trials

    def test_far_beyond_the_learned_scales_nothing_is_tried(self):
        search = Scripted(Grid((0.1,), (1.0,), ONE, True), lambda p: np.full(8, -p.stretch))
        best = search.along_stretch(Point(0, 0.1, 1.0), np.ones(1))
        assert best.stretch == STRETCHES[-1]
        assert search.ends(best) == ("longest multiple of the learned scales",)

    def test_scales_that_are_too_long_are_made_shorter(self):
        search = Scripted(
            Grid((0.1,), (1.0,), ONE, True), lambda p: np.full(8, np.log(p.stretch / 0.8) ** 2)
        )
        best = search.along_stretch(Point(0, 0.1, 1.0), np.ones(1))
        assert best.stretch == pytest.approx(0.8)


class TestLevel:
    LEVEL = np.linspace(-1.0, 2.0, N)[:, None]

    def errors(self, signals, training=None, **model):
        rng, held = np.random.default_rng(0), np.arange(10)
        part = hold_out(signals, np.arange(10, M), held, rng)
        if training is not None:
            part = replace(part, training=training)
        candidates = CandidateEdges.complete(N)
        objective = HeatObjective(candidates, 0.05, 0.01, ATOMS["unit"])
        w = np.full(candidates.n_edges, 0.5 * N / candidates.n_edges)
        of_signals = SignalModel(**model)
        fit, *_ = fit_part(part, objective, None, w, np.array([1.7]), True, of_signals)
        return predict_hidden(part, objective, fit, (1.0, 0.5), of_signals), part

    def test_hidden_entries_are_predicted_around_it(self, signals):
        own, part = self.errors(signals, fit_intercept=True)
        other, _ = self.errors(Signals(signals.X + self.LEVEL), fit_intercept=True)
        assert other.sum(axis=1) == pytest.approx(own.sum(axis=1), rel=0.25)
        assert own.sum(axis=1).min() < 0.3 * part.held_out.energy.sum()

    def test_signals_held_out_have_no_part_in_it(self, signals):
        """A training set with a level, and signals held out that have none: it predicts badly."""
        own, part = self.errors(signals, fit_intercept=True)
        shifted = Signals(part.training.X + self.LEVEL)
        wrong, _ = self.errors(signals, shifted, fit_intercept=True)
        assert (wrong.sum(axis=1) > 3.0 * own.sum(axis=1)).all()

    def test_positive_sources_predict_with_positive_sources(self, signals):
        up, part = self.errors(Signals(np.abs(signals.X)), positive=True)
        assert (up.sum(axis=1) < part.held_out.energy.sum()).all()
        # Of signals that no positive source explains nothing is predicted.
        down, part = self.errors(Signals(-np.abs(signals.X)), positive=True)
        assert down[0] == pytest.approx(part.held_out.energy)


def test_an_interrupt_ends_the_choice(monkeypatch):
    """The solver keeps the best of a fit that is stopped; the choice must not go on with it."""
    X, _ = make_heat_signals(make_graph("ring", 6, 0), [2.0], 12, 1, random_state=0)
    calls = []

    def stop(*args, **kwargs):
        calls.append(1)
        raise KeyboardInterrupt

    monkeypatch.setattr(HeatObjective, "evaluate", stop)
    with pytest.raises(KeyboardInterrupt):
        LearnHeat(n_scales=1).fit(X)
    assert len(calls) <= 4  # the first fit of the first path, and its rounds
