"""From a Dask array or data frame to signals on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from heatgraph.arrays import Array, Ints
from heatgraph.distributed import worker_tasks
from heatgraph.distributed.parquet import ParquetRows, ParquetSignals
from heatgraph.distributed.signals import DaskSignals, Step
from heatgraph.distributed.trouble import as_rows, causes_told, check_versions, chunk_name
from heatgraph.distributed.worker_tasks import Chunk, Stream
from heatgraph.errors import needed
from heatgraph.solvers import engine

# Share of the workers' memory: more signals than that are read again at every step.  The codes are
# held with the signals, and may take several times as much.
HELD_SHARE = 0.1
# What Dask asks of a worker every hundredth of a second, where its time goes, takes a twentieth of
# the time of a worker that does nothing but compiled code, of which it can tell nothing.
QUIET = {"distributed.worker.profile.enabled": False}


@dataclass(frozen=True, eq=False)
class SignalSummary:
    """Sizes of some signals.

    ``squares`` and ``sums`` (N,) are in units of ``top``, the largest absolute value, so that the
    square of no value overflows.  ``checksum`` depends on the bits of the values, but not on the
    chunks, nor on the order of the signals.
    """

    n_signals: int
    top: float
    squares: float
    sums: Array
    n_observed: Ints
    n_infinite: int
    checksum: int = 0

    @property
    def masked(self) -> bool:
        """Whether there are missing entries."""
        return bool((self.n_observed < self.n_signals).any())

    @property
    def node_means(self) -> Array:
        """The mean of what was observed of each node; 0 where nothing was."""
        means: Array = self.sums / np.maximum(self.n_observed, 1) * self.top
        return means

    def __add__(self, other: SignalSummary) -> SignalSummary:
        top = max(self.top, other.top)
        shares = [part.top / top if top > 0.0 else 0.0 for part in (self, other)]
        return SignalSummary(
            self.n_signals + other.n_signals,
            top,
            self.squares * shares[0] ** 2 + other.squares * shares[1] ** 2,
            self.sums * shares[0] + other.sums * shares[1],
            self.n_observed + other.n_observed,
            self.n_infinite + other.n_infinite,
            (self.checksum + other.checksum) % 2**64,
        )


def summarise(rows: Any, n_nodes: int | None = None) -> SignalSummary:
    """The summary of signals (m, N), one batch at a time."""
    X = as_rows(rows, n_nodes)
    n_batches = max(1, -(-len(X) // engine.BATCH))
    return reduce(add, [_of_batch(some) for some in np.array_split(X, n_batches)])


def summarise_row_group(rows: ParquetRows) -> SignalSummary:
    """The summary of a row group of a Parquet file."""
    return reduce(add, [_of_batch(piece) for piece in rows.pieces()])


def _of_batch(rows: Any) -> SignalSummary:
    X = np.asarray(rows, dtype=np.float64)
    n_observed = (~np.isnan(X)).sum(axis=0)
    n_infinite = int(np.isinf(X).sum())
    if n_infinite:
        return SignalSummary(len(X), 0.0, 0.0, np.zeros(X.shape[1]), n_observed, n_infinite)
    top = float(np.nanmax(np.abs(X), initial=0.0))
    relative = X / top if top > 0.0 else np.zeros(X.shape)
    squares, sums = float(np.nansum(np.square(relative))), np.nansum(relative, axis=0)
    odd = 2 * np.arange(X.shape[1], dtype=np.uint64) + 1  # differs by column: their order counts
    bits = np.where(np.isnan(X), 0.0, X).view(np.uint64)
    checksum = int((bits.sum(axis=0, dtype=np.uint64) * odd).sum(dtype=np.uint64))
    return SignalSummary(len(X), top, squares, sums, n_observed, 0, checksum)


@contextmanager
def cluster_client(n_threads: int) -> Iterator[Any]:
    """The client that is there, or one of threads in this process for the time of the block."""
    distributed = needed("distributed", "the fit of a Dask collection", '"heatgraph[dask]"')
    try:
        client = distributed.default_client()
    except ValueError:
        own = {"n_workers": 1, "threads_per_worker": n_threads, "dashboard_address": ":0"}
        with distributed.Client(processes=False, **own) as client:
            yield client
        return
    with causes_told(client):
        check_versions(client)
        yield client


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
        parts = [of_block(block, X.shape[1]) for block in _blocks(X)]
        futures = client.compute(parts, optimize_graph=False)
    sizes = X.chunks[0]
    found = []
    for k, future in enumerate(futures):
        try:
            found.append(future.result())
        except Exception as error:
            error.add_note(f"This was raised while computing {chunk_name(k, sizes)}.")
            raise
        if found[-1].n_infinite:
            raise ValueError(
                f"X contains infinity: {chunk_name(k, sizes)}; mark what was not observed by NaN."
            )
        if found[-1].n_signals != sizes[k]:
            raise ValueError(f"X: {chunk_name(k, sizes)} has {found[-1].n_signals} signals.")
    total: SignalSummary = reduce(add, found)
    return total


def signals_of(X: Any, given: Any, summary: SignalSummary, unit: float, client: Any) -> DaskSignals:
    """The signals in units of ``unit``, with the workers for the time of a fit.

    They are held there if they take no more than a share of the memory, and read again at every
    step if they take more.
    """
    from distributed import futures_of

    workers = client.scheduler_info(n_workers=-1)["workers"]
    addresses = [name for name in sorted(workers) for _ in range(workers[name]["nthreads"])]
    M, n_parts = X.shape[0], max(1, min(len(addresses), X.shape[0]))
    sizes = tuple(M // n_parts + (k < M % n_parts) for k in range(n_parts))
    signals = DaskSignals(
        client=client,
        parts=(),
        sizes=sizes,
        n_nodes=X.shape[1],
        total_energy=summary.squares * (summary.top / unit) ** 2,
        n_observed=summary.n_observed,
        homes=[addresses[k] if addresses else "" for k in range(n_parts)],
        masked=summary.masked,
    )
    limits = [worker["memory_limit"] for worker in workers.values()]
    fits = 0 in limits or 8 * X.size <= HELD_SHARE * sum(limits)  # a limit of 0 is none
    # Chunks that are with the workers already can be computed by no other task.
    if futures_of(X) or fits:
        parts = _held_parts(X, sizes, unit, summary.masked, signals.homes, client)
    else:
        chunks = _chunks(X, given)
        streams = _streams(chunks, X.chunks[0], sizes, unit, summary.masked)
        parts = [signals.send(stream) for stream in streams]
    return replace(signals, parts=parts)


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


def lazy_sources(X: Any, unit: float, masked: bool, codes: Step, scale_of: Ints) -> Any:
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
