"""Write files so that a reader finds the old content or the new, never half of either."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

__all__ = ["write_atomically"]


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
    ``path`` is left as it was.

    Parameters
    ----------
    path : str or path-like
        The file to write.  A symbolic link is followed; the permissions of a file already there
        are kept.  A device or a pipe holds nothing to protect and is written directly.
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
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {target}: it is a directory")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: there is no directory {target.parent}")
    if target.exists() and not target.is_file():
        with open(target, mode, encoding=encoding, newline=newline) as file:
            yield file
        return

    # A short name of its own, so that a target with a name of the longest kind still works.
    beside = target.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        exclusive = "xb" if mode == "wb" else "x"
        with open(beside, exclusive, encoding=encoding, newline=newline) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o7777)
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _sync_directory(target.parent)


def _sync_directory(directory: Path) -> None:
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
