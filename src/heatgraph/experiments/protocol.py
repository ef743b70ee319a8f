"""The paper's synthetic problems: graphs of three models, and heat that diffused on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heatgraph.datasets.synthetic import make_graph, make_heat_signals
from heatgraph.experiments.base import Readings, Settings
from heatgraph.graph import Graph

__all__ = [
    "ALPHAS",
    "BETAS",
    "CUT",
    "EPS",
    "MODELS",
    "Problem",
    "Spec",
    "draw",
    "grid",
    "n_instances",
    "noise_std",
    "problem",
]

Array = NDArray[np.float64]
Spec = dict[str, Any]  # what `draw` is called with: JSON can hold it

N_NODES, N_SIGNALS, N_ATOMS, N_INSTANCES = 20, 100, 3, 10
NOISE = 0.02
# The scales that the signals of a model diffused at.
MODELS = {"rbf": (2.5, 4.0), "er": (2.5, 4.0), "ba": (1.0, 4.0)}

CUT = 1e-4
ALPHAS = 10.0 ** np.arange(1.0, -6.1, -0.5)
BETAS = np.array([1.0, 0.1, 0.01])
EPS = np.round(np.arange(0.0, 2.001, 0.02), 2)
# The paper gives no grid for the smooth model, and does not have the penalised templates.
SMOOTH = np.array([(a, a * ratio) for a in (0.01, 0.1, 1.0) for ratio in np.logspace(-3, 1, 33)])
PENALTIES = np.logspace(-1, 2.5, 29)

QUICK_NODES, QUICK_SIGNALS, QUICK_INSTANCES = 8, 30, 2


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


def n_instances(settings: Settings) -> int:
    """How many random graphs a model."""
    if settings.instances is not None:
        return settings.instances
    return QUICK_INSTANCES if settings.quick else N_INSTANCES


def problem(
    settings: Settings,
    kind: str,
    instance: int,
    *,
    noisy: bool,
    readings: Readings | None = None,
    n_signals: int | None = None,
) -> Spec:
    """What a random problem is made of, as parameters of a cell.

    Only what matters for this model is in it, so that readings of other models share its cells.
    """
    readings = settings.readings if readings is None else readings
    options: dict[str, dict[str, Any]] = {
        "rbf": {"threshold": readings.rbf},
        "ba": {"m": readings.ba},
    }
    usual = QUICK_SIGNALS if settings.quick else N_SIGNALS
    return {
        "kind": kind,
        "options": options.get(kind, {}),
        "n_nodes": QUICK_NODES if settings.quick else N_NODES,
        "n_signals": usual if n_signals is None else n_signals,
        "noise_std": noise_std(readings) if noisy else 0.0,
        "seed": settings.seed,
        "instance": instance,
    }


def noise_std(readings: Readings) -> float:
    """The standard deviation of the noise, as the paper is read."""
    return NOISE if readings.noise == "std" else float(np.sqrt(NOISE))


def draw(
    kind: str,
    options: dict[str, Any],
    n_nodes: int,
    n_signals: int,
    noise_std: float,
    seed: int,
    instance: int,
) -> Problem:
    """One random problem; the same graph and the same sources with and without noise.

    Examples
    --------
    >>> drawn = draw(**problem(Settings(), "er", 0, noisy=False))
    >>> drawn.signals.shape, drawn.graph.n_nodes
    ((100, 20), 20)
    """
    stream = np.random.SeedSequence(seed, spawn_key=(list(MODELS).index(kind), instance))
    rngs = [np.random.default_rng(child) for child in stream.spawn(3)]
    graph = make_graph(kind, n_nodes, rngs[0], **options)
    X, H = make_heat_signals(
        graph, MODELS[kind], n_signals, N_ATOMS, noise_std=noise_std, random_state=rngs[1]
    )
    w = rngs[2].random(n_nodes * (n_nodes - 1) // 2)
    return Problem(graph, X, H, MODELS[kind], w * (0.5 * n_nodes / w.sum()))


def grid(method: str, quick: bool) -> list[list[float]]:
    """The parameters of a method that are tried, a row each.

    Examples
    --------
    >>> len(grid("heat", False)), len(grid("templates", False))
    (45, 101)
    """
    whole: list[list[float]] = {
        "heat": [[float(a), float(b)] for b in BETAS for a in ALPHAS],
        "templates": [[float(e)] for e in EPS],
        "penalised": [[float(p)] for p in PENALTIES],
        "smooth": SMOOTH.tolist(),
    }[method]
    return whole[::4] if quick else whole
