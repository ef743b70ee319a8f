"""What every estimator does with its input: check it, name it, give it a scale."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Hashable, Iterable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from numpy.exceptions import DTypePromotionError
from scipy import sparse
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import validate_data

from heatgraph.arrays import Array, Ints, Mask
from heatgraph.distributed.parquet import ParquetSignals
from heatgraph.errors import ParameterError
from heatgraph.graph import CandidateEdges, Graph
from heatgraph.selection.folds import still_columns

Names = tuple[Hashable, ...] | None

NO_NUMBER = re.compile(r"could not convert|not '(Timestamp|Timedelta|Period|datetime|date)'")
TWINS = 1e-14  # of the squares of two nodes: what rounding leaves of their difference's
NEAREST = 8  # neighbours that carry weight at the start on many nodes
LEAST_WIDTH = 1e-12  # of squared distances between directions, which are at most 4
MANY_ROWS = 30_000  # from here on nearest rows are found approximately, where that is installed
IN_RANGE = (1e-140, 1e150)  # sizes of values whose variances, and their inverses, are finite


def is_dask(X: Any) -> bool:
    """Whether this is for a cluster to read, without importing Dask where it is not."""
    if isinstance(X, ParquetSignals):
        return True
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


def check_range(unit: float) -> None:
    """A covariance is in squares of the units of ``X``."""
    if not IN_RANGE[0] < unit < IN_RANGE[1]:
        raise ParameterError(
            "X",
            f": its values vary by about {unit:.0e}, so that variances leave the range of "
            f"floating point; multiply X by {1.0 / unit:.0e}.",
        )


def check_signals(estimator: Any, X: Any, *, reset: bool) -> Array:
    """``X`` as a float64 array (n_signals, n_nodes); NaN stands for an entry not observed."""
    if isinstance(X, str | os.PathLike):
        raise ParameterError("X", f"is a path; read it first, as pandas.read_csv({str(X)!r}).")
    if reset:
        node_names(X)  # a duplicate or missing name is said before anything else is
    try:
        checked: Array = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=np.float64,
            ensure_all_finite="allow-nan",
            ensure_min_features=2 if reset else 1,
            copy=True,
        )
    except (ValueError, TypeError) as error:
        dates = isinstance(error, DTypePromotionError)
        if not dates and not NO_NUMBER.search(str(error)):
            raise
        why = "there are columns of dates" if dates else error
        raise ParameterError(
            "X",
            f"must hold numbers only, and NaN where nothing was observed: {why}; drop the "
            "columns that are not nodes, or make them the index.",
        ) from None
    return checked


def check_complete(estimator: Any, X: Any, *, reset: bool, min_signals: int = 1) -> Array:
    """``X`` (n_signals, n_nodes) with every entry observed, for methods that need them all."""
    checked = check_signals(estimator, X, reset=reset)
    missing = int(np.isnan(checked).sum())
    name = type(estimator).__name__
    if missing:
        raise ParameterError(
            "X",
            f"holds NaN in {missing} entries, and {name} takes complete signals only: fill them, "
            "drop those signals, or use LearnHeat, which reads NaN as not observed.",
        )
    if len(checked) < min_signals:
        raise ParameterError(
            "X",
            f"has {len(checked)} sample(s), a minimum of {min_signals} signals is required by "
            f"{name}.",
        )
    return checked


def node_names(X: Any) -> Names:
    """The column names of a data frame, or None where the columns are merely counted."""
    if not hasattr(X, "columns") or isinstance(X.columns, pd.RangeIndex):
        return None
    names = tuple(X.columns)
    missing = [k for k, name in enumerate(names) if pd.isna(name) or name == ""]
    if missing:
        raise ParameterError(
            "X",
            f": column {missing[0]} has no name; name every column after its node, or pass "
            "X.to_numpy() for numbered nodes.",
        )
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise ParameterError(
            "X", f": two columns are named {twice!r}; every node needs a name of its own."
        )
    return names


def set_features(estimator: Any, n_nodes: int, names: Names) -> None:
    """What scikit-learn keeps of signals that it has not seen."""
    estimator.n_features_in_ = n_nodes
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    if names is not None and all(isinstance(name, str) for name in names):
        estimator.feature_names_in_ = np.array(names, dtype=object)


def unit_of(X: Array) -> float:
    """A power of two near the root mean square of the observed entries.

    Fitting X / unit keeps every intermediate value in range whatever the units of X, and dividing
    by a power of two loses no bit.
    """
    top = float(np.nanmax(np.abs(X), initial=0.0))
    if top == 0.0 or not np.isfinite(top):
        return 1.0
    return power_of_two(top * float(np.sqrt(np.nanmean(np.square(X / top)))))


def centre_nodes(X: Array) -> tuple[Array, Array]:
    """The mean (N,) of what was observed at each node, and ``X`` (M, N) around it.

    The mean is 0 for a node that was never observed.  What rounding leaves of a node that is
    constant is set to zero.
    """
    unit = unit_of(X)
    counts = np.maximum((~np.isnan(X)).sum(axis=0), 1)
    level: Array = np.nansum(X / unit, axis=0) / counts * unit
    around = X - level
    around[:, still_columns(X)] *= 0.0  # NaN stays NaN
    return level, around


def node_means(X: Array) -> Array:
    """The mean of what was observed of each node; 0 where nothing was."""
    observed = ~np.isnan(X)
    size = float(np.abs(X[observed]).max(initial=0.0)) or 1.0
    sums = np.where(observed, X / size, 0.0).sum(axis=0)
    return sums / np.maximum(observed.sum(axis=0), 1) * size


def counts_of(X: Array) -> Array:
    """How many values of each node were observed in signals (M, N)."""
    return np.asarray((~np.isnan(X)).sum(axis=0), dtype=np.float64)


def power_of_two(size: float) -> float:
    """The one nearest to a size; 1 where there is none."""
    if size == 0.0 or not np.isfinite(size):
        return 1.0
    return float(2.0 ** np.clip(np.round(np.log2(size)), -1000, 1000))


def per_square(value: Any, unit: float) -> Any:
    """``value * unit**2``; infinite or zero, not an error, where squares of X are out of range."""
    with np.errstate(over="ignore", under="ignore"):
        return value * unit * unit


def over_square(value: Any, unit: float) -> Any:
    """``value / unit**2``, likewise."""
    with np.errstate(over="ignore", under="ignore"):
        return value / unit / unit


def check_number(
    name: str, value: Any, *, minimum: float = 0.0, strict: bool = False, integer: bool = False
) -> float:
    """``value`` as a finite number, or a ValueError that names the parameter."""
    kind = (int, np.integer) if integer else (int, float, np.integer, np.floating)
    bound = f"{'>' if strict else '>='} {minimum:g}"
    what = "an integer" if integer else "a finite number"
    bad = isinstance(value, bool) or not isinstance(value, kind) or not np.isfinite(value)
    if bad or value < minimum or (strict and value == minimum):
        raise ParameterError(name, f"must be {what} {bound}, got {value!r}.")
    return float(value)


def check_scales(scales: Any) -> Array:
    """``scales`` as an array (n_scales,), or a ValueError that names them."""
    try:
        tau = np.array(scales, dtype=np.float64)
    except (TypeError, ValueError):
        tau = np.array(np.nan)
    if tau.ndim != 1 or not tau.size or not np.all(np.isfinite(tau) & (tau >= 0.0)):
        raise ParameterError(
            "scales", f"must be a sequence of finite numbers >= 0, got {scales!r}."
        )
    return tau


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """``value`` if it is one of the choices, or a ValueError that lists them."""
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(
            name, f"must be one of {', '.join(map(repr, choices))}, got {value!r}."
        )
    return value


def check_number_or(
    name: str, value: Any, choices: Sequence[str], *, strict: bool = False
) -> float | str:
    """``value`` if it is a number or one of the choices, or a ValueError that tells of both."""
    if not isinstance(value, str):
        return check_number(name, value, strict=strict)
    if value not in choices:
        words = ", ".join(f'"{choice}"' for choice in choices)
        raise ParameterError(
            name,
            f"must be a number {'>' if strict else '>='} 0 or {'one of ' * (len(choices) > 1)}"
            f"{words}, got {value!r}.",
        )
    return value


def resolve_candidates(candidates: Any, X: Array, names: Names) -> CandidateEdges:
    """The pairs that may carry an edge.

    ``None`` or "all": every pair.  A number k: the k nodes whose rows of ``X.T`` are nearest in
    direction to that of each node, either way round.  A Graph: its edges.  A square matrix, sparse
    or not: its nonzero entries.  Anything else: a list of pairs, of node names where there are
    names, of node numbers otherwise.
    """
    n = X.shape[1]
    if candidates is None or (isinstance(candidates, str) and candidates == "all"):
        return CandidateEdges.complete(n)
    if isinstance(candidates, (int, np.integer)) and not isinstance(candidates, bool):
        return _from_pairs(_nearest_rows(X, int(candidates)), n)
    if isinstance(candidates, Graph):
        return _from_pairs(columns_of("candidates", candidates, n, names)[candidates.edges], n)
    if sparse.issparse(candidates) or getattr(candidates, "shape", None) == (n, n):
        mask = sparse.coo_array(candidates)
        if mask.shape != (n, n):
            raise ParameterError("candidates", f": the mask must be ({n}, {n}), got {mask.shape}.")
        return _from_pairs(np.stack([mask.row, mask.col], axis=1)[mask.data != 0], n)
    return _from_pairs(_numbered(candidates, names, n), n)


def start_near(candidates: CandidateEdges, X: Array) -> Array:
    """Weights on each node's nearest candidates, nothing on the others.

    Heat on all candidates alike would be everywhere at once, and no column of its kernel short.
    Nearest in direction, as nodes that show little are near to each other wherever they are.  An
    edge between nodes of ``d_i`` and ``d_j`` such neighbours weighs ``1 / sqrt(d_i d_j)``: the
    largest degree sets what every step costs.
    """
    near = _near(candidates, candidates.squared_distances(_directions(X)), NEAREST)
    count = candidates.degrees(near.astype(np.float64))
    w = near / np.sqrt(np.maximum(count[candidates.i] * count[candidates.j], 1.0))
    return w * (0.5 * candidates.n_nodes / w.sum())


def decaying_start(candidates: CandidateEdges, X: Array, n_nearest: int) -> Array:
    """Weights that fall with the distance in direction, on each node's ``n_nearest`` candidates.

    They are ``exp(-d^2 / width)``, where the width is the mean of ``d^2`` on the pairs of
    :func:`start_near`.
    """
    distance = candidates.squared_distances(_directions(X))
    width = float(distance[_near(candidates, distance, NEAREST)].mean())
    near = _near(candidates, distance, n_nearest)
    w = near * np.exp(-distance / max(width, LEAST_WIDTH))
    return w * (0.5 * candidates.n_nodes / w.sum())


def _near(candidates: CandidateEdges, distance: Array, n_nearest: int) -> Mask:
    """Which candidates are among the nearest of either of their ends."""
    n = candidates.n_edges
    ends = np.concatenate([candidates.i, candidates.j])
    by = np.lexsort((np.concatenate([distance, distance]), ends))
    starts = np.searchsorted(ends[by], np.arange(candidates.n_nodes))
    rank = np.empty(2 * n, dtype=np.intp)
    rank[by] = np.arange(2 * n) - starts[ends[by]]
    near: Mask = np.minimum(rank[:n], rank[n:]) < n_nearest
    return near


def _directions(X: Array) -> Array:
    """What each node showed (N, M), of length 1; missing entries and silent nodes zero."""
    rows = np.nan_to_num(X.T)
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, size, out=np.zeros_like(rows, dtype=np.float64), where=size > 0.0)


def columns_of(parameter: str, graph: Graph, n: int, names: Names) -> Ints:
    """The column of ``X`` of each node of a graph: by name where both have names."""
    if graph.n_nodes != n:
        raise ParameterError(
            parameter, f": the graph has {graph.n_nodes} nodes, X has {n} columns."
        )
    if names is None or graph.names is None:
        return np.arange(n)
    index = {name: k for k, name in enumerate(names)}
    unknown = [name for name in graph.names if name not in index]
    if unknown:
        raise ParameterError(
            parameter, f": the graph has a node {unknown[0]!r}, which is not a column of X."
        )
    return np.array([index[name] for name in graph.names], dtype=np.intp)


def _nearest_rows(X: Array, k: int) -> Ints:
    check_number("candidates", k, minimum=1, integer=True)
    n = X.shape[1]
    rows, k = _directions(X), min(k, n - 1)
    if n > MANY_ROWS and find_spec("pynndescent") is not None:
        neighbours = _nearly_nearest(rows, k)
    else:
        index = NearestNeighbors(n_neighbors=k).fit(rows)
        neighbours = index.kneighbors(return_distance=False)
    return np.stack([np.repeat(np.arange(n), neighbours.shape[1]), neighbours.ravel()], axis=1)


def _nearly_nearest(rows: Array, k: int) -> Ints:
    """Nearly the ``k`` nearest of every row, in a time that grows little faster than the rows."""
    from pynndescent import NNDescent

    # A row is its own neighbour too: a pair with itself, which is dropped with the others.
    found = NNDescent(rows, n_neighbors=k + 1, random_state=0).neighbor_graph[0]
    return np.asarray(found, dtype=np.intp)


def _numbered(pairs: Any, names: Names, n: int) -> Ints:
    """Pairs of names or numbers as pairs of column numbers."""
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise ParameterError(
            "candidates",
            'must be None, "all", a number of nearest neighbours, a list of pairs, a '
            f"mask or a Graph, got {pairs!r}.",
        )
    listed = pairs.to_numpy().tolist() if hasattr(pairs, "to_numpy") else list(pairs)
    index = {name: k for k, name in enumerate(names if names is not None else range(n))}
    numbers = np.empty((len(listed), 2), dtype=np.intp)
    for k, pair in enumerate(listed):
        try:
            one, other = pair
            numbers[k] = index[one], index[other]
        except (TypeError, ValueError):
            raise ParameterError(
                "candidates", f": entry {k} must be a pair of nodes, got {pair!r}."
            ) from None
        except KeyError as unknown:
            known = "a column of X" if names is not None else f"a node number below {n}"
            raise ParameterError(
                "candidates",
                f": entry {k} names the node {unknown.args[0]!r}, which is not {known}.",
            ) from None
    return numbers


def _from_pairs(pairs: Ints, n: int) -> CandidateEdges:
    pairs = np.sort(pairs, axis=1)
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    if not len(pairs):
        raise ParameterError("candidates", ": no pair of two different nodes is left to learn on.")
    return CandidateEdges.of(n, pairs)


def warn_of_copies(estimator: Any, rows: Array, names: Names) -> None:
    """Warn of nodes whose signals, ``rows`` (n_nodes, n_signals), are the same value for value.

    A column given twice has an edge of its own making, and takes the place of the edges to others.
    Rows of fewer than three different values may be the same by chance.
    """
    alike: dict[bytes, list[Any]] = {}
    for k, row in enumerate(rows):
        if len(np.unique(row[~np.isnan(row)])) > 2:
            alike.setdefault(row.tobytes(), []).append(k if names is None else names[k])
    _tell_copies(estimator, [nodes for nodes in alike.values() if len(nodes) > 1])


def warn_of_twins(estimator: Any, second: Array, names: Names) -> None:
    """The same from second moments (n_nodes, n_nodes), to as many digits as these have."""
    size = np.diag(second)
    sums = size[:, None] + size
    same = (sums - 2.0 * second <= TWINS * sums) & (size[:, None] > 0.0)
    found = {tuple(np.flatnonzero(row)) for row in same}
    groups = [group for group in sorted(found) if len(group) > 1]
    _tell_copies(estimator, [[int(k) if names is None else names[k] for k in g] for g in groups])


def _tell_copies(estimator: Any, copies: list[list[Any]]) -> None:
    if copies:
        more = f" and {len(copies) - 5} more groups" if len(copies) > 5 else ""
        warnings.warn(
            f"{type(estimator).__name__}: these nodes have the same signals, value for value: "
            f"{', '.join(map(str, copies[:5]))}{more}.  The edges between them and to others "
            "cannot be told apart; keep one node of each.",
            stacklevel=5,
        )
