"""Candidate edges: the coordinates in which a Laplacian is learned."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["CandidateEdges"]

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
    i: NDArray[np.intp]
    j: NDArray[np.intp]

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

    def laplacian(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """``L(w)``, dense (N, N)."""
        return _laplacian(self.n_nodes, self.i, self.j, np.asarray(w, dtype=np.float64))

    def degrees(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """``S_w w`` (N,): the sum of the weights at each node."""
        return _degrees(self.n_nodes, self.i, self.j, np.asarray(w, dtype=np.float64))

    def weights(self, L: NDArray[np.float64]) -> NDArray[np.float64]:
        """The weights on the candidates of a Laplacian, ``w_e = -L_ij``."""
        return -L[self.i, self.j]

    def squared_distances(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """``||rows_i - rows_j||^2`` (E,) between the ends of the candidates, some at a time."""
        found = np.empty(self.n_edges)
        for first in range(0, found.size, AT_ONCE):
            some = slice(first, first + AT_ONCE)
            apart = rows[self.i[some]] - rows[self.j[some]]
            found[some] = np.einsum("em,em->e", apart, apart)
        return found

    def adjoint(self, G: NDArray[np.float64]) -> NDArray[np.float64]:
        """The gradient in ``w`` of a function whose symmetric gradient in ``L`` is ``G``.

        ``g_ij = G_ii + G_jj - 2 G_ij``, so that ``<G, L(w)> = <adjoint(G), w>``.
        """
        return _adjoint(self.i, self.j, np.asarray(G, dtype=np.float64))


@_compiled
def _laplacian(
    n_nodes: int, i: NDArray[np.intp], j: NDArray[np.intp], w: NDArray[np.float64]
) -> NDArray[np.float64]:
    L = np.zeros((n_nodes, n_nodes))
    for e in range(w.size):
        L[i[e], j[e]] = -w[e]
        L[j[e], i[e]] = -w[e]
    degrees = _degrees(n_nodes, i, j, w)
    for k in range(n_nodes):
        L[k, k] = degrees[k]
    return L


@_compiled
def _degrees(
    n_nodes: int, i: NDArray[np.intp], j: NDArray[np.intp], w: NDArray[np.float64]
) -> NDArray[np.float64]:
    degrees = np.zeros(n_nodes)
    for e in range(w.size):
        degrees[i[e]] += w[e]
        degrees[j[e]] += w[e]
    return degrees


@_compiled
def _adjoint(
    i: NDArray[np.intp], j: NDArray[np.intp], G: NDArray[np.float64]
) -> NDArray[np.float64]:
    g = np.empty(i.size)
    for e in range(i.size):
        g[e] = G[i[e], i[e]] + G[j[e], j[e]] - 2.0 * G[i[e], j[e]]
    return g
