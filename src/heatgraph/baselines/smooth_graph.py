"""SmoothGraph: the graph on which the signals vary least."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import solve
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from heatgraph.arrays import Array
from heatgraph.baselines.base import FitInput, GraphMethod, check_limits, number_or_auto
from heatgraph.baselines.learned import Learned
from heatgraph.baselines.log_degree_solver import log_degree_step
from heatgraph.baselines.smooth_solver import learn_smooth
from heatgraph.estimators.fitted_graph import CUT, tell
from heatgraph.estimators.hidden import PrecisionMixin
from heatgraph.estimators.validation import (
    check_choice,
    check_complete,
    check_number,
    over_square,
    per_square,
    unit_of,
)
from heatgraph.graph import CandidateEdges
from heatgraph.models.heat import Signals
from heatgraph.selection.folds import N_FOLDS
from heatgraph.selection.masked_prediction import (
    HIDDEN_SHARE,
    RESOLUTION,
    fit_for_edges,
    hide_entries,
    interpolation_errors,
    predicted_choice,
    smoothing_form,
)
from heatgraph.solvers.result import Monitor

DEGREES = ("trace", "log")
# Spreads tried, in units of the mean squared distance between two nodes; they reach from a graph
# of a few edges to a complete one.
SPREADS = np.logspace(-2.5, 1.0, 15)
ALONE = 0.1  # the spread for a single signal, where there is none to predict
LOWEST, HIGHEST = 1e-5, 1e5  # between which the spread for a number of edges is sought


class SmoothGraph(PrecisionMixin, OneToOneFeatureMixin, TransformerMixin, GraphMethod):
    r"""Learn the graph on which the signals, freed of noise, are smooth.

    .. math::
        \min_{L, Y} \; \|X - Y\|_F^2 + \alpha \, \mathrm{tr}(Y^\top L Y) + \beta \|L\|_F^2

    over valid Laplacians of trace ``n_nodes``: the model of Dong, Thanou, Frossard and
    Vandergheynst, "Learning Laplacian matrix in smooth graph signal representations" (2016).  With
    ``degrees="log"`` it is that of Kalofolias, "How to learn a graph from smooth signals" (2016),

    .. math::
        \min_{w \ge 0} \; 2 \, \mathrm{tr}(X^\top L X)
        + \beta \Big( \|w\|^2 - \sum_n \log \deg_n \Big),

    which leaves no node without an edge and does not denoise; its weights are scaled to trace
    ``n_nodes`` afterwards, and its two penalties are one, because their quotient only scales them.

    Parameters
    ----------
    degrees : {"trace", "log"}
        What keeps the weights from vanishing: their fixed sum, or the logarithm of the degrees.
    alpha : float
        How much signals are smoothed, in the fit (with "trace") and by :meth:`transform`.  It has
        no unit.  The graph depends little on it while it is below 0.1; denser ones follow above.
    beta : float or "auto"
        Weight of the spread of the weights, in the squared units of ``X``: the larger, the more
        edges.  "auto" takes what ``n_edges`` asks for; without it, of 15 values from 0.003 to 10
        times the mean squared distance between two nodes, the smallest that predicts hidden
        entries of held out signals within a standard error of the best.
    n_edges : int, optional
        Keep this many edges in ``graph_``.  With ``beta="auto"`` the spread is the smallest that
        gives as many.
    candidates : optional
        The pairs that may be edges: None for all, a number of nearest neighbours, an edge list,
        a mask, a Graph.
    max_iter : int
        Limit on the iterations of one fit.
    tol : float
        Stop when a step would move the weights by no larger fraction.
    verbose : int
        1 shows a progress bar.

    Attributes
    ----------
    graph_ : Graph
        The learned graph, cut, with the node names of ``X``.
    weights_ : Graph
        Every edge that was learned, before the cut.
    laplacian_ : ndarray (n_nodes, n_nodes)
        The learned Laplacian before the cut; its trace is ``n_nodes``.
    objective_ : ndarray
        Its history; with "log", lower bounds of the minimum and then the value reached.
    status_ : str
        "converged", "max_iter" or "stalled".
    residual_ : float
        The violation of the optimality conditions.
    n_iter_ : int
    beta_ : float
        The spread used.
    node_means_ : ndarray (n_nodes,)
        The mean of each node.

    Examples
    --------
    >>> from heatgraph.datasets import make_graph, make_heat_signals
    >>> graph = make_graph("er", 12, random_state=0)
    >>> X, _ = make_heat_signals(graph, (2.5, 4), 80, random_state=0)
    >>> model = SmoothGraph(n_edges=graph.n_edges).fit(X)
    >>> model.graph_.n_edges == graph.n_edges
    True
    >>> model.transform(X).shape
    (80, 12)
    """

    def __init__(
        self,
        degrees: str = "trace",
        alpha: float = 0.03,
        beta: float | str = "auto",
        n_edges: int | None = None,
        candidates: Any = None,
        max_iter: int = 1000,
        tol: float = 1e-6,
        verbose: int = 0,
    ) -> None:
        self.degrees = degrees
        self.alpha = alpha
        self.beta = beta
        self.n_edges = n_edges
        self.candidates = candidates
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def _learn(self, given: FitInput, monitor: Monitor | None) -> Learned:
        X, unit = given.scaled()
        search = _Search(self, np.ascontiguousarray(X.T), given.candidates, monitor)
        beta, fitted = search.run(self._given_beta(unit), given.n_edges)
        self.node_means_ = given.means
        self.beta_ = per_square(beta, unit)
        return replace(fitted, objective=per_square(fitted.objective, unit))

    def _given_beta(self, unit: float) -> float | None:
        beta = number_or_auto("beta", self.beta)
        return None if beta is None else float(over_square(beta, unit))

    def transform(self, X: Any) -> Array:
        """The signals without their noise, ``(I + alpha L)^-1 x`` each.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            Complete signals.

        Returns
        -------
        ndarray (n_signals, n_nodes)
        """
        check_is_fitted(self)
        observations = check_complete(self, X, reset=False)
        A = np.eye(self.n_features_in_) + self.alpha * self.laplacian_
        return np.ascontiguousarray(solve(A, observations.T, assume_a="pos").T)

    def impute(self, X: Any) -> Any:
        """``X`` with its NaN replaced by the values that are smoothest on the graph.

        Signals are taken around ``node_means_``.  The filled entries of ``x`` are those with the
        least ``||x - y||^2 + alpha y^T L y`` over ``x`` and ``y``, given the observed ones.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            NaN marks an entry that was not observed.

        Returns
        -------
        ndarray or data frame
            As ``X`` is.  A signal of which nothing was observed gets ``node_means_``.
        """
        return super().impute(X)

    def _level_and_form(self) -> tuple[Array, Array]:
        return self.node_means_, smoothing_form(self.laplacian_, self.alpha)

    def score(self, X: Any, y: Any = None) -> float:
        """The share of hidden entries' energy that the model predicts; 0 is predicting zero.

        A quarter of each signal's entries is hidden, always the same ones for the same shape, and
        interpolated from the rest: the ``y`` with the least ``||x - y||^2 + alpha y^T L y``, the
        first term over the visible entries.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            NaN marks an entry that was not observed.
        y : ignored

        Returns
        -------
        float
            Between minus infinity and 1; 1 is a perfect prediction.
        """
        check_is_fitted(self)
        observations = check_complete(self, X, reset=False)
        signals = np.ascontiguousarray(observations.T / unit_of(observations))
        part = hide_entries(Signals(signals, None), HIDDEN_SHARE, np.random.default_rng(0))
        error, energy = interpolation_errors(smoothing_form(self.laplacian_, self.alpha), part)
        total = float(energy.sum())
        return 1.0 - float(error.sum()) / total if total > 0.0 else 0.0


class _Search:
    """The fits on the way to the spread that was asked for, on signals (N, M) of unit size."""

    def __init__(
        self, model: SmoothGraph, X: Array, candidates: CandidateEdges, monitor: Monitor | None
    ) -> None:
        self.X, self.candidates, self.monitor = X, candidates, monitor
        self.log = check_choice("degrees", model.degrees, DEGREES) == "log"
        self.alpha = check_number("alpha", model.alpha, strict=True)
        self.limits = check_limits(model)
        self.z = candidates.squared_distances(X)
        self.size = float(self.z.mean())
        if not self.size > 0.0:
            raise ValueError(
                "X has the same signal at both ends of every pair that may be an edge, so every "
                "graph is equally smooth: give signals that differ between nodes."
            )
        self.done, self.planned = 0, 1

    def run(self, beta: float | None, n_edges: int | None) -> tuple[float, Learned]:
        """The spread, in units of ``X``, and the fit at it."""
        if beta is not None:
            return beta, self.fit(self.X, beta)
        if n_edges is not None:
            self.planned = 2 + int(np.log2(np.log(HIGHEST / LOWEST) / RESOLUTION))
            return fit_for_edges(
                lambda spread: self.fit(self.X, spread),
                lambda fitted: int((fitted.w >= CUT).sum()),
                max(n_edges, 1),
                LOWEST * self.size,
                HIGHEST * self.size,
            )
        beta = self.predicted() * self.size
        return beta, self.fit(self.X, beta)

    def predicted(self) -> float:
        """The spread by masked prediction, in units of the mean squared distance."""
        n_folds = min(N_FOLDS, self.X.shape[1])
        if n_folds < 2:
            return ALONE
        self.planned = n_folds * len(SPREADS) + 1
        return float(predicted_choice(self.X, SPREADS, self.form, n_folds))

    def form(self, X: Array, spread: float) -> Array:
        # The distances are sums over signals, and the spread goes with them.
        share = X.shape[1] / self.X.shape[1]
        w = self.fit(X, spread * self.size * share).w
        return smoothing_form(self.candidates.laplacian(w), self.alpha)

    def fit(self, X: Array, beta: float) -> Learned:
        fitted = self._log(X, beta) if self.log else self._trace(X, beta)
        self.done += 1
        value = float(fitted.objective[-1])
        tell(self.monitor, self.done, self.planned, value, fitted.w, fitted.residual)
        return fitted

    def _trace(self, X: Array, beta: float) -> Learned:
        return learn_smooth(X, self.alpha, beta, candidates=self.candidates, **self.limits)

    def _log(self, X: Array, beta: float) -> Learned:
        z = self.candidates.squared_distances(X)
        s = log_degree_step(z, beta, beta, self.candidates, **self.limits)
        w = s.w * (0.5 * len(X) / s.w.sum())  # of trace N, as those that edges are counted of
        return replace(s, w=w)
