"""Moments of signals on a cluster: one sum over chunks, of a size that the signals do not enter."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np

from heatgraph.distributed.from_dask import as_array
from heatgraph.distributed.trouble import TOO_LARGE, complete_rows, compute_sums
from heatgraph.models.moments import Moments

__all__ = ["fold_moments"]


def fold_moments(X: Any, n_folds: int) -> list[Moments]:
    """The moments of ``n_folds`` contiguous runs of chunks of a Dask collection.

    Chunks are read once, by the workers of the client that is there, and never held.

    Raises
    ------
    ValueError
        If a value is missing or not finite.
    """
    import dask

    rows = as_array(X)
    of_chunk = dask.delayed(_moments, pure=False)
    chunks = [of_chunk(block, rows.shape[1]) for block in rows.to_delayed().ravel()]
    runs = np.array_split(np.arange(len(chunks)), min(n_folds, len(chunks)))
    total = dask.delayed(_total, pure=False)
    found = compute_sums(
        [_tree([chunks[k] for k in run], total) for run in runs], chunks, rows.chunks[0]
    )
    if not all(np.isfinite(part.scatter).all() for part in found):
        raise ValueError(TOO_LARGE)
    return [part for part in found if part.count > 0]


def _moments(block: Any, n_nodes: int) -> Moments:
    X = complete_rows(block, n_nodes)
    return Moments.of(X) if len(X) else Moments(0.0, np.zeros(n_nodes), X.T @ X)


def _tree(parts: list[Any], total: Any) -> Any:
    """The sum of parts, by eights: no worker ever holds more of them."""
    while len(parts) > 1:
        parts = [total(parts[k : k + 8]) for k in range(0, len(parts), 8)]
    return parts[0]


def _total(parts: list[Moments]) -> Moments:
    filled = [part for part in parts if part.count > 0] or parts[:1]
    return reduce(add, filled)
