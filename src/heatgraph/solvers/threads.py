"""How many threads a fit may use: as many as were asked for, never those times those of BLAS.

Threads of BLAS wait by spinning.  Where something else wants the core, a step that uses two of
them can take ten times as long as with one, and small matrices gain nothing from a second.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")

LARGE = 500  # nodes from which on an eigendecomposition gains from a second thread


@contextmanager
def bounded_blas(n_nodes: int = 0, n_jobs: int = 1) -> Iterator[None]:
    """Hold BLAS to one thread in the block, or to ``n_jobs`` for matrices that gain from more.

    Never to more than it was allowed before, by ``OPENBLAS_NUM_THREADS`` say.

    Examples
    --------
    >>> from threadpoolctl import threadpool_info
    >>> with bounded_blas():
    ...     max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
    1
    """
    allowed = [library.num_threads for library in _blas().lib_controllers]
    limit = n_jobs if n_nodes >= LARGE else 1
    with _blas().limit(limits=max(1, min([limit, *allowed])), user_api="blas"):
        yield


@cache
def _blas() -> ThreadpoolController:
    """The libraries of linear algebra, looked for once: a fit bounds them dozens of times."""
    return ThreadpoolController().select(user_api="blas")


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    """Threads that stay: a fit comes here a thousand times, for a millisecond each."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="heatgraph")


# A forked child has the pool but not its threads; it makes its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def run_threads(task: Callable[[T], R], items: Iterable[T], n_threads: int) -> list[R]:
    """``[task(item) for item in items]``, several at a time."""
    return list(_pool(n_threads).map(task, items))
