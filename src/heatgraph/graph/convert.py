"""The arguments of ``Graph``, read from the forms of other tools."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from heatgraph.graph.checks import Parts, check_names

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from heatgraph.graph.graph import Graph

ROUNDING = 16.0 * float(np.finfo(np.float64).eps)  # of the largest entry of a matrix


def labels(graph: Graph) -> Sequence[Hashable]:
    """The names, or the node numbers."""
    return range(graph.n_nodes) if graph.names is None else graph.names


def _square(matrix: ArrayLike | sp.sparray | sp.spmatrix, parameter: str) -> sp.csr_array[Any, Any]:
    """A square, finite matrix as a canonical sparse float64 array of its own."""
    given: Any = matrix if sp.issparse(matrix) else np.asarray(matrix)
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        raise ValueError(f"{parameter} must be a square matrix, got shape {given.shape}")
    if given.dtype.kind not in "biuf":
        raise ValueError(f"{parameter} must hold real numbers, got dtype {given.dtype}")
    square = sp.csr_array(given, dtype=np.float64, copy=True)
    square.sum_duplicates()
    if not np.isfinite(square.data).all():
        raise ValueError(f"{parameter} must be finite, got NaN or infinity")
    return square


def _largest(values: ArrayLike) -> float:
    return float(np.max(np.abs(values), initial=0.0))


def _check_tol(tol: float) -> None:
    if not 0 <= tol < 1:
        raise ValueError(f"tol must lie in [0, 1), got {tol!r}")


def _from_symmetric(
    W: sp.csr_array[Any, Any], names: Iterable[Hashable] | None, slack: float, parameter: str
) -> Parts:
    """The weights above ``slack`` in a symmetric matrix, its diagonal ignored."""
    asymmetry = _largest((W - W.T).data)
    # The last bits of a product or of correlations are not the caller's fault.
    if asymmetry > max(slack, ROUNDING * _largest(W.data)):
        raise ValueError(
            f"{parameter} must be symmetric, got entries that differ by {asymmetry:.3g} from "
            f"their transposes; the tolerance is {slack:.3g}"
        )
    return _weighted(sp.triu((W + W.T) / 2, k=1).tocoo(), names, slack, parameter, False)


def _weighted(
    W: sp.coo_array[Any, Any],
    names: Iterable[Hashable] | None,
    slack: float,
    parameter: str,
    directed: bool,
) -> Parts:
    """The entries above ``slack``, one per edge."""
    if W.data.min(initial=0.0) < -slack:
        raise ValueError(
            f"{parameter} must have no negative edge weight, got {W.data.min():.3g}; "
            f"the tolerance is {slack:.3g}"
        )
    keep = W.data > slack
    edges = np.column_stack([W.row[keep], W.col[keep]])
    return Parts(
        edges=edges, weights=W.data[keep], n_nodes=W.shape[0], names=names, directed=directed
    )


def from_laplacian(
    L: ArrayLike | sp.sparray | sp.spmatrix, names: Iterable[Hashable] | None, tol: float
) -> Parts:
    """Off the diagonal, ``w_ij = -L_ij``."""
    _check_tol(tol)
    square = _square(L, "L")
    slack = tol * _largest(square.data)
    row_sum = _largest(square.sum(axis=1))
    # Rounding in a sum of as many terms as a row has is not the caller's fault.
    widest = int(np.diff(square.indptr).max(initial=0))
    if row_sum > max(slack, widest * np.finfo(np.float64).eps * _largest(square.data)):
        raise ValueError(
            f"L must have rows that sum to zero, got a sum of {row_sum:.3g}; "
            f"the tolerance is {slack:.3g}"
        )
    return _from_symmetric(-square, names, slack, "L")


def from_adjacency(
    W: ArrayLike | sp.sparray | sp.spmatrix,
    names: Iterable[Hashable] | None,
    tol: float,
    directed: bool = False,
) -> Parts:
    """Off the diagonal, ``w_ij = W_ij``; on it, nothing."""
    _check_tol(tol)
    square = _square(W, "W")
    slack = tol * _largest(square.data)
    loop = _largest(square.diagonal())
    if loop > slack:
        raise ValueError(f"W must have a zero diagonal (no self loops), got {loop:.3g}")
    if directed:
        off = sp.coo_array(square - sp.diags_array(square.diagonal()))
        return _weighted(off, names, slack, "W", True)
    return _from_symmetric(square, names, slack, "W")


def from_networkx(graph: nx.Graph[Any], weight: str) -> Parts:
    """Node order is NetworkX's own."""
    if graph.is_multigraph():
        simple = "DiGraph" if graph.is_directed() else "Graph"
        raise ValueError(
            f"graph must have one edge per pair, got a {type(graph).__name__}; convert it with "
            f"networkx.{simple}(graph) first"
        )
    nodes = list(graph.nodes)
    number = {node: k for k, node in enumerate(nodes)}
    rows = [(number[a], number[b], data) for a, b, data in graph.edges(data=True)]
    parts = Parts(
        edges=np.array([(i, j) for i, j, _ in rows], dtype=np.intp).reshape(-1, 2),
        weights=[data.get(weight, 1.0) for _, _, data in rows],
        n_nodes=len(nodes),
        names=None if _are_numbers(nodes) else nodes,
        directed=graph.is_directed(),
    )
    if rows and all("confidence" in data for _, _, data in rows):
        parts["confidence"] = [data["confidence"] for _, _, data in rows]
    places = [place for _, place in graph.nodes(data="pos")]
    if places and all(place is not None for place in places):
        parts["coordinates"] = places
    return parts


def from_pandas(
    frame: pd.DataFrame,
    n_nodes: int | None,
    names: Iterable[Hashable] | None,
    directed: bool = False,
) -> Parts:
    """Columns source, target, weight, and confidence if it is there."""
    missing = [c for c in ("source", "target", "weight") if c not in frame.columns]
    if missing:
        raise ValueError(
            f"frame must have the columns 'source', 'target' and 'weight', lacks {missing}; "
            f"got {list(frame.columns)}"
        )
    parts = from_labels(frame["source"].tolist(), frame["target"].tolist(), n_nodes, names)
    parts["weights"] = frame["weight"].to_numpy()
    if "confidence" in frame.columns:
        parts["confidence"] = frame["confidence"].to_numpy()
    parts["directed"] = directed
    return parts


def from_labels(
    source: list[Hashable],
    target: list[Hashable],
    n_nodes: int | None = None,
    names: Iterable[Hashable] | None = None,
) -> Parts:
    """Edges between labels: node numbers if ``n_nodes`` is given, else names."""
    ends = source + target
    if names is None and n_nodes is None:
        names = check_names(dict.fromkeys(ends))
        with suppress(TypeError):  # labels of several kinds have no order
            names = tuple(sorted(names))  # type: ignore[type-var]
        if _are_numbers(names):
            n_nodes, names = len(names), None
    if names is None:
        edges = np.array([source, target]).T.reshape(-1, 2)
        return Parts(edges=edges, n_nodes=n_nodes, names=None)
    names = check_names(names)
    number = {name: k for k, name in enumerate(names)}
    unknown = next((label for label in ends if label not in number), None)
    if unknown is not None:
        raise ValueError(f"names must hold every label of the edges, lacks {unknown!r}")
    edges = np.array([[number[e] for e in source], [number[e] for e in target]], dtype=np.intp).T
    return Parts(edges=edges, n_nodes=n_nodes, names=names)


def _are_numbers(names: Sequence[Hashable]) -> bool:
    """Whether the names are 0, 1, 2, ... in order, and so say nothing."""
    return all(type(name) is int and name == k for k, name in enumerate(names))
