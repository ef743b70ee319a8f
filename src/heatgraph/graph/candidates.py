"""Candidate edges: the coordinates in which a Laplacian is learned."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["CandidateEdges"]

Array = NDArray[np.float64]
Ints = NDArray[np.intp]

AT_ONCE = 4096  # candidates whose rows are compared

_compiled = numba.njit(cache=True, nogil=True, fastmath=False)


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

    @property
    def n_edges(self) -> int:
        return self.i.size

    @cached_property
    def is_complete(self) -> bool:
        return self.n_edges == self.n_nodes * (self.n_nodes - 1) // 2

    @cached_property
    def runs(self) -> Ints:
        """Where runs begin, and the number of candidates last.

        A run is a node and others that follow each other, ``(i, j), (i, j + 1), ...``: of all
        pairs there is one for each node, and what runs along it is done several at a time.
        """
        begins = np.ones(self.n_edges + 1, dtype=np.bool_)
        begins[1:-1] = (np.diff(self.i) != 0) | (np.diff(self.j) != 1)
        return np.flatnonzero(begins)

    def laplacian(self, w: Array) -> Array:
        """``L(w)``, dense (N, N)."""
        return _laplacian(self.i, self.j, self.runs, np.asarray(w, np.float64), self.degrees(w))

    def degrees(self, w: Array) -> Array:
        """``S_w w`` (N,): the sum of the weights at each node."""
        return _degrees(self.n_nodes, self.i, self.j, self.runs, np.asarray(w, dtype=np.float64))

    def weights(self, L: Array) -> Array:
        """The weights on the candidates of a Laplacian, ``w_e = -L_ij``."""
        return -L[self.i, self.j]

    def squared_distances(self, rows: NDArray[Any]) -> Array:
        """``||rows_i - rows_j||^2`` (E,) between the ends of the candidates, some at a time."""
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
        return _adjoint(self.i, self.j, self.runs, np.asarray(G, dtype=np.float64))


# Below, ``begin`` is where runs begin and the last one ends: in a run, first ends are the same node
# and second ends follow each other, so that everything but the lower triangle is read in order.


@_compiled
def _laplacian(i: Ints, j: Ints, begin: Ints, w: Array, degrees: Array) -> Array:
    L = np.zeros((degrees.size, degrees.size))
    for r in range(begin.size - 1):
        weights, at, to = w[begin[r] : begin[r + 1]], i[begin[r]], j[begin[r]]
        row, column = L[at, to : to + weights.size], L[to : to + weights.size, at]
        for k in range(weights.size):
            row[k] = -weights[k]
            column[k] = -weights[k]
    for k in range(degrees.size):
        L[k, k] = degrees[k]
    return L


@_compiled
def _degrees(n_nodes: int, i: Ints, j: Ints, begin: Ints, w: Array) -> Array:
    degrees = np.zeros(n_nodes)
    for r in range(begin.size - 1):
        weights, at, to = w[begin[r] : begin[r + 1]], i[begin[r]], j[begin[r]]
        there, own = degrees[to : to + weights.size], degrees[at]
        for k in range(weights.size):
            there[k] += weights[k]
            own += weights[k]
        degrees[at] = own
    return degrees


@_compiled
def _adjoint(i: Ints, j: Ints, begin: Ints, G: Array) -> Array:
    own, g = np.diag(G).copy(), np.empty(i.size)
    for r in range(begin.size - 1):
        slopes, at, to = g[begin[r] : begin[r + 1]], i[begin[r]], j[begin[r]]
        row, there = G[at, to : to + slopes.size], own[to : to + slopes.size]
        for k in range(slopes.size):
            slopes[k] = own[at] + there[k] - 2.0 * row[k]
    return g
