"""Kernels of HeatCovariance on the same signals: what each misses, and how it ranks true edges.

    python -m benchmarks.bench_kernels

Simulated data are those of ``make bench-real``, which makes them; sets that are not there are left
out.  The table goes to ``docs/results/kernels.json`` and ``.txt``.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import heatgraph
from benchmarks.bench_covariance import write
from benchmarks.real_data import load
from heatgraph import Graph, HeatCovariance
from heatgraph.datasets import make_graph, make_heat_signals

KERNELS = ("heat", "diffusion-plus-identity", "tikhonov", "matern", "wave")
SIMULATED = ("plate", "pores", "cable", "power", "water")
SEED = 11  # that took no part in the design
N_SIGNALS = 150  # of a simulation
RESULTS = Path(__file__).parents[1] / "docs" / "results" / "kernels.json"


def problems() -> dict[str, tuple[np.ndarray, Graph]]:
    graph = make_graph("er", 20, random_state=SEED)
    rng, L = np.random.default_rng(SEED), graph.laplacian().toarray()
    heat, _ = make_heat_signals(graph, [1.0], 200, 20, noise_std=0.05, random_state=SEED)
    smooth = np.linalg.solve(np.eye(20) + 4.0 * L, rng.standard_normal((20, 200))).T
    found = {
        "heat on a random graph": (heat, graph),
        "Tikhonov on the same graph": (smooth + 0.05 * rng.standard_normal(smooth.shape), graph),
    }
    for name in SIMULATED:
        try:
            data = load(name, SEED)
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        true = Graph(data.edges, np.ones(len(data.edges)), data.n_nodes)
        found[name] = (data.X_train[:N_SIGNALS], true)
    return found


def row_of(name: str, X: np.ndarray, truth: Graph) -> dict[str, Any]:
    found = heatgraph.compare(X, {k: HeatCovariance(kernel=k) for k in KERNELS}, truth)
    second = found.results[1]
    more = second.excess > 2.0 * second.excess_error
    return {
        "signals": name,
        "nodes": X.shape[1],
        **{
            kernel: {
                "missed": round(found[kernel].missed, 4),
                "error": round(found[kernel].error, 4),
                "AP": round(found[kernel].average_precision, 3),
            }
            for kernel in KERNELS
        },
        "verdict": f"{found.best.name}, {'more than' if more else 'within'} chance",
    }


def table(results: dict[str, Any]) -> str:
    lines = [
        f"Seed {SEED}, at {results['commit'][:9]} on {results['date']}: share missed (AP of the "
        "weights).\n",
        f"| signals, nodes | {' | '.join(KERNELS)} | misses least |",
        "|---" * (len(KERNELS) + 2) + "|",
    ]
    for row in results["rows"]:
        cells = [
            f"{row[k]['missed']:.4f} ± {row[k]['error']:.4f} ({row[k]['AP']:.2f})" for k in KERNELS
        ]
        name = f"{row['signals']}, {row['nodes']}"
        lines.append(f"| {name} | {' | '.join(cells)} | {row['verdict']} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    warnings.simplefilter("ignore")
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()
    results: dict[str, Any] = {"commit": commit, "date": str(datetime.date.today()), "rows": []}
    for name, (X, truth) in problems().items():
        results["rows"].append(row_of(name, X, truth))
        write(RESULTS, json.dumps(results, indent=1) + "\n")
        write(RESULTS.with_suffix(".txt"), table(results))
    print(table(results))


if __name__ == "__main__":
    main()
