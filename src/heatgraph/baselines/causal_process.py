"""CausalGraphProcess: a directed graph along which a time series goes on."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from heatgraph.arrays import Array
from heatgraph.baselines.base import check_limits, number_or_auto, store_end
from heatgraph.baselines.causal_solver import (
    CommutingFilters,
    Lags,
    coefficients,
    commuting_filters,
    lagged_rows,
    nearest_shift,
)
from heatgraph.estimators.fitted_graph import CUT, ReportMixin, warn_of_status
from heatgraph.estimators.parameters import n_threads
from heatgraph.estimators.progress import watch_fit
from heatgraph.estimators.time_series import with_epochs
from heatgraph.estimators.validation import (
    check_complete,
    check_number,
    node_means,
    node_names,
    unit_of,
)
from heatgraph.graph import Graph
from heatgraph.selection.masked_prediction import sparsest_within_error
from heatgraph.solvers.result import Monitor, Status
from heatgraph.solvers.threads import bounded_blas

# Shares of the smallest penalty without an edge that "auto" tries, the sparsest first.
SHARES = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003)
LAST_SHARE = 1 / 3  # of the series, held out to choose by
ROUGH, ROUGH_ROUNDS = 1e-3, 20  # tolerance and rounds that tell shares apart


class CausalGraphProcess(ReportMixin, BaseEstimator):
    r"""Learn the sparse directed graph whose polynomials carry a time series from step to step.

    .. math::
        x[k] = \sum_{i=1}^{P} P_i(A) \, x[k - i] + e[k], \qquad
        P_1(A) = A, \quad P_i(A) = \sum_{j=0}^{i} c_{ij} A^j

    the model of Mei and Moura, "Signal processing on graphs: causal modeling of unstructured data"
    (2017), by the three problems of their paper:

    .. math::
        \min_{R} \; \tfrac{1}{2T} \sum_k \Big\| x[k] - \sum_i R_i x[k - i] \Big\|^2
        + \lambda \|R_1\|_1 + \tfrac{\mu}{2} \sum_{i < j} \|R_i R_j - R_j R_i\|_F^2,

    .. math::
        \min_{A} \; \tfrac{1}{2} \|A - R_1\|_F^2 + \lambda_A \|A\|_1
        + \tfrac{\mu}{2} \sum_{i \ge 2} \|A R_i - R_i A\|_F^2,

    .. math::
        \min_{c} \; \tfrac{1}{2T} \sum_k \Big\| x[k] - \sum_i P_i(A) x[k - i] \Big\|^2
        + \nu \|c\|_1.

    The first is solved one :math:`R_i` at a time.  Polynomials of one matrix commute, and ``mu``
    asks the :math:`R_i` for it.  The second finds ``A`` near :math:`R_1`, with few entries;
    :math:`\lambda_A` is :math:`\lambda` over the mean variance of a node, so that both problems
    drop entries of about the same size.  The third is a lasso.

    Parameters
    ----------
    order : int
        ``P``, the number of steps back.
    lam : float in [0, 1) or "auto"
        Weight of sparsity, as a share of the smallest weight that leaves no edge.  "auto" takes,
        of eight values from 0.5 to 0.003, the largest that forecasts the last third of the series,
        one step ahead, within a standard error of the best.
    mu : float
        Weight of the commutators.
    nu : float
        Weight of the size of the coefficients ``c``, as a share of the smallest that leaves none.
    n_edges : int, optional
        Keep this many edges in ``graph_``, fewer where fewer were learned.
    max_iter : int
        Limit on the rounds over the :math:`R_i`.
    tol : float
        Stop when the first problem is stationary to this, relative to its gradient at 0.
    verbose : int
        1 shows a progress bar.

    Attributes
    ----------
    graph_ : Graph
        Directed: an edge from ``j`` to ``i`` where ``A_ij`` is not 0, with ``|A_ij|`` as weight; a
        node's effect on itself is in ``adjacency_`` only.
    weights_ : Graph
        The same, before the cut at 1e-4 of the largest and at ``n_edges``.
    adjacency_ : ndarray (n_nodes, n_nodes)
        ``A``, with signs and diagonal.
    filters_ : ndarray (order, n_nodes, n_nodes)
        ``P_i(A)``, what multiplies ``x[k - i]``.
    coefficients_ : list of ndarray
        ``c_i`` for each step back, from the power 0 to ``i``; the first is (0, 1).
    location_ : ndarray (n_nodes,)
        The mean signal.
    lam_ : float
        The share used.
    objective_ : ndarray
        Of the first problem, after each round.
    status_ : str
        "converged", "max_iter" or "interrupted".
    residual_ : float
        The violation of stationarity of the first problem, relative to its gradient at 0.
    n_iter_ : int

    Notes
    -----
    Rows are times, in order and evenly spaced, without gaps.

    Examples
    --------
    >>> A = np.array([[0.3, 0.0, 0.6], [0.6, 0.3, 0.0], [0.0, 0.0, 0.8]])
    >>> rng, x = np.random.default_rng(0), np.zeros((2000, 3))
    >>> for k in range(1, 2000):
    ...     x[k] = A @ x[k - 1] + rng.standard_normal(3)
    >>> model = CausalGraphProcess(order=1, n_edges=2).fit(x)
    >>> model.graph_.edges.tolist()  # 0 acts on 1, and 2 on 0
    [[0, 1], [2, 0]]
    >>> model.predict(x, n_steps=2).shape
    (2, 3)
    """

    def __init__(
        self,
        order: int = 2,
        lam: float | str = "auto",
        mu: float = 1.0,
        nu: float = 1e-3,
        n_edges: int | None = None,
        max_iter: int = 200,
        tol: float = 1e-5,
        verbose: int = 0,
    ) -> None:
        self.order = order
        self.lam = lam
        self.mu = mu
        self.nu = nu
        self.n_edges = n_edges
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, monitor: Monitor | None = None) -> Self:
        """Learn the graph and the polynomials.

        Parameters
        ----------
        X : array-like or data frame (n_times, n_nodes), or in epochs (n_epochs, n_times, n_nodes)
            More times than ``order`` + 1 in an epoch; one epoch does not go on in the next.  The
            columns of a data frame name the nodes.  An xarray.DataArray is read by
            :func:`heatgraph.time_series`.
        y : ignored
        monitor : callable, optional
            Called with a :class:`~heatgraph.solvers.result.Progress` after every round.

        Returns
        -------
        Self
            The estimator, fitted.
        """
        settings = _Settings.of(self)
        X, epochs = with_epochs(X)
        names = node_names(X)
        n_epochs = 1 if epochs is None else int(epochs[-1]) + 1
        # With one row for each lag and two to compare, there is something to fit.
        fewest = n_epochs * (settings.order + 2)
        series = check_complete(self, X, reset=True, min_signals=fewest)
        means = node_means(series)
        unit = unit_of(series - means)
        around = ((series - means) / unit).reshape(n_epochs, -1, series.shape[1])
        if not around.any():
            raise ValueError("X holds no signal: every column is constant.")
        with (
            watch_fit(self.verbose, monitor) as watch,
            bounded_blas(series.shape[1], n_threads(-1)),
        ):
            share = settings.share
            if share is None:
                share = _best_share(settings, around)
            A, c, found = settings.fit(around, share, watch.step)
        self.adjacency_, self.coefficients_ = A, c
        self.filters_ = _polynomials(A, c)
        self.location_, self.lam_ = means, share
        self.weights_ = _directed(A, names)
        kept = self.weights_.cut(relative=CUT) if self.weights_.n_edges else self.weights_
        self.graph_ = kept if self.n_edges is None else kept.cut(n_edges=settings.n_edges)
        store_end(self, found)
        if not self.weights_.n_edges:
            warnings.warn(
                "CausalGraphProcess: no node acts on another, so the graph has no edge; lower lam, "
                "or give a longer series.",
                UserWarning,
                stacklevel=2,
            )
        warn_of_status(self)
        return self

    def predict(self, X: Any, n_steps: int = 1) -> Any:
        """The values that follow a series, expected by the model.

        Parameters
        ----------
        X : array-like or data frame (n_times, n_nodes)
            At least ``order`` rows; the last ones count.
        n_steps : int
            How many rows to go on for.

        Returns
        -------
        ndarray or data frame (n_steps, n_nodes)
            A data frame where ``X`` is one.
        """
        check_is_fitted(self)
        steps = int(check_number("n_steps", n_steps, minimum=1, integer=True))
        P = len(self.filters_)
        series = check_complete(self, X, reset=False, min_signals=P)
        rows = list(series[-P:] - self.location_)
        for _ in range(steps):
            lagged = rows[: -P - 1 : -1]
            rows.append(sum(R @ x for R, x in zip(self.filters_, lagged, strict=True)))
        ahead = np.array(rows[P:]) + self.location_
        return pd.DataFrame(ahead, columns=X.columns) if isinstance(X, pd.DataFrame) else ahead

    def score(self, X: Any, y: Any = None) -> float:
        """The share of the variance around ``location_`` that is forecast one step ahead.

        Parameters
        ----------
        X : array-like or data frame (n_times, n_nodes), or in epochs (n_epochs, n_times, n_nodes)
            One series, or several; an epoch is not continued by the next.
        y : ignored

        Returns
        -------
        float
            Between minus infinity and 1; 1 is a perfect prediction.
        """
        check_is_fitted(self)
        P = len(self.filters_)
        X, epochs = with_epochs(X)
        n_epochs = 1 if epochs is None else int(epochs[-1]) + 1
        rows = check_complete(self, X, reset=False, min_signals=n_epochs * (P + 1))
        series = (rows - self.location_).reshape(n_epochs, -1, rows.shape[1])
        missed, total = _one_step(self.filters_, series / unit_of(series))
        return 1.0 - float(missed.sum()) / float(total.sum()) if total.any() else 0.0


def _polynomials(A: Array, c: list[Array]) -> Array:
    powers = [np.linalg.matrix_power(A, j) for j in range(len(c) + 1)]
    rows = [sum(a * power for a, power in zip(row, powers, strict=False)) for row in c]
    return np.array(rows)


def _one_step(filters: Array, X: Array) -> tuple[Array, Array]:
    """Squares of what one-step forecasts miss of each time, and of what there is."""
    now, *before = lagged_rows(X, len(filters))
    ahead = sum(past @ R.T for past, R in zip(before, filters, strict=True))
    return np.square(now - ahead).sum(axis=1), np.square(now).sum(axis=1)


def _directed(A: Array, names: Any) -> Graph:
    """An edge from ``j`` to ``i`` for every ``A_ij`` off the diagonal."""
    W = np.abs(A.T)
    np.fill_diagonal(W, 0.0)
    return Graph.from_adjacency(W, names, directed=True)


@dataclass(frozen=True)
class _Settings:
    """The parameters, checked."""

    order: int
    share: float | None
    mu: float
    nu: float
    n_edges: int | None
    max_iter: int
    tol: float

    @classmethod
    def of(cls, model: CausalGraphProcess) -> _Settings:
        share = number_or_auto("lam", model.lam, strict=False)
        if share is not None and share >= 1.0:
            raise ValueError(f"lam must be below 1, which leaves no edge, got {model.lam!r}.")
        whole: dict[str, Any] = {"minimum": 1, "integer": True}
        return cls(
            int(check_number("order", model.order, **whole)),
            share,
            check_number("mu", model.mu),
            check_number("nu", model.nu),
            None if model.n_edges is None else int(check_number("n_edges", model.n_edges, **whole)),
            **check_limits(model),
        )

    def fit(
        self, X: Array, share: float, monitor: Monitor | None = None
    ) -> tuple[Array, list[Array], CommutingFilters]:
        """The three problems in turn, on signals around their mean, of unit size."""
        lags = Lags.of(X, self.order)
        lam = share * float(np.abs(lags.own[0, 1]).max())
        found = commuting_filters(
            lags, lam, self.mu, max_iter=self.max_iter, tol=self.tol, monitor=monitor
        )
        variance = float(np.trace(lags.own[1, 1])) / lags.own.shape[-1]
        A = nearest_shift(found.R, lam / variance if self.order > 1 else 0.0, self.mu, self.tol)
        return A, coefficients(X, A, self.order, self.nu), found


def _best_share(settings: _Settings, X: Array) -> float:
    """The largest share that forecasts the last third about best, after a fit of the rest."""
    parts = _split(X, settings.order)
    if parts is None:
        return SHARES[len(SHARES) // 2]
    train, test = parts
    missed = []
    rough = replace(settings, max_iter=ROUGH_ROUNDS, tol=max(settings.tol, ROUGH))
    for share in SHARES:
        A, c, found = rough.fit(train, share)
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        missed.append(_one_step(_polynomials(A, c), test)[0])
    return SHARES[sparsest_within_error(np.array(missed))]


def _split(X: Array, order: int) -> tuple[Array, Array] | None:
    """The first two thirds of the epochs and the others, or of the one epoch; None if too short.

    Of one epoch, the times to forecast come with the ``order`` times before them.
    """
    E, T, _ = X.shape
    if E > 1:
        first = E - max(int(LAST_SHARE * E), 1)
        return X[:first], X[first:]
    first = T - max(int(LAST_SHARE * T), order + 1)
    return None if first < order + 2 else (X[:, :first], X[:, first - order :])
