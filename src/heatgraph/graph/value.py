"""A weighted graph as a value: its arrays, its matrices, and graphs made of it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components

from heatgraph.arrays import Array, Ints, Mask
from heatgraph.graph import checks

OPTIONAL = ("confidence", "coordinates")  # arrays that a graph need not have


@dataclass(frozen=True, init=False, eq=False, repr=False)
class GraphValue:
    """What :class:`~heatgraph.graph.Graph` holds and computes."""

    edges: Ints
    weights: Array
    n_nodes: int
    names: tuple[Hashable, ...] | None
    confidence: Array | None
    coordinates: Array | None
    directed: bool

    def __init__(
        self,
        edges: ArrayLike,
        weights: ArrayLike,
        n_nodes: int | None = None,
        names: Iterable[Hashable] | None = None,
        confidence: ArrayLike | None = None,
        coordinates: ArrayLike | None = None,
        directed: bool = False,
    ) -> None:
        if not isinstance(directed, (bool, np.bool_)):
            raise ValueError(f"directed must be True or False, got {directed!r}")
        pairs = checks.check_edges(edges, bool(directed))
        values = checks.check_weights(weights, len(pairs))
        labels = None if names is None else checks.check_names(names)
        if n_nodes is None:
            n_nodes = _implied_n_nodes(pairs, labels, coordinates)
        n_nodes = checks.check_n_nodes(n_nodes, pairs)
        if labels is not None and len(labels) != n_nodes:
            raise ValueError(
                f"names must have one label per node, got {len(labels)} for {n_nodes} nodes"
            )
        order = checks.sort_edges(pairs, n_nodes, bool(directed))
        sure = None if confidence is None else checks.check_confidence(confidence, len(pairs))
        places = None if coordinates is None else checks.check_coordinates(coordinates, n_nodes)
        self._set("edges", pairs[order])
        self._set("weights", values[order])
        self._set("n_nodes", n_nodes)
        self._set("names", labels)
        self._set("confidence", None if sure is None else sure[order])
        self._set("coordinates", places)
        self._set("directed", bool(directed))

    def _set(self, field: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            value = np.ascontiguousarray(value)
            value.flags.writeable = False
        object.__setattr__(self, field, value)

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        # Through the constructor, because pickled arrays come back writeable.
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GraphValue):
            return NotImplemented
        plain, arrays = ("n_nodes", "directed", "names"), ("edges", "weights", *OPTIONAL)
        return all(getattr(self, key) == getattr(other, key) for key in plain) and all(
            np.array_equal(getattr(self, key), getattr(other, key)) for key in arrays
        )

    def __hash__(self) -> int:
        # Confidence and coordinates may hold 0.0 and -0.0, equal but of different bytes.
        return hash((self.n_nodes, self.names, self.edges.tobytes(), self.weights.tobytes()))

    def __repr__(self) -> str:
        kind = "directed edge" if self.directed else "edge"
        parts = [_count(self.n_nodes, "node"), _count(self.n_edges, kind)]
        if self.n_edges:
            parts.append(f"weights {self.weights.min():.3g} to {self.weights.max():.3g}")
        parts += [key for key in ("names", *OPTIONAL) if getattr(self, key) is not None]
        return f"{type(self).__name__}({', '.join(parts)})"

    @property
    def n_edges(self) -> int:
        """The number of edges."""
        return len(self.edges)

    def adjacency(self) -> sp.csr_array[Any, Any]:
        """The matrix of weights, ``W_ij = w_ij``; symmetric unless the graph is directed.

        Returns
        -------
        scipy.sparse.csr_array (n_nodes, n_nodes)

        Examples
        --------
        >>> from heatgraph.graph import Graph
        >>> Graph([(0, 1)], [2.0]).adjacency().toarray()
        array([[0., 2.],
               [2., 0.]])
        """
        i, j = self.edges.T
        if self.directed:
            return sp.coo_array((self.weights, (i, j)), shape=(self.n_nodes, self.n_nodes)).tocsr()
        values = np.concatenate([self.weights, self.weights])
        where = np.concatenate([i, j]), np.concatenate([j, i])
        return sp.coo_array((values, where), shape=(self.n_nodes, self.n_nodes)).tocsr()

    def laplacian(self) -> sp.csr_array[Any, Any]:
        """The combinatorial Laplacian ``L = diag(degrees) - W``; of an undirected graph only.

        Returns
        -------
        scipy.sparse.csr_array (n_nodes, n_nodes)

        Examples
        --------
        >>> from heatgraph.graph import Graph
        >>> Graph([(0, 1)], [2.0]).laplacian().toarray()
        array([[ 2., -2.],
               [-2.,  2.]])
        """
        if self.directed:
            raise ValueError(
                "a directed graph has no symmetric Laplacian; take graph.undirected().laplacian()"
            )
        return sp.csr_array(sp.diags_array(self.degrees()) - self.adjacency())

    def degrees(self) -> Array:
        """The sum of the weights at each node, of edges in and out, shape (n_nodes,).

        Returns
        -------
        ndarray (n_nodes,)

        Examples
        --------
        >>> from heatgraph.graph import Graph
        >>> Graph([(0, 1), (1, 2)], [2.0, 1.0]).degrees()
        array([2., 3., 1.])
        """
        n = self.n_nodes
        i, j = self.edges.T
        degrees = np.bincount(i, self.weights, n) + np.bincount(j, self.weights, n)
        return degrees.astype(np.float64, copy=False)

    def n_components(self) -> int:
        """The number of connected components; a node without an edge is one by itself.

        The direction of edges does not count.

        Returns
        -------
        int

        Examples
        --------
        >>> from heatgraph.graph import Graph
        >>> Graph([(0, 1)], [1.0], n_nodes=4).n_components()
        3
        """
        return int(connected_components(self.adjacency(), directed=False)[0])

    def cut(
        self,
        weight: float | None = None,
        relative: float | None = None,
        n_edges: int | None = None,
    ) -> Self:
        """Keep the heavy edges, and every node.

        Exactly one of the three criteria is given.

        Parameters
        ----------
        weight : float, optional
            Keep the edges of at least this weight.
        relative : float in [0, 1], optional
            Keep the edges of at least this share of the largest weight.
        n_edges : int, optional
            Keep this many of the heaviest edges, all of them if there are fewer.  Among edges of
            equal weight the first in the order of ``edges`` stay.

        Returns
        -------
        Graph
            With the names, confidences and coordinates that remain.  Weights are not rescaled.

        Examples
        --------
        >>> from heatgraph.graph import Graph
        >>> graph = Graph([(0, 1), (0, 2), (1, 2)], [3.0, 1.0, 2.0])
        >>> graph.cut(weight=2.0).edges.tolist()
        [[0, 1], [1, 2]]
        >>> graph.cut(n_edges=1)
        Graph(3 nodes, 1 edge, weights 3 to 3)
        """
        given = [c for c in (weight, relative, n_edges) if c is not None]
        if len(given) != 1:
            raise ValueError(
                f"cut takes exactly one of weight, relative and n_edges, got {len(given)}"
            )
        if n_edges is not None:
            if not hasattr(n_edges, "__index__") or n_edges < 0:
                raise ValueError(f"n_edges must be an integer of at least 0, got {n_edges!r}")
            keep = np.zeros(self.n_edges, dtype=bool)
            keep[np.argsort(-self.weights, kind="stable")[:n_edges]] = True
            return self._keep(keep)
        if relative is not None:
            if not isinstance(relative, Real) or not 0 <= relative <= 1:
                raise ValueError(f"relative must lie in [0, 1], got {relative!r}")
            weight = relative * float(self.weights.max(initial=0.0))
        if not isinstance(weight, Real) or not weight >= 0:
            raise ValueError(f"weight must be a number of at least 0, got {weight!r}")
        return self._keep(self.weights >= weight)

    def _keep(self, mask: Mask) -> Self:
        sure = None if self.confidence is None else self.confidence[mask]
        return replace(self, edges=self.edges[mask], weights=self.weights[mask], confidence=sure)

    def undirected(self) -> Self:
        """The graph without directions; the weight of a pair is the mean of its two directions.

        Confidence is that of the surer direction.

        Returns
        -------
        Graph
            A new one; this one stays as it is.

        Examples
        --------
        >>> from heatgraph.graph import Graph
        >>> Graph([(0, 1), (1, 0), (2, 1)], [1.0, 3.0, 1.0], directed=True).undirected().weights
        array([2. , 0.5])
        """
        if not self.directed:
            return self
        pairs, place = np.unique(np.sort(self.edges, axis=1), axis=0, return_inverse=True)
        place = place.ravel()
        weights = (0.5 * np.bincount(place, self.weights, len(pairs))).astype(np.float64)
        sure = None
        if self.confidence is not None:
            sure = np.zeros(len(pairs))
            np.maximum.at(sure, place, self.confidence)
        return replace(self, edges=pairs, weights=weights, confidence=sure, directed=False)

    def scaled(self, trace: float) -> Self:
        """Scale the weights so that the Laplacian has the trace given, twice their sum.

        Those of a directed graph are scaled so that the degrees, in and out, have that sum.

        Parameters
        ----------
        trace : float
            Positive.

        Returns
        -------
        Graph
            A new one; this one stays as it is.

        Examples
        --------
        >>> from heatgraph.graph import Graph
        >>> Graph([(0, 1), (1, 2)], [1.0, 3.0]).scaled(trace=2.0).weights
        array([0.25, 0.75])
        """
        if not 0 < trace < np.inf:
            raise ValueError(f"trace must be positive and finite, got {trace!r}")
        if not self.n_edges:
            raise ValueError("a graph with no edges has trace 0 and cannot be scaled")
        # Dividing by the largest first keeps the sum from overflowing.
        shares = self.weights / self.weights.max()
        return replace(self, weights=shares * (0.5 * trace / shares.sum()))

    def normalized(self) -> Self:
        """Scale the weights so that the Laplacian has trace ``n_nodes``: a mean degree of 1.

        Returns
        -------
        Graph
            A new one; this one stays as it is.

        Examples
        --------
        >>> from heatgraph.graph import Graph
        >>> Graph([(0, 1), (1, 2)], [1.0, 3.0]).normalized().laplacian().trace()
        np.float64(3.0)
        """
        return self.scaled(trace=float(self.n_nodes))


def _implied_n_nodes(
    edges: Ints,
    names: tuple[Hashable, ...] | None,
    coordinates: ArrayLike | None,
) -> int:
    if names is not None:
        return len(names)
    if coordinates is not None:
        return len(np.atleast_1d(np.asarray(coordinates)))
    if len(edges):
        return int(edges.max()) + 1
    raise ValueError("n_nodes must be given for a graph with no edges and no names")


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"
