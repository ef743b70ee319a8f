"""What makes the parts of a graph valid: each check returns a fresh array or raises ValueError."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

from heatgraph.arrays import Array, Ints

# A pair (i, j) is sorted and compared as the one number i * n_nodes + j, which must fit 64 bits.
MAX_NODES = 2**31 - 1


class Parts(TypedDict, total=False):
    """The arguments of ``Graph``, as read from another form."""

    edges: ArrayLike
    weights: ArrayLike
    n_nodes: int | None
    names: Iterable[Hashable] | None
    confidence: ArrayLike | None
    coordinates: ArrayLike | None
    directed: bool


def _as_floats(value: ArrayLike, parameter: str, n_edges: int | None = None) -> Array:
    """A float64 copy of real numbers, one per edge if their number is given."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{parameter} must be an array of numbers: {error}") from None
    if array.size and array.dtype.kind not in "iuf":
        raise ValueError(f"{parameter} must hold real numbers, got dtype {array.dtype}")
    if n_edges is not None and array.shape != (n_edges,):
        raise ValueError(
            f"{parameter} must have shape ({n_edges},), one per edge, got {array.shape}"
        )
    return array.astype(np.float64)


def check_edges(value: ArrayLike, directed: bool = False) -> Ints:
    """The edges as an integer array (E, 2), each row ordered ``i < j`` unless directed."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"edges must be an (E, 2) array of node numbers: {error}") from None
    if array.shape == (0,):
        array = np.empty((0, 2), dtype=np.intp)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"edges must have shape (E, 2), got {array.shape}")
    if array.size == 0:
        return np.empty((0, 2), dtype=np.intp)
    if array.dtype.kind not in "iu":
        raise ValueError(f"edges must hold integer node numbers, got dtype {array.dtype}")
    # Before the cast, which would turn a huge unsigned number into a small one.
    if array.min() < 0 or array.max() >= MAX_NODES:
        raise ValueError(
            f"edges must hold node numbers in [0, {MAX_NODES}), "
            f"got values from {array.min()} to {array.max()}"
        )
    edges = array.astype(np.intp) if directed else np.sort(array.astype(np.intp), axis=1)
    loops = edges[:, 0] == edges[:, 1]
    if loops.any():
        node = int(edges[np.argmax(loops), 0])
        raise ValueError(
            f"edges must join two different nodes, got {int(loops.sum())} self loop(s), "
            f"the first at node {node}; drop them"
        )
    return edges


def check_weights(value: ArrayLike, n_edges: int) -> Array:
    """The weights as a float64 array (E,), positive and finite."""
    weights = _as_floats(value, "weights", n_edges)
    bad = ~((weights > 0) & (weights < np.inf))
    if bad.any():
        raise ValueError(
            f"weights must be positive and finite, got {int(bad.sum())} that are not, "
            f"the first {weights[np.argmax(bad)]} at position {int(np.argmax(bad))}; "
            "leave out an edge of weight 0"
        )
    return weights


def check_n_nodes(value: int, edges: Ints) -> int:
    """The number of nodes, at least 1 and more than any node number in ``edges``."""
    try:
        n_nodes = operator.index(value)
    except TypeError:
        raise ValueError(f"n_nodes must be an integer, got {value!r}") from None
    if isinstance(value, (bool, np.bool_)) or not 1 <= n_nodes <= MAX_NODES:
        raise ValueError(f"n_nodes must be an integer in [1, {MAX_NODES}], got {value!r}")
    if edges.size and edges.max() >= n_nodes:
        raise ValueError(
            f"edges must hold node numbers below n_nodes = {n_nodes}, got {int(edges.max())}"
        )
    return n_nodes


def check_names(value: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """The names as a tuple of distinct labels."""
    if isinstance(value, (str, bytes)):
        raise ValueError(f"names must be a sequence of labels, one per node, got {value!r}")
    try:
        names = tuple(n.item() if isinstance(n, np.generic) else n for n in value)
        seen = set(names)
    except TypeError as error:
        raise ValueError(f"names must be a sequence of hashable labels: {error}") from None
    if any(name is None or name != name for name in names):
        raise ValueError("names must not have a missing value (None or NaN)")
    if len(seen) != len(names):
        (repeated, times), *_ = Counter(names).most_common(1)
        raise ValueError(f"names must be distinct, got {repeated!r} {times} times")
    return names


def check_confidence(value: ArrayLike, n_edges: int) -> Array:
    """The confidences as a float64 array (E,) in [0, 1]."""
    confidence = _as_floats(value, "confidence", n_edges)
    bad = ~((confidence >= 0) & (confidence <= 1))
    if bad.any():
        raise ValueError(f"confidence must lie in [0, 1], got {confidence[np.argmax(bad)]}")
    return confidence


def check_coordinates(value: ArrayLike, n_nodes: int) -> Array:
    """The coordinates as a finite float64 array (N, 2)."""
    coordinates = _as_floats(value, "coordinates")
    if coordinates.shape != (n_nodes, 2):
        raise ValueError(
            f"coordinates must have shape ({n_nodes}, 2), one row per node, got {coordinates.shape}"
        )
    if not np.isfinite(coordinates).all():
        raise ValueError("coordinates must be finite, got NaN or infinity")
    return coordinates


def sort_edges(edges: Ints, n_nodes: int, directed: bool = False) -> Ints:
    """The order that sorts the edges lexicographically; raises on a pair given twice."""
    keys = edges[:, 0] * n_nodes + edges[:, 1]
    order = np.argsort(keys, kind="stable")
    twice = np.flatnonzero(np.diff(keys[order]) == 0)
    if twice.size:
        i, j = edges[order[twice[0]]].tolist()
        order_counts = "counts" if directed else "does not count"
        raise ValueError(
            f"edges must be distinct pairs (the order within a pair {order_counts}), "
            f"got ({i}, {j}) more than once; merge the repeated edges first"
        )
    return order
