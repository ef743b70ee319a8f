"""What the page shows of a Gaussian model alone: p-values, variances, intervals of gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heatgraph.estimators import HeatCovariance
from heatgraph.graph import Graph

__all__ = ["Gap", "gaps_of", "mean_heat", "p_value", "with_graph"]

Array = NDArray[np.float64]

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

    The graph of a Gaussian model comes from a fit of its own, whose edges need not be among the
    model's.
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
