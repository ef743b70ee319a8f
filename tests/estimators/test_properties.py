"""Whatever the signals: a valid Laplacian or an error that says why, in finite numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from heatgraph import Graph, GraphicalLassoGraph, LearnHeat, SmoothGraph, SpectralTemplates

KINDS = ("normal", "equal", "one node", "one signal", "rank one", "zeros", "wide", "integers")
MISSING = ("none", "some", "a node", "a signal", "nearly all")
NAMED = ("X", "alpha", "beta", "candidates", "sample", "NaN", "scales")  # what an error may blame
DTYPES = (np.float64, np.float32, np.int64, np.bool_, object)


@st.composite
def signals(draw):
    """Signals of any shape, size, kind and type, with any pattern of missing entries."""
    n, m = draw(st.integers(2, 6)), draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(size=(m, n))
    match draw(st.sampled_from(KINDS)):
        case "equal":
            X = np.ones((m, n))
        case "one node":
            X[:, 1:] = 0.0
        case "one signal":
            X[1:] = 0.0
        case "rank one":
            X = np.outer(X[:, 0], X[0])
        case "zeros":
            X = X * (rng.random((m, n)) < 0.3)
        case "wide":
            X = X * 10.0 ** rng.integers(-12, 13, (m, n))
        case "integers":
            X = np.rint(2.0 * X)
    dtype = draw(st.sampled_from(DTYPES))
    if dtype in (np.float64, object):
        X = X * 10.0 ** draw(st.integers(-150, 150))
    elif dtype is np.float32:
        X = X * 10.0 ** draw(st.integers(-20, 20))
    else:
        return np.clip(X, -1e6, 1e6).astype(dtype)
    match draw(st.sampled_from(MISSING)):
        case "some":
            X[rng.random(X.shape) < 0.3] = np.nan
        case "a node":
            X[:, 0] = np.nan
        case "a signal":
            X[0] = np.nan
        case "nearly all":
            X[rng.random(X.shape) < 0.95] = np.nan
    return X.astype(dtype)


@st.composite
def candidates(draw, n):
    """All pairs, few, or a graph in pieces."""
    kind = draw(st.sampled_from(("all", "nearest", "path", "one pair")))
    if kind == "all":
        return None
    if kind == "nearest":
        return draw(st.integers(1, n))
    pairs = [(k, k + 1) for k in range(n - 1)] if kind == "path" else [(0, 1)]
    return pairs if draw(st.booleans()) else Graph(np.array(pairs), np.ones(len(pairs)), n)


@st.composite
def heat_fits(draw):
    X = draw(signals())
    penalty = st.sampled_from([0.0, 1e-8, 0.1, 1e8])
    size = float(np.nanmax(np.abs(X.astype(float)), initial=0.0)) or 1.0
    with np.errstate(over="ignore", under="ignore"):
        alpha, beta = draw(penalty) * size, draw(penalty) * size * size
    atoms = draw(st.sampled_from(["unit", "raw"]))
    S = draw(st.integers(1, 3))
    held = draw(st.booleans())
    choice = {
        "n_scales": S,
        "alpha": alpha,
        "beta": beta,
        "atoms": atoms,
        "learn_scales": not held,
        "scales": draw(st.sampled_from([0.0, 1e-9, 1.0, 50.0, 1e6])) * np.arange(1, S + 1)
        if held
        else None,
        "candidates": draw(candidates(X.shape[1])),
        "max_iter": draw(st.sampled_from([1, 40])),
        "init": draw(st.sampled_from(["uniform", "random"])),
        "n_bootstrap": draw(st.sampled_from([0, 0, 0, 2])),
        "cut": draw(st.sampled_from(["auto", "valley", "mixture", "otsu", 0.0, 0.1])),
    }
    return LearnHeat(**choice), X


def check_valid(model, n, told):
    L = model.laplacian_
    if isinstance(model, GraphicalLassoGraph) and any("no edge" in text for text in told):
        # No partial correlation is positive: an empty graph, and a warning that says so.
        assert not L.any()
        return
    assert L.shape == (n, n)
    assert np.isfinite(L).all()
    assert np.array_equal(L, L.T)
    assert np.abs(L.sum(axis=1)).max() < 1e-10
    assert np.trace(L) == pytest.approx(n, rel=1e-9)
    assert (L[~np.eye(n, dtype=bool)] <= 0.0).all()
    assert np.isfinite(model.graph_.weights).all()
    assert not np.isnan(model.objective_).any()


def fits_or_says_why(model, X):
    """A warning about arithmetic is a failure; one that tells the user something is not."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("error", RuntimeWarning)
        try:
            model.fit(X)
        except ValueError as error:
            if not any(name in str(error) for name in NAMED):
                raise
            return
    check_valid(model, X.shape[1], [str(warning.message) for warning in caught])
    if isinstance(model, LearnHeat):
        assert np.isfinite(model.sources_).all()
        assert np.isfinite(model.scales_).all()


def heat(case):
    fits_or_says_why(*case)


def baseline(kind, X):
    fits_or_says_why(kind(), X)


BASELINES = (SmoothGraph, SpectralTemplates, GraphicalLassoGraph)


@settings(max_examples=40)
@given(heat_fits())
def test_learn_heat(case):
    heat(case)


@pytest.mark.parametrize("kind", BASELINES)
@settings(max_examples=10)
@given(X=signals())
def test_baselines(kind, X):
    baseline(kind, X)


@pytest.mark.slow
@settings(max_examples=6_000)
@given(heat_fits())
def test_learn_heat_six_thousand_times(case):
    heat(case)


@pytest.mark.slow
@pytest.mark.parametrize("kind", BASELINES)
@settings(max_examples=1_300)
@given(X=signals())
def test_baselines_four_thousand_times(kind, X):
    baseline(kind, X)


@pytest.mark.slow
@settings(max_examples=100)
@given(signals())
def test_learn_heat_that_chooses_a_hundred_times(X):
    fits_or_says_why(LearnHeat(n_scales=1, max_iter=20), X)
