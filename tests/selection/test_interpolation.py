"""Masked prediction on a graph: against the definition, and where a part is wholly hidden."""

from __future__ import annotations

import numpy as np
import pytest

from heatgraph.graph.candidates import CandidateEdges
from heatgraph.models.heat import Signals
from heatgraph.selection.masked_prediction import (
    HiddenPart,
    fit_for_edges,
    hide_entries,
    interpolation_errors,
    predict_hidden,
    predicted_choice,
    smoothing_form,
    sparsest_within_error,
)


def some_laplacian(rng, n_nodes):
    candidates = CandidateEdges.complete(n_nodes)
    return candidates.laplacian(rng.random(candidates.n_edges))


def test_prediction_is_the_tikhonov_interpolation(rng):
    """``y = (P + a L)^-1 P x``, ``P`` the projection on the visible entries."""
    L, X, a = some_laplacian(rng, 9), rng.standard_normal((9, 6)), 0.3
    part = hide_entries(Signals(X, None), 0.25, rng)
    predicted = predict_hidden(smoothing_form(L, a), part)
    for m in range(6):
        P = np.diag((~part.hidden[:, m]).astype(float))
        y = np.linalg.solve(P + a * L, P @ X[:, m])
        assert predicted[part.hidden[:, m], m] == pytest.approx(y[part.hidden[:, m]], rel=1e-6)
    assert (predicted[~part.hidden] == 0.0).all()


def test_prediction_by_a_precision_is_the_conditional_mean(rng):
    A = rng.standard_normal((7, 7))
    precision = A @ A.T + np.eye(7)
    X = rng.standard_normal((7, 4))
    part = hide_entries(Signals(X, None), 0.3, rng)
    C = np.linalg.inv(precision)
    predicted = predict_hidden(precision, part)
    for m in range(4):
        h, v = part.hidden[:, m], ~part.hidden[:, m]
        mean = C[np.ix_(h, v)] @ np.linalg.solve(C[np.ix_(v, v)], X[v, m])
        assert predicted[h, m] == pytest.approx(mean, rel=1e-6)


def test_a_wholly_hidden_component_is_predicted_as_zero():
    L = np.zeros((3, 3))
    L[:2, :2] = [[1.0, -1.0], [-1.0, 1.0]]
    X = np.array([[1.0], [2.0], [3.0]])
    hidden = np.array([[False], [False], [True]])
    part = HiddenPart(Signals(np.where(hidden, 0.0, X), ~hidden), np.where(hidden, X, 0.0), hidden)
    error, energy = interpolation_errors(smoothing_form(L, 1.0), part)
    assert error == pytest.approx(energy)


def test_the_sparsest_within_an_error_is_taken():
    best = np.array([1.0, 1.0, 1.0, 1.0])
    near = best + np.array([0.1, -0.1, 0.11, -0.09])
    assert sparsest_within_error(np.stack([best + 5.0, near, best])) == 1


@pytest.mark.parametrize("n_edges", [1, 7, 50, 500])
def test_number_of_edges_is_met(n_edges):
    t, fitted = fit_for_edges(lambda t: int(100 * t), lambda edges: edges, n_edges, 1e-3, 1.0)
    assert fitted == min(n_edges, 100)
    assert fitted == int(100 * t)


def test_the_form_that_predicts_is_chosen(rng):
    path = CandidateEdges(8, np.arange(7), np.arange(1, 8)).laplacian(np.ones(7))
    X = np.cumsum(rng.standard_normal((8, 60)), axis=0)
    empty = np.zeros((8, 8))
    forms = {"empty": empty, "path": smoothing_form(path, 0.1)}
    assert predicted_choice(X, forms, lambda _, name: forms[name]) == "path"
