"""How much of a graph is recovered without the truth.

Run with ``make bench-accuracy`` or ``python -m benchmarks.bench_accuracy [PART ...]``.  20 nodes,
100 signals of 3 atoms; RBF keeps weights of at least 0.75, ER has p = 0.2, BA attaches 2.  The
choice of parameters was designed on the seeds 3100 to 3105, the default cut on 3100 to 3131; the
seeds here are 0 to 9, which led to the largest beta of the grid.  ``recovery`` and ``decibels``
have the seeds 40 to 49 beside, which took no part in any choice.  *Noisy* is a noise of standard
deviation 0.02; the part ``decibels`` has the paper's 13 dB.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from heatgraph import Graph, HeatCovariance, LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators.model import DenseModel
from heatgraph.experiments.paper_settings import TABLES, grid
from heatgraph.experiments.synthetic_runs import CUT, MODELS, PATHS, Problem, as_graph
from heatgraph.metrics import best_cut, edge_scores
from heatgraph.models.heat import Signals
from heatgraph.selection.cut import mixture_cut, otsu, typical_cut, valley_cut

Array = NDArray[np.float64]

NOISES = {"clean": 0.0, "noisy": 0.02}
SEEDS = range(10)
UNTOUCHED = range(40, 50)
COLUMNS = [f"{kind.upper()} {noise}" for noise in NOISES for kind in MODELS]
PAPER = [table[kind, "heat"].f_measure for table in TABLES.values() for kind in MODELS]
# Nodes and signals of the part `growth`.
SIZES = ((20, 100), (50, 250), (100, 500), (200, 1000), (48, 4000))
FEW = (10, 20, 50, 100)  # signals of the part `few`
# What the paper compares, tuned by the truth on its grids, with the true scales.
TUNED = {
    "heat": "the paper's objective",
    "templates": "spectral templates",
    "smooth": "smooth model",
}
STARTS = ((0.1, 0.2), (1.0, 3.0), (2.0, 6.0), (5.0, 20.0))


def example(kind: str, noise: str, seed: int) -> tuple[Graph, Array]:
    graph = make_graph(kind, 20, random_state=seed)
    X, _ = make_heat_signals(graph, MODELS[kind], 100, noise_std=NOISES[noise], random_state=seed)
    return graph, X


def example_at(kind: str, decibels: float, n_signals: int, seed: int) -> tuple[Graph, Array]:
    """Signals with noise of a given ratio of their power to that of the noise."""
    graph = make_graph(kind, 20, random_state=seed)
    X, _ = make_heat_signals(graph, MODELS[kind], n_signals, random_state=seed)
    noise_std = np.sqrt(np.mean(np.square(X)) * 10.0 ** (-0.1 * decibels))
    return graph, X + noise_std * np.random.default_rng(seed + 10_000).standard_normal(X.shape)


def found_by_each(kind: str, n_signals: int, decibels: float, seed: int) -> list[float]:
    """F of LearnHeat(), at its cut and at the oracle's, and of HeatCovariance() at its own."""
    graph, X = example_at(kind, decibels, n_signals, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few signals are told
        models = [LearnHeat().fit(X), HeatCovariance().fit(X)]
    first, second = (edge_scores(graph, model.graph_).f_measure for model in models)
    return [first, best_cut(graph, models[0].weights_)[0].f_measure, second]


def tuned(kind: str, n_signals: int, method: str) -> float:
    """ORACLE.  Mean F at 13 dB of a method at the row of its grid that is best for all graphs."""
    table = each(on_the_grid, [(kind, n_signals, method, seed) for seed in SEEDS])
    return float(np.max(np.mean(table, axis=0)))


def on_the_grid(kind: str, n_signals: int, method: str, seed: int) -> list[float]:
    """F at every row of the grid of a method."""
    graph, X = example_at(kind, 13.0, n_signals, seed)
    start = np.random.default_rng(seed).random(20 * 19 // 2)
    problem = Problem(graph, X, np.empty(0), MODELS[kind], start * (10.0 / start.sum()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few signals are told
        paths = PATHS[method](problem, grid(method, quick=False))
        found = [as_graph(w, 20, CUT) for w, _, _ in paths]
    return [edge_scores(graph, other).f_measure for other in found]


def as_assumed(kind: str, seed: int) -> tuple[Graph, Array]:
    return example(kind, "noisy", seed)


def heavy_tails(kind: str, seed: int) -> tuple[Graph, Array]:
    """Noise of Student's t with two degrees of freedom, of the same median size."""
    graph, X = example(kind, "clean", seed)
    draws = np.random.default_rng(seed).standard_t(2.0, X.shape)
    return graph, X + 0.02 * 0.6745 / 0.8165 * draws


def bad_sensor(kind: str, seed: int) -> tuple[Graph, Array]:
    """One node that measures noise alone, as large as a typical node's signal."""
    graph, X = example(kind, "noisy", seed)
    X[:, 0] = np.sqrt(np.mean(np.square(X))) * np.random.default_rng(seed).standard_normal(len(X))
    return graph, X


def two_components(kind: str, seed: int) -> tuple[Graph, Array]:
    """Two graphs of ten nodes without an edge between them."""
    parts = [make_graph(kind, 10, random_state=seed + k) for k in (0, 500)]
    edges = np.vstack([part.edges + 10 * k for k, part in enumerate(parts)])
    graph = Graph(edges, np.concatenate([part.weights for part in parts]), 20)
    X, _ = make_heat_signals(graph, MODELS[kind], 100, noise_std=0.02, random_state=seed)
    return graph, X


def capacities(kind: str, seed: int) -> tuple[Graph, Array]:
    """Nodes whose heat capacities differ by ten: ``C dx/dt = -L x``, so no symmetric Laplacian."""
    graph = make_graph(kind, 20, random_state=seed)
    rng = np.random.default_rng(seed)
    root = np.sqrt(np.where(rng.random(20) < 0.5, 1.0, 10.0))
    lam, U = np.linalg.eigh(graph.normalized().laplacian().toarray() / np.outer(root, root))
    _, H = make_heat_signals(graph, MODELS[kind], 100, random_state=seed)
    # The times are longer by the mean capacity, so that heat goes about as far.
    times = np.array(MODELS[kind]) * np.mean(np.square(root))
    X = sum(
        h @ (U * np.exp(-t * lam) @ U.T * np.outer(1.0 / root, root)).T
        for t, h in zip(times, H.transpose(1, 0, 2), strict=True)
    )
    return graph, X + 0.02 * rng.standard_normal(X.shape)


def drift(kind: str, seed: int) -> tuple[Graph, Array]:
    """A level of each node that wanders over the signals, at its end as large as they are."""
    graph, X = example(kind, "noisy", seed)
    steps = np.random.default_rng(seed).standard_normal(X.shape)
    return graph, X + np.std(X) / np.sqrt(len(X)) * np.cumsum(steps, axis=0)


DEPARTURES = {
    "as the model says, noise 0.02": as_assumed,
    "heavy-tailed noise": heavy_tails,
    "one sensor of noise alone": bad_sensor,
    "two components": two_components,
    "capacities that differ by ten": capacities,
    "a slow drift of each node": drift,
}


def under_departure(name: str, kind: str, seed: int) -> tuple[float, float, bool, bool]:
    """F of LearnHeat() and of HeatCovariance(), what LearnHeat() warned of.

    Last, whether it warned that something was chosen at the end of what is tried, which it does in
    much noise; before that, whether it warned of anything else.
    """
    graph, X = DEPARTURES[name](kind, seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f = edge_scores(graph, LearnHeat().fit(X).graph_).f_measure
        said = [str(w.message) for w in caught if "LearnHeat" in str(w.message)]
        other = edge_scores(graph, HeatCovariance().fit(X).graph_).f_measure
    at_end = ["chosen at the end" in text for text in said]
    return f, other, not all(at_end), any(at_end)


CUTS = {
    "where weights are rarest, the default": partial(valley_cut, deviations=2.0),
    "share of the typical weight": typical_cut,
    "mixture of noise and edges": mixture_cut,
    "geometric mean of the two": lambda w: np.sqrt(typical_cut(w) * mixture_cut(w)),
    "Otsu": otsu,
    "the paper's 1e-4": lambda w: CUT,
}


def without_truth(kind: str, noise: str, seed: int) -> tuple[float, float, float, Array]:
    """F of LearnHeat() as it comes, F of its weights at the oracle's cut, time, scales."""
    graph, X = example(kind, noise, seed)
    LearnHeat(alpha=0.1, beta=0.01).fit(X[:20])  # what is loaded is not part of the time
    LearnHeat(n_scales=1, tol=1.0).fit(X[:20])
    start = time.process_time()
    model = LearnHeat().fit(X)
    whole = time.process_time() - start
    start = time.process_time()
    LearnHeat(alpha=model.alpha_, beta=model.beta_).fit(X)
    ratio = whole / (time.process_time() - start)
    f = edge_scores(graph, model.graph_).f_measure
    return f, best_cut(graph, model.weights_)[0].f_measure, ratio, model.scales_


def at_cuts(kind: str, noise: str, seed: int) -> list[float]:
    """F of the weights of LearnHeat() at each rule's cut, and last at the oracle's."""
    graph, X = example(kind, noise, seed)
    weights = LearnHeat().fit(X).weights_
    w = np.zeros(20 * 19 // 2)
    w[: weights.n_edges] = weights.weights
    cuts = [weights.cut(weight=np.nextafter(rule(w), 1.0)) for rule in CUTS.values()]
    scores = [edge_scores(graph, cut).f_measure for cut in cuts]
    return [*scores, best_cut(graph, weights)[0].f_measure]


def from_starts(kind: str, noise: str, seed: int) -> tuple[float, float]:
    """Largest relative difference of the scales, and of F, between four starts."""
    graph, X = example(kind, noise, seed)
    chosen = LearnHeat().fit(X)
    fits = [LearnHeat(scales=s, alpha=chosen.alpha_, beta=chosen.beta_).fit(X) for s in STARTS]
    scales = np.array([fit.scales_ for fit in fits])
    f = [edge_scores(graph, fit.graph_).f_measure for fit in fits]
    return float(np.max(np.ptp(scales, axis=0) / scales.mean(axis=0))), float(np.ptp(f))


def filled_by_truth(kind: str, noise: str, seed: int) -> float:
    """ORACLE.  Error of what the true graph and scales fill in, at the best of some alphas."""
    graph, X = example(kind, noise, seed)
    hidden = np.random.default_rng(seed).random(X.shape) < 0.3
    gaps = np.where(hidden, np.nan, X)
    means = np.where(hidden, np.nanmean(gaps, axis=0), gaps)
    model = DenseModel(graph.laplacian().toarray(), np.array(MODELS[kind]), "unit", "log", 1)
    signals = Signals.from_missing(np.ascontiguousarray(gaps.T))
    errors = []
    for alpha in (0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4):
        filled = model.predict(signals, alpha).T
        errors.append(np.sum((filled - X)[hidden] ** 2))
    return float(min(errors) / np.sum((means - X)[hidden] ** 2))


def with_gaps(kind: str, noise: str, seed: int) -> tuple[float, float, float]:
    """F with 30% of the entries missing, F without; error of impute over that of node means."""
    graph, X = example(kind, noise, seed)
    hidden = np.random.default_rng(seed).random(X.shape) < 0.3
    gaps = np.where(hidden, np.nan, X)
    model = LearnHeat().fit(gaps)
    means = np.where(hidden, np.nanmean(gaps, axis=0), gaps)
    error = np.sum((model.impute(gaps) - X)[hidden] ** 2) / np.sum((means - X)[hidden] ** 2)
    complete = edge_scores(graph, LearnHeat().fit(X).graph_).f_measure
    return edge_scores(graph, model.graph_).f_measure, complete, float(error)


def white_noise(seed: int) -> bool:
    """Whether a fit of white noise says that it predicts nothing."""
    X = np.random.default_rng(seed).standard_normal((100, 20))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        LearnHeat().fit(X)
    return any("predict" in str(w.message) for w in caught)


def each(function: Callable[..., Any], jobs: Iterable[tuple]) -> list[Any]:
    """What a function finds for each of these arguments."""
    return list(Parallel(n_jobs=-1)(delayed(function)(*job) for job in jobs))


def sweep(function, seeds: Iterable[int] = SEEDS) -> dict[tuple[str, str], list]:
    cells = [(kind, noise) for noise in NOISES for kind in MODELS]
    jobs = [(kind, noise, seed) for kind, noise in cells for seed in seeds]
    results = each(function, jobs)
    table: dict[tuple[str, str], list] = {cell: [] for cell in cells}
    for (kind, noise, _), result in zip(jobs, results, strict=True):
        table[kind, noise].append(result)
    return table


def header(title: str) -> None:
    print(f"\n{title:<42}" + " ".join(f"{c:>10}" for c in COLUMNS), flush=True)


def row(title: str, values: Iterable[float], digits: int = 3) -> None:
    print(f"{title:<42}" + " ".join(f"{v:>10.{digits}f}" for v in values), flush=True)


def recovery() -> None:
    for seeds in (SEEDS, UNTOUCHED):
        recovered(seeds)


def recovered(seeds: range) -> None:
    header(f"mean F, seeds {seeds[0]} to {seeds[-1]}")
    free = sweep(without_truth, seeds)
    row("LearnHeat(), no truth used", (np.mean([r[0] for r in c]) for c in free.values()))
    row("  standard deviation", (np.std([r[0] for r in c]) for c in free.values()))
    row("  same weights, best cut (oracle)", (np.mean([r[1] for r in c]) for c in free.values()))
    row("paper's LearnHeat, tuned by the truth", PAPER)
    for k in (0, 1):
        scale = (np.mean([r[3][k] for r in c]) for c in free.values())
        row(f"mean learned scale {k + 1}", scale, 2)
    row("true scale 1", [MODELS[kind][0] for kind, _ in free], 2)
    row("true scale 2", [MODELS[kind][1] for kind, _ in free], 2)
    row("time, in fits of given parameters", (np.mean([r[2] for r in c]) for c in free.values()), 1)


def cuts() -> None:
    header("mean F at other cuts, 10 graphs")
    table = sweep(at_cuts)
    for k, name in enumerate([*CUTS, "best possible (oracle)"]):
        row(name, (np.mean([r[k] for r in c]) for c in table.values()))


def starts() -> None:
    header("scales started at 4 places, 1 graph")
    table = sweep(from_starts, SEEDS[:1])
    row("largest relative difference of a scale", (max(r[0] for r in c) for c in table.values()))
    row("largest difference of F", (max(r[1] for r in c) for c in table.values()))


def gaps() -> None:
    header("30% of the entries missing, 10 graphs")
    table = sweep(with_gaps)
    row("mean F", (np.mean([r[0] for r in c]) for c in table.values()))
    row("  the same graph, complete", (np.mean([r[1] for r in c]) for c in table.values()))
    row(
        "impute, error over that of node means",
        (np.mean([r[2] for r in c]) for c in table.values()),
    )
    truth = sweep(filled_by_truth)
    row("  by the true graph and scales (oracle)", (np.mean(c) for c in truth.values()))


def growth() -> None:
    """Time of LearnHeat() in fits of given parameters, and in seconds, on one graph per size."""
    print(f"\n{'nodes':>6} {'signals':>8} {'F':>6} {'whole, s':>9} {'one fit, s':>11} {'ratio':>6}")
    for n_nodes, n_signals in SIZES:
        graph = make_graph("er", n_nodes, random_state=0, p=4.0 / n_nodes)
        n_sources = max(3, 3 * n_nodes // 20)
        X, _ = make_heat_signals(
            graph, MODELS["er"], n_signals, n_sources=n_sources, noise_std=0.02, random_state=0
        )
        LearnHeat(n_scales=1, tol=1.0).fit(X[:20])  # what is loaded is not part of the time
        start = time.process_time()
        model = LearnHeat().fit(X)
        whole = time.process_time() - start
        start = time.process_time()
        LearnHeat(alpha=model.alpha_, beta=model.beta_).fit(X)
        single = time.process_time() - start
        f = edge_scores(graph, model.graph_).f_measure
        print(
            f"{n_nodes:>6} {n_signals:>8} {f:>6.3f} {whole:>9.1f} {single:>11.2f} "
            f"{whole / single:>6.1f}",
            flush=True,
        )


def decibels() -> None:
    """The paper's noise: a signal-to-noise ratio of 13 dB."""
    for seeds in (SEEDS, UNTOUCHED):
        title = f"13 dB, seeds {seeds[0]} to {seeds[-1]}"
        print(f"\n{title:<42}" + " ".join(f"{kind.upper():>10}" for kind in MODELS))
        cells = [
            np.array(each(found_by_each, [(kind, 100, 13.0, seed) for seed in seeds]))
            for kind in MODELS
        ]
        names = ("LearnHeat()", "LearnHeat(), best cut (oracle)", "HeatCovariance()")
        for k, name in enumerate(names):
            row(f"mean F, {name}", (cell[:, k].mean() for cell in cells))
            row("  standard deviation", (cell[:, k].std() for cell in cells))


def few() -> None:
    """F against the number of signals, at 13 dB."""
    print(f"\n{'signals, at 13 dB, 10 graphs':<42}" + " ".join(f"{n:>10}" for n in FEW))
    for kind in MODELS:
        cells = [
            np.mean(each(found_by_each, [(kind, n, 13.0, seed) for seed in SEEDS]), axis=0)
            for n in FEW
        ]
        row(f"{kind.upper()}, mean F, LearnHeat()", (cell[0] for cell in cells))
        row(f"{kind.upper()}, mean F, HeatCovariance()", (cell[2] for cell in cells))
        for method, name in TUNED.items():
            row(f"{kind.upper()}, {name} (oracle)", (tuned(kind, n, method) for n in FEW))


def sensitivity() -> None:
    """What the model does not say: F, and of how many fits a warning came."""
    heads = f"{'LearnHeat':>10} {'Covariance':>10} {'warned':>7} {'at an end':>10}"
    print(f"\n{'mean F, 10 graphs of ER and of RBF':<42}{heads}")
    for name in DEPARTURES:
        jobs = [(name, kind, seed) for kind in ("er", "rbf") for seed in SEEDS]
        f, other, warned, at_end = np.mean(each(under_departure, jobs), axis=0)
        print(f"{name:<42}{f:>10.3f} {other:>10.3f} {warned:>7.0%} {at_end:>10.0%}", flush=True)


def noise() -> None:
    said = [white_noise(seed) for seed in range(5)]
    print(f"\nwhite noise: the fit says that it predicts nothing in {sum(said)} of {len(said)}")


PARTS = {
    f.__name__: f
    for f in (
        recovery,
        decibels,
        few,
        sensitivity,
        growth,
        starts,
        gaps,
        noise,
        cuts,
    )
}


def main() -> None:
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()
