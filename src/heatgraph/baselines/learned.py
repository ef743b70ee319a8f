"""What the solver of every other method ends in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heatgraph.arrays import Array
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.solvers.result import Status


@dataclass(frozen=True, eq=False)
class Learned:
    """Weights ``w`` (E,) on the candidates, and how they were reached.

    ``residual`` is how far they are from optimal, each solver saying in what measure;
    ``objective`` its history.
    """

    w: Array
    objective: Array
    residual: float
    status: Status
    n_iter: int


def frozen(array: Any) -> Array:
    """A read-only copy: results are values."""
    out = np.array(array, dtype=np.float64)
    out.setflags(write=False)
    return out


def pairs_of(candidates: CandidateEdges | None, n_nodes: int) -> CandidateEdges:
    """The candidate edges, all pairs where none are given."""
    return CandidateEdges.complete(n_nodes) if candidates is None else candidates
