"""A cluster of this machine's own processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from heatgraph.graph import CandidateEdges
from heatgraph.models.atoms import ATOMS
from heatgraph.models.heat import HeatObjective, Signals
from heatgraph.solvers.signal_access import LocalSignals

__all__ = ["compile_coding", "local_cluster"]

# What Dask asks of a worker every hundredth of a second, where its time goes, takes a twentieth of
# the time of a worker that does nothing but compiled code, of which it can tell nothing.
QUIET = {"distributed.worker.profile.enabled": False}


@contextmanager
def local_cluster(n_workers: int, **settings: Any) -> Iterator[Any]:
    """A client of so many worker processes, of one thread each, for the time of the block."""
    import dask
    from distributed import Client, LocalCluster

    compile_coding()
    how = {"threads_per_worker": 1, "dashboard_address": ":0", **settings}
    with (
        dask.config.set(QUIET),
        LocalCluster(n_workers=n_workers, **how) as cluster,
        # What workers have found is fetched from them, and not by way of the scheduler.
        Client(cluster, direct_to_workers=True) as client,
    ):
        yield client


def compile_coding() -> None:
    """Compile here what workers code signals with, where that was never done on this machine.

    They load it from the cache then: to compile it takes more memory than a worker may have that
    is to read its signals a few at a time, and every one of them would.
    """
    ends = np.array([0, 1], dtype=np.intp), np.array([1, 2], dtype=np.intp)
    objective = HeatObjective(CandidateEdges(3, *ends), 0.1, 0.0, ATOMS["unit"])
    D = objective.dictionary(np.array([0.5, 1.0]), np.array([1.0]))
    gram = D.kernel.gram(D.tau)
    for observed in (None, np.eye(3) < 1.0):
        local = LocalSignals(Signals(np.eye(3), observed))
        codes, _ = local.code_batch(objective, D, local.silence(3), None, gram)
        local.code_batch(objective, D, codes, np.ones((3, 3)), gram)
