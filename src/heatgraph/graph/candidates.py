"""Candidate edges: the coordinates in which a Laplacian is learned."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

from heatgraph.arrays import Array, Ints, Mask
from heatgraph.graph.graph import Graph

AT_ONCE = 4096  # candidates whose rows are compared


@dataclass(frozen=True, eq=False)
class CandidateEdges:
    """The pairs of nodes ``(i[e], j[e])``, ``i < j``, that may carry a weight ``w[e] >= 0``.

    The Laplacian is linear in the weights, ``L(w) = sum_e w_e (d_i - d_j)(d_i - d_j)^T``; this
    class holds that map, its adjoint and the degrees.  A mask or a candidate list only shortens
    ``w``.
    """

    n_nodes: int
    i: Ints
    j: Ints

    @classmethod
    def complete(cls, n_nodes: int) -> CandidateEdges:
        """All pairs, in the row order of the upper triangle."""
        i, j = np.triu_indices(n_nodes, k=1)
        return cls(n_nodes, i, j)

    @classmethod
    def of(cls, n_nodes: int, pairs: Ints) -> CandidateEdges:
        """The pairs given, (E, 2)."""
        i, j = np.array(pairs.T, dtype=np.intp, order="C")
        return cls(n_nodes, i, j)

    def some(self, which: Ints | Mask) -> CandidateEdges:
        """Some of the pairs."""
        return CandidateEdges(self.n_nodes, self.i[which], self.j[which])

    def graph(self, w: Array, names: Iterable[Hashable] | None = None) -> Graph:
        """The graph of the pairs whose weight is positive."""
        kept = np.flatnonzero(w > 0.0)
        pairs = np.column_stack([self.i[kept], self.j[kept]])
        return Graph(pairs, w[kept], self.n_nodes, names)

    def includes(self, nodes: Ints) -> Mask:
        """Which pairs one of some nodes is part of, (E,)."""
        found: Mask = np.isin(self.i, nodes) | np.isin(self.j, nodes)
        return found

    def without(self, nodes: Ints) -> CandidateEdges:
        """The pairs that none of some nodes is part of."""
        return self.some(~self.includes(nodes))

    @property
    def n_edges(self) -> int:
        return self.i.size

    @cached_property
    def is_complete(self) -> bool:
        return self.n_edges == self.n_nodes * (self.n_nodes - 1) // 2

    @cached_property
    def _places(self) -> Ints:
        """Where ``(i, j)`` is in a flat (N, N) matrix."""
        return self.i * self.n_nodes + self.j

    def laplacian(self, w: Array) -> Array:
        """``L(w)``, dense (N, N)."""
        L = np.zeros((self.n_nodes, self.n_nodes))
        L.reshape(-1)[self._places] = np.negative(w)
        L += L.T
        np.fill_diagonal(L, self.degrees(w))
        return L

    def degrees(self, w: Array) -> Array:
        """``S_w w`` (N,): the sum of the weights at each node."""
        first, second = np.bincount(self.i, w, self.n_nodes), np.bincount(self.j, w, self.n_nodes)
        degrees: Array = np.add(first, second, dtype=np.float64)
        return degrees

    def weights(self, L: Array) -> Array:
        """The weights on the candidates of a Laplacian, ``w_e = -L_ij``."""
        return -L[self.i, self.j]

    def squared_distances(self, rows: NDArray[Any]) -> Array:
        """``||rows_i - rows_j||^2`` (E,) between the ends of the candidates, some at a time."""
        if self.is_complete:
            return np.asarray(squareform(pdist(rows, "sqeuclidean"))[self.i, self.j])
        found = np.empty(self.n_edges)
        for first in range(0, found.size, AT_ONCE):
            some = slice(first, first + AT_ONCE)
            apart = rows[self.i[some]] - rows[self.j[some]]
            found[some] = np.einsum("em,em->e", apart, apart)
        return found

    def adjoint(self, G: Array) -> Array:
        """The gradient in ``w`` of a function whose symmetric gradient in ``L`` is ``G``.

        ``g_ij = G_ii + G_jj - 2 G_ij``, so that ``<G, L(w)> = <adjoint(G), w>``.
        """
        own = np.diagonal(G)
        return own[self.i] + own[self.j] - 2.0 * np.take(G, self._places)
