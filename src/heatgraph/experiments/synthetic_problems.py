"""Random problems: a graph of one of the paper's models, and heat that diffused on it.

Cells depend on this module, and not on what a user may ask for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heatgraph.datasets.synthetic import make_graph, make_heat_signals
from heatgraph.graph import Graph

__all__ = ["CUT", "MODELS", "N_ATOMS", "Problem", "Spec", "draw"]

Array = NDArray[np.float64]
Spec = dict[str, Any]  # what `draw` is called with: JSON can hold it

N_ATOMS = 3
# The scales that the signals of a model diffused at.
MODELS = {"rbf": (2.5, 4.0), "er": (2.5, 4.0), "ba": (1.0, 4.0)}
CUT = 1e-4


@dataclass(frozen=True, eq=False)
class Problem:
    """A graph, signals (M, N) that diffused on it at these scales, their sources (M, S, N).

    ``start`` holds random weights on all pairs, in the order of the upper triangle.
    """

    graph: Graph
    signals: Array
    sources: Array
    scales: tuple[float, ...]
    start: Array


def draw(
    kind: str,
    options: dict[str, Any],
    n_nodes: int,
    n_signals: int,
    noise_std: float,
    seed: int,
    instance: int,
    noise_db: float | None = None,
) -> Problem:
    """One random problem; the same graph and the same sources with and without noise.

    With ``noise_db`` the noise is so many decibels below the signals of this problem, and
    ``noise_std`` is not looked at.

    Examples
    --------
    >>> drawn = draw("er", {}, 20, 100, noise_std=0.0, seed=0, instance=0)
    >>> drawn.signals.shape, drawn.graph.n_nodes
    ((100, 20), 20)
    """
    stream = np.random.SeedSequence(seed, spawn_key=(list(MODELS).index(kind), instance))
    of_graph, of_signals, of_start = stream.spawn(3)
    graph = make_graph(kind, n_nodes, np.random.default_rng(of_graph), **options)

    def signals(std: float) -> tuple[Array, Array]:
        rng = np.random.default_rng(of_signals)
        return make_heat_signals(graph, MODELS[kind], n_signals, N_ATOMS, std, random_state=rng)

    if noise_db is not None:
        clean, _ = signals(0.0)
        noise_std = float(np.sqrt(np.mean(clean**2) * 10.0 ** (-0.1 * noise_db)))
    X, H = signals(noise_std)
    w = np.random.default_rng(of_start).random(n_nodes * (n_nodes - 1) // 2)
    return Problem(graph, X, H, MODELS[kind], w * (0.5 * n_nodes / w.sum()))
