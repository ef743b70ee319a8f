"""Where a worker keeps the codes of its signals: in memory, or in files of its own folder.

Codes of signals that are held in memory are held there too.  Signals that do not fit are read again
at every step; their codes are written to a file and read back one batch at a time.
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
from typing import Any

import numpy as np
from scipy.sparse import csr_array

# By fit and part, and the number of their step.
_kept: dict[tuple[str, int], dict[int, Iterable[csr_array]]] = {}
_folders: dict[str, Path] = {}
_over: set[str] = set()  # fits, of which a task may still be running
_lock = Lock()


class _CodeFile:
    """Batches of codes in a file: written one after the other, then read one at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("xb")

    def append(self, codes: csr_array) -> None:
        for array in (codes.data, codes.indices, codes.indptr, np.array(codes.shape)):
            np.save(self._file, array, allow_pickle=False)

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        self.close()
        with suppress(OSError):  # removed already, or still read by an abandoned step
            self.path.unlink(missing_ok=True)

    def __iter__(self) -> Iterator[csr_array]:
        with self.path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            while file.tell() < size:
                data, indices, indptr, shape = (np.load(file, allow_pickle=False) for _ in range(4))
                yield csr_array((data, indices, indptr), shape=tuple(shape))


@dataclass(frozen=True)
class CodeStore:
    """The codes of one part of the signals of a fit, by the number of the step that made them."""

    key: tuple[str, int]
    on_disk: bool

    @contextmanager
    def adding(self, number: int, live: Sequence[int]) -> Iterator[list[csr_array] | _CodeFile]:
        """Take the batches of a step, then drop the codes of steps that are not in ``live``.

        A step that fails leaves nothing.
        """
        codes: list[csr_array] | _CodeFile = _CodeFile(self._new_file()) if self.on_disk else []
        try:
            yield codes
        except BaseException:
            _drop(codes)
            raise
        if isinstance(codes, _CodeFile):
            codes.close()
        with _lock:
            kept = _kept.setdefault(self.key, {})
            dead = [other for other in kept if other == number or other not in live]
            old = [kept.pop(other) for other in dead]
            kept[number] = codes
        for dropped in old:
            _drop(dropped)
        if self.key[0] in _over:
            forget(self.key[0])

    def find(self, number: int | None) -> Iterable[csr_array] | None:
        """The codes of a step, batch by batch, if they are here."""
        with _lock:
            codes = None if number is None else _kept.get(self.key, {}).get(number)
        gone = isinstance(codes, _CodeFile) and not codes.path.exists()
        return None if gone else codes

    def _new_file(self) -> Path:
        fit, part = self.key
        with _lock:
            if fit not in _folders or not _folders[fit].exists():
                _folders[fit] = Path(tempfile.mkdtemp(prefix="heatgraph-", dir=local_folder()))
            return _folders[fit] / f"{part}-{secrets.token_hex(8)}.codes"


def _drop(codes: Iterable[csr_array]) -> None:
    if isinstance(codes, _CodeFile):
        codes.remove()


def local_folder() -> str | None:
    """The folder of the worker, which is removed with it; without a worker the system's."""
    worker = _worker()
    return None if worker is None else str(worker.local_directory)


def worker_address() -> str:
    """The address of the worker that this runs on, empty where it is none."""
    worker = _worker()
    return "" if worker is None else str(worker.address)


def _worker() -> Any:
    try:
        from distributed import get_worker

        return get_worker()
    except (ImportError, ValueError):
        return None


def kept() -> dict[tuple[str, int], list[int]]:
    """The steps whose codes are here, by fit and part."""
    with _lock:
        return {key: sorted(steps) for key, steps in _kept.items()}


def forget(fit: str) -> None:
    """Drop the codes of a fit."""
    with _lock:
        for key in [key for key in _kept if key[0] == fit]:
            del _kept[key]
        folder = _folders.pop(fit, None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def end_fit(fit: str) -> None:
    """Drop the codes of a fit that is over, also those that a task still computes."""
    with _lock:
        _over.add(fit)
    forget(fit)
