"""A fit that was stopped goes on, and ends with the same bits as one that never was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from heatgraph import LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators import checkpoint as checkpoints
from heatgraph.estimators import learn_heat
from heatgraph.estimators.checkpoint import Checkpoint
from heatgraph.models.heat import HeatObjective
from heatgraph.solvers.driver import Record
from heatgraph.solvers.engine import to_dense, to_sparse
from heatgraph.solvers.heat import STEPS_PER_TANGENT
from heatgraph.storage import save_model

GIVEN = {"alpha": 0.02, "beta": 0.05, "tol": 1e-5}
STORED = ("laplacian_", "sources_", "objective_", "scales_")


class Killed(BaseException):
    """What no handler of the fit sees coming."""


@pytest.fixture(scope="module")
def signals():
    X, _ = make_heat_signals(make_graph("er", 10, 0), (2.0, 4.0), 40, 2, 0.02, 0)
    return X


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A checkpoint that is written at every step."""
    monkeypatch.setattr(checkpoints, "EVERY", 0.0)
    return tmp_path / "fit.checkpoint"


def assert_same_bits(one, other):
    for name in STORED:
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    assert (one.status_, one.n_iter_, one.residual_) == (
        other.status_,
        other.n_iter_,
        other.residual_,
    )
    assert (one.alpha_, one.beta_) == (other.alpha_, other.beta_)
    confidence = one.graph_.confidence, other.graph_.confidence
    assert (confidence[0] is None) == (confidence[1] is None)
    if confidence[0] is not None:
        assert np.array_equal(*confidence)


def killed_at(step):
    def monitor(progress):
        if progress.iteration == step:
            raise Killed

    return monitor


@pytest.fixture(scope="module")
def whole(signals):
    return LearnHeat(**GIVEN).fit(signals)


class TestResumes:
    @pytest.mark.parametrize("share", [0.02, 0.6])
    def test_with_the_same_bits(self, signals, whole, path, share):
        model = LearnHeat(**GIVEN, checkpoint=path)
        with pytest.raises(Killed):
            model.fit(signals, monitor=killed_at(int(share * whole.n_iter_)))
        seen = []
        model.fit(signals, monitor=lambda step: seen.append(step.iteration))
        # At most the steps on one tangent are taken again.
        assert seen[0] > int(share * whole.n_iter_) - STEPS_PER_TANGENT
        assert_same_bits(model, whole)

    @pytest.mark.slow
    # Five nodes of ten signals: their mean is as good a guess as any.
    @pytest.mark.filterwarnings("ignore:LearnHeat. the mean of each:UserWarning")
    def test_at_every_kind_of_stage(self, signals, path, monkeypatch):
        """The choice, the search for a number of edges, two starts, rounds, resamples."""
        monkeypatch.setattr(checkpoints, "EVERY", 0.05)
        signals = signals[:10, :5]
        settings = {
            "alpha": 0.02,
            "n_edges": 5,
            "n_scales": 1,
            "scales": (0.5,),
            "n_bootstrap": 2,
            "random_state": 1,
            "tol": 1e-2,
        }
        whole = LearnHeat(**settings).fit(signals)
        model, calls = LearnHeat(**settings, checkpoint=path), 0

        def stop(progress):
            nonlocal calls
            calls += 1
            if calls % 41 == 0:
                raise Killed

        killed = 0
        while True:
            try:
                model.fit(signals, monitor=stop)
                break
            except Killed:
                killed += 1
        assert killed > 3
        assert_same_bits(model, whole)

    @pytest.mark.parametrize("share", [pytest.param(0.3, marks=pytest.mark.slow), 0.7])
    def test_the_choice_of_parameters_by_finished_points(self, signals, path, monkeypatch, share):
        """What is evaluated after the kill is less than all, by most of what was before it."""
        settings = {"beta": 0.05, "n_scales": 1, "tol": 1e-2}
        signals = signals[:20]
        evaluate, calls, end = HeatObjective.evaluate, [], np.inf

        def one_dies(*args):
            calls.append(1)
            if len(calls) == end:
                raise Killed
            return evaluate(*args)

        monkeypatch.setattr(HeatObjective, "evaluate", one_dies)
        whole = LearnHeat(**settings).fit(signals)
        n, end = len(calls), int(share * len(calls))
        calls.clear()
        model = LearnHeat(**settings, checkpoint=path)
        with pytest.raises(Killed):
            model.fit(signals)
        end = np.inf
        calls.clear()
        model.fit(signals)
        assert (1.0 - share) * n < len(calls) < (1.0 - 0.5 * share) * n
        assert_same_bits(model, whole)
        assert model.selection_.equals(whole.selection_)
        assert model.stretches_.equals(whole.stretches_)

    def test_after_ctrl_c(self, signals, whole, path, monkeypatch):
        monkeypatch.setattr(checkpoints, "EVERY", 1e9)

        def stop(progress):
            if progress.iteration == whole.n_iter_ // 2:
                raise KeyboardInterrupt

        model = LearnHeat(**GIVEN, checkpoint=path).fit(signals, monitor=stop)
        assert model.status_ == "interrupted"
        seen = []
        model.fit(signals, monitor=lambda step: seen.append(step.iteration))
        # A tangent that was under way is not kept.
        assert 0 <= whole.n_iter_ // 2 - seen[0] < STEPS_PER_TANGENT
        assert_same_bits(model, whole)

    def test_with_missing_entries_and_another_number_of_threads(self, signals, path, rng):
        X = np.where(rng.random(signals.shape) < 0.1, np.nan, signals)
        whole = LearnHeat(**GIVEN).fit(X)
        with pytest.raises(Killed):
            LearnHeat(**GIVEN, checkpoint=path).fit(X, monitor=killed_at(40))
        assert_same_bits(LearnHeat(**GIVEN, checkpoint=path, n_jobs=2).fit(X), whole)

    def test_with_a_level_and_positive_sources(self, signals, path):
        settings = {**GIVEN, "tol": 1e-4, "fit_intercept": True, "positive": True}
        X = signals[:20] + np.linspace(-1.0, 1.0, signals.shape[1])
        whole = LearnHeat(**settings).fit(X)
        model = LearnHeat(**settings, checkpoint=path)
        with pytest.raises(Killed):
            model.fit(X, monitor=killed_at(10))
        for _ in range(2):  # the second time from what is done
            model.fit(X)
            assert_same_bits(model, whole)
            assert np.array_equal(model.location_, whole.location_)

    def test_at_once_what_is_done(self, signals, whole, path):
        LearnHeat(**GIVEN, checkpoint=path).fit(signals)
        steps = []
        again = LearnHeat(**GIVEN, checkpoint=path).fit(signals, monitor=steps.append)
        assert steps == []
        assert_same_bits(again, whole)

    @pytest.mark.filterwarnings("ignore:LearnHeat")
    def test_past_a_limit_with_new_fits_around_it(self, signals, tmp_path, monkeypatch):
        """Those of which the mean is cut were made around an unfinished fit."""

        def stop(*_):
            raise KeyboardInterrupt

        path, without = tmp_path / "with.checkpoint", tmp_path / "without.checkpoint"
        short = LearnHeat(cv=2, max_iter=3, checkpoint=path)
        with monkeypatch.context() as around:
            around.setattr(learn_heat, "mean_around", stop)
            short.fit(signals)
        without.write_bytes(path.read_bytes())
        short.fit(signals)
        one, other = (LearnHeat(cv=2, checkpoint=file).fit(signals) for file in (path, without))
        assert_same_bits(one, other)
        assert np.array_equal(one.graph_.weights, other.graph_.weights)

    def test_writing_changes_nothing(self, signals, whole, path):
        assert_same_bits(LearnHeat(**GIVEN, checkpoint=str(path)).fit(signals), whole)


class TestRefuses:
    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"alpha": 0.03}, r"alpha is 0.03, in the file 0.02"),
            ({"tol": 1e-4, "n_edges": 9}, r"n_edges is 9, in the file None.*tol is 0.0001"),
            (
                {"random_state": np.random.default_rng(1)},
                r"random_state is a Generator \w+, in the file",
            ),
        ],
    )
    def test_other_parameters(self, signals, path, changed, message):
        LearnHeat(**GIVEN, checkpoint=path, max_iter=2000).fit(signals)
        with pytest.raises(ValueError, match=message):
            LearnHeat(**(GIVEN | {"max_iter": 2000} | changed), checkpoint=path).fit(signals)

    def test_other_signals_and_other_nodes(self, signals, path):
        import pandas as pd

        LearnHeat(**GIVEN, checkpoint=path).fit(signals)
        with pytest.raises(ValueError, match=r"to another fit: X is 40 x 10 float64 \w+, in"):
            LearnHeat(**GIVEN, checkpoint=path).fit(2.0 * signals)
        named = pd.DataFrame(signals, columns=list("abcdefghij"))
        with pytest.raises(ValueError, match=r"nodes is \('a', .*in the file None"):
            LearnHeat(**GIVEN, checkpoint=path).fit(named)

    def test_a_damaged_file(self, signals, path):
        with pytest.raises(Killed):
            LearnHeat(**GIVEN, checkpoint=path).fit(signals, monitor=killed_at(30))
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ValueError, match=r"cannot be read.*Delete it"):
            LearnHeat(**GIVEN, checkpoint=path).fit(signals)
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 1
        path.write_bytes(bytes(flipped))
        with pytest.raises(ValueError, match=r"cannot be read.*Delete it"):
            LearnHeat(**GIVEN, checkpoint=path).fit(signals)

    def test_another_file_is_not_to_be_deleted(self, signals, path):
        save_model(LearnHeat(**GIVEN).fit(signals), path.with_suffix(".npz"))
        model = path.with_suffix(".npz").read_bytes()
        for other in (b"a,b\n1,2\n", b"", model, model[:1000]):
            path.write_bytes(other)
            with pytest.raises(ValueError, match="is not a checkpoint; name another") as caught:
                LearnHeat(**GIVEN, checkpoint=path).fit(signals)
            assert "elete" not in str(caught.value)
            assert path.read_bytes() == other

    def test_a_path_that_cannot_be_written(self, signals, tmp_path):
        with pytest.raises(FileNotFoundError, match="no directory"):
            LearnHeat(**GIVEN, checkpoint=tmp_path / "absent" / "fit").fit(signals)
        with pytest.raises(ValueError, match="checkpoint must be the path"):
            LearnHeat(**GIVEN, checkpoint=3).fit(signals)


def test_a_full_disk_costs_the_write_and_not_the_fit(signals, whole, path, monkeypatch):
    with pytest.raises(Killed):
        LearnHeat(**GIVEN, checkpoint=path).fit(signals, monitor=killed_at(50))
    earlier = path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.warns(UserWarning, match=r"could not be written \(No space left"):
            assert_same_bits(LearnHeat(**GIVEN, checkpoint=path).fit(signals), whole)
    assert path.read_bytes() == earlier
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert_same_bits(LearnHeat(**GIVEN, checkpoint=path).fit(signals), whole)


def test_what_is_done_replaces_what_led_to_it(path):
    first = Checkpoint(path, {})
    keeper = first.keeper.within("a")
    keeper.within("b").put(Record({"n": 1}))
    keeper.within("b").within("state").put(Record({"n": 2}))
    keeper.within("bc").put(Record({"n": 3}))
    keeper.within("b").put(Record({"n": 4}))
    first.close()
    second = Checkpoint(path, {})
    again = second.keeper.within("a")
    assert again.within("b").get().facts == {"n": 4}
    assert again.within("b").within("state").get() is None
    assert again.within("bc").get().facts == {"n": 3}
    again.put(Record({}))
    second.close()
    third = Checkpoint(path, {})
    assert third.keeper.within("a").within("bc").get() is None
    third.close()


@pytest.mark.skipif(os.name != "posix", reason="POSIX locks")
def test_a_checkpoint_is_of_one_fit_at_a_time(signals, whole, path):
    model = LearnHeat(**GIVEN, checkpoint=path)
    refused = []

    def meanwhile(progress):
        if progress.iteration == 2:
            with pytest.raises(OSError, match="in use by another fit") as caught:
                LearnHeat(**GIVEN, checkpoint=path).fit(signals)
            refused.append(caught.value)

    model.fit(signals, monitor=meanwhile)
    assert len(refused) == 1
    assert_same_bits(model, whole)
    assert_same_bits(LearnHeat(**GIVEN, checkpoint=path).fit(signals), whole)


@pytest.mark.skipif(os.name != "posix", reason="POSIX locks")
def test_a_checkpoint_that_another_replaced_is_left_to_it(path):
    mine = Checkpoint(path, {})
    path.unlink()
    other = Checkpoint(path, {})
    with pytest.warns(UserWarning, match="another fit has written it"):
        mine.keeper.put(Record({"n": 1}))
    other.keeper.put(Record({"n": 2}))
    with pytest.warns(UserWarning, match="another fit has written it"):
        mine.close()
    other.close()
    third = Checkpoint(path, {})
    assert third.keeper.get().facts == {"n": 2}
    third.close()


def test_codes_come_back_bit_for_bit(rng):
    codes = np.where(rng.random((7, 9)) < 0.3, rng.normal(size=(7, 9)), 0.0)
    codes[0, 0], codes[1, 1] = -0.0, 5e-324
    assert to_dense(to_sparse(codes), codes.shape).tobytes() == codes.tobytes()
    with pytest.raises(ValueError, match="do not fit"):
        to_dense(to_sparse(codes), (2, 2))


SCRIPT = """
import sys
import numpy as np
from heatgraph import LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators import checkpoint
checkpoint.EVERY = 0.0
X, _ = make_heat_signals(make_graph("er", 10, 0), (2.0, 4.0), 40, 2, 0.02, 0)
print("started", flush=True)
model = LearnHeat(beta=0.05, n_scales=1, tol=1e-2, checkpoint=sys.argv[1], n_bootstrap=2).fit(X)
np.savez(sys.argv[2], **{name: getattr(model, name) for name in
    ("laplacian_", "sources_", "objective_", "scales_")}, confidence=model.graph_.confidence)
"""


def run_and_kill(folder: Path, after: float | None) -> bool:
    """Start the fit in a process, kill it after so many seconds; whether it was still at it."""
    command = [sys.executable, "-c", SCRIPT, str(folder / "fit"), str(folder / "result.npz")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        if after is None:
            assert process.wait() == 0
            return False
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
        return process.wait() != 0


def results(folder: Path) -> dict[str, bytes]:
    with np.load(folder / "result.npz") as content:
        return {name: content[name].tobytes() for name in content.files}


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_killed_at_ten_random_moments(tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    stopped.mkdir()
    begin = time.monotonic()
    run_and_kill(whole, None)
    lasts = time.monotonic() - begin
    rng = np.random.default_rng()
    # Short lives, so that the fit is not done before it was killed ten times.
    kills = 0
    for _ in range(40):
        kills += run_and_kill(stopped, rng.uniform(0.0, 0.05 * lasts))
        if kills == 10 or (stopped / "result.npz").exists():
            break
    run_and_kill(stopped, None)
    assert kills == 10
    assert results(stopped) == results(whole)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_killed_once(tmp_path):
    """At the first moment at which there is something to lose."""
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "fit"), str(tmp_path / "result.npz")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        while not (tmp_path / "fit").exists() or (tmp_path / "fit").stat().st_size < 5000:
            time.sleep(0.01)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "result.npz").exists()
    X, _ = make_heat_signals(make_graph("er", 10, 0), (2.0, 4.0), 40, 2, 0.02, 0)
    settings = {"beta": 0.05, "n_scales": 1, "tol": 1e-2, "n_bootstrap": 2}
    tried: list[str] = []
    model = LearnHeat(**settings, checkpoint=tmp_path / "fit").fit(X, monitor=tried.append)
    assert tried
    assert_same_bits(model, LearnHeat(**settings).fit(X))
