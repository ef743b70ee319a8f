"""From a Dask array or data frame to signals on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heatgraph.distributed import parts as work
from heatgraph.distributed.parts import Facts
from heatgraph.distributed.signals import DaskSignals, Step
from heatgraph.solvers import ensemble

__all__ = ["as_array", "cluster_client", "facts_of", "is_dask", "lazy_sources", "signals_of"]

Array = NDArray[np.float64]

PARTS_A_THREAD = 4  # so that a thread that is done early has something left to take
LARGEST_PART = 64 * 2**20  # bytes of signals
HELD_SHARE = 0.2  # of the workers' memory: more signals than that are read anew at every step


def is_dask(X: Any) -> bool:
    """Whether this is a Dask collection, without importing Dask for one that is not."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


@contextmanager
def cluster_client(n_threads: int) -> Iterator[Any]:
    """The client that is there, or one of threads in this process for the time of the block."""
    try:
        from distributed import Client, default_client
    except ImportError as error:
        raise ImportError(
            "Dask collections are fitted by dask and distributed; install them with pip install "
            '"heatgraph[dask]"'
        ) from error
    try:
        client = default_client()
    except ValueError:
        with Client(
            processes=False,
            n_workers=1,
            threads_per_worker=n_threads,
            dashboard_address=":0",
        ) as client:
            yield client
        return
    yield client


def as_array(X: Any, client: Any) -> Any:
    """A Dask array (n_signals, n_nodes) of known size, in chunks of signals fit for a worker."""
    import dask

    if hasattr(X, "to_dask_array"):
        X = X.to_dask_array(lengths=True)
    if X.ndim != 2:
        raise ValueError(f"X must be (n_signals, n_nodes), got a Dask array of shape {X.shape}.")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X must hold real numbers, got a Dask array of {X.dtype}.")
    if any(np.isnan(size) for chunks in X.chunks for size in chunks):
        X = X.compute_chunk_sizes()
    M, N = X.shape
    if M < 1 or N < 2:
        raise ValueError(
            f"X has {M} signals (samples) and {N} nodes (features), a minimum of 1 and 2 is "
            "required."
        )
    rows = _rows_of_part(M, N, max(1, sum(client.nthreads().values())))
    if X.chunks != ((*[rows] * (M // rows), *([M % rows] if M % rows else [])), (N,)):
        X = X.rechunk((rows, N))
    # Once: another optimisation of the same graph may give other tasks the same names.
    return dask.optimize(X)[0]


def _rows_of_part(M: int, N: int, threads: int) -> int:
    """Signals of a part: a power of two of batches, which keeps the order of every sum."""
    wanted = min(M // (PARTS_A_THREAD * threads), LARGEST_PART // (8 * N))
    rows = ensemble.BATCH
    while 2 * rows <= wanted:
        rows *= 2
    return rows


def facts_of(X: Any, client: Any) -> Facts:
    """One pass over the signals: how many, how large, what was observed.

    A chunk that raises is named here, before any work is done.
    """
    import dask

    blocks = _blocks(X)
    futures = client.compute(
        [dask.delayed(work.facts_of, pure=False)(block) for block in blocks], optimize_graph=False
    )
    found = []
    first = 0
    for k, (future, size) in enumerate(zip(futures, X.chunks[0], strict=True)):
        try:
            found.append(future.result())
        except Exception as error:
            raise ValueError(
                f"X: chunk {k} (signals {first} to {first + size - 1}) could not be computed: "
                f"{type(error).__name__}: {error}"
            ) from error
        if found[-1].n_infinite:
            raise ValueError(
                f"X contains infinity in chunk {k} (signals {first} to {first + size - 1}); "
                "mark what was not observed by NaN."
            )
        first += size
    facts: Facts = work.add(found)
    return facts


def signals_of(X: Any, facts: Facts, unit: float, client: Any) -> DaskSignals:
    """The signals in units of ``unit``, with the workers for the time of a fit.

    They are held there if they take no more than a share of the memory, and read anew at every
    step if they take more.
    """
    import dask

    make = dask.delayed(work.make_part, pure=False)
    parts = [make(block, unit, facts.masked) for block in _blocks(X)]
    workers = client.scheduler_info(n_workers=-1)["workers"]
    homes: list[str | None] = [None] * len(parts)
    if _fits(8 * X.size, [worker["memory_limit"] for worker in workers.values()]):
        parts = client.compute(parts, optimize_graph=False)
    else:
        addresses = sorted(workers)
        homes = [addresses[k % len(addresses)] for k in range(len(parts))]
    signals = DaskSignals(
        client=client,
        parts=parts,
        sizes=tuple(X.chunks[0]),
        n_nodes=X.shape[1],
        total_energy=0.0,
        n_observed=facts.n_observed,
        homes=homes,
        n_signals=X.shape[0],
        masked=facts.masked,
    )
    return replace(signals, total_energy=float(signals.total(work.energy_of)))


def _fits(size: int, limits: list[int]) -> bool:
    """Whether signals of so many bytes can be held by workers; a limit of 0 is none."""
    return 0 in limits or size <= HELD_SHARE * sum(limits)


def _blocks(X: Any) -> list[Any]:
    return list(X.to_delayed(optimize_graph=False).ravel())


def lazy_sources(X: Any, unit: float, masked: bool, codes: Step, scale_of: NDArray[np.intp]) -> Any:
    """The sources (n_signals, n_scales, n_nodes) as a Dask array that is computed when asked for.

    It needs no cluster and none of what the fit left on one: every chunk of signals is coded by
    the recipes of the fit.  ``scale_of`` numbers the scale that each of the fit's is a part of.
    """
    import dask
    import dask.array as da

    recipes = dask.delayed([step.recipe for step in codes.chain], traverse=False)
    find = dask.delayed(work.sources_of_part, pure=False)
    chunks = [
        da.from_delayed(
            find(block, unit, masked, recipes, scale_of),
            (size, int(scale_of.max()) + 1, X.shape[1]),
            dtype=np.float64,
        )
        for block, size in zip(_blocks(X), X.chunks[0], strict=True)
    ]
    return da.concatenate(chunks, axis=0)
