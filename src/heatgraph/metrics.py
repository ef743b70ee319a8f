"""How close a learned graph, or learned sources, come to the true ones."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from heatgraph.arrays import Array, Ints
from heatgraph.graph import Graph

__all__ = [
    "EdgeScores",
    "SourceScores",
    "average_precision",
    "best_cut",
    "edge_scores",
    "source_scores",
]


class EdgeScores(NamedTuple):
    """How a learned graph compares with the true one; see :func:`edge_scores`.

    Attributes
    ----------
    f_measure : float
        The harmonic mean of precision and recall.
    precision : float
        The share of the learned edges that are true.
    recall : float
        The share of the true edges that were learned.
    nmi : float
        Normalised mutual information of the two sets of edges.
    weight_error : float
        The relative error of the weights, in the Euclidean norm.

    Examples
    --------
    >>> EdgeScores(1.0, 1.0, 1.0, 1.0, 0.0).f_measure
    1.0
    """

    f_measure: float
    precision: float
    recall: float
    nmi: float
    weight_error: float


class SourceScores(NamedTuple):
    """How learned sources compare with the true ones; see :func:`source_scores`.

    Attributes
    ----------
    f_measure : float
        F of the sources that are not zero.
    n_located : float
        The number of true sources among the largest learned ones, in the mean over the signals.

    Examples
    --------
    >>> SourceScores(f_measure=0.5, n_located=3.0).n_located
    3.0
    """

    f_measure: float
    n_located: float


def edge_scores(true: Graph, learned: Graph) -> EdgeScores:
    """Measure how well a learned graph recovers the edges and the weights of the true one.

    Every edge counts, however light: cut the learned graph first, with :meth:`Graph.cut`.

    Parameters
    ----------
    true, learned : Graph
        On the same nodes.  If both have names they are matched by name, else by number.

    Returns
    -------
    EdgeScores
        ``precision``: the share of the learned edges that are true; 0 if none are learned.
        ``recall``: the share of the true edges that are learned; 0 if there are none.
        ``f_measure``: their harmonic mean; 0 if no true edge is learned.
        ``nmi``: the mutual information of the two partitions of all pairs into edges and
        non-edges, over the arithmetic mean of their entropies; 1 if neither partition splits the
        pairs and both agree in that, 0 if they are independent.
        ``weight_error``: ``||w - w*|| / ||w*||`` over all pairs, both graphs as given; if the true
        graph has no edges, 0 for another such and infinity for any other.

    Raises
    ------
    ValueError
        If the graphs are not on the same nodes.

    Examples
    --------
    >>> from heatgraph.graph import Graph
    >>> true = Graph([(0, 1), (1, 2)], [1.0, 1.0], n_nodes=4)
    >>> learned = Graph([(0, 1), (2, 3)], [1.0, 0.5], n_nodes=4)
    >>> scores = edge_scores(true, learned)
    >>> scores.precision, scores.recall, scores.f_measure
    (0.5, 0.5, 0.5)
    >>> round(scores.weight_error, 3)
    0.791
    """
    ours, theirs = _keys(true, learned)
    _, a, b = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    hits = len(a)
    difference = np.concatenate(
        [
            true.weights[a] - learned.weights[b],
            np.delete(true.weights, a),
            np.delete(learned.weights, b),
        ]
    )
    size, error = float(np.linalg.norm(true.weights)), float(np.linalg.norm(difference))
    return EdgeScores(
        f_measure=_ratio(2 * hits, true.n_edges + learned.n_edges),
        precision=_ratio(hits, learned.n_edges),
        recall=_ratio(hits, true.n_edges),
        nmi=_nmi(hits, true.n_edges, learned.n_edges, _n_pairs(true)),
        weight_error=error / size if size else (math.inf if error else 0.0),
    )


def best_cut(true: Graph, learned: Graph) -> tuple[EdgeScores, float]:
    """Find the cut of the learned weights with the best F-measure: an *oracle*.

    It looks at the true graph to choose the cut, so it is an upper bound on what any rule for
    cutting these weights can reach, and never a result that a user could have obtained.

    Parameters
    ----------
    true, learned : Graph
        On the same nodes.

    Returns
    -------
    scores : EdgeScores
        Of the learned graph after the cut, its weights not rescaled.
    threshold : float
        The lightest weight kept; among cuts equally good the one with fewest edges.  0 if nothing
        was learned.

    Examples
    --------
    >>> from heatgraph.graph import Graph
    >>> true = Graph([(0, 1), (1, 2)], [1.0, 1.0])
    >>> learned = Graph([(0, 1), (0, 2), (1, 2)], [0.9, 0.01, 0.8])
    >>> scores, threshold = best_cut(true, learned)
    >>> scores.f_measure, threshold
    (1.0, 0.8)
    """
    ours, theirs = _keys(true, learned)
    if not learned.n_edges:
        return edge_scores(true, learned), 0.0
    order = np.argsort(-learned.weights, kind="stable")
    weights = learned.weights[order]
    hits = np.cumsum(np.isin(theirs[order], ours))
    kept = np.arange(1, learned.n_edges + 1)
    f = 2.0 * hits / (kept + true.n_edges)
    # A cut cannot part equal weights: only the last edge of each run of them ends a cut.
    ends = np.append(weights[:-1] > weights[1:], True)
    threshold = float(weights[np.argmax(np.where(ends, f, -1.0))])
    return edge_scores(true, learned.cut(weight=threshold)), threshold


def average_precision(true: Graph, learned: Graph) -> float:
    """The area under precision against recall as the cut goes down; no cut is chosen.

    Parameters
    ----------
    true, learned : Graph
        On the same nodes; the learned one before its cut.  A pair that has no weight comes last.

    Returns
    -------
    float
        1 where every true edge is heavier than every other pair; 0 if there is no true edge.

    Examples
    --------
    >>> from heatgraph.graph import Graph
    >>> true = Graph([(0, 1), (1, 2)], [1.0, 1.0])
    >>> average_precision(true, Graph([(0, 1), (0, 2), (1, 2)], [0.9, 0.1, 0.8]))
    1.0
    """
    ours, theirs = _keys(true, learned)
    if not true.n_edges:
        return 0.0
    order = np.argsort(-learned.weights, kind="stable")
    weights, hit = learned.weights[order], np.isin(theirs[order], ours)
    # A cut cannot part equal weights; pairs without one are let in all at once, at the end.
    ends = np.flatnonzero(np.append(weights[:-1] > weights[1:], weights.size > 0)[: weights.size])
    hits, kept = np.cumsum(hit)[ends], ends + 1
    hits, kept = np.append(hits, true.n_edges), np.append(kept, _n_pairs(true))
    steps = np.diff(hits, prepend=0) / true.n_edges
    return float(np.sum(steps * hits / kept))


def source_scores(
    true_sources: ArrayLike, learned_sources: ArrayLike, n_sources: int | None = None
) -> SourceScores:
    """Measure how well learned sources locate the true ones.

    Parameters
    ----------
    true_sources, learned_sources : array-like, shape (n_signals, ...)
        Such as ``(n_signals, n_scales, n_nodes)``; a source is a nonzero entry.
    n_sources : int, optional
        How many of the largest learned magnitudes of a signal to look at; by default as many as
        the signal has true sources.

    Returns
    -------
    SourceScores
        ``f_measure``: the F-measure of the learned support against the true one, averaged over
        the signals; 0 for a signal of which no true source is learned.
        ``n_located``: the number of true sources among the ``n_sources`` largest learned
        magnitudes, averaged over the signals.  Zeros locate nothing; among equal magnitudes the
        first entries come first.

    Examples
    --------
    >>> true = [[0.0, 2.0, 0.0, -1.0]]
    >>> learned = [[0.1, 1.9, 0.0, -0.7]]
    >>> source_scores(true, learned)
    SourceScores(f_measure=0.8, n_located=2.0)
    """
    H, G = _codes(true_sources, "true_sources"), _codes(learned_sources, "learned_sources")
    if np.shape(true_sources) != np.shape(learned_sources):
        raise ValueError(
            "true_sources and learned_sources must have one shape, "
            f"got {np.shape(true_sources)} and {np.shape(learned_sources)}"
        )
    if n_sources is not None and (not hasattr(n_sources, "__index__") or n_sources < 1):
        raise ValueError(f"n_sources must be an integer of at least 1, got {n_sources!r}")
    there, found = H != 0, G != 0
    hits = (there & found).sum(axis=1)
    total = there.sum(axis=1) + found.sum(axis=1)
    f = np.divide(2.0 * hits, total, out=np.zeros(len(H)), where=total > 0)

    ranked = np.argsort(-np.abs(G), axis=1, kind="stable")
    wanted = there.sum(axis=1) if n_sources is None else np.full(len(H), n_sources)
    among_largest = np.arange(H.shape[1]) < wanted[:, None]
    right = np.take_along_axis(there & found, ranked, axis=1)
    located = (right & among_largest).sum(axis=1)
    return SourceScores(float(f.mean()), float(located.mean()))


def _keys(true: Graph, learned: Graph) -> tuple[Ints, Ints]:
    """Each edge as one number, ``i * n_nodes + j``, in the node order of the true graph."""
    n = true.n_nodes
    if learned.n_nodes != n:
        raise ValueError(
            f"true and learned must be on the same nodes, got {n} and {learned.n_nodes} nodes"
        )
    if true.directed != learned.directed:
        raise ValueError(
            "true and learned must be both directed or both not; drop the directions of one with "
            "graph.undirected()"
        )
    edges = learned.edges
    if true.names is not None and learned.names is not None and true.names != learned.names:
        number = {name: k for k, name in enumerate(true.names)}
        unknown = next((name for name in learned.names if name not in number), None)
        if unknown is not None:
            raise ValueError(
                f"true and learned must be on the same nodes, only learned has {unknown!r}"
            )
        new = np.array([number[name] for name in learned.names], dtype=np.intp)
        edges = new[edges] if learned.directed else np.sort(new[edges], axis=1)
    return true.edges[:, 0] * n + true.edges[:, 1], edges[:, 0] * n + edges[:, 1]


def _n_pairs(graph: Graph) -> int:
    pairs = math.comb(graph.n_nodes, 2)
    return 2 * pairs if graph.directed else pairs


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _nmi(hits: int, n_true: int, n_learned: int, n_pairs: int) -> float:
    """Arithmetic-mean normalised mutual information, from the 2 x 2 table of the pairs."""
    rows, columns = (n_true, n_pairs - n_true), (n_learned, n_pairs - n_learned)
    if 0 in rows and 0 in columns:
        # Neither splits the pairs: two partitions into one class are the same partition.
        return 1.0
    only_true, only_learned = n_true - hits, n_learned - hits
    neither = n_pairs - hits - only_true - only_learned
    table = ((hits, only_true), (only_learned, neither))
    # In integers until the last step, for the ratio within the logarithm is near 1.
    information = math.fsum(
        cell / n_pairs * math.log(cell * n_pairs / (rows[r] * columns[c]))
        for r, line in enumerate(table)
        for c, cell in enumerate(line)
        if cell
    )
    entropies = _entropy(rows, n_pairs) + _entropy(columns, n_pairs)
    return min(1.0, max(0.0, 2.0 * information / entropies))


def _entropy(counts: tuple[int, int], total: int) -> float:
    return -math.fsum(n / total * math.log(n / total) for n in counts if n)


def _codes(value: ArrayLike, parameter: str) -> Array:
    """One row per signal."""
    array = np.asarray(value, dtype=np.float64)
    if array.ndim < 2 or not array.size:
        raise ValueError(f"{parameter} must have shape (n_signals, ...), got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{parameter} must be finite, got NaN or infinity")
    return array.reshape(len(array), -1)
