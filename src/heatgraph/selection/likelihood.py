"""How likely held-out signals are, and the choice of shrinkage and penalty by that.

For sparse sources, :func:`surprise` judges by the covariance that a graph and scales imply.
Sources that are independent, of variance ``v r_s`` at scale ``s``, and noise of variance ``sigma2``
make signals whose covariance has the eigenvectors of the Laplacian and the eigenvalues::

    f(lam) = v sum_s r_s g(tau_s, lam)^2 + sigma2,    g(tau, lam) = exp(-tau lam) for heat,

whatever the distribution of the sources, few of which may differ from zero.  So the Gaussian
likelihood with this covariance is largest, in expectation, at the true graph and scales.  The
prediction of hidden entries from sparse sources is not: it favours scales that are too long, since
the most likely sources are rougher than sources are in the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from heatgraph.arrays import Array
from heatgraph.models.gaussian import GaussianPoint
from heatgraph.models.heat import Dictionary, Signals
from heatgraph.models.moments import Moments, gap_patterns
from heatgraph.solvers.driver import NO_CHECKPOINT, Keeper, Record
from heatgraph.solvers.gaussian import GaussianFit, GaussianFitter, shrunk
from heatgraph.solvers.result import Status

MOST_UPDATES = 2000  # of the variances
STEADY = 1e-9  # relative change of every variance in an update: more change the likelihood no more
LEAST = 1e-6  # of the mean variance: what v and sigma2 are at least


def surprise(D: Dictionary, signals: Signals, shares: Array) -> Array:
    """Minus twice the log-likelihood of each signal, up to a constant, (M,).

    ``shares`` (S,) are the ``r_s`` above, of sum 1; ``v`` and ``sigma2`` are those that make these
    signals, or what was observed of them, most likely.
    """
    U = D.kernel.U
    A = np.vstack([shares @ np.square(D.decay), np.ones(len(U))])
    v = fit_variances(A, _power(U, signals))
    if signals.observed is None:
        f = v @ A
        return np.log(f).sum() + (np.square(U.T @ signals.X) / f[:, None]).sum(axis=0)
    parts = np.einsum("in,kn,jn->kij", U, A, U)
    if signals.total_energy > 0.0:
        v = _fit_observed_variances(parts, signals, v)
    return _observed_surprise(np.tensordot(v, parts, 1), signals)[0]


def _observed_surprise(C: Array, signals: Signals) -> tuple[Array, Array]:
    """``log det C_oo + x_o^T C_oo^-1 x_o`` of each signal, (M,), and the slope of their sum in C.

    ``o`` are the nodes at which the signal was observed.
    """
    assert signals.observed is not None  # for the type checker: the caller has looked
    X = np.where(signals.observed, signals.X, np.nan).T
    found, slope = np.zeros(len(X)), np.zeros_like(C)
    for rows, _, o in gap_patterns(X):
        x, both = X[np.ix_(rows, o)], np.ix_(o, o)
        factor = cho_factor(C[both], lower=True)
        inverse = cho_solve(factor, np.eye(o.size))
        white = x @ inverse
        found[rows] = 2.0 * np.log(np.diag(factor[0])).sum() + (x * white).sum(axis=1)
        slope[both] += rows.size * inverse - white.T @ white
    return found, slope


def _fit_observed_variances(parts: Array, signals: Signals, start: Array) -> Array:
    """The ``v`` (K,) under which what was observed is likeliest, ``C = sum_k v_k parts_k``."""
    mean = signals.total_energy / float(signals.n_observed.sum())

    def unlikely(logs: Array) -> tuple[float, Array]:
        v = np.exp(logs)
        each, slope = _observed_surprise(np.tensordot(v, parts, 1), signals)
        return float(each.mean()), v * np.einsum("kij,ij->k", parts, slope) / each.size

    low, high = np.log(LEAST * mean), np.log(mean / LEAST)
    x, bounds = np.clip(np.log(start), low, high), [(low, high)] * start.size
    tight = {"ftol": 1e-10, "gtol": 1e-6}
    found = minimize(unlikely, x, jac=True, method="L-BFGS-B", bounds=bounds, options=tight)
    best: Array = np.exp(found.x)
    return best


def fit_variances(A: Array, q: Array) -> Array:
    """Minimise ``sum_i log f_i + q_i / f_i``, ``f = v A``, over ``v >= 0`` (K,), ``A`` (K, N).

    By multiplicative updates (those of Itakura and Saito's distance): every ``v_k`` is multiplied
    with the ratio of the two parts of its derivative.
    """
    mean = float(q.mean())
    if not mean > 0.0:
        return np.ones(len(A))
    v = np.full(len(A), mean)
    for _ in range(MOST_UPDATES):
        f, before = v @ A, v
        v = np.maximum(v * (A @ (q / np.square(f))) / (A @ (1.0 / f)), LEAST * mean)
        if (np.abs(v - before) <= STEADY * before).all():
            break
    return v


def _power(U: Array, signals: Signals) -> Array:
    """The mean square of the signals along each eigenvector, (N,).

    With missing entries, of the second moment of every two nodes where both were observed: about
    what the mean square of complete signals would be.
    """
    if signals.observed is None:
        return np.square(U.T @ signals.X).mean(axis=1)
    seen = signals.observed.astype(np.float64)
    S = signals.X @ signals.X.T / np.maximum(seen @ seen.T, 1.0)
    floor = LEAST * float(np.trace(S)) / len(U)
    between: Array = np.einsum("in,ij,jn->n", U, S, U)
    return np.maximum(between, floor)


Report = Callable[[int, int], None]

# In descending order.  The last is almost none.
SHRINKAGES = (0.6, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-6)
PENALTIES = (0.0, 1.0, 2.0, 3.0, 4.0)  # standard errors
PILOT = 0.1  # the shrinkage of the likeliest fit that all others start from
# With no more signals than nodes their moment is singular and bounds the likelihood only by what
# is added to it.  Held-out signals, which are as few, do not tell fits with less than this apart,
# although one of them may predict several times worse than another.
LEAST_WITH_FEW = 1e-3
MIDDLE = 2.0  # the penalty at which shrinkages are tried first
FIRST = 0.3  # the shrinkage that they are tried from
RELAXED = 3.0  # the penalty of the relaxed fit, which is always tried
PATIENCE = 1  # a path of shrinkages ends after so many that were worse than the best
ROUGH = 3e-3  # nats per node: to tell strengths apart, fits need not be better than this
ROUGH_ITER = 60  # steps of a rough fit, at the most
EXPECTED = 9  # strengths that a search tries, about: for the progress bar


@dataclass(frozen=True, order=True)
class Strength:
    """How much a fit is held back: ``rho`` of shrinkage, a penalty of ``c`` standard errors.

    ``relaxed`` fits go without the penalty in the end, on the edges that it kept.  ``kernel`` is
    the name of one, where it is chosen too; else it is the fitter's.
    """

    rho: float
    c: float
    relaxed: bool = False
    kernel: str = ""


@dataclass(frozen=True, eq=False)
class Fold:
    """Signals to fit, and those that are held out to judge the fit by.

    ``judge`` gives minus twice the mean log-likelihood of the latter, up to a constant, with the
    covariance in the scale that fits them best.  A model is to say how signals hang together;
    how large those of a stretch of time are differs from the others where tails are heavy or
    signals few, and would drown everything else.
    """

    train: Moments
    judge: Callable[[GaussianPoint, Array], float]
    fit_intercept: bool = True

    @property
    def location(self) -> Array:
        return self.train.mean if self.fit_intercept else np.zeros_like(self.train.mean)

    @property
    def S(self) -> Array:
        return self.train.around(self.location)


@dataclass(eq=False)
class _Scores:
    """Scores of strengths on every fold; a fit starts from that at a strength nearby."""

    fitter: GaussianFitter
    folds: Sequence[Fold]
    n_jobs: int
    report: Report | None
    keeper: Keeper
    scores: dict[Strength, Array] = field(default_factory=dict)
    points: dict[Strength, Array] = field(default_factory=dict)

    def _pilots(self, kernel: str) -> Array:
        """The likeliest points of the folds, well shrunk, (folds, parameters)."""
        stage = self.keeper.within(f"pilots {kernel}")
        kept = stage.get()
        if kept is None:
            known = [x for s, x in self.points.items() if not s.relaxed and s.kernel != kernel]
            starts = known[-1] if known else [None] * len(self.folds)
            found = self._on_folds(_pilot, kernel, [(start,) for start in starts])
            kept = Record(arrays={"x": np.array(found)})
            stage.put(kept)
        return kept.arrays["x"]

    def _on_folds(
        self, work: Callable[..., Any], kernel: str, more: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        run = Parallel(n_jobs=min(self.n_jobs, len(self.folds)), prefer="threads")
        jobs = zip(self.folds, more, strict=True)
        fitter = self.fitter.with_kernel(kernel)
        return list(run(delayed(work)(fitter, fold, *given) for fold, given in jobs))

    def score(self, strength: Strength) -> float:
        """Mean over the folds; lower is better."""
        if strength not in self.scores:
            self.scores[strength], self.points[strength] = self._judge(strength)
            if self.report is not None:
                done = len(self.scores)
                self.report(done, max(EXPECTED, done + 1))
        return float(self.scores[strength].mean())

    def _judge(self, strength: Strength) -> tuple[Array, Array]:
        stage = self.keeper.within(f"strength {strength!r}")
        kept = stage.get()
        if kept is None:
            starts = self._starts(replace(strength, relaxed=False))
            given = [(strength, start) for start in starts]
            found = self._on_folds(_judge_fold, strength.kernel, given)
            scores, points = (np.array(part) for part in zip(*found, strict=True))
            kept = Record(arrays={"scores": scores, "x": points})
            stage.put(kept)
        return kept.arrays["scores"], kept.arrays["x"]

    def _starts(self, strength: Strength) -> Array:
        """Points to start from, one per fold: of the nearest strength tried, else the pilots.

        Without a penalty every weight has to be found anew, so that only fits without one help.
        """
        tried = [
            s
            for s in self.points
            if not s.relaxed and s.kernel == strength.kernel and (strength.c == 0.0) == (s.c == 0.0)
        ]
        if not tried:
            return self._pilots(strength.kernel)

        def distance(s: Strength) -> tuple[float, float]:
            return abs(s.c - strength.c), abs(s.rho - strength.rho)

        return self.points[min(tried, key=distance)]

    @property
    def best(self) -> Strength:
        return min(self.scores, key=self.score)

    def table(self, kernel: str) -> pd.DataFrame:
        """One row per strength that was tried, by its mean held-out log-likelihood per signal."""
        rows = [
            (s.rho, s.c, int(s.relaxed), -0.5 * score.mean(), 0.5 * _standard_error(score))
            for s, score in self.scores.items()
            if s.kernel == kernel
        ]
        names = ["shrinkage", "penalty", "relaxed", "log_likelihood", "standard_error"]
        return pd.DataFrame(rows, columns=names)


def _standard_error(scores: Array) -> float:
    return float(scores.std(ddof=1) / np.sqrt(scores.size)) if scores.size > 1 else 0.0


def _pilot(fitter: GaussianFitter, fold: Fold, start: Array | None) -> Array:
    S = shrunk(fold.S, PILOT)
    fit = fitter.likeliest(S, fitter.start(S, fold.train.count) if start is None else start)
    if fit.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return fit.x


def _judge_fold(
    fitter: GaussianFitter, fold: Fold, strength: Strength, start: Array
) -> tuple[float, Array]:
    """The score on one fold, and the point before it was relaxed."""
    S, M = shrunk(fold.S, strength.rho), fold.train.count
    fit = fit_at(fitter, S, M, replace(strength, relaxed=False), fitter.at(S, start))
    x = fit.x
    if strength.relaxed and fit.status is not Status.INTERRUPTED:
        fit = fitter.relaxed(S, fit)
    if fit.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return fold.judge(fit.point, fold.location), x


def fit_at(
    fitter: GaussianFitter, S: Array, n_signals: float, strength: Strength, likeliest: GaussianFit
) -> GaussianFit:
    """The fit of a shrunk moment at a strength, from the likeliest one."""
    if strength.c == 0.0:
        return fitter.from_low_noise(fitter.likeliest(S, likeliest.x))
    sparse = fitter.sparse(S, n_signals, strength.c, likeliest)
    if not strength.relaxed or sparse.status is Status.INTERRUPTED:
        return sparse
    return fitter.relaxed(S, sparse)


def choose_strength(
    fitter: GaussianFitter,
    folds: Sequence[Fold],
    rhos: Sequence[float],
    penalties: tuple[float, ...],
    *,
    kernels: tuple[str, ...] = ("",),
    n_jobs: int = 1,
    report: Report | None = None,
    keeper: Keeper = NO_CHECKPOINT,
) -> tuple[Strength, pd.DataFrame, bool]:
    """The strength under which held-out signals are the likeliest, and all tried with its kernel.

    The last value is whether the user stopped the search: the best so far is then returned, or
    KeyboardInterrupt raised where there is none.

    Shrinkages are tried in descending order, then penalties at the best of them, and so on until
    neither helps; last, whether the edges that a penalty leaves are better fitted without it.  From
    there the other ``kernels`` are tried in the same way, in their order, for as long as it gets
    better.  The first one is kept unless another is better by more than a standard error.
    """
    rough = replace(fitter, tol=ROUGH, max_iter=ROUGH_ITER, report=None)
    search = _Scores(rough, folds, n_jobs, report, keeper)
    if min(fold.train.count for fold in folds) <= fitter.candidates.n_nodes:
        rhos = [rho for rho in rhos if rho >= LEAST_WITH_FEW] or rhos
    try:
        _search(search, rhos, penalties, kernels)
    except KeyboardInterrupt:
        if not search.scores:
            raise
        return search.best, search.table(search.best.kernel), True
    same = [s for s in search.scores if s.kernel == kernels[0]]
    best, usual = search.best, min(same, key=search.score)
    worse = search.scores[usual] - search.scores[best]
    if worse.mean() <= _standard_error(worse):
        best = usual
    return best, search.table(best.kernel), False


def _search(
    search: _Scores,
    rhos: Sequence[float],
    penalties: tuple[float, ...],
    kernels: tuple[str, ...],
) -> None:
    first, *others = kernels
    middle = min(penalties, key=lambda c: abs(c - MIDDLE))
    path = [rho for rho in rhos if rho <= FIRST or len(rhos) == 1]
    _descend(search, [Strength(rho, middle, kernel=first) for rho in path])
    _settle(search, rhos, penalties)
    for kernel in others:  # in an order, so that one that is no better ends it
        known = search.best
        if search.score(replace(known, kernel=kernel)) >= search.score(known):
            return
        _settle(search, rhos, penalties)


def _settle(search: _Scores, rhos: Sequence[float], penalties: tuple[float, ...]) -> None:
    """From the best strength, along one axis, then along the other, until neither helps."""
    before, best = None, replace(search.best, relaxed=False)
    search.score(best)
    while best != before:
        before = best
        best = _climb(search, best, [replace(best, c=c) for c in penalties])
        best = _climb(search, best, [replace(best, rho=rho) for rho in rhos])
    for c in {best.c, RELAXED}.intersection(penalties) - {0.0}:
        search.score(replace(best, c=c, relaxed=True))


def _descend(search: _Scores, path: Sequence[Strength]) -> None:
    """Follow a path until it has been worse than its best for a while."""
    best, worse = np.inf, 0
    for strength in path:
        score = search.score(strength)
        worse = 0 if score < best else worse + 1
        best = min(best, score)
        if worse >= PATIENCE:
            return


def _climb(search: _Scores, best: Strength, line: Sequence[Strength]) -> Strength:
    """From the best, which is on the line, go either way for as long as it gets better."""
    for way in (line, line[::-1]):
        k = way.index(best)
        while k + 1 < len(way) and search.score(way[k + 1]) < search.score(way[k]):
            k += 1
        best = way[k]
    return best
