"""A fit that survives the death of its process: what it has done, in one file.

The file is replaced as a whole, every so often, by :func:`heatgraph.files.write_arrays`; a reader
trusts none of it.  It belongs to one fit: the signals and the parameters are in it as a
fingerprint, and a fit of others is refused.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from heatgraph.disk.replacing import is_at, remove_abandoned, take
from heatgraph.errors import ParameterError
from heatgraph.files import read_arrays, write_arrays
from heatgraph.graph import Graph
from heatgraph.solvers.driver import NO_CHECKPOINT, Keeper, Record

FORMAT = "heatgraph.checkpoint"
FORMAT_VERSION = 3
EVERY = 30.0  # seconds between two writes
DTYPES = "<f8 <i8 <i4 |b1"
LONGEST = 60  # characters of a parameter that a message quotes
MEMBER, MEMBER_NAME = b"PK\x03\x04", 30  # how a member of an .npz begins, and where its name does
# What a fit may be given anew; with a larger max_iter it goes on from where the limit was met.
IRRELEVANT = ("checkpoint", "max_iter", "n_jobs", "verbose", "warm_start")


class Checkpoint:
    """The records of one fit, by name, in memory and in a file that is locked until it is closed.

    Parameters
    ----------
    path : str or path-like
        The file.  One that is there is read; it has to be of the same fit.
    belongs : mapping of str to str
        What the fit is of, see :func:`fingerprint`.

    Raises
    ------
    ValueError
        If the file is damaged, is something else, or belongs to another fit; the message says
        what differs.
    OSError
        If it cannot be written, or another fit has it open.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "fit.checkpoint"
    >>> one = Checkpoint(path, {"X": "warm"})
    >>> one.keeper.within("first").put(Record({"n": 1}))
    >>> one.close()
    >>> again = Checkpoint(path, {"X": "warm"})
    >>> again.keeper.within("first").get().facts
    {'n': 1}
    >>> again.close()
    >>> Checkpoint(path, {"X": "cold"})
    Traceback (most recent call last):
    ...
    heatgraph.errors.ParameterError: checkpoint: ... X is cold, in the file warm. ...
    """

    def __init__(self, path: str | os.PathLike[str], belongs: Mapping[str, str]) -> None:
        self.path = Path(path)
        self.belongs = {"heatgraph": version("heatgraph"), **belongs}
        self.records: dict[str, Record] = {}
        self._written = time.monotonic()
        self._changed = False
        self._file: IO[bytes] | None = None
        try:
            if self.path.exists():
                self._hold()
                self.records = self._read()
                # Here too, since a fit that was done already writes nothing.
                remove_abandoned(Path(os.path.realpath(self.path)))
            else:
                self._write()  # what forbids it is best known before the work
        except BaseException:
            self._release()
            raise

    @property
    def keeper(self) -> Keeper:
        """The root of the names."""
        return _Name(self, "fit")

    @property
    def due(self) -> bool:
        """Whether it is time to write."""
        return time.monotonic() - self._written >= EVERY

    def put(self, name: str, record: Record) -> None:
        inside = f"{name}/"
        self.records = {k: v for k, v in self.records.items() if not k.startswith(inside)}
        self.records[name] = record
        self._changed = True
        if self.due:
            self.save()

    def save(self) -> None:
        """Write what is not written yet; a disk that is full costs the write, not the fit."""
        if not self._changed:
            return
        try:
            self._write()
        except OSError as error:
            self._written = time.monotonic()
            warnings.warn(
                f"LearnHeat: the checkpoint {self.path} could not be written "
                f"({error.strerror or error}); the fit goes on, and what the file held before is "
                "still there.",
                stacklevel=2,
            )

    def close(self) -> None:
        """Write what is not written yet, and let others have the file."""
        try:
            self.save()
        finally:
            self._release()

    def _hold(self) -> None:
        """Lock the file as it is now, unless another fit has."""
        if os.name != "posix":  # an open file cannot be replaced there
            return
        file = open(self.path, "rb")  # noqa: SIM115
        self._release()
        try:
            take(file.fileno())
        except BlockingIOError as error:
            file.close()
            raise OSError(
                f"checkpoint: {self.path} is in use by another fit; wait until it ends, or name "
                "another file."
            ) from error
        self._file = file

    def _release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self) -> None:
        index: dict[str, Any] = {}
        arrays: dict[str, NDArray[Any]] = {}
        for k, (name, record) in enumerate(self.records.items()):
            index[name] = {
                "facts": dict(record.facts),
                "arrays": {key: value.ndim for key, value in record.arrays.items()},
            }
            arrays |= {f"{k}.{key}": value for key, value in record.arrays.items()}
        header = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "belongs": self.belongs,
            "records": index,
        }
        self._check_mine()
        write_arrays(self.path, header, arrays)
        self._hold()
        # From the end: a slow disk must not spend the fit's time on writing.
        self._written, self._changed = time.monotonic(), False

    def _check_mine(self) -> None:
        """Refuse to replace what another fit has written, where locks could not keep it out."""
        place = Path(os.path.realpath(self.path))
        if self._file is not None and place.exists() and not is_at(self._file.fileno(), place):
            raise OSError("another fit has written it")

    def _read(self) -> dict[str, Record]:
        with open(self.path, "rb") as file:
            try:
                header, arrays = read_arrays(file, FORMAT, FORMAT_VERSION, _expected)
            except (ValueError, TypeError, RecursionError) as error:
                if not _is_ours(self.path):
                    raise ParameterError(
                        "checkpoint",
                        f": {self.path} is there already and is not a checkpoint; name "
                        "another file.",
                    ) from error
                raise ParameterError(
                    "checkpoint",
                    f": {self.path} cannot be read: {error}. Delete it to start anew, "
                    "or name another file.",
                ) from error
        self._compare(header["belongs"])
        return {
            name: Record(
                entry["facts"],
                # A copy: what is read is read-only, and lies in memory as the file has it.
                {key: arrays[f"{k}.{key}"].copy() for key in entry["arrays"]},
            )
            for k, (name, entry) in enumerate(header["records"].items())
        }

    def _compare(self, there: Mapping[str, str]) -> None:
        differing = [
            f"{key} is {_shown(self.belongs.get(key))}, in the file {_shown(there.get(key))}"
            for key in {**self.belongs, **there}
            if self.belongs.get(key) != there.get(key)
        ]
        if differing:
            raise ParameterError(
                "checkpoint",
                f": {self.path} belongs to another fit: {'; '.join(differing)}. Repeat that "
                "fit, delete the file to start anew, or name another file.",
            )


@contextmanager
def kept_in(path: Any, belongs: Mapping[str, str]) -> Iterator[Keeper]:
    """The keeper of a fit, in a file that is written when the block ends, however it does.

    Without a path, one that keeps nothing.
    """
    if path is None:
        yield NO_CHECKPOINT
        return
    if not isinstance(path, (str, os.PathLike)):
        raise ValueError(f"checkpoint must be the path of a file, got {path!r}.")
    checkpoint = Checkpoint(path, belongs)
    try:
        yield checkpoint.keeper
    finally:
        checkpoint.close()


@dataclass(frozen=True, eq=False)
class _Name:
    """One name in a checkpoint."""

    checkpoint: Checkpoint
    name: str

    @property
    def due(self) -> bool:
        return self.checkpoint.due

    def within(self, name: str, /) -> Keeper:
        return _Name(self.checkpoint, f"{self.name}/{name}")

    def get(self) -> Record | None:
        return self.checkpoint.records.get(self.name)

    def put(self, record: Record, /) -> None:
        self.checkpoint.put(self.name, record)


def _is_ours(path: Path) -> bool:
    """Whether a file that cannot be read was a checkpoint once, and may be given up."""
    with open(path, "rb") as file:
        if file.read(len(MEMBER)) != MEMBER:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:  # of any size
            # The header comes last, and is lost if the file was cut; the first field has a name of
            # ours.
            first = content[MEMBER_NAME : MEMBER_NAME + int.from_bytes(content[26:28], "little")]
            named = re.fullmatch(rb"\d+\..+\.npy", first) is not None
            return named or content.find(FORMAT.encode()) >= 0


def _expected(header: dict[str, Any]) -> dict[str, tuple[str, int]]:
    """The fields that a checkpoint with this header has."""
    belongs, records = header.get("belongs"), header.get("records")
    if not isinstance(belongs, dict) or not isinstance(records, dict):
        raise ValueError("its header does not say what it belongs to, or what it holds")
    fields: dict[str, tuple[str, int]] = {}
    for k, entry in enumerate(records.values()):
        match entry:
            case {"facts": dict(), "arrays": dict(dimensions)}:
                fields |= {f"{k}.{key}": (DTYPES, ndim) for key, ndim in dimensions.items()}
            case _:
                raise ValueError("one of its records is not one that heatgraph writes")
    if set(fields) != set(header["fields"]):
        raise ValueError("its records are not those that its header lists")
    return fields


def fingerprint(estimator: Any, X: Any, names: Any) -> dict[str, str]:
    """What a fit computes from: its signals, its nodes, every parameter that has a part in it."""
    parameters = estimator.get_params(deep=False)
    shown = {key: _describe(value) for key, value in parameters.items() if key not in IRRELEVANT}
    return {"X": _describe(X), "nodes": _describe(names), **shown}


def _describe(value: Any) -> str:
    """A text that is the same for values that are; short ones stand for themselves."""
    if isinstance(value, Graph):
        parts = (value.n_nodes, value.names, value.edges, value.weights)
        return f"a Graph {_digest(' '.join(map(_describe, parts)).encode())}"
    if isinstance(value, np.random.Generator):
        return f"a Generator {_digest(repr(value.bit_generator.state).encode())}"
    if isinstance(value, np.random.RandomState):
        state: Any = value.get_state(legacy=False)
        return f"a RandomState {_digest(repr(state['state']['key'].tolist()).encode())}"
    if sparse.issparse(value):
        value = value.toarray()
    if isinstance(value, np.generic):
        value = value.item()
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if isinstance(value, np.ndarray) and value.dtype != object:
        shape = " x ".join(map(str, value.shape))
        return f"{shape} {value.dtype} {_digest(np.ascontiguousarray(value).tobytes())}"
    if isinstance(value, np.ndarray):
        value = value.tolist()
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:20]}... {_digest(text.encode())}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _shown(text: Any) -> str:
    return "absent" if text is None else str(text)
