"""Where heat was released on a plate: how often the strongest source is the nearest sensor.

Run with ``make bench-accuracy`` or ``python -m benchmarks.bench_localise [--picture PATH]``.

Models learn from 500 signals of the plate of `benchmarks.real_simulated`, on which heat was
released at twelve cells on average.  Then one unit of heat is released at a random cell, and the 64
sensors are read once, after some time, with the noise that the signals for learning have.
``locate`` and the weight of its penalty were designed on the seeds 101 to 103.  The seeds here are
11 to 15.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks.real_data import JUDGEMENT_SEEDS, N_SIGNALS, NOISE
from benchmarks.real_simulated import make_plate
from heatgraph import Graph, HeatCovariance, LearnHeat

Array = NDArray[np.float64]
Ints = NDArray[np.intp]

SIDE, CELLS = 8, 40  # sensors and cells along an edge of the plate
PLACES = np.arange(SIDE) * CELLS // SIDE + CELLS // (2 * SIDE)
TIMES = (5.0, 10.0, 20.0, 40.0, 60.0, 80.0)
N_RELEASES = 200  # for each time and seed
LABELS = {
    "hottest": "the hottest sensor",
    "code": "LearnHeat().code: learned scales",
    "positive": "LearnHeat(positive=True).code",
    "sparse": "LearnHeat(positive=True).locate",
    "gaussian": "HeatCovariance().locate",
    "grid": "locate on the grid of sensors (oracle)",
}


def release(time: float, seed: int, noise: float) -> tuple[Array, Ints]:
    """What the sensors see of one unit of heat, (M, N), and the sensor nearest to it, (M,).

    Finite differences in space; the time is exact, by the eigenvectors of a line of cells.
    """
    rng = np.random.default_rng([seed, 77])
    path = np.diag(np.ones(CELLS - 1), 1)
    path = path + path.T
    lam, U = np.linalg.eigh(np.diag(path.sum(axis=0)) - path)
    seen = ((U * np.exp(-time * lam)) @ U.T)[PLACES]
    cell = rng.integers(CELLS, size=(N_RELEASES, 2))
    X = np.einsum("im,jm->mij", seen[:, cell[:, 0]], seen[:, cell[:, 1]]).reshape(N_RELEASES, -1)
    near = np.abs(cell[:, :, None] - PLACES).argmin(axis=2)
    return X + noise * rng.standard_normal(X.shape), near[:, 0] * SIDE + near[:, 1]


def strongest(sources: Array) -> Ints:
    """The node of the strongest source of each signal, of sources (M, S, N)."""
    return np.abs(sources).max(axis=1).argmax(axis=1)


def by_locate(model: LearnHeat | HeatCovariance) -> Callable[[Array], Ints]:
    """The strongest source by ``locate``; signals are heat above the level of the nodes."""

    def find(X: Array) -> Ints:
        found = model.locate(X + model.location_)
        return found.groupby("signal")["node"].first().reindex(range(len(X)), fill_value=-1)

    return find


def ways(X: Array, edges: Ints) -> dict[str, Callable[[Array], Ints]]:
    """How the place of heat is found, each from signals (M, N), after learning from ``X``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # alpha at the end of what is tried: many sources
        free, sparse = LearnHeat().fit(X), LearnHeat(positive=True).fit(X)
    gaussian = HeatCovariance().fit(X)
    grid = copy.copy(gaussian)
    grid.graph_ = Graph(edges, np.ones(len(edges)), X.shape[1]).normalized()
    return {
        "hottest": lambda signals: signals.argmax(axis=1),
        "code": lambda signals: strongest(free.code(signals).sources),
        "positive": lambda signals: strongest(sparse.code(signals).sources),
        "sparse": by_locate(sparse),
        "gaussian": by_locate(gaussian),
        "grid": by_locate(grid),
    }


def shares(seed: int) -> dict[str, list[float]]:
    """How often each way finds the nearest sensor, at each time."""
    data = make_plate(seed, N_SIGNALS)
    found = ways(data.X_train, data.edges)
    tests = [release(time, seed, NOISE * float(data.X_train.std())) for time in TIMES]
    return {
        name: [float(np.mean(find(X) == near)) for X, near in tests] for name, find in found.items()
    }


def draw(table: dict[str, Array], path: Path) -> None:
    """The shares against time, one line for each way."""
    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    ax = figure.subplots()
    for name, values in table.items():
        style = {"hottest": "k--", "grid": "k:"}.get(name, "o-")
        ax.plot(TIMES, values.mean(axis=0), style, label=LABELS[name])
    ax.set(xlabel="time from the release to the reading", ylabel="nearest sensor found")
    ax.set_ylim(0.0, 1.03)
    ax.legend(fontsize="small", loc="lower left")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, help="where to draw the shares")
    given = parser.parse_args()
    rows = [shares(seed) for seed in JUDGEMENT_SEEDS]
    table = {name: np.array([row[name] for row in rows]) for name in LABELS}
    print(f"{'nearest sensor found, by time':<42}" + " ".join(f"{t:>6.0f}" for t in TIMES))
    for name, values in table.items():
        print(f"{LABELS[name]:<42}" + " ".join(f"{v:>6.3f}" for v in values.mean(axis=0)))
    worst = table["gaussian"].min(axis=0)
    print(f"{'HeatCovariance().locate, worst plate':<42}" + " ".join(f"{v:>6.3f}" for v in worst))
    if given.picture is not None:
        draw(table, given.picture)


if __name__ == "__main__":
    main()
