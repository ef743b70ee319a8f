"""Downloads that end as a whole, checked file in the cache, or leave it as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pooch
import requests

from heatgraph.datasets.fetch import HOME_VARIABLE, PublicFile

__all__ = ["cached"]

TIMEOUT = 30.0  # seconds without a byte


def cached(file: PublicFile, folder: Path | None = None) -> Path:
    """The path of a file in the cache, downloaded and checked if it is not there.

    pooch downloads beside the cache and renames: a download that is cut, changed or no data leaves
    the cache as it was.
    """
    target = (Path(pooch.os_cache("heatgraph")) if folder is None else folder) / file.name
    if file.sha256 is None and target.is_file():
        return target  # it was checked before it came here
    try:
        found = pooch.retrieve(
            file.url,
            None if file.sha256 is None else f"sha256:{file.sha256}",
            fname=target.name,
            path=target.parent,
            downloader=_Download(file),
        )
    except ValueError as error:
        raise ValueError(
            f"what {file.url} gave is not the {file.name} expected, and was discarded: {error}"
        ) from error
    except requests.RequestException as error:
        raise OSError(
            f"cannot download {file.url} ({error}); try again, or put the file in a folder as "
            f"{file.name} and name that folder as data_home or in {HOME_VARIABLE}"
        ) from error
    return Path(found)


class _Download:
    """A downloader for pooch that checks the whole of a file before it enters the cache."""

    def __init__(self, file: PublicFile) -> None:
        self.file = file

    def __call__(self, url: str, output: str, owner: Any) -> None:
        # Uncompressed, so that its length is that of the file and a cut connection is noticed.
        fetch = pooch.HTTPDownloader(timeout=TIMEOUT, headers={"Accept-Encoding": "identity"})
        fetch(url, output, owner)
        if self.file.check is not None:
            self.file.check(Path(output))
