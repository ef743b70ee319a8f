"""``heatgraph.difference``: the edges in which two groups of signals differ."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy.stats import false_discovery_control
from sklearn.base import clone

from heatgraph.arrays import Array, Ints
from heatgraph.baselines import GeneralizedLaplacian
from heatgraph.estimators.validation import (
    Names,
    check_choice,
    check_number,
    node_means,
    node_names,
)
from heatgraph.graph import CandidateEdges, Graph
from heatgraph.graph.convert import labels

CORRECTIONS = ("largest", "fdr", "none")
FEWEST = 4  # units of a group: fewer cannot be exchanged in enough ways
# A pair whose weight hardly varies under exchange is measured by this share of the typical spread,
# so that a pair with no spread at all does not become infinitely significant.
LEAST_SPREAD = 0.1


@dataclass(frozen=True, eq=False)
class Difference:
    """What differs between two groups.

    Attributes
    ----------
    table : DataFrame
        One row for each pair of nodes that has a weight in either group: source, target,
        weight_a, weight_b, difference (a less b), p_value, and p_corrected for all pairs tested.
    graph_a, graph_b : Graph
        What was learned from each group.
    alpha : float
        The level below which p_corrected counts.
    n_permutations : int
        How many exchanges the p-values come from.
    """

    table: pd.DataFrame
    graph_a: Graph
    graph_b: Graph
    alpha: float
    n_permutations: int

    @property
    def edges(self) -> pd.DataFrame:
        """The pairs that differ, the surest first."""
        found = self.table[self.table["p_corrected"] <= self.alpha]
        return found.sort_values(["p_corrected", "p_value"], kind="stable")

    def __str__(self) -> str:
        head = (
            f"{len(self.edges)} of {len(self.table)} pairs differ at the level {self.alpha:g}, by "
            f"{self.n_permutations} permutations."
        )
        return head if self.edges.empty else f"{head}\n{self.edges.to_string(index=False)}"


def difference(
    A: Any,
    B: Any,
    estimator: Any = None,
    n_permutations: int = 500,
    correction: str = "largest",
    alpha: float = 0.05,
    block: int = 1,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Difference:
    r"""Find the edges in which two groups of signals differ, by permutation.

    A graph is learned from each group, and the weights of every pair of nodes are compared,

    .. math:: t_{ij} = |w^A_{ij} - w^B_{ij}| \, / \, s_{ij},

    with what they are when signals are exchanged between the groups at random, which also gives
    the spread :math:`s_{ij}`.  Each group is taken around its own node means, and both graphs are
    scaled to the same trace: what is tested is the pattern of weights, neither level nor size.

    Parameters
    ----------
    A, B : array-like or data frame (n_signals, n_nodes), or array (n_epochs, n_times, n_nodes)
        On the same nodes.  Epochs are exchanged as a whole.
    estimator : optional
        What learns a graph; ``GeneralizedLaplacian()`` by default, which is fast and has nothing
        to tune.  It is fitted twice for each permutation.
    n_permutations : int
        The smallest p-value is one over this number plus one.
    correction : {"largest", "fdr", "none"}
        For many tests: "largest" compares every pair with the largest of all pairs in each
        permutation, so that one false edge or more is found with a probability of ``alpha`` at
        most; "fdr" bounds the share of false edges among those found (Benjamini and Hochberg).
    alpha : float in (0, 1)
        The level.
    block : int
        Consecutive signals that are exchanged together; for a time series, as many as depend on
        each other.
    random_state : int
        Seed of the permutations.
    n_jobs : int, optional
        How many permutations run at the same time.

    Returns
    -------
    Difference

    Examples
    --------
    >>> import heatgraph
    >>> from heatgraph.datasets import make_heat_signals
    >>> one = heatgraph.Graph([(0, 1), (1, 2), (2, 3), (3, 4)], np.ones(4))
    >>> other = heatgraph.Graph([(0, 1), (1, 2), (2, 3), (2, 4)], np.ones(4))
    >>> A, B = (make_heat_signals(g, [0.5], 200, 5, 0.1, random_state=0)[0] for g in (one, other))
    >>> found = heatgraph.difference(A, B, n_permutations=39)
    >>> found.edges[["source", "target"]].values.tolist()
    [[2, 4], [3, 4]]
    """
    n = int(check_number("n_permutations", n_permutations, minimum=1, integer=True))
    size = int(check_number("block", block, minimum=1, integer=True))
    seed = int(check_number("random_state", random_state, integer=True))
    check_choice("correction", correction, CORRECTIONS)
    if not 0.0 < check_number("alpha", alpha) < 1.0:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha!r}.")
    model = GeneralizedLaplacian() if estimator is None else clone(estimator)
    names = _names(A, B)
    units = [_units(name, X, size) for name, X in (("A", A), ("B", B))]
    if units[0][0].shape[1] != units[1][0].shape[1]:
        raise ValueError(
            f"A and B must be on the same nodes, got {units[0][0].shape[1]} and "
            f"{units[1][0].shape[1]} columns."
        )
    both, n_first = [*units[0], *units[1]], len(units[0])
    orders = [np.arange(len(both))]
    rng = np.random.default_rng(seed)
    orders += [rng.permutation(len(both)) for _ in range(n)]
    run = Parallel(n_jobs=1 if n_jobs is None else n_jobs)
    pairs = run(delayed(_weights)(model, both, order, n_first) for order in orders)
    apart = np.array([one - other for one, other in pairs])
    halves = orders[0][:n_first], orders[0][n_first:]
    observed = [_fitted(model, both, half).graph_ for half in halves]
    table = _table(pairs[0], apart, correction, names, units[0][0].shape[1])
    graphs = [Graph(g.edges, g.weights, g.n_nodes, names) for g in observed]
    return Difference(table, graphs[0], graphs[1], float(alpha), n)


def _names(A: Any, B: Any) -> Names:
    """The names of the nodes, which both groups have in the same order."""
    first, second = node_names(A), node_names(B)
    if first is not None and second is not None and first != second:
        raise ValueError("A and B must have the same columns in the same order.")
    return first if first is not None else second


def _units(name: str, X: Any, block: int) -> list[Array]:
    """What is exchanged as a whole: epochs, or blocks of rows; around the group's node means."""
    array = np.asarray(X, dtype=np.float64)
    if array.ndim not in (2, 3) or array.shape[-1] < 2:
        raise ValueError(
            f"{name} must be (n_signals, n_nodes) or (n_epochs, n_times, n_nodes), got shape "
            f"{array.shape}."
        )
    if np.isinf(array).any():
        raise ValueError(f"{name} holds infinity; give finite numbers.")
    array = array - node_means(array.reshape(-1, array.shape[-1]))
    n_units = len(array) if array.ndim == 3 else max(len(array) // block, 1)
    units = list(array) if array.ndim == 3 else np.array_split(array, n_units)
    if n_units < FEWEST:
        what = "epochs" if array.ndim == 3 else f"blocks of {block} signals"
        raise ValueError(
            f"{name} has {n_units} {what}, and {FEWEST} or more are needed to be exchanged."
        )
    return units


def _fitted(model: Any, units: list[Array], which: Ints) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a permutation may find no edge
        return clone(model).fit(np.concatenate([units[k] for k in which]))


def _weights(model: Any, units: list[Array], order: Ints, n_first: int) -> tuple[Array, Array]:
    """The weights of all pairs, of the first units in an order and of the others."""
    n_nodes = units[0].shape[1]
    i, j = np.triu_indices(n_nodes, 1)
    parts = (order[:n_first], order[n_first:])
    one, other = (
        np.asarray(_fitted(model, units, part).weights_.adjacency()[i, j]).ravel() for part in parts
    )
    return one, other


def _table(
    observed: tuple[Array, Array], apart: Array, correction: str, names: Names, n_nodes: int
) -> pd.DataFrame:
    """P-values of every pair; ``apart`` (1 + n_permutations, E), the observed one first."""
    candidates = CandidateEdges.complete(n_nodes)
    spread = apart.std(axis=0)
    typical = float(np.median(spread[spread > 0.0])) if spread.any() else 1.0
    t = np.abs(apart) / np.maximum(spread, LEAST_SPREAD * typical)
    # The observed arrangement is one of those that chance could have made.
    p = (t >= t[0]).mean(axis=0)
    tested = (observed[0] > 0.0) | (observed[1] > 0.0)
    if correction == "largest":
        corrected = (t.max(axis=1, keepdims=True) >= t[0]).mean(axis=0)
    elif correction == "fdr":
        corrected = np.ones_like(p)
        if tested.any():
            corrected[tested] = false_discovery_control(p[tested])
    else:
        corrected = p
    nodes = labels(Graph([], [], n_nodes, names))
    frame = pd.DataFrame(
        {
            "source": [nodes[k] for k in candidates.i],
            "target": [nodes[k] for k in candidates.j],
            "weight_a": observed[0],
            "weight_b": observed[1],
            "difference": apart[0],
            "p_value": p,
            "p_corrected": corrected,
        }
    )
    return frame[tested].reset_index(drop=True)
