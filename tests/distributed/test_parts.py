"""Signals in parts, without a cluster: sums, codes that are found again, draws, the choice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.distributed import codes
from heatgraph.distributed import parts as work
from heatgraph.distributed.parts import Recipe
from heatgraph.distributed.rows import Chunk, Stream
from heatgraph.graph import CandidateEdges
from heatgraph.objective.atoms import ATOMS
from heatgraph.objective.heat import HeatObjective, Signals
from heatgraph.selection.elsewhere import Draws, choose_elsewhere, error_products
from heatgraph.selection.penalties import Grid, choose, units_of
from heatgraph.solvers import ensemble
from heatgraph.solvers.ensemble import LocalSignals

N, M = 6, 23
OBJECTIVE = HeatObjective(CandidateEdges.complete(N), 0.05, 0.1, ATOMS["unit"])


@pytest.fixture(scope="module", params=["complete", "missing"])
def signals(request):
    X, _ = make_heat_signals(make_graph("er", N, 0), (2.0,), M, 2, 0.05, 0)
    if request.param == "missing":
        X = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
    return Signals.from_missing(np.ascontiguousarray(X.T))


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(ensemble, "BATCH", 4)
    yield
    work.forget("test")


def recipe(number, seed=0, alpha=0.05):
    w = np.random.default_rng(seed).uniform(0.5, 1.5, OBJECTIVE.candidates.n_edges)
    D = OBJECTIVE.dictionary(w * OBJECTIVE.total / w.sum(), np.array([1.0, 3.0]))
    return Recipe(number, HeatObjective(OBJECTIVE.candidates, alpha, 0.0, ATOMS["unit"]), D)


def place(part=0, first=0, n_terms=-(-M // 4)):
    return work.Place("test", part, first, n_terms, 4)


ONE = place(n_terms=1)  # for parts of which only some signals count


def assert_close(one, other):
    assert one.fit == pytest.approx(other.fit, rel=1e-12)
    np.testing.assert_allclose(one.P, other.P, atol=1e-12)
    np.testing.assert_allclose(one.c, other.c, atol=1e-12)


def streamed(signals, sizes=(3, 0, 14, 1, 6), unit=4.0, first=1):
    """The same signals as chunks to be read, with one before them that is not theirs."""
    X = signals.X if signals.observed is None else np.where(signals.observed, signals.X, np.nan)
    rows = unit * np.vstack([np.zeros((first, N)), X.T])
    pieces = np.split(rows, np.cumsum(sizes)[:-1])
    chunks = [Chunk({"rows": (np.array, piece)}, "rows") for piece in pieces]
    return Stream(chunks, first, X.shape[1], unit, signals.observed is not None)


@pytest.mark.parametrize("kind_of_source", ["held", "streamed"])
@pytest.mark.parametrize("kind", ["all", "some", "several times"])
def test_sums_are_those_of_the_signals_in_memory(signals, kind, kind_of_source):
    counts = {
        "all": None,
        "some": np.arange(M) % 3 > 0,
        "several times": np.random.default_rng(2).integers(0, 4, M).astype(np.uint8),
    }[kind]
    whole = signals if counts is None else signals.take(np.repeat(np.arange(M), counts))
    local, one, two = LocalSignals(whole), recipe(1), recipe(2, seed=1)
    codes, moments = local.code(one.objective, one.D, local.silence(2 * N), None)
    source = signals if kind_of_source == "held" else streamed(signals)
    given = source, counts, place() if counts is None else ONE
    assert_close(work.code_part(*given, [one], None, [1]).value, moments)
    discount, above = local.discount(one.D, codes, 0.05)
    assert work.above_part(*given, [one], [1]).value == pytest.approx(above, rel=1e-12)
    _, following = local.code(two.objective, two.D, codes, discount)
    assert_close(work.code_part(*given, [two, one], 1, [1, 2]).value, following)
    expected = local.moments(one.objective, one.D, codes)
    assert_close(work.moments_of_part(*given, [one], [1, 2]).value, expected)
    gram = whole.X @ whole.X.T
    np.testing.assert_allclose(work.gram_of_part(*given).value, gram, atol=1e-12)


@pytest.mark.parametrize("kind_of_source", ["held", "streamed"])
def test_codes_that_are_lost_are_found_again(signals, kind_of_source):
    one, two = recipe(1), recipe(2, seed=1)
    given = signals if kind_of_source == "held" else streamed(signals), None, place()
    work.code_part(*given, [one], None, [1])
    expected = work.code_part(*given, [two, one], 1, [1, 2]).value
    work.forget("test")
    assert_close(work.code_part(*given, [two, one], 1, [1, 2]).value, expected)
    work.forget("test")
    again = work.moments_of_part(*given, [two, one], [1, 2]).value
    work.code_part(*given, [two, one], None, [1, 2])
    assert_close(work.moments_of_part(*given, [two, one], [1, 2]).value, again)


def test_signals_that_are_read_give_the_bits_of_those_held(signals):
    one, two = recipe(1), recipe(2, seed=1)
    sums = []
    for source in (signals, streamed(signals)):
        work.code_part(source, None, place(), [one], None, [1])
        sums.append(work.code_part(source, None, place(), [two, one], 1, [1, 2]).value)
        work.forget("test")
    assert (sums[0].fit, sums[0].P.tobytes()) == (sums[1].fit, sums[1].P.tobytes())


def test_chunks_that_lost_signals_are_an_error(signals):
    stream = streamed(signals)
    short = replace(stream, chunks=stream.chunks[:-1])
    with pytest.raises(ValueError, match="6 signals less"):
        work.code_part(short, None, place(), [recipe(1)], None, [1])
    assert codes.kept() == {}


@pytest.mark.parametrize("kind_of_source", ["held", "streamed"])
def test_only_codes_that_may_be_asked_for_are_kept(signals, kind_of_source, tmp_path, monkeypatch):
    monkeypatch.setattr(codes, "_local_folder", lambda: str(tmp_path))
    source = signals if kind_of_source == "held" else streamed(signals)
    for number, live in [(1, []), (2, [1]), (3, [2])]:
        work.code_part(source, None, place(), [recipe(number)], None, live)
    assert codes.kept() == {("test", 0): [2, 3]}
    written = ["0-2.codes", "0-3.codes"] if kind_of_source == "streamed" else []
    assert sorted(file.name for file in tmp_path.rglob("*.*")) == written
    work.forget("test")
    assert codes.kept() == {}
    assert list(tmp_path.iterdir()) == []


def test_files_that_someone_removed_are_codes_that_are_lost(signals, tmp_path, monkeypatch):
    monkeypatch.setattr(codes, "_local_folder", lambda: str(tmp_path))
    given, one, two = (streamed(signals), None, place()), recipe(1), recipe(2, seed=1)
    work.code_part(*given, [one], None, [1])
    expected = work.code_part(*given, [two, one], 1, [1, 2]).value
    for file in tmp_path.rglob("*.codes"):
        file.unlink()
    assert_close(work.code_part(*given, [two, one], 1, [1, 2]).value, expected)


def test_a_part_in_which_nothing_counts(signals):
    none = np.zeros(M, dtype=bool)
    moments = work.code_part(signals, none, ONE, [recipe(1)], None, [1]).value
    assert moments.fit == 0.0
    assert not moments.P.any()
    assert work.above_part(signals, none, ONE, [recipe(1)], [1]).value == 0.0


def test_facts_do_not_depend_on_the_chunks(rng):
    X = rng.normal(size=(40, 5)) * 10.0 ** rng.integers(-150, 150, (40, 1)).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    whole = work.facts_of(X)
    parts = work.add([work.facts_of(X[:7]), work.facts_of(X[7:8]), work.facts_of(X[8:])])
    assert (whole.n_signals, whole.top, whole.checksum) == (40, parts.top, parts.checksum)
    assert whole.squares == pytest.approx(parts.squares, rel=1e-12)
    assert np.array_equal(whole.n_observed, parts.n_observed)
    assert work.facts_of(X[:, ::-1]).checksum != whole.checksum
    assert work.facts_of(np.array([[np.inf, 1.0]])).n_infinite == 1


@pytest.mark.parametrize("seed", [0, 1])
def test_draws_are_those_of_the_generator(seed):
    one, other = np.random.default_rng(seed), np.random.default_rng(seed)
    for rng in (one, other):
        rng.permutation(101)  # leaves half a number behind
    whole, draws = one.random((N, M)), Draws.next(other, N, M)
    assert np.array_equal(draws.columns(0, M), whole)
    assert np.array_equal(draws.columns(5, 7), whole[:, 5:12])
    assert np.array_equal(one.integers(0, 50, 9), other.integers(0, 50, 9))
    with pytest.raises(ValueError, match="random_state must be"):
        Draws.next(np.random.Generator(np.random.MT19937(0)), N, M)


@dataclass(frozen=True, eq=False)
class Divided(LocalSignals):
    """Signals in memory that answer as if they were elsewhere."""

    is_small: bool = False

    @property
    def n_nodes(self) -> int:
        return self.signals.X.shape[0]

    @property
    def total_energy(self) -> float:
        return float(self.signals.energy.sum())

    def take(self, which: Any) -> LocalSignals:
        return LocalSignals(self.signals.take(which))

    def each_whole(self, function, each):
        return (function(self.signals, *arguments) for arguments in each)

    def error_products(self, folds, draws, trials, penalty):
        n_rows = 1 + max(trial.row for trial in trials)
        columns = [d.columns(0, d.n_signals) for d in draws]
        n_turns = draws[0].n_turns
        return error_products(self.signals, folds, columns, trials, n_rows, penalty, n_turns)


@pytest.mark.parametrize("is_small", [False, True])
def test_the_choice_by_sums_is_the_choice_by_signals(signals, is_small):
    w = np.full(OBJECTIVE.candidates.n_edges, OBJECTIVE.total / OBJECTIVE.candidates.n_edges)
    a, b = units_of(signals)
    assert units_of(Divided(signals)) == pytest.approx((a, b), rel=1e-14)
    grid = Grid((0.4 * a, 0.1 * a), (8e-3 * b, 1e-3 * b), (np.array([1.5]),))
    settings = {"penalty": "log", "learn_scales": True}
    rngs = np.random.default_rng(3), np.random.default_rng(3)
    here = choose(OBJECTIVE, signals, w, grid, rng=rngs[0], **settings)
    told = []
    there = choose_elsewhere(
        OBJECTIVE,
        Divided(signals, is_small=is_small),
        w,
        grid,
        rng=rngs[1],
        report=lambda done, of: told.append((done, of)),
        **settings,
    )
    assert (here.alpha, here.beta, here.n_scales) == (there.alpha, there.beta, there.n_scales)
    assert there.missed == pytest.approx(here.missed, rel=1e-10)
    assert there.standard_error == pytest.approx(here.standard_error, rel=1e-7)
    np.testing.assert_allclose(there.table, here.table, rtol=1e-6)
    if is_small:
        assert (there.missed, there.standard_error) == (here.missed, here.standard_error)
        assert there.table.equals(here.table)
    assert told[-1] == (6, 6)
    assert rngs[0].random() == rngs[1].random()


def test_errors_of_a_part_do_not_depend_on_the_parts(signals, rng):
    w = np.full(OBJECTIVE.candidates.n_edges, OBJECTIVE.total / OBJECTIVE.candidates.n_edges)
    from heatgraph.selection.elsewhere import Trial

    trials = [Trial(k % 2, k // 2, OBJECTIVE, w, np.array([1.0 + k])) for k in range(4)]
    folds = rng.integers(0, 2, M).astype(np.int8)
    draws = [Draws.next(rng, N, int((folds == k).sum()), 3) for k in range(2)]
    whole = Divided(signals).error_products(folds, draws, trials, "log")
    shared, cut = (draws, "log"), 9  # three batches, and four
    first = signals.take(np.arange(cut)), folds[:cut], [0, 0]
    before = np.bincount(folds[:cut], minlength=2).tolist()
    second = signals.take(np.arange(cut, M)), folds[cut:], before
    parts = [
        work.errors_of_part(part, place(k, 3 * k, 7), *more, shared, trials, 2)
        for k, (part, *more) in enumerate((first, second))
    ]
    np.testing.assert_allclose(work.join(parts).value, whole, rtol=1e-10, atol=1e-14)


def test_parts_give_the_bits_of_the_signals_in_memory(signals):
    one, two, local = recipe(1), recipe(2, seed=1), LocalSignals(signals)
    found, first = local.code(one.objective, one.D, local.silence(2 * N), None)
    discount, above = local.discount(one.D, found, 0.05)
    _, second = local.code(two.objective, two.D, found, discount)
    begins = [0, 4, 16]
    places = [place(k, begin // 4) for k, begin in enumerate(begins)]
    pieces = [signals.take(slice(a, b)) for a, b in zip(begins, [4, 16, M], strict=True)]
    for recipes, start, expected in (([one], None, first), ([two, one], 1, second)):
        sums = work.join(
            [
                work.code_part(piece, None, at, recipes, start, [1, 2])
                for piece, at in zip(pieces, places, strict=True)
            ]
        ).value
        assert (sums.fit, sums.P.tobytes(), sums.c.tobytes()) == (
            expected.fit,
            expected.P.tobytes(),
            expected.c.tobytes(),
        )
    parts = [
        work.above_part(piece, None, at, [one], [1, 2])
        for piece, at in zip(pieces, places, strict=True)
    ]
    assert work.join(parts).value == above


def test_the_parts_together_are_the_whole(signals):
    halves = [signals.take(slice(0, 9)), streamed(signals.take(slice(9, M)), (3, 12))]
    again = work.on_whole(lambda found, name: (found, name), halves, "x")
    assert again[1] == "x"
    assert again[0].X.tobytes() == signals.X.tobytes()
    assert (again[0].observed is None) == (signals.observed is None)
