"""From a Dask array or data frame to signals on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heatgraph.distributed import worker_tasks
from heatgraph.distributed.parquet import ParquetRows, ParquetSignals
from heatgraph.distributed.signal_batches import Chunk, Stream
from heatgraph.distributed.signal_summary import (
    SignalSummary,
    summarise,
    summarise_row_group,
    total,
)
from heatgraph.distributed.signals import DaskSignals, Step, add_remedy

__all__ = ["as_array", "cluster_client", "is_dask", "lazy_sources", "signals_of", "summary_of"]

Array = NDArray[np.float64]

# Share of the workers' memory: more signals than that are read again at every step.  The codes are
# held with the signals, and may take several times as much.
HELD_SHARE = 0.1


def is_dask(X: Any) -> bool:
    """Whether this is for a cluster to read, without importing Dask where it is not."""
    if isinstance(X, ParquetSignals):
        return True
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


def as_array(X: Any) -> Any:
    """A Dask array (n_signals, n_nodes) of known size, in the caller's chunks of signals."""
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
    if len(X.chunks[1]) > 1:
        X = X.rechunk({1: N})
    # Once: another optimisation of the same graph may give other tasks the same names.
    return dask.optimize(X)[0]


def summary_of(X: Any, given: Any, client: Any) -> SignalSummary:
    """One pass over the signals: how many, how large, what was observed.

    ``X`` is :func:`as_array` of what was given.  An error of a chunk is raised here, before any
    work is done, with a note that names the chunk.
    """
    import dask

    if isinstance(given, ParquetSignals):
        futures = client.map(summarise_row_group, given.row_groups, pure=False)
    else:
        of_block = dask.delayed(summarise, pure=False)
        futures = client.compute([of_block(b) for b in _blocks(X)], optimize_graph=False)
    found = []
    first = 0
    for k, (future, size) in enumerate(zip(futures, X.chunks[0], strict=True)):
        chunk = f"chunk {k} of X (signals {first} to {first + size - 1})"
        try:
            found.append(future.result())
        except Exception as error:
            add_remedy(error)
            error.add_note(f"This was raised while computing {chunk}.")
            raise
        if found[-1].n_infinite:
            raise ValueError(f"X contains infinity: {chunk}; mark what was not observed by NaN.")
        first += size
    return total(found)


def signals_of(X: Any, given: Any, summary: SignalSummary, unit: float, client: Any) -> DaskSignals:
    """The signals in units of ``unit``, with the workers for the time of a fit.

    They are held there if they take no more than a share of the memory, and read again at every
    step if they take more.
    """
    workers = client.scheduler_info(n_workers=-1)["workers"]
    addresses = [name for name in sorted(workers) for _ in range(workers[name]["nthreads"])]
    M, n_parts = X.shape[0], max(1, min(len(addresses), X.shape[0]))
    sizes = tuple(M // n_parts + (k < M % n_parts) for k in range(n_parts))
    signals = DaskSignals(
        client=client,
        parts=(),
        sizes=sizes,
        n_nodes=X.shape[1],
        total_energy=summary.energy_over(unit),
        n_observed=summary.n_observed,
        homes=[addresses[k] if addresses else "" for k in range(n_parts)],
        n_signals=M,
        masked=summary.masked,
    )
    limits = [worker["memory_limit"] for worker in workers.values()]
    if _holds_futures(X) or _fits(8 * X.size, limits):
        parts = _held_parts(X, sizes, unit, summary.masked, signals.homes, client)
    else:
        chunks = _chunks(X, given)
        streams = _streams(chunks, X.chunks[0], sizes, unit, summary.masked)
        parts = [signals.send(stream) for stream in streams]
    return replace(signals, parts=parts)


def _fits(size: int, limits: list[int]) -> bool:
    """Whether signals of so many bytes can be held by workers; a limit of 0 is none."""
    return 0 in limits or size <= HELD_SHARE * sum(limits)


def _holds_futures(X: Any) -> bool:
    """Whether chunks are with the workers already, where no other task can compute them."""
    from distributed import futures_of

    return bool(futures_of(X))


def _held_parts(
    X: Any, sizes: tuple[int, ...], unit: float, masked: bool, homes: list[str], client: Any
) -> list[Any]:
    import dask

    make = dask.delayed(worker_tasks.make_part, pure=False)
    blocks = _blocks(X.rechunk((sizes, (X.shape[1],))))
    return [
        client.compute(
            make(block, unit, masked),
            optimize_graph=False,
            workers=[home],
            allow_other_workers=True,
        )
        for block, home in zip(blocks, homes, strict=True)
    ]


def _chunks(X: Any, given: Any) -> Sequence[Chunk | ParquetRows]:
    """What a worker needs to read the chunks without asking anyone."""
    from dask.optimization import cull

    if isinstance(given, ParquetSignals):
        return given.row_groups
    graph = dict(X.__dask_graph__())
    keys = [key for row in X.__dask_keys__() for key in row]
    return [Chunk(cull(graph, [key])[0], key) for key in keys]


def _streams(
    chunks: Sequence[Chunk | ParquetRows],
    lengths: Sequence[int],
    sizes: Sequence[int],
    unit: float,
    masked: bool,
) -> list[Stream]:
    """The parts as the chunks that they lie in; a chunk that lies in two is read for both."""
    begins = np.cumsum([0, *lengths])
    streams, first = [], 0
    for size in sizes:
        low = int(np.searchsorted(begins, first, side="right")) - 1
        high = int(np.searchsorted(begins, first + size, side="left"))
        streams.append(Stream(chunks[low:high], first - int(begins[low]), size, unit, masked))
        first += size
    return streams


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
    find = dask.delayed(worker_tasks.sources_of_part, pure=False)
    chunks = [
        da.from_delayed(
            find(block, unit, masked, recipes, scale_of),
            (size, int(scale_of.max()) + 1, X.shape[1]),
            dtype=np.float64,
        )
        for block, size in zip(_blocks(X), X.chunks[0], strict=True)
    ]
    return da.concatenate(chunks, axis=0)
