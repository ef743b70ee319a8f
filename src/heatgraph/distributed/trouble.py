"""What a cluster may do to a fit, told by its cause.

Workers of another version, chunks that fail or are not what was said, a scheduler that is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heatgraph.arrays import Array

TOO_LARGE = "X holds values so large that their squares are not finite; divide X by a constant."
DIED = "KilledWorker"
GONE = ("CommClosedError", "ClosedClientError")  # of Dask, which may not be installed


def _present_client() -> Any | None:
    """The client of the cluster that Dask computes on, None where it uses threads of its own."""
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):
        return None


def check_versions(client: Any, workers: Sequence[str] | None = None) -> None:
    """Refuse workers with another version of the package: what they compute may be another thing.

    Raises
    ------
    ValueError
        With the addresses of such workers and their versions.
    """
    here = version("heatgraph")
    # A function of the standard library, which a worker without the package has too.
    found = client.run(version, "heatgraph", workers=workers, on_error="return")
    others = {
        worker: f"has version {told}" if isinstance(told, str) else f"has none ({told})"
        for worker, told in sorted(found.items())
        if told != here and not isinstance(told, OSError)  # the worker is gone
    }
    if others:
        told = "; ".join(f"{worker} {what}" for worker, what in others.items())
        raise ValueError(
            f"workers of the cluster need heatgraph {here}, as it is here: {told}.  Install the "
            "same version everywhere, or take these workers from the cluster."
        )


@contextmanager
def causes_told(client: Any | None) -> Iterator[None]:
    """Give errors of the cluster a cause and a remedy; those of chunks are raised as they are.

    Raises
    ------
    ConnectionError
        If the scheduler was lost.
    """
    try:
        yield
    except Exception as error:
        name = type(error).__name__
        lost = client is not None and client.status != "running"
        if name == DIED:
            error.add_note(
                "Workers died again and again on one part of X, most likely for want of memory: "
                "give them more (memory_limit of the cluster), fewer threads each, or smaller "
                "chunks of signals."
            )
        elif client is not None and (isinstance(error, CancelledError) or name in GONE or lost):
            raise ConnectionError(
                f"the Dask scheduler at {client.scheduler.address if client.scheduler else '?'} "
                f"was lost while it had work of this fit ({error}).  Start a cluster and fit "
                "again; with checkpoint=, LearnHeat goes on from its last step."
            ) from error
        raise


def as_rows(block: Any, n_nodes: int | None = None) -> NDArray[Any]:
    """A chunk as signals (m, N); what it holds may differ from what the collection said."""
    X = np.asarray(block)
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X: a chunk holds {X.dtype}, and signals are real numbers.")
    if X.ndim != 2 or (n_nodes is not None and X.shape[1] != n_nodes):
        raise ValueError(f"X: a chunk of {n_nodes} nodes was expected, got one of shape {X.shape}.")
    return X


def complete_rows(block: Any, n_nodes: int) -> Array:
    """A chunk of signals for HeatCovariance, which takes no gaps from a cluster."""
    X = as_rows(block, n_nodes).astype(np.float64, copy=False)
    if not np.isfinite(X).all():
        raise ValueError(
            "X holds values that are missing or not finite, and a Dask collection has to be "
            "complete for HeatCovariance: fill them, pass the signals in memory, or use LearnHeat."
        )
    return X


def chunk_name(k: int, sizes: Sequence[int]) -> str:
    """The number of a chunk, and which signals are in it."""
    first = sum(sizes[:k])
    return f"chunk {k} of X (signals {first} to {first + sizes[k] - 1})"


def compute_sums(sums: Sequence[Any], parts: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """Compute delayed sums of delayed ``parts``, one of each chunk of ``sizes`` signals.

    The first pass over chunks names these parts; passes over the same chunks need not.

    An error of a chunk has a note that names it: it is looked for after the fact, since a sum
    does not know which of its parts failed.
    """
    import dask

    client = _present_client()
    with causes_told(client):
        if client is not None and parts:
            check_versions(client)
        try:
            return list(dask.compute(*sums))
        except Exception as error:
            unclear = isinstance(error, CancelledError) or type(error).__name__ in (DIED, *GONE)
            if not unclear:
                for k, part in enumerate(parts):
                    try:
                        part.compute()
                    except type(error):
                        error.add_note(f"This was raised while computing {chunk_name(k, sizes)}.")
                        break
            raise
