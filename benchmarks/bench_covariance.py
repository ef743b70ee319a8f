"""HeatCovariance on graphs that are known: edges, scales and noise, calibration, speed.

Run with ``make bench-real`` or ``python -m benchmarks.bench_covariance [PART ...]``; ``--seeds
design`` uses the seeds that the defaults were made on, ``judgement``, the default, others.  Writes
``docs/results/covariance.json``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import time
import warnings
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.covariance import GraphicalLassoCV
from threadpoolctl import threadpool_limits

from heatgraph import Graph, HeatCovariance, LearnHeat, learn
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.experiments.synthetic_runs import MODELS
from heatgraph.metrics import best_cut, edge_scores

Array = NDArray[np.float64]

SEEDS = {"design": range(2000, 2010), "judgement": range(10)}
NOISES = {"clean": 0.0, "noisy": 0.02}
KEPT = 0.8  # by each signal of a series, of the one before
RESULTS = Path("docs/results/covariance.json")


def paper(seed: int) -> list[dict[str, Any]]:
    """The paper's six problems: 20 nodes, 100 signals of 3 atoms; nothing is told."""
    rows = []
    for kind in MODELS:
        graph = make_graph(kind, 20, random_state=seed)
        for noise, std in NOISES.items():
            X, _ = make_heat_signals(graph, MODELS[kind], 100, noise_std=std, random_state=seed)
            model = HeatCovariance().fit(X)
            row = {"problem": f"{kind} {noise}", "status": str(model.status_)}
            row["F"] = edge_scores(graph, model.graph_).f_measure
            row["F at the oracle's cut"] = best_cut(graph, model.weights_)[0].f_measure
            rows.append(row)
    return rows


def identified(seed: int) -> list[dict[str, Any]]:
    """Relative errors of the scale and of the noise, from Gaussian sources everywhere."""
    rows = []
    for kind in MODELS:
        graph = make_graph(kind, 20, random_state=seed)
        for n_signals in (100, 2000):
            X = everywhere(graph, 2.5, n_signals, 0.02, seed)
            model = HeatCovariance().fit(X)
            rows.append(
                {
                    "problem": f"{kind}, {n_signals} signals",
                    "error of the scale": abs(model.scales_[0] / 2.5 - 1.0),
                    "error of the noise": abs(np.sqrt(model.noise_variance_) / 0.02 - 1.0),
                    "F": edge_scores(graph, model.graph_).f_measure,
                }
            )
    return rows


def everywhere(graph: Graph, scale: float, n_signals: int, std: float, seed: int) -> Array:
    """Heat released at every node, and noise."""
    X, _ = make_heat_signals(
        graph, [scale], n_signals, graph.n_nodes, noise_std=std, random_state=seed
    )
    return X


def calibration(seed: int) -> list[dict[str, Any]]:
    """Intervals of imputed values, z-scores of weights, p-values of absent edges.

    In a series each signal keeps some of the one before.
    """
    rows = []
    for kind in MODELS:
        graph = make_graph(kind, 20, random_state=seed)
        for kept, what in ((0.0, ""), (KEPT, ", in a series")):
            X = everywhere(graph, 2.5, 700, 0.05, seed)
            for before, signal in itertools.pairwise(X):
                signal += kept * before
            model = HeatCovariance().fit(X[:500])
            found = {**_coverage(model, X[500:], seed), **_tests(model, graph)}
            rows.append({"problem": kind + what, **found})
    return rows


def _coverage(model: HeatCovariance, X: Array, seed: int) -> dict[str, float]:
    hidden = np.random.default_rng(seed).random(X.shape) < 0.2
    filled, std = model.impute(np.where(hidden, np.nan, X), return_std=True)
    inside = np.abs(filled - X)[hidden] <= 1.96 * std[hidden]
    return {"coverage of 95% intervals": float(inside.mean())}


def _tests(model: HeatCovariance, graph: Graph) -> dict[str, Any]:
    table = model.edge_statistics("all")
    truth = graph.adjacency()[table["source"].to_numpy(), table["target"].to_numpy()]
    truth = np.asarray(truth).ravel()
    present = truth > 0.0
    known = present & (table["standard_error"].to_numpy() > 0.0)
    z = (table["weight"].to_numpy() - truth)[known] / table["standard_error"].to_numpy()[known]
    exact = edge_scores(graph, model.graph_).f_measure == 1.0
    return {
        "z-scores": z.tolist(),
        "z-scores where all edges are found": z.tolist() if exact else [],
        "share of absent edges with p below 0.05": float(
            (table["p_value"].to_numpy()[~present] < 0.05).mean()
        ),
    }


def speed(seed: int) -> list[dict[str, Any]]:
    """Processor seconds beside those of scikit-learn's GraphicalLassoCV, with one thread."""
    rows = []
    for n_nodes in (20, 50, 100, 200):
        graph = make_graph("geometric", n_nodes, random_state=seed)
        X = everywhere(graph, 2.0, 2 * n_nodes, 0.05, seed)
        HeatCovariance().fit(X[:, :8])  # what is loaded once is not part of the time
        with threadpool_limits(1):
            start = time.process_time()
            HeatCovariance().fit(X)
            middle = time.process_time()
            GraphicalLassoCV().fit(X / X.std(axis=0))
            end = time.process_time()
        row = {"problem": f"{n_nodes} nodes", "seconds": middle - start}
        rows.append({**row, "of GraphicalLassoCV's": (middle - start) / (end - middle)})
    return rows


def auto(seed: int) -> list[dict[str, Any]]:
    """Whether heatgraph.learn keeps the model whose prior is true: few sources, or everywhere."""
    rows = []
    for kind in MODELS:
        graph = make_graph(kind, 20, random_state=seed)
        for noise, std in NOISES.items():
            for sources, n_sources in (("few", 3), ("everywhere", 20)):
                X, _ = make_heat_signals(
                    graph, MODELS[kind], 600, n_sources, noise_std=std, random_state=seed
                )
                kept = learn(X[:100], random_state=seed)
                gaussian = isinstance(kept, HeatCovariance)
                shared = {"fit_intercept": True, "random_state": seed}
                other = (LearnHeat if gaussian else HeatCovariance)(**shared).fit(X[:100])
                F = [edge_scores(graph, model.graph_).f_measure for model in (kept, other)]
                missed = [_missed(model, X[100:]) for model in (kept, other)]
                compared = kept.comparison_
                rows.append(
                    {
                        "problem": f"{kind} {noise}, sources {sources}",
                        "true prior kept": gaussian == (sources == "everywhere"),
                        "standard errors apart": abs(compared.log_ratio) / compared.log_ratio_error,
                        "missed": missed[0],
                        "missed by the other": missed[1],
                        "F": F[0],
                        "F of the other": F[1],
                    }
                )
    return rows


def _missed(model: Any, X: Array, n_masks: int = 5) -> float:
    """The share of hidden entries' variance, in the mean over masks: one is a matter of chance."""
    return float(np.mean([1.0 - model.score_hidden(X, random_state=k) for k in range(n_masks)]))


FEW_SEEDS = {"speed": 1, "auto": 2}  # parts that are run for the first seeds only
SLOW = ("auto",)  # takes an hour; run where it is named
PARTS: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "paper": paper,
    "identified": identified,
    "calibration": calibration,
    "speed": speed,
    "auto": auto,
}


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean over seeds of each problem; of z-scores the standard deviation."""
    found = []
    for problem in dict.fromkeys(row["problem"] for row in rows):
        same = [row for row in rows if row["problem"] == problem]
        line: dict[str, Any] = {"problem": problem}
        for key in same[0]:
            values = [row[key] for row in same]
            if key.startswith("z-scores"):
                every = np.concatenate(values)
                line[f"mean of {key}"] = float(every.mean())
                line[f"standard deviation of {key}"] = float(every.std())
            elif key == "status":
                line["converged"] = sum(value == "converged" for value in values)
            elif key != "problem":
                line[key] = float(np.mean(values))
        found.append(line)
    return found


def tables(results: dict[str, Any]) -> str:
    """The results as tables of a page."""
    pages = []
    for part in PARTS:
        lines = results.get(part, [])
        if not lines:
            continue
        names = list(lines[0])
        pages.append(f"**{(PARTS[part].__doc__ or '').splitlines()[0]}**\n")
        about = results["measured"][part]
        first, last = about["seeds"]
        seeds = f"Seed {first}" if first == last else f"Seeds {first} to {last}"
        pages.append(f"{seeds}, on {about['date']} at {about['commit'][:9]}.\n")
        pages.append(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
        for line in lines:
            shown = [line[k] if isinstance(line[k], str) else f"{line[k]:.3g}" for k in names]
            pages.append(f"| {' | '.join(shown)} |")
        pages.append("")
    return "\n".join(pages)


def write(path: Path, text: str) -> None:
    """A file, whole or not at all."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(text)
    beside.replace(path)


def _run(part: str, seed: int) -> list[dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PARTS[part](seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=[p for p in PARTS if p not in SLOW])
    parser.add_argument("--seeds", choices=list(SEEDS), default="judgement")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()
    results = json.loads(options.output.read_text()) if options.output.exists() else {}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for part in options.parts:
        seeds = list(SEEDS[options.seeds])[: FEW_SEEDS.get(part)]
        jobs = 1 if part == "speed" else options.jobs
        each = Parallel(n_jobs=jobs)(delayed(_run)(part, seed) for seed in seeds)
        results[part] = summary([row for rows in each for row in rows])
        results.setdefault("measured", {})[part] = {
            "commit": commit,
            "date": str(date.today()),
            "cores": os.cpu_count(),
            "seeds": [min(seeds), max(seeds)],
        }
        print(f"== {part}: {(PARTS[part].__doc__ or '').splitlines()[0]}")
        for line in results[part]:
            shown = [f"{k} {v:.3g}" for k, v in line.items() if k != "problem"]
            print(f"  {line['problem']:<20} {', '.join(shown)}", flush=True)
        # Parts that are not run stay as they were.
        write(options.output, json.dumps(results, indent=1) + "\n")
        write(options.output.with_suffix(".txt"), tables(results))


if __name__ == "__main__":
    main()
