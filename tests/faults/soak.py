"""A day of a user in one process: fits, imputations, saves and loads, of many sizes.

    python tests/faults/soak.py [--rounds 500]

The memory at the end is within 5 % of that after the first 50 rounds, and the open files and
threads are as many as then.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

SETTLED, MORE = 50, 1.05


def resident() -> int:
    """Bytes in memory now."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def state() -> dict[str, Any]:
    return {
        "megabytes": round(resident() / 2**20, 1),
        "files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
    }


def one_round(k: int, folder: Path) -> None:
    from heatgraph import Graph, HeatCovariance, LearnHeat
    from heatgraph.storage import load_model, save_model

    rng = np.random.default_rng(k)
    n, m = 3 + k % 10, 12 + 7 * (k % 6)
    X = rng.normal(size=(m, n)).cumsum(axis=1)
    if k % 2:
        model: Any = HeatCovariance(penalty=0.1, shrinkage=0.1, max_iter=20)
    else:
        checkpoint = folder / f"{k}.checkpoint" if k % 4 == 0 else None
        model = LearnHeat(
            n_scales=1, alpha=0.1, beta=1.0, tol=1e-2, max_iter=20, checkpoint=checkpoint
        )
    model.fit(X)
    gaps = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    gaps[:, 0] = X[:, 0]  # of a signal without any value nothing can be said
    filled = model.impute(gaps)
    assert np.isfinite(filled).all()
    save_model(model, folder / "model.npz")
    assert np.array_equal(load_model(folder / "model.npz").impute(gaps), filled)
    for suffix in (".npz", ".graphml"):
        model.graph_.save(folder / f"graph{suffix}")
        assert Graph.load(folder / f"graph{suffix}").n_nodes == n


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=500)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        for k in range(asked.rounds):
            one_round(k, Path(place))
            if k + 1 == SETTLED:
                first = state()
                print(f"after {SETTLED} rounds: {first}", flush=True)
        last = state()
    print(f"after {asked.rounds} rounds: {last}, {time.monotonic() - began:.0f} s")
    if last["megabytes"] > MORE * first["megabytes"]:
        sys.exit("the memory has grown")
    if (last["files"], last["threads"]) != (first["files"], first["threads"]):
        sys.exit("files or threads are left open")
    from results import record_section

    record_section("soak", {"rounds": asked.rounds, "settled": first, "end": last})


if __name__ == "__main__":
    main()
