"""How many threads a fit may use: as many as were asked for, never those times those of BLAS.

Threads of BLAS wait by spinning.  Where something else wants the core, a step that uses two of
them can take ten times as long as with one, and small matrices gain nothing from a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_info, threadpool_limits

__all__ = ["LARGE", "bounded_blas"]

LARGE = 500  # nodes from which on an eigendecomposition gains from a second thread


@contextmanager
def bounded_blas(n_nodes: int = 0, n_jobs: int = 1) -> Iterator[None]:
    """Hold BLAS to one thread in the block, or to ``n_jobs`` for matrices that gain from more.

    Never to more than it was allowed before, by ``OPENBLAS_NUM_THREADS`` say.

    Examples
    --------
    >>> with bounded_blas():
    ...     max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
    1
    """
    allowed = [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]
    limit = n_jobs if n_nodes >= LARGE else 1
    with threadpool_limits(max(1, min([limit, *allowed])), user_api="blas"):
        yield
