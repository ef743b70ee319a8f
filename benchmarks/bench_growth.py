"""How the cost of a step grows with nodes, signals, scales and candidate edges.

A step is one evaluation of a graph near the true one on all signals, from the codes of the last,
and the quasi-Newton step to the next.  Seconds are those of the processor, on one core, so that
they hardly depend on what else runs; a fit takes some hundred steps.  ``--draw FILE`` draws them.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph import CandidateEdges
from heatgraph.models.heat import ATOMS, HeatObjective, Signals
from heatgraph.solvers.engine import LocalEngine
from heatgraph.solvers.heat import solve_heat
from heatgraph.solvers.result import Solution
from heatgraph.solvers.threads import bounded_blas

USUAL = {"N": 100, "M": 1000, "S": 2, "E": 4950}
GRID = {
    "N": (25, 50, 100, 200, 400),
    "M": (250, 1000, 4000, 16000),
    "S": (1, 2, 3, 4),
    "E": (200, 800, 2400, 4950),
}
TITLES = {"N": "nodes", "M": "signals", "S": "scales", "E": "candidate edges"}
STEPS = 4


@dataclass(frozen=True)
class Cost:
    seconds: float
    sources: float


def step_cost(N: int, M: int, S: int, E: int) -> Cost:
    """Processor seconds of a step once codes are warm."""
    graph = make_graph("er", N, random_state=0)
    X, _ = make_heat_signals(graph, (2.5, 4.0), M, 3, 0.02, 0)
    everything = CandidateEdges.complete(N)
    # The edges first, then others: sparse candidates hold the graph.
    order = np.argsort(-everything.weights(graph.laplacian().toarray()), kind="stable")
    kept = np.sort(order[: min(E, everything.n_edges)])
    candidates = CandidateEdges(N, everything.i[kept], everything.j[kept])
    unit = float(np.sqrt(np.square(X).sum(axis=1).mean()))
    f = HeatObjective(candidates, 0.1 * unit, 1e-3 * unit**2 * M / N, ATOMS["unit"])
    # Near the graph that made the signals, where a fit spends its time: sources are few there.
    truth = candidates.weights(graph.laplacian().toarray())
    w = 0.9 * truth * (f.total / truth.sum()) + 0.1 * f.total / candidates.n_edges
    marks: list[float] = []
    fit = solve_heat(
        LocalEngine(f, Signals(np.ascontiguousarray(X.T))),
        Solution(w, np.geomspace(2.5, 4.0, S) if S > 1 else np.array([3.0])),
        learn_scales=True,
        max_iter=3 + STEPS,
        tol=0.0,
        monitor=lambda step: marks.append(time.process_time()),
    )
    return Cost(float(np.median(np.diff(marks)[3:])), float(np.count_nonzero(fit.codes) / M))


def print_table(title: str, points: list[tuple[int, Cost]]) -> None:
    """In Markdown."""
    rows = {
        title: (f"{value:,d}" for value, _ in points),
        "seconds": (f"{cost.seconds:.2g}" for _, cost in points),
        "sources of a signal": (f"{cost.sources:.1f}" for _, cost in points),
    }
    lines = [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    lines.insert(1, "|---" * (len(points) + 1) + "|")
    print("\n".join(lines) + "\n", flush=True)


def draw(path: str, found: dict[str, list[tuple[int, Cost]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(11, 2.9), layout="constrained", sharey=True)
    for ax, (letter, points) in zip(axes, found.items(), strict=True):
        x, y = [p for p, _ in points], [cost.seconds for _, cost in points]
        ax.loglog(x, y, "o-", color="#b3422f")
        slope = np.polyfit(np.log(x[-2:]), np.log(y[-2:]), 1)[0]
        ax.set_title(f"{TITLES[letter]}: slope {slope:.1f}", fontsize=10)
        ax.set_xlabel(f"{TITLES[letter]} ${letter}$")
        ax.set_xticks(x, [f"{p:,d}" for p in x], minor=False)
        ax.set_xticks([], minor=True)
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("seconds of a step, one core")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draw", metavar="FILE")
    given = parser.parse_args()
    found: dict[str, list[tuple[int, Cost]]] = {}
    with bounded_blas():
        step_cost(10, 20, 2, 45)  # loads what is needed
        for letter, values in GRID.items():
            found[letter] = []
            for value in values:
                size = USUAL | {letter: value}
                if letter == "N":
                    size["E"] = value * (value - 1) // 2
                found[letter].append((value, step_cost(**size)))
            print_table(TITLES[letter], found[letter])
    if given.draw:
        draw(given.draw, found)


if __name__ == "__main__":
    main()
