"""One file, replaced as a whole; and who is writing, by locks that end with their process."""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal

if sys.platform != "win32":
    import fcntl

# Where a link to a pipe or to a redirected file belongs to the system, such as /dev/stdout.
SYSTEM_LINKS = ("/dev", "/proc")


@contextmanager
def write_atomically(
    path: str | os.PathLike[str],
    mode: Literal["wb", "w"] = "wb",
    *,
    encoding: str | None = None,
    newline: str | None = None,
) -> Iterator[IO[Any]]:
    """Replace a file by what is written in the block, all of it or none.

    The block writes to a temporary file in the same directory.  When the block ends it is
    flushed to the disk and renamed over ``path``; when the block raises it is removed and
    ``path`` is left as it was.  The temporary file of a process that died is removed by the next
    that writes to the same ``path``.  Of two that write at once, the last to end prevails.

    Parameters
    ----------
    path : str or path-like
        The file to write.  A symbolic link is followed within its directory and refused if it
        leads out of it; the permissions of a file already there are kept.  A device or a pipe
        holds nothing to protect and is written directly.
    mode : {"wb", "w"}
        Bytes, or text.
    encoding : str, optional
        Of text; UTF-8 by default.
    newline : str, optional
        Of text, as in :func:`open`.

    Yields
    ------
    file object
        Open for writing.

    Raises
    ------
    FileNotFoundError
        If the directory does not exist.
    IsADirectoryError
        If ``path`` is a directory.
    OSError
        If ``path`` is a symbolic link to another directory, or the system refuses the write.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with write_atomically(folder / "note.txt", "w") as file:
    ...     _ = file.write("warm")
    >>> (folder / "note.txt").read_text()
    'warm'
    """
    if mode not in ("wb", "w"):
        raise ValueError(f"mode must be 'wb' or 'w', got {mode!r}")
    if mode == "w" and encoding is None:
        encoding = "utf-8"
    target = _target(Path(path))
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {target}: it is a directory")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: there is no directory {target.parent}")
    if target.exists() and not target.is_file():
        with open(target, mode, encoding=encoding, newline=newline) as file:
            yield file
        return

    remove_abandoned(target)
    exclusive = "xb" if mode == "wb" else "x"
    file, beside = _open_beside(target, exclusive, encoding, newline)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o7777)
        os.replace(beside, target)
    except BaseException:
        with suppress(OSError):  # the next writer removes it
            beside.unlink(missing_ok=True)
        raise
    sync_directory(target.parent)


def _target(path: Path) -> Path:
    """The file that a path leads to, not out of its directory."""
    target, parent = Path(os.path.realpath(path)), Path(os.path.realpath(path.parent))
    if path.is_symlink() and target.parent != parent and not str(parent).startswith(SYSTEM_LINKS):
        raise OSError(
            f"cannot write {path}: it is a symbolic link to {target}, in another folder; name "
            "that file itself, or remove the link"
        )
    return target


def short_name(target: Path) -> str:
    """A name for what is written beside a target, short even if its own is of the longest kind."""
    return "." + hashlib.sha256(os.fsencode(target.name)).hexdigest()[:12]


def _open_beside(
    target: Path, mode: str, encoding: str | None, newline: str | None
) -> tuple[IO[Any], Path]:
    """A new file beside the target, locked, so that others can see that its writer lives."""
    while True:
        beside = target.parent / f"{short_name(target)}-{secrets.token_hex(8)}.tmp"
        file = open(beside, mode, encoding=encoding, newline=newline)  # noqa: SIM115
        with suppress(BlockingIOError):
            # Another writer may have taken it for abandoned before it was locked.
            if not take(file.fileno()) or is_at(file.fileno(), beside):
                return file, beside
        file.close()


def remove_abandoned(target: Path) -> None:
    """Remove the temporary files of writers of this target that died: nobody has them locked."""
    for path in target.parent.glob(f"{short_name(target)}-*.tmp"):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                if take(descriptor):
                    path.unlink()
            finally:
                os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """Make a rename survive a loss of power, where the system can open a directory."""
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        # Some network file systems refuse to sync a directory; the file itself is whole.
        pass
    finally:
        os.close(descriptor)


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
