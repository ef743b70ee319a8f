"""The matrix-free engine against the dense one, and alone where there is no other.

Run all with ``make bench-scale``, or some: ``python -m benchmarks.bench_scale gradient step``.
Every figure of memory is the peak of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from benchmarks.memory import peak_bytes
from heatgraph import Graph, LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators.large import GAP, reach_of
from heatgraph.estimators.validation import resolve_candidates, start_near
from heatgraph.graph import CandidateEdges
from heatgraph.kernels.layout import Layout
from heatgraph.metrics import best_cut, edge_scores
from heatgraph.models.atoms import ATOMS
from heatgraph.models.heat import HeatObjective, Signals
from heatgraph.models.sparse import SparseObjective
from heatgraph.selection.cut import typical_cut
from heatgraph.solvers.coarse_to_fine import rough_enough, solve_by_stages
from heatgraph.solvers.heat import solve_heat
from heatgraph.solvers.signal_access import LocalSignals
from heatgraph.solvers.sparse_signals import SparseSignals
from heatgraph.solvers.threads import bounded_blas

TAU = np.array([2.5, 4.0])
ALPHA, BETA = 0.1, 1e-3  # of the sources' size, which is 1; of the energy a node
THREADS = 2


def problem(n, m, kind="geometric", neighbours=25, noise=0.0, seed=0):
    graph = make_graph(kind, n, random_state=seed)
    X, _ = make_heat_signals(
        graph, TAU, m, n_sources=max(3, n // 100), noise_std=noise, random_state=seed
    )
    candidates = resolve_candidates(neighbours, X, None)
    return graph, X, candidates, start_near(candidates, X)


def engines(X, candidates, *, tol=1e-7, dtype=np.float64, atoms="unit", alpha=ALPHA, reach=0.0):
    signals = Signals(np.ascontiguousarray(X.T))
    beta = BETA * float(signals.energy.sum()) / candidates.n_nodes
    layout = Layout.of(candidates)
    dense = HeatObjective(candidates, alpha, beta, ATOMS[atoms]), LocalSignals(signals, THREADS)
    free = (
        SparseObjective(layout, alpha, beta, atoms == "unit", tol, dtype, THREADS, reach),
        SparseSignals(layout, signals, dtype, THREADS),
    )
    return dense, free


def gradient():
    """Largest error of the gradient, relative to its largest entry, at the same sources."""
    _, X, candidates, w = problem(300, 100)
    for tol, asked in ((1e-8, 1e-7), (1e-13, 1e-12)):
        (dense, local), (free, ensemble) = engines(X, candidates, tol=tol)
        E = free.dictionary(w, TAU)
        codes, moments = ensemble.code(free, E, ensemble.silence(E.n_atoms), None)
        D = dense.dictionary(w, TAU)
        H = ensemble.whole(codes, 2)
        rows = np.ascontiguousarray(H.transpose(2, 0, 1)).reshape(len(X), -1)
        exact = dense.gradient_w(D, w, local.sums(dense, D, rows, None))
        error = np.abs(free.gradient_w(E, w, moments) - exact).max() / np.abs(exact).max()
        print(f"  tolerance {tol:g}: degree {E.heat.degree}, error {error:.1e} (asked {asked:g})")


def agreement():
    """Both engines from the same start, to the same residual."""
    graph, X, candidates, w = problem(200, 300)
    dense, free = engines(X, candidates, alpha=0.06)
    out = {}
    for name, (objective, ensemble) in (("dense", dense), ("sparse", free)):
        out[name] = solve_heat(
            objective, ensemble, w, TAU, learn_scales=False, max_iter=3000, tol=3e-6
        )
        fit = out[name]
        F = best_f(graph, candidates, fit.w)
        print(
            f"  {name}: {fit.status}, {fit.n_iter} iterations, objective {fit.objective[-1]:.8g}, "
            f"residual {fit.residual:.1e}, best-cut F {F:.4f}"
        )
    apart = np.abs(out["dense"].w - out["sparse"].w).max() / out["dense"].w.max()
    print(f"  weights apart by at most {apart:.1e} of the largest (asked 1e-3)")


def best_f(graph, candidates, w):
    kept = w > 0.0
    edges = np.stack([candidates.i, candidates.j], axis=1)[kept]
    return best_cut(graph, Graph(edges, w[kept], candidates.n_nodes))[0].f_measure


def step(sizes=(500, 1000, 2000), m=500):
    """Seconds of one evaluation of value and gradients, the sources of the last one at hand.

    On the way of a fit, 15 steps in, with the atoms that the fit has there; and with those it ends
    with, on the graph that it ends with.
    """
    for n in sizes:
        _, X, candidates, w = problem(n, m, neighbours=15)
        _, (free, ensemble) = engines(X, candidates, reach=reach_of(n))
        how = {"learn_scales": False, "tol": 0.05}
        way = solve_by_stages(free, ensemble, w, TAU, max_iter=15, **how)
        end = solve_by_stages(free, ensemble, way.w, TAU, max_iter=100, codes=way.codes, **how)
        for name, fit in (("on the way", way), ("at the end", end)):
            print(f"  N = {n}, M = {m}, {name}, residual {fit.residual:.2g}")
            for atoms in ("unit", "raw") if fit is way else ("unit",):
                (dense, local), _ = engines(X, candidates, atoms=atoms)
                base = _evaluations(dense, local, fit.w, n)
                told = [f"    {atoms} atoms: dense {base:.3f} s"]
                for dtype in (np.float64, np.float32):
                    _, (objective, blocks) = engines(
                        X, candidates, dtype=dtype, atoms=atoms, reach=reach_of(n, dtype)
                    )
                    if fit is way:
                        objective = rough_enough(objective, fit.residual)
                    blocks = blocks.of_type(objective.dtype)
                    with bounded_blas():  # as in a fit of this engine
                        seconds = _evaluations(objective, blocks, fit.w, n)
                    told.append(
                        f"{np.dtype(dtype).name} {seconds:.3f} s, {base / seconds:.1f} times "
                        f"faster (atoms above {objective.reach:g})"
                    )
                print("; ".join(told), flush=True)


def _evaluations(objective, ensemble, w, n, repeats=5):
    codes = ensemble.silence(2 * n)
    best = np.inf
    for k in range(repeats + 1):
        nearby = w * (1.0 + 0.01 * np.sin(np.arange(w.size) + k))
        nearby *= objective.total / nearby.sum()
        start = time.perf_counter()
        D = objective.dictionary(nearby, TAU)
        codes, moments = ensemble.code(objective, D, codes, None)
        objective.gradient_w(D, nearby, moments)
        if k > 0:  # the first finds all sources anew
            best = min(best, time.perf_counter() - start)
    return best


def fit_alone(n, m, kind, noise, learn_scales, max_iter, dtype, neighbours, tol, penalty="l1"):
    """One fit by the estimator; what a process of its own prints."""
    graph = make_graph(kind, n, random_state=0)
    X, _ = make_heat_signals(
        graph, TAU, m, n_sources=max(3, n // 100), noise_std=noise, random_state=0
    )
    del _
    scales = {} if learn_scales else {"scales": TAU, "learn_scales": False}
    model = LearnHeat(
        solver="sparse",
        candidates=neighbours,
        penalty=penalty,
        max_iter=max_iter,
        tol=tol,
        n_jobs=THREADS,
        **scales,
    )
    X = X.astype(dtype)
    before = peak_bytes() / 1e9
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X)
    seconds = time.perf_counter() - start
    found = {
        "seconds": seconds,
        "before": before,
        "peak": peak_bytes() / 1e9,
        "status": str(model.status_),
        "n_iter": int(model.n_iter_),
        "residual": float(model.residual_),
        "objective": float(model.objective_[-1]),
        "alpha": float(model.alpha_),
        "scales": model.scales_.tolist(),
        "certificate": float(model.certificate_),
    }
    found["best_f"] = float(best_cut(graph, model.weights_)[0].f_measure)
    cut = model.weights_.cut(weight=typical_cut(np.asarray(model.weights_.weights)))
    found["f"] = float(edge_scores(graph, cut).f_measure)
    print(json.dumps(found))


def alone(**how):
    """Run :func:`fit_alone` in a process of its own and read what it found."""
    given = {
        "n": 10_000,
        "m": 500,
        "kind": "geometric",
        "noise": 0.0,
        "learn_scales": False,
        "max_iter": 40,
        "dtype": "float32",
        "neighbours": 15,
        "tol": 1e-2,
        "penalty": "l1",
        **how,
    }
    command = [sys.executable, "-m", "benchmarks.bench_scale", "--alone", json.dumps(given)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        print(f"  {how}: failed: {run.stderr.strip().splitlines()[-1]}")
        return None
    found = json.loads(run.stdout.strip().splitlines()[-1])
    print(
        f"  {how or 'clean, scales held'}: best-cut F {found['best_f']:.3f}, cut from the data "
        f"{found['f']:.3f}, {found['seconds']:.0f} s, {found['peak']:.2f} GB "
        f"({found['before']:.2f} before the fit), {found['n_iter']} iterations "
        f"({found['status']}, residual {found['residual']:.1e}), "
        f"scales {np.round(found['scales'], 2).tolist()}, certificate {found['certificate']:.3g}",
        flush=True,
    )
    return found


def ten_thousand():
    """N = 2000, then 10,000, M = 500: F, time, memory."""
    alone(n=2000)
    alone()
    alone(learn_scales=True)
    alone(noise=0.02)
    alone(penalty="log")


def hubs():
    """Barabasi-Albert at N = 10,000: heat is everywhere at once."""
    graph = make_graph("ba", 10_000, random_state=0)
    edges = graph.edges.astype(np.intp)
    candidates = CandidateEdges(10_000, edges[:, 0].copy(), edges[:, 1].copy())
    D_of = SparseObjective(Layout.of(candidates), 0.0, 0.0, False, 1e-6)
    operator = D_of.layout.operator(np.asarray(graph.weights))
    from heatgraph.kernels.chebyshev import heat_polynomial

    degree = heat_polynomial(TAU, 1.0 / operator.inverse, 1e-6).degree
    print(f"  true graph: largest eigenvalue at most {2 / operator.inverse:.1f}, degree {degree}")
    alone(kind="ba", max_iter=5)


def hundred_thousand(sizes=(500, 1000, 2000, 4000, 10_000, 100_000), m=128):
    """Seconds an evaluation as N grows at fixed degree and neighbours, and the memory."""
    found = {"sparse": {}, "dense": {}}
    for engine, n in [("dense", n) for n in sizes if n <= 4000] + [("sparse", n) for n in sizes]:
        command = [sys.executable, "-m", "benchmarks.bench_scale", "--step-alone", str(n), str(m)]
        run = subprocess.run([*command, engine], capture_output=True, text=True, check=True)
        one = found[engine][n] = json.loads(run.stdout.strip().splitlines()[-1])
        print(
            f"  {engine}, N = {n}, M = {m}: {one['seconds']:.2f} s an evaluation, "
            f"{one['peak']:.2f} GB",
            flush=True,
        )
    ends = [n for n in sizes if n >= 2000]
    seconds = [found["sparse"][n]["seconds"] for n in ends]
    exponent = np.polyfit(np.log(ends), np.log(seconds), 1)[0]
    print(f"  sparse: from 2000 nodes time grows as N to the {exponent:.2f} (asked: at most 1.1)")
    draw(found, m)


def draw(found, m, path="docs/_static/scaling.png"):
    """Time and memory against N, both engines."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for engine, style in (("dense", "s--"), ("sparse", "o-")):
        sizes = list(found[engine])
        for axis, what in zip(axes, ("seconds", "peak"), strict=True):
            axis.loglog(sizes, [found[engine][n][what] for n in sizes], style, label=engine)
    axes[0].set(xlabel="nodes", ylabel="seconds an evaluation", title="Time")
    axes[1].set(xlabel="nodes", ylabel="GB, peak of the process", title="Memory")
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.legend()
    figure.suptitle(f"Geometric graphs, {m} signals, two threads")
    figure.savefig(path, dpi=150)
    print(f"  drawn in {path}")


def step_alone(n, m, engine):
    graph = make_graph("geometric", n, random_state=0)
    X, _ = make_heat_signals(graph, TAU, m, n_sources=max(3, n // 100), random_state=0)
    del _
    A = sparse.csr_array(graph.adjacency())
    two = sparse.triu((A @ A + A) > 0, k=1).tocoo()  # candidates: neighbours' neighbours
    candidates = CandidateEdges(n, two.row.astype(np.intp), two.col.astype(np.intp))
    w = np.asarray(A[two.row, two.col], dtype=np.float64).ravel()
    w *= 0.5 * n / w.sum()
    dense, free = engines(X, candidates, tol=1e-6, dtype=np.float32, reach=reach_of(n, np.float32))
    seconds = _evaluations(*(dense if engine == "dense" else free), w, n, repeats=2)
    peak = peak_bytes() / 1e9
    print(json.dumps({"seconds": seconds, "peak": peak}))


def certificate():
    """From 8 candidates a node to every pair: until it is given, and a few rounds of it.

    With raw atoms the penalty is the paper's, and so is alpha.
    """
    from heatgraph.solvers.edge_generation import solve_priced

    for n_nodes, atoms, alpha, n_rounds in (
        (300, "unit", ALPHA, 40),
        (300, "raw", 0.01, 40),
        (2000, "raw", 0.01, 40),
        (2000, "unit", ALPHA, 2),
    ):
        graph, X, candidates, w = problem(n_nodes, 500, neighbours=8)
        how = {"reach": reach_of(n_nodes), "atoms": atoms, "alpha": alpha}
        _, (objective, ensemble) = engines(X, candidates, **how)
        start = time.perf_counter()
        fit = solve_priced(
            objective,
            ensemble,
            w,
            TAU,
            learn_scales=False,
            max_iter=1000,
            tol=1e-3,
            gap=GAP,
            n_rounds=n_rounds,
        )
        true = edge_scores(graph, _as_graph(candidates, np.ones(candidates.n_edges))).recall
        after = edge_scores(graph, _as_graph(fit.objective.candidates, fit.solution.w)).recall
        print(
            f"  N = {n_nodes}, {atoms} atoms, at most {n_rounds} rounds: "
            f"{fit.solution.status}, gap over all "
            f"pairs {fit.gap:.4f} (asked {GAP}), {fit.solution.n_iter} iterations, "
            f"{time.perf_counter() - start:.0f} s; candidates "
            f"{candidates.n_edges} -> {fit.objective.candidates.n_edges}, recall of true edges "
            f"{true:.3f} -> {after:.3f}, best-cut F "
            f"{best_f(graph, fit.objective.candidates, fit.solution.w):.3f}",
            flush=True,
        )


def _as_graph(candidates, w):
    kept = w > 0.0
    return Graph(np.stack([candidates.i, candidates.j], axis=1)[kept], w[kept], candidates.n_nodes)


PARTS = {
    "gradient": gradient,
    "agreement": agreement,
    "step": step,
    "ten_thousand": ten_thousand,
    "hundred_thousand": hundred_thousand,
    "hubs": hubs,
    "certificate": certificate,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all unless given")
    parser.add_argument("--alone", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--step-alone", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone:
        fit_alone(**given.alone)
        return
    if given.step_alone:
        n, m, engine = given.step_alone
        step_alone(int(n), int(m), engine)
        return
    for name in given.parts or PARTS:
        print(f"{name}: {PARTS[name].__doc__.splitlines()[0]}", flush=True)
        start = time.perf_counter()
        PARTS[name]()
        print(f"  ({time.perf_counter() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
