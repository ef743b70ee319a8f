"""Signals on a cluster: how much a second worker gains, what travels, what the client holds.

Every measurement runs in a process of its own, on a cluster of one-thread workers as
``heatgraph learn`` starts it:

1. speed: seconds a step (an evaluation of a graph on all signals) with one worker and with two;
2. traffic: bytes that client and scheduler send and receive in a step, for few and many signals;
3. memory: the peak of the client, for few and many signals read from Parquet;
4. large: four million signals on 29 nodes from Parquet, 885 MB, two workers of 400 MB, so that the
   signals are larger than the memory of both, with Dask's own rules of when a worker pauses and
   when it is killed.

``python -m benchmarks.bench_distributed --quick`` measures less.  The ratio of 1 is that of a
machine with two idle cores; the bytes do not depend on what else runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.memory import peak_bytes

MEGABYTE = 2**20


def signals_on(n_nodes: int, n_signals: int, seed: int = 0) -> np.ndarray:
    from heatgraph.datasets import make_graph, make_heat_signals

    graph = make_graph("er", n_nodes, random_state=0)
    X, _ = make_heat_signals(graph, (2.5, 4.0), n_signals, 3, 0.02, seed)
    return X


def write_parquet(folder: Path, n_nodes: int, n_signals: int, rows: int = 32768) -> list[Path]:
    """Files of so many signals each: one part of a fit."""
    import pyarrow as pa
    from pyarrow import parquet

    names = [f"n{k}" for k in range(n_nodes)]
    X = signals_on(n_nodes, min(n_signals, rows))
    rng = np.random.default_rng(1)
    paths = []
    for k, first in enumerate(range(0, n_signals, rows)):
        size = min(rows, n_signals - first)
        # The same signals at other strengths: other numbers, drawn in no time.
        part = X[:size] * rng.uniform(0.5, 1.5, (size, 1))
        paths.append(folder / f"{k:04d}.parquet")
        parquet.write_table(pa.table(dict(zip(names, part.T, strict=True))), paths[-1])
    return paths


class Traffic:
    """Bytes through the sockets of this process, in which client and scheduler are."""

    def __init__(self) -> None:
        from distributed.comm.tcp import TCP

        self.bytes = 0
        write = TCP.write

        async def counted(comm: Any, *args: Any, **kwargs: Any) -> Any:
            sent = await write(comm, *args, **kwargs)
            self.bytes += sent or 0
            return sent

        TCP.write = counted


def fit(X: Any, max_iter: int, **settings: Any) -> dict[str, Any]:
    """Seconds, bytes and iterations of a fit of given length."""
    from heatgraph import LearnHeat

    traffic, marks = Traffic(), []

    def mark(step: Any) -> None:
        marks.append((time.monotonic(), traffic.bytes))

    model = LearnHeat(
        alpha=0.1, beta=1e-3 * X.shape[0], tol=0.0, penalty="l1", max_iter=max_iter, **settings
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, monitor=mark)
    # The first steps start from no codes, and a step may try more than one graph.
    times, sent = np.diff(np.array(marks), axis=0)[1:].T
    return {
        "seconds": float(np.median(times)),
        "steps": times.tolist(),
        "bytes": float(np.median(sent)),
        "objective": float(model.objective_[-1]),
        "status": str(model.status_),
        "n_iter": model.n_iter_,
    }


def measure(kind: str, n_workers: int, n_nodes: int, n_signals: int, limit: int) -> dict[str, Any]:
    """One measurement, in this process."""
    import dask.array as da

    from heatgraph.distributed.from_dask import local_cluster
    from heatgraph.distributed.parquet import read_parquet

    steps = {"large": 3, "speed": 11}.get(kind, 6)
    with (
        tempfile.TemporaryDirectory() as folder,
        local_cluster(n_workers, memory_limit=limit or None) as client,
    ):
        begin = time.monotonic()
        if kind == "speed":
            X = da.from_array(signals_on(n_nodes, n_signals), chunks=(1024, n_nodes)).persist()
        else:
            paths = write_parquet(Path(folder), n_nodes, n_signals)
            X = read_parquet(paths)
        found = fit(X, steps)
        memory = client.run(peak)
        return found | {
            "total_seconds": time.monotonic() - begin,
            "client_peak_mb": peak(),
            "worker_peak_mb": max(memory.values()),
            "workers_left": len(memory),
        }


def peak() -> float:
    return peak_bytes() / MEGABYTE


def run(*arguments: Any) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.bench_distributed", "--one", *map(str, arguments)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def speed(quick: bool) -> None:
    N, M = (60, 8_192) if quick else (200, 20_000)
    print(f"\n1. Speed: N = {N}, M = {M}, seconds a step, of each step the best of five")
    runs: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
    for _ in range(1 if quick else 5):  # by turns, so that what else runs is met by both alike
        for n_workers in runs:
            runs[n_workers].append(run("speed", n_workers, N, M, 0))
    best = {}
    for n_workers, found in runs.items():
        seconds = np.median(np.min([r["steps"] for r in found], axis=0))
        best[n_workers] = {"seconds": seconds, "objective": found[0]["objective"]}
        print(f"   {n_workers} worker(s): {seconds:.3f} s   objective {found[0]['objective']:.10g}")
    print(f"   two workers are {best[1]['seconds'] / best[2]['seconds']:.2f} times as fast as one")
    gap = abs(best[1]["objective"] / best[2]["objective"] - 1.0)
    print(f"   and end {gap:.1e} (relative) apart")


def growth(quick: bool) -> None:
    N = 29
    print(f"\n2, 3. What grows with the signals: N = {N}, two workers, from Parquet")
    print("   signals    kB a step   client peak MB   worker peak MB   s a step")
    for M in (8_192, 32_768, 131_072) if quick else (32_768, 131_072, 524_288):
        r = run("growth", 2, N, M, 0)
        print(
            f"   {M:9,d} {r['bytes'] / 1024.0:10.0f} {r['client_peak_mb']:14.0f} "
            f"{r['worker_peak_mb']:16.0f} {r['seconds']:12.2f}"
        )


def large(M: int, limit_mb: int) -> None:
    N, n_workers = 29, 2
    size = 8 * N * M / MEGABYTE
    print(f"\n4. Large: N = {N}, M = {M:,d}: {size:.0f} MB of signals, from Parquet")
    print(f"   {n_workers} workers of one thread, at most {limit_mb} MB each")
    try:
        r = run("large", n_workers, N, M, limit_mb * MEGABYTE)
    except SystemExit as failure:
        print(f"   FAILED: {str(failure).strip().splitlines()[-1][:300]}")
        return
    print(
        f"   {r['n_iter']} iterations ({r['status']}) in {r['total_seconds']:.0f} s, "
        f"{r['seconds']:.1f} s a step; peak of a worker {r['worker_peak_mb']:.0f} MB, of the "
        f"client {r['client_peak_mb']:.0f} MB; {r['workers_left']} workers at the end"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=["speed", "growth", "large"])
    parser.add_argument("--signals", type=int, default=4_000_000, help="of the large measurement")
    parser.add_argument("--limit-mb", type=int, default=400)
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        kind, *numbers = given.one
        print(json.dumps(measure(kind, *map(int, numbers))))
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    if given.only in (None, "speed"):
        speed(given.quick)
    if given.only in (None, "growth"):
        growth(given.quick)
    if given.only in (None, "large"):
        large(131_072 if given.quick else given.signals, given.limit_mb)


if __name__ == "__main__":
    main()
