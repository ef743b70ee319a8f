"""The log-degree model: smooth signals on a graph with no isolated node (Kalofolias 2016)."""

from __future__ import annotations

import numpy as np

from heatgraph.arrays import Array
from heatgraph.baselines.learned import Learned, frozen
from heatgraph.baselines.semismooth_newton import pair_newton
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.solvers.result import Status

CONTINUATION = 10.0  # factor of theta from one stage of the warm-up to the next
ROUGH = 1e-2  # residual at which a stage of the continuation ends


def log_degree_step(
    z: Array,
    a: float,
    b: float,
    candidates: CandidateEdges,
    *,
    tol: float = 1e-10,
    max_iter: int = 200,
) -> Learned:
    """Weigh smoothness against degrees that must not vanish.

    Minimise over ``w >= 0``

        2 <z, w> - a sum_n log((S_w w)_n) + b ||w||^2,

    which is ``||W o Z||_1 - a 1^T log(W 1) + b/2 ||W||_F^2`` in the symmetric matrix ``W``.

    Differs from the paper that it is compared in: the trace is not fixed, the logarithm keeps the
    weights from 0 instead.

    With ``theta = 1/sqrt(a b)`` and ``w = sqrt(a/b) v`` it becomes the same problem with ``a = b
    = 1`` and distances ``theta z``: ``theta`` alone decides the pattern, ``a/b`` the scale.  Its
    dual, with ``y > 0`` a multiplier for each degree,

        minimise  -sum_n log y_n + 1/4 sum_e max(0, y_i + y_j - 2 theta z_e)^2,

    is strictly convex in N variables; ``v_e = max(0, y_i + y_j - 2 theta z_e) / 2`` and ``y = 1 /
    (S_w v)`` at the solution.  A semismooth Newton method with a line search solves it; the
    published primal-dual method works in the E edges and converges linearly.

    Parameters
    ----------
    z : array (E,)
        Squared distances of the signals at the two ends of each candidate edge.
    a, b : float
        Weights of the degrees and of the spread, > 0.
    candidates : CandidateEdges
        The edges that may carry a weight; every node needs at least one.

    Returns
    -------
    Learned
        Its ``objective`` has a lower bound of the minimum for each Newton step, increasing, and
        at the end the value reached; ``residual`` is the largest violation of the optimality
        conditions, relative to the largest of the multipliers' inverses.
    """
    _check_reachable(candidates)
    theta, scale = 1.0 / np.sqrt(a * b), np.sqrt(a / b)
    c = 2.0 * theta * z
    start, n_warm = _warm_up(c, candidates)
    _, u, values, residual = pair_newton(start, c, candidates, 0.5, 0.0, tol, max_iter)
    w = 0.5 * scale * u
    degrees = candidates.degrees(w)
    if residual <= tol:
        status = Status.CONVERGED
    else:
        status = Status.MAX_ITER if values.size > max_iter else Status.STALLED
    # Before convergence a node may have no edge: the value is then infinite.
    with np.errstate(divide="ignore"):
        objective = float(2.0 * z @ w - a * np.log(degrees).sum() + b * w @ w)
    # In ``v`` the minimum is at least ``n - value``; the objective is ``a`` times that of ``v``
    # minus ``a n log(scale)``.
    bounds = a * (candidates.n_nodes * (1.0 - np.log(scale)) - values)
    history = frozen(np.append(bounds, objective))
    return Learned(frozen(w), history, float(residual), status, n_warm + values.size - 1)


def _check_reachable(candidates: CandidateEdges) -> None:
    ends = np.bincount(candidates.i, minlength=candidates.n_nodes)
    ends += np.bincount(candidates.j, minlength=candidates.n_nodes)
    bare = np.flatnonzero(ends == 0)
    if bare.size:
        raise ValueError(
            f"candidates leaves {bare.size} node(s) without an edge, first node {bare[0]}; the "
            "log-degree model needs a positive degree everywhere: add an edge to each, or drop "
            "those nodes"
        )


def _warm_up(c: Array, candidates: CandidateEdges) -> tuple[Array, int]:
    """A start for Newton's method at ``c = 2 theta z``, and the steps it took.

    Multipliers at which every node just reaches its nearest candidate are close where ``theta z``
    is of order 1.  Where it is larger, the multipliers grow like ``theta``: come from a smaller
    one in steps of `CONTINUATION`, roughly solved.
    """
    nearest = np.full(candidates.n_nodes, np.inf)
    np.minimum.at(nearest, candidates.i, c)
    np.minimum.at(nearest, candidates.j, c)
    stages = int(np.ceil(np.log(max(np.median(nearest), 1.0)) / np.log(CONTINUATION)))
    share = CONTINUATION ** -float(stages)
    y = 0.5 * share * nearest + 1.0
    n_iter = 0
    for _ in range(stages):
        y, _, values, _ = pair_newton(y, share * c, candidates, 0.5, 0.0, ROUGH, 100)
        n_iter += values.size - 1
        share *= CONTINUATION
        y = y * CONTINUATION
    return y, n_iter


def parameters_for_degree(
    z: Array, degree: float, candidates: CandidateEdges
) -> tuple[float, float]:
    """``(a, b)`` for which a node has about ``degree`` neighbours.

    A node alone, ``min theta z^T w - log(1^T w) + 1/2 ||w||^2`` over its own candidates sorted by
    distance ``z_1 <= z_2 <= ...``, has exactly ``k`` positive weights when

        1 / sqrt(k z_{k+1}^2 - B_k z_{k+1})  <  theta  <=  1 / sqrt(k z_k^2 - B_k z_k),
        B_k = z_1 + ... + z_k

    (Kalofolias and Perraudin 2019).  ``theta`` is the geometric mean of the two bounds, each
    averaged over the nodes; ``a = b = 1 / theta``, which keeps the weights of order 1.  The joint
    problem couples the nodes, so the degree met is near ``degree``, not equal to it.

    Parameters
    ----------
    z : array (E,)
        Squared distances over the candidate edges.
    degree : float
        Wanted mean number of neighbours, at least 1; a fraction is interpolated.
    """
    rows = _sorted_distances(z, candidates)
    most = int(np.isfinite(rows).sum(axis=1).min()) - 1
    if not 1.0 <= degree <= most:
        raise ValueError(
            f"degree must be between 1 and {most}, one less than the fewest candidates a node "
            f"has; got {degree!r}"
        )
    low = int(np.floor(degree))
    part = degree - low
    log_theta = (1.0 - part) * np.log(_theta(rows, low))
    if part > 0.0:
        log_theta += part * np.log(_theta(rows, low + 1))
    inverse = float(np.exp(-log_theta))
    return inverse, inverse


def _sorted_distances(z: Array, candidates: CandidateEdges) -> Array:
    """``(N, most candidates)``: each node's distances in order, padded with infinity."""
    node = np.concatenate([candidates.i, candidates.j])
    value = np.concatenate([z, z])
    order = np.lexsort((value, node))
    count = np.bincount(node, minlength=candidates.n_nodes)
    column = np.arange(node.size) - np.repeat(np.cumsum(count) - count, count)
    rows = np.full((candidates.n_nodes, int(count.max())), np.inf)
    rows[node[order], column] = value[order]
    return rows


def _theta(rows: Array, k: int) -> float:
    """The geometric mean of the averaged bounds on ``theta`` for ``k`` neighbours."""
    head = rows[:, :k].sum(axis=1)
    upper = k * rows[:, k - 1] ** 2 - head * rows[:, k - 1]
    lower = k * rows[:, k] ** 2 - head * rows[:, k]
    # A node whose k nearest are equally far allows any theta above: only the other bound holds.
    bounds = [1.0 / np.sqrt(bound[bound > 0.0]).mean() for bound in (lower, upper)
              if (bound > 0.0).any()]  # fmt: skip
    if not bounds:
        raise ValueError(
            f"z does not tell a node's {k} nearest from the next: the distances are all equal "
            "there; give a and b, or another degree"
        )
    return float(np.exp(np.mean(np.log(bounds))))
