"""A cluster of this machine's own processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["local_cluster"]

# What Dask asks of a worker every hundredth of a second, where its time goes, takes a twentieth of
# the time of a worker that does nothing but compiled code, of which it can tell nothing.
QUIET = {"distributed.worker.profile.enabled": False}


@contextmanager
def local_cluster(n_workers: int, **settings: Any) -> Iterator[Any]:
    """A client of so many worker processes, of one thread each, for the time of the block."""
    import dask
    from distributed import Client, LocalCluster

    how = {"threads_per_worker": 1, "dashboard_address": ":0", **settings}
    with (
        dask.config.set(QUIET),
        LocalCluster(n_workers=n_workers, **how) as cluster,
        # What workers have found is fetched from them, and not by way of the scheduler.
        Client(cluster, direct_to_workers=True) as client,
    ):
        yield client
