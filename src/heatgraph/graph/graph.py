"""A weighted graph, and the forms that other tools take.

Each outside package is imported when it is first asked for: they are slow to start.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from heatgraph.errors import needed
from heatgraph.graph import convert, storage
from heatgraph.graph.convert import labels
from heatgraph.graph.value import GraphValue

if TYPE_CHECKING:
    import mne_connectivity
    import networkx as nx
    import pandas as pd
    import pygsp
    import torch_geometric


class Graph(GraphValue):
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
        One distinct label per node.
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
            One label per node.
        tol : float, default=1e-10
            How far, relative to the largest entry, ``L`` may be from those three properties;
            weights that small are rounding and are left out.

        Returns
        -------
        Graph

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
            One label per node.
        tol : float, default=0
            How far, relative to the largest entry, ``W`` may be from those three properties;
            weights that small are rounding and are left out.
        directed : bool, default=False
            Whether ``W_ij`` is the weight of an edge from ``i`` to ``j``.

        Returns
        -------
        Graph

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
        import networkx as nx

        other = nx.DiGraph() if self.directed else nx.Graph()
        nodes = labels(self)
        if self.coordinates is None:
            other.add_nodes_from(nodes)
        else:
            places = map(tuple, self.coordinates.tolist())
            other.add_nodes_from((n, {"pos": p}) for n, p in zip(nodes, places, strict=True))
        columns = {"weight": self.weights.tolist()}
        if self.confidence is not None:
            columns["confidence"] = self.confidence.tolist()
        rows = zip(*columns.values(), strict=True)
        other.add_edges_from(
            (nodes[i], nodes[j], dict(zip(columns, row, strict=True)))
            for (i, j), row in zip(self.edges.tolist(), rows, strict=True)
        )
        return other

    @classmethod
    def from_networkx(cls, graph: nx.Graph[Any], weight: str = "weight") -> Graph:
        """Read a NetworkX graph, directed or not.

        Parameters
        ----------
        graph : networkx.Graph or networkx.DiGraph
            Its nodes become the names, unless they are 0, 1, 2, ... in order.
        weight : str, default="weight"
            The edge attribute to read; an edge without it has weight 1, as in NetworkX.

        Returns
        -------
        Graph

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
        import pandas as pd

        nodes = pd.Series(list(labels(self)))
        source, target = (nodes.iloc[end].reset_index(drop=True) for end in self.edges.T)
        columns = {"source": source, "target": target, "weight": self.weights}
        if self.confidence is not None:
            columns["confidence"] = self.confidence
        return pd.DataFrame(columns)

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

        Returns
        -------
        Graph

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"source": ["b"], "target": ["a"], "weight": [2.0]})
        >>> Graph.from_pandas(frame).names
        ('a', 'b')
        """
        return cls(**convert.from_pandas(frame, n_nodes, names, directed))

    def to_pygsp(self) -> pygsp.graphs.Graph:
        """The graph for PyGSP, with its coordinates and without names, which PyGSP has not.

        Returns
        -------
        pygsp.graphs.Graph

        Examples
        --------
        >>> Graph([(0, 1)], [2.0]).to_pygsp().N
        2
        """
        library = needed("pygsp", "to_pygsp", "'heatgraph[pygsp]'")
        other = library.graphs.Graph(sp.csr_matrix(self.adjacency()))
        if self.coordinates is not None:
            other.coords = self.coordinates.copy()
        return other

    @classmethod
    def from_pygsp(
        cls, graph: pygsp.graphs.Graph, names: Iterable[Hashable] | None = None
    ) -> Graph:
        """Read an undirected PyGSP graph, and its coordinates if they are plane.

        Parameters
        ----------
        graph : pygsp.graphs.Graph
            Undirected.
        names : sequence of hashable, optional
            One label per node.

        Returns
        -------
        Graph

        Examples
        --------
        >>> import pygsp
        >>> Graph.from_pygsp(pygsp.graphs.Ring(5))
        Graph(5 nodes, 5 edges, weights 1 to 1, coordinates)
        """
        parts = convert.from_adjacency(graph.W, names, 0.0, bool(graph.is_directed()))
        coordinates = getattr(graph, "coords", None)
        if coordinates is not None and np.shape(coordinates) == (graph.N, 2):
            parts["coordinates"] = coordinates
        return cls(**parts)

    def to_torch_geometric(self) -> torch_geometric.data.Data:
        """The graph for PyTorch Geometric, without names, which it has not.

        Returns
        -------
        torch_geometric.data.Data
            ``edge_index`` (2, 2 E) holds every edge in both directions (once if directed),
            ``edge_weight`` their weights in single precision; ``pos`` the coordinates, if any.
        """
        torch, data = (
            needed(package, "to_torch_geometric", "torch torch-geometric")
            for package in ("torch", "torch_geometric.data")
        )
        W = sp.coo_array(self.adjacency())
        made = data.Data(
            edge_index=torch.as_tensor(np.array([W.row, W.col], dtype=np.int64)),
            edge_weight=torch.as_tensor(W.data, dtype=torch.float32),
            num_nodes=self.n_nodes,
        )
        if self.coordinates is not None:
            made.pos = torch.as_tensor(self.coordinates.copy(), dtype=torch.float32)
        return made

    def to_mne(self) -> mne_connectivity.Connectivity:
        """The graph for MNE-Connectivity, with its names.

        Returns
        -------
        mne_connectivity.Connectivity
            ``get_data("dense")`` is the matrix of weights.
        """
        return needed("mne_connectivity", "to_mne", "mne-connectivity").Connectivity(
            self.adjacency().toarray().ravel(),
            n_nodes=self.n_nodes,
            names=[str(name) for name in labels(self)],
            indices="all",
            method="heatgraph",
        )

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

        Returns
        -------
        Graph

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
