"""Signals in parts, without a cluster: sums, codes that are found again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.distributed import codes, worker_tasks
from heatgraph.distributed.from_dask import summarise
from heatgraph.distributed.worker_tasks import Chunk, Recipe, Stream
from heatgraph.graph import CandidateEdges
from heatgraph.models.heat import ATOMS, PENALTIES, HeatObjective, Signals
from heatgraph.solvers import engine
from heatgraph.solvers.engine import LocalEngine

N, M = 6, 23
OBJECTIVE = HeatObjective(
    CandidateEdges.complete(N), 0.05, 0.1, ATOMS["unit"], penalty=PENALTIES["log"]
)


@pytest.fixture(scope="module", params=["complete", "missing"])
def signals(request):
    X, _ = make_heat_signals(make_graph("er", N, 0), (2.0,), M, 2, 0.05, 0)
    if request.param == "missing":
        X = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
    return Signals.from_missing(np.ascontiguousarray(X.T))


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(engine, "BATCH", 4)
    yield
    codes.forget("test")


def recipe(number, seed=0, alpha=0.05):
    w = np.random.default_rng(seed).uniform(0.5, 1.5, OBJECTIVE.candidates.n_edges)
    D = OBJECTIVE.dictionary(w * OBJECTIVE.total / w.sum(), np.array([1.0, 3.0]))
    return Recipe(number, replace(OBJECTIVE, alpha=alpha, beta=0.0), D)


KEY = ("test", 0)


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
def test_sums_are_those_of_the_signals_in_memory(signals, kind_of_source):
    one, two = recipe(1), recipe(2, seed=1, alpha=0.08)
    local, next_one = (LocalEngine(step.objective, signals) for step in (one, two))
    codes, moments = local.code(one.D, local.zero_codes(2 * N), None)
    source = signals if kind_of_source == "held" else streamed(signals)
    given = source, KEY
    assert_close(worker_tasks.code_part(*given, [one], None, [1]).value, moments)
    slopes, above = two.objective.tangent(one.D, codes)
    found = worker_tasks.above_part(*given, [one], two.objective, [1]).value
    assert found == pytest.approx(above, rel=1e-12)
    _, following = next_one.code(two.D, codes, slopes)
    assert_close(worker_tasks.code_part(*given, [two, one], 1, [1, 2]).value, following)
    expected = two.objective.moments(one.D, signals, codes, slopes)
    found = worker_tasks.moments_of_part(*given, [one], two.objective, [1, 2]).value
    assert_close(found, expected)
    gram = signals.X @ signals.X.T
    np.testing.assert_allclose(worker_tasks.gram_of_part(*given).value, gram, atol=1e-12)


@pytest.mark.parametrize("kind_of_source", ["held", "streamed"])
def test_codes_that_are_lost_are_found_again(signals, kind_of_source):
    one, two = recipe(1), recipe(2, seed=1)
    given = signals if kind_of_source == "held" else streamed(signals), KEY
    worker_tasks.code_part(*given, [one], None, [1])
    expected = worker_tasks.code_part(*given, [two, one], 1, [1, 2]).value
    codes.forget("test")
    assert_close(worker_tasks.code_part(*given, [two, one], 1, [1, 2]).value, expected)
    codes.forget("test")
    again = worker_tasks.moments_of_part(*given, [two, one], OBJECTIVE, [1, 2]).value
    worker_tasks.code_part(*given, [two, one], None, [1, 2])
    found = worker_tasks.moments_of_part(*given, [two, one], OBJECTIVE, [1, 2]).value
    assert_close(found, again)


def test_chunks_that_lost_signals_are_an_error(signals):
    stream = streamed(signals)
    short = replace(stream, chunks=stream.chunks[:-1])
    with pytest.raises(ValueError, match="6 signals less"):
        worker_tasks.code_part(short, KEY, [recipe(1)], None, [1])
    assert codes.kept() == {}


@pytest.mark.parametrize("kind_of_source", ["held", "streamed"])
def test_only_codes_that_may_be_asked_for_are_kept(signals, kind_of_source, tmp_path, monkeypatch):
    monkeypatch.setattr(codes, "local_folder", lambda: str(tmp_path))
    source = signals if kind_of_source == "held" else streamed(signals)
    for number, live in [(1, []), (2, [1]), (3, [2])]:
        worker_tasks.code_part(source, KEY, [recipe(number)], None, live)
    assert codes.kept() == {("test", 0): [2, 3]}
    n_files = len(list(tmp_path.rglob("*.codes")))
    assert n_files == (2 if kind_of_source == "streamed" else 0)
    codes.forget("test")
    assert codes.kept() == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind_of_source", ["held", "streamed"])
def test_what_a_task_computes_after_its_fit_has_ended_is_dropped(
    signals, kind_of_source, tmp_path, monkeypatch
):
    monkeypatch.setattr(codes, "local_folder", lambda: str(tmp_path))
    source = signals if kind_of_source == "held" else streamed(signals)
    codes.end_fit("a fit that failed")
    worker_tasks.code_part(source, ("a fit that failed", 0), [recipe(1)], None, [1])
    assert codes.kept() == {}
    assert list(tmp_path.iterdir()) == []


def test_files_that_someone_removed_are_codes_that_are_lost(signals, tmp_path, monkeypatch):
    monkeypatch.setattr(codes, "local_folder", lambda: str(tmp_path))
    given, one, two = (streamed(signals), KEY), recipe(1), recipe(2, seed=1)
    worker_tasks.code_part(*given, [one], None, [1])
    expected = worker_tasks.code_part(*given, [two, one], 1, [1, 2]).value
    for file in tmp_path.rglob("*.codes"):
        file.unlink()
    assert_close(worker_tasks.code_part(*given, [two, one], 1, [1, 2]).value, expected)


def test_facts_do_not_depend_on_the_chunks(rng):
    X = rng.normal(size=(40, 5)) * 10.0 ** rng.integers(-150, 150, (40, 1)).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    whole = summarise(X)
    parts = summarise(X[:7]) + summarise(X[7:8]) + summarise(X[8:])
    assert (whole.n_signals, whole.top, whole.checksum) == (40, parts.top, parts.checksum)
    assert whole.squares == pytest.approx(parts.squares, rel=1e-12)
    assert np.array_equal(whole.n_observed, parts.n_observed)
    assert summarise(X[:, ::-1]).checksum != whole.checksum
    assert summarise(np.array([[np.inf, 1.0]])).n_infinite == 1


@pytest.mark.parametrize("missing", [False, True])
def test_some_signals_of_a_part(signals, rng, missing):
    X = np.where(rng.random(signals.X.shape) < 0.2 * missing, np.nan, signals.X)
    part = Signals.from_missing(X)
    which = np.array([0, 3, 4, 11, M - 1])
    some = worker_tasks.some_of_part(part, which)
    assert np.array_equal(some.X, part.X[:, which])
    assert (some.observed is not None) == missing
    if missing:
        assert np.array_equal(some.observed, part.observed[:, which])


def test_the_sums_of_the_parts_add_up_to_those_of_the_whole(signals):
    one, two = recipe(1), recipe(2, seed=1)
    local = LocalEngine(one.objective, signals)
    found, first = local.code(one.D, local.zero_codes(2 * N), None)
    slopes, above = one.objective.tangent(one.D, found)
    _, second = local.code(two.D, found, slopes)
    pieces = [signals.take(slice(a, b)) for a, b in [(0, 5), (5, 16), (16, M)]]
    for recipes, start, expected in (([one], None, first), ([two, one], 1, second)):
        sums = [
            worker_tasks.code_part(piece, ("test", k), recipes, start, [1, 2])
            for k, piece in enumerate(pieces)
        ]
        assert_close(worker_tasks.add_sums(sums).value, expected)
    parts = [
        worker_tasks.above_part(piece, ("test", k), [one], one.objective, [1, 2])
        for k, piece in enumerate(pieces)
    ]
    assert worker_tasks.add_sums(parts).value == pytest.approx(above, rel=1e-12)


def test_codes_of_fewer_signals_are_an_error(signals):
    worker_tasks.code_part(signals.take(slice(0, 8)), KEY, [recipe(1)], None, [1])
    with pytest.raises(ValueError, match="shorter"):
        worker_tasks.code_part(signals, KEY, [recipe(2), recipe(1)], 1, [1])
