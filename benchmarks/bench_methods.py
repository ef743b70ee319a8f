"""Every method on the paper's six problems as it comes, and the solvers beside conic ones.

    python -m benchmarks.bench_methods [--graphs 5] [--learn-heat]

Nothing here is tuned by the truth; the truth is what the graphs are scored against.
"""

from __future__ import annotations

import argparse
import time
import warnings

import cvxpy as cp
import numpy as np
from sklearn.base import clone

from heatgraph.comparison.methods import METHODS, NO_GRAPH
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph import CandidateEdges
from heatgraph.metrics import average_precision, edge_scores
from heatgraph.solvers.precision import FORMS, fit_precision

PROBLEMS = {
    f"{noise} {kind.upper()}": (kind, size)
    for noise, size in (("clean", 0.0), ("noisy", 0.02))
    for kind in ("rbf", "er", "ba")
}
FIRST_SEED = 100  # of graphs that no parameter was set on


def recovered(n_graphs: int, learn_heat: bool) -> None:
    names = [name for name in METHODS if name not in NO_GRAPH]
    names = [name for name in names if learn_heat or name != "LearnHeat"]
    print("| F (AP) | " + " | ".join(PROBLEMS) + " | seconds |")
    print("|---" * (len(PROBLEMS) + 2) + "|")
    for name in names:
        cells, seconds = [], []
        for kind, noise in PROBLEMS.values():
            scores = []
            for seed in range(FIRST_SEED, FIRST_SEED + n_graphs):
                graph = make_graph(kind, 20, random_state=seed)
                X, _ = make_heat_signals(graph, (2.5, 4.0), 100, noise_std=noise, random_state=seed)
                start = time.perf_counter()
                model = clone(METHODS[name]).fit(X)
                seconds.append(time.perf_counter() - start)
                found = edge_scores(graph, model.graph_).f_measure
                scores.append((found, average_precision(graph, model.weights_)))
            f, ap = np.mean(scores, axis=0)
            cells.append(f"{f:.3f} ({ap:.3f})")
        print(f"| {name} | {' | '.join(cells)} | {np.median(seconds):.2g} |", flush=True)


def conic(S: np.ndarray, form: str) -> tuple[float, float]:
    """The minimum by Clarabel, and the seconds it takes."""
    n = len(S)
    T = cp.Variable((n, n), symmetric=True)
    sums = cp.sum(T, axis=1)
    off = np.triu(np.ones((n, n)), 1)
    limits = [cp.multiply(off, T) <= 0]
    if form == "shared":
        limits += [sums == cp.Variable()]
    elif form != "generalized":
        limits += [sums >= 0 if form == "dominant" else sums == 0]
    shift = np.full((n, n), 1.0 / n) if form == "combinatorial" else 0.0
    problem = cp.Problem(cp.Minimize(-cp.log_det(T + shift) + cp.trace(S @ T)), limits)
    start = time.perf_counter()
    problem.solve(solver="CLARABEL")
    return float(problem.value), time.perf_counter() - start


def solved(sizes: tuple[int, ...] = (20, 40)) -> None:
    print("| form | nodes | objective, less that of Clarabel | residual | ms | Clarabel, ms |")
    print("|---|---|---|---|---|---|")
    for n in sizes:
        X, _ = make_heat_signals(make_graph("er", n, random_state=0), (1.0,), 5 * n, n, 0.02, 0)
        S = np.cov(X.T, bias=True)
        for form in FORMS:
            fit_precision(S, form, CandidateEdges.complete(n))
            start = time.perf_counter()
            fit = fit_precision(S, form, CandidateEdges.complete(n))
            seconds = time.perf_counter() - start
            value, theirs = conic(S, form)
            print(
                f"| {form} | {n} | {fit.objective[-1] - value:+.1e} | {fit.residual:.0e} | "
                f"{1e3 * seconds:.2g} | {1e3 * theirs:.2g} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=5, help="graphs of each kind")
    parser.add_argument("--learn-heat", action="store_true", help="with LearnHeat, which is slow")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    recovered(given.graphs, given.learn_heat)
    print()
    solved()


if __name__ == "__main__":
    main()
