"""A folder, made or replaced as a whole, by one process at a time."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from heatgraph.disk.replacing import is_at, short_name, sync_directory, take

# In the workshop: what is being written, and what it replaces where the two cannot change places.
NEW, OLD = "new", "old"


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
    _check_parent(target, path)
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
    """Let the disk have every file before the folder gets its name."""
    for entry in folder.rglob("*"):
        if entry.is_file() and not entry.is_symlink():
            descriptor = os.open(entry, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _check_parent(target: Path, path: str | os.PathLike[str]) -> None:
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"cannot make the folder {os.fspath(path)}: there is no folder {target.parent}; make "
            "it first"
        )


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
