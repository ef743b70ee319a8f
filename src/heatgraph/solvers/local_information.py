"""Standard errors of the edges of a large graph, from the Fisher information around each of them.

``F_ef = tr(C^-1 C_e C^-1 C_f)`` falls with the distance between two edges, and so does its inverse.
So nodes are divided into small groups, and for each group the information is computed on the
nodes within a few edges of it: functions of the Laplacian's rows and columns of these nodes.  What
all edges share, the variances and scales, enters by a Schur complement that is summed over the
groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import coo_array, csr_array
from scipy.stats import norm

from heatgraph.arrays import Array, Ints
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels.spectral import Kernel
from heatgraph.models.gaussian import HEAT, GaussianHeat, GaussianPoint

HOPS = 3  # edges between a group and the last nodes that its information is computed on
MOST_NODES = 250  # that one group is computed on: around hubs fewer edges away
KNOWN = 1e-3  # of the largest information: a variance or scale of which less is known is held
RIDGE = 1e-10  # of the largest diagonal entry: information that is singular to rounding


def local_edge_tests(
    candidates: CandidateEdges,
    x: Array,
    n_signals: float,
    *,
    n_scales: int = 1,
    kernel: Kernel = HEAT.kernel,
    noise_is_free: bool = True,
    n_threads: int = 1,
) -> pd.DataFrame:
    """Weights with standard errors, Wald's ``z`` and one-sided p-values, one row per edge.

    ``x`` is a point ``[w, log v, log r, log sigma2]`` with positive weights on ``candidates``,
    which are in order.  A noise at its bound is not free.  As in
    :func:`heatgraph.solvers.information.edge_tests`, weights and standard errors are those of
    weights of sum ``N / 2``.  Where rounding leaves nothing of the variance, beside weights so
    heavy that two nodes are nearly one, the standard error is NaN, ``z`` 0 and the p-value 0.5.
    """
    E, N = candidates.n_edges, candidates.n_nodes
    graph = _Neighbours(candidates, x[:E])
    n_others = x.size - E - (not noise_is_free)

    def work(core: Ints) -> _Part:
        return _part_of(graph, core, x[E:], n_others, n_scales, kernel)

    cores = list(graph.groups())
    with ThreadPoolExecutor(max(1, n_threads)) as pool:
        parts = list(pool.map(work, cores))
    variance, sums = np.empty(E), np.empty(E)
    moved, cross = np.empty((E, n_others)), np.empty((E, n_others))
    shared = np.zeros((n_others, n_others))
    for part in parts:
        variance[part.edges], sums[part.edges] = part.variance, part.sums
        moved[part.edges], cross[part.edges] = part.moved, part.cross
        shared += part.shared
    # (F^-1)_ee = A_ee + g_e S^-1 g_e^T, with A the inverse among weights and g = A F_wv.
    inverse = _inverse_of_known(shared - cross.T @ moved)
    among = np.einsum("ev,vu,eu->e", moved, inverse, moved)
    w, unit = x[:E], 2.0 / n_signals
    raw = unit * (variance + among)
    # Where two nodes are nearly one, rounding leaves no variance of the weights around them.
    known = raw > 0.0
    z = np.divide(w, np.sqrt(np.where(known, raw, 1.0)), out=np.zeros(E), where=known)
    total = float(w.sum())
    with_sum = unit * (sums + moved @ inverse @ moved.sum(axis=0))  # Cov 1
    share = w / total
    spread = raw - 2.0 * share * with_sum + np.square(share) * float(with_sum.sum())
    stretch = 0.5 * N / total
    return pd.DataFrame(
        {
            "weight": w * stretch,
            "standard_error": np.where(known, stretch * np.sqrt(np.maximum(spread, 0.0)), np.nan),
            "z": z,
            "p_value": norm.sf(z),
        }
    )


@dataclass(frozen=True, eq=False)
class _Neighbours:
    """A weighted graph whose nodes know their neighbours."""

    candidates: CandidateEdges
    w: Array

    @cached_property
    def adjacency(self) -> csr_array:
        i, j, N = self.candidates.i, self.candidates.j, self.candidates.n_nodes
        ends = np.concatenate([i, j]), np.concatenate([j, i])
        return coo_array((np.tile(self.w, 2), ends), shape=(N, N)).tocsr()

    @cached_property
    def degrees(self) -> Array:
        return np.asarray(self.adjacency.sum(axis=1)).ravel()

    def groups(self) -> Iterator[Ints]:
        """Disjoint groups of all nodes: a node with those of its neighbours that are left."""
        A, left = self.adjacency, np.ones(self.candidates.n_nodes, dtype=bool)
        for node in range(left.size):
            if left[node]:
                around = A.indices[A.indptr[node] : A.indptr[node + 1]]
                core = np.append(around[left[around]], node).astype(np.intp)
                left[core] = False
                yield core

    def around(self, core: Ints) -> Ints:
        """The nodes within ``HOPS`` edges; where these are too many, those tied closest."""
        nodes = core
        for _ in range(HOPS):
            tied = np.zeros(self.candidates.n_nodes)
            rows = self.adjacency[nodes]
            np.add.at(tied, rows.indices, rows.data)
            tied[nodes] = 0.0
            new = np.flatnonzero(tied)
            room = max(MOST_NODES - nodes.size, 0)
            if new.size > room:
                new = new[np.argsort(-tied[new], kind="stable")[:room]]
            nodes = np.concatenate([nodes, new])
        return nodes


@dataclass(frozen=True, eq=False)
class _Part:
    """What one group says of its ``edges``, and its share of the information of all else.

    ``variance``, ``sums`` and ``moved``: diagonal, row sums, and product with ``cross`` of the
    inverse information among weights.
    """

    edges: Ints
    variance: Array
    sums: Array
    moved: Array
    cross: Array
    shared: Array


@dataclass(frozen=True, eq=False)
class _LocalPoint(GaussianPoint):
    """A point whose Laplacian is the part of a larger one on some nodes."""

    laplacian: Array

    @cached_property
    def _eigen(self) -> tuple[Array, Array]:
        lam, U = np.linalg.eigh(self.laplacian)
        return np.maximum(lam, 0.0), U


def _part_of(
    graph: _Neighbours, core: Ints, others: Array, n_others: int, n_scales: int, kernel: Kernel
) -> _Part:
    nodes = np.sort(graph.around(core))
    near = graph.adjacency[nodes][:, nodes].tocoo()
    L = np.diag(graph.degrees[nodes]) - near.toarray()
    above = near.row < near.col
    i, j = near.row[above].astype(np.intp), near.col[above].astype(np.intp)
    pairs = CandidateEdges(nodes.size, i, j)
    inside = np.zeros(graph.candidates.n_nodes, dtype=bool)
    inside[core] = True
    own = np.flatnonzero(inside[nodes[i]])  # every edge has its first node in one group
    weights = np.concatenate([near.data[above], others])
    local = GaussianHeat(pairs, np.eye(nodes.size), n_scales, None, kernel)
    point = _LocalPoint(local, weights, L)
    F = point.information_matrix(pairs, pairs)
    E = pairs.n_edges
    cross = F[:E, E : E + n_others]
    wanted = np.zeros((E, own.size + 1 + n_others))
    wanted[own, np.arange(own.size)] = 1.0
    wanted[:, own.size] = 1.0
    wanted[:, own.size + 1 :] = cross
    solved = _solve(F[:E, :E], wanted)[own]
    slopes = point.spectral_slopes[:n_others] / point.f
    rows = np.square(point.U[inside[nodes]]).sum(axis=0)  # the share of the core in each mode
    return _Part(
        edge_numbers(graph.candidates, nodes[i[own]], nodes[j[own]]),
        solved[np.arange(own.size), np.arange(own.size)],
        solved[:, own.size],
        solved[:, own.size + 1 :],
        cross[own],
        (slopes * rows) @ slopes.T,
    )


def edge_numbers(candidates: CandidateEdges, i: Ints, j: Ints) -> Ints:
    """The numbers of some pairs, of candidates that are in order."""
    N = candidates.n_nodes
    return np.searchsorted(candidates.i * N + candidates.j, i * N + j)


def _inverse_of_known(S: Array) -> Array:
    """The inverse on the directions that the signals determine; the others are held.

    Two scales that are close can hardly be told apart, and the errors of neighbourhoods are then
    larger than what is known of their difference.
    """
    s, U = np.linalg.eigh(0.5 * (S + S.T))
    known = s > KNOWN * max(float(s.max(initial=0.0)), 0.0)
    return (U[:, known] / s[known]) @ U[:, known].T


def _solve(F: Array, right: Array) -> Array:
    try:
        solved: Array = cho_solve(cho_factor(F, lower=True), right)
    except LinAlgError:
        ridge = RIDGE * float(np.diag(F).max(initial=0.0))
        solved = np.linalg.pinv(F + ridge * np.eye(len(F)), hermitian=True) @ right
    return solved
