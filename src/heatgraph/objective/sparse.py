"""The objective of LearnHeat with no array of all pairs: the same value, the same gradients."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels.chebyshev import (
    Operator,
    Polynomial,
    gradient_factors,
    heat_polynomial,
)
from heatgraph.kernels.layout import Layout
from heatgraph.kernels.patches import columns_gradient, heat_columns, make_patches, reached_rows
from heatgraph.kernels.pool import in_groups, run_threads
from heatgraph.objective.heat import spread

__all__ = ["Patch", "SparseDictionary", "SparseMoments", "SparseObjective"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

FEW_NODES = 3000  # up to here every row that heat reaches is looked at, and sources are exact
RIDGE = 4.0  # on the Gram matrix, in units of the tolerance
REACH = 1e-4  # beyond that, those where it is above this
MOST_ROWS = 1500  # and no more than the hottest of them


@dataclass(frozen=True, eq=False)
class Patch:
    """Neighbouring nodes, and the rows where heat from them is above a threshold."""

    nodes: Ints
    rows: Ints
    threshold: float


@dataclass(frozen=True, eq=False)
class SparseDictionary:
    """Everything that depends on the graph and the scales but not on the signals.

    Nodes are in the order of the layout.  ``omega`` (S, N); ``near`` lists for every node the
    nodes that its atoms overlap with, ``gram`` (n, P) the entries for each pair of scales (P = 0
    on large graphs);
    ``diagonals`` (K + 1, N) are those of the Chebyshev polynomials.
    """

    operator: Operator
    narrow: Operator
    tau: Array
    heat: Polynomial
    twice: Polynomial
    patches: tuple[Patch, ...]
    omega: Array
    diagonals: Array
    near: tuple[Ints, NDArray[np.int32]]
    gram: Array

    @property
    def n_atoms(self) -> int:
        return self.omega.size

    @property
    def has_gram(self) -> bool:
        return bool(self.gram.shape[1] > 0)

    @property
    def threshold(self) -> float:
        """What is left out of an atom is below this; the tolerance, unless heat is everywhere."""
        return max(patch.threshold for patch in self.patches)


@dataclass(frozen=True, eq=False)
class SparseMoments:
    """Sums over signals: the fit and its gradient on the candidates, ``<T_k R, H_s>``, ``|H_s|``.

    ``gradient`` (E,), ``modes`` (K + 1, S), ``c`` (S, N) as in the dense objective.
    """

    fit: float
    gradient: Array
    modes: Array
    c: Array


@dataclass(frozen=True, eq=False)
class SparseObjective:
    """``||X - sum_s E_s H_s||^2 + alpha sum omega_si |H_sim| + beta ||L||_F^2``, matrix-free.

    ``tol`` bounds the error of every ``exp(-tau L)``; ``dtype`` is the precision of the work on
    blocks, not that of the sums over them.
    """

    layout: Layout
    alpha: float
    beta: float
    unit_atoms: bool
    tol: float = 1e-8
    dtype: Any = np.float64
    n_threads: int = 1

    @property
    def candidates(self) -> CandidateEdges:
        return self.layout.candidates

    @property
    def total(self) -> float:
        """The sum of the weights that gives ``tr L = N``."""
        return 0.5 * self.layout.n_nodes

    def dictionary(self, w: Array, tau: Array) -> SparseDictionary:
        N, S = self.layout.n_nodes, tau.size
        operator = self.layout.operator(w)
        a = 1.0 / operator.inverse
        pairs = list(combinations_with_replacement(range(S), 2))
        times = np.array([tau[s] + tau[t] for s, t in pairs])
        sums = heat_polynomial(times, a, self.tol)
        own = [pairs.index((s, s)) for s in range(S)]
        twice = Polynomial(
            np.ascontiguousarray(sums.c[:, own]), np.ascontiguousarray(sums.slope[:, own])
        )
        patches = self._patches(operator, float(times.max()))
        diagonals = np.empty((sums.degree + 1, N))
        narrow = operator._replace(
            values=operator.values.astype(self.dtype),
            diagonal=operator.diagonal.astype(self.dtype),
        )
        # Past some size the Gram matrix would be most of the memory, and sources are found without.
        kept = sums.c if N <= FEW_NODES else sums.c[:, :0]
        near, gram = self._columns(narrow, patches, kept.astype(self.dtype), diagonals)
        if gram.size:
            # The Gram matrix is singular, and its error of the order of the tolerance: without
            # this, sources could grow without bound along what the error makes negative.
            own_entry = near[1] == np.repeat(np.arange(N), np.diff(near[0]))
            gram[np.ix_(own_entry, own)] += RIDGE * self.tol
        omega = np.ones((S, N))
        if self.unit_atoms:
            omega = np.sqrt(np.maximum(twice.c.T @ diagonals, self.tol))
        heat = heat_polynomial(tau, a, self.tol)
        return SparseDictionary(
            operator, narrow, tau, heat, twice, patches, omega, diagonals, near, gram
        )

    def _patches(self, operator: Operator, t: float) -> tuple[Patch, ...]:
        N = self.layout.n_nodes
        most = N if N <= FEW_NODES else MOST_ROWS
        reach = self.tol if N <= FEW_NODES else max(self.tol, REACH)
        weights = -operator.values / operator.inverse
        number = make_patches(operator.indptr, operator.indices, weights)
        by = np.argsort(number, kind="stable").astype(np.int64)
        starts = np.flatnonzero(np.diff(number[by], prepend=-1))

        def reached(group: Any) -> list[Patch]:
            u, v = np.zeros(N), np.zeros(N)
            position = np.full(N, -1, dtype=np.int32)
            return [
                Patch(nodes, *reached_rows(operator, nodes, t, reach, most, u, v, position))
                for nodes in group
            ]

        groups = in_groups(np.split(by, starts[1:]))
        return tuple(
            patch for part in run_threads(reached, groups, self.n_threads) for patch in part
        )

    def _columns(
        self, operator: Operator, patches: tuple[Patch, ...], c: Array, diagonals: Array
    ) -> tuple[tuple[Ints, NDArray[np.int32]], Array]:
        N = self.layout.n_nodes

        def columns(group: Any) -> list[tuple[Ints, NDArray[np.int32], Array]]:
            position = np.full(N, -1, dtype=np.int32)
            return [
                heat_columns(
                    operator, patch.nodes, patch.rows, c, patch.threshold, position, diagonals
                )
                for patch in group
            ]

        groups = in_groups(patches)
        found = [part for group in run_threads(columns, groups, self.n_threads) for part in group]
        listed = [patch for group in groups for patch in group]
        nodes = np.concatenate([patch.nodes for patch in listed])
        counts = np.concatenate([part[0] for part in found])
        ends = np.cumsum(counts)
        by = np.argsort(nodes)
        indptr = np.zeros(N + 1, dtype=np.int64)
        np.cumsum(counts[by], out=indptr[1:])
        rows = np.concatenate([part[1] for part in found])
        values = np.concatenate([part[2] for part in found])
        take = _ranges((ends - counts)[by], counts[by])
        return (indptr, rows[take]), values[take]

    def spread(self, w: Array) -> tuple[float, Array]:
        return spread(self.candidates, self.beta, w)

    def value(self, D: SparseDictionary, w: Array, moments: SparseMoments) -> float:
        sparsity = self.alpha * float(np.vdot(D.omega, moments.c))
        return moments.fit + sparsity + self.spread(w)[0]

    def gradient_w(self, D: SparseDictionary, w: Array, moments: SparseMoments) -> Array:
        gradient: Array = moments.gradient + self.spread(w)[1]
        if not self.unit_atoms:
            return gradient
        N, weight = self.layout.n_nodes, moments.c / (2.0 * D.omega)
        u, v = (f.astype(self.dtype) for f in gradient_factors(D.twice.c, self.tol))

        def part(group: Any) -> Array:
            g = np.zeros(self.candidates.n_edges)
            position = np.full(N, -1, dtype=np.int32)
            for patch in group:
                columns_gradient(
                    D.narrow,
                    patch.nodes,
                    patch.rows,
                    u,
                    v,
                    weight,
                    self.layout.both,
                    self.alpha,
                    position,
                    g,
                )
            return g

        for g in run_threads(part, in_groups(D.patches), self.n_threads):
            gradient += g
        return gradient

    def gradient_tau(self, D: SparseDictionary, moments: SparseMoments) -> Array:
        """``-2 <R, dp_s H_s>``, plus the slope of the penalty, ``omega^2`` being at ``2 tau``."""
        fit: Array = -2.0 * np.sum(D.heat.slope * moments.modes, axis=0)
        if not self.unit_atoms:
            return fit
        slopes = D.twice.slope.T @ D.diagonals
        penalty: Array = np.sum(moments.c * slopes / D.omega, axis=1)
        return fit + self.alpha * penalty


def _ranges(starts: Ints, counts: Ints) -> Ints:
    """``[starts[0], ..., starts[0] + counts[0] - 1, starts[1], ...]``."""
    total = int(counts.sum())
    offsets = np.repeat(starts - np.append(0, np.cumsum(counts)[:-1]), counts)
    ranges: Ints = np.arange(total) + offsets
    return ranges
