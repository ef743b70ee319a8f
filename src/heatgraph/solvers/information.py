"""Standard errors and tests of edges from the Fisher information."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.stats import norm

from heatgraph.arrays import Array, Ints, Mask
from heatgraph.graph import CandidateEdges, Graph
from heatgraph.models.gaussian import NOISE_FLOOR, GaussianPoint, mean_variance
from heatgraph.solvers.gaussian import GaussianFitter

HEAVY = 3.0  # times the scale: heat of an edge this heavy is even to exp(-12)
RATIO_TOL = 0.3  # nats by which a log-likelihood ratio of the surest edges may be off
AT_BOUND = 10.0  # times the noise floor: a noise below this is at its bound, and no parameter


def edge_tests(
    fitter: GaussianFitter, S: Array, n_signals: float, graph: Graph, asked: Ints
) -> pd.DataFrame:
    """Tests of ``w_e = 0`` for the pairs ``asked`` (P, 2), given the edges of ``graph``.

    The model is fitted without penalty on those edges.  With ``I`` the information of all
    parameters that are free, an edge with weight has ``z = w / sqrt((I^-1)_ee)`` (Wald) and a pair
    without ``z = U_e / sqrt(I_ee - I_eo I_oo^-1 I_oe)`` (score), ``U_e`` the slope of the
    log-likelihood.  One-sided, ``p = P(N(0, 1) > z)``.  Edges that make two nodes nearly one get
    the root of the likelihood ratio for ``z``.
    """
    pairs = CandidateEdges.of(graph.n_nodes, graph.edges)
    on_graph = replace(fitter, candidates=pairs, report=None)
    start = on_graph.likeliest(S, on_graph.start(S, n_signals))
    point = on_graph.relaxed(S, start).point if pairs.n_edges else start.point
    kept = point.problem.candidates
    free = _free(point, S)
    own = 0.5 * n_signals * point.information_matrix(kept, kept)
    inverse: Array = np.linalg.pinv(own[np.ix_(free, free)], hermitian=True).astype(np.float64)
    errors = np.full(kept.n_edges, np.nan)
    inside = np.flatnonzero(free[: kept.n_edges])
    errors[inside] = np.sqrt(np.maximum(np.diag(inverse)[: inside.size], 0.0))
    score, spread = _score(point, S, n_signals, kept, asked, free, inverse)
    number = {(i, j): e for e, (i, j) in enumerate(zip(kept.i, kept.j, strict=True))}
    where = np.array([number.get((i, j), -1) for i, j in asked], dtype=np.intp)
    known = where >= 0
    w, se = np.zeros(len(asked)), np.full(len(asked), np.nan)
    w[known], se[known] = point.w[where[known]], errors[where[known]]
    wald = known & (se > 0.0) & (w > 0.0)
    z = np.divide(score, spread, out=np.zeros_like(score), where=spread > 0.0)
    z[wald] = w[wald] / se[wald]
    for k in np.flatnonzero(known & (w > HEAVY)):
        z[k] = _root_of_ratio(replace(on_graph, candidates=kept), point, n_signals, where[k])
    scaled, scaled_errors = _of_trace(point.w, inside, inverse, graph.n_nodes)
    w[known], se[known] = scaled[where[known]], scaled_errors[where[known]]
    return pd.DataFrame({"weight": w, "standard_error": se, "z": z, "p_value": norm.sf(z)})


def _root_of_ratio(
    fitter: GaussianFitter, point: GaussianPoint, n_signals: float, edge: int
) -> float:
    """``sqrt(M (phi_0 - phi))``, with ``phi_0`` the objective without the edge.

    For edges so heavy that their two nodes are nearly one, of whose weight little is known: the
    information vanishes, although they are the surest of all.
    """
    if not n_signals:  # of which any two nodes were observed together
        return 0.0
    pairs = fitter.candidates
    without = replace(
        fitter,
        tol=max(fitter.tol, RATIO_TOL / (n_signals * pairs.n_nodes)),
        candidates=pairs.some(np.arange(pairs.n_edges) != edge),
    )
    fit = without.likeliest(point.problem.S, np.delete(point.x, edge))
    return float(np.sqrt(max(n_signals * (fit.point.value - point.value), 0.0)))


def _of_trace(w: Array, free: Ints, covariance: Array, n_nodes: int) -> tuple[Array, Array]:
    """Weights of sum N/2 and their standard errors, by the delta method.

    ``w N / (2 sum w)`` has the slopes ``N / (2 sum w) (I - w 1^T / sum w)``.
    """
    total, errors = float(w.sum()), np.full(w.size, np.nan)
    if not total > 0.0:
        return w, errors
    unit, n = 0.5 * n_nodes / total, free.size
    slopes = np.eye(n) - np.outer(w[free] / total, np.ones(n))
    spread = np.einsum("ef,fg,eg->e", slopes, covariance[:n, :n], slopes, optimize=True)
    errors[free] = unit * np.sqrt(np.maximum(spread, 0.0))
    return w * unit, errors


def _free(point: GaussianPoint, S: Array) -> Mask:
    """Which parameters are off their bounds."""
    lower, upper = point.problem.bounds
    free = (point.x > lower) & (point.x < upper)
    free[-1] = point.spectrum.sigma2 > AT_BOUND * NOISE_FLOOR * mean_variance(S)
    return free


def _score(
    point: GaussianPoint,
    S: Array,
    n_signals: float,
    kept: CandidateEdges,
    asked: Ints,
    free: Mask,
    inverse: Array,
) -> tuple[Array, Array]:
    """The slope of the log-likelihood in each pair, and its standard deviation."""
    pairs = CandidateEdges.of(kept.n_nodes, asked)
    x = np.concatenate([np.zeros(pairs.n_edges), point.x[kept.n_edges :]])
    # The gradient in pairs that have no weight does not depend on which are candidates: the point
    # is the same, so its eigenvectors are borrowed.
    at = GaussianPoint(replace(point.problem, candidates=pairs, S=S, penalty=None), x)
    at.__dict__["_eigen"] = (point.lam, point.U)
    slope = -0.5 * n_signals * at.gradient[: pairs.n_edges]
    own = 0.5 * n_signals * at.diagonal[: pairs.n_edges]
    cross = 0.5 * n_signals * point.information_matrix(pairs, kept)[: pairs.n_edges][:, free]
    left = own - np.einsum("pq,qr,pr->p", cross, inverse, cross, optimize=True)
    return slope, np.sqrt(np.maximum(left, 0.0))
