"""alpha, beta and the number of scales, chosen by how well they predict hidden entries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray

from heatgraph.objective.heat import HeatObjective, Signals
from heatgraph.selection.interpolation import sparsest_within_error
from heatgraph.selection.masked import HiddenPart, hide_by, prediction_errors, turns_for
from heatgraph.solvers.ensemble import Ensemble, energy_of
from heatgraph.solvers.heat import solve_heat
from heatgraph.solvers.keeping import FORGETFUL, Keeper, Record
from heatgraph.solvers.majorise import PENALTIES
from heatgraph.solvers.result import Solution, Status
from heatgraph.solvers.signal_model import PLAIN, SignalModel, level_of
from heatgraph.solvers.threads import bounded_blas

__all__ = [
    "ALPHAS",
    "BETAS",
    "Choice",
    "Grid",
    "Key",
    "Walk",
    "choose",
    "choose_from",
    "draw_folds",
    "fit_path",
    "n_stretching",
    "pick_from",
    "resumed",
    "stretched",
    "tabulate",
    "units_of",
    "walk_path",
]

Array = NDArray[np.float64]
# What was fitted along a path, and the error of each signal that was held out.
Walk = list[tuple[dict[str, float], Array]]
# What is tried: the number of the start, alpha, beta, and the coding.
Key = tuple[int, float, float, float]

# In units of the signals (see `units_of`), so that scaling X changes nothing.
ALPHAS = (0.4, 0.2, 0.1, 0.05, 0.025)
BETAS = (1.2e-2, 2e-3)
STRETCHES = (1.0, 1.12, 1.25, 1.4)  # of the scales that were learned
BETA_FACTORS = (1.0, 3.0)  # of the beta chosen with these
STEPS = 64.0  # a doubling of a scale is divided into, before it is stretched
CODINGS = (1.0, 0.5, 0.25, 0.125)  # of alpha, to predict with
FOLDS = 3
HIDDEN_SHARE = 0.25
TOL = 1e-3  # of the fits of the grid: enough to rank them
MAX_ITER = 100


@dataclass(frozen=True, eq=False)
class Grid:
    """What is tried: every alpha with every beta, from every vector of scales.

    Hidden entries are predicted by sources that are found with each of ``codings`` times alpha.
    """

    alphas: Sequence[float]
    betas: Sequence[float]
    starts: Sequence[Array]
    codings: Sequence[float] = (1.0,)


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen, and the table of all that was tried, a row a triple.

    ``scales`` is the start that was chosen, of scales that are learned; once they were stretched,
    they are to be held, and ``stretches`` is the table of that.  Hidden entries are predicted best
    by the sources that ``coding`` times alpha finds.  ``missed`` is the share of the hidden energy
    that was not predicted; 1 is predicting zero.
    """

    alpha: float
    beta: float
    scales: Array
    missed: float
    standard_error: float
    table: pd.DataFrame
    coding: float = 1.0
    stretches: pd.DataFrame | None = None

    @property
    def n_scales(self) -> int:
        return self.scales.size

    @property
    def learned_scales(self) -> Array:
        """The scales that were learned with what was chosen, in the mean of the folds."""
        row = self.table[
            (self.table["n_scales"] == self.n_scales)
            & (self.table["alpha"] == self.alpha)
            & (self.table["beta"] == self.beta)
        ]
        names = [f"scale{k}" for k in range(1, self.n_scales + 1)]
        learned: Array = row[names].to_numpy(dtype=np.float64)[0]
        return learned

    @property
    def predicts(self) -> bool:
        """Whether it predicts better than zero by more than chance.

        By two standard errors: the best of a grid gets below zero's error by one without merit.
        """
        return self.missed + 2.0 * self.standard_error < 1.0


def stretched(choice: Choice, beta_is_free: bool, choose_among: Callable[[Grid], Choice]) -> Choice:
    """The choice with its scales stretched as far as masked prediction asks, and beta to go along.

    The sources that make the most of some signals take what diffused farthest for noise, so that
    scales learned along with them come out too small.  What was hidden has no part in that.  The
    least stretch is taken whose difference from the best is within one standard error.

    ``choose_among`` chooses from a grid, the scales of which are held.  What is stretched is
    rounded first: sums in another order should hold the same scales.
    """
    tau = _rounded(choice.learned_scales)
    betas = [factor * choice.beta for factor in _beta_factors(beta_is_free)]
    grid = Grid((choice.alpha,), betas, [factor * tau for factor in STRETCHES], CODINGS)
    held = choose_among(grid)
    longest = held.table[f"scale{tau.size}"].to_numpy() / (tau[-1] or 1.0)
    nearest = np.abs(np.subtract.outer(longest, STRETCHES)).argmin(axis=1)
    table = held.table.assign(stretch=np.array(STRETCHES)[nearest])
    return replace(
        choice,
        beta=held.beta,
        scales=held.scales,
        missed=held.missed,
        standard_error=held.standard_error,
        coding=held.coding,
        stretches=table.drop(columns="n_scales"),
    )


def _rounded(tau: Array) -> Array:
    rounded = np.zeros_like(tau)
    there = tau > 0.0
    rounded[there] = np.exp2(np.rint(STEPS * np.log2(tau[there])) / STEPS)
    return rounded


def n_stretching(n_signals: int, beta_is_free: bool) -> int:
    """How many paths :func:`stretched` will walk."""
    return min(FOLDS, n_signals) * len(STRETCHES) * len(_beta_factors(beta_is_free))


def _beta_factors(beta_is_free: bool) -> tuple[float, ...]:
    return BETA_FACTORS if beta_is_free else (1.0,)


def units_of(signals: Any) -> tuple[float, float]:
    """What 1 means for alpha and for beta, so that neither depends on the units of X or on M.

    The norm of a typical signal; the energy of all signals over the number of nodes, as
    ``||L||_F^2`` grows with that number.  Signals elsewhere state their ``total_energy``.
    """
    if not isinstance(signals, Signals):
        mean = signals.total_energy / signals.n_signals
        return float(np.sqrt(mean)), signals.total_energy / signals.n_nodes
    total = energy_of(signals)
    return float(np.sqrt(total / signals.X.shape[1])), total / signals.X.shape[0]


def choose(
    objective: HeatObjective,
    signals: Signals,
    w: Array,
    grid: Grid,
    *,
    penalty: str,
    learn_scales: bool,
    rng: np.random.Generator,
    n_jobs: int = 1,
    report: Callable[[int, int], None] | None = None,
    keeper: Keeper = FORGETFUL,
    model: SignalModel = PLAIN,
) -> Choice:
    """Choose by k folds of signals, a quarter of the entries of those held out being hidden.

    Each path goes from the largest alpha, where the graph is easiest, to the smallest, every fit
    starting from the last.

    ``objective`` has the candidates and the atoms; its alpha and beta are not read.
    """
    M = signals.X.shape[1]
    folds = draw_folds(M, rng)
    splits = [_split(signals, held, rng) for held in folds]
    paths = [
        (fold, start, beta)
        for fold in range(len(splits))
        for start in range(len(grid.starts))
        for beta in grid.betas
    ]
    stages = [keeper.within(f"path{k}") for k in range(len(paths))]
    kept = [stage.get() for stage in stages]
    walks = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(walk_path)(
            *splits[fold],
            objective,
            beta,
            grid.alphas,
            w,
            grid.starts[start],
            penalty,
            learn_scales,
            grid.codings,
            model,
        )
        for (fold, start, beta), record in zip(paths, kept, strict=True)
        if record is None
    )
    energy = np.zeros(M)
    for held, (_, part) in zip(folds, splits, strict=True):
        energy[held] = part.energy
    return choose_from(grid, paths, folds, energy, resumed(stages, kept, walks), report)


def choose_from(
    grid: Grid,
    paths: Sequence[tuple[int, int, float]],
    folds: Sequence[NDArray[np.intp]],
    energy: Array,
    walks: Iterator[Walk],
    report: Callable[[int, int], None] | None,
) -> Choice:
    """The choice by the walks of all paths, and what was hidden of each signal."""
    rows: list[dict[str, float]] = []
    errors: dict[Key, Array] = defaultdict(lambda: np.zeros(energy.size))
    if report is not None:
        report(0, len(paths))
    for done, (fold, start, beta) in enumerate(paths):
        for row, error in next(walks):
            rows.append({"start": start, "beta": beta, **row})
            errors[start, row["alpha"], beta, row["coding"]][folds[fold]] = error
        if report is not None:
            report(done + 1, len(paths))
    return _chosen(grid, rows, errors, energy)


def draw_folds(n_signals: int, rng: np.random.Generator) -> list[NDArray[np.intp]]:
    """The signals that are held out together, in ascending order, which is that in a split."""
    if n_signals < 2:
        raise ValueError(
            "X has a single signal (1 sample), which leaves none to predict; pass numbers for "
            "alpha, beta and n_scales."
        )
    n_folds = min(FOLDS, n_signals)
    return [np.sort(fold) for fold in np.array_split(rng.permutation(n_signals), n_folds)]


def _pack(walk: Walk) -> Record:
    return Record(
        {"rows": [row for row, _ in walk]},
        {f"errors{k}": error for k, (_, error) in enumerate(walk)},
    )


def _unpack(record: Record) -> Walk:
    rows = record.facts["rows"]
    return [(row, record.arrays[f"errors{k}"]) for k, row in enumerate(rows)]


def resumed(
    stages: Sequence[Keeper], kept: Sequence[Record | None], walks: Iterator[Walk]
) -> Iterator[Walk]:
    """The walks that were kept, and in between those that are made now, which are kept too."""
    for stage, record in zip(stages, kept, strict=True):
        walk = next(walks) if record is None else _unpack(record)
        stage.put(_pack(walk))
        yield walk


def _chosen(
    grid: Grid,
    rows: list[dict[str, float]],
    errors: Mapping[Key, Array],
    energy: Array,
) -> Choice:
    """The choice by the errors of every signal, (M,) for each key."""
    total = float(energy.sum()) or 1.0
    table, keys = tabulate(rows)
    missed = np.array([errors[key].sum() for key in keys]) / total
    ratio = np.array([errors[key] for key in keys]) - np.outer(missed, energy)
    standard_error = ratio.std(axis=1) * np.sqrt(energy.size) / total

    def sparsest(ordered: NDArray[np.intp]) -> int:
        return sparsest_within_error(np.array([errors[keys[k]] for k in ordered]))

    return pick_from(grid, table, keys, missed, standard_error, sparsest)


def tabulate(rows: list[dict[str, float]]) -> tuple[pd.DataFrame, list[Key]]:
    """The means over the folds, a row a key, and the keys: start, alpha, beta, coding."""
    names = ["start", "alpha", "beta", "coding"]
    table = pd.DataFrame(rows).groupby(names).mean().reset_index()
    columns = (table[name] for name in names[1:])
    return table, list(zip(table["start"].astype(int), *columns, strict=True))


def pick_from(
    grid: Grid,
    table: pd.DataFrame,
    keys: list[Key],
    missed: Array,
    standard_error: Array,
    sparsest: Callable[[NDArray[np.intp]], int],
) -> Choice:
    """The sparsest within one standard error of the best, and the table of all.

    Earlier starts and a larger alpha are sparser; beta and the coding are the best for these.  The
    differences are paired over the signals: what is hard to predict for one choice is so for the
    others.  ``sparsest`` gives the place of the choice among keys in the order of sparsity.
    """
    table.insert(4, "missed", missed)
    table.insert(5, "standard_error", standard_error)
    best = table.loc[table.groupby(["start", "alpha"])["missed"].idxmin()]
    ordered = best.sort_values(["start", "alpha"], ascending=[True, False]).index.to_numpy()
    pick = int(ordered[sparsest(ordered)])
    start, alpha, beta, coding = keys[pick]
    if len(grid.codings) == 1:
        del table["coding"]
    table.insert(0, "n_scales", [grid.starts[k].size for k in table.pop("start").astype(int)])
    return Choice(
        float(alpha),
        float(beta),
        grid.starts[start],
        float(missed[pick]),
        float(standard_error[pick]),
        table,
        float(coding),
    )


def _split(
    signals: Signals, held: NDArray[np.intp], rng: np.random.Generator
) -> tuple[Signals, HiddenPart]:
    kept = np.ones(signals.X.shape[1], dtype=bool)
    kept[held] = False
    held_out = signals.take(~kept)
    n_turns = turns_for(signals.X.shape[0], signals.X.shape[1], HIDDEN_SHARE)
    draws = rng.random(held_out.X.shape)
    return signals.take(kept), hide_by(held_out, HIDDEN_SHARE, draws, n_turns)


def walk_path(
    training: Signals,
    held_out: HiddenPart,
    objective: HeatObjective,
    beta: float,
    alphas: Sequence[float],
    w: Array,
    tau: Array,
    penalty: str,
    learn_scales: bool,
    codings: Sequence[float] = (1.0,),
    model: SignalModel = PLAIN,
) -> Walk:
    """Fit along the path of alphas, and score every fit on the hidden entries.

    A level is that of the fit: the signals that are held out have no part in it.
    """
    M = training.X.shape[1]
    share = M / (M + held_out.n_signals)
    code = model.coder(penalty)
    ensemble = model.ensemble(training)
    walk = []
    # In a process of its own, where the limits of the caller's do not hold.
    with bounded_blas():
        fits = fit_path(ensemble, share, objective, beta, alphas, w, tau, penalty, learn_scales)
        for row, problem, fit in fits:
            D = problem.dictionary(fit.w, fit.tau)
            level = level_of(fit, len(training.X)) if model.fit_intercept else None
            for coding in codings:
                alpha = coding * problem.alpha
                errors, _ = prediction_errors(D, held_out, alpha, code=code, level=level)
                walk.append((row | {"coding": coding}, errors))
    return walk


def fit_path(
    training: Signals | Ensemble,
    share: float,
    objective: HeatObjective,
    beta: float,
    alphas: Sequence[float],
    w: Array,
    tau: Array,
    penalty: str,
    learn_scales: bool,
) -> Iterator[tuple[dict[str, float], HeatObjective, Solution]]:
    """Fit from the largest alpha to the smallest, each from the last.

    ``share`` of all signals are there: the fit on all will weigh beta against that many more.
    """
    refine, _ = PENALTIES[penalty]
    codes = None
    for alpha in sorted(alphas, reverse=True):
        problem = HeatObjective(objective.candidates, alpha, beta * share, objective.atoms)
        fit = solve_heat(
            problem,
            training,
            w,
            tau,
            learn_scales=learn_scales,
            max_iter=MAX_ITER,
            tol=TOL,
            codes=codes,
        )
        w, tau, codes = fit.w, fit.tau, fit.codes
        fit = refine(
            problem, training, fit, learn_scales=learn_scales, max_iter=4 * MAX_ITER, tol=TOL
        )
        if fit.status is Status.INTERRUPTED:
            # The solver keeps the best of a fit that is stopped; half a path tells nothing.
            raise KeyboardInterrupt
        scales = {f"scale{k}": float(t) for k, t in enumerate(np.sort(fit.tau), start=1)}
        yield {"alpha": alpha, "n_edges": float(np.count_nonzero(fit.w)), **scales}, problem, fit
