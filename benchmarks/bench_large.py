"""HeatCovariance on large graphs: nothing is told to it, and nothing is chosen by hand.

Run with ``make bench-scale`` or ``python -m benchmarks.bench_large [PART ...]``.  Every fit is the
default one, in a process of its own, whose peak memory is the figure; the graph is only used to
judge.  Writes ``docs/results/large.json`` and the tables of the page after every row: a run that
was stopped goes on with the rows that are left, of the same commit or not.  ``--again`` runs all.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_covariance import write
from benchmarks.memory import peak_bytes
from benchmarks.other_environment import ask, penalty
from benchmarks.real_score import OutOfTimeError, time_limit
from heatgraph import Graph, HeatCovariance
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators.large_covariance import memory_of
from heatgraph.graph import CandidateEdges
from heatgraph.kernels.probing import Probes, probing_vectors
from heatgraph.kernels.sparse_laplacian import EdgeLayout
from heatgraph.metrics import best_cut, edge_scores
from heatgraph.models.gaussian import GaussianHeat
from heatgraph.models.gaussian_large import BlockSignals, LargeGaussianHeat
from heatgraph.solvers.gaussian_large import VECTORS
from heatgraph.solvers.local_information import local_edge_tests

RESULTS = Path("docs/results/large.json")
SCALES = (2.5, 4.0)
NOISE = 0.02  # about a third of the variance on these graphs
CHUNK, CHUNKS = 50, 10  # of signals, for Dask: the fifth that is held out is whole chunks
RIVAL_SECONDS = 600  # after which a method is stopped
SEED = 17  # the defaults were settled on seeds 0, 1, 2, 3 and 5


def signals_on(kind: str, n: int, m: int, noise: float) -> tuple[Any, Any]:
    """A graph of about 8 neighbours (geometric), and heat on it."""
    graph = make_graph(kind, n, random_state=SEED)
    return graph, signals_of(graph, m, noise)


def signals_of(graph: Graph, m: int, noise: float) -> Any:
    """Heat from N / 100 sources per signal."""
    n_sources = max(3, graph.n_nodes // 100)
    return make_heat_signals(graph, SCALES, m, n_sources, noise_std=noise, random_state=SEED)[0]


def fit(kind: str, n: int, m: int, noise: float) -> dict[str, Any]:
    """One default fit: how well the graph is found, what it took."""
    graph = make_graph(kind, n, random_state=SEED)
    return _fitted(kind, graph, noise, m)


def _fitted(kind: str, graph: Graph, noise: float, m: int = 500) -> dict[str, Any]:
    X = signals_of(graph, m, noise)
    before = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = HeatCovariance(solver="sparse").fit(X)
    seconds, processor = time.perf_counter() - before[0], time.process_time() - before[1]
    return {
        "graph": kind,
        "nodes": graph.n_nodes,
        "signals": m,
        "noise": noise,
        "F": edge_scores(graph, model.graph_).f_measure,
        "F at the oracle's cut": best_cut(graph, model.weights_)[0].f_measure,
        "scale": float(model.scales_[0]),
        "noise found": float(np.sqrt(model.noise_variance_)),
        "seconds": seconds,
        "processor seconds": processor,
        "GB": peak_bytes() / 1e9,
        "status": str(model.status_),
        "warnings": len(caught),
    }


def water(noise: float) -> dict[str, Any]:
    """The pipes of a real water network, of equal weight, from heat that diffused on them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pipes.npz"
        ask("pipes", path)
        with np.load(path) as network:
            n, edges = int(network["n_nodes"]), network["edges"]
    return _fitted(
        "water network", Graph(edges, np.full(len(edges), 0.5 * n / len(edges)), n), noise
    )


def cluster(n: int) -> dict[str, Any]:
    """A fit on two workers beside that in memory, and what one step sends."""
    import dask.array as da

    from heatgraph.distributed.chunked_signals import ChunkedSignals
    from heatgraph.distributed.from_dask import local_cluster

    graph, X = signals_on("geometric", n, CHUNK * CHUNKS, NOISE)
    here = HeatCovariance(solver="sparse").fit(X)
    steps, quadratic = [], ChunkedSignals.quadratic

    def counted(signals: Any, *sent: Any) -> Any:
        back = quadratic(signals, *sent)
        steps.append([len(pickle.dumps(part)) / 1e6 for part in (sent, back)])
        return back

    ChunkedSignals.quadratic = counted  # type: ignore[method-assign]
    before = time.perf_counter(), _processor_seconds()
    with local_cluster(2):
        rows = da.from_array(X, chunks=(CHUNK, n)).persist()
        there = HeatCovariance(solver="sparse").fit(rows)
    seconds, processor = time.perf_counter() - before[0], _processor_seconds() - before[1]
    apart = abs(here.weights_.adjacency() - there.weights_.adjacency()).max()
    sent, back = np.max(steps, axis=0)
    return {
        "nodes": n,
        "signals": len(X),
        "noise": NOISE,
        "F": edge_scores(graph, there.graph_).f_measure,
        "F in memory": edge_scores(graph, here.graph_).f_measure,
        "largest difference of weights, of the largest": float(apart / here.weights_.weights.max()),
        "steps": len(steps),
        "MB to each worker in a step": float(sent),
        "MB back": float(back),
        "seconds": seconds,
        "processor seconds": processor,
    }


def rival(name: str, n: int) -> dict[str, Any]:
    """A method on 500 clean signals; the lassos at the penalty ``sqrt(log N / M)``."""
    from sklearn.metrics import average_precision_score

    graph, X = signals_on("geometric", n, 500, 0.0)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    before = time.perf_counter(), _processor_seconds()
    row: dict[str, Any] = {"method": name, "nodes": n}
    try:
        with time_limit(RIVAL_SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            weights = RIVALS[name](X, Z)
    except (OutOfTimeError, subprocess.TimeoutExpired):
        row["status"] = f"stopped after {RIVAL_SECONDS} s"
    except FloatingPointError:
        row["status"] = "failed: too ill-conditioned for its solver"
    else:
        above = np.triu_indices(n, 1)
        truth = graph.adjacency().toarray()[above] > 0.0
        row |= {"status": "ended", "AP": float(average_precision_score(truth, weights[above]))}
    seconds, processor = time.perf_counter() - before[0], _processor_seconds() - before[1]
    return {**row, "seconds": seconds, "processor seconds": processor}


def _processor_seconds() -> float:
    return sum(os.times()[:4])  # of this process and of those it waited for


def _heat(X: Any, Z: Any) -> Any:
    return HeatCovariance(solver="sparse").fit(X).weights_.adjacency().toarray()


def _lasso(X: Any, Z: Any) -> Any:
    from sklearn.covariance import GraphicalLasso

    return np.abs(GraphicalLasso(penalty(*Z.shape)).fit(Z).precision_)


def _gglasso(X: Any, Z: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        signals, found = Path(folder) / "signals.npy", Path(folder) / "precision.npy"
        np.save(signals, Z)
        ask("gglasso", signals, found, limit=RIVAL_SECONDS)
        return np.abs(np.load(found))


RIVALS = {"HeatCovariance": _heat, "GraphicalLasso": _lasso, "GGLasso": _gglasso}


def in_process(function: str, *arguments: Any) -> dict[str, Any]:
    """One row in a process of its own, with the commit and the load of the machine."""
    words = [sys.executable, "-m", "benchmarks.bench_large", "--row", function]
    done = subprocess.run([*words, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    commit = subprocess.check_output(["git", "rev-parse", "--short=9", "HEAD"], text=True).strip()
    row.update({"load": round(os.getloadavg()[1], 1), "commit": commit})
    shown = {k: f"{v:.3g}" if isinstance(v, float) else v for k, v in row.items()}
    print("  " + ", ".join(f"{k} {v}" for k, v in shown.items()), flush=True)
    return row


def probing(name: str) -> dict[str, Any]:
    """Value and gradient against eigenvectors, with exact or coloured probing vectors."""
    graph, X = signals_on("geometric", 500, 200, NOISE)
    edges = np.sort(graph.edges, axis=1)
    pairs = CandidateEdges(500, edges[:, 0].copy(), edges[:, 1].copy())
    layout = EdgeLayout.of(pairs)
    Z = X - X.mean(axis=0)
    x = np.concatenate([2.0 * graph.weights, np.log([Z.var(), 0.3 * Z.var()])])
    dense = GaussianHeat(pairs, Z.T @ Z / len(Z)).at(x)
    rng = np.random.default_rng(0)
    if name == "exact":
        vectors = Probes(np.arange(500), np.ones(500))
    else:
        vectors = probing_vectors(pairs, graph.weights, int(name), 500, rng)
    point = LargeGaussianHeat(layout, BlockSignals.of(Z, layout), vectors).at(x)
    error = np.linalg.norm(point.gradient - dense.gradient) / np.linalg.norm(dense.gradient)
    return {
        "probing": name if name == "exact" else f"nodes of one colour {name} edges apart",
        "vectors": vectors.n_vectors,
        "error of the value, nats per node": abs(point.value - dense.value) / 500,
        "relative error of the gradient": float(error),
    }


def errors(kind: str, noise: float) -> dict[str, Any]:
    """Standard errors from the information around each edge against those from all of it."""
    graph = make_graph(kind, 400, random_state=SEED)
    edges = np.sort(graph.edges, axis=1)
    order = np.lexsort((edges[:, 1], edges[:, 0]))
    pairs = CandidateEdges(400, edges[order, 0].copy(), edges[order, 1].copy())
    x = np.concatenate([3.0 * graph.weights[order], [0.0, np.log(noise)]])
    F = GaussianHeat(pairs, np.eye(400)).at(x).information_matrix(pairs, pairs)
    E = pairs.n_edges
    exact = np.sqrt(2.0 / 500.0 * np.diag(np.linalg.inv(F))[:E])
    before = time.process_time()
    z = local_edge_tests(pairs, x, 500.0)["z"].to_numpy()
    off = np.abs(x[:E] / z / exact - 1.0)
    return {
        "graph": kind,
        "nodes": 400,
        "edges": E,
        "noise, of the variance of the sources": noise,
        "median error": float(np.median(off)),
        "95% of errors below": float(np.quantile(off, 0.95)),
        "largest error": float(off.max()),
        "processor seconds": time.process_time() - before,
    }


def cost(
    n: int, m: int, terms: int = 64, factors: int = 9, evaluations: int = 120
) -> dict[str, Any]:
    """Bytes and operations of one fit, computed and not measured."""
    columns, neighbours, candidates = m + VECTORS, 12, 15
    per_column = 2.0 * n * (terms * (neighbours + 1 + factors) + 1.5 * candidates * factors)
    flops = evaluations * columns * per_column
    rate = 1e10  # operations a second of one core: the whole fit of 10,000 clean nodes took 276 s
    return {
        "nodes": n,
        "signals": m,
        "GB on one machine": memory_of(m, n, 2) / 1e9,
        "GB that travel in a step, to each worker and back": 8e-9
        * n
        * (3 * neighbours + candidates),
        "operations": flops,
        "hours on 2 cores": flops / rate / 2 / 3600,
        "hours on 16 machines of 16 cores": flops / rate / 256 / 3600,
    }


ROWS: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "gradient": (
        "Errors against eigenvectors at 500 nodes: of the series alone, and with probing vectors.",
        [("probing", name) for name in ("exact", 2, 4, 6)],
    ),
    "standard_errors": (
        "Standard errors of edges from the information within three edges of each, against those "
        "from all of it.",
        [("errors", kind, s) for kind in ("geometric", "ba") for s in (1e-3, 0.3)],
    ),
    "recovery": (
        "Geometric graphs, 500 signals, clean and with noise of a third of the variance.",
        [("fit", "geometric", 2000, 500, s) for s in (0.0, NOISE)],
    ),
    "ten_thousand": (
        "The same with ten thousand nodes.",
        [("fit", "geometric", 10_000, 500, s) for s in (0.0, NOISE)],
    ),
    "hubs": (
        "Barabasi-Albert graphs, 500 clean signals.",
        [("fit", "ba", n, 500, 0.0) for n in (2000, 10_000)],
    ),
    "signals": (
        "How many signals a graph of 2,000 nodes needs.",
        [("fit", "geometric", 2000, m, s) for m in (100, 2000) for s in (0.0, NOISE)],
    ),
    "water": (
        "The pipes of BWSN_Network_2, a water network, from 500 signals of heat on them.",
        [("water", s) for s in (0.0, NOISE)],
    ),
    "cluster": (
        f"The same fit by two Dask workers, {CHUNKS} chunks of signals with noise, and in memory.",
        [("cluster", n) for n in (2000, 10_000)],
    ),
    "rivals": (
        "Average precision and time beside a graphical lasso, 500 clean signals.",
        [("rival", name, n) for n in (500, 2000, 5000) for name in RIVALS],
    ),
    "huge": (
        "A hundred thousand nodes, 500 clean signals.",
        [("fit", "geometric", 100_000, 500, 0.0)],
    ),
    "million": (
        "What a fit costs, by counting; nothing of this was run.",
        [("cost", n, m) for n, m in ((10_000, 500), (100_000, 500), (1_000_000, 500))],
    ),
}
FUNCTIONS = {f.__name__: f for f in (fit, water, cluster, rival, probing, errors, cost)}


def tables(results: dict[str, Any]) -> str:
    """The results as tables of a page."""
    pages = [
        f"Seed {SEED}, {results['cores']} cores, last run on {results['date']}. ``load`` is the "
        "number of processes that ran or waited, over five minutes: with more than there are "
        "cores the machine was shared, ``seconds`` are too long, and ``processor seconds``, of "
        "both cores together, say more.\n"
    ]
    for part, (about, asked) in ROWS.items():
        found = results.get("rows", {}).get(part, {})
        lines = [found[key] for key in map(key_of, asked) if key in found]
        if not lines:
            continue
        names = list(dict.fromkeys(name for line in lines for name in line))
        pages.append(f"**{about}**\n")
        pages.append(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
        for line in lines:
            cells = (line.get(name, "") for name in names)
            shown = [f"{v:.3g}" if isinstance(v, float) else str(v) for v in cells]
            pages.append(f"| {' | '.join(shown)} |")
        pages.append("")
    return "\n".join([*pages, *growth(results)])


def growth(results: dict[str, Any]) -> list[str]:
    """How the time of a whole fit of clean geometric graphs grows with the number of nodes.

    Of rows of one commit: other versions take other times.
    """
    rows = results.get("rows", {})
    first = rows.get("recovery", {}).get("fit geometric 2000 500 0.0")
    last = rows.get("huge", {}).get("fit geometric 100000 500 0.0")
    if first is None or last is None or first["commit"] != last["commit"]:
        return []
    time, nodes = (last[key] / first[key] for key in ("processor seconds", "nodes"))
    return [
        f"From {first['nodes']:,} to {last['nodes']:,} nodes the processor time of a clean fit "
        f"grows as the number of nodes to the power of {math.log(time) / math.log(nodes):.2f}.\n"
    ]


def key_of(row: tuple[Any, ...]) -> str:
    return " ".join(map(str, row))


def run(part: str, path: Path, again: bool) -> None:
    """The rows of a part that are not there yet, each written as soon as it is known."""
    print(f"== {part}: {ROWS[part][0]}", flush=True)
    for row in ROWS[part][1]:
        old = json.loads(path.read_text()) if path.exists() else {}
        rows = old.get("rows", {})
        if key_of(row) in rows.get(part, {}) and not again:
            continue
        found = in_process(*row)
        rows = {**rows, part: {**rows.get(part, {}), key_of(row): found}}
        path.parent.mkdir(parents=True, exist_ok=True)
        results = {"date": str(date.today()), "cores": os.cpu_count(), "rows": rows}
        write(path, json.dumps(results, indent=1) + "\n")
        write(path.with_suffix(".txt"), tables(results))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(ROWS))
    parser.add_argument("--row", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--again", action="store_true", help="run rows that are there, too")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.row:
        name, *words = options.row
        print(json.dumps(FUNCTIONS[name](*map(_number, words))))
        return
    for part in options.parts:
        run(part, options.output, options.again)


def _number(word: str) -> Any:
    """A number where it is one."""
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


if __name__ == "__main__":
    main()
