"""ETEX: the fits, and the errors of what they predict; one call is one cell of a sweep."""

from __future__ import annotations

import warnings
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from heatgraph.arrays import Array, Mask
from heatgraph.datasets import PlacedSignals, great_circle_km, load_etex, neighbour_graph
from heatgraph.estimators import LearnHeat
from heatgraph.experiments.prediction import Missed, hide, in_parts, predict, units
from heatgraph.graph import Graph

TAU = 3.0  # held, as in the paper
ALPHAS, BETAS = (0.003, 0.02), (0.5, 2.0, 8.0)  # in the units of the signals
SHOWN = (0.01, 2.0)  # of the graph that is drawn, in the middle of these
N_NEIGHBOURS, N_CANDIDATES = 8, 12
N_FOLDS, N_PARTS = 5, 4
MAX_ITER = 200
# What a learned graph may depend on: missing as, candidates, start.
VARIANTS = {
    "missing as NaN, all pairs, random start": ("nan", "all", "random"),
    "missing as NaN, all pairs, geographic start": ("nan", "all", "geographic"),
    "missing as NaN, neighbours, random start": ("nan", "near", "random"),
    "missing as NaN, neighbours, geographic start": ("nan", "near", "geographic"),
    "missing as zero, all pairs, random start": ("zero", "all", "random"),
    "missing as zero, neighbours, geographic start": ("zero", "near", "geographic"),
}
FIXED = (
    "mean of the station",
    "mean of the stations near",
    "geographic graph, tau 3",
    "geographic graph, best tau",
)
TAUS = (0.3, 1.0, TAU)
PROTOCOLS = ("entries", "steps", "blocks")


@lru_cache(maxsize=2)
def whole(data_home: str | None) -> PlacedSignals:
    """All stations, NaN where nothing was measured."""
    return load_etex(data_home)


@lru_cache(maxsize=2)
def measured(data_home: str | None) -> tuple[Array, Array]:
    """Concentrations (M, N) and places (N, 2) of the stations that measured at all."""
    data = whole(data_home)
    there = data.signals.notna().any().to_numpy()
    return data.signals.to_numpy()[:, there], data.coordinates[there]


def fit(
    X: Array, alpha: float, beta: float, init: Any, candidates: Graph | None, seed: int
) -> LearnHeat:
    """The paper's problem with one scale, held."""
    model = LearnHeat(
        n_scales=1,
        scales=(TAU,),
        learn_scales=False,
        atoms="raw",
        alpha=alpha,
        beta=beta,
        init=init,
        candidates=candidates,
        max_iter=MAX_ITER,
        random_state=seed,
    )
    with warnings.catch_warnings():
        # The status is counted, and stations that never measured are named in the page.
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(X)


def choose(
    X: Array, init: Any, candidates: Graph | None, seed: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Penalties, alpha and beta, that predict best a fifth of the entries, hidden once more."""
    visible, hidden = hide(X, 0.2, rng)
    alpha_unit, beta_unit = units(X)
    best, chosen = np.inf, (np.nan, np.nan)
    for a, b in product(ALPHAS, BETAS):
        alpha, beta = a * alpha_unit, b * beta_unit
        L = fit(visible, alpha, beta, init, candidates, seed).laplacian_
        missed = Missed.of(predict(L, (TAU,), alpha, visible), X, hidden).share
        if missed < best:
            best, chosen = missed, (alpha, beta)
    return chosen


def learn(data_home: str | None, data: str, fold: int | None, seed: int) -> dict[str, Any]:
    """As the paper: all stations, all pairs, a random start; missing as zero.

    That the paper took missing values for zeros is inferred: it does not say what it did.

    With a fold, from the time steps outside it.  ``data`` is the digest of the signals.
    """
    X = np.nan_to_num(whole(data_home).signals.to_numpy())
    if fold is not None:
        X = X[np.arange(len(X)) % N_FOLDS != fold]
    alpha, beta = (share * unit for share, unit in zip(SHOWN, units(X), strict=True))
    model = fit(X, alpha, beta, "random", None, seed)
    weights = model.weights_
    return {
        "edges": weights.edges.tolist(),
        "weights": weights.weights.tolist(),
        "alpha": alpha,
        "beta": beta,
        "status": str(model.status_),
        "n_iter": model.n_iter_,
    }


def predict_split(
    data_home: str | None, data: str, protocol: str, fold: int, root: bool, seed: int
) -> dict[str, Any]:
    """What each method missed of one fold, a list of errors and of energies a method.

    ``protocol`` "entries": a fifth of all entries is hidden, and the graph is learned from the
    rest.  "steps": every fifth time step is held out; of these a quarter of the entries is hidden
    at a time, and the graph is learned from the other steps.  "blocks": the same, but the steps
    held out follow each other, so that the cloud has moved since the last one seen.
    ``data`` is the digest of the signals.
    """
    X, places = measured(data_home)
    Y = np.sqrt(X) if root else X
    rng = np.random.default_rng([seed, 2, fold])
    if protocol == "entries":
        every = np.random.default_rng([seed, 3])  # the same partition for every fold
        hidden = list(in_parts(~np.isnan(Y), N_FOLDS, every))[fold]
        train = np.where(hidden, np.nan, Y)
        tests = [(train, hidden)]
    else:
        step = np.arange(len(Y))
        out = (step % N_FOLDS if protocol == "steps" else step * N_FOLDS // len(Y)) == fold
        train = np.where(out[:, None], np.nan, Y)
        shown = ~np.isnan(Y) & out[:, None]
        tests = [(np.where(part, np.nan, Y), part) for part in in_parts(shown, N_PARTS, rng)]
    methods = _methods(train, places, seed, rng)
    results: dict[str, Any] = {}
    for name, method in methods.items():
        predicted = [method(shown, hidden) for shown, hidden in tests]
        for back in (False, True) if root else (False,):
            pairs = zip(predicted, tests, strict=True)
            parts = [_missed(values, Y, hidden, back) for values, (_, hidden) in pairs]
            total = sum(parts[1:], parts[0])
            key = f"{name} | squared back" if back else name
            results[key] = [total.error.tolist(), total.energy.tolist()]
    return results


def _missed(predicted: Array, Y: Array, hidden: Mask, back: bool) -> Missed:
    if back:
        predicted, Y = np.maximum(predicted, 0.0) ** 2, Y**2
    return Missed.of(predicted, Y, hidden)


def _methods(train: Array, places: Array, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    """Functions from (signals with hidden entries, what is hidden) to predictions."""
    geographic = neighbour_graph(places, N_NEIGHBOURS)
    near = neighbour_graph(places, N_CANDIDATES)
    Lg = geographic.laplacian().toarray()
    used = train[~np.isnan(train).all(axis=1)]
    mean = np.nan_to_num(np.nanmean(np.where(np.isnan(train).all(axis=0), 0.0, train), axis=0))
    alpha, beta = choose(used, geographic, near, seed, rng)
    held, free = (_best_geographic(used, Lg, taus, rng) for taus in ((TAU,), TAUS))
    methods: dict[str, Any] = {
        FIXED[0]: lambda X, hidden: np.broadcast_to(mean, X.shape),
        FIXED[1]: lambda X, hidden: _near_mean(X, places),
        FIXED[2]: lambda X, hidden: predict(Lg, (held[0],), held[1], X),
        FIXED[3]: lambda X, hidden: predict(Lg, (free[0],), free[1], X),
    }
    for name, (missing, pairs, start) in VARIANTS.items():
        zero = missing == "zero"
        shown = np.nan_to_num(used) if zero else used
        init = "random" if start == "random" else geographic
        L = fit(shown, alpha, beta, init, None if pairs == "all" else near, seed).laplacian_
        methods[name] = _on(L, alpha, zero)
    return methods


def _on(L: Array, alpha: float, zero: bool) -> Any:
    def method(X: Array, hidden: Mask) -> Array:
        # What is hidden for the test stays hidden; what was never measured is read as 0.
        shown = np.where(np.isnan(X) & ~hidden, 0.0, X) if zero else X
        return predict(L, (TAU,), alpha, shown)

    return method


def _best_geographic(
    X: Array, L: Array, taus: tuple[float, ...], rng: np.random.Generator
) -> tuple[float, float]:
    """The scale and alpha that predict best a fifth of the entries, hidden once more."""
    visible, hidden = hide(X, 0.2, rng)
    unit = units(X)[0]
    tried = {
        (tau, a * unit): Missed.of(predict(L, (tau,), a * unit, visible), X, hidden).share
        for tau in taus
        for a in ALPHAS
    }
    return min(tried, key=lambda pair: tried[pair])


def _near_mean(X: Array, places: Array, n: int = 4) -> Array:
    """For each entry, the mean of the nearest others that are visible, the nearer the heavier."""
    distance = great_circle_km(places)
    np.fill_diagonal(distance, np.inf)
    order = np.argsort(distance, axis=1)
    predicted = np.zeros(X.shape)
    for m, row in enumerate(X):
        for i in range(len(places)):
            others = order[i][~np.isnan(row[order[i]])]
            others = others[others != i][:n]
            if others.size:
                predicted[m, i] = np.average(row[others], weights=1.0 / distance[i, others])
    return predicted
