"""Signals that are many, or elsewhere: Parquet files read by a Dask cluster."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from heatgraph.cli.console import Output, counted
from heatgraph.cli.options import TableOptions
from heatgraph.cli.table_files import PARQUET, PARQUET_EXTRA
from heatgraph.cli.tables import label_column
from heatgraph.distributed.from_dask import local_cluster
from heatgraph.distributed.parquet import ParquetSignals, read_parquet
from heatgraph.errors import needed

FIRST_ROWS = 1000  # that are looked at to tell whether the first column labels the signals
SHARE = 0.25  # of the memory: a larger Parquet file is not read as a whole


@dataclass(frozen=True, eq=False)
class ClusterTable:
    """Signals in rows, nodes in columns, for the workers to read."""

    frame: ParquetSignals
    names: tuple[str, ...]
    notes: tuple[str, ...]
    labels: None = None
    values: None = None
    coordinates: None = None
    groups: None = None
    warnings: tuple[str, ...] = ()

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
def cluster(scheduler: str | None, n_workers: int, out: Output) -> Iterator[None]:
    """The cluster at an address, or processes of this machine for the time of the block."""
    if scheduler is not None:
        from distributed import Client

        try:
            client = Client(scheduler)
        except (OSError, ValueError, TimeoutError) as error:
            raise ValueError(
                f"--scheduler {scheduler}: no Dask scheduler answers there ({error})"
            ) from error
        with client:
            out.note(f"The cluster can be watched at {client.dashboard_link}.")
            yield
        return
    with local_cluster(n_workers) as client:
        out.note(
            f"{counted(n_workers, 'worker')} on this machine, to be watched at "
            f"{client.dashboard_link}."
        )
        yield


def read_parts(paths: Sequence[Path], options: TableOptions) -> ClusterTable:
    """The signals of Parquet files, one after the other in the order of their names."""
    if options.transpose:
        raise ValueError("--transpose needs a table that is read as a whole: a single file")
    files = [file for path in paths for file in _files(path)]
    other = [file for file in files if Path(file).suffix.lower() not in PARQUET]
    if other:
        raise ValueError(f"{other[0]}: several files of signals have to be Parquet")
    labels, notes = options.index_column, list[str]()
    if labels is None:
        labels, notes = _labels(Path(files[0]), options)
    frame = read_parquet(files, () if tuple(labels) == ("none",) else labels)
    many = f"{counted(len(files), 'Parquet file')} on {counted(len(frame.columns), 'node')}"
    return ClusterTable(frame, frame.columns, (*notes, f"signals of {many}, read by Dask"))


def _labels(path: Path, options: TableOptions) -> tuple[list[str], list[str]]:
    """The first column of a file where its name and its first rows say that it holds labels."""
    needed("pyarrow", f"reading {path}", PARQUET_EXTRA)
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            names = file.schema_arrow.names
            index = (file.schema_arrow.pandas_metadata or {}).get("index_columns", [])
            if not names or names[0] in index:
                return [], []
            batch = next(file.iter_batches(FIRST_ROWS, columns=names[:1]), None)
    except (OSError, ArrowInvalid):
        return [], []
    cells = [] if batch is None else batch.column(0).to_pylist()
    side = ["" if cell is None else str(cell) for cell in cells]
    label, notes = label_column(path, names[0], side, options)
    return ([] if label is None else [label]), notes


def _files(path: Path) -> list[str]:
    if path.is_dir():
        found = sorted(str(p) for p in path.iterdir() if p.suffix.lower() in PARQUET)
    elif path.exists():
        found = [str(path)]
    else:
        found = sorted(glob.glob(str(path)))
    if not found:
        if (path / "model.npz").exists():
            raise FileNotFoundError(
                f"{path} holds results, not signals: learn takes the file that they were learned "
                "from; heatgraph report shows them"
            )
        where = f"the folder {path} has" if path.is_dir() else f"{path} matches"
        raise FileNotFoundError(
            f"{where} no Parquet files, which end in .parquet or .pq; a table in CSV is read from "
            "a single file"
        )
    return found
