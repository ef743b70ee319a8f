"""The signals that the page shows: their sources, their fit, what was filled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from scipy.sparse.csgraph import shortest_path
from scipy.sparse.linalg import expm_multiply

from heatgraph.arrays import Array, Ints
from heatgraph.estimators import HeatCovariance
from heatgraph.graph import Graph
from heatgraph.kernels.eigen import DenseHeat
from heatgraph.report.canvas import readable

MAX_GAPS = 200  # rows of a table that a reader still looks at
STRONGEST = 3  # of the sources of a signal, which are at every node
INTERVAL = 1.96  # standard deviations that hold 95% of a Gaussian


@dataclass(frozen=True)
class Gap:
    """A value that was not observed: its mean and the ends of its 95% interval."""

    signal: int
    node: int
    mean: float
    low: float
    high: float


def gaps_of(model: Any, signals: Any, at_most: int = MAX_GAPS) -> tuple[list[Gap], int]:
    """The first gaps of signals as a Gaussian model fills them, and how many there are."""
    if not isinstance(model, HeatCovariance) or signals is None:
        return [], 0
    missing = np.isnan(np.asarray(signals, dtype=np.float64))
    if not missing.any():
        return [], 0
    places = np.argwhere(missing)
    mean, std = (np.asarray(part) for part in model.impute(signals, return_std=True))
    found = [
        Gap(m, n, mean[m, n], mean[m, n] - INTERVAL * std[m, n], mean[m, n] + INTERVAL * std[m, n])
        for m, n in places[:at_most].tolist()
    ]
    return found, len(places)


def mean_heat(model: HeatCovariance, signals: Any) -> tuple[Array, Array]:
    """The mean heat (M, S, N) released, given signals, and the same with the strongest only."""
    H = np.asarray(model.transform(signals)).reshape(-1, model.scales_.size, model.n_features_in_)
    flat = np.abs(H).reshape(len(H), -1)
    least = np.sort(flat, axis=1)[:, -min(STRONGEST, flat.shape[1])]
    return H, np.where(np.abs(H) >= least[:, None, None], H, 0.0)


def with_graph(graph: Graph, learned: Graph) -> Graph:
    """The edges of the graph, and those of the model that the graph leaves out.

    A graph may come from a fit of its own, or be the mean of several: its edges need not be among
    the model's.
    """
    code = learned.edges[:, 0] * learned.n_nodes + learned.edges[:, 1]
    rest = ~np.isin(code, graph.edges[:, 0] * learned.n_nodes + graph.edges[:, 1])
    edges = np.concatenate([graph.edges, learned.edges[rest]]).reshape(-1, 2)
    weights = np.concatenate([graph.weights, learned.weights[rest]])
    return Graph(edges, weights, learned.n_nodes, learned.names)


def p_value(confidence: float) -> str:
    """A p-value as it is written."""
    p = 1.0 - confidence
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"


DATES = (
    "ISO8601",
    *(f"{day}{clock}" for day in ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%b %d, %Y", "%b-%y")
      for clock in ("", " %H:%M", " %H:%M:%S", " %I:%M %p")),
)  # fmt: skip
FEWEST_DATES = 3
EARLIEST = 1600  # year; four digits below it are a number
MAX_VALUES = 250_000  # of signals in a page: with their fit, below 3 MB
MAX_DENSE = 1500  # nodes up to which the kernel is taken by an eigendecomposition
MAX_STARTS = 100  # nodes that heat is released at, one by one, to see how far it reaches
MAX_HOPS = 8


@dataclass(frozen=True, eq=False)
class Shown:
    """Signals (n_shown, n_nodes) with NaN where not observed, their fit and their sources.

    ``values`` is None where only the model is known, ``fit`` where it has none.  ``sources`` has
    the columns signal, scale, node, value.  ``explained`` is the share of the energy of the
    observed values, around the level of the nodes where the model has one.  ``n_signals`` counts
    those not shown too; ``rows`` are the numbers of those shown.  ``times`` are their dates, in
    milliseconds, where their labels are dates in order.
    """

    labels: tuple[str, ...]
    values: Array | None
    fit: Array | None
    sources: Array
    explained: Array | None
    n_signals: int
    rows: Ints
    times: Array | None = None


def show_signals(
    model: Any, learned: Graph, signals: Any, sources: Any, names: Any
) -> Shown | None:
    """What can be shown: the signals, or else what the model made of those it was learned from."""
    if signals is None:
        # Signals that were never in memory leave no sources behind.
        sources = getattr(model, "sources_", None)
        if sources is None:
            return None
    values = None if signals is None else np.asarray(signals, dtype=np.float64)
    if values is not None and (values.ndim != 2 or values.shape[1] != learned.n_nodes):
        raise ValueError(
            f"signals must be (n_signals, {learned.n_nodes}), one column per node, got "
            f"{values.shape}."
        )
    n_signals = np.shape(sources)[0] if values is None else len(values)
    if not n_signals:
        return None
    rows = evenly(n_signals, max(1, MAX_VALUES // learned.n_nodes))
    values = None if values is None else values[rows]
    H, ringed = _sources(model, signals, sources, rows)
    fit, level = None, np.zeros(learned.n_nodes)
    if H is not None:
        level, fit = model.location_, model.inverse_transform(H)
    elif values is not None and hasattr(model, "transform"):
        fit = np.asarray(model.transform(_rows(signals, rows)), dtype=np.float64)
    if names is None and isinstance(signals, pd.DataFrame):
        # Numbers that pandas made up say less than the position.
        names = None if isinstance(signals.index, pd.RangeIndex) else signals.index.tolist()
    return Shown(
        _labels(names, rows),
        values,
        fit,
        _sparse(ringed),
        None if values is None or fit is None else explained(values - level, fit - level),
        n_signals,
        rows,
        None if names is None or values is None else dates_of([names[k] for k in rows.tolist()]),
    )


def dates_of(labels: Sequence[Any]) -> Array | None:
    """The dates that labels in order stand for, in milliseconds, or None.

    None as well where days and months may be exchanged.
    """
    texts, read = pd.Series([str(label) for label in labels], dtype=object), list[Array]()
    if len(texts) < FEWEST_DATES or not all(map(str.isascii, texts)):
        return None
    for form in DATES:
        times = pd.to_datetime(texts, errors="coerce", format=form, utc=True)
        if times.isna().any() or times.dt.year.lt(EARLIEST).any():
            continue
        found: Array = np.asarray(times.dt.as_unit("ms").astype(np.int64), dtype=np.float64)
        if (np.diff(found) > 0.0).all() and not any(np.array_equal(found, one) for one in read):
            read.append(found)
    return read[0] if len(read) == 1 else None


def evenly(n: int, at_most: int) -> Ints:
    """All of ``n``, or as many as there may be, at even distances."""
    if n <= at_most:
        return np.arange(n)
    return np.unique(np.linspace(0, n - 1, at_most).round().astype(np.intp))


def explained(values: Array, fit: Array) -> Array:
    """The share of the energy of each signal that its fit explains, where it was observed."""
    energy = np.nansum(values**2, axis=1)
    missed = np.nansum((values - fit) ** 2, axis=1)
    share: Array = 1.0 - np.divide(missed, energy, out=np.ones_like(energy), where=energy > 0.0)
    return share


def reach(graph: Graph, learned: Graph, scales: Array) -> list[Array]:
    """For each scale, the heat at nodes 0, 1, 2, ... edges from where a unit was released.

    Rows ``(distance, tenth percentile, mean, ninetieth percentile)`` over pairs of nodes; the
    distance counts edges of the cut graph.
    """
    N = graph.n_nodes
    starts = evenly(N, MAX_STARTS)
    hops = shortest_path(graph.adjacency(), unweighted=True, indices=starts)
    unit = np.zeros((N, starts.size))
    unit[starts, np.arange(starts.size)] = 1.0
    L = learned.laplacian()
    kernel = DenseHeat.from_laplacian(L.toarray()) if N <= MAX_DENSE else None
    curves = []
    for tau in np.asarray(scales, dtype=np.float64).tolist():
        if kernel is not None:
            heat = kernel.operator(tau)[starts]
        else:
            heat = expm_multiply(-tau * L, unit, traceA=-tau * L.trace()).T
        rows = []
        for d in range(MAX_HOPS + 1):
            there = heat[hops == d]
            if there.size:
                low, high = np.quantile(there, [0.1, 0.9])
                rows.append((d, low, there.mean(), high))
        curves.append(np.array(rows))
    return curves


def _rows(signals: Any, rows: Ints) -> Any:
    return signals.iloc[rows] if hasattr(signals, "iloc") else np.asarray(signals)[rows]


def _sources(
    model: Any, signals: Any, sources: Any, rows: Ints
) -> tuple[Array | None, Array | None]:
    """The sources of the signals shown, and those of them that are ringed."""
    if issparse(sources):  # of a large graph
        flat = sources.reshape((sources.shape[0], -1)).tocsr()
        H = flat[rows].toarray().reshape(-1, *sources.shape[1:])
        return H, H
    if sources is not None:
        H = np.asarray(sources, dtype=np.float64)[rows]
        return H, H
    if signals is not None and isinstance(model, HeatCovariance):
        return mean_heat(model, _rows(signals, rows))
    if signals is None or not hasattr(model, "code"):
        return None, None
    H = np.asarray(model.code(_rows(signals, rows)).sources, dtype=np.float64)
    return H, H


def _sparse(H: Array | None) -> Array:
    if H is None:
        return np.empty((0, 4))
    found = np.argwhere(H)
    return np.column_stack([found, H[tuple(found.T)]])


def _labels(names: Any, rows: Ints) -> tuple[str, ...]:
    if names is None:
        return tuple(f"signal {k + 1}" for k in rows.tolist())
    return tuple(readable(names[k]) for k in rows.tolist())
