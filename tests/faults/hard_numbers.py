"""Fit signals that are hard on arithmetic, and count how the fits end.

    python tests/faults/hard_numbers.py [--examples 20000] [--seconds 60] [--seed 0]

A fit ends with a valid model, finite everywhere, or with a ValueError that names what is wrong.
Every example is fitted by two estimators, and one in ON_DASK by both on a Dask cluster too.  The
examples are those of the seeds from ``--seed`` on; the run ends after as many as asked, or when
its time is up.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np

KINDS = (
    "ill-conditioned",
    "duplicated",
    "constant",
    "one signal",
    "few signals",
    "extreme",
    "gaps",
)
ON_DASK = 20  # a fit there takes ten times as long
CHOOSING = 16  # one example in so many lets HeatCovariance choose, which takes five times as long
LARGER = 0.1  # the share of examples of more than four nodes, besides the kind of few signals
STEPS = (3, 6, 15)  # limits on the iterations: fits end in the middle too


def hard_signals(kind: str, rng: np.random.Generator) -> Any:
    largest = 8 if rng.random() < LARGER else 4
    n, m = int(rng.integers(2, largest + 1)), int(rng.integers(2, 30))
    X = rng.normal(size=(m, n))
    if kind == "ill-conditioned":
        U, _ = np.linalg.qr(rng.normal(size=(n, n)))
        X = rng.normal(size=(4 * n, n)) * np.geomspace(1.0, 1e-8, n) @ U
    elif kind == "duplicated":
        X = X[:, rng.integers(0, n, n + 1)]
    elif kind == "constant":
        X[:, : n // 2] = rng.normal()
    elif kind == "one signal":
        X = X[:1]
    elif kind == "few signals":
        X = rng.normal(size=(1, 12)) if rng.random() < 0.8 else rng.normal(size=(2, 24))
    elif kind == "extreme":
        X = X * 10.0 ** rng.integers(-150, 151, size=(1, n) if rng.random() < 0.5 else (1, 1))
    else:
        X[rng.random(X.shape) < 0.6] = np.nan
    return X * 10.0 ** int(rng.integers(-3, 4))


def models(seed: int, n_signals: int, rng: np.random.Generator) -> list[Any]:
    """Both estimators; one signal is its own mean, so that a level is seldom learned from it."""
    from heatgraph import HeatCovariance, LearnHeat

    level = bool(rng.random() < (0.5 if n_signals > 1 else 0.1))
    n_scales, max_iter = int(rng.integers(1, 3)), int(rng.choice(STEPS))
    penalty, shrinkage = float(rng.choice([0.0, 0.1, 3.0])), float(rng.choice([0.0, 1e-3, 0.3]))
    chosen = {} if seed % CHOOSING == 0 else {"penalty": penalty, "shrinkage": shrinkage}
    alpha, beta = 10.0 ** rng.uniform(-4, 1), 10.0 ** rng.uniform(-2, 2)
    common: dict[str, Any] = {"max_iter": max_iter, "fit_intercept": level, "n_scales": n_scales}
    return [HeatCovariance(**common, **chosen), LearnHeat(alpha=alpha, beta=beta, **common)]


def check(model: Any, X: Any, told: list[str]) -> None:
    L = np.asarray(model.laplacian_)
    assert np.isfinite(L).all(), "laplacian_ is not finite"
    assert np.array_equal(L, L.T), "laplacian_ is not symmetric"
    assert (L - np.diag(np.diag(L)) <= 0.0).all(), "laplacian_ has a negative weight"
    assert np.abs(L.sum(axis=1)).max() <= 1e-9 * max(1.0, np.abs(L).max()), "rows do not sum to 0"
    for name in FINITE:
        value = getattr(model, name, None)
        assert value is None or np.isfinite(np.asarray(value)).all(), f"{name} is not finite"
    for name in ("scales_", "noise_variance_", "source_variances_"):
        assert np.min(getattr(model, name, 0.0)) >= 0.0, f"{name} is negative"
    check_covariance(model)
    same = {c.tobytes() for c in X.T if len(np.unique(c[~np.isnan(c)])) > 2}
    several = sum(len(np.unique(c[~np.isnan(c)])) > 2 for c in X.T)
    if len(same) < several:
        assert any("the same signals" in text for text in told), "duplicated nodes are not told"


FINITE = (
    "covariance_", "precision_", "second_moment_", "noise_variance_", "source_variances_",
    "scales_", "location_", "node_means_", "sources_", "objective_", "residual_",
)  # fmt: skip


def check_covariance(model: Any) -> None:
    """Symmetric, and no direction has a negative variance beyond rounding."""
    if not hasattr(model, "covariance_"):
        return
    C = np.asarray(model.covariance_)
    assert np.array_equal(C, C.T), "covariance_ is not symmetric"
    largest = np.abs(C).max()
    assert largest > 0.0, "covariance_ is zero"
    assert np.linalg.eigvalsh(C / largest).min() >= -1e-12, "covariance_ has a negative eigenvalue"


def fit(model: Any, X: Any, given: Any) -> str:
    """How the fit of signals ``X`` ends, given as an array or as a collection."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(given)
        except ValueError as error:
            if not any(word in str(error) for word in ("X", "sample", "signal")):
                raise
            return "refused"
    check(model, X, [str(warning.message) for warning in caught])
    return "fitted"


def one(seed: int, dask: bool = False) -> tuple[str, str]:
    """How the fits of one example end."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    X = hard_signals(kind, rng)
    asked = models(seed, len(X), rng)
    if dask:
        import dask.array as da

        given = da.from_array(X, chunks=(max(1, len(X) // 2), X.shape[1]))
        asked[1].set_params(fit_intercept=False)  # signals in memory only
        return f"{kind}, Dask", " ".join(fit(model, X, given) for model in asked)
    return kind, " ".join(fit(model, X, X) for model in asked)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    from distributed import Client

    logging.getLogger("distributed.worker").setLevel(logging.CRITICAL)  # errors come here anyway
    Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None)
    count, ends, failed = run(asked.seed, asked.examples, asked.seconds)
    for how, number in sorted(ends.items()):
        print(f"{number:6}  {how}")
    n_dask = sum(n for how, n in ends.items() if ", Dask" in how)
    print(f"{count} examples, {n_dask} on Dask too, by two estimators; {len(failed)} findings")
    from results import record_section

    numbers = {"examples": count, "on_dask": n_dask, "seed": asked.seed, "findings": failed}
    record_section("numbers", {**numbers, "ends": dict(sorted(ends.items()))})
    if failed:
        sys.exit(1)


def run(first: int, examples: int, seconds: float) -> tuple[int, Counter[str], list[str]]:
    """The number of examples tried, how they ended, and the findings."""
    ends: Counter[str] = Counter()
    failed: list[str] = []
    began = time.monotonic()
    for seed in range(first, first + examples):
        if time.monotonic() - began > seconds:
            return seed - first, ends, failed
        try:
            for dask in (False, True) if seed % ON_DASK == 0 else (False,):
                kind, how = one(seed, dask)
                ends[f"{kind}: {how}"] += 1
        except Exception as error:
            kind = KINDS[seed % len(KINDS)]
            failed.append(f"seed {seed}, {kind}: {type(error).__name__} {error}")
            print(failed[-1], flush=True)
        if (seed + 1) % 1000 == 0:
            print(f"seed {seed}, {time.monotonic() - began:.0f} s", flush=True)
    return examples, ends, failed


if __name__ == "__main__":
    main()
