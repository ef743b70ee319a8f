"""Scales and alpha of sources on a fixed graph, chosen by masked prediction of a few signals.

A quarter of the entries of a sample of signals is hidden.  Their sources are found from the
others, and predict them.  Alpha first, at usual scales; then how far apart the scales are; then a
stretch of them; then the largest alpha that predicts as well, within one standard error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from heatgraph.arrays import Array
from heatgraph.models.heat import Signals
from heatgraph.models.sparse_heat import SparseDictionary
from heatgraph.selection.masked_prediction import HIDDEN_SHARE, hide_entries, share_missed
from heatgraph.solvers.driver import Record
from heatgraph.solvers.lasso import LargeLasso

Report = Callable[[int, int], None]  # how many were tried, and of how many at most

SAMPLE = 32  # signals
TOL = 1e-3  # duality gap of their sources, over their energy
# Alphas that are tried, over the typical trace of one source, from the fourth on.
SHARES = (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8)
FIRST = 3  # of them: the search goes on to either side
SPREADS = (1.1, 1.3, 1.7)  # of several scales: the largest over that of the covariance
USUAL_SPREAD = 1.3  # where none is chosen, the middle one
STRETCHES = (0.8, 1.0, 1.25)  # of the scale that the covariance shows
MOST_TRIED = len(SHARES) + len(SPREADS) + len(STRETCHES)


@dataclass(frozen=True, eq=False)
class SourceChoice:
    """What was chosen.  Hidden entries are predicted best by ``predicting`` times alpha.

    ``missed`` is the share of the hidden energy that this does not predict.
    ``alphas`` and ``scales`` are tables of what was tried, or None where nothing was.
    """

    alpha: float
    tau: Array
    predicting: float = 1.0
    missed: float = float("nan")
    standard_error: float = 0.0
    alphas: pd.DataFrame | None = None
    scales: pd.DataFrame | None = None
    ends: tuple[str, ...] = ()

    def record(self) -> Record:
        """For a checkpoint."""
        facts: dict[str, Any] = {"alpha": self.alpha, "predicting": self.predicting}
        facts |= {"missed": repr(self.missed), "standard_error": self.standard_error}
        facts["ends"] = list(self.ends)
        arrays = {"tau": self.tau}
        for name, table in (("alphas", self.alphas), ("scales", self.scales)):
            if table is not None:
                facts[name] = list(table.columns)
                arrays[name] = table.to_numpy(dtype=np.float64)
        return Record(facts, arrays)

    @classmethod
    def of(cls, record: Record) -> SourceChoice:
        facts, arrays = record.facts, record.arrays
        tables = {
            name: pd.DataFrame(arrays[name], columns=facts[name])
            for name in ("alphas", "scales")
            if name in arrays
        }
        return cls(
            facts["alpha"],
            arrays["tau"],
            facts["predicting"],
            float(facts["missed"]),
            facts["standard_error"],
            ends=tuple(facts["ends"]),
            **tables,
        )


def scales_around(
    scale: float, n: int, spread: float = USUAL_SPREAD, stretch: float = 1.0
) -> Array:
    """``n`` scales whose geometric mean is ``stretch * scale``."""
    apart = np.geomspace(1.0 / spread, spread, n) if n > 1 else np.ones(1)
    return stretch * scale * apart


@dataclass(frozen=True, eq=False)
class SourceProblem:
    """Signals on a graph, with alpha and the scales where they are given.

    ``scale`` is that of a covariance with one scale; ``others`` are scales to try as well.
    """

    dictionary: Callable[[Array], SparseDictionary]
    signals: Signals
    scale: float
    n_scales: int
    penalty: str
    positive: bool = False
    alpha: float | None = None
    tau: Array | None = None
    others: tuple[Array, ...] = ()

    @property
    def sample(self) -> Signals:
        """Some signals, evenly apart."""
        M = self.signals.X.shape[1]
        return self.signals.take(np.unique(np.linspace(0, M - 1, min(M, SAMPLE)).astype(np.intp)))

    def usual(self) -> SourceChoice:
        """Where the search starts: what is given, and usual values for the rest."""
        tau = scales_around(self.scale, self.n_scales) if self.tau is None else self.tau
        if self.alpha is not None:
            return SourceChoice(self.alpha, tau)
        return SourceChoice(SHARES[FIRST] * self._typical_trace(tau), tau)

    def _typical_trace(self, tau: Array) -> float:
        """The size of one source in a signal: the median of ``max_j |d_j . x| / ||d_j||``.

        Unlike the norm of a signal it does not grow with the number of sources.
        """
        D = self.dictionary(tau)
        q = np.abs(D.correlations(np.ascontiguousarray(self.sample.X.T)))
        largest = np.max(q / D.omega, axis=1)
        return float(np.median(largest[largest > 0.0])) if largest.any() else 1.0


@dataclass(eq=False)
class _Search:
    """What was tried on the hidden entries of some signals."""

    problem: SourceProblem
    rng: np.random.Generator
    report: Report | None
    errors: dict[tuple[float, tuple[float, ...]], Array] = field(default_factory=dict)
    rows: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.part = hide_entries(self.problem.sample, HIDDEN_SHARE, self.rng)
        self.at: tuple[tuple[float, ...], SparseDictionary] | None = None

    def on(self, tau: Array) -> SparseDictionary:
        """The dictionary of scales; the last one is kept."""
        key = tuple(tau.tolist())
        if self.at is None or self.at[0] != key:
            self.at = key, self.problem.dictionary(tau)
        return self.at[1]

    def missed(self, alpha: float, tau: Array, stretch: float = 1.0) -> float:
        """The share of the hidden energy that is not predicted."""
        key = alpha, tuple(tau.tolist())
        if key not in self.errors:
            D = self.on(tau)
            penalty, positive = self.problem.penalty, self.problem.positive
            coding = LargeLasso(D, alpha, penalty, positive, TOL).code(self.part.visible)
            predicted = D.synthesis(coding.h.toarray()).T
            self.errors[key] = errors = self.part.errors(predicted)
            share, spread = share_missed(errors, self.part.energy)
            self.rows.append(
                {"n_scales": tau.size, "alpha": alpha, "beta": 0.0, "coding": 1.0}
                | {"missed": share, "standard_error": spread}
                | {f"scale{k}": float(t) for k, t in enumerate(tau, start=1)}
                | {"stretch": stretch}
            )
            if self.report is not None:
                self.report(len(self.rows), MOST_TRIED)
        return share_missed(self.errors[key], self.part.energy)[0]

    def table(self) -> pd.DataFrame:
        return pd.DataFrame(self.rows)

    def is_as_good(self, alpha: float, best: float, tau: Array) -> bool:
        """Whether one alpha predicts as well as the best, within its standard error."""
        return self.missed(alpha, tau) <= self.missed(best, tau) + self.standard_error(best, tau)

    def standard_error(self, alpha: float, tau: Array) -> float:
        """Of the share that was missed, over the signals."""
        return share_missed(self.errors[alpha, tuple(tau.tolist())], self.part.energy)[1]

    def descend(self, alphas: Array, first: int, tau: Array) -> int:
        """From one alpha to its neighbours, as long as they predict better."""
        best = first
        for step in (1, -1):
            while 0 <= best + step < alphas.size and self.missed(
                alphas[best + step], tau
            ) < self.missed(alphas[best], tau):
                best += step
            if best != first:
                break
        return best


def choose_sources(
    problem: SourceProblem, rng: np.random.Generator, report: Report | None = None
) -> SourceChoice:
    """Choose alpha and the scales, unless they are given."""
    first = problem.usual()
    if problem.alpha is not None and problem.tau is not None:
        return first
    search, at = _Search(problem, rng, report), first.tau
    alphas, best = np.array([first.alpha]), 0
    if problem.alpha is None:
        alphas, best = first.alpha / SHARES[FIRST] * np.array(SHARES), FIRST
    best = search.descend(alphas, best, at)
    scales = None
    if problem.tau is None:
        at, scales = _choose_scales(search, float(alphas[best]))
    # The sparsest of those that predict as well as the best.
    sparsest = best
    for larger in range(best + 1, alphas.size):
        if not search.is_as_good(alphas[larger], alphas[best], at):
            break
        sparsest = larger
    ends: tuple[str, ...] = ()
    if alphas.size > 1 and best in (0, alphas.size - 1):
        ends = ("smallest alpha" if best == 0 else "largest alpha",)
    return SourceChoice(
        float(alphas[sparsest]),
        at,
        float(alphas[best] / alphas[sparsest]) if alphas[sparsest] > 0.0 else 1.0,
        search.missed(alphas[best], at),
        search.standard_error(alphas[best], at),
        search.table().drop(columns=["coding", "stretch"]) if problem.alpha is None else None,
        scales,
        ends,
    )


def _choose_scales(search: _Search, alpha: float) -> tuple[Array, pd.DataFrame]:
    """How far apart they are, then a stretch of all; or others, if they predict better."""
    scale, n_scales = search.problem.scale, search.problem.n_scales

    def missed(pair: tuple[float, float]) -> float:
        return search.missed(alpha, scales_around(scale, n_scales, *pair), pair[1])

    spread = USUAL_SPREAD
    if n_scales > 1:
        spread, _ = min(((spread, 1.0) for spread in SPREADS), key=missed)
    best = min(((spread, stretch) for stretch in STRETCHES), key=missed)
    tried = [scales_around(scale, n_scales, *best), *search.problem.others]
    found = min(tried, key=lambda tau: search.missed(alpha, tau))
    table = search.table()
    return found, table[table["alpha"] == alpha].drop(columns=["n_scales"])
