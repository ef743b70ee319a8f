"""The paper's protocol: how many graphs and signals, which noise, which parameters are tried."""

from __future__ import annotations

from typing import Any

import numpy as np

from heatgraph.experiments.base import Readings, Settings
from heatgraph.experiments.synthetic_problems import Spec

__all__ = [
    "ALPHAS",
    "BETAS",
    "EPS",
    "grid",
    "n_free_instances",
    "n_instances",
    "noise_std",
    "problem",
]

N_NODES, N_SIGNALS, N_INSTANCES = 20, 100, 10
# Differs from the paper: it calls 0.02 the variance of the noise, which would be near 0 dB and not
# its 13 dB; as a standard deviation it is 13 to 18 dB.  Both other readings are `Readings.noise`.
NOISE, NOISE_DB = 0.02, 13.0

ALPHAS = 10.0 ** np.arange(1.0, -6.1, -0.5)
BETAS = np.array([1.0, 0.1, 0.01])
EPS = np.round(np.arange(0.0, 2.001, 0.02), 2)
# The paper gives no grid for the smooth model, and does not have the penalised templates.
SMOOTH = np.array([(a, a * ratio) for a in (0.01, 0.1, 1.0) for ratio in np.logspace(-3, 1, 33)])
PENALTIES = np.logspace(-1, 2.5, 29)

QUICK_NODES, QUICK_SIGNALS, QUICK_INSTANCES = 8, 30, 2


def n_instances(settings: Settings) -> int:
    """How many random graphs a model."""
    if settings.instances is not None:
        return settings.instances
    return QUICK_INSTANCES if settings.quick else N_INSTANCES


def n_free_instances(settings: Settings, at_most: int | None = None) -> int:
    """On how many of them the estimators run as they come, which takes far longer than a grid."""
    n = n_instances(settings)
    if settings.no_truth_instances is not None:
        n = min(n, settings.no_truth_instances)
    elif settings.quick:
        n = 1
    return n if at_most is None else min(n, at_most)


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
    level: dict[str, Any] = {"noise_std": noise_std(readings) if noisy else 0.0}
    if noisy and readings.noise == "13dB":
        level["noise_db"] = NOISE_DB
    usual = QUICK_SIGNALS if settings.quick else N_SIGNALS
    return {
        "kind": kind,
        "options": options.get(kind, {}),
        "n_nodes": QUICK_NODES if settings.quick else N_NODES,
        "n_signals": usual if n_signals is None else n_signals,
        **level,
        "seed": settings.seed,
        "instance": instance,
    }


def noise_std(readings: Readings) -> float:
    """The standard deviation of the noise, as the paper is read; 0 where its level is in dB."""
    return {"std": NOISE, "variance": float(np.sqrt(NOISE)), "13dB": 0.0}[readings.noise]


def grid(method: str, quick: bool, paper_grid: str = "whole") -> list[list[float]]:
    """The parameters of a method that are tried, a row each.

    ``paper_grid="near"`` leaves, of the grid of the paper's own algorithm, the rows near the best
    ones of our solver: that algorithm takes a second or more for a row, and longest for a small
    alpha.

    Examples
    --------
    >>> len(grid("paper", False)), len(grid("paper", False, "near")), len(grid("templates", False))
    (45, 8, 101)
    """
    heat = [[float(a), float(b)] for b in BETAS for a in ALPHAS]
    near = [[a, b] for a, b in heat if 0.003 < a < 0.2 and b < 0.5]
    paper = heat if paper_grid == "whole" else near
    whole: list[list[float]] = {
        "paper": paper,
        "paper, scales learned": paper,
        "heat": heat,
        "templates": [[float(e)] for e in EPS],
        "penalised": [[float(p)] for p in PENALTIES],
        "smooth": SMOOTH.tolist(),
    }[method]
    return whole[::4] if quick else whole
