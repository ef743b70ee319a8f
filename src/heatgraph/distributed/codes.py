"""Where a worker keeps the codes of its signals: in memory, or in files of its own folder.

Codes of signals that are held in memory are held there too.  Those of signals that are read anew
at every step, as there are too many of them, are written and read a batch at a time.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

__all__ = ["Shelf", "Thin", "clear", "forget", "kept", "thick", "thin", "worker_address"]

Array = NDArray[np.float64]

# Of a batch: the columns of its nonzeros, how many there are in each row, and their values.
Thin = tuple[NDArray[np.int32], NDArray[np.int32], Array]

# By fit and part, and the number of their step.
_kept: dict[tuple[str, int], dict[int, Iterable[Thin]]] = {}
_folders: dict[str, Path] = {}
_lock = Lock()


def thin(codes: Array) -> Thin:
    """A batch of codes (m, K) without its zeros."""
    rows, columns = np.nonzero(codes)
    counts = np.bincount(rows, minlength=len(codes)).astype(np.int32)
    return columns.astype(np.int32), counts, codes[rows, columns]


def thick(batch: Thin, n_atoms: int) -> Array:
    """The codes (m, K) of a batch."""
    columns, counts, values = batch
    codes = np.zeros((counts.size, n_atoms))
    codes[np.repeat(np.arange(counts.size), counts), columns] = values
    return codes


@dataclass(frozen=True)
class _Written:
    """Codes in a file, read a batch at a time."""

    path: Path

    def __iter__(self) -> Iterator[Thin]:
        with open(self.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            while file.tell() < size:
                columns, counts, values = (np.load(file, allow_pickle=False) for _ in range(3))
                yield columns, counts, values


@dataclass(frozen=True)
class Shelf:
    """The codes of one part of the signals of a fit, by the number of the step that made them."""

    key: tuple[str, int]
    on_disk: bool

    @contextmanager
    def adding(self, number: int, live: Sequence[int]) -> Iterator[_Writer]:
        """Take the batches of a step; then drop what is not of the steps in ``live``.

        A step that does not end leaves nothing.
        """
        writer = _FileWriter(self._file(number)) if self.on_disk else _Writer()
        try:
            yield writer
            codes = writer.done()
        finally:
            writer.close()
        with _lock:
            kept = _kept.setdefault(self.key, {})
            old = [kept.pop(other) for other in list(kept) if other not in (number, *live)]
            kept[number] = codes
        for dropped in old:
            if isinstance(dropped, _Written):
                _remove(dropped.path)

    def find(self, number: int | None) -> Iterable[Thin] | None:
        """The codes of a step, batch by batch, if they are here."""
        with _lock:
            codes = None if number is None else _kept.get(self.key, {}).get(number)
        gone = isinstance(codes, _Written) and not codes.path.exists()
        return None if gone else codes

    def _file(self, number: int) -> Path:
        fit, part = self.key
        with _lock:
            if fit not in _folders or not _folders[fit].exists():
                _folders[fit] = Path(tempfile.mkdtemp(prefix="heatgraph-", dir=_local_folder()))
            return _folders[fit] / f"{part}-{number}.codes"


class _Writer:
    def __init__(self) -> None:
        self.batches: list[Thin] = []

    def append(self, batch: Thin) -> None:
        self.batches.append(batch)

    def done(self) -> Iterable[Thin]:
        return self.batches

    def close(self) -> None:
        pass


class _FileWriter(_Writer):
    """Beside, then renamed: a file of that name is whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.beside = path.with_suffix(f".{secrets.token_hex(4)}")
        self.file = self.beside.open("xb")

    def append(self, batch: Thin) -> None:
        for array in batch:
            np.save(self.file, array, allow_pickle=False)

    def done(self) -> Iterable[Thin]:
        self.file.close()
        os.replace(self.beside, self.path)
        return _Written(self.path)

    def close(self) -> None:
        self.file.close()
        _remove(self.beside)


def _remove(path: Path) -> None:
    with suppress(OSError):  # gone already, or still read by a step that was given up
        path.unlink(missing_ok=True)


def _local_folder() -> str | None:
    """The folder of the worker, which is removed with it; without one the system's."""
    try:
        from distributed import get_worker

        return str(get_worker().local_directory)
    except (ImportError, ValueError):
        return None


def worker_address() -> str:
    """The address of the worker that this runs on, empty where it is none."""
    try:
        from distributed import get_worker

        return str(get_worker().address)
    except (ImportError, ValueError):
        return ""


def kept() -> dict[tuple[str, int], list[int]]:
    """The steps whose codes are here, by fit and part."""
    with _lock:
        return {key: sorted(steps) for key, steps in _kept.items()}


def clear() -> None:
    """Drop all codes, as a worker does that dies."""
    for fit in {key[0] for key in kept()}:
        forget(fit)


def forget(fit: str) -> None:
    """Drop the codes of a fit that is over."""
    with _lock:
        for key in [key for key in _kept if key[0] == fit]:
            del _kept[key]
        folder = _folders.pop(fit, None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
