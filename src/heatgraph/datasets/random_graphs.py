"""One function per family of random graphs: (n_nodes, generator, options) -> connected graph.

Weights are as the family defines them; scaling is left to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial import Delaunay, KDTree

from heatgraph.arrays import Array, Ints
from heatgraph.estimators.validation import check_choice, check_number
from heatgraph.graph import Graph


def rbf(
    n_nodes: int,
    rng: np.random.Generator,
    *,
    sigma: float = 0.5,
    kappa: float = 0.75,
    threshold: str = "weight",
) -> Graph:
    """Gaussian weights between points of the unit square, cut by weight or by distance."""
    check_choice("threshold", threshold, ("weight", "distance"))
    check_number("sigma", sigma, strict=True)
    if threshold == "weight":
        check_within("kappa", kappa, 0.0, 1.0, strict=True)
        radius = sigma * np.sqrt(-2.0 * np.log(kappa))
    else:
        check_number("kappa", kappa, strict=True)
        radius = kappa

    def draw() -> Graph:
        points = rng.random((n_nodes, 2))
        edges, lengths = _pairs_within(points, float(radius))
        weights = _gaussian(lengths, sigma)
        # A weight can underflow to 0 when sigma is far below the distances.
        keep = weights > 0
        return Graph(edges[keep], weights[keep], n_nodes, coordinates=points)

    return _first_connected(draw, n_nodes, "raise sigma, or let more edges pass kappa")


def erdos_renyi(
    n_nodes: int, rng: np.random.Generator, *, p: float = 0.2, weights: str = "unit"
) -> Graph:
    """Each pair independently with probability ``p``."""
    check_within("p", p, 0.0, 1.0, strict=True)
    check_choice("weights", weights, ("unit", "uniform"))

    def draw() -> Graph:
        edges = random_pairs(n_nodes, p, rng)
        return Graph(edges, np.ones(len(edges)), n_nodes)

    # Weights come after the last draw, so that the choice of weights does not move the edges.
    graph = _first_connected(draw, n_nodes, "raise p")
    return Graph(graph.edges, _edge_weights(weights, graph.n_edges, rng), n_nodes)


def barabasi_albert(
    n_nodes: int, rng: np.random.Generator, *, m: int = 2, weights: str = "unit"
) -> Graph:
    """Nodes come one by one and attach to ``m`` earlier ones in proportion to their degrees.

    It starts from a star of ``m + 1`` nodes and so has ``m (n_nodes - m)`` edges, always connected.
    """
    check_within("m", m, 1, n_nodes - 1, integer=True)
    check_choice("weights", weights, ("unit", "uniform"))
    edges = [(0, leaf) for leaf in range(1, m + 1)]
    # Every node as often as its degree: a uniform draw from it is a draw by degree.
    ends = [end for edge in edges for end in edge]
    uniform = _uniforms(rng)
    for node in range(m + 1, n_nodes):
        targets: list[int] = []
        while len(targets) < m:
            target = ends[int(next(uniform) * len(ends))]
            if target not in targets:
                targets.append(target)
        edges += [(target, node) for target in targets]
        ends += [*targets, *([node] * m)]
    return Graph(edges, _edge_weights(weights, len(edges), rng), n_nodes)


def geometric(
    n_nodes: int,
    rng: np.random.Generator,
    *,
    mean_degree: float = 8.0,
    weights: str = "gaussian",
) -> Graph:
    """Points of the unit square within a radius of each other, plus the links that connect them."""
    check_number("mean_degree", mean_degree, minimum=1.0)
    check_choice("weights", weights, ("gaussian", "unit"))
    points = rng.random((n_nodes, 2))
    # A disc of this radius holds mean_degree of the other points, but for those near the border.
    radius = float(np.sqrt(mean_degree / (np.pi * (n_nodes - 1))))
    edges, lengths = _pairs_within(points, radius)
    # Kruskal's algorithm has joined all that the edges up to the radius can join; the rest of
    # the minimum spanning tree, and nothing shorter, connects the graph.
    tree, tree_lengths = _spanning_tree(points)
    long = tree_lengths > lengths.max(initial=0.0)
    edges = np.concatenate([edges, tree[long]])
    lengths = np.concatenate([lengths, tree_lengths[long]])
    values = _gaussian(lengths, radius) if weights == "gaussian" else np.ones(len(lengths))
    return Graph(edges, values, n_nodes, coordinates=points)


def grid(n_nodes: int, rng: np.random.Generator, *, weights: str = "unit") -> Graph:
    """A lattice filled row by row, nearly square."""
    check_choice("weights", weights, ("unit", "uniform"))
    columns = int(np.ceil(np.sqrt(n_nodes)))
    node = np.arange(n_nodes)
    right = node[(node % columns < columns - 1) & (node + 1 < n_nodes)]
    below = node[node + columns < n_nodes]
    edges = np.concatenate(
        [np.column_stack([right, right + 1]), np.column_stack([below, below + columns])]
    )
    places = np.column_stack([node % columns, -(node // columns)])
    return Graph(edges, _edge_weights(weights, len(edges), rng), n_nodes, coordinates=places)


def ring(n_nodes: int, rng: np.random.Generator, *, weights: str = "unit") -> Graph:
    """A circle of nodes."""
    check_number("n_nodes", n_nodes, minimum=3, integer=True)
    check_choice("weights", weights, ("unit", "uniform"))
    node = np.arange(n_nodes)
    angle = 2.0 * np.pi * node / n_nodes
    return Graph(
        np.column_stack([node, (node + 1) % n_nodes]),
        _edge_weights(weights, n_nodes, rng),
        n_nodes,
        coordinates=np.column_stack([np.cos(angle), np.sin(angle)]),
    )


def community(
    n_nodes: int,
    rng: np.random.Generator,
    *,
    n_communities: int = 4,
    p_in: float = 0.5,
    p_out: float = 0.05,
    weights: str = "unit",
) -> Graph:
    """A stochastic block model of equal blocks of consecutive nodes."""
    check_within("n_communities", n_communities, 1, n_nodes, integer=True)
    check_within("p_in", p_in, 0.0, 1.0)
    check_within("p_out", p_out, 0.0, 1.0)
    check_choice("weights", weights, ("unit", "uniform"))
    block = np.arange(n_nodes) * n_communities // n_nodes
    starts = np.searchsorted(block, np.arange(n_communities + 1))

    def draw() -> Graph:
        between = random_pairs(n_nodes, p_out, rng)
        between = between[block[between[:, 0]] != block[between[:, 1]]]
        within = [
            start + random_pairs(end - start, p_in, rng) for start, end in pairwise(starts.tolist())
        ]
        edges = np.concatenate([between, *within])
        return Graph(edges, np.ones(len(edges)), n_nodes)

    graph = _first_connected(draw, n_nodes, "raise p_in or p_out")
    return Graph(graph.edges, _edge_weights(weights, graph.n_edges, rng), n_nodes)


def _first_connected(draw: Callable[[], Graph], n_nodes: int, remedy: str) -> Graph:
    """The first connected draw."""
    # A large random graph is almost surely connected or almost surely not: few draws tell.
    n_draws = 1000 if n_nodes <= 1000 else 20
    for _ in range(n_draws):
        graph = draw()
        if graph.n_edges >= n_nodes - 1 and graph.n_components() == 1:
            return graph
    raise ValueError(f"no connected graph of {n_nodes} nodes in {n_draws} draws; {remedy}")


def random_pairs(n_nodes: int, p: float, rng: np.random.Generator) -> Ints:
    """Each of the pairs of ``n_nodes`` independently with probability ``p``, in O(drawn) memory."""
    n_pairs = n_nodes * (n_nodes - 1) // 2
    if p == 0.0 or n_pairs == 0:
        return np.empty((0, 2), dtype=np.intp)
    # The gaps between successes of independent trials are geometric.
    chosen = np.empty(0, dtype=np.int64)
    last = -1
    while last < n_pairs:
        expected = p * (n_pairs - last)
        size = int(expected + 4.0 * np.sqrt(expected)) + 16
        # A gap beyond the end is as good as any other: it keeps the sum from overflowing.
        gaps = np.minimum(rng.geometric(p, size), n_pairs + 1)
        steps = last + np.cumsum(gaps)
        chosen = np.concatenate([chosen, steps])
        last = int(steps[-1])
    chosen = chosen[chosen < n_pairs]
    # Row i of the upper triangle starts at the number of pairs in the rows before it.
    row = np.arange(n_nodes)
    starts = row * (2 * n_nodes - row - 1) // 2
    i = np.searchsorted(starts, chosen, side="right") - 1
    # The last row is empty and starts where the one before it ends; no pair falls into it.
    return np.column_stack([i, chosen - starts[i] + i + 1])


def _pairs_within(points: Array, radius: float) -> tuple[Ints, Array]:
    """The pairs of points at most ``radius`` apart, and their distances."""
    pairs = KDTree(points).query_pairs(radius, output_type="ndarray")
    # The order in which the tree finds them is not part of its contract.
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return pairs, _lengths(points, pairs)


def _lengths(points: Array, pairs: Ints) -> Array:
    x, y = (points[pairs[:, 0]] - points[pairs[:, 1]]).T
    return np.asarray(np.hypot(x, y))


def _spanning_tree(points: Array) -> tuple[Ints, Array]:
    """The Euclidean minimum spanning tree, which lies in the Delaunay triangulation."""
    n = len(points)
    if n < 4:
        pairs = np.column_stack(np.triu_indices(n, k=1))
    else:
        triangles = Delaunay(points).simplices
        sides = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [0, 2]]])
        pairs = np.unique(np.sort(sides, axis=1), axis=0)
    lengths = _lengths(points, pairs)
    ends = tuple(pairs.T.astype(np.intc))  # the only integers that older SciPy takes for a tree
    tree = minimum_spanning_tree(coo_array((lengths, ends), shape=(n, n))).tocoo()
    return np.column_stack([tree.row, tree.col]), tree.data


def _gaussian(lengths: Array, sigma: float) -> Array:
    scaled = lengths / sigma
    return np.asarray(np.exp(-0.5 * scaled * scaled))


def _edge_weights(weights: str, n_edges: int, rng: np.random.Generator) -> Array:
    return np.ones(n_edges) if weights == "unit" else rng.uniform(0.5, 1.5, n_edges)


def _uniforms(rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield from rng.random(4096).tolist()


def check_within(
    parameter: str,
    value: float,
    low: float,
    high: float,
    *,
    integer: bool = False,
    strict: bool = False,
) -> None:
    """Raise unless ``value`` is a number from ``low``, excluded if strict, to ``high``."""
    check_number(parameter, value, minimum=low, integer=integer, strict=strict)
    if value > high:
        raise ValueError(f"{parameter} must be at most {high:g}, got {value!r}.")
