"""One fit of HeatCovariance: moments, choice of the strength, the fit itself, the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
import pandas as pd

from heatgraph.arrays import Array
from heatgraph.estimators.validation import node_means, over_square, power_of_two, unit_of
from heatgraph.models.gaussian import GaussianPoint, mean_variance
from heatgraph.models.moments import Moments, expected_moments, rescaled_log_likelihood
from heatgraph.models.observed import ObservedHeat
from heatgraph.selection.folds import N_FOLDS, Split, independent_share, is_ordered, make_folds
from heatgraph.selection.likelihood import PILOT, Fold, Strength, choose_strength, fit_at
from heatgraph.solvers.driver import NO_CHECKPOINT, Keeper, Record
from heatgraph.solvers.gaussian import GaussianFit, GaussianFitter, shrunk
from heatgraph.solvers.information import HEAVY
from heatgraph.solvers.result import Status

GIVEN_FEW = Strength(0.3, 2.0)  # where there are too few signals to hold any out
# What says which pairs are edges: the usual three standard errors, hardly shrunk.
EDGE_PENALTY = 3.0
EDGE_SHRINKAGE = (1e-3, 1e-2)  # with more signals than nodes, and with fewer
STILL = 1e-12  # of the mean variance: a fold whose signals vary less is left out
PILOT_ROUNDS = 5  # of EM, to begin with
PILOT_TOL, PILOT_STEPS = 1e-3, 10  # of the fit in each of them, which the next one changes anyway
LEAST_VARIANCE = 0.1  # of the mean one: what a node that was seen to vary less is given at first


@dataclass(frozen=True, eq=False)
class CovarianceSettings:
    """What a fit is asked to do; one shrinkage or one penalty is held, several are chosen from."""

    fitter: GaussianFitter
    rhos: tuple[float, ...]
    penalties: tuple[float, ...]
    fit_intercept: bool
    n_jobs: int = 1
    tried: Callable[[int, int], None] | None = None
    keeper: Keeper = NO_CHECKPOINT
    cv: Any = None
    groups: Any = None
    kernels: tuple[str, ...] = ("",)  # to choose from; the fitter's own where there is no name

    def with_kernel(self, strength: Strength) -> CovarianceSettings:
        """The same with the kernel that was chosen."""
        return replace(self, fitter=self.fitter.with_kernel(strength.kernel))

    def splits(self, X: Array) -> Sequence[Split]:
        """The signals (M, N) to fit and those held out, contiguous unless asked otherwise."""
        return make_folds(X, self.cv, self.groups).splits if len(X) > 1 else ()

    def location(self, moments: Moments) -> Array:
        return moments.mean if self.fit_intercept else np.zeros_like(moments.mean)


@dataclass(frozen=True, eq=False)
class CovarianceFit:
    """The fit, the one whose weights say what is an edge, and how strength was chosen."""

    fit: GaussianFit
    edges: GaussianFit
    strength: Strength
    selection: pd.DataFrame | None
    moments: Moments
    location: Array
    status: Status


@dataclass(frozen=True, eq=False)
class Measured:
    """Signals in units of ``unit``, in memory or as the moments of a few folds of them.

    ``rows`` is a matrix whose columns are as far apart as those of the signals;
    ``counting`` is what a signal counts for in tests of edges, at most 1; ``ordered`` says whether
    each signal resembles the one before.
    """

    content: Array | list[Moments]
    unit: float
    rows: Array
    node_means: Array
    counting: float = 1.0
    ordered: bool = False

    @classmethod
    def signals(cls, X: Array, fit_intercept: bool) -> Measured:
        """Of an array (M, N), NaN where nothing was observed."""
        means = node_means(X)
        unit = unit_of(X - means if fit_intercept else X)
        rows = X / unit
        return cls(rows, unit, rows, means, counting(rows), is_ordered(rows))

    @classmethod
    def moments(cls, parts: Sequence[Moments], fit_intercept: bool) -> Measured:
        """Of moments, in the units of the signals."""
        both = reduce(add, parts)
        level = 0.0 if fit_intercept else float(np.linalg.norm(both.mean))
        spread = float(np.sqrt(np.trace(both.scatter) / both.count))
        unit = power_of_two(float(np.hypot(spread, level) / np.sqrt(len(both.mean))))
        scaled = [Moments(p.count, p.mean / unit, over_square(p.scatter, unit)) for p in parts]
        lam, U = np.linalg.eigh(reduce(add, scaled).around(np.zeros_like(both.mean)))
        rows = np.sqrt(np.maximum(lam, 0.0))[:, None] * U.T
        return cls(scaled, unit, rows, both.mean)

    def fit(self, settings: CovarianceSettings, strength: Strength | None) -> CovarianceFit:
        """Fit them; without a strength that is chosen."""
        if isinstance(self.content, list):
            return fit_moments(settings, self.content, strength)
        return fit_rows(settings, self.content)


def counting(X: Array) -> float:
    """What one of the signals (M, N) counts for in tests of edges.

    The mean share of signals in which a pair of nodes was observed, 1 without NaN, times the share
    of them that are independent.
    """
    observed = (~np.isnan(X)).astype(np.float64)
    shares = observed.T @ observed / len(X)
    together = float(shares[np.triu_indices(len(shares), 1)].mean())
    return together * independent_share(X)


def fit_rows(settings: CovarianceSettings, X: Array) -> CovarianceFit:
    """Fit signals (M, N) in memory; NaN was not observed."""
    parts = np.array_split(X, min(N_FOLDS, len(X)))
    if not np.isnan(X).any():
        sums = [Moments.of(part) for part in parts]
        splits = settings.splits(X)
        halves = ((Moments.of(X[s.train]), Moments.of(X[s.test])) for s in splits)
        return fit_moments(settings, sums, halves=halves)
    strength, table, interrupted = _choose(settings, len(parts), lambda: _row_folds(settings, X))
    settings = settings.with_kernel(strength)
    location, C = _pilot(settings, X)
    fit, moments, likeliest = _fit_observed(settings, X, strength, location, C)
    return _finish(settings, strength, table, moments, fit, likeliest, interrupted)


def fit_moments(
    settings: CovarianceSettings,
    parts: Sequence[Moments],
    strength: Strength | None = None,
    halves: Iterable[tuple[Moments, Moments]] | None = None,
) -> CovarianceFit:
    """Fit the sum of moments, each of which is held out in turn where the strength is chosen.

    ``halves``, to fit and held out, are others to choose it by.
    """
    table, interrupted = None, False
    if strength is None:
        if halves is None:
            rest = ([*parts[:k], *parts[k + 1 :]] for k in range(len(parts)))
            halves = ((reduce(add, some), part) for some, part in zip(rest, parts, strict=True))
        strength, table, interrupted = _choose(
            settings, len(parts), partial(_usable, settings, halves)
        )
    settings = settings.with_kernel(strength)
    moments = reduce(add, parts)
    S = moments.around(settings.location(moments))
    likeliest = _likeliest(settings, S, moments.count)
    fit = _fit(settings, S, moments.count, strength, likeliest)
    return _finish(settings, strength, table, moments, fit, likeliest, interrupted)


def _choose(
    settings: CovarianceSettings, n_folds: int, folds: Callable[[], list[Fold]]
) -> tuple[Strength, pd.DataFrame | None, bool]:
    """The strength, what was tried for it, and whether the user stopped the search."""
    usual = settings.kernels[0]
    if len(settings.rhos) == len(settings.penalties) == len(settings.kernels) == 1:
        held = Strength(settings.rhos[0], settings.penalties[0], kernel=usual)
        return held, None, False
    usable = [] if n_folds < 2 else folds()
    if not usable:
        rho = min(settings.rhos, key=lambda rho: abs(rho - GIVEN_FEW.rho))
        c = min(settings.penalties, key=lambda c: abs(c - GIVEN_FEW.c))
        return Strength(rho, c, kernel=usual), None, False
    return choose_strength(
        settings.fitter,
        usable,
        settings.rhos,
        settings.penalties,
        kernels=settings.kernels,
        n_jobs=settings.n_jobs,
        report=settings.tried,
        keeper=settings.keeper.within("choice"),
    )


def _usable(settings: CovarianceSettings, halves: Iterable[tuple[Moments, Moments]]) -> list[Fold]:
    """Folds of what is fitted and what is held out, where both vary."""

    def vary(S: Array) -> bool:
        return bool(np.trace(S) > STILL * len(S))

    folds = [(_moment_fold(settings, train, test), test) for train, test in halves]
    return [fold for fold, test in folds if vary(fold.S) and vary(test.around(fold.location))]


def _moment_fold(settings: CovarianceSettings, train: Moments, test: Moments) -> Fold:
    def judge(point: GaussianPoint, location: Array) -> float:
        return point.rescaled_misfit(test.around(location))

    return Fold(train, judge, settings.fit_intercept)


def _row_folds(settings: CovarianceSettings, X: Array) -> list[Fold]:
    """Folds of signals with missing entries; the moments of one are those its pilot expects."""
    halves = [(X[split.test], X[split.train]) for split in settings.splits(X)]

    def usable(test: Array, rest: Array) -> bool:
        level = node_means(rest) if settings.fit_intercept else np.zeros(X.shape[1])
        return _varies(rest - level) and _varies(test - level)

    return [_row_fold(settings, test, rest) for test, rest in halves if usable(test, rest)]


def _row_fold(settings: CovarianceSettings, test: Array, rest: Array) -> Fold:
    def judge(point: GaussianPoint, location: Array) -> float:
        return -2.0 * rescaled_log_likelihood(test, location, point.covariance)

    train = expected_moments(rest, *_pilot(settings, rest))
    return Fold(train, judge, settings.fit_intercept)


def _varies(X: Array) -> bool:
    """Whether signals around their level, in units of their root mean square, exceed rounding."""
    return bool(np.nansum(np.square(X)) > STILL * np.isfinite(X).sum())


def _pilot(settings: CovarianceSettings, X: Array) -> tuple[Array, Array]:
    """Location and covariance to begin with: a few rounds of EM, well shrunk."""
    observed = ~np.isnan(X)
    count = np.maximum(observed.sum(axis=0), 1)
    mean = np.where(observed, X, 0.0).sum(axis=0) / count
    if not settings.fit_intercept:
        mean = np.zeros_like(mean)
    variance = np.where(observed, np.square(X - mean), 0.0).sum(axis=0) / count
    typical = float(variance.mean()) or 1.0
    C = np.diag(np.maximum(variance, LEAST_VARIANCE * typical))
    rough = replace(settings.fitter, tol=PILOT_TOL, max_iter=PILOT_STEPS, report=None)
    x = None
    for _ in range(PILOT_ROUNDS):
        moments = expected_moments(X, mean, C)
        mean = settings.location(moments)
        S = shrunk(moments.around(mean), PILOT)
        fit = rough.likeliest(S, rough.start(S, moments.count) if x is None else x)
        if fit.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        x, C = fit.x, fit.point.covariance
    return mean, C


def _likeliest(settings: CovarianceSettings, S: Array, n_signals: float) -> GaussianFit:
    """The point that fits go on from: the likeliest one of a well shrunk moment.

    Fitted well, although it is only a start: penalised fits from a rough one end higher.
    """
    keeper = settings.keeper.within("fit")
    kept = keeper.get()
    pilot = shrunk(S, PILOT)
    if kept is not None:
        return settings.fitter.at(pilot, kept.arrays["likeliest"])
    fitter = settings.fitter
    likeliest = fitter.likeliest(pilot, fitter.start(pilot, n_signals))
    if likeliest.status is not Status.INTERRUPTED:
        keeper.put(Record(arrays={"likeliest": likeliest.x}))
    return likeliest


def _fit(
    settings: CovarianceSettings,
    S: Array,
    n_signals: float,
    strength: Strength,
    likeliest: GaussianFit,
) -> GaussianFit:
    """The fit at a strength, from the likeliest one."""
    if likeliest.status is Status.INTERRUPTED:
        return likeliest
    return fit_at(settings.fitter, shrunk(S, strength.rho), n_signals, strength, likeliest)


def _fit_observed(
    settings: CovarianceSettings, X: Array, strength: Strength, location: Array, C: Array
) -> tuple[GaussianFit, Moments, GaussianFit]:
    """Fit what is expected of the missing entries, then the likelihood of what was observed.

    The penalty, or the edges of a relaxed fit, are those of the former.  The last value is the
    point that the fits went on from.
    """
    moments = expected_moments(X, location, C)
    S = moments.around(settings.location(moments))
    likeliest = _likeliest(settings, S, moments.count)
    fit = _fit(settings, S, moments.count, strength, likeliest)
    if fit.status is Status.INTERRUPTED:
        return fit, moments, likeliest
    level = settings.location(moments)
    target = mean_variance(S)
    problem = ObservedHeat(
        fit.point.problem, X, strength.rho, target, level, settings.fit_intercept
    )
    fit, level = settings.fitter.observed(problem, fit)
    return fit, expected_moments(X, level, fit.point.covariance), likeliest


def _finish(
    settings: CovarianceSettings,
    strength: Strength,
    table: pd.DataFrame | None,
    moments: Moments,
    fit: GaussianFit,
    likeliest: GaussianFit,
    interrupted: bool,
) -> CovarianceFit:
    """The fit that says what is an edge, and everything together."""
    location = settings.location(moments)
    status = Status.INTERRUPTED if interrupted else fit.status
    found: dict[str, Any] = {
        "strength": strength,
        "selection": table,
        "moments": moments,
        "location": location,
    }
    if status is Status.INTERRUPTED:
        return CovarianceFit(fit, fit, status=status, **found)
    few = moments.count <= settings.fitter.candidates.n_nodes
    looser = replace(
        strength, rho=EDGE_SHRINKAGE[few], c=max(strength.c, EDGE_PENALTY), relaxed=False
    )
    edges = fit
    if looser != strength:
        S = moments.around(location)
        edges = _edge_fit(settings, S, moments.count, looser, likeliest, fit)
        if edges.status is Status.INTERRUPTED:
            edges, status = fit, edges.status
    return CovarianceFit(fit, edges, status=status, **found)


def _edge_fit(
    settings: CovarianceSettings,
    S: Array,
    n_signals: float,
    strength: Strength,
    likeliest: GaussianFit,
    fit: GaussianFit,
) -> GaussianFit:
    """The fit that says what is an edge.

    The penalty is not convex.  Rarely the usual start leads to an optimum in which two nodes are
    nearly one, joined by an edge beside which all others are light; then the fit that predicts is
    gone on from, if that has none.
    """
    quiet = replace(settings, fitter=replace(settings.fitter, report=None))
    usual = _fit(quiet, S, n_signals, strength, likeliest)
    if usual.status is Status.INTERRUPTED or not usual.point.w.max(initial=0.0) > HEAVY:
        return usual
    on_edges = replace(quiet.fitter, candidates=fit.point.problem.candidates)
    other = on_edges.sparse(shrunk(S, strength.rho), n_signals, strength.c, fit)
    stopped = other.status is Status.INTERRUPTED
    return usual if stopped or other.point.w.max(initial=0.0) > HEAVY else other
