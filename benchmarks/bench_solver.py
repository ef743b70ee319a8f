"""The default solver against the paper's, and one step against the algebra it cannot avoid.

Run with ``make bench`` or ``python -m benchmarks.bench_solver``.  Every ratio compares two
processor times of this run, on the paper's problem: RBF graphs, 100 signals of 3 atoms, scales
(2.5, 4) held, raw atoms, alpha = beta = 0.01, the same random start for both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph import CandidateEdges
from heatgraph.models.heat import ATOMS, HeatObjective, Signals
from heatgraph.solvers.engine import LocalEngine
from heatgraph.solvers.heat import solve_heat
from heatgraph.solvers.palm import solve_paper
from heatgraph.solvers.result import Progress, Solution

Array = NDArray[np.float64]

TAU = np.array([2.5, 4.0])
ALPHA = BETA = 0.01
N_SIGNALS = 100
REPEATS = 5  # of a fit too: each step at its best of as many, as the algebra is


def problem(n: int) -> tuple[HeatObjective, Array, Array]:
    graph = make_graph("rbf", n, random_state=0)
    X, _ = make_heat_signals(graph, TAU, N_SIGNALS, random_state=0)
    candidates = CandidateEdges.complete(n)
    w = np.random.default_rng(0).uniform(size=candidates.n_edges)
    return HeatObjective(candidates, ALPHA, BETA, ATOMS["raw"]), X.T.copy(), w * n / 2 / w.sum()


def best_time(run: Callable[[], object], repeats: int = REPEATS) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def reach(objective: HeatObjective, X: Array, w: Array, target: float) -> Solution:
    """The default solver, stopped as soon as its objective is at the target."""

    def watch(step: Progress) -> None:
        if step.objective <= target:
            raise KeyboardInterrupt

    return solve_heat(
        LocalEngine(objective, Signals(X)),
        Solution(w, TAU),
        learn_scales=False,
        max_iter=1000,
        tol=0.0,
        monitor=watch,
    )


def against_the_paper() -> None:
    print("Time to the objective that solver='paper' reaches (at N = 20 at its own stop, at")
    print("N = 50 and 100 after 50 iterations), same start; both on one thread.")
    print(
        f"{'N':>5} {'paper':>19} {'objective':>10} {'default':>17} {'objective':>10} {'ratio':>6}"
    )
    for n in (20, 50, 100):
        objective, X, w = problem(n)
        limits = {"max_iter": 1000, "tol": 1e-4} if n == 20 else {"max_iter": 50, "tol": 0.0}
        paper = partial(
            solve_paper,
            X,
            objective.candidates,
            objective.candidates.laplacian(w),
            TAU,
            alpha=ALPHA,
            beta=BETA,
            learn_scales=False,
            **limits,
        )
        reference = paper()
        slow = best_time(paper)
        target = float(reference.objective[-1])
        ours = reach(objective, X, w, target)
        fast = best_time(partial(reach, objective, X, w, target), repeats=50)
        print(
            f"{n:>5} {slow:>6.2f} s, {reference.n_iter:>4} iter. {target:>9.4f} "
            f"{fast * 1e3:>7.1f} ms, {ours.n_iter} iter. {ours.objective[-1]:>9.4f} "
            f"{slow / fast:>5.0f}x",
            flush=True,
        )


def unavoidable(objective: HeatObjective, X: Array, w: Array, h: Array) -> float:
    """Bare time of one eigendecomposition and the products that one evaluation needs."""
    L = objective.candidates.laplacian(w)
    U = np.ascontiguousarray(np.linalg.eigh(L)[1])
    S = TAU.size

    def products() -> None:
        for _ in range(S * (S + 1) // 2):  # the blocks of the Gram matrix
            U @ U.T
        Xhat = X.T @ U
        np.vstack([Xhat] * S) @ U.T  # correlations with the atoms
        modes = (h.reshape(-1, len(U)) @ U).reshape(-1, S, len(U))
        Xhat.T @ modes.transpose(1, 0, 2)  # the moments
        U @ L @ U.T  # the gradient out of the eigenbasis

    return best_time(lambda: np.linalg.eigh(L)) + best_time(products)


def against_the_algebra() -> None:
    print("\nOne step of the default solver over the bare time of one eigendecomposition and the")
    print("matrix products that it cannot avoid, on one thread (steps 6 to 15 of a fit, both at")
    print(f"their best of {REPEATS}).")
    print(f"{'N':>5} {'step':>12} {'bare':>12} {'ratio':>6}   objective, residual after")
    for n in (200, 500, 1000):
        objective, X, w = problem(n)
        fits = []
        for _ in range(REPEATS):
            stamps: list[float] = []

            def clock(step: Progress, stamps: list[float] = stamps) -> None:
                stamps.append(time.process_time())

            end = solve_heat(
                LocalEngine(objective, Signals(X)),
                Solution(w, TAU),
                learn_scales=False,
                max_iter=15,
                tol=0.0,
                monitor=clock,
            )
            fits.append(np.diff(stamps)[5:])
        step = float(np.median(np.min(fits, axis=0)))
        bare = unavoidable(objective, X, end.w, end.codes)
        print(
            f"{n:>5} {step * 1e3:>9.1f} ms {bare * 1e3:>9.1f} ms {step / bare:>6.2f}   "
            f"{end.objective[-1]:.4f}, {end.residual:.1e}"
        )


def main() -> None:
    reach(*problem(10), 0.0)  # loads what is needed
    with threadpool_limits(1):
        against_the_paper()
        against_the_algebra()


if __name__ == "__main__":
    main()
