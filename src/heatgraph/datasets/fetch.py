"""Files of public data: from a folder that the user names, or downloaded once and kept.

A named folder is only read.  Without one, a file is downloaded into a cache, and appears there
whole and checked, or not at all.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from heatgraph.files import write_atomically

HOME_VARIABLE = "HEATGRAPH_DATA"
TIMEOUT = 30.0  # seconds without a byte

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class PublicFile:
    """One file of a public source.

    Parameters
    ----------
    name : str
        Its place in the cache and in a folder of data, such as ``"etex/meas-t1.txt"``.
    url : str
        Where the publisher keeps it.
    sha256 : str, optional
        Of the file as published; None where the publisher's bytes were never at hand, or change.
    check : callable, optional
        Given the path of a complete download, raises ValueError unless it is what it should be.
        Needed where there is no checksum, so that an error page is never taken for data.
    """

    name: str
    url: str
    sha256: str | None = None
    check: Callable[[Path], object] | None = None


def named_home(data_home: PathLike | None) -> Path | None:
    """The folder of data that the user named, by argument or environment; None for the cache.

    Raises
    ------
    FileNotFoundError
        If it is not a folder.
    """
    named = data_home if data_home is not None else os.environ.get(HOME_VARIABLE) or None
    if named is None:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        # The command line passes the value of the variable on.
        from_variable = os.fspath(named) == os.environ.get(HOME_VARIABLE)
        origin = f"the variable {HOME_VARIABLE}" if from_variable else "data_home"
        raise FileNotFoundError(
            f"{origin} must be a folder that exists, got {os.fspath(named)!r}; name "
            "another, or leave it out to download the files"
        )
    return folder


def find_file(
    file: PublicFile,
    data_home: PathLike | None = None,
    *,
    cache: PathLike | None = None,
) -> Path:
    """The path of a public file: in the folder named, or else in the cache, downloaded if need be.

    Parameters
    ----------
    file : PublicFile
        What to find.
    data_home : str or path-like, optional
        A folder to read and never to write; the environment variable ``HEATGRAPH_DATA`` names
        one, too.
    cache : str or path-like, optional
        Where downloads are kept; by default the folder that the system has for that.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    FileNotFoundError
        If a folder was named and the file is not in it.
    OSError
        If the file cannot be downloaded.  Nothing of it is kept.
    ValueError
        If what was downloaded is not the file expected.  Nothing of it is kept.
    """
    home = named_home(data_home)
    if home is not None:
        path = home / file.name
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} does not exist; download it from {file.url} to this place, or leave out "
                f"data_home and {HOME_VARIABLE} to have it downloaded"
            )
        return path
    return _cached(file, cache)


def _cached(file: PublicFile, folder: PathLike | None) -> Path:
    """The path of a file in the cache, downloaded and checked if it is not there.

    A download that is cut, changed or no data leaves the cache as it was; what one that was killed
    has left is removed by the next.
    """
    import pooch  # for a download alone: it takes as long to import as all of heatgraph.datasets
    import requests

    target = Path(pooch.os_cache("heatgraph") if folder is None else folder) / file.name
    # Without a checksum, it was checked before it came here.
    if target.is_file() and file.sha256 in (None, _digest(target)):
        return target
    pooch.get_logger().info("Downloading %s to %s.", file.url, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Uncompressed, so that its length is that of the file and a cut connection is noticed.
    fetch = pooch.HTTPDownloader(timeout=TIMEOUT, headers={"Accept-Encoding": "identity"})
    try:
        with write_atomically(target) as beside:
            fetch(file.url, beside, None)
            beside.flush()
            _check(file, Path(beside.name))
    except requests.RequestException as error:
        raise OSError(
            f"cannot download {file.url} ({error}); try again, or put the file in a folder as "
            f"{file.name} and name that folder as data_home or in {HOME_VARIABLE}"
        ) from error
    except ValueError as error:
        raise ValueError(
            f"what {file.url} gave is not the {file.name} expected, and was discarded: {error}"
        ) from error
    return target


def _check(file: PublicFile, path: Path) -> None:
    """Raise ValueError unless a complete download is the file that was published."""
    found = _digest(path)
    if file.sha256 not in (None, found):
        raise ValueError(f"its SHA-256 is {found}, that of the file published is {file.sha256}")
    if file.check is not None:
        file.check(path)


def _digest(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
