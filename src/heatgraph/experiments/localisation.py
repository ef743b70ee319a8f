"""The cells of figure 5: sources of new signals, found on a learned graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heatgraph.datasets.synthetic import make_heat_signals
from heatgraph.experiments.synthetic_problems import N_ATOMS, Spec, draw
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.metrics import source_scores
from heatgraph.models.atoms import ATOMS
from heatgraph.models.heat import HeatObjective, Signals
from heatgraph.selection.masked_prediction import hide_entries, prediction_errors
from heatgraph.solvers.engine import code_signals

__all__ = ["locate"]

Array = NDArray[np.float64]

STREAM = 50  # of the seeds; those of the graphs and their signals have smaller numbers
HIDDEN, N_HIDDEN = 0.25, 200  # of the entries, and of the signals that the choice of alpha looks at


def locate(
    problem: Spec,
    tau: float,
    number: int,
    n_signals: int,
    weights: Sequence[float] | None,
    alphas: Sequence[float],
) -> dict[str, Any]:
    """Code signals that diffused on the true graph by the atoms of a learned one.

    Differs from the paper: the lasso is solved exactly, not by iterative soft thresholding, which
    has the same minimiser and stops short of it.

    ``weights`` are on all pairs, None for the true graph; ``number`` makes the signals of each
    scale other ones.  For every alpha: the F-measure of the codes' support, the number of true
    sources among the largest codes, and the error on entries that were hidden, which knows no
    truth.
    """
    true = draw(**problem).graph
    stream = np.random.SeedSequence(
        problem["seed"], spawn_key=(STREAM, problem["instance"], number)
    )
    drawing, hiding = (np.random.default_rng(child) for child in stream.spawn(2))
    X, H = make_heat_signals(true, [tau], n_signals, N_ATOMS, random_state=drawing)
    candidates = CandidateEdges.complete(true.n_nodes)
    W = true.adjacency().toarray()
    w = W[candidates.i, candidates.j] if weights is None else np.array(weights)
    w = w * (0.5 * true.n_nodes / w.sum())
    D = HeatObjective(candidates, 1.0, 0.0, ATOMS["raw"]).dictionary(w, np.array([tau]))
    signals = Signals(np.ascontiguousarray(X.T))
    part = hide_entries(signals.take(np.arange(min(N_HIDDEN, n_signals))), HIDDEN, hiding)
    found: dict[str, Any] = {"f_measure": [], "n_located": [], "hidden_error": []}
    codes = None
    for alpha in alphas:
        codes = code_signals(D, signals, alpha, start=codes).h
        scores = source_scores(H.reshape(n_signals, -1), codes, N_ATOMS)
        found["f_measure"].append(scores.f_measure)
        found["n_located"].append(scores.n_located)
        error, energy = prediction_errors(D, part, alpha)
        found["hidden_error"].append(float(error.sum() / energy.sum()))
    return found
