"""Kernels of HeatCovariance on the same signals: what each misses of hidden entries.

python -m benchmarks.bench_kernels
"""

from __future__ import annotations

import warnings

import numpy as np

import heatgraph
from benchmarks.real_simulated import make_plate
from heatgraph import HeatCovariance
from heatgraph.datasets import make_graph, make_heat_signals

KERNELS = ("heat", "tikhonov", "matern")
SEED = 11  # that took no part in the design


def signals() -> dict[str, np.ndarray]:
    graph = make_graph("er", 20, random_state=SEED)
    rng, L = np.random.default_rng(SEED), graph.laplacian().toarray()
    heat, _ = make_heat_signals(graph, [1.0], 200, 20, noise_std=0.05, random_state=SEED)
    smooth = np.linalg.solve(np.eye(20) + 4.0 * L, rng.standard_normal((20, 200))).T
    return {
        "heat on a random graph, 20 nodes": heat,
        "Tikhonov on the same graph": smooth + 0.05 * rng.standard_normal(smooth.shape),
        "plate, finite differences, 64 sensors": make_plate(SEED, 150).X_train[:150],
    }


def main() -> None:
    warnings.simplefilter("ignore")
    print("| signals | " + " | ".join(KERNELS) + " | verdict |")
    print("|---" * (len(KERNELS) + 2) + "|")
    for name, X in signals().items():
        models = {kernel: HeatCovariance(kernel=kernel) for kernel in KERNELS}
        found = heatgraph.compare(X, models)
        cells = [f"{found[k].missed:.4f} ± {found[k].error:.4f}" for k in KERNELS]
        second = found.results[1]
        more = second.excess > 2.0 * second.excess_error
        verdict = f"{found.best.name}, {'more than' if more else 'within'} chance"
        print(f"| {name} | {' | '.join(cells)} | {verdict} |", flush=True)


if __name__ == "__main__":
    main()
