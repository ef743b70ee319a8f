"""Files and folders that are replaced as a whole, whatever happens to the process or the disk.

Who is writing is known by locks, which end with their process.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import secrets
import shutil
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal

if sys.platform != "win32":
    import fcntl

# Where a link to a pipe or to a redirected file belongs to the system, such as /dev/stdout.
SYSTEM_LINKS = ("/dev", "/proc")
NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
# In the workshop: what is being written, and what it replaces where the two cannot change places.
NEW, OLD = "new", "old"


@contextmanager
def write_atomically(
    path: str | os.PathLike[str],
    mode: Literal["wb", "w"] = "wb",
    *,
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
        Bytes, or text in UTF-8.
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
    encoding = "utf-8" if mode == "w" else None
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
            descriptor = os.open(path, os.O_RDONLY | NO_WAIT)  # for a writer, if it is a pipe
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


@contextmanager
def write_folder(
    path: str | os.PathLike[str],
    *,
    replace: bool = False,
    ours: Collection[str] = (),
) -> Iterator[Path]:
    """Make a folder out of what is written in the block, all of it or nothing.

    The block writes into a temporary folder beside ``path``, which takes the place of ``path``
    when the block ends, and is removed when the block raises.  Whatever forbids that is found out
    before the block runs.  What a process that died has left beside ``path`` is removed by the
    next that writes there.

    Parameters
    ----------
    path : str or path-like
        The folder to make.  Its parent has to exist.
    replace : bool, default=False
        Whether a folder already there, and not empty, may be replaced.
    ours : collection of str
        The names of the entries that a replacement does away with.  Any other entry of the old
        folder is moved into the new one.

    Yields
    ------
    pathlib.Path
        The temporary folder.

    Raises
    ------
    OSError
        If the folder cannot be made, or is there, not empty, and ``replace`` is False; or if
        another process is writing it.

    Examples
    --------
    >>> import tempfile
    >>> parent = Path(tempfile.mkdtemp())
    >>> with write_folder(parent / "result") as folder:
    ...     _ = (folder / "note.txt").write_text("warm")
    >>> [entry.name for entry in parent.iterdir()]
    ['result']
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"cannot make the folder {os.fspath(path)}: there is no folder {target.parent}; make "
            "it first"
        )
    with _workshop(target, path) as workshop:
        _check_folder(target, path, replace)
        new = workshop / NEW
        new.mkdir()
        yield new
        _sync_files(new)
        _take_place(new, target, workshop / OLD, ours)
    sync_directory(target.parent)


@contextmanager
def _workshop(target: Path, path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder beside the target for the one process that may write it.

    Its name depends on the target alone, so that another process finds it, and it is locked, so
    that one can tell whether the process that made it lives.
    """
    place = target.parent / f"{short_name(target)}.tmp"
    descriptor = _enter(place, path)
    try:
        _tidy(place, target)
        yield place
    finally:
        with suppress(OSError):  # what cannot be removed now is removed by the next
            _tidy(place, target)
            place.rmdir()
        if descriptor is not None:
            os.close(descriptor)


def _enter(place: Path, path: str | os.PathLike[str]) -> int | None:
    """Make the workshop, or take over that of a process that died; and lock it."""
    shown = os.fspath(path)
    taken = f"cannot make the folder {shown}: another process is writing it; wait until it ends"
    while True:
        try:
            place.mkdir(0o700)
            made = True
        except FileExistsError:
            made = False
        except OSError as error:
            raise type(error)(
                f"cannot make the folder {shown}: {place.parent} cannot be written "
                f"({error.strerror})"
            ) from error
        if os.name != "posix":
            locked, descriptor = False, None
        else:
            try:
                descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except FileNotFoundError:  # the other has just ended
                continue
            try:
                locked = take(descriptor)
            except BlockingIOError as error:
                os.close(descriptor)
                raise OSError(f"{taken}, or name another folder") from error
            if not is_at(descriptor, place):
                os.close(descriptor)
                continue
        if made or (locked and place.stat().st_uid == os.geteuid()):
            return descriptor
        if descriptor is not None:
            os.close(descriptor)
        raise OSError(f"{taken}, or remove {place} if none does")


def _tidy(place: Path, target: Path) -> None:
    """Empty the workshop; a folder that was moved out of the way and not replaced goes back."""
    if (place / OLD).exists() and not target.exists():
        (place / OLD).rename(target)
    for entry in place.iterdir():
        shutil.rmtree(entry)


def _sync_files(folder: Path) -> None:
    """Let the disk have every file and folder before the folder gets its name."""
    for entry in (folder, *folder.rglob("*")):
        if entry.is_dir() and not entry.is_symlink():
            sync_directory(entry)
        if entry.is_file() and not entry.is_symlink():
            descriptor = os.open(entry, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _check_folder(target: Path, path: str | os.PathLike[str], replace: bool) -> None:
    shown = os.fspath(path)
    if not target.exists():
        return
    if not target.is_dir():
        raise NotADirectoryError(f"cannot make the folder {shown}: a file has that name")
    if os.path.ismount(target) or Path.cwd().is_relative_to(target):
        # A rename would fail on the first; in the second, a shell would lose its working directory.
        raise OSError(f"cannot replace {shown} as a whole; name a folder inside it")
    if any(target.iterdir()) and not replace:
        raise FileExistsError(f"the folder {shown} is there already and not empty")


def _take_place(new: Path, target: Path, old: Path, ours: Collection[str]) -> None:
    """Put one folder where another may be, which stays whole until then."""
    if not target.exists():
        new.rename(target)
        return
    for entry in target.iterdir():
        if entry.name not in ours and not (new / entry.name).exists():
            _share(entry, new / entry.name)
    if _exchange(new, target):
        return
    target.rename(old)
    try:
        new.rename(target)
    except BaseException:
        old.rename(target)
        raise


def _share(entry: Path, place: Path) -> None:
    """The same entry under a second path: by links, or by copies where there are none."""

    def share_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> None:
        try:
            os.link(one, other, follow_symlinks=False)
        except (OSError, NotImplementedError):
            shutil.copy2(one, other, follow_symlinks=False)

    if entry.is_dir() and not entry.is_symlink():
        shutil.copytree(entry, place, symlinks=True, copy_function=share_file)
    else:
        share_file(entry, place)


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders change places at one stroke; False where the system cannot.

    Two renames would leave a moment, between them, at which the target is not there; a process
    killed in it would leave the old result in the workshop, where the next that writes finds it but
    none that reads.  Python has no function for it, hence the one of the C library.
    """
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)
