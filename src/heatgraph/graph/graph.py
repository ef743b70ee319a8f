"""A weighted graph as a value."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from heatgraph.graph import checks, convert, storage

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    import pygsp

__all__ = ["Graph"]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Graph:
    """Hold a weighted graph, and turn it into the forms that other tools take.

    A graph is a value: it never changes, two graphs with the same content are equal, and the
    arrays given are copied.  A node is a number from 0 to ``n_nodes - 1``, and may have a name.

    Parameters
    ----------
    edges : array-like of int, shape (n_edges, 2)
        Pairs of different nodes, each pair once, in any order.
    weights : array-like, shape (n_edges,)
        Positive and finite.  An edge of weight 0 is an edge left out.
    n_nodes : int, optional
        By default the number of names or of coordinates, else the largest node number plus 1.
    names : sequence of hashable, optional
        One distinct label a node.
    confidence : array-like, shape (n_edges,), optional
        How sure each edge is, from 0 to 1.
    coordinates : array-like, shape (n_nodes, 2), optional
        Where the nodes are.
    directed : bool, default=False
        Whether a pair ``(i, j)`` is an edge from ``i`` to ``j``, which ``(j, i)`` is not.

    Attributes
    ----------
    edges : ndarray of int, shape (n_edges, 2)
        The pairs ``(i, j)``, in lexicographic order, with ``i < j`` unless the graph is directed.
        Like every array here, read-only.
    weights : ndarray, shape (n_edges,)
        The weights, in the order of ``edges``.
    n_nodes : int
        The number of nodes, those without an edge included.
    names : tuple or None
        The labels; None stands for the node numbers.
    confidence : ndarray, shape (n_edges,), or None
        In the order of ``edges``.
    coordinates : ndarray, shape (n_nodes, 2), or None
        Where the nodes are.
    directed : bool
        Whether edges have a direction.

    Examples
    --------
    >>> from heatgraph.graph import Graph
    >>> graph = Graph([(2, 1), (0, 1)], [2.0, 0.5], names=["ann", "bob", "cy"])
    >>> graph
    Graph(3 nodes, 2 edges, weights 0.5 to 2, names)
    >>> graph.edges.tolist(), graph.weights.tolist()
    ([[0, 1], [1, 2]], [0.5, 2.0])
    >>> graph.laplacian().toarray()
    array([[ 0.5, -0.5,  0. ],
           [-0.5,  2.5, -2. ],
           [ 0. , -2. ,  2. ]])
    """

    edges: NDArray[np.intp]
    weights: NDArray[np.float64]
    n_nodes: int
    names: tuple[Hashable, ...] | None
    confidence: NDArray[np.float64] | None
    coordinates: NDArray[np.float64] | None
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
                f"names must have one label a node, got {len(labels)} for {n_nodes} nodes"
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

    def __reduce__(self) -> tuple[type[Graph], tuple[Any, ...]]:
        # Through the constructor, because pickled arrays come back writeable.
        return type(self), (
            self.edges,
            self.weights,
            self.n_nodes,
            self.names,
            self.confidence,
            self.coordinates,
            self.directed,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return (
            self.n_nodes == other.n_nodes
            and self.directed == other.directed
            and self.names == other.names
            and np.array_equal(self.edges, other.edges)
            and np.array_equal(self.weights, other.weights)
            and _same(self.confidence, other.confidence)
            and _same(self.coordinates, other.coordinates)
        )

    def __hash__(self) -> int:
        # Confidence and coordinates may hold 0.0 and -0.0, equal but of different bytes.
        return hash((self.n_nodes, self.names, self.edges.tobytes(), self.weights.tobytes()))

    def __repr__(self) -> str:
        kind = "directed edge" if self.directed else "edge"
        parts = [_count(self.n_nodes, "node"), _count(self.n_edges, kind)]
        if self.n_edges:
            parts.append(f"weights {self.weights.min():.3g} to {self.weights.max():.3g}")
        optional = ("names", "confidence", "coordinates")
        parts += [field for field in optional if getattr(self, field) is not None]
        return f"Graph({', '.join(parts)})"

    @property
    def n_edges(self) -> int:
        """The number of edges."""
        return len(self.edges)

    def adjacency(self) -> sp.csr_array[Any, Any]:
        """The matrix of weights, ``W_ij = w_ij``; symmetric unless the graph is directed.

        Examples
        --------
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

        Examples
        --------
        >>> Graph([(0, 1)], [2.0]).laplacian().toarray()
        array([[ 2., -2.],
               [-2.,  2.]])
        """
        if self.directed:
            raise ValueError(
                "a directed graph has no symmetric Laplacian; take graph.undirected().laplacian()"
            )
        return sp.csr_array(sp.diags_array(self.degrees()) - self.adjacency())

    def degrees(self) -> NDArray[np.float64]:
        """The sum of the weights at each node, of edges in and out, shape (n_nodes,).

        Examples
        --------
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

        Examples
        --------
        >>> Graph([(0, 1)], [1.0], n_nodes=4).n_components()
        3
        """
        return int(connected_components(self.adjacency(), directed=False)[0])

    def cut(
        self,
        weight: float | None = None,
        relative: float | None = None,
        n_edges: int | None = None,
    ) -> Graph:
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

    def _keep(self, mask: NDArray[np.bool_]) -> Graph:
        return Graph(
            self.edges[mask],
            self.weights[mask],
            self.n_nodes,
            self.names,
            None if self.confidence is None else self.confidence[mask],
            self.coordinates,
            self.directed,
        )

    def undirected(self) -> Graph:
        """The graph without directions; the weight of a pair is the mean of its two directions.

        Confidence is that of the surer direction.

        Examples
        --------
        >>> Graph([(0, 1), (1, 0), (2, 1)], [1.0, 3.0, 1.0], directed=True).undirected().weights
        array([2. , 0.5])
        """
        if not self.directed:
            return self
        pairs, place = np.unique(np.sort(self.edges, axis=1), axis=0, return_inverse=True)
        place = place.ravel()
        weights = 0.5 * np.bincount(place, self.weights, len(pairs))
        sure = None
        if self.confidence is not None:
            sure = np.zeros(len(pairs))
            np.maximum.at(sure, place, self.confidence)
        return Graph(pairs, weights, self.n_nodes, self.names, sure, self.coordinates)

    def scaled(self, trace: float) -> Graph:
        """Scale the weights so that the Laplacian has the trace given, twice their sum.

        Those of a directed graph are scaled so that the degrees, in and out, have that sum.

        Parameters
        ----------
        trace : float
            Positive.

        Examples
        --------
        >>> Graph([(0, 1), (1, 2)], [1.0, 3.0]).scaled(trace=2.0).weights
        array([0.25, 0.75])
        """
        if not 0 < trace < np.inf:
            raise ValueError(f"trace must be positive and finite, got {trace!r}")
        if not self.n_edges:
            raise ValueError("a graph with no edges has trace 0 and cannot be scaled")
        # Dividing by the largest first keeps the sum from overflowing.
        shares = self.weights / self.weights.max()
        weights = shares * (0.5 * trace / shares.sum())
        return Graph(
            self.edges,
            weights,
            self.n_nodes,
            self.names,
            self.confidence,
            self.coordinates,
            self.directed,
        )

    def normalized(self) -> Graph:
        """Scale the weights so that the Laplacian has trace ``n_nodes``: a mean degree of 1.

        Examples
        --------
        >>> Graph([(0, 1), (1, 2)], [1.0, 3.0]).normalized().laplacian().trace()
        np.float64(3.0)
        """
        return self.scaled(trace=float(self.n_nodes))

    @classmethod
    def from_laplacian(
        cls,
        L: ArrayLike | sp.sparray | sp.spmatrix,
        names: Iterable[Hashable] | None = None,
        tol: float = 1e-10,
    ) -> Graph:
        """Read a graph from its Laplacian.

        Parameters
        ----------
        L : array-like or scipy sparse, shape (n_nodes, n_nodes)
            Symmetric, rows summing to 0, nothing positive off the diagonal.
        names : sequence of hashable, optional
            One label a node.
        tol : float, default=1e-10
            How far, relative to the largest entry, ``L`` may be from those three properties;
            weights that small are rounding and are left out.

        Examples
        --------
        >>> Graph.from_laplacian([[2.0, -2.0], [-2.0, 2.0]])
        Graph(2 nodes, 1 edge, weights 2 to 2)
        """
        return cls(**convert.from_laplacian(L, names, tol))

    @classmethod
    def from_adjacency(
        cls,
        W: ArrayLike | sp.sparray | sp.spmatrix,
        names: Iterable[Hashable] | None = None,
        tol: float = 0.0,
        directed: bool = False,
    ) -> Graph:
        """Read a graph from its matrix of weights.

        Parameters
        ----------
        W : array-like or scipy sparse, shape (n_nodes, n_nodes)
            Symmetric unless directed, zero on the diagonal, nothing negative.
        names : sequence of hashable, optional
            One label a node.
        tol : float, default=0
            How far, relative to the largest entry, ``W`` may be from those three properties;
            weights that small are rounding and are left out.
        directed : bool, default=False
            Whether ``W_ij`` is the weight of an edge from ``i`` to ``j``.

        Examples
        --------
        >>> Graph.from_adjacency([[0.0, 2.0], [2.0, 0.0]])
        Graph(2 nodes, 1 edge, weights 2 to 2)
        """
        return cls(**convert.from_adjacency(W, names, tol, directed))

    def to_networkx(self) -> nx.Graph[Any]:
        """The graph for NetworkX.

        Returns
        -------
        networkx.Graph, or networkx.DiGraph if directed
            Nodes are the names, or the node numbers; edges have ``weight`` and, if known,
            ``confidence``; nodes have ``pos`` if there are coordinates.

        Examples
        --------
        >>> Graph([(0, 1)], [2.0], names=["a", "b"]).to_networkx().edges["a", "b"]
        {'weight': 2.0}
        """
        return convert.to_networkx(self)

    @classmethod
    def from_networkx(cls, graph: nx.Graph[Any], weight: str = "weight") -> Graph:
        """Read a NetworkX graph, directed or not.

        Parameters
        ----------
        graph : networkx.Graph or networkx.DiGraph
            Its nodes become the names, unless they are 0, 1, 2, ... in order.
        weight : str, default="weight"
            The edge attribute to read; an edge without it has weight 1, as in NetworkX.

        Examples
        --------
        >>> import networkx as nx
        >>> Graph.from_networkx(nx.path_graph(3))
        Graph(3 nodes, 2 edges, weights 1 to 1)
        """
        return cls(**convert.from_networkx(graph, weight))

    def to_pandas(self) -> pd.DataFrame:
        """The list of edges as a data frame, one row per edge.

        Returns
        -------
        pandas.DataFrame
            Columns ``source`` and ``target`` (names, or node numbers), ``weight`` and, if known,
            ``confidence``.  A node without an edge is not in it.

        Examples
        --------
        >>> Graph([(0, 1)], [2.0], names=["a", "b"]).to_pandas()
          source target  weight
        0      a      b     2.0
        """
        return convert.to_pandas(self)

    @classmethod
    def from_pandas(
        cls,
        frame: pd.DataFrame,
        n_nodes: int | None = None,
        names: Iterable[Hashable] | None = None,
        directed: bool = False,
    ) -> Graph:
        """Read a list of edges: columns ``source``, ``target``, ``weight`` [, ``confidence``].

        Parameters
        ----------
        frame : pandas.DataFrame
            One row per edge.
        n_nodes : int, optional
            Given, the columns hold node numbers below it.
        names : sequence of hashable, optional
            Given, the columns hold these names, and the nodes come in this order.  With neither,
            the labels in the columns become the names, sorted where they can be, unless they are
            exactly the numbers 0, 1, 2, ...
        directed : bool, default=False
            Whether an edge goes from its source to its target only.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"source": ["b"], "target": ["a"], "weight": [2.0]})
        >>> Graph.from_pandas(frame).names
        ('a', 'b')
        """
        return cls(**convert.from_pandas(frame, n_nodes, names, directed))

    def to_pygsp(self) -> pygsp.graphs.Graph:
        """The graph for PyGSP, with its coordinates; PyGSP knows no names.

        Examples
        --------
        >>> Graph([(0, 1)], [2.0]).to_pygsp().N
        2
        """
        return convert.to_pygsp(self)

    @classmethod
    def from_pygsp(
        cls, graph: pygsp.graphs.Graph, names: Iterable[Hashable] | None = None
    ) -> Graph:
        """Read an undirected PyGSP graph, and its coordinates if they are plane.

        Examples
        --------
        >>> import pygsp
        >>> Graph.from_pygsp(pygsp.graphs.Ring(5))
        Graph(5 nodes, 5 edges, weights 1 to 1, coordinates)
        """
        return cls(**convert.from_pygsp(graph, names))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph to a file, whole or not at all, in the format that the suffix names.

        Parameters
        ----------
        path : str or path-like
            ``.npz`` keeps everything (names that are text, numbers, or tuples of them).
            ``.graphml`` does too for names that XML can hold.  ``.csv`` is the list of edges: a
            node without an edge and the coordinates are not in it, and names that read as whole
            numbers come back as numbers; a column ``directed`` says so where the graph is.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "graph.npz"
        >>> graph = Graph([(0, 1)], [2.0], names=["a", "b"])
        >>> graph.save(path)
        >>> Graph.load(path) == graph
        True
        """
        storage.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Graph:
        r"""Read a graph that :meth:`save` wrote.

        Nothing is unpickled and nothing larger than the file is allocated, so a file from a
        stranger is safe to try.

        Parameters
        ----------
        path : str or path-like
            Ending in ``.npz``, ``.graphml`` or ``.csv``.

        Raises
        ------
        ValueError
            If the file is damaged, holds something else, or declares sizes it does not have.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "graph.csv"
        >>> _ = path.write_text("source,target,weight\na,b,2.0\n")
        >>> Graph.load(path)
        Graph(2 nodes, 1 edge, weights 2 to 2, names)
        """
        try:
            return cls(**storage.load(path))
        except ValueError as error:
            raise ValueError(f"cannot load {os.fspath(path)}: {error}") from error


def _implied_n_nodes(
    edges: NDArray[np.intp],
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


def _same(a: NDArray[np.float64] | None, b: NDArray[np.float64] | None) -> bool:
    if a is None or b is None:
        return a is b
    return np.array_equal(a, b)


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"
