"""How much memory a fit may take."""

from __future__ import annotations

import os

__all__ = ["available_memory"]


def available_memory() -> int | None:
    """Bytes that can be had without swapping, or None where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            told = dict(line.split(":", 1) for line in lines)
        return 1024 * int(told["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError, IndexError):
        pass
    try:
        return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return None
