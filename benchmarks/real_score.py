"""A cell of ``make bench-real``: a method on a data set, what it predicts, what edges it finds."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import sklearn
from numpy.typing import NDArray
from scipy.sparse.csgraph import shortest_path
from sklearn.metrics import average_precision_score
from threadpoolctl import threadpool_limits

from benchmarks import real_methods
from benchmarks.real_data import CACHE, N_SIGNALS, RealData, load, path_of

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

SHARE = 0.2  # of the entries, or of the nodes, hidden at once
HIDINGS = ("random", "block")
SIZES = ("many", "few")
VERSION = 1  # of the scores: a change makes every cell anew


class Cell(NamedTuple):
    """What is run at once."""

    data: str
    size: str
    seed: int
    method: str


def sized(cell: Cell) -> RealData | None:
    """The data of a cell: all signals, or half as many as nodes; None if there are no more."""
    data = load(cell.data, cell.seed)
    n_few = data.n_nodes // 2
    if cell.size == "many":
        return data
    return data.few(n_few) if n_few < len(data.X_train) else None


def distances(data: RealData) -> Array:
    """Between nodes: steps on the true graph, else by the coordinates, else 1 - correlation."""
    n = data.n_nodes
    if data.edges is not None:
        pairs = sp.coo_array((np.ones(len(data.edges)), tuple(data.edges.T)), shape=(n, n))
        return shortest_path(sp.csr_array(pairs), directed=False, unweighted=True)
    if data.coordinates is not None and np.isfinite(data.coordinates).all():
        xy = np.array(data.coordinates, dtype=np.float64)
        if data.name == "etex":  # a degree of longitude is shorter in the north
            xy[:, 0] *= np.cos(np.deg2rad(xy[:, 1].mean()))
        return np.linalg.norm(xy[:, None] - xy, axis=2)
    Z = data.X_train - np.nanmean(data.X_train, axis=0)
    return 1.0 - np.corrcoef(np.where(np.isnan(Z), 0.0, Z).T)


def hidden_entries(data: RealData, hiding: str, rng: np.random.Generator) -> Mask:
    """Which entries of the test are hidden, a fifth: anywhere, or around one node per signal."""
    seen = np.isfinite(data.X_test)
    if hiding == "random":
        return seen & (rng.random(seen.shape) < SHARE)
    apart = distances(data)
    n_hidden = round(SHARE * data.n_nodes)
    hidden = np.zeros(seen.shape, dtype=bool)
    for row in hidden:
        # Ties are broken at random.
        order = np.lexsort((rng.random(data.n_nodes), apart[rng.integers(data.n_nodes)]))
        row[order[:n_hidden]] = True
    return seen & hidden


def missed(data: RealData, filled: Array, hidden: Mask) -> dict[str, float]:
    """Share of the hidden entries' energy about the training means that is missed, and its error.

    The units that vary are signals, or the runs of them that go together.
    """
    mean = np.nanmean(data.X_train, axis=0)
    error = (np.where(hidden, filled - data.X_test, 0.0) ** 2).sum(axis=1)
    energy = (np.where(hidden, data.X_test - mean, 0.0) ** 2).sum(axis=1)
    starts = np.arange(0, len(error), data.unit)
    error, energy = np.add.reduceat(error, starts), np.add.reduceat(energy, starts)
    share = error.sum() / energy.sum()
    n = len(starts)
    spread = np.sqrt(n / max(n - 1, 1) * np.sum((error - share * energy) ** 2)) / energy.sum()
    return {"missed": float(share), "error": float(spread)}


def edge_figures(data: RealData, fitted: real_methods.Fitted) -> dict[str, float]:
    """AP of the weights and F of the method's own edges, against the true edges."""
    if data.edges is None:
        return {}
    true = np.zeros((data.n_nodes, data.n_nodes), dtype=bool)
    true[tuple(data.edges.T)] = True
    true |= true.T
    figures = {}
    if fitted.edge_weights is not None:
        upper = np.triu_indices(data.n_nodes, 1)
        figures["AP"] = float(average_precision_score(true[upper], fitted.edge_weights[upper]))
    if fitted.own_edges is not None:
        hits = int(true[tuple(np.asarray(fitted.own_edges).T)].sum())
        figures["F"] = 2.0 * hits / (len(data.edges) + len(fitted.own_edges))
    return figures


class OutOfTimeError(Exception):
    pass


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Stop what takes longer; only in the main thread of a process."""

    def stop(*_: object) -> None:
        raise OutOfTimeError(f"stopped after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@cache
def compile_first(method: str) -> None:
    """What is compiled is not part of the time."""
    if real_methods.METHODS[method].ours:
        X = np.random.default_rng(0).standard_normal((40, 8)) @ np.triu(np.ones((8, 8)))
        real_methods.fit(method, X)


def score(cell: Cell, data: RealData) -> dict[str, Any]:
    """Fit, predict and compare, with one thread."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile_first(cell.method)
        start = time.process_time()  # of the processor: other work on the machine does not count
        fitted = real_methods.fit(cell.method, data.X_train)
        result: dict[str, Any] = {"seconds": time.process_time() - start, "status": fitted.status}
        for k, hiding in enumerate(HIDINGS):
            if fitted.predict is not None:
                rng = np.random.default_rng([cell.seed, 77, k])
                hidden = hidden_entries(data, hiding, rng)
                try:
                    filled = fitted.predict(np.where(hidden, np.nan, data.X_test))
                except ValueError:  # its graph may still be right
                    result["status"] += ", refuses to predict"
                    break
                result[hiding] = missed(data, filled, hidden)
    if real_methods.METHODS[cell.method].takes_nan is False and np.isnan(data.X_train).any():
        result["status"] += ", NaN filled"
    return result | edge_figures(data, fitted)


@cache
def _code(ours: bool) -> str:
    """What tells one state of the code behind a method from another."""
    if not ours:
        return sklearn.__version__
    import heatgraph

    folder = Path(heatgraph.__file__).parent
    text = b"".join(path.read_bytes() for path in sorted(folder.rglob("*.py")))
    return hashlib.sha256(text).hexdigest()[:12]


def cell_path(cell: Cell) -> Path:
    """Where a finished cell is kept: a change of data, scores or library is another place."""
    code = _code(real_methods.METHODS[cell.method].ours)
    data = path_of(cell.data, cell.seed, N_SIGNALS).stem
    method = cell.method.replace(" ", "-")
    return CACHE / "cells" / f"{data}-{cell.size}-{method}-{code}-s{VERSION}.json"


def run_cell(cell: Cell, limit: int, fresh: bool = False) -> dict[str, Any] | None:
    """From the file of an earlier run, else anew; None where there is nothing to run.

    A method that is not installed or fails gives its reason as the status.
    """
    path = cell_path(cell)
    if path.exists() and not fresh:
        return json.loads(path.read_text())
    data = sized(cell)
    if data is None or (data.edges is None and not real_methods.METHODS[cell.method].predicts):
        return None
    try:
        with time_limit(limit):
            result = score(cell, data)
    except ImportError:
        return {**cell._asdict(), "status": "absent from this version"}  # not kept: it may come
    except Exception as error:  # any failure of a method is a result about it
        result = {"status": f"failed: {type(error).__name__}: {str(error)[:120]}"}
    result = {**cell._asdict(), "n_train": len(data.X_train), **result}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(result))
    part.replace(path)
    return result
