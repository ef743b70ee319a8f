"""Fit with less memory than it takes, and see what is left.

    python tests/faults/memory.py [--quick]

A fit may take 1, 2, 4, 8, ... MB more than its process has (RLIMIT_AS), until it gets by with
that.  With less it is refused before it starts, or ends with a MemoryError; and the same fit
without a limit then goes on from the checkpoint and ends with the model of a fit that was never
limited.  Half of what an estimator states as needed has to be refused before the fit starts.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from heatgraph.estimators import checkpoint as checkpoints
from heatgraph.estimators.large_covariance import memory_of

MOST = 1024  # MB
# Every array is asked of the system, and none lies in what was freed before.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}
SAME = 1e-10
REFUSED = "refused before it starts"


@functools.cache
def signals(n_signals: int, n_nodes: int) -> Any:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n_signals, n_nodes)).cumsum(axis=1)


def dense_heat(checkpoint: Any, shape: tuple[int, int] = (15_000, 12)) -> Any:
    from heatgraph import LearnHeat

    model = LearnHeat(n_scales=1, alpha=0.5, beta=1.0, max_iter=2, checkpoint=checkpoint)
    return model.fit(signals(*shape))


def dense_covariance(checkpoint: Any, shape: tuple[int, int] = (15_000, 12)) -> Any:
    from heatgraph import HeatCovariance

    how = {"penalty": 0.1, "shrinkage": 0.1, "max_iter": 2, "solver": "dense"}
    return HeatCovariance(**how, checkpoint=checkpoint).fit(signals(*shape))


def sparse_covariance(checkpoint: Any, shape: tuple[int, int] = (200, 400)) -> Any:
    from heatgraph import HeatCovariance

    how = {"max_iter": 2, "solver": "sparse", "n_jobs": 1}
    return HeatCovariance(**how, checkpoint=checkpoint).fit(signals(*shape))


FITS: dict[str, tuple[Callable[..., Any], int | None]] = {
    "LearnHeat": (dense_heat, None),
    "HeatCovariance": (dense_covariance, None),
    "HeatCovariance, sparse": (sparse_covariance, memory_of(200, 400, 1)),
}


def size() -> int:
    """Bytes of addresses that this process has."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def attempt(fit: Callable[[Any], Any], checkpoint: Any, limit: int | None) -> dict[str, Any]:
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_AS, (size() + limit, resource.RLIM_INFINITY))
    checkpoints.EVERY = 0.0
    try:
        model = fit(checkpoint)
    except MemoryError as error:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)  # to tell it
        early = "GB are free" in str(error)
        return {"ended": REFUSED if early else "MemoryError", "told": str(error)}
    L = model.laplacian_
    L = np.asarray(L.toarray() if sparse.issparse(L) else L)
    return {"ended": "fitted", "L": L.ravel().tolist()}


def in_child(fit: Callable[[Any], Any], checkpoint: Any = None, limit: int | None = None) -> Any:
    """How a fit ends in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = attempt(fit, checkpoint, limit)
        except BaseException as error:
            found = {"ended": f"FAILED {type(error).__name__}: {error}"}
        with os.fdopen(writer, "w") as pipe:
            json.dump(found, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else {"ended": f"FAILED with status {status}"}


def limited(name: str) -> dict[str, Any]:
    """The ends of the fits of one estimator under limits of half and half again."""
    fit, states = FITS[name]
    whole = in_child(fit)
    assert whole["ended"] == "fitted", whole
    ends: Counter[str] = Counter()
    limits = [2**k for k in range(MOST.bit_length())]
    if states is not None:
        limits = sorted({*limits, states // 2**21})
    for limit in limits:
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = Path(folder, "fit")
            found = in_child(fit, checkpoint, limit * 2**20)
            print(f"{name}, {limit} MB: {found['ended']} {found.get('told', '')}", flush=True)
            assert not found["ended"].startswith("FAILED"), found
            if states is not None and limit == states // 2**21:
                assert found["ended"] == REFUSED, "half of what was stated is taken for enough"
            ends[found["ended"]] += 1
            again = in_child(fit, checkpoint)
            assert again["ended"] == "fitted", f"the checkpoint is lost: {again}"
            apart = np.abs(np.subtract(again["L"], whole["L"])).max()
            assert apart <= SAME, f"another model: {apart:.1e} apart"
            assert [path.name for path in Path(folder).iterdir()] == ["fit"], "litter"
            if found["ended"] == "fitted":
                break
    needed = {} if states is None else {"stated_mb": round(states / 2**20)}
    return {"enough_mb": limit, **needed, "ends": dict(ends)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one estimator")
    asked = parser.parse_args()
    with warnings.catch_warnings():  # libraries are loaded once, and not under a limit
        warnings.simplefilter("ignore")
        for fit, _ in FITS.values():
            fit(None, (40, 12))
            signals(*fit.__defaults__[0])
    found = {name: limited(name) for name in (list(FITS)[:1] if asked.quick else FITS)}
    whole = sum(map(Counter, (told["ends"] for told in found.values())), Counter())
    print(f"{whole.total()} fits under limits: {dict(whole)}; no checkpoint lost")
    if asked.quick:
        return
    from results import record_section

    record_section("memory", {"fits": found})


if __name__ == "__main__":
    if not sys.platform.startswith("linux"):
        sys.exit("memory is limited by RLIMIT_AS, on Linux")
    if MALLOC.items() <= os.environ.items():
        main()
    else:
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **MALLOC})
