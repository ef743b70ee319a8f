"""Random problems of the paper's models, and one method on one of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from heatgraph.arrays import Array
from heatgraph.baselines.smooth_graph import SmoothGraph
from heatgraph.baselines.smooth_solver import learn_smooth
from heatgraph.baselines.spectral_templates import SpectralTemplates
from heatgraph.baselines.templates_solver import (
    Templates,
    learn_templates,
    learn_templates_within,
    smallest_residual,
)
from heatgraph.datasets.synthetic import make_graph, make_heat_signals
from heatgraph.estimators.learn_heat import LearnHeat
from heatgraph.graph import Graph
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.metrics import edge_scores
from heatgraph.models.heat import ATOMS, HeatObjective, Signals
from heatgraph.solvers.engine import LocalEngine
from heatgraph.solvers.heat import solve_heat
from heatgraph.solvers.palm import solve_paper
from heatgraph.solvers.result import Solution

Spec = dict[str, Any]  # what `draw` is called with: JSON can hold it

N_ATOMS = 3
# The scales that the signals of a model diffused at.
MODELS = {"rbf": (2.5, 4.0), "er": (2.5, 4.0), "ba": (1.0, 4.0)}
CUT = 1e-4


@dataclass(frozen=True, eq=False)
class Problem:
    """A graph, signals (M, N) that diffused on it at these scales, their sources (M, S, N).

    ``start`` holds random weights on all pairs, in the order of the upper triangle.
    """

    graph: Graph
    signals: Array
    sources: Array
    scales: tuple[float, ...]
    start: Array


def draw(
    kind: str,
    options: dict[str, Any],
    n_nodes: int,
    n_signals: int,
    noise_std: float,
    seed: int,
    instance: int,
    noise_db: float | None = None,
) -> Problem:
    """One random problem; the same graph and the same sources with and without noise.

    With ``noise_db`` the noise is so many decibels below the signals of this problem, and
    ``noise_std`` is not looked at.

    Examples
    --------
    >>> drawn = draw("er", {}, 20, 100, noise_std=0.0, seed=0, instance=0)
    >>> drawn.signals.shape, drawn.graph.n_nodes
    ((100, 20), 20)
    """
    stream = np.random.SeedSequence(seed, spawn_key=(list(MODELS).index(kind), instance))
    of_graph, of_signals, of_start = stream.spawn(3)
    graph = make_graph(kind, n_nodes, np.random.default_rng(of_graph), **options)

    def signals(std: float) -> tuple[Array, Array]:
        rng = np.random.default_rng(of_signals)
        return make_heat_signals(graph, MODELS[kind], n_signals, N_ATOMS, std, random_state=rng)

    if noise_db is not None:
        clean, _ = signals(0.0)
        noise_std = float(np.sqrt(np.mean(clean**2) * 10.0 ** (-0.1 * noise_db)))
    X, H = signals(noise_std)
    w = np.random.default_rng(of_start).random(n_nodes * (n_nodes - 1) // 2)
    return Problem(graph, X, H, MODELS[kind], w * (0.5 * n_nodes / w.sum()))


Grid = Sequence[Sequence[float]]
# Weights on all pairs, how the solver ended and the scales, for each row of the grid; no weights
# where the program has no solution, no scales where the method has none.
Path = Callable[[Problem, Grid], Iterator[tuple[Array | None, str, Array | None]]]

# The paper stops after 1000 iterations.
MAX_ITER, TOL = 1000, 1e-4


def paper_path(
    problem: Problem, grid: Grid, *, learn_scales: bool = False
) -> Iterator[tuple[Array, str, Array]]:
    """The paper's Algorithms 1 and 2 at rows ``(alpha, beta)``, by its rule of stopping.

    From a random graph and the true scales, which are held or learned.
    """
    candidates = CandidateEdges.complete(problem.graph.n_nodes)
    X, L0 = np.ascontiguousarray(problem.signals.T), candidates.laplacian(problem.start)
    for alpha, beta in grid:
        solution = solve_paper(
            X,
            candidates,
            L0,
            np.array(problem.scales),
            alpha=alpha,
            beta=beta,
            learn_scales=learn_scales,
            max_iter=MAX_ITER,
            tol=TOL,
        )
        yield solution.w, str(solution.status), solution.tau


def heat_path(problem: Problem, grid: Grid) -> Iterator[tuple[Array, str, Array]]:
    """Our solver on the paper's objective, with the scales held and a random start.

    Differs from the paper: the minimum is sought by another algorithm; `paper_path` has its own.
    """
    candidates = CandidateEdges.complete(problem.graph.n_nodes)
    signals = Signals(np.ascontiguousarray(problem.signals.T))
    for alpha, beta in grid:
        solution = solve_heat(
            LocalEngine(HeatObjective(candidates, alpha, beta, ATOMS["raw"]), signals),
            Solution(problem.start, np.array(problem.scales)),
            learn_scales=False,
            max_iter=MAX_ITER,
            tol=TOL,
        )
        yield solution.w, str(solution.status), solution.tau


def templates_path(problem: Problem, grid: Grid) -> Iterator[tuple[Array | None, str, None]]:
    """Spectral templates within rows ``(eps,)``: the form that the paper compares with."""
    templates = Templates.from_signals(problem.signals.T)
    least = smallest_residual(templates).eps
    for (eps,) in grid:
        if eps <= 0.0 or eps < least:
            yield None, "infeasible", None
            continue
        solution = learn_templates_within(templates, eps)
        yield solution.w, str(solution.status), None


def penalised_path(problem: Problem, grid: Grid) -> Iterator[tuple[Array, str, None]]:
    """Spectral templates at rows ``(penalty,)``: the stronger form, which the paper has not."""
    templates = Templates.from_signals(problem.signals.T)
    for (penalty,) in grid:
        solution = learn_templates(templates, penalty)
        yield solution.w, str(solution.status), None


def smooth_path(problem: Problem, grid: Grid) -> Iterator[tuple[Array, str, None]]:
    """The smooth model at rows ``(a, b)``."""
    for a, b in grid:
        solution = learn_smooth(problem.signals.T, a, b, tol=TOL)
        yield solution.w, str(solution.status), None


PATHS: dict[str, Path] = {
    "paper": paper_path,
    "paper, scales learned": partial(paper_path, learn_scales=True),
    "heat": heat_path,
    "templates": templates_path,
    "penalised": penalised_path,
    "smooth": smooth_path,
}
ESTIMATORS: dict[str, type[Any]] = {
    "heat": LearnHeat,
    "templates": SpectralTemplates,
    "smooth": SmoothGraph,
}


def path(problem: Spec, method: str, grid: Grid) -> dict[str, Any]:
    """ORACLE.  The scores of a method at every row of the grid, at the paper's cut."""
    drawn = draw(**problem)
    points = list(PATHS[method](drawn, grid))
    graphs = [as_graph(w, drawn.graph.n_nodes, CUT) for w, _, _ in points]
    return {
        "statuses": [status for _, status, _ in points],
        "scales": [tau for _, _, tau in points],
        "scores": [list(edge_scores(drawn.graph, graph)) for graph in graphs],
        "n_edges": [graph.n_edges for graph in graphs],
        "n_true": drawn.graph.n_edges,
        "power": float(np.mean(drawn.signals**2)),
    }


def weights_at(problem: Spec, method: str, row: Sequence[float]) -> dict[str, Any]:
    """The weights on all pairs that a method learns at one row of its grid, before the cut."""
    drawn = draw(**problem)
    ((w, _, _),) = PATHS[method](drawn, [row])
    n = drawn.graph.n_nodes
    return {"weights": np.zeros(n * (n - 1) // 2) if w is None else w}


def no_truth(problem: Spec, method: str) -> dict[str, Any]:
    """The scores of an estimator as it comes, and the weights of its graph on all pairs."""
    drawn = draw(**problem)
    with warnings.catch_warnings():
        # Too few signals is a part of an experiment; what comes of it is in the scores.
        warnings.simplefilter("ignore")
        model = ESTIMATORS[method]().fit(drawn.signals)
    scales = getattr(model, "scales_", None)
    return {
        "scores": list(edge_scores(drawn.graph, model.graph_)),
        "status": str(model.status_),
        "n_edges": model.graph_.n_edges,
        "weights": as_weights(model.graph_),
        "scales": None if scales is None else scales.tolist(),
    }


def as_graph(w: Array | None, n_nodes: int, cut: float = 0.0) -> Graph:
    """The graph of weights on all pairs, scaled to trace N, without those below the cut.

    Examples
    --------
    >>> as_graph(np.array([1.0, 1.0, 0.0]), 3, cut=0.1).n_edges
    2
    """
    if w is None or not np.any(w):
        return Graph(np.empty((0, 2), dtype=np.intp), np.empty(0), n_nodes)
    w = np.asarray(w) * (0.5 * n_nodes / np.sum(w))
    pairs = np.column_stack(np.triu_indices(n_nodes, k=1))
    kept = (w >= cut) & (w > 0.0)
    return Graph(pairs[kept], w[kept], n_nodes)


def as_weights(graph: Graph) -> Array:
    """The weights of a graph on all pairs, in the order of the upper triangle."""
    W: Array = graph.adjacency().toarray()
    return W[np.triu_indices(graph.n_nodes, k=1)]
