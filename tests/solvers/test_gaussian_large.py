"""Fits of weights to large graphs: what a step does must not depend on how many nodes there are."""

from __future__ import annotations

import numpy as np

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators.validation import resolve_candidates, start_near
from heatgraph.graph import CandidateEdges
from heatgraph.kernels.sparse_laplacian import EdgeLayout
from heatgraph.models.gaussian_large import BlockSignals
from heatgraph.solvers.gaussian_large import PREDICT_PENALTY, LargeFitter

N_NODES = 200


def _fall_of_the_first_step(n_copies: int) -> float:
    """Of the objective per node, on copies of one problem that nothing joins."""
    graph = make_graph("ring", N_NODES, random_state=0)
    X, _ = make_heat_signals(graph, [2.5, 4.0], 80, 3, random_state=0)
    X = (X - X.mean(axis=0)) / X.std()
    one = resolve_candidates(12, X, None)
    shift = N_NODES * np.repeat(np.arange(n_copies), one.n_edges)
    i, j = np.tile(one.i, n_copies) + shift, np.tile(one.j, n_copies) + shift
    layout = EdgeLayout.of(CandidateEdges(n_copies * N_NODES, i, j))
    signals = BlockSignals.of(np.tile(X, n_copies), layout)
    fitter = LargeFitter(layout)
    problem, start = fitter.start(np.tile(start_near(one, X), n_copies), signals)
    before, after = fitter.minimise(problem, start, start, PREDICT_PENALTY, 1).history
    return (before - after) / layout.n_nodes


def test_the_first_step_is_as_useful_on_many_nodes_as_on_few():
    few, many = _fall_of_the_first_step(1), _fall_of_the_first_step(20)
    assert few > 0.0
    assert many > 0.5 * few
