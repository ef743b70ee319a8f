"""The paper's synthetic problems: graphs of three models, and heat that diffused on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.experiments.base import Readings
from heatgraph.graph import Graph

__all__ = ["MODELS", "N_INSTANCES", "N_NODES", "Problem", "draw"]

Array = NDArray[np.float64]

N_NODES, N_SIGNALS, N_ATOMS, N_INSTANCES = 20, 100, 3, 10
NOISE = 0.02
# The scales that the signals of a model diffused at.
MODELS = {"rbf": (2.5, 4.0), "er": (2.5, 4.0), "ba": (1.0, 4.0)}


@dataclass(frozen=True, eq=False)
class Problem:
    """A graph, signals (M, N) that diffused on it at these scales, their sources (M, S, N)."""

    graph: Graph
    signals: Array
    sources: Array
    scales: tuple[float, ...]


def draw(
    kind: str,
    instance: int,
    seed: int,
    *,
    noisy: bool,
    readings: Readings,
    n_signals: int = N_SIGNALS,
) -> Problem:
    """One random problem; the same graph and the same sources with and without noise.

    Examples
    --------
    >>> problem = draw("er", 0, 0, noisy=False, readings=Readings())
    >>> problem.signals.shape, problem.graph.n_nodes
    ((100, 20), 20)
    """
    stream = np.random.SeedSequence(seed, spawn_key=(list(MODELS).index(kind), instance))
    graph_seed, signal_seed = stream.spawn(2)
    graph = make_graph(kind, N_NODES, np.random.default_rng(graph_seed), **_options(kind, readings))
    X, H = make_heat_signals(
        graph,
        MODELS[kind],
        n_signals,
        N_ATOMS,
        noise_std=noise_std(readings) if noisy else 0.0,
        random_state=np.random.default_rng(signal_seed),
    )
    return Problem(graph, X, H, MODELS[kind])


def noise_std(readings: Readings) -> float:
    """The standard deviation of the noise, as the paper is read."""
    return NOISE if readings.noise == "std" else float(np.sqrt(NOISE))


def _options(kind: str, readings: Readings) -> dict[str, Any]:
    options: dict[str, dict[str, Any]] = {
        "rbf": {"threshold": readings.rbf},
        "ba": {"m": readings.ba},
    }
    return options.get(kind, {})
