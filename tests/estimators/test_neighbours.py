"""HeatCovariance inside the libraries next door."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators.heat_covariance import HeatCovariance

N = 6


@pytest.fixture(scope="module")
def connectome():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the library itself, as it loads
        return pytest.importorskip("nilearn.connectome")


@pytest.fixture(scope="module")
def subjects():
    graph = make_graph("er", N, random_state=0)
    return [
        make_heat_signals(graph, (1.0,), 80, n_sources=N, noise_std=0.1, random_state=k)[0]
        for k in range(3)
    ]


@pytest.mark.parametrize("kind", ["covariance", "correlation", "partial correlation", "precision"])
def test_as_the_covariance_estimator_of_nilearn(connectome, subjects, kind):
    own = HeatCovariance(shrinkage=0.01, penalty=2.0)
    measure = connectome.ConnectivityMeasure(cov_estimator=own, kind=kind, standardize=False)
    found = measure.fit_transform(subjects)
    assert found.shape == (3, N, N)
    for X, matrix in zip(subjects, found, strict=True):
        model = HeatCovariance(shrinkage=0.01, penalty=2.0).fit(X)
        C, P = model.covariance_, model.precision_
        if kind == "correlation":
            std = np.sqrt(np.diag(C))
            expected = C / np.outer(std, std)
        elif kind == "partial correlation":
            std = np.sqrt(np.diag(P))
            expected = -P / np.outer(std, std)
            np.fill_diagonal(expected, 1.0)
        else:
            expected = C if kind == "covariance" else P
        np.testing.assert_allclose(matrix, expected, atol=1e-6 * np.abs(expected).max())


def test_in_the_tangent_space(connectome, subjects):
    measure = connectome.ConnectivityMeasure(
        cov_estimator=HeatCovariance(shrinkage=0.01, penalty=2.0), kind="tangent", standardize=False
    )
    found = measure.fit_transform(subjects)
    np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=0.1)
