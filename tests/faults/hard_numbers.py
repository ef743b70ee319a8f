"""Fit signals that are hard on arithmetic, and count how the fits end.

    python tests/faults/hard_numbers.py [--seconds 60] [--seed 0]

A fit ends with a valid model, finite everywhere, or with a ValueError that names what is wrong.
Every example is fitted by two estimators, and one in ON_DASK by both on a Dask cluster too.
"""

from __future__ import annotations

import argparse
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


ON_DASK = 10  # a fit there takes ten times as long


def hard_signals(kind: str, rng: np.random.Generator) -> Any:
    n, m = int(rng.integers(2, 9)), int(rng.integers(2, 30))
    X = rng.normal(size=(m, n))
    if kind == "ill-conditioned":
        U, _ = np.linalg.qr(rng.normal(size=(n, n)))
        X = rng.normal(size=(10 * n, n)) * np.geomspace(1.0, 1e-8, n) @ U
    elif kind == "duplicated":
        X = X[:, rng.integers(0, n, n + 1)]
    elif kind == "constant":
        X[:, : n // 2] = rng.normal()
    elif kind == "one signal":
        X = X[:1]
    elif kind == "few signals":
        X = rng.normal(size=(int(rng.integers(1, 3)), 24))
    elif kind == "extreme":
        X = X * 10.0 ** rng.integers(-150, 151, size=(1, n) if rng.random() < 0.5 else (1, 1))
    else:
        X[rng.random(X.shape) < 0.6] = np.nan
    return X * 10.0 ** int(rng.integers(-3, 4))


def models(rng: np.random.Generator) -> list[Any]:
    from heatgraph import HeatCovariance, LearnHeat

    flag = bool(rng.integers(2))
    return [
        HeatCovariance(max_iter=30, fit_intercept=flag, penalty=float(rng.choice([0.0, 0.1]))),
        LearnHeat(n_scales=1, alpha=0.1, beta=1.0, max_iter=20, fit_intercept=flag),
    ]


def check(model: Any, X: Any, told: list[str]) -> None:
    L = np.asarray(model.laplacian_)
    assert np.isfinite(L).all(), "laplacian_ is not finite"
    assert np.array_equal(L, L.T), "laplacian_ is not symmetric"
    assert np.abs(L.sum(axis=1)).max() <= 1e-9 * max(1.0, np.abs(L).max()), "rows do not sum to 0"
    for name in ("covariance_", "precision_", "scales_", "location_", "node_means_", "sources_"):
        value = getattr(model, name, None)
        assert value is None or np.isfinite(np.asarray(value)).all(), f"{name} is not finite"
    same = {c.tobytes() for c in X.T if len(np.unique(c[~np.isnan(c)])) > 2}
    several = sum(len(np.unique(c[~np.isnan(c)])) > 2 for c in X.T)
    if len(same) < several:
        assert any("the same signals" in text for text in told), "duplicated nodes are not told"


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
    asked = models(rng)
    if dask:
        import dask.array as da

        given = da.from_array(X, chunks=(max(1, len(X) // 2), X.shape[1]))
        asked[1].set_params(fit_intercept=False)  # signals in memory only
        return f"{kind}, Dask", " ".join(fit(model, X, given) for model in asked)
    return kind, " ".join(fit(model, X, X) for model in asked)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    ends: Counter[str] = Counter()
    failed: list[str] = []
    from distributed import Client

    Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0")
    began, seed = time.monotonic(), asked.seed
    while time.monotonic() - began < asked.seconds:
        try:
            for dask in (False, True) if seed % ON_DASK == 0 else (False,):
                kind, how = one(seed, dask)
                ends[f"{kind}: {how}"] += 1
        except Exception as error:
            failed.append(
                f"seed {seed}, {KINDS[seed % len(KINDS)]}: {type(error).__name__} {error}"
            )
            print(failed[-1], flush=True)
        seed += 1
    for how, count in sorted(ends.items()):
        print(f"{count:6}  {how}")
    n_dask = sum(n for how, n in ends.items() if ", Dask" in how)
    tried = f"{seed - asked.seed} examples, {n_dask} on Dask too, each by two estimators"
    print(f"{tried}; {len(failed)} findings")
    if failed:
        sys.exit(1)
    from results import record_section

    numbers = {
        "examples": seed - asked.seed,
        "on_dask": n_dask,
        "seed": asked.seed,
        "ends": dict(sorted(ends.items())),
    }
    record_section("numbers", numbers)


if __name__ == "__main__":
    main()
