"""The choice of alpha, beta and the scales: its units, its folds, and what it rests on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from heatgraph import LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.objective.atoms import ATOMS
from heatgraph.objective.heat import HeatObjective, Signals
from heatgraph.selection.penalties import (
    STRETCHES,
    Choice,
    Grid,
    _chosen,
    _split,
    choose,
    n_stretching,
    stretched,
    units_of,
    walk_path,
)
from heatgraph.solvers.signal_model import SignalModel

N, M = 8, 30


@pytest.fixture(scope="module")
def signals():
    graph = make_graph("er", N, random_state=1, p=0.35)
    X = make_heat_signals(graph, (2.0,), M, n_sources=1, noise_std=0.01, random_state=1)[0]
    return Signals(np.ascontiguousarray(X.T))


def search(signals, grid, seed=0, **options):
    candidates = CandidateEdges.complete(signals.X.shape[0])
    objective = HeatObjective(candidates, np.nan, np.nan, ATOMS["unit"])
    w = np.full(candidates.n_edges, 0.5 * candidates.n_nodes / candidates.n_edges)
    settings = {"penalty": "log", "learn_scales": True, "rng": np.random.default_rng(seed)}
    return choose(objective, signals, w, grid, **(settings | options))


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
        training, part = _split(Signals(X), held, rng)
        assert np.array_equal(training.X, np.delete(X, held, axis=1))
        assert np.array_equal(part.visible.X + part.truth, np.tile(X[:, held], part.n_turns))
        assert np.array_equal(part.energy, np.square(X[:, held]).sum(axis=0))  # each entry once


@pytest.fixture(scope="module")
def choice(signals):
    return search(signals, GRID)


class TestChoose:
    def test_everything_is_tried_once(self, choice):
        assert sorted(zip(choice.table["alpha"], choice.table["beta"], strict=True)) == [
            (0.02, 0.001), (0.02, 0.01), (0.1, 0.001), (0.1, 0.01),
        ]  # fmt: skip
        columns = {"n_scales", "alpha", "beta", "missed", "standard_error", "n_edges", "scale1"}
        assert set(choice.table) == columns

    def test_what_is_chosen_is_in_the_table(self, choice):
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

    def test_progress_is_told_by_path(self, signals):
        told = []
        search(signals, GRID, report=lambda done, of: told.append((done, of)))
        assert told == [(k, 6) for k in range(7)]

    def test_missing_entries_are_not_predicted(self, signals, rng):
        X = np.where(rng.random(signals.X.shape) < 0.2, np.nan, signals.X)
        choice = search(Signals.from_missing(X), GRID)
        assert 0.0 < choice.missed < 1.0

    def test_two_signals_are_enough(self, signals):
        assert np.isfinite(search(signals.take(np.array([0, 1])), GRID).missed)

    def test_one_is_not(self, signals):
        with pytest.raises(ValueError, match=r"single signal.*pass numbers for alpha"):
            search(signals.take(np.array([0])), GRID)

    def test_a_fold_of_zeros_has_nothing_to_predict(self, signals):
        X = np.zeros_like(signals.X)
        X[:, 5] = signals.X[:, 5]
        assert np.isfinite(search(Signals(X), GRID).table["missed"]).all()


def chosen(errors, grid, energy=None):
    """The choice from errors {(start, alpha, beta): (M,)}."""
    errors = {(*key, 1.0): error for key, error in errors.items()}
    names = "start", "alpha", "beta", "coding"
    rows = [dict(zip(names, key, strict=True)) | {"n_edges": 1.0} for key in errors]
    size = len(next(iter(errors.values())))
    return _chosen(grid, rows, errors, np.ones(size) if energy is None else energy)


class TestRule:
    START = (np.array([1.0]), np.array([1.0, 3.0]))
    JITTER = np.array([0.1, -0.1, 0.05, -0.05])

    def test_sparsest_within_an_error_of_the_best(self):
        best = np.full(4, 0.3)
        errors = {
            (0, 0.4, 1.0): best + 0.2,
            (0, 0.2, 1.0): best + 0.01 + self.JITTER,
            (0, 0.1, 1.0): best,
        }
        choice = chosen(errors, Grid((0.1, 0.2, 0.4), (1.0,), self.START[:1]))
        assert choice.alpha == 0.2
        assert choice.missed == pytest.approx(0.31)

    def test_fewer_scales_where_more_add_nothing(self):
        errors = {
            (1, 0.4, 1.0): np.full(4, 0.3),
            (0, 0.1, 1.0): np.full(4, 0.3) + 0.01 + self.JITTER,
        }
        choice = chosen(errors, Grid((0.1, 0.4), (1.0,), self.START))
        assert choice.n_scales == self.START[0].size
        assert choice.table["n_scales"].tolist() == [1, 2]

    def test_more_scales_where_they_predict(self):
        errors = {
            (1, 0.1, 1.0): np.full(4, 0.3),
            (0, 0.1, 1.0): np.full(4, 0.5) + self.JITTER,
        }
        assert chosen(errors, Grid((0.1,), (1.0,), self.START)).n_scales == self.START[1].size

    def test_beta_is_the_best_for_its_alpha(self):
        errors = {(0, 0.1, b): np.full(4, e) for b, e in ((1.0, 0.5), (2.0, 0.3), (4.0, 0.4))}
        assert chosen(errors, Grid((0.1,), (1.0, 2.0, 4.0), self.START[:1])).beta == 2.0

    def test_missed_is_the_share_of_all_energy(self):
        energy = np.array([1.0, 2.0, 3.0, 4.0])
        choice = chosen({(0, 0.1, 1.0): 0.25 * energy}, Grid((0.1,), (1.0,), self.START), energy)
        assert choice.missed == pytest.approx(0.25)
        assert choice.standard_error == pytest.approx(0.0, abs=1e-12)

    def test_no_energy_hidden_is_no_prediction(self):
        choice = chosen({(0, 0.1, 1.0): np.zeros(4)}, Grid((0.1,), (1.0,), self.START), np.zeros(4))
        assert choice.missed == 0.0

    @pytest.mark.parametrize(
        ("missed", "standard_error", "predicts"),
        [(0.5, 0.1, True), (0.9, 0.06, False), (1.0, 0.0, False), (1.3, 0.1, False)],
    )
    def test_prediction_has_to_beat_chance(self, missed, standard_error, predicts):
        choice = Choice(0.1, 0.1, np.ones(1), missed, standard_error, pd.DataFrame())
        assert choice.predicts is predicts


class TestStretching:
    def test_it_is_what_predicts_that_counts(self, signals, choice):
        """Scales that were learned far too small are stretched, others are not."""
        for factor in (0.5, 2.0):
            table = choice.table.assign(scale1=factor * choice.table["scale1"])
            other = replace(choice, table=table)
            held = stretched(other, True, lambda grid: search(signals, grid, learn_scales=False))
            stretch = held.scales / other.learned_scales
            assert (stretch > 1.2) if factor < 1.0 else (stretch < 1.01)
            assert held.alpha == choice.alpha

    def test_what_is_chosen_is_in_the_table(self, signals, choice):
        told = []
        held = stretched(
            choice,
            True,
            lambda grid: search(
                signals, grid, learn_scales=False, report=lambda *at: told.append(at)
            ),
        )
        assert told[-1] == (n_stretching(M, True),) * 2
        table = held.stretches
        row = table[
            (table["beta"] == held.beta)
            & (table["scale1"] == held.scales[0])
            & (table["coding"] == held.coding)
        ].squeeze()
        assert (row["missed"], row["standard_error"]) == (held.missed, held.standard_error)
        assert row["stretch"] == pytest.approx(held.scales[0] / choice.learned_scales[0], rel=0.01)
        assert sorted(set(table["stretch"].round(9))) == pytest.approx(STRETCHES)
        assert held.table is choice.table

    def test_scales_that_differ_in_their_last_digits_are_held_alike(self, choice):
        def first(grid):
            return replace(choice, scales=grid.starts[0], table=choice.table.assign(scale1=1.0))

        ends = [
            stretched(replace(choice, table=choice.table.assign(scale1=scale)), True, first).scales
            for scale in (1.5, 1.5 + 1e-5, 0.0)
        ]
        assert np.array_equal(ends[0], ends[1])
        assert ends[0] == pytest.approx([1.5], rel=0.006)
        assert ends[2] == [0.0]

    def test_a_beta_that_was_given_stays(self, choice):
        grids = []

        def spy(grid):
            grids.append(grid)
            return replace(choice, scales=grid.starts[0])

        assert stretched(choice, False, spy).beta == choice.beta
        assert list(grids[0].betas) == [choice.beta]


class TestLevel:
    LEVEL = np.linspace(-1.0, 2.0, N)[:, None]

    def walk(self, training, held_out, **model):
        candidates = CandidateEdges.complete(N)
        objective = HeatObjective(candidates, np.nan, np.nan, ATOMS["unit"])
        w = np.full(candidates.n_edges, 0.5 * N / candidates.n_edges)
        settings = (0.01, (0.02, 0.1), w, np.array([1.7]), "l1", True, (1.0, 0.5))
        return walk_path(training, held_out, objective, *settings, SignalModel(**model))

    def test_hidden_entries_are_predicted_around_it(self, signals):
        shifted = Signals(signals.X + self.LEVEL)
        errors = []
        for some in (signals, shifted):
            training, part = _split(some, np.arange(10), np.random.default_rng(0))
            walk = self.walk(training, part, fit_intercept=True)
            errors.append([error.sum() for _, error in walk])
        assert errors[1] == pytest.approx(errors[0], rel=0.02)
        assert min(errors[0]) < 0.3 * part.energy.sum()

    def test_signals_held_out_have_no_part_in_it(self, signals):
        """A training set with a level, and signals held out that have none: it predicts badly."""
        training, part = _split(signals, np.arange(10), np.random.default_rng(0))
        own = self.walk(training, part, fit_intercept=True)
        other = self.walk(Signals(training.X + self.LEVEL), part, fit_intercept=True)
        for (_, error), (_, wrong) in zip(own, other, strict=True):
            assert wrong.sum() > 3.0 * error.sum()

    def test_positive_sources_predict_with_positive_sources(self, signals):
        training, part = _split(Signals(np.abs(signals.X)), np.arange(10), np.random.default_rng(0))
        for _, error in self.walk(training, part, positive=True):
            assert error.sum() < part.energy.sum()
        # Of signals that no positive source explains nothing is predicted.
        training, part = _split(
            Signals(-np.abs(signals.X)), np.arange(10), np.random.default_rng(0)
        )
        for _, error in self.walk(training, part, positive=True):
            assert error == pytest.approx(part.energy)


def test_an_interrupt_ends_the_choice(monkeypatch):
    """The solver keeps the best of a fit that is stopped; the choice must not go on with it."""
    X, _ = make_heat_signals(make_graph("ring", 6, 0), [2.0], 12, 1, random_state=0)
    calls = []

    def stop(*args, **kwargs):
        calls.append(1)
        raise KeyboardInterrupt

    monkeypatch.setattr("heatgraph.solvers.quasi_newton._step", stop)
    with pytest.raises(KeyboardInterrupt):
        LearnHeat(n_scales=1).fit(X)
    assert len(calls) <= 4  # the first fit of the first path, and its rounds
