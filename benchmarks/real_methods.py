"""The methods that ``make bench-real`` compares, each as it comes: nothing is tuned to a data set.

A method learns from signals (M, N) and gives what it can: a function that fills hidden entries, a
weight for every pair of nodes, edges by a cut of its own.  All see signals less their training
means, except those that centre by themselves; a method that takes no NaN gets the node means in
their place.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.covariance import OAS, GraphicalLassoCV, LedoitWolf
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

Array = NDArray[np.float64]
Predict = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a method learned; None where it gives no such thing.

    Parameters
    ----------
    predict : callable, optional
        Signals (M, N) with NaN, to the same with every NaN filled in.
    edge_weights : ndarray (N, N), optional
        The larger, the surer an edge.
    own_edges : ndarray (E, 2), optional
        The edges that the method itself calls edges.
    status : str
        How the fit ended.
    """

    predict: Predict | None = None
    edge_weights: Array | None = None
    own_edges: NDArray[np.intp] | None = None
    status: str = "ok"


@dataclass(frozen=True)
class Method:
    """A fit of signals, and what it asks of them."""

    fit: Callable[[Array], Fitted]
    takes_nan: bool = False
    centres: bool = False
    ours: bool = False
    predicts: bool = True


def conditional_mean(P: Array) -> Predict:
    """Fill by the mean given what is visible, for signals of mean 0 and precision ``P``."""

    def predict(X: Array) -> Array:
        filled = X.copy()
        for row in filled:
            h = np.isnan(row)
            if h.any():
                row[h] = np.linalg.solve(P[np.ix_(h, h)], -P[np.ix_(h, ~h)] @ row[~h])
        return filled

    return predict


def partial_correlations(P: Array) -> Array:
    size = np.sqrt(np.diag(P))
    return -P / np.outer(size, size)


def _upper(kept: NDArray[np.bool_]) -> NDArray[np.intp]:
    return np.argwhere(np.triu(kept, 1))


def node_mean(Z: Array) -> Fitted:
    return Fitted(lambda X: np.where(np.isnan(X), 0.0, X))


def covariance(estimator: type) -> Callable[[Array], Fitted]:
    def fit(Z: Array) -> Fitted:
        return Fitted(conditional_mean(estimator(assume_centered=True).fit(Z).precision_))

    return fit


def partial_correlation(Z: Array) -> Fitted:
    P = LedoitWolf(assume_centered=True).fit(Z).precision_
    return Fitted(edge_weights=partial_correlations(P))


def correlation(Z: Array) -> Fitted:
    size = np.linalg.norm(Z, axis=0)
    size[size == 0.0] = 1.0
    return Fitted(edge_weights=(Z / size).T @ (Z / size))


def graphical_lasso(Z: Array) -> Fitted:
    """On signals of unit variance; its edges are the pairs with a precision that is not 0."""
    size = Z.std(axis=0)
    size[size == 0.0] = 1.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        P, status = _lasso_precision(Z / size)
    if any(issubclass(w.category, ConvergenceWarning) for w in caught):
        status = "not converged" if status == "ok" else f"{status}, not converged"
    inner = conditional_mean(P)
    return Fitted(
        lambda X: inner(X / size) * size, partial_correlations(P), _upper(P != 0.0), status
    )


def _lasso_precision(Z: Array) -> tuple[Array, str]:
    """At scikit-learn's own penalties; where its solver breaks at these, at larger ones."""
    for least in (None, 0.01, 0.1):
        alphas = 4 if least is None else np.geomspace(least, 0.9, 10).tolist()
        try:
            P = GraphicalLassoCV(alphas=alphas, assume_centered=True).fit(Z).precision_
        except FloatingPointError as error:
            broken = error
        else:
            return P, "ok" if least is None else f"penalties from {least}"
    raise broken


def nearest_rows(Z: Array) -> Fitted:
    return Fitted(KNNImputer(keep_empty_features=True).fit(Z).transform)


def chained_regressions(Z: Array) -> Fitted:
    """Ten rounds, scikit-learn's limit, always: on complete signals it would stop after one."""
    model = IterativeImputer(tol=0.0, max_iter=10, keep_empty_features=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return Fitted(model.fit(Z).transform, status="ten rounds")


def _dense(graph: Any) -> Array:
    return np.asarray(graph.adjacency().toarray(), dtype=np.float64)


def _graph_of(model: Any, predict: Predict | None) -> Fitted:
    """Weights before the cut, edges after it."""
    status = str(getattr(model, "status_", "ok"))
    return Fitted(predict, _dense(model.weights_), model.graph_.edges, status)


def learn_heat(Z: Array) -> Fitted:
    from heatgraph import LearnHeat

    model = LearnHeat(random_state=0).fit(Z)
    return _graph_of(model, model.impute)


def heat_covariance(X: Array) -> Fitted:
    from heatgraph import HeatCovariance

    model = HeatCovariance().fit(X)
    return _graph_of(model, model.impute)


def heat_covariance_auto(X: Array) -> Fitted:
    from heatgraph import HeatCovariance

    model = HeatCovariance(kernel="auto").fit(X)
    return replace(_graph_of(model, model.impute), status=f"{model.status_}, {model.kernel_}")


def learn_auto(X: Array) -> Fitted:
    from heatgraph import learn

    model = learn(X)
    return _graph_of(model, model.impute)


def spectral_templates(Z: Array) -> Fitted:
    from heatgraph import SpectralTemplates

    return _graph_of(SpectralTemplates().fit(Z), None)


def filling_graph(name: str, **parameters: Any) -> Callable[[Array], Fitted]:
    """A method of ``heatgraph.baselines`` that fills hidden entries."""

    def fit(X: Array) -> Fitted:
        import heatgraph

        model = getattr(heatgraph, name)(**parameters).fit(X)
        return _graph_of(model, model.impute)

    return fit


def diffusion_polytope(Z: Array) -> Fitted:
    from heatgraph import DiffusionPolytope

    return _graph_of(DiffusionPolytope().fit(Z), None)


def neighbours(Z: Array) -> Fitted:
    from heatgraph import neighbour_graph

    graph = neighbour_graph(Z)
    return Fitted(None, _dense(graph), graph.edges)


METHODS = {
    "node mean": Method(node_mean),
    "LedoitWolf": Method(covariance(LedoitWolf)),
    "OAS": Method(covariance(OAS)),
    "GraphicalLassoCV": Method(graphical_lasso),
    "KNNImputer": Method(nearest_rows, takes_nan=True),
    "IterativeImputer": Method(chained_regressions, takes_nan=True),
    "correlation": Method(correlation, predicts=False),
    "partial correlation": Method(partial_correlation, predicts=False),
    "GraphicalLassoGraph": Method(filling_graph("GraphicalLassoGraph"), ours=True),
    "SmoothGraph": Method(filling_graph("SmoothGraph"), ours=True),
    "SmoothGraph-log": Method(filling_graph("SmoothGraph", degrees="log"), ours=True),
    "SpectralTemplates": Method(spectral_templates, ours=True, predicts=False),
    "DiffusionPolytope": Method(diffusion_polytope, ours=True, predicts=False),
    "neighbours": Method(neighbours, ours=True, predicts=False),
    "GGL": Method(filling_graph("GeneralizedLaplacian"), True, True, ours=True),
    "DDGL": Method(
        filling_graph("GeneralizedLaplacian", constraint="dominant"), True, True, ours=True
    ),
    "CGL": Method(
        filling_graph("GeneralizedLaplacian", constraint="combinatorial"), True, True, ours=True
    ),
    "LakeTenenbaum": Method(filling_graph("LakeTenenbaum"), True, True, ours=True),
    "HeatFilter": Method(filling_graph("HeatFilter"), ours=True),
    "HeatCovariance": Method(heat_covariance, takes_nan=True, centres=True, ours=True),
    "HeatCovariance-auto": Method(heat_covariance_auto, takes_nan=True, centres=True, ours=True),
    "LearnHeat": Method(learn_heat, takes_nan=True, ours=True),
    "heatgraph.learn": Method(learn_auto, takes_nan=True, centres=True, ours=True),
}


def fit(name: str, X: Array) -> Fitted:
    """Learn from signals as they come; ``predict`` takes and gives signals as they come."""
    method = METHODS[name]
    mean = np.zeros(X.shape[1]) if method.centres else np.nanmean(X, axis=0)
    Z = X - mean
    if not method.takes_nan:
        Z = np.where(np.isnan(Z), 0.0, Z)
    fitted = method.fit(Z)
    if fitted.predict is None:
        return fitted
    inner = fitted.predict
    return replace(fitted, predict=lambda X: mean + np.asarray(inner(X - mean)))
