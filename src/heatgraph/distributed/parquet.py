"""Signals in Parquet files: read by the workers, a few thousand rows at a time."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heatgraph.arrays import Array
from heatgraph.errors import needed

ROWS_AT_ONCE = 4096  # that are read together, so that a large row group is never held as a whole


@dataclass(frozen=True)
class ParquetRows:
    """The rows of one row group of a file."""

    path: str
    group: int
    columns: tuple[str, ...]
    n_rows: int

    def pieces(self) -> Iterator[Array]:
        """The rows (m, N), some thousand at a time; NaN where there is none."""
        from pyarrow import parquet

        with parquet.ParquetFile(self.path) as file:
            for batch in file.iter_batches(
                ROWS_AT_ONCE, row_groups=[self.group], columns=list(self.columns)
            ):
                yield np.column_stack([_values(batch.column(name)) for name in self.columns])

    def read(self) -> Array:
        """All rows (m, N)."""
        return np.concatenate([np.empty((0, len(self.columns))), *self.pieces()])


@dataclass(frozen=True, eq=False)
class ParquetSignals:
    """Signals in rows, nodes in ``columns``: what :meth:`LearnHeat.fit` takes for a data frame."""

    columns: tuple[str, ...]
    row_groups: tuple[ParquetRows, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return sum(rows.n_rows for rows in self.row_groups), len(self.columns)

    def __len__(self) -> int:
        return self.shape[0]

    def to_dask_array(self, lengths: bool = True) -> Any:
        """A Dask array (n_signals, n_nodes), one chunk per row group."""
        import dask
        import dask.array as da

        return da.concatenate(
            [
                da.from_delayed(
                    dask.delayed(rows.read, pure=True)(), (rows.n_rows, len(self.columns)), float
                )
                for rows in self.row_groups
            ]
        )


def read_parquet(
    paths: Sequence[str | os.PathLike[str]], leave_out: Sequence[str] = ()
) -> ParquetSignals:
    """Signals of files, one after the other, of which only the headers are read here.

    Parameters
    ----------
    paths : the files, all with the same columns of numbers, one column per node.
    leave_out : columns that are not nodes.  (An index that pandas wrote is left out anyway.)

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> with TemporaryDirectory() as folder:
    ...     pd.DataFrame({"a": [1.0, 2.0], "b": [0.5, 0.1]}).to_parquet(f"{folder}/0.parquet")
    ...     read_parquet([f"{folder}/0.parquet"]).shape
    (2, 2)
    """
    if not paths:
        raise ValueError("paths must name at least one Parquet file, got none.")
    columns: tuple[str, ...] = ()
    groups: list[ParquetRows] = []
    for path in [os.fspath(path) for path in paths]:
        names, sizes = _header(path, leave_out)
        if columns and set(names) != set(columns):
            other = sorted(set(names) ^ set(columns))[0]
            raise ValueError(
                f"{path} and {os.fspath(paths[0])} must have the same columns, but only one of "
                f"them has {other!r}"
            )
        columns = columns or names
        groups += [ParquetRows(path, k, columns, n) for k, n in enumerate(sizes) if n]
    return ParquetSignals(columns, tuple(groups))


def _header(path: str, leave_out: Sequence[str]) -> tuple[tuple[str, ...], list[int]]:
    """The columns that are nodes, and the rows of each row group."""
    pa = needed("pyarrow", f"reading {path}", '"heatgraph[parquet]"')
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            schema, meta = file.schema_arrow, file.metadata
            sizes = [meta.row_group(k).num_rows for k in range(meta.num_row_groups)]
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(f"{path} cannot be read as Parquet ({error})") from error
    absent = [name for name in leave_out if name not in schema.names]
    if absent:
        raise ValueError(f"{path} has no column {absent[0]!r}")
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    nodes = [field for field in schema if field.name not in (*leave_out, *map(str, index))]
    kinds = pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean
    text = [field for field in nodes if not any(kind(field.type) for kind in kinds)]
    if text:
        raise ValueError(
            f"{path}, column {text[0].name!r}: {text[0].type} is not a type of numbers; if it "
            f"labels the signals, leave it out (--index-column {shlex.quote(text[0].name)})"
        )
    return tuple(field.name for field in nodes), sizes


def _values(column: Any) -> Array:
    """The numbers of a column, NaN where there is none."""
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
