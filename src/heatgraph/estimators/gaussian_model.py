"""What a fitted HeatCovariance does with further signals, and what it says of its edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from heatgraph.arrays import Array, Ints
from heatgraph.estimators.hidden import as_given, warn_of_guesses
from heatgraph.estimators.large_covariance import heat_of, significant
from heatgraph.estimators.model import SourcesMixin
from heatgraph.estimators.validation import (
    check_choice,
    check_number,
    check_signals,
    over_square,
    power_of_two,
)
from heatgraph.graph import CandidateEdges, Graph
from heatgraph.kernels.spectral import kernel_of
from heatgraph.models.moments import condition, log_likelihoods
from heatgraph.solvers.gaussian import GaussianFitter, shrunk
from heatgraph.solvers.information import edge_tests
from heatgraph.solvers.threads import bounded_blas

ADDITIONS = 3  # times that pairs are added to a graph whose absence is refuted
LEAST_TESTED = 2.0  # signals: one says nothing of how signals vary
TEST_SHRINKAGE = 1e-6  # keeps a moment of few signals invertible, far below any noise


class GaussianModelMixin(
    SourcesMixin, TransformerMixin
):  # which wraps the transform of this class only
    """The methods of a fitted model: sources, missing entries, likelihood, tests of edges."""

    covariance_: Array
    edge_table_: pd.DataFrame | None
    graph_: Graph
    laplacian_: Array
    location_: Array
    n_features_in_: int
    n_effective_: float
    n_observed_: Array
    n_signals_: float
    precision_: Array
    scales_: Array
    kernel_: Any
    second_moment_: Array
    selection_: pd.DataFrame | None
    solver_: str
    source_variances_: Array
    tol: float
    weights_: Graph

    def edge_statistics(self, pairs: str = "graph") -> pd.DataFrame:
        """Weights with standard errors, and p-values for the absence of each edge.

        The weights are fitted again on the edges of ``graph_``, without penalty and shrinkage,
        because these bias the weights of ``graph_``, and a standard error does not include a
        bias.  Pairs that a test finds to be edges (a p-value of at most 0.05 after Holm's
        correction) are fitted too, because an edge that is left out biases the weights around
        it.  Edges that are fitted get Wald's test; other pairs get the score test of adding them.
        Both are one-sided, as a weight cannot be negative: a weight that is really 0 has a p-value
        below 0.05 in 5% of the cases.  If signals are correlated in time, they count as
        ``n_effective_`` independent ones, with one autocorrelation for all nodes.

        Parameters
        ----------
        pairs : {"graph", "all"}
            The edges of ``graph_``, or every pair of nodes (dense engine only).  The sparse engine
            computes the standard errors in the fit, from the information around each edge.

        Returns
        -------
        DataFrame
            ``source``, ``target``, ``weight``, ``standard_error``, ``z``, ``p_value``; weights in
            the units of ``graph_``.  The weight of a pair that is not fitted is 0 and has no
            standard error.  ``z`` differs a little from ``weight / standard_error``: it tests the
            weight before all weights are scaled to the trace of ``graph_``, and the standard error
            is that of the scaled weight, so that the error of their sum is part of it.
        """
        check_is_fitted(self)
        check_choice("pairs", pairs, ("graph", "all"))
        graph = self.graph_
        if self.solver_ == "sparse":
            return self._named(self._stored_tests(pairs), graph.edges)
        still = np.flatnonzero(np.diag(self.second_moment_) == 0.0)
        fitter = GaussianFitter(
            CandidateEdges.complete(graph.n_nodes).without(still),
            self.scales_.size,
            float(self.tol),
            kernel=kernel_of(self.kernel_),
        )
        unit = power_of_two(float(np.sqrt(np.trace(self.second_moment_) / graph.n_nodes)))
        second = over_square(self.second_moment_, unit)
        if pairs == "graph":
            asked = graph.edges
        else:
            asked = np.stack(np.triu_indices(graph.n_nodes, 1), axis=1)
        with bounded_blas():
            fitted = _with_refuted_absences(fitter, second, self.n_effective_, graph)
            table = tests_of(fitter, second, self.n_effective_, fitted, asked)
        return self._named(table, asked)

    def _named(self, table: pd.DataFrame, edges: Ints) -> pd.DataFrame:
        """With the ends of each edge."""
        names = self.graph_.names
        labels: Any = range(self.graph_.n_nodes) if names is None else names
        table.insert(0, "source", [labels[k] for k in edges[:, 0]])
        table.insert(1, "target", [labels[k] for k in edges[:, 1]])
        return table

    def _stored_tests(self, pairs: str) -> pd.DataFrame:
        """Those of the sparse engine, which are made in the fit."""
        if pairs == "all":
            raise ValueError(
                "pairs='all' needs solver='dense': the sparse engine tests the edges of graph_."
            )
        if self.edge_table_ is None and self.graph_.n_edges:
            raise ValueError(
                "edge_statistics: the fit was interrupted before its edges were tested; fit again."
            )
        none = {name: np.empty(0) for name in ("weight", "standard_error", "z", "p_value")}
        return pd.DataFrame(none) if self.edge_table_ is None else self.edge_table_.copy()

    def transform(self, X: Any) -> Array:
        """The heat that signals most likely started from: ``v_s exp(-tau_s L) C^-1 (x - u)``.

        The mean of the sources given what was observed.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            NaN marks an entry that was not observed.

        Returns
        -------
        ndarray (n_signals, n_scales * n_nodes)
            ``.reshape(-1, n_scales, n_nodes)`` separates the scales.
        """
        check_is_fitted(self)
        filled = self._filled(check_signals(self, X, reset=False))
        if self.solver_ == "sparse":
            return heat_of(self).sources(filled - self.location_).reshape(len(filled), -1)
        white = (filled - self.location_) @ self.precision_
        lam, U = self._modes()
        decay = self.source_variances_[:, None] * self._decay(lam)
        sources = np.einsum("mk,sk,nk->msn", white @ U, decay, U, optimize=True)
        return np.asarray(sources).reshape(len(filled), -1)

    def _decay(self, lam: Array) -> Array:
        """``g(lam, tau_s)``, what is left of a source in each mode, (S, N)."""
        g = kernel_of(self.kernel_)
        return np.array([g.value(lam, tau) for tau in self.scales_.tolist()])

    def _diffused(self, sources: Array) -> Array:
        if self.solver_ == "sparse":
            return heat_of(self).diffused(sources)
        lam, U = self._modes()
        return np.einsum("msk,sk->mk", sources @ U, self._decay(lam)) @ U.T

    def impute(self, X: Any, return_std: bool = False) -> Any:
        """``X`` with its NaN replaced by their mean given what was observed of the same signal.

        A data frame comes back as one.  A signal of which nothing was observed gets
        ``location_``.  Of a node that was never observed in the fit nothing is known: what is
        filled in there is a guess, which a warning tells of.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            NaN marks an entry that was not observed.
        return_std : bool
            Whether to return the standard deviation of each filled entry too, 0 where it was
            observed.

        Returns
        -------
        filled : ndarray or data frame (n_signals, n_nodes)
            A data frame where ``X`` is one.
        std : ndarray or data frame (n_signals, n_nodes)
            Only with ``return_std``.
        """
        check_is_fitted(self)
        observations = check_signals(self, X, reset=False)
        warn_of_guesses(self, observations)
        filled = as_given(self._filled(observations), X)
        if not return_std:
            return filled
        if self.solver_ == "sparse":
            return filled, as_given(heat_of(self).standard_deviations(observations), X)
        std = np.zeros_like(observations)
        for part in condition(observations, self.location_, self.covariance_):
            spread = np.sqrt(np.maximum(np.diag(part.covariance), 0.0))
            std[np.ix_(part.rows, part.missing)] = spread
        return filled, as_given(std, X)

    def _filled(self, observations: Array) -> Array:
        if self.solver_ == "sparse":
            filled = heat_of(self).filled(observations - self.location_) + self.location_
            return np.where(np.isnan(observations), filled, observations)
        filled = observations.copy()
        for part in condition(observations, self.location_, self.covariance_):
            filled[np.ix_(part.rows, part.missing)] = part.mean
        return filled

    def _modes(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of the Laplacian, which may be stored as a sparse one."""
        L: Any = self.laplacian_
        lam, U = np.linalg.eigh(L.toarray() if sparse.issparse(L) else L)
        return np.maximum(lam, 0.0), U

    def sample(self, n_signals: int = 1, random_state: Any = None) -> Array:
        """Draw signals from the model.

        Parameters
        ----------
        n_signals : int
            How many to draw.
        random_state : int, Generator or None
            Seed; None draws other signals at every call.

        Returns
        -------
        ndarray (n_signals, n_nodes)
            Signals with the mean ``location_`` and the covariance ``covariance_``.
        """
        check_is_fitted(self)
        n = int(check_number("n_signals", n_signals, minimum=1, integer=True))
        rng = np.random.default_rng(random_state)
        if self.solver_ == "sparse":
            white = rng.standard_normal((n, self.n_features_in_))
            return heat_of(self).root_times(white) + self.location_
        root = np.linalg.cholesky(self.covariance_)
        drawn = rng.standard_normal((n, self.n_features_in_)) @ root.T + self.location_
        return np.asarray(drawn)

    def score(self, X_test: Any, y: Any = None) -> float:
        """The mean log-likelihood of the observed entries of a signal.

        Parameters
        ----------
        X_test : array-like or data frame (n_signals, n_nodes)
            NaN marks an entry that was not observed; with the sparse engine, complete signals only.
        y : ignored

        Returns
        -------
        float
            In natural logarithms, per signal.
        """
        check_is_fitted(self)
        observations = check_signals(self, X_test, reset=False)
        if self.solver_ == "sparse":
            if np.isnan(observations).any():
                raise ValueError(
                    "X holds NaN: the likelihood of signals with gaps needs solver='dense'; "
                    "score_hidden takes them."
                )
            return float(heat_of(self).log_likelihoods(observations - self.location_).mean())
        return float(log_likelihoods(observations, self.location_, self.covariance_).mean())

    def mahalanobis(self, X: Any) -> Array:
        """The squared Mahalanobis distance ``(x - u)^T C^-1 (x - u)`` of each signal.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            Complete signals.

        Returns
        -------
        ndarray (n_signals,)
            About ``n_nodes`` for a signal that the model describes; more for an unusual one.
        """
        check_is_fitted(self)
        around = check_signals(self, X, reset=False) - self.location_
        white = (self.precision_ @ around.T).T
        return np.asarray((around * white).sum(axis=1))

    def get_precision(self) -> Array:
        """The inverse of the covariance, as other covariance estimators of scikit-learn give it.

        Returns
        -------
        ndarray (n_nodes, n_nodes)
            ``precision_``; with the sparse engine a LinearOperator.
        """
        check_is_fitted(self)
        return self.precision_


def tests_of(
    fitter: GaussianFitter, S: Array, n_signals: float, graph: Graph, asked: Ints
) -> pd.DataFrame:
    """Tests of pairs given the edges of a graph, see :func:`edge_tests`."""
    moment = shrunk(S, TEST_SHRINKAGE)
    table = edge_tests(fitter, moment, n_signals, graph, asked)
    if n_signals < LEAST_TESTED:
        table[["standard_error", "z", "p_value"]] = np.nan
    return table


def significant_edges(fitter: GaussianFitter, S: Array, n_signals: float, graph: Graph) -> Graph:
    """Edges with a p-value of at most 0.05 after Holm's correction for all pairs."""
    p = tests_of(fitter, S, n_signals, graph, graph.edges)["p_value"].to_numpy()
    keep = significant(p, fitter.candidates.n_edges)
    return Graph(graph.edges[keep].reshape(-1, 2), graph.weights[keep], graph.n_nodes, graph.names)


def _with_refuted_absences(
    fitter: GaussianFitter, S: Array, n_signals: float, graph: Graph
) -> Graph:
    """The edges of a graph, and the pairs that it lacks against the evidence."""
    pairs = fitter.candidates
    every = np.stack([pairs.i, pairs.j], axis=1)
    number = every @ [pairs.n_nodes, 1]
    for _ in range(ADDITIONS):
        absent = every[~np.isin(number, graph.edges @ [pairs.n_nodes, 1])]
        p = tests_of(fitter, S, n_signals, graph, absent)["p_value"].to_numpy()
        more = absent[significant(p, pairs.n_edges)]
        if not len(more):
            break
        edges = np.concatenate([graph.edges, more])
        graph = Graph(edges, np.ones(len(edges)), graph.n_nodes, graph.names)
    return graph
