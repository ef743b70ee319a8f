"""How much memory a fit may take."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress


def available_memory() -> int | None:
    """Bytes that can be had without swapping, or None where the system does not tell.

    No more than the limit of this process (``ulimit -v``) and of its container leave.
    """
    return min(_left(), default=None)


def _left() -> Iterator[int]:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            told = dict(line.split(":", 1) for line in lines)
        yield 1024 * int(told["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError, IndexError):
        with suppress(AttributeError, ValueError, OSError):
            yield int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        with open("/proc/self/statm", encoding="ascii") as file:
            taken = int(file.read().split()[0]) * resource.getpagesize()
        if limit != resource.RLIM_INFINITY:
            yield max(0, limit - taken)
    with suppress(OSError, ValueError):  # no such container, or one without a limit
        limit, taken = (_number(f"/sys/fs/cgroup/memory.{what}") for what in ("max", "current"))
        yield max(0, limit - taken)


def _number(path: str) -> int:
    with open(path, encoding="ascii") as file:
        return int(file.read())
