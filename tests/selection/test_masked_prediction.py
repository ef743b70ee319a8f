"""Masked prediction with heat: what is hidden, and how well a dictionary foretells it."""

from __future__ import annotations

import numpy as np
import pytest

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.models.heat import ATOMS, PENALTIES, HeatObjective, Signals
from heatgraph.selection.masked_prediction import (
    hide_by,
    hide_entries,
    prediction_errors,
    turns_for,
)

N, M, TAU = 12, 50, np.array([1.5])


@pytest.fixture(scope="module")
def graph():
    return make_graph("er", N, random_state=4)


@pytest.fixture(scope="module")
def signals(graph):
    return Signals(make_heat_signals(graph, TAU, M, n_sources=1, random_state=4)[0].T.copy())


def dictionary(L, tau=TAU):
    candidates = CandidateEdges.complete(N)
    return HeatObjective(candidates, 0.0, 0.0, ATOMS["unit"]).dictionary(candidates.weights(L), tau)


class TestHiding:
    @pytest.mark.parametrize(("share", "n"), [(0.25, 3), (0.0, 1), (1.0, N - 1)])
    def test_every_signal_hides_the_same_number(self, rng, signals, share, n):
        part = hide_entries(signals, share, rng)
        assert (part.hidden.sum(axis=0) == n).all()

    def test_visible_and_hidden_make_up_the_signals(self, rng, signals):
        part = hide_entries(signals, 0.25, rng)
        assert np.array_equal(part.visible.X + part.truth, signals.X)
        assert np.array_equal(part.visible.observed, ~part.hidden)
        assert not part.visible.X[part.hidden].any()
        assert part.energy == pytest.approx((signals.X**2 * part.hidden).sum(axis=0))

    def test_missing_entries_are_neither(self, rng, signals):
        missing = rng.random((N, M)) < 0.4
        part = hide_entries(Signals.from_missing(np.where(missing, np.nan, signals.X)), 0.25, rng)
        assert not (part.hidden & missing).any()
        assert not (part.visible.observed & missing).any()
        assert (part.hidden | part.visible.observed | missing).all()
        counts = (~missing).sum(axis=0)
        assert np.array_equal(part.hidden.sum(axis=0), np.rint(0.25 * counts))

    @pytest.mark.parametrize("n_observed", [0, 1, 2])
    def test_the_last_observed_entry_is_never_hidden(self, rng, n_observed):
        observed = np.arange(5)[:, None] < n_observed
        part = hide_entries(Signals(np.where(observed, 1.0, 0.0), observed), 0.9, rng)
        assert part.hidden.sum() == max(n_observed - 1, 0)
        assert part.visible.observed.sum() == min(n_observed, 1)

    def test_every_entry_gets_its_turn(self, rng):
        part = hide_entries(Signals(np.ones((8, 4000))), 0.25, rng)
        assert part.hidden.mean(axis=1) == pytest.approx(np.full(8, 0.25), abs=0.03)

    @pytest.mark.parametrize("missing", [0.0, 0.4])
    def test_in_turns_every_entry_is_hidden_once_at_most(self, rng, signals, missing):
        gone = rng.random((N, M)) < missing
        some = Signals.from_missing(np.where(gone, np.nan, signals.X))
        draws = rng.random((N, M))
        part, first = hide_by(some, 0.25, draws, 4), hide_by(some, 0.25, draws)
        times = part.hidden.reshape(N, 4, M).sum(axis=1)
        assert times.max() == 1
        assert not times[gone].any()
        assert (times == 1)[~gone].all()
        if not missing:
            assert np.array_equal(part.hidden[:, :M], first.hidden)
        assert not (part.visible.observed & part.hidden).any()
        assert part.n_signals == M
        assert part.energy == pytest.approx((some.X**2 * times).sum(axis=0))
        assert part.errors(np.zeros((N, 4 * M))) == pytest.approx(part.energy)

    def test_a_signal_with_little_to_hide_has_fewer_turns(self, rng):
        observed = np.arange(5)[:, None] < np.array([0, 1, 2])
        part = hide_by(Signals(np.where(observed, 1.0, 0.0), observed), 0.25, rng.random((5, 3)), 4)
        assert part.hidden.reshape(5, 4, 3).sum(axis=(0, 1)).tolist() == [0, 0, 2]

    def test_many_entries_need_no_turns(self):
        assert turns_for(20, 100, 0.25) == 4
        assert turns_for(200, 1000, 0.25) == 1

    def test_same_seed_hides_the_same(self, signals):
        one, two = (hide_entries(signals, 0.25, np.random.default_rng(3)).hidden for _ in range(2))
        assert np.array_equal(one, two)

    def test_the_signals_are_not_written(self, rng, signals):
        before = signals.X.copy()
        hide_entries(signals, 0.25, rng)
        assert np.array_equal(signals.X, before)


class TestErrors:
    @pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES)
    def test_no_diffusion_predicts_zero(self, rng, graph, signals, penalty):
        part = hide_entries(signals, 0.25, rng)
        D = dictionary(graph.laplacian().toarray(), np.zeros(1))
        error, energy = prediction_errors(D, part, 0.01, penalty=penalty)
        assert error == pytest.approx(energy)

    @pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES)
    def test_the_true_graph_predicts_best(self, rng, graph, signals, penalty):
        part = hide_entries(signals, 0.25, rng)
        other = make_graph("er", N, random_state=5)
        true, false = (
            prediction_errors(dictionary(g.laplacian().toarray()), part, 0.003, penalty=penalty)[
                0
            ].sum()
            for g in (graph, other)
        )
        assert true < 0.2 * part.energy.sum()
        assert true < 0.3 * false

    def test_hidden_entries_are_not_looked_at(self, rng, graph, signals):
        """The prediction is the same whatever is hidden; only what it is held against changes."""
        D = dictionary(graph.laplacian().toarray())
        part = hide_entries(signals, 0.25, np.random.default_rng(0))
        altered = Signals(np.where(part.hidden, -7.0, signals.X))
        again = hide_entries(altered, 0.25, np.random.default_rng(0))
        assert np.array_equal(again.visible.X, part.visible.X)
        error, energy = prediction_errors(D, again, 0.01)
        assert energy == pytest.approx(np.full(M, 49.0 * 3))
        assert (error > 0.5 * energy).all()

    def test_sources_are_those_around_the_level(self, rng, graph, signals):
        D, level = dictionary(graph.laplacian().toarray()), rng.normal(size=N)
        draws = rng.random((N, M))
        part = hide_by(signals, 0.25, draws)
        shifted = hide_by(Signals(signals.X + level[:, None]), 0.25, draws)
        error, _ = prediction_errors(D, part, 0.01)
        again, energy = prediction_errors(D, shifted, 0.01, level=level)
        assert again == pytest.approx(error, abs=1e-6)
        assert energy == pytest.approx(shifted.energy)

    def test_a_large_alpha_predicts_zero(self, rng, graph, signals):
        part = hide_entries(signals, 0.25, rng)
        error, energy = prediction_errors(dictionary(graph.laplacian().toarray()), part, 1e3)
        assert error == pytest.approx(energy)
