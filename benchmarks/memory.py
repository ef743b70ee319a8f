"""The most memory that this process has had."""

from __future__ import annotations

import resource
import sys

__all__ = ["peak_bytes"]


def peak_bytes() -> int:
    """Of this program alone: what getrusage tells may be what its parent had when it began."""
    try:
        with open("/proc/self/status", encoding="ascii") as lines:
            told = dict(line.split(":", 1) for line in lines)
        return 1024 * int(told["VmHWM"].split()[0])
    except (OSError, KeyError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak
