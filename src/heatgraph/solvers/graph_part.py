"""A compact part of a large graph, on which what all nodes share can be found at less cost."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from scipy.sparse import coo_array

from heatgraph.arrays import Array, Ints
from heatgraph.graph import CandidateEdges


@dataclass(frozen=True, eq=False)
class GraphPart:
    """Some nodes, the candidates between them, and the share of their weight that leads out."""

    nodes: Ints
    candidates: CandidateEdges
    inside: Ints  # which of all candidates these are
    share_leaving: float


def compact_part(candidates: CandidateEdges, w: Array, centre: int, size: int) -> GraphPart:
    """The part of ``size`` nodes that grows around ``centre`` with little weight leading out.

    The node that comes next has the largest share of its weight inside.  Where no node has any, the
    first one that is left comes next.
    """
    N = candidates.n_nodes
    A = coo_array((w, (candidates.i, candidates.j)), shape=(N, N)).tocsr()
    A = (A + A.T).tocsr()
    degrees, attached = candidates.degrees(w), np.zeros(N)
    is_inside, first_left = np.zeros(N, dtype=bool), 0
    heap = [(0.0, centre)]
    for _ in range(size):
        while heap and is_inside[heap[0][1]]:
            heappop(heap)
        if heap:
            node = heappop(heap)[1]
        else:
            first_left += int(np.argmin(is_inside[first_left:]))
            node = first_left
        is_inside[node] = True
        row = slice(A.indptr[node], A.indptr[node + 1])
        for other, weight in zip(A.indices[row].tolist(), A.data[row].tolist(), strict=True):
            if weight > 0.0 and not is_inside[other]:
                attached[other] += weight
                heappush(heap, (-attached[other] / degrees[other], other))
    return _part(candidates, w, np.flatnonzero(is_inside), degrees)


def _part(candidates: CandidateEdges, w: Array, nodes: Ints, degrees: Array) -> GraphPart:
    place = np.full(candidates.n_nodes, -1, dtype=np.intp)
    place[nodes] = np.arange(nodes.size)
    i, j = place[candidates.i], place[candidates.j]
    inside = np.flatnonzero((i >= 0) & (j >= 0))
    total = float(degrees[nodes].sum())
    share = 1.0 - 2.0 * float(w[inside].sum()) / total if total > 0.0 else 0.0
    between = CandidateEdges(nodes.size, i[inside].copy(), j[inside].copy())
    return GraphPart(nodes, between, inside, share)
