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
