"""LakeTenenbaum: a sparse graph whose Laplacian, with noise, is a precision matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heatgraph.arrays import Array
from heatgraph.baselines.base import (
    EM_TOL,
    FitInput,
    GaussianMethod,
    PrecisionProblem,
    check_limits,
    fit_gaussian,
    number_or_auto,
)
from heatgraph.baselines.precision_solver import (
    PrecisionFit,
    UnboundedLikelihoodError,
    check_observed_pairs,
)
from heatgraph.estimators.validation import over_square, per_square
from heatgraph.graph import CandidateEdges
from heatgraph.models.moments import log_likelihoods
from heatgraph.solvers.result import Monitor, Status

# Penalties beta / n_signals that "auto" tries, in units of the mean variance of a node; they reach
# from none to where hardly an edge is left.
PENALTIES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3)
FOLDS = 3  # contiguous, of the signals
ROUGH = 1e-3  # nats per node: enough to tell penalties apart


class LakeTenenbaum(GaussianMethod):
    r"""Learn the sparse graph that makes the signals likely, with a variance shared by all nodes.

    .. math::
        \max_{W \ge 0, \, \sigma^2 > 0} \; \log \det D - \frac{1}{M} \mathrm{tr}(D X X^\top)
        - \frac{\beta}{M} \|W\|_1,
        \qquad D = \mathrm{diag}(W \mathbf{1}) - W + \frac{1}{\sigma^2} I

    the model of Lake and Tenenbaum, "Discovering structure by learning sparse graphs" (2010), over
    ``M`` signals.  It is convex in ``W`` and :math:`1/\sigma^2`.

    Differs from the paper: signals are taken around the mean of each node.

    Parameters
    ----------
    beta : float or "auto"
        Weight of sparsity, in the squared units of ``X``.  "auto" is, of six values from 0 to 0.3
        times ``n_signals`` times the mean variance of a node, the one under which held-out signals
        are likeliest (three contiguous folds); 0 is left out where two nodes hold the same signal,
        which makes the weight between them infinite.
    n_edges : int, optional
        Keep this many edges in ``graph_``, fewer where fewer were learned.
    candidates : optional
        The pairs that may be edges: None for all, a number of nearest neighbours, an edge list,
        a mask, a Graph.
    max_iter : int
        Limit on the Newton steps.
    tol : float
        Stop when a step promises no larger a fall of the objective, per node.
    verbose : int
        1 shows a progress bar.

    Attributes
    ----------
    graph_, weights_, laplacian_ :
        As of :class:`GeneralizedLaplacian`: the graph after and before the cut, and its Laplacian.
    precision_ : ndarray (n_nodes, n_nodes)
        ``D``, in the inverse squared units of ``X``.
    variance_ : float
        :math:`\sigma^2`, the variance of a node that has no neighbour.
    beta_ : float
        The weight of sparsity used.
    location_, node_means_ : ndarray (n_nodes,)
        The mean signal, and the mean of what was observed of each node.
    objective_ : ndarray
        Minus the function above, at the start and after each step.
    status_, residual_, n_iter_ :
        As of :class:`GeneralizedLaplacian`.

    Examples
    --------
    >>> from heatgraph.datasets import make_graph, make_heat_signals
    >>> graph = make_graph("er", 12, random_state=0)
    >>> X, _ = make_heat_signals(graph, (1.0,), 100, 12, noise_std=0.02, random_state=0)
    >>> model = LakeTenenbaum().fit(X)
    >>> str(model.status_), model.variance_ > 0.0
    ('converged', True)
    """

    def __init__(
        self,
        beta: float | str = "auto",
        n_edges: int | None = None,
        candidates: Any = None,
        max_iter: int = 200,
        tol: float = 1e-8,
        verbose: int = 0,
    ) -> None:
        self.beta = beta
        self.n_edges = n_edges
        self.candidates = candidates
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def _learn(self, given: FitInput, monitor: Monitor | None) -> PrecisionFit:
        X, unit = given.around_means()
        limits = check_limits(self)
        beta = number_or_auto("beta", self.beta, strict=False)
        if beta is None:
            lam = _likeliest(X, given.candidates, PENALTIES)
        else:
            lam = float(over_square(beta, unit)) / len(X)
        problem = PrecisionProblem("shared", lam, given.candidates, monitor=monitor, **limits)
        fit = fit_gaussian(X, problem, max(EM_TOL, problem.tol))
        self.variance_ = float(per_square(1.0 / fit.precision.v[0], unit))
        self.beta_ = float(per_square(lam * len(X), unit))
        return self._store_model(given, fit, unit)


def _likeliest(X: Array, candidates: CandidateEdges, penalties: Sequence[float]) -> float:
    """The ``beta / M`` under which held-out signals are likeliest."""
    size = float(np.nanmean(np.square(X)))
    folds = np.array_split(np.arange(len(X)), min(FOLDS, len(X) // 2))
    totals = np.zeros(len(penalties))
    try:
        check_observed_pairs(X, "shared", candidates)
    except UnboundedLikelihoodError:  # only without a penalty
        totals[0] = -np.inf
    for held_out in folds if len(folds) > 1 else []:
        rest = np.delete(X, held_out, axis=0)
        if np.isnan(rest).all(axis=0).any() or not np.nanstd(rest) > 0.0:
            continue  # a node that the others never observed
        for k, penalty in enumerate(penalties):
            problem = PrecisionProblem("shared", penalty * size, candidates, tol=ROUGH)
            try:
                fit = fit_gaussian(rest, problem, ROUGH)
            except UnboundedLikelihoodError:
                totals[k] = -np.inf
                continue
            if fit.precision.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            covariance = np.asarray(np.linalg.inv(fit.precision.T))
            totals[k] += float(log_likelihoods(X[held_out], fit.mean, covariance).sum())
    return penalties[int(np.argmax(totals))] * size
