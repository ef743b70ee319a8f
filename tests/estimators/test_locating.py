"""Where heat was released: at a scale of its own for each signal."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from heatgraph import HeatCovariance, LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators import model as sources


@pytest.fixture(scope="module")
def model() -> LearnHeat:
    graph = make_graph("er", 10, random_state=1, p=0.3)
    X, _ = make_heat_signals(graph, (1.0, 3.0), 120, n_sources=2, random_state=1)
    return LearnHeat(alpha=0.05, beta=0.01).fit(X)


def kernel(model, scale: float) -> np.ndarray:
    lam, U = np.linalg.eigh(model.graph_.laplacian().toarray())
    return (U * np.exp(-scale * lam)) @ U.T


def by_another_solver(model, x, scales, alpha):
    """The scale and the sources, by a bounded quasi-Newton method on the stated objective."""
    seen = ~np.isnan(x)
    best = (np.inf, None, None)
    for scale in scales:
        E = kernel(model, scale)
        cost = alpha * np.linalg.norm(x[seen]) * np.linalg.norm(E, axis=0)

        def objective(h, E=E, cost=cost):
            left = E[seen] @ h - x[seen]
            return left @ left + cost @ h, 2.0 * E[seen].T @ left + cost

        found = minimize(
            objective, np.zeros(x.size), jac=True, bounds=[(0.0, None)] * x.size,
            method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000},
        )  # fmt: skip
        if found.fun < best[0]:
            left = E[seen] @ found.x - x[seen]
            explained = 1.0 - left @ left / (x[seen] @ x[seen])
            best = (found.fun, scale, found.x, explained)
    return best[1:]


@pytest.mark.parametrize("missing", [0, 3])
def test_it_solves_the_stated_problem(model, missing):
    rng = np.random.default_rng(0)
    x = kernel(model, 2.0) @ np.where(rng.random(10) < 0.3, rng.exponential(size=10), 0.0)
    x += 0.02 * rng.standard_normal(10)
    x[:missing] = np.nan
    scales = (0.5, 1.0, 2.0, 4.0)
    found = model.locate([x], scales=scales, alpha=0.1)
    scale, sources, explained = by_another_solver(model, x, scales, 0.1)
    assert set(found["scale"]) == {scale}
    h = np.zeros(10)
    h[found["node"]] = found["strength"]
    np.testing.assert_allclose(h, sources, atol=1e-4)
    np.testing.assert_allclose(found["explained"], explained, atol=1e-4)
    assert found["strength"].is_monotonic_decreasing


@pytest.mark.parametrize("times", [0.2, 1.0, 2.0])
def test_heat_is_found_where_it_was_released_at_any_time(model, times):
    scale = times * model.scales_.max()
    found = model.locate(kernel(model, scale))
    first = found.groupby("signal").first()
    np.testing.assert_array_equal(first["node"], np.arange(10))
    np.testing.assert_allclose(first["scale"], scale, rtol=0.5)


def test_units_do_not_matter(model):
    X = kernel(model, 2.0)
    one, two = model.locate(X), model.locate(1e-200 * X)
    pd.testing.assert_frame_equal(one.drop(columns="strength"), two.drop(columns="strength"))
    np.testing.assert_allclose(1e-200 * one["strength"], two["strength"], rtol=1e-9)


def test_signals_without_heat_have_no_row(model):
    X = np.stack([np.zeros(10), np.full(10, np.nan), -kernel(model, 1.0)[3], kernel(model, 1.0)[3]])
    assert set(model.locate(X)["signal"]) == {3}
    signed = model.locate(X, positive=False)
    assert set(signed["signal"]) == {2, 3}
    assert signed.iloc[0]["strength"] < 0.0 < signed.iloc[-1]["strength"]


def test_names_of_signals_and_nodes_are_kept():
    graph = make_graph("er", 8, random_state=0, p=0.4)
    X, _ = make_heat_signals(graph, [2.0], 200, n_sources=8, random_state=0)
    names = [f"town {k}" for k in range(8)]
    model = HeatCovariance(fit_intercept=False).fit(pd.DataFrame(X, columns=names))
    signals = pd.DataFrame(kernel(model, 1.0)[[5]], index=["monday"], columns=names)
    first = model.locate(signals).iloc[0]
    assert (first["signal"], first["node"]) == ("monday", "town 5")


def test_heat_is_found_around_the_level_of_the_nodes():
    graph = make_graph("er", 8, random_state=0, p=0.4)
    X, _ = make_heat_signals(graph, [2.0], 200, n_sources=8, random_state=0)
    level = np.arange(8.0)
    one, two = (HeatCovariance().fit(Z) for Z in (X, X + level))
    signals = one.location_ + kernel(one, 1.0)
    np.testing.assert_array_equal(
        one.locate(signals).groupby("signal")["node"].first(),
        two.locate(signals + level).groupby("signal")["node"].first(),
    )


def test_large_graphs_give_the_same(model, monkeypatch):
    X = kernel(model, 2.0)[:4] + 0.5 * kernel(model, 2.0)[4:8]
    dense = model.locate(X)
    monkeypatch.setattr(sources, "MOST_DENSE", 5)
    large = model.locate(X)
    strong = large[large["strength"] > 1e-3 * large["strength"].max()].reset_index(drop=True)
    assert strong["node"].tolist() == dense["node"].tolist()
    np.testing.assert_allclose(strong["strength"], dense["strength"], rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"scales": ()}, "scales must be a sequence"),
        ({"scales": (-1.0, 2.0)}, "scales must be a sequence"),
        ({"scales": "all"}, "scales must be a sequence"),
        ({"alpha": 0.0}, "alpha must be"),
    ],
)
def test_what_cannot_be_is_told(model, given, told):
    with pytest.raises(ValueError, match=told):
        model.locate(np.ones((1, 10)), **given)
