"""Candidates that were left out are found by the slope of all pairs."""

import numpy as np

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph import CandidateEdges
from heatgraph.kernels.sparse_laplacian import EdgeLayout
from heatgraph.models.gaussian_large import BlockSignals
from heatgraph.solvers.edge_generation import generate_edges
from heatgraph.solvers.gaussian_large import Identified, LargeFitter
from heatgraph.solvers.result import Status


def test_edges_that_are_not_candidates_are_added_until_none_is_left():
    N = 80
    graph = make_graph("geometric", N, random_state=1)
    X, _ = make_heat_signals(graph, [1.5], 400, N, 0.02, random_state=1)
    X -= X.mean(axis=0)
    edges = np.sort(graph.edges, axis=1)
    is_given = np.random.default_rng(0).random(len(edges)) < 0.8
    given = edges[is_given]
    pairs = CandidateEdges(N, given[:, 0].copy(), given[:, 1].copy())
    layout = EdgeLayout.of(pairs)
    fitter, signals = LargeFitter(layout), BlockSignals.of(X, layout, 1, np.float32)
    _, start = fitter.start(np.full(len(given), 0.1), signals)
    found = Identified(start, start)
    before = fitter.finish(found, signals)
    after = generate_edges(fitter, found, before, signals)
    assert after.result.status is Status.CERTIFIED
    assert after.n_left == 0
    assert after.result.edges.point.value < before.edges.point.value
    learned = after.fitter.layout.candidates
    carried = after.result.edges.point.w > 0.0
    known = set(zip(learned.i[carried], learned.j[carried], strict=True))
    found_again = [tuple(edge) in known for edge in edges[~is_given]]
    assert np.mean(found_again) > 0.7  # the noise is that of the first fit, and so too large
