"""One fit of LearnHeat from resolved parameters: choose, solve, refine, measure confidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from heatgraph.arrays import Array, Ints
from heatgraph.distributed.signals import DaskSignals
from heatgraph.estimators.fitted_graph import CUT
from heatgraph.estimators.parameters import HeatParameters, first_scales
from heatgraph.models.heat import HeatObjective, Signals
from heatgraph.selection.choose_parameters import Choice, choose
from heatgraph.selection.folds import make_folds
from heatgraph.selection.masked_prediction import fit_for_edges
from heatgraph.solvers.driver import NO_CHECKPOINT, Keeper, Record
from heatgraph.solvers.heat import ROUGH, solve_heat
from heatgraph.solvers.palm import solve_paper
from heatgraph.solvers.result import Monitor, Solution, Status
from heatgraph.solvers.signal_model import engine_of
from heatgraph.solvers.threads import bounded_blas

Report = Callable[[int, int], None]  # paths done, and of how many

AROUND = (0.5, 2.0)  # times the chosen alpha: the other fits whose mean says what is an edge
MOST_SIGNALS = 600  # that parameters are chosen by, in memory
STEPS_AROUND = 40  # of the graph, from one alpha to the next
BETA_RANGE = 1e3  # how far beta may go from its usual value to reach a number of edges


@dataclass(frozen=True, eq=False)
class Fit:
    """A solution, the objective that it solves, and how its parameters were chosen."""

    solution: Solution
    objective: HeatObjective
    choice: Choice | None
    learn_scales: bool = True


def fit_heat(
    p: HeatParameters,
    monitor: Monitor | None,
    report: Report | None,
    *,
    beta_is_free: bool,
    keeper: Keeper = NO_CHECKPOINT,
    earlier: Fit | None = None,
) -> Fit:
    """Choose what is not given, then fit on all signals.

    A number of edges is met by beta, where that is free: the larger, the more edges.  An
    ``earlier`` fit of the same signals is gone on from, with the parameters that it chose.
    """
    if earlier is not None:
        p = replace(p, learn_scales=earlier.learn_scales)
        solution = _go_on(p, earlier.objective, earlier.solution, monitor, keeper.within("more"))
        return replace(earlier, solution=solution)
    choice = None
    alpha, beta, tau = p.alphas[0], p.betas[0], p.starts[0]
    if p.grid is not None:
        choice = _choose(p, p.objective(alpha, beta), report, keeper.within("choice"))
        alpha, beta, tau = choice.alpha, choice.beta, choice.scales
        if choice.interrupted:
            return _as_it_is(p, choice)
        if p.grid.stretch:
            p = replace(p, learn_scales=False, w=choice.w)
        elif p.learn_scales:
            tau = next(start for start in p.starts if start.size == choice.n_scales)

    at = partial(_solve, p, alpha, tau, monitor, keeper)
    if p.n_edges is not None and beta_is_free:
        count = partial(_count, wanted=p.n_edges)
        beta, solution = fit_for_edges(at, count, p.n_edges, beta / BETA_RANGE, beta * BETA_RANGE)
    else:
        solution = at(beta)
    return Fit(solution, p.objective(alpha, beta), choice, learn_scales=p.learn_scales)


def _as_it_is(p: HeatParameters, choice: Choice) -> Fit:
    """The graph of a choice that was stopped, with the sources of all signals on it."""
    objective = p.objective(choice.alpha, choice.beta)
    solution = solve_heat(
        engine_of(p.signals, objective, p.model, p.n_jobs),
        Solution(choice.w, choice.scales),
        learn_scales=False,
        max_iter=0,
        tol=ROUGH,
    )
    stopped = replace(solution, status=Status.INTERRUPTED)
    return Fit(stopped, objective, choice, learn_scales=False)


def chosen_by(n_signals: int) -> Ints:
    """The signals in memory that parameters are chosen by: where there are thousands, some."""
    return np.arange(0, n_signals, max(1, n_signals // MOST_SIGNALS))


def _choose(
    p: HeatParameters, objective: HeatObjective, report: Report | None, keeper: Keeper
) -> Choice:
    """Choose by signals in memory."""
    assert p.grid is not None  # for the type checker: asked by the caller
    M = p.signals.n_signals
    some = chosen_by(M)
    signals = (p.signals if p.gaps is None else p.gaps).sample(some)
    rows = signals.X.T
    if signals.observed is not None:
        rows = np.where(signals.observed.T, rows, np.nan)
    if p.groups is not None and p.groups.shape != (M,):
        raise ValueError(f"groups must have one label per signal, ({M},), got {p.groups.shape}.")
    groups = None if p.groups is None else p.groups[some]
    folds = make_folds(rows, p.cv, groups, rng=p.rng)
    share = some.size / M
    grid = replace(p.grid, betas=tuple(share * beta for beta in p.grid.betas))
    choice = choose(
        objective,
        signals,
        p.w,
        grid,
        folds,
        learn_scales=p.learn_scales,
        rng=p.rng,
        n_jobs=p.n_jobs,
        report=report,
        keeper=keeper,
        model=p.model,
        filled=None if p.gaps is None else p.signals.sample(some),
    )
    tables = [
        None if table is None else table.assign(beta=table["beta"] / share)
        for table in (choice.table, choice.stretches)
    ]
    assert tables[0] is not None  # for the type checker: there is a table
    beta, seen = choice.beta / share, share * choice.seen
    return replace(choice, beta=beta, seen=seen, table=tables[0], stretches=tables[1])


def _count(solution: Solution, wanted: int) -> int:
    """The number of edges; a fit that the user stopped counts as met, which ends the search."""
    return wanted if solution.status is Status.INTERRUPTED else int((solution.w >= CUT).sum())


def _solve(
    p: HeatParameters,
    alpha: float,
    tau: Array,
    monitor: Monitor | None,
    keeper: Keeper,
    beta: float,
) -> Solution:
    objective = p.objective(alpha, beta)
    if p.solver == "paper" and isinstance(p.signals, Signals):
        return solve_paper(
            p.signals.X,
            p.candidates,
            p.candidates.laplacian(p.w),
            tau,
            alpha=objective.alpha,
            beta=objective.beta,
            learn_scales=p.learn_scales,
            max_iter=p.max_iter,
            tol=p.tol,
            options=p.paper,
            unit=p.unit,
            monitor=monitor,
        )
    how: dict[str, Any] = {}
    usual = first_scales(tau.size)
    # Large scales sit on a plateau, where every atom is nearly constant: the usual start, below it,
    # finds the same minimum whatever the caller's.  (Raw atoms have no minimum worth finding.)
    if p.learn_scales and p.unit_atoms and not np.array_equal(tau, usual):
        how, tau = {"second_scales": tau, "first_tol": p.tol}, usual
    return solve_heat(
        engine_of(p.signals, objective, p.model, p.n_jobs),
        Solution(p.w, tau),
        learn_scales=p.learn_scales,
        max_iter=p.max_iter,
        tol=p.tol,
        monitor=monitor,
        keeper=keeper.within(f"beta {beta!r}"),
        **how,
    )


def _go_on(
    p: HeatParameters,
    objective: HeatObjective,
    solution: Solution,
    monitor: Monitor | None,
    keeper: Keeper,
) -> Solution:
    """A solution as it is, or, where an iteration limit ended it that was raised, from there on."""
    unfinished = solution.status in (Status.MAX_ITER, Status.INTERRUPTED)
    if not unfinished or solution.n_iter >= p.max_iter or p.solver == "paper":
        return solution
    return solve_heat(
        engine_of(p.signals, objective, p.model, p.n_jobs),
        replace(solution, memory=None),
        learn_scales=p.learn_scales,
        max_iter=p.max_iter,
        tol=p.tol,
        monitor=monitor,
        keeper=keeper,
    )


def mean_around(p: HeatParameters, fit: Fit, keeper: Keeper = NO_CHECKPOINT) -> Array:
    """The mean weights of the fit, of others at half and twice its alpha, and of the folds.

    Which alpha is chosen among neighbours is much of a toss-up, and what is an edge at one of them
    only, or for some of the signals only, is most often none.  A fit counts by the share of the
    signals that it saw.
    """
    assert fit.choice is not None  # for the type checker: asked by the caller
    others = _weights(p, fit, [(None, c) for c in AROUND], ["around0", "around1"], keeper)
    around, seen = [fit.solution.w, *others], fit.choice.seen
    total: Array = np.sum(around, axis=0) + seen @ fit.choice.weights
    return total / (len(around) + float(seen.sum()))


def refit_resamples(
    p: HeatParameters, fit: Fit, n: int, keeper: Keeper = NO_CHECKPOINT
) -> Iterator[Array]:
    """The weights of ``n`` fits of signals drawn with replacement, one after the other."""
    M = p.signals.n_signals
    draws = ((p.rng.integers(0, M, M), 1.0) for _ in range(n))
    return _weights(p, fit, draws, [f"resample{k}" for k in range(n)], keeper)


def _weights(
    p: HeatParameters,
    fit: Fit,
    others: Iterable[tuple[Ints | None, float]],
    names: Sequence[str],
    keeper: Keeper,
) -> Iterator[Array]:
    """The weights of other fits: of the signals that are named, or all; at so many times alpha.

    Those that a checkpoint has under their names are not fitted again; the rest are kept there.
    They go on from the fit: where that went on past a limit that was raised, they are made anew.
    """
    here = keeper.within(f"after {fit.solution.n_iter} of {p.max_iter}")
    stages = [here.within(name) for name in names]
    kept = [stage.get() for stage in stages]
    # Every draw is made, so that those that follow are the same whatever was kept.
    missing = (
        # Resamples are of signals in memory.
        (p.signals if some is None else p.signals.take(some), times_alpha)  # type: ignore[union-attr]
        for (some, times_alpha), record in zip(others, kept, strict=True)
        if record is None
    )
    if isinstance(p.signals, DaskSignals):
        fits = (refit(p, fit, *other) for other in missing)
    else:
        fits = Parallel(n_jobs=min(p.n_jobs, len(names)), return_as="generator")(
            delayed(_refit)(p, fit, *other) for other in missing
        )
    for stage, record in zip(stages, kept, strict=True):
        w = next(fits).w if record is None else record.arrays["w"]
        stage.put(Record(arrays={"w": w}))
        yield w


def _refit(p: HeatParameters, fit: Fit, signals: Signals, times_alpha: float) -> Solution:
    # In a process of its own, where the limits of the caller's do not hold.
    with bounded_blas():
        return refit(p, fit, signals, times_alpha)


def refit(
    p: HeatParameters, fit: Fit, signals: Signals | DaskSignals, times_alpha: float = 1.0
) -> Solution:
    """Fit other signals, a resample say, or with another alpha, from where a fit ended."""
    objective = fit.objective
    share = signals.n_signals / p.signals.n_signals
    problem = p.objective(times_alpha * objective.alpha, objective.beta * share)
    if signals is p.signals:  # whose codes are known
        start = replace(fit.solution, n_iter=0, memory=None)
        max_iter, tol = min(p.max_iter, STEPS_AROUND), ROUGH
    else:
        start = Solution(0.5 * (fit.solution.w + p.w), fit.solution.tau)
        max_iter, tol = p.max_iter, 10.0 * p.tol
    solution = solve_heat(
        engine_of(signals, problem, p.model),
        start,
        learn_scales=fit.learn_scales,
        max_iter=max_iter,
        tol=tol,
        first_tol=tol,
    )
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return replace(solution, memory=None)
