"""Write files so that a reader finds the old content or the new, never half of either.

And read arrays from files that may lie.
"""

from __future__ import annotations

import json
import math
import os
import re
import zipfile
from collections.abc import Callable, Mapping
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from heatgraph.disk import write_atomically, write_folder

__all__ = [
    "escaped",
    "plain",
    "read_array",
    "read_arrays",
    "to_json",
    "write_arrays",
    "write_atomically",
    "write_folder",
]

# The dtypes and the number of dimensions that a field of a file may have.
Fields = Mapping[str, tuple[str, int]]


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
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.npz"
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
    """Read what :func:`write_arrays` wrote, and check all of it.

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
    except (ValueError, TypeError, EOFError, SyntaxError, TokenError, SystemError) as error:
        # The last is what the tokenizer of Python 3.12 makes of a zero byte.
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


def to_json(value: Any) -> str:
    """Strict JSON: what is not finite becomes null, arrays become lists.

    Examples
    --------
    >>> import numpy as np
    >>> print(to_json({"a": np.float64("nan"), "b": np.arange(2)}))
    {
      "a": null,
      "b": [
        0,
        1
      ]
    }
    """
    return escaped(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False))


# What makes a terminal do or show something else than the text: control characters besides tabs
# and ends of lines, changes of the direction of writing, and halves of characters, which names of
# files have for bytes that are not UTF-8.
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(text: str) -> str:
    r"""The text with what would not be shown as it is, in the escapes of JSON.

    Examples
    --------
    >>> print(escaped("red: \x1b[31m"))
    red: \u001b[31m
    """
    return HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def plain(value: Any) -> Any:
    """Turn a value into what strict JSON can hold."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
