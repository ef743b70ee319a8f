"""Threads for compiled code that releases the interpreter, and sums that do not depend on them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["in_groups", "run_threads"]

T = TypeVar("T")
R = TypeVar("R")

GROUPS = 8


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    """Threads that stay: a fit comes here a thousand times, for a millisecond each."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="heatgraph")


# A forked child has the pool but not its threads; it makes its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def run_threads(task: Callable[[T], R], items: Iterable[T], n_threads: int) -> list[R]:
    """``[task(item) for item in items]``, several at a time."""
    if n_threads <= 1:
        return [task(item) for item in items]
    return list(_pool(n_threads).map(task, items))


def in_groups(stop: int, step: int = 1) -> list[NDArray[np.int64]]:
    """``range(0, stop, step)`` in a fixed number of groups.

    A sum by groups has the same bits whatever the number of threads.
    """
    groups = (np.arange(k * step, stop, GROUPS * step) for k in range(GROUPS))
    return [group for group in groups if group.size]
