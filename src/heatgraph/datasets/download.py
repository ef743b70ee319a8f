"""Downloads that end as a whole, checked file in the cache, or leave it as it was."""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pooch
import requests

from heatgraph.datasets.fetch import HOME_VARIABLE, PublicFile

__all__ = ["cached"]

ATTEMPTS = 4
TIMEOUT = 30.0  # seconds without a byte
CHUNK = 1 << 13  # what a cut connection may cost again


class _CutError(Exception):
    """The answer ended before the file did."""


# What another attempt may mend.
_PASSING = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    _CutError,
)


def cached(file: PublicFile, folder: Path | None = None) -> Path:
    """The path of a file in the cache, downloaded and checked if it is not there."""
    target = (Path(pooch.os_cache("heatgraph")) if folder is None else folder) / file.name
    # A file without a checksum was checked before it came here.
    if target.is_file() and (file.sha256 is None or _has_sum(target, file.sha256)):
        return target
    for last in (False, True):
        download = _Download(file, target)
        try:
            found = pooch.retrieve(
                file.url,
                None if file.sha256 is None else f"sha256:{file.sha256}",
                fname=target.name,
                path=target.parent,
                downloader=download,
            )
        except ValueError as error:
            # The beginning may have been of another version: once more, from the first byte.
            if download.resumed and not last:
                continue
            raise ValueError(
                f"what {file.url} gave is not the {file.name} expected, and was discarded: {error}"
            ) from error
        except requests.RequestException as error:
            raise OSError(
                f"cannot download {file.url} ({error}); try again to go on where it stopped, or "
                f"put the file in a folder as {file.name} and name that folder as data_home or in "
                f"{HOME_VARIABLE}"
            ) from error
        return Path(found)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _has_sum(path: Path, sha256: str) -> bool:
    return bool(pooch.file_hash(path) == sha256)


class _Download:
    """A downloader for pooch that keeps what arrived, and asks only for the rest.

    The part kept is taken by renaming it, so that two processes never write to the same one.
    """

    def __init__(self, file: PublicFile, target: Path) -> None:
        self.file = file
        self.kept = target.with_name(f".{target.name}.part")
        # Which version of the file the part is of, by the word of the server.
        self.tag = target.with_name(f".{target.name}.tag")
        self.version: str | None = None
        self.resumed = False

    def __call__(self, url: str, output: str, owner: Any) -> None:
        mine = self.kept.with_name(f"{self.kept.name}-{secrets.token_hex(4)}")
        with suppress(FileNotFoundError):
            os.replace(self.kept, mine)
            self.version = self.tag.read_text("utf-8")
            self.tag.unlink()
        try:
            self._complete(url, mine)
        except BaseException:
            if mine.is_file() and self.version:
                self.tag.write_text(self.version, "utf-8")
                os.replace(mine, self.kept)
            mine.unlink(missing_ok=True)
            raise
        try:
            if self.file.check is not None:
                self.file.check(mine)
            shutil.move(mine, output)
        finally:
            mine.unlink(missing_ok=True)

    def _complete(self, url: str, part: Path) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._go_on(url, part)
                return
            except _PASSING as error:
                if attempt == ATTEMPTS:
                    raise requests.ConnectionError(str(error)) from error

    def _go_on(self, url: str, part: Path) -> None:
        """Ask for what is missing and append it; the server may send all of it instead."""
        have = part.stat().st_size if part.is_file() else 0
        headers = {"Accept-Encoding": "identity"}
        if have and self.version:
            headers |= {"Range": f"bytes={have}-", "If-Range": self.version}
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
            if answer.status_code == requests.codes.requested_range_not_satisfiable:
                part.unlink()
                raise _CutError("the server has no such range; starting over")
            answer.raise_for_status()
            if answer.status_code not in (requests.codes.ok, requests.codes.partial_content):
                # Some publishers answer a program with an empty "202 Accepted".
                raise requests.HTTPError(f"the server answered {answer.status_code} and no file")
            partial = answer.status_code == requests.codes.partial_content
            if partial and not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                raise _CutError("the server sent another range than asked for")
            self.resumed |= partial
            self.version = _version(answer)
            expected = answer.headers.get("Content-Length")
            arrived = 0
            with open(part, "ab" if partial else "wb") as out:
                for chunk in answer.iter_content(CHUNK):
                    out.write(chunk)
                    arrived += len(chunk)
        if expected is not None and arrived != int(expected):
            raise _CutError(f"the connection ended after {arrived} of {expected} bytes")


def _version(answer: requests.Response) -> str | None:
    """What the server calls these bytes, if it does, for the rest of them to be asked for."""
    tag: str = answer.headers.get("ETag", "")
    # A weak tag names a meaning, not bytes, and cannot join two parts.
    return tag if tag and not tag.startswith("W/") else answer.headers.get("Last-Modified")
