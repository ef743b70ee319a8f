"""What a fit of LearnHeat is asked to do, checked and resolved against the signals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from heatgraph.graph import CandidateEdges, Graph
from heatgraph.learners.validation import (
    Names,
    check_choice,
    check_number,
    resolve_candidates,
)
from heatgraph.objective.atoms import ATOMS
from heatgraph.objective.heat import HeatObjective, Signals

__all__ = ["HeatParameters", "n_threads", "resolve"]

Array = NDArray[np.float64]

SOLVERS = ("auto", "dense", "paper")
INITS = ("uniform", "random")
FIRST_SCALES = (1.0, 3.0)  # the span that the scales start in where none are given


@dataclass(frozen=True, eq=False)
class HeatParameters:
    """One fit: the problem in units where X has size 1, the start, and the limits."""

    objective: HeatObjective
    signals: Signals
    w: Array
    tau: Array
    learn_scales: bool
    solver: str
    max_iter: int
    tol: float
    n_threads: int


def resolve(estimator: Any, X: Array, unit: float, names: Names) -> HeatParameters:
    """Check every parameter of the estimator against ``X`` (n_signals, n_nodes), of unit size.

    The one place where signals turn from rows, as users pass them, to columns, as the
    mathematics writes them.
    """
    if not np.nanmax(np.abs(X), initial=0.0) > 0.0:
        raise ValueError(
            "X holds no signal: every observed entry is zero. A graph can only be learned from "
            "signals that vary."
        )
    signals = Signals.from_missing(np.ascontiguousarray(X.T))
    candidates = resolve_candidates(estimator.candidates, X, names)
    tau = _scales(estimator)
    alpha, beta = _penalties(estimator, signals, unit)
    atoms = check_choice("atoms", estimator.atoms, tuple(ATOMS))
    solver = check_choice("solver", estimator.solver, SOLVERS)
    if solver == "paper" and atoms != "raw":
        raise ValueError('solver="paper" has the paper\'s penalty only; set atoms="raw".')
    if solver == "paper" and signals.observed is not None:
        raise ValueError('solver="paper" takes no missing entries; use solver="dense".')
    if estimator.n_edges is not None:
        check_number("n_edges", estimator.n_edges, minimum=1, integer=True)
    return HeatParameters(
        objective=HeatObjective(candidates, alpha, beta, ATOMS[atoms]),
        signals=signals,
        w=_start(estimator, candidates),
        tau=tau,
        learn_scales=bool(estimator.learn_scales),
        solver=solver,
        max_iter=int(check_number("max_iter", estimator.max_iter, minimum=1, integer=True)),
        tol=check_number("tol", estimator.tol),
        n_threads=n_threads(estimator.n_jobs),
    )


def _scales(estimator: Any) -> Array:
    S = int(check_number("n_scales", estimator.n_scales, minimum=1, integer=True))
    if estimator.scales is None:
        if not estimator.learn_scales:
            raise ValueError(
                "learn_scales=False holds the scales, so scales must be given, e.g. scales=(2, 4)."
            )
        return np.geomspace(*FIRST_SCALES, S) if S > 1 else np.array([np.prod(FIRST_SCALES) ** 0.5])
    try:
        tau = np.array(estimator.scales, dtype=np.float64)
    except (TypeError, ValueError):
        tau = np.array(np.nan)
    if tau.ndim != 1 or not np.all(np.isfinite(tau) & (tau >= 0.0)):
        raise ValueError(
            f"scales must be a sequence of finite numbers >= 0, got {estimator.scales!r}."
        )
    if tau.size != S:
        raise ValueError(
            f"scales has {tau.size} values but n_scales is {S}; pass n_scales={tau.size}."
        )
    return tau


def _penalties(estimator: Any, signals: Signals, unit: float) -> tuple[float, float]:
    """``alpha`` and ``beta`` in units where the signals have size 1.

    "auto" is a fixed fraction of what the signals hold: of the norm of a typical signal for
    alpha, of the energy of all, by the squared norm of a Laplacian, for beta.
    """
    N = signals.X.shape[0]
    energy = signals.energy
    alpha = 0.05 * float(np.sqrt(energy.mean()))
    beta = 2e-3 * float(energy.sum()) / N
    if not _is_auto("alpha", estimator.alpha):
        alpha = check_number("alpha", estimator.alpha) / unit
    if not _is_auto("beta", estimator.beta):
        beta = check_number("beta", estimator.beta) / unit**2
    return alpha, beta


def _is_auto(name: str, value: Any) -> bool:
    if isinstance(value, str) and value != "auto":
        raise ValueError(f'{name} must be a number >= 0 or "auto", got {value!r}.')
    return isinstance(value, str)


def _start(estimator: Any, candidates: CandidateEdges) -> Array:
    """Weights to start from, on the simplex of the candidates."""
    total = 0.5 * candidates.n_nodes
    if isinstance(estimator.init, Graph):
        return _from_graph(estimator.init, candidates, total)
    if check_choice("init", estimator.init, INITS) == "uniform":
        return np.full(candidates.n_edges, total / candidates.n_edges)
    random = estimator.random_state
    if not isinstance(random, np.random.Generator):
        random = check_random_state(random)
    return _on_simplex(random.uniform(size=candidates.n_edges), total)


def _from_graph(graph: Graph, candidates: CandidateEdges, total: float) -> Array:
    if graph.n_nodes != candidates.n_nodes:
        raise ValueError(
            f"init: the graph has {graph.n_nodes} nodes, X has {candidates.n_nodes} columns."
        )
    W = graph.adjacency()
    w: Array = np.asarray(W[candidates.i, candidates.j], dtype=np.float64).ravel()
    if w.sum() <= 0.0:
        raise ValueError("init: no edge of the graph is among the candidates.")
    return _on_simplex(w, total)


def _on_simplex(w: Array, total: float) -> Array:
    scaled: Array = w * (total / w.sum())
    return scaled


def n_threads(n_jobs: int | None) -> int:
    """``n_jobs`` as scikit-learn reads it: None is one, -1 is every core."""
    from joblib import effective_n_jobs

    if n_jobs == 0 or (n_jobs is not None and not isinstance(n_jobs, (int, np.integer))):
        raise ValueError(f"n_jobs must be None, a number of threads or -1 for all, got {n_jobs!r}.")
    return int(effective_n_jobs(n_jobs))
