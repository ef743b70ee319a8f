"""alpha, beta, the scales and their number, chosen by signals that are held out.

Signals are held out in turn, and the fit of the others says how likely they are: by the covariance
of its graph and scales, see :mod:`heatgraph.selection.likelihood`.  One parameter is moved at a
time: alpha down from a value that is too large and beta, each for as long as signals become more
likely by more than chance; then the scales, as multiples of those that were learned, to the top of
the parabola through the best three.  Every fit starts from the one before it.

What is reported is a prediction: some entries of every signal that is held out are hidden, and are
predicted from the others.  Where the signals to fit have gaps, alpha and beta are chosen by it: a
covariance does not know that sources are few, and of signals with gaps it tells too little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from heatgraph.arrays import Array, Ints
from heatgraph.models.heat import HeatObjective, Signals
from heatgraph.selection.folds import Folds
from heatgraph.selection.likelihood import surprise
from heatgraph.selection.masked_prediction import (
    HIDDEN_SHARE,
    HeldOutScore,
    HiddenPart,
    hide_by,
    means_of,
    prediction_errors,
    score_held_out,
    turns_for,
)
from heatgraph.solvers.driver import NO_CHECKPOINT, Keeper, Record
from heatgraph.solvers.heat import ROUGH, read_solution, solution_record, solve_heat
from heatgraph.solvers.result import Solution, Status
from heatgraph.solvers.signal_model import (
    PLAIN,
    SignalModel,
    codes_of,
    engine_of,
    level_of,
    subtract_level,
)
from heatgraph.solvers.threads import bounded_blas

# In units of the signals (see `units_of`), so that scaling X changes nothing.  Descending: where
# the last predicts best, the search goes on by the same ratio.
ALPHAS = (0.2, 0.1, 0.05, 0.025)
BETAS = (1.2e-2, 3.6e-2, 4e-3, 1.3e-3)  # the first is tried first
# Of the smallest beta, also tried where signals have gaps: they pull less against the spread.
WITH_GAPS = 0.3
MOST_STEPS = 3  # beyond the largest alpha
STRETCH = 1.2  # from one multiple of the learned scales to the next
# Far beyond the learned scales, where signals are about as likely, the graph loses edges.
STRETCHES = tuple(STRETCH**k for k in range(-2, 3))
CODINGS = (1.0, 0.5, 0.25, 0.125)  # of alpha, to predict with
TOL = 1e-2  # residual of the fits that are compared: enough to rank them
MAX_ITER = 24  # of such a fit, after the first
CODING_ROUNDS = 3  # of reweighting, to rank: further rounds change which is best in few cases
EXPECTED = 10  # points that a search tries, about: for the progress bar


@dataclass(frozen=True, eq=False)
class Grid:
    """What may be chosen: one value of alpha or beta is held, several are searched.

    ``starts`` are vectors of scales, one per number of scales.  ``stretch`` is whether scales are
    stretched after they were learned.
    """

    alphas: Sequence[float]
    betas: Sequence[float]
    starts: Sequence[Array]
    stretch: bool = False


@dataclass(frozen=True, order=True)
class Point:
    """Parameters that are tried; scales are learned without a ``stretch``, and held with one."""

    start: int
    alpha: float
    beta: float
    stretch: float = 0.0


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen, and the table of all that was tried, one row per point.

    ``scales`` are the start that was chosen, of scales that are learned; once they were stretched,
    they are to be held, and ``stretches`` is the table of that.  Hidden entries are predicted best
    by the sources that ``coding`` times alpha finds.  ``missed`` is the share of the hidden energy
    that was not predicted; 1 is predicting zero.  ``predicts`` is whether hidden entries are
    predicted better than by zero and by the means of the nodes.  ``ends`` names what was chosen at
    the end of what was tried.  ``weights`` (folds, E) are those of each fold, which saw the shares
    ``seen`` (folds,) of the signals; at their mean ``w`` the fit of all signals starts.
    ``interrupted`` if the user stopped the search: the best of what was tried until then, its
    scales to be held.
    """

    alpha: float
    beta: float
    scales: Array
    missed: float
    standard_error: float
    table: pd.DataFrame
    held_out: HeldOutScore
    weights: Array
    seen: Array
    predicts: bool = True
    coding: float = 1.0
    stretches: pd.DataFrame | None = None
    ends: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def n_scales(self) -> int:
        return self.scales.size

    @property
    def w(self) -> Array:
        mean: Array = self.weights.mean(axis=0)
        return mean


def choose(
    objective: HeatObjective,
    signals: Signals,
    w: Array,
    grid: Grid,
    folds: Folds,
    *,
    learn_scales: bool,
    rng: np.random.Generator,
    n_jobs: int = 1,
    report: Callable[[int, int], None] | None = None,
    keeper: Keeper = NO_CHECKPOINT,
    model: SignalModel = PLAIN,
    filled: Signals | None = None,
) -> Choice:
    """Choose by folds of signals, and predict a quarter of the entries of those held out.

    ``objective`` has the candidates, the atoms and the penalty; its alpha and beta are not read.
    ``filled`` are the signals to learn from, where gaps of ``signals`` were filled.
    A KeyboardInterrupt ends the search with the best of what was tried, once anything was.
    """
    parts = [hold_out(signals, split.train, split.test, rng, filled) for split in folds.splits]
    search = Search(objective, parts, w, grid, folds, learn_scales, n_jobs, report, keeper, model)
    try:
        best, base = search.along_alpha(), None
        if search.has_gaps:
            best = search.along_beta(best)
        if grid.stretch:
            base = search.learned_scales(best)
            best = search.along_stretch(best, base)
        if not search.has_gaps:
            best = search.along_beta(best, base)
        if base is not None:
            search.predict(best)
    except KeyboardInterrupt:
        if not search.trials:
            raise
        return search.best_so_far()
    return search.choice(best, base)


@dataclass(frozen=True, eq=False)
class Part:
    """One fold: the signals to fit, of all of them this share, and those held out.

    The latter twice: around the node means of the former, and with hidden entries.
    """

    training: Signals
    others: Signals
    held_out: HiddenPart
    share: float


def hold_out(
    signals: Signals,
    train: Ints,
    test: Ints,
    rng: np.random.Generator,
    filled: Signals | None = None,
) -> Part:
    """A fold: the signals to learn from, and those held out with some entries hidden.

    Gaps are filled in the former, and stay gaps in the latter, whose entries are predicted.
    """
    N, M = signals.X.shape
    held_out = signals.take(test)
    draws = rng.random(held_out.X.shape)
    hidden = hide_by(held_out, HIDDEN_SHARE, draws, turns_for(N, M, HIDDEN_SHARE))
    training = (signals if filled is None else filled).take(train)
    others = subtract_level(held_out, means_of(training))
    return Part(training, others, hidden, train.size / M)


@dataclass(frozen=True, eq=False)
class Trial:
    """A point on every fold: the fits, and of the signals held out two measures.

    How unlikely each is, (signals,), and the errors of predicting it, (codings, signals).
    """

    fits: Sequence[Solution]
    surprise: Sequence[Array]
    errors: Sequence[Array]


@dataclass(eq=False)
class Search:
    """Points that were tried, and how the next one is found."""

    objective: HeatObjective
    parts: Sequence[Part]
    w: Array
    grid: Grid
    folds: Folds
    learn_scales: bool
    n_jobs: int
    report: Callable[[int, int], None] | None
    keeper: Keeper
    model: SignalModel
    trials: dict[Point, Trial] = field(default_factory=dict)

    @property
    def has_gaps(self) -> bool:
        """Whether signals are fitted that have gaps, beside nodes or signals never observed."""
        masks = [part.training.observed for part in self.parts]
        return any(m is not None and not m[np.ix_(m.any(1), m.any(0))].all() for m in masks)

    def _judged(self, point: Point) -> Array:
        """By what alpha and beta are chosen, (signals,): lower is better."""
        return self._sums(point) if self.has_gaps else self._unlikely(point)

    def along_alpha(self) -> Point:
        """The sparsest of the best: fewest scales first, then the largest alpha.

        With a smaller alpha signals have to be more likely by a standard error.  More scales have
        to predict hidden entries better by a standard error: a covariance hardly tells several
        scales from one.
        """
        best: Point | None = None
        for start in range(len(self.grid.starts)):
            points = [Point(start, alpha, self.grid.betas[0]) for alpha in self._alphas()]
            here = self._descend(points, by=self._judged, strict=True)
            if here == points[0] and len(points) > 1:
                here = self._ascend(here, points[0].alpha / points[1].alpha)
            if best is None or self._predicts_better(here, best):
                best = here
        assert best is not None  # for the type checker: there is a start
        return best

    def _ascend(self, best: Point, ratio: float) -> Point:
        """A larger alpha than the first, for as long as signals are as likely."""
        for _ in range(MOST_STEPS):
            point = replace(best, alpha=best.alpha * ratio)
            self._try(point, best, None)
            if self._excess(point, best, self._judged) > self._error(point, best, self._judged):
                break
            best = point
        return best

    def _alphas(self) -> list[float]:
        return sorted(self.grid.alphas, reverse=True)

    def along_beta(self, best: Point, base: Array | None = None) -> Point:
        """Up or down; with gaps wherever prediction is better, by whatever it is."""
        first, betas = self.grid.betas[0], sorted(self.grid.betas)
        if self.has_gaps and len(betas) > 1:
            betas = [WITH_GAPS * betas[0], *betas]
        larger = [beta for beta in betas if beta >= first]
        smaller = [beta for beta in reversed(betas) if beta <= first]
        strict = not self.has_gaps
        for path in (larger, smaller):
            points = [replace(best, beta=beta) for beta in path]
            here = self._descend(points, by=self._judged, strict=strict, base=base, before=best)
            if here != best:
                return here
        return best

    def along_stretch(self, best: Point, base: Array) -> Point:
        """Scales held at a multiple of those learned: the one that makes signals most likely.

        Scales that are learned along with sources come out too small: the sources that fit some
        signals best take some of the noise for heat that has not gone far.  Up or down by equal
        factors for as long as signals become more likely; then to the top of the parabola
        through the best and its two neighbours.
        """
        points = [replace(best, stretch=factor) for factor in STRETCHES]
        first = STRETCHES.index(1.0)
        likely = self._unlikely
        top = self._descend(points[first:], by=likely, base=base, before=best)
        if top == points[first]:
            top = self._descend(points[first::-1], by=likely, base=base, before=best)
        at = points.index(top)
        if not 0 < at < len(points) - 1:
            return top
        below, above = (self._excess(points[at + step], top, likely) for step in (-1, 1))
        if not below + above > 0.0:
            return top
        shift = 0.5 * (below - above) / (below + above)
        vertex = replace(top, stretch=top.stretch * STRETCH**shift)
        self._try(vertex, top, base)
        return vertex

    def predict(self, point: Point) -> None:
        """Predict hidden entries at a point by all codings, in place of the first alone."""
        trial = self.trials[point]
        errors = [
            predict_hidden(part, self._problem(point, part), fit, CODINGS, self.model)
            for part, fit in zip(self.parts, trial.fits, strict=True)
        ]
        self.trials[point] = replace(trial, errors=errors)

    def _descend(
        self,
        points: Sequence[Point],
        *,
        by: Callable[[Point], Array],
        strict: bool = False,
        base: Array | None = None,
        before: Point | None = None,
    ) -> Point:
        """Follow a path while a measure falls; ``strict`` asks for a standard error."""
        best: Point | None = None
        for point in points:
            self._try(point, before, base)
            before = point
            if best is not None:
                margin = self._error(point, best, by) if strict else 0.0
                if not self._excess(point, best, by) < -margin:
                    break
            best = point
        assert best is not None  # for the type checker: a path has a point
        return best

    def _try(self, point: Point, before: Point | None, base: Array | None) -> None:
        if point in self.trials:
            return
        run = Parallel(n_jobs=min(self.n_jobs, len(self.parts)))
        found = run(
            delayed(fit_part)(
                part,
                self._problem(point, part),
                None if before is None else self.trials[before].fits[k],
                self.w,
                self.grid.starts[point.start] if base is None else point.stretch * base,
                self.learn_scales and base is None,
                self.model,
            )
            if kept is None
            else delayed(_recalled)(kept, self._problem(point, part), part, self.model)
            for k, (part, kept) in enumerate(zip(self.parts, self._kept(point), strict=True))
        )
        trial = Trial(*zip(*found, strict=True))
        self._keep(point, trial)
        self.trials[point] = trial
        if self.report is not None:
            self.report(len(self.trials), max(EXPECTED, len(self.trials) + 1))

    def _problem(self, point: Point, part: Part) -> HeatObjective:
        """With beta weighed against the share of the signals that are there."""
        beta = point.beta * part.share
        return replace(self.objective, alpha=point.alpha, beta=beta)

    def _stages(self, point: Point) -> list[Keeper]:
        return [self.keeper.within(f"{point!r} fold{k}") for k in range(len(self.parts))]

    def _kept(self, point: Point) -> list[Record | None]:
        return [stage.get() for stage in self._stages(point)]

    def _keep(self, point: Point, trial: Trial) -> None:
        if self.keeper is NO_CHECKPOINT:
            return
        measured = zip(trial.fits, trial.surprise, trial.errors, strict=True)
        for stage, part, (fit, unlikely, errors) in zip(
            self._stages(point), self.parts, measured, strict=True
        ):
            engine = engine_of(part.training, self._problem(point, part), self.model)
            record = solution_record(fit, engine)
            arrays = {**record.arrays, "surprise": unlikely, "errors": errors}
            stage.put(replace(record, arrays=arrays))

    def _sums(self, point: Point) -> Array:
        """The errors of the signals at a point, by the coding that predicts best: (signals,)."""
        errors = np.concatenate(self.trials[point].errors, axis=1)
        sums: Array = errors[self._coding(point)]
        return sums

    def _coding(self, point: Point) -> int:
        return int(np.concatenate(self.trials[point].errors, axis=1).sum(axis=1).argmin())

    def _unlikely(self, point: Point) -> Array:
        return np.concatenate(self.trials[point].surprise)

    def _predicts_better(self, point: Point, other: Point) -> bool:
        """Whether hidden entries are predicted better, by a standard error."""
        return self._excess(point, other, self._sums) < -self._error(point, other, self._sums)

    def _excess(self, point: Point, other: Point, by: Callable[[Point], Array]) -> float:
        """How much higher a measure is at a point than at another, summed over the signals."""
        return float((by(point) - by(other)).sum())

    def _error(self, point: Point, other: Point, by: Callable[[Point], Array]) -> float:
        """The standard error of the difference, paired over the signals."""
        difference = by(point) - by(other)
        return float(difference.std() * np.sqrt(difference.size))

    def learned_scales(self, point: Point) -> Array:
        """In the mean of the folds."""
        each = [np.sort(fit.tau) for fit in self.trials[point].fits]
        scales: Array = each[0] if point.stretch else np.mean(each, axis=0)
        return scales

    def best_so_far(self) -> Choice:
        """The point that makes signals most likely, of a search that was stopped."""
        best = min(self.trials, key=lambda point: sum(map(np.sum, self.trials[point].surprise)))
        scales = self.learned_scales(best)
        stretched = any(point.stretch for point in self.trials)
        choice = self.choice(best, scales if stretched else None)
        return replace(choice, scales=scales, interrupted=True)

    def choice(self, best: Point, base: Array | None) -> Choice:
        table, stretches = self._table(False), self._table(True) if base is not None else None
        energy = np.concatenate([part.held_out.energy for part in self.parts])
        errors, total = self._sums(best), float(energy.sum()) or 1.0
        missed = float(errors.sum()) / total
        each = np.split(errors, np.cumsum([part.held_out.n_signals for part in self.parts])[:-1])
        parts = [(part.training, part.held_out) for part in self.parts]
        score, by_means = score_held_out(parts, each)
        by_zero = [part.held_out.energy for part in self.parts]
        better = min(by_zero, by_means, key=lambda bound: float(sum(b.sum() for b in bound)))
        excess = [error - bound for error, bound in zip(each, better, strict=True)]
        return Choice(
            best.alpha,
            best.beta,
            self.grid.starts[best.start] if base is None else best.stretch * base,
            missed,
            float((errors - missed * energy).std() * np.sqrt(energy.size)) / total,
            table,
            score,
            np.array([fit.w for fit in self.trials[best].fits]),
            np.array([part.share for part in self.parts]),
            self.folds.is_below(excess),
            CODINGS[self._coding(best)],
            stretches,
            self.ends(best),
        )

    def ends(self, best: Point) -> tuple[str, ...]:
        """What was chosen at the end of what could be tried."""
        tried = list(self.trials)
        ends = []
        for name in ("alpha", "beta"):
            values = [getattr(point, name) for point in tried]
            if len(set(values)) > 1 and getattr(best, name) == min(values):
                ends.append(f"smallest {name}")
            if len(set(values)) > 1 and getattr(best, name) == max(values):
                ends.append(f"largest {name}")
        if best.stretch == STRETCHES[-1]:
            ends.append("longest multiple of the learned scales")
        if best.stretch == STRETCHES[0]:
            ends.append("shortest multiple of the learned scales")
        if best.stretch and CODINGS[self._coding(best)] == CODINGS[-1]:
            ends.append("smallest alpha to predict with")
        return tuple(ends)

    def _table(self, stretched: bool) -> pd.DataFrame:
        """One row per point and coding: ``missed``, its standard error, what was learned."""
        energy = np.concatenate([part.held_out.energy for part in self.parts])
        total = float(energy.sum()) or 1.0
        rows = []
        for point, trial in self.trials.items():
            if bool(point.stretch) != stretched:
                continue
            scales = self.learned_scales(point)
            errors = np.concatenate(trial.errors, axis=1)
            likely = -0.5 * float(np.concatenate(trial.surprise).mean())
            for coding, error in zip(CODINGS[: len(errors)], errors, strict=True):
                missed = float(error.sum()) / total
                spread = (error - missed * energy).std() * np.sqrt(energy.size) / total
                rows.append(
                    {
                        "n_scales": scales.size,
                        "alpha": point.alpha,
                        "beta": point.beta,
                        "coding": coding,
                        "missed": missed,
                        "standard_error": float(spread),
                        "log_likelihood": likely,
                        "n_edges": float(np.mean([np.count_nonzero(f.w) for f in trial.fits])),
                        **{f"scale{k}": float(t) for k, t in enumerate(scales, start=1)},
                        "stretch": point.stretch,
                    }
                )
        table = pd.DataFrame(rows)
        return table.drop(columns=["n_scales"] if stretched else ["coding", "stretch"])


def _recalled(
    record: Record, problem: HeatObjective, part: Part, model: SignalModel
) -> tuple[Solution, Array, Array]:
    engine = engine_of(part.training, problem, model)
    fit = read_solution(record, engine)
    return fit, record.arrays["surprise"], record.arrays["errors"]


def fit_part(
    part: Part,
    problem: HeatObjective,
    before: Solution | None,
    w: Array,
    tau: Array,
    learn_scales: bool,
    model: SignalModel,
) -> tuple[Solution, Array, Array]:
    """Fit from an earlier fit or from ``w``, and measure the signals that are held out."""
    # In a process of its own, where the limits of the caller's do not hold.
    with bounded_blas():
        start = Solution(w, tau)
        if before is not None:
            # Held scales ascend; the codes are in the order that the scales were learned in.
            scales = before.tau if learn_scales else tau[np.argsort(np.argsort(before.tau))]
            start = replace(before, tau=scales, n_iter=0)
        fit = solve_heat(
            engine_of(part.training, problem, model),
            start,
            learn_scales=learn_scales,
            max_iter=MAX_ITER,
            tol=TOL,
            first_tol=ROUGH,
            count_first=False,
        )
        if fit.status is Status.INTERRUPTED:
            # The solver keeps the best of a fit that is stopped, but half a search is of no use.
            raise KeyboardInterrupt
        energy = np.square(codes_of(fit)).reshape(-1, tau.size, len(part.training.X)).sum((0, 2))
        shares = energy / energy.sum() if energy.any() else np.full(tau.size, 1.0 / tau.size)
        unlikely = surprise(problem.dictionary(fit.w, fit.tau), part.others, shares)
        errors = predict_hidden(part, problem, fit, CODINGS[:1], model)
    return replace(fit, memory=None), unlikely, errors


def predict_hidden(
    part: Part,
    problem: HeatObjective,
    fit: Solution,
    codings: Sequence[float],
    model: SignalModel,
) -> Array:
    """The errors of hidden entries, predicted with multiples of alpha: (codings, signals).

    A level is that of the fit: the signals that are held out have no part in it.
    """
    D = problem.dictionary(fit.w, fit.tau)
    level = level_of(fit, len(part.training.X)) if model.fit_intercept else None
    errors = [
        prediction_errors(
            D,
            part.held_out,
            c * problem.alpha,
            penalty=problem.penalty,
            positive=model.positive,
            n_rounds=CODING_ROUNDS,
            level=level,
        )[0]
        for c in codings
    ]
    return np.array(errors)
