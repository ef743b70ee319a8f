"""Kernels of HeatCovariance on the same signals: what each misses, and how it ranks true edges.

    python -m benchmarks.bench_kernels [--seeds judgement] [--first 3] [--rows "water, few" ...]

Simulated data, few and many signals, and what is hidden of others are those of ``make bench-real``,
which makes the data; sets that are not there are left out.  A kernel is fitted once in each cell.
The table goes to ``docs/results/kernels.json`` and ``.txt``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_covariance import write
from benchmarks.real_data import SEEDS, RealData
from benchmarks.real_score import SIZES, Cell, hidden_entries, sized
from heatgraph import HeatCovariance
from heatgraph.comparison.table import CHANCE, share_missed
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph import Graph
from heatgraph.kernels.spectral import MaternKernel
from heatgraph.metrics import average_precision

KERNELS: dict[str, Any] = {
    "heat": "heat",
    "tikhonov": "tikhonov",
    "matern": "matern",
    "matern, 1/2": MaternKernel(0.5),
    "wave": "wave",
    "diffusion-plus-identity": "diffusion-plus-identity",
}
SIMULATED = ("plate", "pores", "cable", "power", "water")
OF_A_KERNEL = {"drawn from heat": "heat", "drawn from Tikhonov": "tikhonov"}
RESULTS = Path(__file__).parents[1] / "docs" / "results" / "kernels.json"


def drawn(name: str, size: str, seed: int) -> RealData:
    """Signals of a kernel on a random graph of 20 nodes; 100 or 10 to learn from."""
    graph = make_graph("er", 20, random_state=seed)
    rng, M = np.random.default_rng(seed), 100 if size == "many" else 10
    if OF_A_KERNEL[name] == "heat":
        X, _ = make_heat_signals(graph, [1.0], M + 200, 20, noise_std=0.05, random_state=seed)
    else:
        white = rng.standard_normal((20, M + 200))
        smooth = np.linalg.solve(np.eye(20) + 4.0 * graph.laplacian().toarray(), white).T
        X = smooth + 0.05 * rng.standard_normal(smooth.shape)
    nodes = tuple(map(str, range(20)))
    return RealData(name, X[:M], X[M:], nodes, "drawn here", np.asarray(graph.edges))


NAMES = {f"{name}, {size}": (name, size) for name in (*OF_A_KERNEL, *SIMULATED) for size in SIZES}


def problems(rows: list[str], seeds: tuple[int, ...]) -> Iterator[tuple[str, list[RealData]]]:
    """Each set and size, with the data of each seed."""
    for row in rows:
        name, size = NAMES[row]
        try:
            if name in OF_A_KERNEL:
                data = [drawn(name, size, seed) for seed in seeds]
            else:
                data = [sized(Cell(name, size, seed, "")) for seed in seeds]
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        yield row, [d for d in data if d is not None]


def row_of(name: str, sets: list[RealData], seeds: tuple[int, ...]) -> dict[str, Any]:
    """What each kernel misses of the same entries, in the mean over seeds, and its other figures.

    The signals of a seed weigh as much as those of another.  The second best is told from the best
    by its standard error, paired by signal.
    """
    errors: dict[str, list[np.ndarray]] = {kernel: [] for kernel in KERNELS}
    others: dict[str, list[tuple[float, float, float]]] = {kernel: [] for kernel in KERNELS}
    energy = []
    for data, seed in zip(sets, seeds, strict=True):
        hidden = hidden_entries(data, "random", np.random.default_rng([seed, 77, 0]))
        around = np.where(hidden, data.X_test - data.X_train.mean(axis=0), 0.0)
        total = np.square(around).sum(axis=1)
        energy.append(total / total.sum())
        for kernel, given in KERNELS.items():
            start = time.process_time()  # of the processor: other work does not count
            model = HeatCovariance(kernel=given).fit(data.X_train)
            seconds = time.process_time() - start
            filled = model.impute(np.where(hidden, np.nan, data.X_test))
            left = np.square(np.where(hidden, filled - data.X_test, 0.0)).sum(axis=1)
            errors[kernel].append(left / total.sum())
            truth = Graph(data.edges, np.ones(len(data.edges)), data.n_nodes)
            ap = average_precision(truth, model.weights_)
            others[kernel].append((ap, seconds, model.score(data.X_test) / data.n_nodes))
    whole = np.concatenate(energy)
    joined = {kernel: np.concatenate(parts) for kernel, parts in errors.items()}
    row: dict[str, Any] = {
        "signals": name,
        "nodes": sets[0].n_nodes,
        "fitted": len(sets[0].X_train),
    }
    for kernel in KERNELS:
        share, error = share_missed(joined[kernel], whole)
        ap, seconds, likelihood = np.mean(others[kernel], axis=0)
        row[kernel] = {
            "missed": float(f"{share:.3g}"),
            "error": float(f"{error:.2g}"),
            "AP": round(float(ap), 3),
            "seconds": float(f"{seconds:.2g}"),
            "nats per entry": round(float(likelihood), 4),
        }
    ranked = sorted(KERNELS, key=lambda kernel: joined[kernel].sum())
    gaps = [share_missed(joined[kernel] - joined[ranked[0]], whole) for kernel in ranked]
    close = [k for k, (gap, error) in zip(ranked, gaps, strict=True) if gap <= CHANCE * error]
    return row | {"least": [ranked[0], *close[1:]]}


def table(results: dict[str, Any]) -> str:
    """Shares missed, AP in brackets; then the kernels that are not told from the best."""
    seeds = ", ".join(map(str, results["seeds"]))
    commits = ", ".join(dict.fromkeys(row["commit"] for row in results["rows"]))
    lines = [
        f"Seeds {seeds}, at {commits} on {results['date']}: share missed (AP of the weights).\n",
        f"| signals, nodes | {' | '.join(KERNELS)} | misses least, within chance |",
        "|---" * (len(KERNELS) + 2) + "|",
    ]
    for row in results["rows"]:
        cells = [f"{row[k]['missed']:.3g} ({row[k]['AP']:.2f})" for k in KERNELS]
        name = f"{row['signals']}: {row['fitted']}, {row['nodes']}"
        lines.append(f"| {name} | {' | '.join(cells)} | {'; '.join(row['least'])} |")
    times = [np.median([row[k]["seconds"] for row in results["rows"]]) for k in KERNELS]
    cells = [f"{seconds:.1f} s" for seconds in times] if results["rows"] else []
    lines.append(f"| median time of a fit | {' | '.join(cells)} | |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", choices=list(SEEDS), default="judgement")
    parser.add_argument("--first", type=int, default=3, metavar="N", help="of these seeds only")
    parser.add_argument("--rows", nargs="+", choices=NAMES, help="only these; others are kept")
    parser.add_argument("--output", type=Path, default=RESULTS, help="the .json file")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = SEEDS[given.seeds][: given.first]
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()
    about = {"date": str(datetime.date.today()), "seeds": list(seeds)}
    results: dict[str, Any] = {**about, "rows": []}
    if given.rows is not None and given.output.exists():
        results["rows"] = json.loads(given.output.read_text())["rows"]
    for name, sets in problems(given.rows or list(NAMES), seeds):
        found = row_of(name, sets, seeds) | {"commit": commit[:9]}
        known = {row["signals"]: row for row in results["rows"]} | {name: found}
        results["rows"] = [known[row] for row in NAMES if row in known]
        write(given.output, json.dumps(results, indent=1) + "\n")
        write(given.output.with_suffix(".txt"), table(results))
        print(json.dumps(found), flush=True)
    print(table(results))


if __name__ == "__main__":
    main()
