"""Pickups in New York: one fit is one cell of a sweep."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from heatgraph.datasets import PlacedSignals, load_uber, load_yellow_cab
from heatgraph.estimators import LearnHeat
from heatgraph.experiments.prediction import units
from heatgraph.graph import Graph

# The five slots of the paper, on weekdays: the hours from and before.
SLOTS = {
    "0-7": (0, 7),
    "7-10": (7, 10),
    "10-16": (10, 16),
    "16-19": (16, 19),
    "19-24": (19, 24),
}
SCALES = (1.0, 3.0)
MAX_ITER = 10_000  # so that every fit converges
GROUPS = ("airports", "boroughs and Manhattan", "inside Manhattan", "elsewhere")


@lru_cache(maxsize=4)
def load(data_home: str | None, source: str) -> PlacedSignals:
    """The pickups of Uber or of yellow cabs."""
    return (load_uber if source == "uber" else load_yellow_cab)(data_home)


def weekdays(data: PlacedSignals) -> pd.DataFrame:
    """The hours from Monday to Friday."""
    hours = pd.DatetimeIndex(data.signals.index)
    return data.signals[hours.day_of_week < 5]


def learn_slot(
    data_home: str | None,
    data: str,
    source: str,
    reading: str,
    slot: str,
    alpha: float,
    beta: float,
    draw: int | None,
    seed: int,
) -> dict[str, Any]:
    """The graph of a slot, or with ``draw`` of as many weekday hours of any time.

    ``reading`` "counts" takes the pickups as they are, like the paper; "levelled" divides those of
    each zone by their mean over all weekday hours.  ``alpha`` and ``beta`` are in the units of the
    signals, ``data`` is their digest.

    Differs from the paper: the fit starts from equal weights on all pairs, not from a random graph,
    and the scales, of which the paper gives none, are held.
    """
    table = weekdays(load(data_home, source))
    first, end = SLOTS[slot]
    inside = (pd.DatetimeIndex(table.index).hour >= first) & (
        pd.DatetimeIndex(table.index).hour < end
    )
    X = table.to_numpy()
    if reading == "levelled":
        mean = X.mean(axis=0)
        X = np.divide(X, mean, out=np.zeros_like(X), where=mean > 0)
    if draw is not None:
        rng = np.random.default_rng([seed, 4, list(SLOTS).index(slot), draw])
        inside = rng.permutation(inside)
    X = X[inside]
    alpha_unit, beta_unit = units(X)
    model = LearnHeat(
        n_scales=len(SCALES),
        scales=SCALES,
        learn_scales=False,
        atoms="raw",
        alpha=alpha * alpha_unit,
        beta=beta * beta_unit,
        tol=1e-3,
        max_iter=MAX_ITER,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the status is returned
        model.fit(X)
    return {
        "edges": model.graph_.edges.tolist(),
        "weights": model.graph_.weights.tolist(),
        "n_signals": len(X),
        "status": str(model.status_),
        "sources": float(np.count_nonzero(model.sources_) / len(X)),
    }


def shares(graph: Graph) -> dict[str, float]:
    """The share of the weight on each group of edges, by the ends that they have."""
    names = [str(name) for name in graph.names or ()]
    group = np.array([_group(names[i], names[j]) for i, j in graph.edges])
    total = float(graph.weights.sum()) or 1.0
    return {name: float(graph.weights[group == name].sum() / total) for name in GROUPS}


def _group(a: str, b: str) -> str:
    if "AP" in (a[:2], b[:2]):
        return GROUPS[0]
    inside = (a[:2] == "MN") + (b[:2] == "MN")
    return {2: GROUPS[2], 1: GROUPS[1], 0: GROUPS[3]}[inside]
