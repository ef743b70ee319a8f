"""Candidates that a fit lacks: pairs whose weight would grow from zero are added to it.

After a fit the slope of its objective is looked at in every pair of nodes
(:mod:`heatgraph.models.pairs_large`).  The steepest of each node become candidates, of weight zero,
and the fit goes on, until no pair is left or it was done a few times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from heatgraph.arrays import Array, Ints
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels.sparse_laplacian import EdgeLayout
from heatgraph.models.gaussian_large import LargePoint, SignalBlocks
from heatgraph.models.pairs_large import Violations, violations
from heatgraph.solvers.gaussian_large import (
    EDGE_PENALTY,
    FLAT,
    EdgePrior,
    Identified,
    LargeFitter,
    LargeResult,
)
from heatgraph.solvers.result import Status

ROUNDS = 5  # of further candidates, at the most
PER_NODE = 5  # pairs of a node that become candidates at once: more would flood hubs


@dataclass(frozen=True, eq=False)
class Generated:
    """The fit on the candidates in the end, and how many pairs outside them are left."""

    fitter: LargeFitter
    result: LargeResult
    n_left: int


def generate_edges(
    fitter: LargeFitter,
    found: Identified,
    result: LargeResult,
    signals: SignalBlocks,
    edge_prior: EdgePrior | None = None,
) -> Generated:
    """Add candidates to a fit until it is certified: its status says whether it is.

    A pair is left where its slope at zero is steeper than that of the penalty that says what is an
    edge.
    """
    start, left = found.start, _left(result)
    for _ in range(ROUNDS):
        if not left.n or result.status is not Status.CONVERGED:
            break
        wider, place = _with(fitter.layout.candidates, left.steepest(PER_NODE))
        fitter = replace(fitter, layout=EdgeLayout.of(wider, fitter.layout.order))
        start = _extended(start, place, wider.n_edges)
        x = _extended(result.fit.x, place, wider.n_edges)
        result = fitter.finish(replace(found, start=start, x=x), signals, edge_prior)
        left = _left(result)
    if not left.n and result.status is Status.CONVERGED:
        result = replace(result, status=Status.CERTIFIED)
    return Generated(fitter, result, left.n)


def _left(result: LargeResult) -> Violations:
    point: LargePoint = result.edges.point
    typical = float(np.median(point.diagonal[: point.problem.n_edges]))
    return violations(point, EDGE_PENALTY, FLAT * typical)


def _with(pairs: CandidateEdges, more: Violations) -> tuple[CandidateEdges, Ints]:
    """All of them in order, and the places of the former ones."""
    N = pairs.n_nodes
    before = pairs.i * N + pairs.j
    keys = np.union1d(before, more.i * N + more.j)
    i, j = np.divmod(keys, N)
    return CandidateEdges(N, i, j), np.searchsorted(keys, before)


def _extended(x: Array, place: Ints, n_edges: int) -> Array:
    """A point on more candidates, with weight zero on those that are new."""
    wider = np.zeros(n_edges + x.size - place.size)
    wider[place] = x[: place.size]
    wider[n_edges:] = x[place.size :]
    return wider
