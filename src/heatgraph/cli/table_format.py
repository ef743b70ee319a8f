"""The table that signals came from, to be given back in the same shape."""

from __future__ import annotations

import gzip
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heatgraph.files import write_atomically

__all__ = ["Origin", "check_output", "kind_of"]

TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
PARQUET = (".parquet", ".pq")
NPY = ".npy"


def kind_of(path: Path) -> str:
    """The suffix that says what a file holds, such as .csv or .csv.gz."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() + suffix if suffix == ".gz" else suffix


def check_output(path: Path, force: bool) -> None:
    """Refuse a path that no table can be written to, before there is one."""
    if path.is_dir():
        raise IsADirectoryError(f"--output must name a file, and {path} is a folder")
    if kind_of(path) not in (*TEXT, *PARQUET, NPY):
        raise ValueError(
            f"--output: a table is written as {', '.join((*TEXT[:4], PARQUET[0], NPY))}, not as "
            f"{kind_of(path) or 'no suffix'}, got {path}"
        )
    if path.exists() and not force:
        raise FileExistsError(f"{path} is there already; --force replaces it")


@dataclass(frozen=True, eq=False)
class Origin:
    """What a file has beside the values of its signals.

    ``names`` are those of its columns of values.  ``beside`` are the columns that label its rows:
    the place, the name and the cells of each; ``index`` is the index of a data frame.
    """

    names: tuple[str, ...] | None = None
    index: Any = None
    beside: tuple[tuple[int, str | None, Any], ...] = ()
    transposed: bool = False
    delimiter: str = ","
    decimal: str = "."

    def with_rows(self, rows: list[int]) -> Origin:
        """The same with some of its rows."""
        beside = tuple((at, name, pd.Series(cells).iloc[rows]) for at, name, cells in self.beside)
        index = None if self.index is None else self.index[rows]
        return replace(self, beside=beside, index=index)

    def write(self, path: Path, signals: NDArray[np.float64]) -> None:
        """Write a table of this shape, with other values (n_signals, n_nodes)."""
        values = signals.T if self.transposed else signals
        kind = kind_of(path)
        if kind in TEXT:
            content = self._text(values, kind).encode()
            content = gzip.compress(content, mtime=0) if kind.endswith(".gz") else content
        else:
            buffer = io.BytesIO()
            if kind == NPY:
                np.save(buffer, np.ascontiguousarray(values))
            else:
                self._parquet(path, values, buffer)
            content = buffer.getvalue()
        with write_atomically(path) as file:
            file.write(content)

    def _text(self, values: NDArray[np.float64], kind: str) -> str:
        delimiter = self.delimiter if self.delimiter in ",;" else ","
        if delimiter == self.decimal:
            delimiter = ";"
        text: str = self._frame(values).to_csv(
            sep="\t" if kind.startswith(".tsv") else delimiter,
            decimal=self.decimal,
            header=self.names is not None,
            index=self.index is not None,
        )
        return text

    def _parquet(self, path: Path, values: NDArray[np.float64], buffer: io.BytesIO) -> None:
        try:
            self._frame(values).to_parquet(buffer)
        except ImportError as error:
            raise ImportError(
                f"{path}: Parquet is written by pyarrow, which is not installed; "
                'install it with pip install "heatgraph[parquet]"'
            ) from error

    def _frame(self, values: NDArray[np.float64]) -> pd.DataFrame:
        # Nodes without names are counted from 0, as everywhere else.
        names = self.names or tuple(map(str, range(values.shape[1])))
        frame = pd.DataFrame(values, columns=list(names))
        for at, name, cells in self.beside:
            title = ("node" if self.transposed else "signal") if name is None else name
            frame.insert(at, title, pd.Series(cells).to_numpy(), allow_duplicates=True)
        return frame if self.index is None else frame.set_axis(self.index, axis=0)
