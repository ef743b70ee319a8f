"""The slope of the likelihood in the weight of every pair of nodes, candidate or not.

With ``G`` the gradient in ``L``, the slope in ``w_ij`` is ``G_ii + G_jj - 2 G_ij``.  Traces give
``G = h'(L)``, ``h = log f + rho mu / f``: columns of a series, exact, without probing vectors.
Signals give ``G = (1 / a) sum_r s_r (q_r X) (q_r X)^T``.  Nodes are taken some at a time, so that
no array of all pairs is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heatgraph.arrays import Array, Ints
from heatgraph.kernels.series import interpolate, quadratic_series
from heatgraph.kernels.sparse_laplacian import aligned, block_width
from heatgraph.models.gaussian_large import BlockSignals, LargePoint

BLOCKS_AT_ONCE = 4  # of columns of the Laplacian's functions
MOST = 10_000  # pairs of the nodes taken at once: the steepest of more are kept


@dataclass(frozen=True, eq=False)
class Violations:
    """Pairs (i, j) outside the candidates whose weight would grow from zero.

    ``z`` is how many standard deviations of the slope it would grow by; ``n`` counts all of them,
    also those that were too many to keep.
    """

    i: Ints
    j: Ints
    z: Array
    n: int

    def steepest(self, per_node: int) -> Violations:
        """Those that are among the steepest so many of one of their ends."""
        ends, z = np.concatenate([self.i, self.j]), np.tile(self.z, 2)
        by = np.lexsort((-z, ends))
        first = np.searchsorted(ends[by], ends[by])
        rank = np.empty(ends.size, dtype=np.intp)
        rank[by] = np.arange(ends.size) - first
        kept = np.flatnonzero(np.minimum(rank[: self.i.size], rank[self.i.size :]) < per_node)
        return Violations(self.i[kept], self.j[kept], self.z[kept], self.n)


def violations(point: LargePoint, penalty: float, least_information: float) -> Violations:
    """Among all pairs, with a penalty of so many standard errors.

    A pair is not better known than ``least_information`` says, as in the fit.
    """
    candidates, M = point.problem.candidates, point.problem.signals.n_signals
    N = candidates.n_nodes
    known = np.sort(candidates.i * N + candidates.j)
    found, n = [], 0
    for i, j, slope, information in all_pairs(point):
        z = -slope / np.sqrt(2.0 / M * np.maximum(information, least_information))
        steep = np.flatnonzero(z > penalty)
        i, j, z = i[steep], j[steep], z[steep]
        keys = np.minimum(i, j) * N + np.maximum(i, j)
        place = np.minimum(np.searchsorted(known, keys), known.size - 1)
        new = np.flatnonzero(known[place] != keys)
        n += new.size
        new = new[np.argsort(-z[new], kind="stable")[:MOST]]
        found.append((np.minimum(i, j)[new], np.maximum(i, j)[new], z[new]))
    i, j, z = (np.concatenate(part) for part in zip(*found, strict=True))
    return Violations(i, j, z, n)


def all_pairs(point: LargePoint) -> Iterator[tuple[Ints, Ints, Array, Array]]:
    """Nodes ``i`` and ``j``, the slope and the information of pairs: every pair once."""
    functions = _Functions(point)
    layout = point.problem.layout
    N, step = layout.n_nodes, BLOCKS_AT_ONCE * block_width(point.problem.dtype)
    own = np.zeros((len(functions.series), N))  # diagonals, known up to the present column
    energy = functions.energy
    for first in range(0, N, step):
        columns = np.arange(first, min(first + step, N))
        last = int(columns[-1]) + 1
        K = functions.columns(columns)[:last]  # (last, columns, functions)
        own[:, columns] = K[columns, np.arange(columns.size)].T
        row, column = np.nonzero(np.arange(last)[:, None] < columns[None, :])
        K = own[:, :last, None] + own[:, None, columns] - 2.0 * K.transpose(2, 0, 1)
        forms = energy[:last, None] + energy[None, columns] - 2.0 * functions.forms(last, columns)
        slope = K[0] + forms
        information = np.tensordot(functions.signs, np.square(K[1:]), 1)
        yield (
            layout.order[row],
            layout.order[columns[column]],
            slope[row, column],
            information[row, column],
        )


@dataclass(frozen=True, eq=False)
class _Functions:
    """``h'(L)`` and the factors of the information; signals under the factors of their form."""

    point: LargePoint

    @cached_property
    def series(self) -> Array:
        """(1 + R, n)."""
        f, df = self.point.f, self.point.slope_of_f
        trace, _ = self.point.shares
        return np.vstack([interpolate(df / f - trace * df / f**2), self._information[0]])

    @property
    def _information(self) -> tuple[Array, Array]:
        return self.point.information_factors

    @property
    def signs(self) -> Array:
        return self._information[1]

    def columns(self, nodes: Ints) -> Array:
        """Columns of the functions, (N, nodes, 1 + R), by the layout's numbers."""
        problem = self.point.problem
        N, W = problem.layout.n_nodes, block_width(problem.dtype)
        blocks = aligned((-(-nodes.size // W), N, W), problem.dtype)
        blocks[:] = 0.0
        place = np.arange(nodes.size)
        blocks[place // W, nodes, place % W] = 1.0
        found = self.point.L.apply(blocks, self.series, problem.n_threads)  # (B, N, R, W)
        columns = found.transpose(1, 0, 3, 2).reshape(N, -1, len(self.series))[:, : nodes.size]
        return columns.astype(np.float64)

    @cached_property
    def _filtered(self) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
        """``q_r X`` (N, R M), and the same with the signs over ``a``."""
        point, signals = self.point, self.point.problem.signals
        if not isinstance(signals, BlockSignals):
            raise TypeError("slopes of all pairs need signals in memory")
        form = quadratic_series(point.terms.forms, point.f, point.problem.series_tol)
        found = point.L.apply(signals.blocks, form.factors, point.problem.n_threads)
        B, N, R, W = found.shape
        signs = np.tile(np.repeat(form.signs, W), B) / point.L.a
        Y = found.transpose(1, 0, 2, 3).reshape(N, B * R * W)
        return Y, (Y * signs).astype(Y.dtype)

    def forms(self, last: int, columns: Ints) -> Array:
        Y, signed = self._filtered
        return np.asarray(signed[:last] @ Y[columns].T, dtype=np.float64)

    @cached_property
    def energy(self) -> Array:
        Y, signed = self._filtered
        return np.einsum("nk,nk->n", Y, signed, dtype=np.float64)
