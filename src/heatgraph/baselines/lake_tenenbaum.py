"""LakeTenenbaum: a sparse graph whose Laplacian, with noise, is a precision matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from heatgraph.baselines.gaussian import (
    EM_TOL,
    GapsMixin,
    GaussianSignals,
    fit_gaussian,
    read_signals,
    store_precision,
)
from heatgraph.baselines.precision_solver import PrecisionFit, fit_precision, penalised_moment
from heatgraph.estimators.fitted_graph import check_n_edges
from heatgraph.estimators.hidden import PrecisionMixin
from heatgraph.estimators.progress import watch_fit
from heatgraph.estimators.reporting import ReportMixin
from heatgraph.estimators.validation import check_number, over_square, per_square
from heatgraph.models.moments import log_likelihoods
from heatgraph.solvers.result import Monitor, Status

__all__ = ["LakeTenenbaum"]

Array = NDArray[np.float64]

# Penalties beta / n_signals that "auto" tries, in units of the mean variance of a node; they reach
# from none to where hardly an edge is left.
PENALTIES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3)
FOLDS = 3
ROUGH = 1e-3  # nats per node: enough to tell penalties apart


class LakeTenenbaum(GapsMixin, PrecisionMixin, ReportMixin, BaseEstimator):
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
        are likeliest (three contiguous folds).
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

    def fit(self, X: Any, y: Any = None, *, monitor: Monitor | None = None) -> Self:
        """Learn the graph and the variance.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            At least two signals; NaN marks an entry that was not observed.  The columns of a data
            frame name the nodes.
        y : ignored
        monitor : callable, optional
            Called with a :class:`~heatgraph.solvers.result.Progress` after every step of the last
            fit.
        """
        limits: dict[str, Any] = {
            "max_iter": int(check_number("max_iter", self.max_iter, minimum=1, integer=True)),
            "tol": check_number("tol", self.tol, strict=True),
        }
        signals = read_signals(self, X)
        n_edges = check_n_edges(self.n_edges, signals.candidates)
        lam = self._given(signals)
        with watch_fit(self.verbose, monitor) as watch:
            if lam is None:
                lam = _likeliest(signals, PENALTIES)
            fit, location = _fit(signals, lam, monitor=watch.step, **limits)
        store_precision(self, signals, fit, location, n_edges)
        self.variance_ = float(per_square(1.0 / fit.v[0], signals.unit))
        self.beta_ = float(per_square(lam * len(signals.X), signals.unit))
        return self

    def _given(self, signals: GaussianSignals) -> float | None:
        """``beta / M`` in units of the signals."""
        if isinstance(self.beta, str):
            if self.beta != "auto":
                raise ValueError(f'beta must be a number >= 0 or "auto", got {self.beta!r}.')
            return None
        return float(over_square(check_number("beta", self.beta), signals.unit)) / len(signals.X)


def _fit(signals: GaussianSignals, lam: float, **limits: Any) -> tuple[PrecisionFit, Array]:
    def solve(
        S: Array, start: PrecisionFit | None = None, max_iter: int | None = None
    ) -> PrecisionFit:
        given = limits if max_iter is None else {**limits, "max_iter": max_iter}
        K = penalised_moment(S, lam)
        return fit_precision(K, "shared", signals.candidates, start=start, **given)

    return fit_gaussian(signals, solve, max(EM_TOL, limits["tol"]))


def _likeliest(signals: GaussianSignals, penalties: Sequence[float]) -> float:
    """The ``beta / M`` under which held-out signals are likeliest."""
    X = signals.X
    size = float(np.nanmean(np.square(X)))
    folds = np.array_split(np.arange(len(X)), min(FOLDS, len(X) // 2))
    totals = np.zeros(len(penalties))
    for held_out in folds if len(folds) > 1 else []:
        rest = np.delete(X, held_out, axis=0)
        if np.isnan(rest).all(axis=0).any() or not np.nanstd(rest) > 0.0:
            continue  # a node that the others never observed
        part = replace(signals, X=rest)
        for k, penalty in enumerate(penalties):
            fit, location = _fit(part, penalty * size, tol=ROUGH)
            if fit.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            around = (location - signals.means) / signals.unit
            likely = log_likelihoods(X[held_out], around, np.asarray(np.linalg.inv(fit.T)))
            totals[k] += float(likely.sum())
    return penalties[int(np.argmax(totals))] * size
