"""Temperatures around Brittany: what each method foretells, a cell a treatment of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf

from heatgraph.baselines import SmoothGraph
from heatgraph.datasets import PlacedSignals, load_molene, neighbour_graph
from heatgraph.estimators import LearnHeat
from heatgraph.experiments.prediction import Missed, in_parts

__all__ = ["METHODS", "TREATMENTS", "compare", "load", "treat"]

Array = NDArray[np.float64]

EVERY = 6  # hours between the signals used; those between are nearly the same
HELD_OUT = 4  # every fourth day
N_PARTS = 4
N_NEIGHBOURS = 4
RIDGE = 1e-9
# What is left of the temperatures, and the words for it.
TREATMENTS = {
    "kelvin": "temperatures, in kelvin",
    "station": "less the mean of each station",
    "hour": "less the means of each station and hour",
    "change": "change in three hours, less the mean of each hour",
}
METHODS = (
    "mean of the other stations",
    "LearnHeat()",
    "SmoothGraph()",
    "geographic graph",
    "regression, no graph",
)


@lru_cache(maxsize=2)
def load(data_home: str | None) -> PlacedSignals:
    """The stations whose place is known."""
    return load_molene(data_home).placed()


def treat(T: Array, treatment: str) -> Array:
    """Signals (M, N) of hourly temperatures."""
    if treatment == "kelvin":
        return T
    T = T[3:] - T[:-3] if treatment == "change" else T - T.mean(axis=0)
    return T if treatment == "station" else T - T.mean(axis=1, keepdims=True)


def compare(data_home: str | None, data: str, treatment: str, seed: int) -> dict[str, Any]:
    """Learn from three days of four, hide entries of the fourth; ``data`` is the digest."""
    placed = load(data_home)
    X = treat(placed.signals.to_numpy(), treatment)
    day = np.arange(len(X)) // 24
    out = day % HELD_OUT == HELD_OUT - 1
    train, test = X[~out][::EVERY], X[out][::EVERY]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LearnHeat(random_state=seed).fit(train)
        smooth = SmoothGraph().fit(train)
    L = neighbour_graph(placed.coordinates, N_NEIGHBOURS).laplacian().toarray()
    precision = np.linalg.inv(ledoit_wolf(train, assume_centered=True)[0])
    methods: dict[str, Callable[[Array], Array]] = dict(
        zip(
            METHODS,
            (
                _row_mean,
                model.impute,
                lambda x: _interpolate(smooth.laplacian_, x),
                lambda x: _interpolate(L, x),
                lambda x: _interpolate(precision, x),
            ),
            strict=True,
        )
    )
    parts = list(in_parts(np.ones(test.shape, dtype=bool), N_PARTS, np.random.default_rng(seed)))
    days = day[out][::EVERY]
    results = {}
    for name, method in methods.items():
        missed = [Missed.of(method(np.where(p, np.nan, test)), test, p) for p in parts]
        total = sum(missed[1:], missed[0])
        results[name] = [_by(days, total.error), _by(days, total.energy)]
    return {
        "missed": results,
        "graphs": {
            "LearnHeat()": _listed(model),
            "SmoothGraph()": _listed(smooth),
        },
        "scales": model.scales_.tolist(),
        "status": str(model.status_),
        "sources": float(np.count_nonzero(model.sources_) / len(train)),
        "n_train": len(train),
        "n_hidden": _by(days, np.full(len(test), float(test.shape[1]))),
        "warnings": sorted({str(w.message).split(":")[0][:200] for w in caught}),
    }


def _listed(model: Any) -> dict[str, Any]:
    return {"edges": model.graph_.edges.tolist(), "weights": model.graph_.weights.tolist()}


def _by(days: NDArray[np.int64], values: Array) -> list[float]:
    """Sums over days, which are the units that vary: hours of one day go together."""
    return [float(values[days == one].sum()) for one in np.unique(days)]


def _row_mean(X: Array) -> Array:
    return np.broadcast_to(np.nanmean(X, axis=1, keepdims=True), X.shape)


def _interpolate(Q: Array, X: Array) -> Array:
    """The hidden entries that minimise ``x^T Q x`` given the visible ones, a signal at a time."""
    filled = X.copy()
    ridge = RIDGE * float(np.abs(Q).max())
    for row in filled:
        h = np.isnan(row)
        if h.any():
            block = Q[np.ix_(h, h)] + ridge * np.eye(int(h.sum()))
            row[h] = np.linalg.solve(block, -Q[np.ix_(h, ~h)] @ row[~h])
    return filled
