"""Many independent cells, on any number of processes, none of them computed twice.

A cell is one call of a function with parameters that JSON can hold, and its result is a dictionary
that JSON can hold.  Its key is a digest of the function's name, the parameters and the version of
this package; what is finished is kept on disk under it.  Who changes the code names another folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import joblib
from threadpoolctl import threadpool_limits

import heatgraph
from heatgraph.errors import needed
from heatgraph.experiments.base import Settings
from heatgraph.files import plain, write_atomically

Cell = Mapping[str, Any]
Result = dict[str, Any]
Function = Callable[..., Mapping[str, Any]]


def sweep(
    function: Function, cells: Sequence[Cell], settings: Settings, text: str = ""
) -> list[Result]:
    """Compute every cell, but for those that were computed before.

    Parameters
    ----------
    function : callable
        Of a module, called as ``function(**cell)``; returns a mapping that JSON can hold.  It must
        depend on nothing but its arguments, so that the result is the same wherever it runs.
    cells : sequence of mapping
        Parameters that JSON can hold, the seed among them.
    settings : Settings
        How many at once, by which backend, and where the finished ones are kept.
    text : str
        What is being computed, for the progress.

    Returns
    -------
    list of dict
        In the order of the cells.

    Examples
    --------
    >>> sweep(dict, [{"a": 1}, {"a": 2}], Settings())
    [{'a': 1}, {'a': 2}]
    """
    paths = [_path(settings.cache, function, cell) for cell in cells]
    results = {k: known for k, path in enumerate(paths) if (known := _read(path)) is not None}
    settings.report(len(results), len(cells), text)
    missing = [number for number in range(len(cells)) if number not in results]
    for number, result in _compute(function, cells, missing, settings):
        content = {"function": function.__qualname__, "cell": cells[number], "result": result}
        written = json.dumps(plain(content), allow_nan=False)
        path = paths[number]
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with write_atomically(path, "w") as file:
                file.write(written)
        results[number] = json.loads(written)["result"]  # as it will be read
        settings.report(len(results), len(cells), text)
    return [results[number] for number in range(len(cells))]


def cell_key(function: Function, cell: Cell) -> str:
    """The digest that a cell is kept under."""
    content = [function.__qualname__, heatgraph.__version__, plain(dict(cell))]
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _path(folder: Path | None, function: Function, cell: Cell) -> Path | None:
    """The file of a finished cell; none without a folder."""
    key = cell_key(function, cell)
    return None if folder is None else folder / key[:2] / f"{key}.json"


def _read(path: Path | None) -> Result | None:
    """The result of a cell, or None if it is not there whole."""
    try:
        content = None if path is None else json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    found = content.get("result") if isinstance(content, dict) else None
    return found if isinstance(found, dict) else None


def _compute(
    function: Function, cells: Sequence[Cell], wanted: Sequence[int], settings: Settings
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Results with the numbers of their cells, as they come."""
    if not wanted:
        return
    if settings.n_jobs == 1 and settings.backend == "loky":
        for number in wanted:
            yield _one(function, number, cells[number])
        return
    with _backend(settings):
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
        yield from parallel(joblib.delayed(_one)(function, k, cells[k]) for k in wanted)


def _one(function: Function, number: int, cell: Cell) -> tuple[int, Mapping[str, Any]]:
    # One thread of linear algebra: sums in a fixed order, and no contest between processes.
    with threadpool_limits(1):
        return number, function(**cell)


@contextmanager
def _backend(settings: Settings) -> Iterator[None]:
    """The backend of joblib that was asked for; a cluster is spoken to for the time of a sweep."""
    if settings.backend != "dask":
        try:
            context = joblib.parallel_config(settings.backend, n_jobs=settings.n_jobs)
        except ValueError as error:
            raise ValueError(f"backend {settings.backend!r} is not known to joblib") from error
        with context:
            yield
        return
    distributed = needed("distributed", "the backend 'dask'", "'heatgraph[dask]'")
    # Without an address, a cluster of this machine for the time of the sweep.
    options = {} if settings.scheduler is not None else {"n_workers": max(settings.n_jobs, 1)}
    with distributed.Client(settings.scheduler, **options), joblib.parallel_config("dask"):
        yield
