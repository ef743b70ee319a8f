"""Probing vectors: the trace and the entries near the diagonal of a function of a sparse graph.

Nodes of one colour are far apart.  A vector of random signs on them reads the rows of ``g(L)`` of
all of them at once, as far as ``g(L)`` decays between them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from heatgraph.arrays import Array, Ints
from heatgraph.graph.candidates import CandidateEdges

CROWDED = 5.0  # nodes near a node, over the number of colours: more would need too many colours


@dataclass(frozen=True, eq=False)
class Probes:
    """``Z`` (P, N) has ``signs[i]`` at ``(colours[i], i)`` and zeros elsewhere."""

    colours: Ints
    signs: Array

    @property
    def n_vectors(self) -> int:
        return int(self.colours.max()) + 1

    @property
    def Z(self) -> Array:
        Z = np.zeros((self.n_vectors, self.colours.size))
        Z[self.colours, np.arange(self.colours.size)] = self.signs
        return Z


def probing_vectors(
    candidates: CandidateEdges,
    w: Array,
    distance: int,
    most: int,
    rng: np.random.Generator,
) -> Probes:
    """At most ``most`` vectors: no two nodes of one colour are candidates or near each other.

    Near is within as many edges of positive weight as ``most`` colours allow, ``distance`` at the
    most.  Nodes are coloured one after the other, those with most nodes near first, each with the
    least colour that none of these has.  Where ``most`` colours do not even separate candidates
    (hubs), a node takes a random one.
    """
    N = candidates.n_nodes
    kept = w > 0.0
    step = _adjacency(N, candidates.i[kept], candidates.j[kept])
    near, reached = _adjacency(N, candidates.i, candidates.j), step
    colours = _greedy_colours(near, most, rng)
    growth = 1.0
    for _ in range(distance - 1):
        # Of nodes that are near each other a third or so need colours of their own.  A product
        # that would be far too large is not even formed: it would be the largest array of a fit.
        if near.nnz * np.sqrt(growth) > CROWDED * most * N:
            break
        before = near.nnz
        reached = reached @ step + reached
        near = near + reached
        growth = near.nnz / max(before, 1)
        if near.nnz > CROWDED * most * N:
            break
        wider = _greedy_colours(near, most + 1, rng)
        if wider.max() >= most:
            break
        colours = wider
    return Probes(colours, rng.choice([-1.0, 1.0], N))


def _adjacency(N: int, i: Ints, j: Ints) -> csr_array:
    ones = np.ones(2 * i.size, dtype=bool)
    ends = np.concatenate([i, j]), np.concatenate([j, i])
    return csr_array((ones, ends), shape=(N, N))


def _greedy_colours(near: csr_array, most: int, rng: np.random.Generator) -> Ints:
    indptr, indices = near.indptr, near.indices
    colours = np.full(indptr.size - 1, -1, dtype=np.intp)
    free = np.ones(most + 1, dtype=bool)  # the last is for nodes that have no colour yet
    for node in np.argsort(-np.diff(indptr), kind="stable"):
        used = colours[indices[indptr[node] : indptr[node + 1]]]
        free[used] = False
        first = int(free[:most].argmax())
        colours[node] = first if free[first] else rng.integers(most)
        free[used] = True
    return np.unique(colours, return_inverse=True)[1]
