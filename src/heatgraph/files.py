"""Write files so that a reader finds the old content or the new, never half of either.

And read arrays from files that may lie.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import secrets
import shutil
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

__all__ = ["read_array", "read_arrays", "write_arrays", "write_atomically", "write_folder"]

# The dtypes and the number of dimensions that a field of a file may have.
Fields = Mapping[str, tuple[str, int]]


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
    before the block runs.

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
        If the folder cannot be made, or is there, not empty, and ``replace`` is False.

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
    _check_folder(target, path, replace)
    beside = target.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        beside.mkdir()
    except OSError as error:
        raise type(error)(
            f"cannot make the folder {os.fspath(path)}: {target.parent} cannot be written "
            f"({error.strerror})"
        ) from error
    try:
        yield beside
        _take_place(beside, target, ours)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    _sync_directory(target.parent)


def _check_folder(target: Path, path: str | os.PathLike[str], replace: bool) -> None:
    shown = os.fspath(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"cannot make the folder {shown}: there is no folder {target.parent}; make it first"
        )
    if not target.exists():
        return
    if not target.is_dir():
        raise NotADirectoryError(f"cannot make the folder {shown}: a file has that name")
    if os.path.ismount(target) or Path.cwd().is_relative_to(target):
        # A rename would fail on the first, and pull the ground from under a shell in the second.
        raise OSError(f"cannot replace {shown} as a whole; name a folder inside it")
    if any(target.iterdir()) and not replace:
        raise FileExistsError(f"the folder {shown} is there already and not empty")


def _take_place(new: Path, target: Path, ours: Collection[str]) -> None:
    """Put one folder where another may be, which stays whole until then."""
    if not target.exists():
        new.rename(target)
        return
    for entry in target.iterdir():
        if entry.name not in ours and not (new / entry.name).exists():
            _share(entry, new / entry.name)
    if _exchange(new, target):
        shutil.rmtree(new)
        return
    old = target.parent / f".{secrets.token_hex(8)}.old"
    target.rename(old)
    try:
        new.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old)


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

    Two renames would leave a moment, between them, at which the target is not there.
    """
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


def write_arrays(
    path: str | os.PathLike[str],
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write arrays and a header of JSON into one ``.npz`` file, whole or not at all.

    The same content gives the same bytes.

    Parameters
    ----------
    path : str or path-like
        The file to write.
    header : mapping
        What JSON can hold, with ``format``, the name of what is in the file, and ``version``.
    arrays : mapping of str to ndarray
        Never of objects.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.npz"
    >>> write_arrays(path, {"format": "pair", "version": 1}, {"a": np.array([1.0, 2.0])})
    >>> with open(path, "rb") as file:
    ...     header, arrays = read_arrays(file, "pair", 1, lambda header: {"a": ("<f8", 1)})
    >>> arrays
    {'a': array([1., 2.])}
    """
    text = json.dumps({**header, "fields": list(arrays)})
    content = {**arrays, "header": np.frombuffer(text.encode(), dtype=np.uint8)}
    with write_atomically(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in content.items():
            # A ZipInfo made by hand has no date.
            info = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(info, "w", force_zip64=True) as member:
                npy.write_array(member, array, version=(1, 0), allow_pickle=False)


def read_arrays(
    file: IO[bytes],
    kind: str,
    version: int,
    expected: Callable[[dict[str, Any]], Fields],
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what :func:`write_arrays` wrote, and trust nothing.

    The members, their dtypes and the sizes they declare are compared with the file before any
    array is made, so a file can neither run code nor ask for more memory than it takes on the
    disk.

    Parameters
    ----------
    file : file object
        Open for reading bytes, from the disk.
    kind, version : str, int
        The ``format`` and the ``version`` that the header has to state.
    expected : callable
        From the header to the dtypes and dimensions of the fields that it lists.  A dtype may be
        several, separated by spaces.

    Returns
    -------
    header : dict
        As written.
    arrays : dict of str to ndarray
        Read-only.

    Raises
    ------
    ValueError
        If the file is damaged or is something else.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            members = _check_members(archive, os.fstat(file.fileno()).st_size)
            text = _read_member(archive, members.pop("header"), ("|u1", 1)).tobytes()
            header = _check_header(text, kind, version)
            # Without this, a damaged list of members could hide a field that may be absent.
            if header["fields"] != list(members):
                raise ValueError(
                    f"its header promises the fields {header['fields']}, got {list(members)}"
                )
            fields = expected(header)
            unknown = set(members) - set(fields)
            if unknown:
                raise ValueError(f"it has the unknown fields {sorted(unknown)}")
            return header, {
                name: _read_member(archive, info, fields[name]) for name, info in members.items()
            }
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise ValueError(f"not a whole .npz file ({error})") from error


def _check_members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Arrays, each once, uncompressed, together no larger than the file, a header among them."""
    infos = archive.infolist()
    members = {info.filename.removesuffix(".npy"): info for info in infos}
    if len(members) != len(infos) or "header" not in members:
        raise ValueError(
            f"it needs a header and every field once, got {sorted(i.filename for i in infos)}"
        )
    if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
        raise ValueError("its fields are compressed, which those of heatgraph are not")
    if sum(info.file_size for info in infos) > size:
        raise ValueError(f"its fields declare more than the {size} bytes of the file")
    return members


def _check_header(text: bytes, kind: str, version: int) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its header is not JSON text ({error})") from error
    if not isinstance(header, dict) or header.get("format") != kind:
        raise ValueError(f"its header does not say {kind!r}")
    if header.get("version") != version:
        raise ValueError(f"its version is {header.get('version')!r}, the one known is {version}")
    if "fields" not in header:
        raise ValueError("its header lacks ['fields']")
    return header


def _read_member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, expected: tuple[str, int]
) -> NDArray[Any]:
    """One array, once its header agrees with its field."""
    name = info.filename.removesuffix(".npy")
    dtypes, ndim = expected
    with archive.open(info) as member:
        array = read_array(member, info.file_size, f"the field {name!r}")
    if array.dtype not in list(map(np.dtype, dtypes.split())) or array.ndim != ndim:
        raise ValueError(
            f"the field {name!r} must be {ndim}-dimensional of dtype {dtypes}, "
            f"got {array.dtype.str} of shape {array.shape}"
        )
    return array


def read_array(file: IO[bytes], size: int, name: str) -> NDArray[Any]:
    """Read an array in the ``.npy`` format from a file of ``size`` bytes, and trust nothing.

    Parameters
    ----------
    file : file object
        Open for reading bytes, at its start.
    size : int
        The bytes in it.
    name : str
        What the array is, for the messages.

    Returns
    -------
    ndarray
        Read-only.

    Raises
    ------
    ValueError
        If it holds Python objects, or not as many bytes as the shape that it declares.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> np.save(file, np.arange(3.0))
    >>> size = file.tell()
    >>> _ = file.seek(0)
    >>> read_array(file, size, "the signal")
    array([0., 1., 2.])
    """
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    try:
        version = npy.read_magic(file)
        if version not in readers:
            raise ValueError(f"version {version} of the .npy format is not known here")
        shape, fortran, dtype = readers[version](file)
    except (ValueError, TypeError, EOFError, SyntaxError, TokenError) as error:
        raise ValueError(f"{name} is not in the .npy format ({error})") from error
    if dtype.hasobject:
        raise ValueError(f"{name} holds pickled objects, which are never read")
    declared = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or file.tell() + declared != size:
        raise ValueError(
            f"{name} declares the shape {shape}, which does not match its size of {size} bytes"
        )
    data = file.read()
    return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")
