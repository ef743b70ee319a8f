"""A learned large graph and its scales at work on signals, without an array of all pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from heatgraph.graph import CandidateEdges, Graph
from heatgraph.models.heat import Signals
from heatgraph.models.sparse_dictionary import SparseDictionary
from heatgraph.solvers.large_lasso import LargeLasso
from heatgraph.solvers.lasso import Coding

__all__ = ["LargeModel", "dictionary_on"]

Array = NDArray[np.float64]

CODING_TOL = 1e-6  # duality gap of the sources, over the energy of a signal


@dataclass(frozen=True, eq=False)
class LargeModel:
    """A graph, scales, and how sources are penalised; ``positive`` ones are >= 0."""

    graph: Graph
    tau: Array
    unit_atoms: bool
    penalty: str
    n_threads: int
    positive: bool = False

    @cached_property
    def _dictionary(self) -> SparseDictionary:
        return dictionary_on(self.graph, self.tau, self.unit_atoms, self.n_threads)

    def _lasso(self, alpha: float) -> LargeLasso:
        return LargeLasso(self._dictionary, alpha, self.penalty, self.positive, CODING_TOL)

    def code(self, signals: Signals, alpha: float) -> Coding:
        """The sources of signals, a row (S N,) each, with the duality gap that each reached."""
        coding = self._lasso(alpha).code(signals)
        return Coding(coding.h.toarray(), coding.value, coding.gap)

    def predict(self, signals: Signals, alpha: float) -> Array:
        """What the sources of signals diffuse into, (N, M)."""
        parts = [
            self._dictionary.synthesis(some.h.toarray())
            for some in self._lasso(alpha).batches(signals)
        ]
        return np.concatenate(parts).T

    def synthesis(self, H: Array) -> Array:
        """``sum_s E_s H_s`` (N, M) of sources (S, N, M)."""
        rows = np.ascontiguousarray(H.transpose(2, 0, 1)).reshape(H.shape[2], -1)
        return self._dictionary.synthesis(rows).T


def dictionary_on(graph: Graph, tau: Array, unit_atoms: bool, n_threads: int) -> SparseDictionary:
    """The atoms at scales ``tau`` on a graph."""
    ends = graph.edges.astype(np.intp)
    pairs = CandidateEdges(graph.n_nodes, ends[:, 0].copy(), ends[:, 1].copy())
    return SparseDictionary(pairs, np.asarray(graph.weights), tau, unit_atoms, n_threads)
