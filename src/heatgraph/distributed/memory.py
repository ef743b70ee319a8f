"""How much freed memory a worker keeps for its next batch of signals."""

from __future__ import annotations

import ctypes
import os
from functools import cache

__all__ = ["keep_freed"]

MOST = 64 * 2**20  # bytes
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # what mallopt calls them


def keep_freed(size: int) -> None:
    """Let the allocator keep about ``size`` bytes of what is freed, and no more than 64 MB.

    Dask starts its workers with ``MALLOC_TRIM_THRESHOLD_``, by which the C library of Linux returns
    whatever is freed to the system.  Arrays that are made for every batch then come page by page,
    each cleared first, which takes a third of the time of a step.  Where Dask has not set that,
    the C library finds the size by itself, and nothing is done.
    """
    if "MALLOC_TRIM_THRESHOLD_" in os.environ:
        _tell(min(size, MOST))


@cache  # what was told once holds
def _tell(size: int) -> bool:
    try:
        tell = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library, without it
        return False
    # Both: a single array above the second would be returned whatever the first says.
    return bool(tell(TRIM_THRESHOLD, size)) and bool(tell(MMAP_THRESHOLD, min(size, MOST // 2)))
