"""What a worker keeps of the memory it has: freed arrays for the next batch, and no libraries."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from functools import cache
from typing import Any

__all__ = ["give_back_libraries", "keep_freed", "unload"]

MOST = 64 * 2**20  # bytes
NEAR = 0.5  # of a worker's limit: Dask starts to write data to disk at 0.6 of it, and pauses at 0.8
WORTH_IT = 32 * 2**20  # bytes of files in memory
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


def give_back_libraries() -> None:
    """Where this worker comes near its limit: return the pages of libraries to the system.

    A compiler that has done its work is still counted with a process, as are other libraries of
    which most was read once: with Numba, Arrow and SciPy half of what a process takes.  What is
    needed after all comes back by itself, from the system's cache of files.
    """
    limit = _limit()
    if not limit:
        return
    resident, mapped = _sizes()
    if resident > NEAR * limit and mapped > WORTH_IT:
        unload()


def unload() -> int:
    """Return what was read of libraries and not changed; the bytes returned."""
    try:
        advise = ctypes.CDLL(None).madvise
    except (AttributeError, OSError, TypeError):
        return 0
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    returned = 0
    for begin, end, size in _unchanged():
        if advise(begin, end - begin, mmap.MADV_DONTNEED) == 0:
            returned += size
    return returned


def _limit() -> int:
    """Bytes that the worker this runs on may take; 0 where it is none, or has no limit."""
    try:
        from distributed import get_worker

        return int(get_worker().memory_manager.memory_limit or 0)
    except (ImportError, ValueError):
        return 0


def _sizes() -> tuple[int, int]:
    """Bytes of this process in memory, and those of them that are parts of files."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            _, resident, mapped, *_ = map(int, file.read().split())
    except (OSError, ValueError):  # another system than Linux
        return 0, 0
    return resident * mmap.PAGESIZE, mapped * mmap.PAGESIZE


def _unchanged() -> Iterator[tuple[int, int, int]]:
    """From where to where libraries are that no one can write to, and how much is in memory.

    Where a page is no longer the file's (addresses were filled in when the library was loaded),
    the whole stretch is left alone: such a page could not be had again.
    """
    stretch: dict[str, Any] = {}
    try:
        with open("/proc/self/smaps", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, *values = line.split()
                if name.endswith(":"):
                    stretch[name] = values[0]
                    if name == "VmFlags:" and _is_library(stretch):
                        begin, end = (int(address, 16) for address in stretch["at"].split("-"))
                        yield begin, end, 1024 * int(stretch["Rss:"])
                else:
                    path = values[4] if len(values) > 4 else ""
                    stretch = {"at": name, "rights": values[0], "path": path}
    except OSError:
        return


def _is_library(stretch: dict[str, Any]) -> bool:
    is_shared_object = ".so" in os.path.basename(stretch["path"])
    unwritten = "w" not in stretch["rights"] and stretch["rights"].endswith("p")
    changed = int(stretch.get("Anonymous:", 1)) + int(stretch.get("Private_Dirty:", 1))
    return is_shared_object and unwritten and not changed and int(stretch["Rss:"]) > 0
