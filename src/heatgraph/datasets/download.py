"""Downloads that end as a whole, checked file in the cache, or leave it as it was."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pooch
import requests

from heatgraph.datasets.fetch import HOME_VARIABLE, PublicFile
from heatgraph.files import write_atomically

TIMEOUT = 30.0  # seconds without a byte


def cached(file: PublicFile, folder: Path | None = None) -> Path:
    """The path of a file in the cache, downloaded and checked if it is not there.

    A download that is cut, changed or no data leaves the cache as it was; what one that was killed
    has left is removed by the next.
    """
    target = (Path(pooch.os_cache("heatgraph")) if folder is None else folder) / file.name
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
