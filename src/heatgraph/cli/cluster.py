"""Signals that are many, or elsewhere: Parquet files read by a Dask cluster."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heatgraph.cli.console import Voice
from heatgraph.cli.tables import TableOptions

__all__ = ["ClusterTable", "asks_for_cluster", "cluster", "read_parts"]

PARQUET = (".parquet", ".pq")
SHARE = 0.25  # of the memory: a larger Parquet file is not read as a whole


@dataclass(frozen=True, eq=False)
class ClusterTable:
    """Signals in rows, nodes in columns, as a Dask data frame."""

    frame: Any
    names: tuple[str, ...]
    notes: tuple[str, ...]
    labels: None = None
    values: None = None

    @property
    def n_nodes(self) -> int:
        return len(self.names)


def asks_for_cluster(paths: Sequence[Path], scheduler: str | None) -> bool:
    """Whether the signals are in several files, in a folder, or too large to be read at once."""
    if scheduler is not None or len(paths) > 1 or paths[0].is_dir():
        return True
    path = paths[0]
    if "*" in path.name and not path.exists():
        return True
    if path.suffix.lower() not in PARQUET or not hasattr(os, "sysconf"):
        return False
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return path.exists() and path.stat().st_size > SHARE * memory


@contextmanager
def cluster(scheduler: str | None, n_workers: int, voice: Voice) -> Iterator[None]:
    """The cluster at an address, or processes of this machine for the time of the block."""
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ImportError(
            "signals in several files, or on a cluster, are read by dask and distributed; install "
            'them with pip install "heatgraph[dask]"'
        ) from error
    if scheduler is not None:
        try:
            client = Client(scheduler)
        except (OSError, ValueError, TimeoutError) as error:
            raise ValueError(
                f"--scheduler {scheduler}: no Dask scheduler answers there ({error})"
            ) from error
        with client:
            voice.note(f"The cluster can be watched at {client.dashboard_link}.")
            yield
        return
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as local,
        Client(local) as client,
    ):
        voice.note(
            f"{n_workers} worker(s) on this machine; they can be watched at "
            f"{client.dashboard_link}."
        )
        yield


def read_parts(paths: Sequence[Path], options: TableOptions) -> ClusterTable:
    """The signals of Parquet files, one after the other in the order of their names."""
    import dask.dataframe as dd

    if options.transpose:
        raise ValueError("--transpose needs a table that is read as a whole: a single file")
    files = [file for path in paths for file in _files(path)]
    other = [file for file in files if Path(file).suffix.lower() not in PARQUET]
    if other:
        raise ValueError(f"{other[0]}: several files of signals have to be Parquet")
    try:
        frame = dd.read_parquet(files)
    except (OSError, ValueError) as error:
        raise ValueError(f"{files[0]} cannot be read as Parquet ({error})") from error
    if options.index_column not in (None, "none"):
        if options.index_column not in frame.columns:
            raise ValueError(f"{files[0]} has no column {options.index_column!r}")
        frame = frame.drop(columns=[options.index_column])
    text = [name for name, dtype in frame.dtypes.items() if dtype.kind not in "biuf"]
    if text:
        raise ValueError(
            f"{files[0]}, column {text[0]!r}: {frame.dtypes[text[0]]} is not a type of numbers; "
            "if it labels the signals, name it in --index-column"
        )
    names = tuple(map(str, frame.columns))
    note = f"signals of {len(files)} Parquet file(s) on {len(names)} nodes, read by Dask"
    return ClusterTable(frame, names, (note,))


def _files(path: Path) -> list[str]:
    if path.is_dir():
        found = sorted(str(p) for p in path.iterdir() if p.suffix.lower() in PARQUET)
    elif path.exists():
        found = [str(path)]
    else:
        found = sorted(glob.glob(str(path)))
    if not found:
        raise FileNotFoundError(f"there are no Parquet files {path}")
    return found
