"""Who is writing: a lock on an open file or folder, which ends with the process that took it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl


def take(descriptor: int) -> bool:
    """Lock an open file or folder; False where the system or the file system has no locks.

    Raises
    ------
    BlockingIOError
        If another holds the lock.
    """
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # some network file systems
        return False
    return True


def is_at(descriptor: int, path: Path) -> bool:
    """Whether a path still leads to what was opened; another may have replaced or removed it."""
    try:
        there = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))
