"""Candidate edges laid out for the matrix-free kernels: neighbours near each other in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels.chebyshev import Operator, spectral_bound

__all__ = ["Layout"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Layout:
    """Nodes renumbered so that candidates are near each other; ``order[new]`` is the old number.

    ``upper`` lists each candidate once, at its first end: indptr (N + 1,), the other ends, and
    which candidate it is.  ``both`` lists it at either end.
    """

    candidates: CandidateEdges
    order: NDArray[np.intp]
    upper: tuple[Ints, NDArray[np.int32], Ints]
    both: tuple[Ints, NDArray[np.int32], Ints]

    @classmethod
    def of(cls, candidates: CandidateEdges) -> Layout:
        """Numbered by reverse Cuthill-McKee."""
        N = candidates.n_nodes
        ones = np.ones(candidates.n_edges, dtype=np.int8)
        pattern = coo_array((ones, (candidates.i, candidates.j)), shape=(N, N))
        order = reverse_cuthill_mckee((pattern + pattern.T).tocsr(), symmetric_mode=True)
        return cls.ordered(candidates, order.astype(np.intp))

    @classmethod
    def ordered(cls, candidates: CandidateEdges, order: NDArray[np.intp]) -> Layout:
        """Numbered as given; so that codes stay what they are when candidates are added."""
        N = candidates.n_nodes
        place = np.argsort(order)
        i, j = place[candidates.i], place[candidates.j]
        first, second = np.minimum(i, j), np.maximum(i, j)
        edge = np.arange(candidates.n_edges)
        upper = _listed(N, first, second, edge)
        both = _listed(
            N,
            np.concatenate([first, second]),
            np.concatenate([second, first]),
            np.concatenate([edge, edge]),
        )
        return cls(candidates, order, upper, both)

    def with_pairs(
        self, pairs: NDArray[np.intp], w: Array, seed: float = 0.0
    ) -> tuple[Layout, Array]:
        """With more candidates (n, 2), and the weights on all of them: ``seed`` on these pairs.

        Some may be candidates already.
        """
        N = self.n_nodes
        old = self.candidates.i.astype(np.int64) * N + self.candidates.j
        new = np.sort(pairs, axis=1).astype(np.int64)
        keys = np.union1d(old, new[:, 0] * N + new[:, 1])
        weights = np.zeros(keys.size)
        weights[np.searchsorted(keys, new[:, 0] * N + new[:, 1])] = seed
        weights[np.searchsorted(keys, old)] = np.maximum(w, weights[np.searchsorted(keys, old)])
        candidates = CandidateEdges(N, (keys // N).astype(np.intp), (keys % N).astype(np.intp))
        return Layout.ordered(candidates, self.order), weights

    @property
    def n_nodes(self) -> int:
        return self.candidates.n_nodes

    def operator(self, w: Array, dtype: Any = np.float64) -> Operator:
        """``L(w) / a - I`` on the candidates that carry a weight, ``2 a`` a bound on ``L(w)``."""
        degrees = self.candidates.degrees(w)
        bound = spectral_bound(degrees, self.candidates.i, self.candidates.j, w)
        inverse = 2.0 / bound if bound > 0.0 else 1.0
        indptr, indices, values = _assemble(*self.both, w, -inverse)
        return Operator(
            indptr,
            indices,
            values.astype(dtype),
            (degrees[self.order] * inverse - 1.0).astype(dtype),
            inverse,
        )


def _listed(
    N: int, first: NDArray[np.intp], second: NDArray[np.intp], edge: NDArray[np.intp]
) -> tuple[Ints, NDArray[np.int32], Ints]:
    by = np.lexsort((second, first))
    indptr = np.zeros(N + 1, dtype=np.int64)
    np.cumsum(np.bincount(first, minlength=N), out=indptr[1:])
    return indptr, second[by].astype(np.int32), edge[by].astype(np.int64)


def _assemble(
    indptr: Ints, ends: NDArray[np.int32], edge: Ints, w: Array, factor: float
) -> tuple[Ints, NDArray[np.int32], Array]:
    """The rows of ``factor W``, without the candidates whose weight is zero."""
    weights = w[edge]
    kept = weights > 0.0
    before = np.concatenate([[0], np.cumsum(kept)])
    return before[indptr], ends[kept], factor * weights[kept]
