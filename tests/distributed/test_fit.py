"""LearnHeat on a Dask collection: the answer of the same signals in memory."""

from __future__ import annotations

import os
import signal
import sys

import numpy as np
import pandas as pd
import pytest

from heatgraph import HeatCovariance, LearnHeat
from heatgraph.distributed import codes, from_dask
from heatgraph.estimators import checkpoint
from heatgraph.solvers import engine
from heatgraph.storage import load_model, save_model

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

GIVEN = {"n_scales": 1, "alpha": 0.05, "beta": 0.05, "tol": 1e-2}


def assert_same(there, here, atol=1e-9):
    """The same fit, up to rounding of sums in another order."""
    np.testing.assert_allclose(there.laplacian_, here.laplacian_, rtol=0.0, atol=atol)
    np.testing.assert_allclose(there.scales_, here.scales_, rtol=0.0, atol=100.0 * atol)
    np.testing.assert_allclose(there.objective_[-1], here.objective_[-1], rtol=atol)
    assert there.graph_.names == here.graph_.names
    assert there.graph_.n_edges == here.graph_.n_edges
    assert there.status_ == here.status_
    assert there.cut_ == pytest.approx(here.cut_, rel=100.0 * atol)
    sources = there.sources_.compute(scheduler=dask.get)
    np.testing.assert_allclose(sources, here.sources_, rtol=0.0, atol=100.0 * atol)


def lose_codes():
    """Drop all codes, as a worker does that dies."""
    for fit in {fit for fit, _ in codes.kept()}:
        codes.forget(fit)


@pytest.fixture(autouse=True, scope="module")
def small_batches():
    """So that so few signals have several parts."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "BATCH", 4)
        yield


@pytest.fixture(scope="module")
def here(signals, small_batches):
    return LearnHeat(**GIVEN).fit(signals)


@pytest.fixture(scope="module")
def there(client, signals, small_batches):
    lose_codes()
    return LearnHeat(**GIVEN).fit(da.from_array(signals, chunks=(3, 4)))


def test_the_answer_is_that_of_signals_in_memory(here, there):
    assert there.n_features_in_ == 6
    assert_same(there, here)
    assert codes.kept() == {}  # nothing is left with the workers


@pytest.mark.parametrize(
    "settings",
    [
        {"candidates": 2, "n_scales": 2, "scales": (1.0, 9.0), "tol": 0.1},
        {"atoms": "raw", "scales": (2.0,), "learn_scales": False},
        {"penalty": "l1"},
    ],
)
def test_with_missing_entries_and_every_kind_of_fit(client, signals, rng, settings):
    X = 1e-80 * np.where(rng.random(signals.shape) < 0.1, np.nan, signals)
    settings = GIVEN | {"alpha": 5e-82, "beta": 5e-162} | settings
    here = LearnHeat(**settings).fit(X)
    there = LearnHeat(**settings).fit(da.from_array(X, chunks=(13, 6)))
    # Fits that stop this early (tol = 1e-2) enlarge rounding; that of sums alone is 1e-12.
    assert_same(there, here, atol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:LearnHeat. the values chosen are the last ones:UserWarning")
def test_the_parameters_are_chosen_alike(client, signals):
    settings = {"n_scales": 1, "tol": 1e-3}
    here = LearnHeat(**settings).fit(signals[:12])
    there = LearnHeat(**settings).fit(da.from_array(signals[:12], chunks=(5, 6)))
    assert (there.alpha_, there.beta_) == pytest.approx((here.alpha_, here.beta_), rel=1e-12)
    pd.testing.assert_frame_equal(there.selection_, here.selection_, rtol=1e-5)
    assert_same(there, here)


@pytest.mark.slow
def test_signals_that_are_read_anew_at_every_step(client, signals, here, monkeypatch, tmp_path):
    monkeypatch.setattr(from_dask, "HELD_SHARE", 0.0)
    log = tmp_path / "log"

    def count(block):
        with open(log, "a") as file:
            file.write("x")
        return block

    X = da.from_array(signals, chunks=(20, 6)).map_blocks(count, meta=np.empty((0, 0)))
    assert_same(LearnHeat(**GIVEN).fit(X), here)
    assert log.stat().st_size > 2 * here.n_iter_


@pytest.mark.slow
def test_codes_that_are_lost_cost_a_step(client, signals, here):
    lost = []

    def lose(step):
        if step.iteration % 5 == 3:
            lost.append(len(codes.kept()))
            lose_codes()

    there = LearnHeat(**GIVEN).fit(da.from_array(signals, chunks=(11, 6)), monitor=lose)
    assert sum(lost) > 3
    assert_same(there, here)


def test_goes_on_from_a_checkpoint(client, signals, here, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)

    class Killed(BaseException):
        pass

    def stop(step):
        if step.iteration == here.n_iter_ - 2:
            raise Killed

    settings = GIVEN | {"checkpoint": tmp_path / "fit"}
    with pytest.raises(Killed):
        LearnHeat(**settings).fit(da.from_array(signals, chunks=(11, 6)), monitor=stop)
    lose_codes()
    seen = []
    X = da.from_array(signals, chunks=(20, 6))
    there = LearnHeat(**settings).fit(X, monitor=lambda step: seen.append(step.iteration))
    assert seen[0] == here.n_iter_ - 2
    assert_same(there, here)
    with pytest.raises(ValueError, match="to another fit: X is"):
        LearnHeat(**settings).fit(2.0 * X)


def test_a_data_frame_names_the_nodes(client, signals, tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(signals, columns=list("abcdef"))
    for k, rows in enumerate((frame[:15], frame[15:])):
        rows.to_parquet(tmp_path / f"{k}.parquet")
    there = LearnHeat(**GIVEN).fit(dd.read_parquet(tmp_path / "*.parquet"))
    assert list(there.feature_names_in_) == list("abcdef")
    assert_same(there, LearnHeat(**GIVEN).fit(frame))
    assert there.transform(frame[:3]).shape == (3, 6)


@pytest.mark.slow
def test_zarr(client, signals, here, tmp_path):
    pytest.importorskip("zarr")
    da.from_array(signals, chunks=(10, 6)).to_zarr(str(tmp_path / "signals.zarr"))
    assert_same(LearnHeat(**GIVEN).fit(da.from_zarr(str(tmp_path / "signals.zarr"))), here)


@pytest.mark.slow
def test_a_cluster_of_its_own_where_there_is_none(signals, here, monkeypatch):
    import distributed

    def none():
        raise ValueError("No clients found")

    monkeypatch.setattr(distributed, "default_client", none)
    assert_same(LearnHeat(**GIVEN).fit(da.from_array(signals, chunks=(20, 6))), here)


def test_a_saved_model_has_no_sources(signals, there, tmp_path):
    save_model(there, tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    assert loaded.sources_.shape == (0, 1, 6)
    assert np.array_equal(loaded.transform(signals), there.transform(signals))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [LearnHeat(**GIVEN, max_iter=2), HeatCovariance(penalty=0.1, shrinkage=0.1)],
    ids=["LearnHeat", "HeatCovariance"],
)
def test_nodes_with_the_same_signals_are_told(client, signals, model):
    X = np.column_stack([signals, signals[:, 2]])
    with pytest.warns(UserWarning, match=r"the same signals, value for value: \[2, 6\]\."):
        model.fit(da.from_array(X, chunks=(10, 7)))


class TestRefuses:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda block: block + 1j, "holds complex128"),
            (lambda block: block.astype("U8"), "holds <U8"),
            (lambda block: block[:, :5], "6 nodes was expected"),
        ],
    )
    @pytest.mark.parametrize("model", [LearnHeat(**GIVEN), HeatCovariance()], ids=["L", "C"])
    def test_a_chunk_that_is_not_what_was_said(self, client, signals, model, change, message):
        def spoil(block, block_info=None):
            second = block_info and block_info[0]["chunk-location"][0] == 1
            return change(block) if second else block

        X = da.from_array(signals, chunks=(4, 6)).map_blocks(spoil, meta=np.empty((0, 0)))
        with pytest.raises(ValueError, match=message) as raised:
            model.fit(X)
        assert "chunk 1 of X (signals 4 to 7)" in raised.value.__notes__[-1]

    def test_a_chunk_that_raises_by_its_signals(self, client, signals):
        def spoil(block, block_info=None):
            if block_info and block_info[0]["chunk-location"][0] == 1:
                raise ZeroDivisionError("no such sensor")
            return block

        X = da.from_array(signals, chunks=(4, 6)).map_blocks(spoil, meta=np.empty((0, 0)))
        with pytest.raises(ZeroDivisionError, match="no such sensor") as raised:
            LearnHeat(**GIVEN).fit(X)
        assert "chunk 1 of X (signals 4 to 7)" in raised.value.__notes__[-1]

    def test_a_chunk_that_raises_later(self, client, signals, monkeypatch, tmp_path):
        monkeypatch.setattr(from_dask, "HELD_SHARE", 0.0)
        log = tmp_path / "log"
        log.touch()

        def spoil(block):
            with open(log, "a") as file:
                file.write("x")
            if log.stat().st_size > 30:
                raise FileNotFoundError("signals are gone")
            return block

        X = da.from_array(signals, chunks=(20, 6)).map_blocks(spoil, meta=np.empty((0, 0)))
        with pytest.raises(FileNotFoundError, match="signals are gone"):
            LearnHeat(**GIVEN).fit(X)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda X: np.where(X.max() == X, np.inf, X), r"infinity: chunk \d"),
            (lambda X: 0.0 * X, "X holds no signal"),
            (lambda X: X[:, :1], "1 nodes"),
            (lambda X: X[0], "n_signals, n_nodes"),
            (lambda X: X + 1j, "real numbers"),
        ],
    )
    def test_signals_that_do_not_serve(self, client, signals, change, message):
        X = change(signals)
        with pytest.raises(ValueError, match=message):
            LearnHeat(**GIVEN).fit(da.from_array(X, chunks=7))

    @pytest.mark.parametrize("more", [{"atoms": "raw", "solver": "paper"}, {"n_bootstrap": 2}])
    def test_what_needs_the_signals_in_memory(self, client, signals, more):
        X = da.from_array(signals, chunks=(20, 6))
        with pytest.raises(ValueError, match="needs the signals in memory"):
            LearnHeat(**GIVEN, **more).fit(X)

    def test_without_dask_it_says_so(self, signals, monkeypatch):
        X = da.from_array(signals, chunks=(20, 6))
        monkeypatch.setitem(sys.modules, "distributed", None)
        with pytest.raises(ImportError, match=r'pip install "heatgraph\[dask\]"'):
            LearnHeat(**GIVEN).fit(X)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_worker_that_dies_costs_its_share_of_a_step(signals, here):
    from distributed import Client, LocalCluster

    killed = []
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):

        def kill(step):
            if step.iteration == here.n_iter_ // 2 and not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        there = LearnHeat(**GIVEN).fit(da.from_array(signals, chunks=(7, 6)), monitor=kill)
        assert killed
        assert_same(there, here)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_workers_that_die_again_and_again_are_an_error_with_a_remedy(signals):
    from distributed import Client, KilledWorker, LocalCluster

    def die(block):
        if len(block):
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        X = da.from_array(signals, chunks=(20, 6)).map_blocks(die, meta=np.empty((0, 0)))
        with pytest.raises(KilledWorker) as raised:
            LearnHeat(**GIVEN).fit(X)
    assert any("memory_limit" in note for note in raised.value.__notes__)
