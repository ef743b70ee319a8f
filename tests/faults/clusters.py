"""Break a Dask cluster under a fit, and see how the fit ends.

    python tests/faults/clusters.py [--runs 20] [--only NAME]

A fit ends with the model of the same signals in memory, to RIGHT, or with an error that names the
cause; never with another model, and never not at all.  Every run has a cluster of its own, of
processes of this machine, whose patience is seconds where that of Dask is minutes.  The network
is cut between namespaces, which needs Linux, root and iproute2.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import logging
import multiprocessing
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RIGHT = 1e-10  # of weights and covariances of size one: sums in another order differ
PATIENCE = 120.0  # seconds after which a run hangs
BRIEF = 4.0  # seconds that Dask waits for a worker or a connection
WORKERS = 3
ENOUGH = 20  # runs of a fault whose numbers are kept
SETTINGS = {
    "distributed.scheduler.worker-ttl": f"{BRIEF}s",
    "distributed.comm.timeouts.connect": f"{BRIEF}s",
    "distributed.comm.timeouts.tcp": "12s",  # the least that Dask takes
    "distributed.worker.profile.enabled": False,
}


def serve_scheduler(pipe: Any, host: str) -> None:
    async def serve() -> None:
        from distributed import Scheduler

        async with Scheduler(host=host, port=0, dashboard=False) as scheduler:
            pipe.send(scheduler.address)
            await scheduler.finished()

    run(serve())


def serve_worker(pipe: Any, scheduler: str, folder: str, network: int, metadata: str) -> None:
    """A worker; in a network of its own if that has a number, with other metadata if these do."""
    host = "127.0.0.1"
    if metadata:
        sys.path.insert(0, metadata)
    if network:
        own_network()
        pipe.send(os.getpid())
        pipe.recv()  # the other end of the cable is there
        host = address_of(network)
        command("ip", "addr", "add", f"{host}/24", "dev", CABLE)
        command("ip", "link", "set", CABLE, "up")

    async def serve() -> None:
        from distributed import Worker

        async with Worker(
            scheduler, host=host, nthreads=1, local_directory=folder, dashboard=False
        ) as worker:
            pipe.send(worker.address)
            await worker.finished()

    run(serve())


def run(serving: Any) -> None:
    import dask

    dask.config.set(SETTINGS)
    logging.disable(logging.CRITICAL)
    with suppress(Exception):  # its cluster is gone
        asyncio.run(serving)


CABLE = "cable"


def command(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def own_network() -> None:
    """Put this process in a network of its own, which ends with it."""
    new_net = 0x40000000
    if ctypes.CDLL(None, use_errno=True).unshare(new_net) != 0:
        raise OSError(ctypes.get_errno(), "a network of its own needs root")
    command("ip", "link", "set", "lo", "up")


def address_of(network: int) -> str:
    return f"10.9.0.{network}"


@dataclass
class Cluster:
    """Processes: a scheduler and its workers, by their addresses."""

    folder: str
    networks: bool
    scheduler: str = ""
    workers: dict[str, Any] = field(default_factory=dict)
    head: Any = None
    context: Any = field(default_factory=lambda: multiprocessing.get_context("forkserver"))

    def start(self) -> None:
        self.head, pipe = self._process(
            serve_scheduler, address_of(1) if self.networks else "127.0.0.1"
        )
        self.scheduler = pipe.recv()
        for _ in range(WORKERS):
            self.add_worker()

    def _process(self, serve: Any, *arguments: Any) -> tuple[Any, Any]:
        here, there = self.context.Pipe()
        process = self.context.Process(target=serve, args=(there, *arguments), daemon=True)
        process.start()
        return process, here

    def add_worker(self, metadata: str = "") -> str:
        network = 10 + len(self.workers) if self.networks else 0
        process, pipe = self._process(serve_worker, self.scheduler, self.folder, network, metadata)
        if network:
            pid = str(pipe.recv())
            plug = f"plug{network}"
            command("ip", "link", "add", plug, "type", "veth", "peer", "name", CABLE, "netns", pid)
            command("ip", "link", "set", plug, "master", "bridge", "up")
            pipe.send("plugged")
        address: str = pipe.recv()
        self.workers[address] = process
        return address

    def stop(self) -> None:
        for process in (*self.workers.values(), self.head):
            process.kill()
            process.join()
        for k in range(len(self.workers) if self.networks else 0):
            with suppress(subprocess.CalledProcessError):  # gone with its network
                command("ip", "link", "del", f"plug{10 + k}")

    def plug(self, k: int, state: str) -> None:
        command("ip", "link", "set", f"plug{10 + k}", state)

    def hide(self, k: int, other: int, hidden: bool) -> None:
        """Send what one worker has for another to an address that nobody has, or no longer."""
        pid = str(list(self.workers.values())[k].pid)
        nobody = ("lladdr", "02:00:00:00:00:99", "nud", "permanent")
        enter = ("nsenter", "-t", pid, "-n", "ip", "neigh", "replace" if hidden else "del")
        command(*enter, address_of(10 + other), *(nobody if hidden else ()), "dev", CABLE)


@contextmanager
def clustered(networks: bool = False) -> Iterator[tuple[Cluster, Any]]:
    from distributed import Client

    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(folder, networks)
        try:
            cluster.start()
            client = Client(cluster.scheduler, timeout=f"{BRIEF}s", direct_to_workers=not networks)
            client.wait_for_workers(WORKERS)
            try:
                yield cluster, client
            finally:
                client.close(timeout=BRIEF)
        finally:
            cluster.stop()


GIVEN: dict[str, dict[str, Any]] = {
    "LearnHeat": {"n_scales": 1, "alpha": 0.05, "beta": 0.05, "max_iter": 12},
    "HeatCovariance": {"penalty": 0.1, "shrinkage": 0.1},
}


@cache
def signals() -> Any:
    from heatgraph.datasets import make_graph, make_heat_signals

    return make_heat_signals(make_graph("er", 6, 0), (2.0,), 24, 2, 0.05, 0)[0]


def estimator(name: str, **more: Any) -> Any:
    from heatgraph import HeatCovariance, LearnHeat

    kind = {"LearnHeat": LearnHeat, "HeatCovariance": HeatCovariance}[name]
    return kind(**GIVEN[name], **more)


def learned(model: Any) -> Any:
    """What a fit has found, of size one."""
    import numpy as np

    if hasattr(model, "sources_"):
        return np.asarray(model.laplacian_)
    C = np.asarray(model.covariance_)
    return C / np.abs(C).max()


@cache
def in_memory(name: str, gaps: bool = False) -> tuple[Any, int]:
    model = estimator(name).fit(with_gaps(signals()) if gaps else signals())
    return learned(model), int(model.n_iter_)


def with_gaps(X: Any) -> Any:
    import numpy as np

    X = X.copy()
    X[5:7, 2] = np.nan
    return X


def slowly(block: Any) -> Any:
    if len(block):
        time.sleep(0.05)
    return block


def collection(change: Callable[..., Any] = slowly) -> Any:
    import dask.array as da
    import numpy as np

    return da.from_array(signals(), chunks=(3, 6)).map_blocks(change, meta=np.empty((0, 0)))


@dataclass
class Run:
    """One fit under one fault: at a step, or while chunks are read where there are no steps."""

    name: str
    rng: random.Random
    more: dict[str, Any] = field(default_factory=dict)
    first: int | None = None  # the first step that was seen

    def fit(self, X: Any, fault: Callable[[], Any] | None = None) -> Any:
        at = self.rng.randrange(1, in_memory("LearnHeat")[1])
        waiting = [fault] if fault is not None else []
        model = estimator(self.name, **self.more)
        if self.name != "LearnHeat":
            timer = threading.Timer(0.4 * self.rng.random(), fault or int)
            timer.start()
            try:
                return model.fit(X)
            finally:
                timer.join()

        def watch(step: Any) -> None:
            self.first = step.iteration if self.first is None else self.first
            if step.iteration >= at and waiting:
                waiting.pop()()

        return model.fit(X, monitor=watch)

    def ends_right(self, X: Any, fault: Callable[[], Any] | None = None, gaps: bool = False) -> str:
        import numpy as np

        model = self.fit(X, fault)
        apart = float(np.abs(learned(model) - in_memory(self.name, gaps)[0]).max())
        assert apart <= RIGHT, f"another model: {apart:.1e} apart"
        return f"right {apart:.1e}"

    def refused(self, kind: type[Exception], words: str, X: Any, fault: Any = None) -> str:
        try:
            self.fit(X, fault)
        except kind as error:
            told = " ".join([str(error), *getattr(error, "__notes__", ())])
            assert words in told, f"does not name the cause: {told}"
            return "refused by its cause"
        raise AssertionError("ended as if nothing were wrong")


def worker_killed(run: Run) -> str:
    with clustered() as (cluster, _):
        victim = run.rng.choice(list(cluster.workers.values()))
        return run.ends_right(collection(), victim.kill)


def worker_frozen(run: Run) -> str:
    """For a moment, or until the scheduler has given it up; then it is back."""
    with clustered() as (cluster, _):
        victim = run.rng.choice(list(cluster.workers.values()))
        seconds = run.rng.choice((1.0, 2.5 * BRIEF))

        def freeze() -> None:
            os.kill(victim.pid, signal.SIGSTOP)
            threading.Timer(seconds, thaw).start()

        def thaw() -> None:
            with suppress(ProcessLookupError):  # the run is over
                os.kill(victim.pid, signal.SIGCONT)

        return run.ends_right(collection(), freeze)


def scheduler_killed(run: Run) -> str:
    """The fit is refused; the next, on another cluster, goes on from the checkpoint."""
    from heatgraph.estimators import checkpoint

    checkpoint.EVERY = 0.0
    with tempfile.TemporaryDirectory() as folder:
        run.more = {"checkpoint": Path(folder, "fit")}
        words = "scheduler"
        with clustered() as (cluster, _):
            try:
                ended = run.refused(ConnectionError, words, collection(), cluster.head.kill)
            except AssertionError:
                if run.name == "LearnHeat":
                    raise
                ended = "over before"  # the chunks had been read
        run.first = None
        with clustered():
            again = run.ends_right(collection())
        if run.name == "LearnHeat":
            assert run.first, "the fit began anew"
    return f"{ended}, then {again}"


def network_cut(run: Run) -> str:
    """Between one worker and all others, for a moment or for good; or between two for a while.

    Dask never gives up a cut between two workers that the scheduler still reaches.
    """
    with clustered(networks=True) as (cluster, _):
        one, other = run.rng.sample(range(WORKERS), 2)
        how = run.rng.choice(("between two", "moment", "for good"))

        def cut() -> None:
            between(True) if how == "between two" else cluster.plug(one, "down")
            if how != "for good":
                seconds = 2.0 * BRIEF if how == "between two" else 1.0
                threading.Timer(seconds, mend).start()

        def mend() -> None:
            with suppress(subprocess.CalledProcessError):  # the run is over
                between(False) if how == "between two" else cluster.plug(one, "up")

        def between(hidden: bool) -> None:
            cluster.hide(one, other, hidden)
            cluster.hide(other, one, hidden)

        return run.ends_right(collection(), cut)


def chunk_raises(run: Run) -> str:
    k = run.rng.randrange(8)

    def spoil(block: Any, block_info: Any = None) -> Any:
        if block_info and block_info[0]["chunk-location"][0] == k:
            raise ZeroDivisionError("no such sensor")
        return block

    with clustered():
        return run.refused(ZeroDivisionError, f"chunk {k} of X", collection(spoil))


def changed_chunk(k: int, change: Callable[[Any], Any]) -> Any:
    def spoil(block: Any, block_info: Any = None) -> Any:
        here = block_info and block_info[0]["chunk-location"][0] == k
        return change(block) if here else block

    return collection(spoil)


def chunk_of_another_dtype(run: Run) -> str:
    k = run.rng.randrange(8)
    dtype = run.rng.choice(("object", "complex128", "U8", "longdouble"))
    X = changed_chunk(k, lambda block: block.astype(dtype))
    with clustered():
        if dtype == "longdouble":  # real numbers all the same
            return run.ends_right(X)
        return run.refused(ValueError, f"chunk {k} of X", X)


def chunk_with_gaps(run: Run) -> str:
    """NaN is "not observed", which HeatCovariance takes in memory alone."""
    import dask.array as da

    X = da.from_array(with_gaps(signals()), chunks=(3, 6))
    with clustered():
        if run.name == "LearnHeat":
            return run.ends_right(X, gaps=True)
        return run.refused(ValueError, "chunk 1 of X", X)


def chunk_of_another_size(run: Run) -> str:
    k = run.rng.randrange(8)
    X = changed_chunk(k, lambda block: block[:, :5])
    with clustered():
        return run.refused(ValueError, f"chunk {k} of X", X)


def worker_of_another_version(run: Run) -> str:
    """From the start, or in the place of those that the fit began with."""
    with tempfile.TemporaryDirectory() as folder, clustered() as (cluster, client):
        told = Path(folder, "heatgraph-99.0.dist-info")
        told.mkdir()
        (told / "METADATA").write_text("Metadata-Version: 2.1\nName: heatgraph\nVersion: 99.0\n")
        first = list(cluster.workers.values())

        def replace_all() -> None:
            cluster.add_worker(folder)
            for process in first:
                process.kill()

        if run.name != "LearnHeat" or run.rng.random() < 0.5:
            cluster.add_worker(folder)
            client.wait_for_workers(WORKERS + 1)
            return run.refused(ValueError, "has version 99.0", collection())
        return run.refused(ValueError, "has version 99.0", collection(), replace_all)


FAULTS: dict[str, Callable[[Run], str]] = {
    "worker killed": worker_killed,
    "worker frozen": worker_frozen,
    "scheduler killed": scheduler_killed,
    "network cut": network_cut,
    "chunk raises": chunk_raises,
    "chunk of another dtype": chunk_of_another_dtype,
    "chunk with gaps": chunk_with_gaps,
    "chunk of another size": chunk_of_another_size,
    "worker of another version": worker_of_another_version,
}


def run_here(name: str, runs: int) -> None:
    """So many runs of one fault in this process, each told by a line of JSON."""
    import dask

    dask.config.set(SETTINGS)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    if name == "network cut":
        own_network()
        command("ip", "link", "add", "bridge", "type", "bridge")
        command("ip", "addr", "add", f"{address_of(1)}/24", "dev", "bridge")
        command("ip", "link", "set", "bridge", "up")
    multiprocessing.set_forkserver_preload(["distributed", "dask.array", "heatgraph"])
    for model in ("LearnHeat", "HeatCovariance"):
        in_memory(model)
    for k in range(runs):
        model = ("LearnHeat", "HeatCovariance")[k % 2]
        began = time.monotonic()
        try:
            ended = FAULTS[name](Run(model, random.Random(f"{name} {k}")))
        except Exception as error:
            ended = f"FAILED {type(error).__name__}: {error}"
        seconds = round(time.monotonic() - began, 1)
        print(json.dumps({"model": model, "ended": ended, "seconds": seconds}), flush=True)


def run_fault(name: str, runs: int) -> tuple[list[dict[str, Any]], str]:
    """The runs of one fault in a process of its own, and what is wrong with them."""
    words = [sys.executable, __file__, "--here", name, "--runs", str(runs)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, start_new_session=True, env=environment
    )
    assert process.stdout is not None
    found: list[dict[str, Any]] = []
    wrong = ""
    try:
        while len(found) < runs:
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
            line = process.stdout.readline() if ready else b""
            if not line:
                wrong = "ended by itself" if ready else f"hung for {PATIENCE:.0f} s"
                break
            found.append(json.loads(line))
            print(f"  {name}: {found[-1]}", flush=True)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    failed = [one["ended"] for one in found if one["ended"].startswith("FAILED")]
    return found, wrong or "; ".join(failed)


def can_cut_networks() -> bool:
    with suppress(OSError):
        return (
            subprocess.run(["unshare", "--net", "ip", "link"], capture_output=True).returncode == 0
        )
    return False


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    ends = Counter(" ".join(w for w in one["ended"].split() if "e-" not in w) for one in found)
    apart = [float(w) for one in found for w in one["ended"].split() if "e-" in w]
    return {
        "runs": len(found),
        "ends": dict(sorted(ends.items())),
        "farthest": max(apart, default=0.0),
        "longest": max(one["seconds"] for one in found),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=ENOUGH, help="of each fault")
    parser.add_argument("--only", choices=FAULTS)
    parser.add_argument("--here", choices=FAULTS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.here is not None:
        run_here(asked.here, asked.runs)
        return
    failed = []
    for name in [asked.only] if asked.only else FAULTS:
        if name == "network cut" and not can_cut_networks():
            print(f"{name}: not run, it needs Linux, root and iproute2")
            continue
        found, wrong = run_fault(name, asked.runs)
        if wrong:
            failed.append(name)
            print(f"{name}: {wrong}", flush=True)
            continue
        told = summary(found)
        print(f"{name:26} {told}", flush=True)
        if asked.runs >= ENOUGH:
            from results import record_part

            record_part("clusters", name, told)
    if failed:
        sys.exit(f"clusters: findings in {', '.join(failed)}")


if __name__ == "__main__":
    main()
