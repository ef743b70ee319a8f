"""One fit of LearnHeat from resolved parameters: choose, solve, refine, measure confidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from heatgraph.estimators.fitted_graph import CUT
from heatgraph.estimators.parameters import HeatParameters, first_scales
from heatgraph.models.atoms import ATOMS
from heatgraph.models.heat import HeatObjective, Signals
from heatgraph.selection.choose_parameters import Choice, choose
from heatgraph.selection.edge_count_search import fit_for_edges
from heatgraph.selection.folds import make_folds
from heatgraph.solvers.checkpoint_protocol import FORGETFUL, Keeper, Record
from heatgraph.solvers.heat import keep_solution, recall, solve_heat
from heatgraph.solvers.log_penalty import PENALTIES, ROUGH
from heatgraph.solvers.palm import solve_paper
from heatgraph.solvers.result import Monitor, Solution, Status, better_of
from heatgraph.solvers.signal_access import Ensemble, Objective, ensemble_of
from heatgraph.solvers.threads import bounded_blas

__all__ = ["Fit", "fit_heat", "mean_around", "refit", "refit_resamples"]

Array = NDArray[np.float64]
Report = Callable[[int, int], None]  # paths done, and of how many

AROUND = (0.5, 2.0)  # times the chosen alpha: the other fits whose mean says what is an edge
MOST_SIGNALS = 600  # that parameters are chosen by, in memory
STEPS_AROUND = 40  # of the graph, from one alpha to the next
BETA_RANGE = 1e3  # how far beta may go from its usual value to reach a number of edges


@dataclass(frozen=True, eq=False)
class Fit:
    """A solution, the objective that it solves, and how its parameters were chosen."""

    solution: Solution
    objective: Objective
    choice: Choice | None
    learn_scales: bool = True


def fit_heat(
    p: HeatParameters,
    monitor: Monitor | None,
    report: Report | None,
    *,
    beta_is_free: bool,
    keeper: Keeper = FORGETFUL,
    earlier: Fit | None = None,
) -> Fit:
    """Choose what is not given, then fit on all signals.

    A number of edges is met by beta, where that is free: the larger, the more edges.  An
    ``earlier`` fit of the same signals is gone on from, with the parameters that it chose.
    """
    if earlier is not None and isinstance(earlier.objective, HeatObjective):
        p = replace(p, learn_scales=earlier.learn_scales)
        solution = _go_on(p, earlier.objective, earlier.solution, monitor, keeper.within("more"))
        return replace(earlier, solution=solution)
    choice = None
    alpha, beta, tau = p.alphas[0], p.betas[0], p.starts[0]
    if p.grid is not None:
        choice = _choose(p, p.objective(alpha, beta), report, keeper.within("choice"))
        alpha, beta, tau = choice.alpha, choice.beta, choice.scales
        if p.grid.stretch:
            p = replace(p, learn_scales=False, w=choice.w)
        elif p.learn_scales:
            tau = next(start for start in p.starts if start.size == choice.n_scales)

    def at(beta: float) -> Solution:
        return _solve(p, p.objective(alpha, beta), tau, monitor, keeper.within(f"beta {beta!r}"))

    if p.n_edges is not None and beta_is_free:
        count = partial(_count, wanted=p.n_edges)
        beta, solution = fit_for_edges(at, count, p.n_edges, beta / BETA_RANGE, beta * BETA_RANGE)
    else:
        solution = at(beta)
    return Fit(solution, p.objective(alpha, beta), choice, learn_scales=p.learn_scales)


def _choose(
    p: HeatParameters, objective: HeatObjective, report: Report | None, keeper: Keeper
) -> Choice:
    """Choose by signals in memory; where there are thousands, by every so-manieth of them."""
    assert p.grid is not None  # for the type checker: asked by the caller
    M = ensemble_of(p.signals).n_signals
    some = np.arange(0, M, max(1, M // MOST_SIGNALS))
    signals = p.signals
    if not isinstance(signals, Signals):
        signals = signals.sample(some)
    elif some.size < M:
        signals = signals.take(some)
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
        penalty=p.penalty,
        learn_scales=p.learn_scales,
        rng=p.rng,
        n_jobs=p.n_jobs,
        report=report,
        keeper=keeper,
        model=p.model,
    )
    tables = [
        None if table is None else table.assign(beta=table["beta"] / share)
        for table in (choice.table, choice.stretches)
    ]
    assert tables[0] is not None  # for the type checker: there is a table
    return replace(choice, beta=choice.beta / share, table=tables[0], stretches=tables[1])


def _count(solution: Solution, wanted: int) -> int:
    """The number of edges; a fit that the user stopped counts as met, which ends the search."""
    return wanted if solution.status is Status.INTERRUPTED else int((solution.w >= CUT).sum())


def _solve(
    p: HeatParameters,
    objective: HeatObjective,
    tau: Array,
    monitor: Monitor | None,
    keeper: Keeper,
) -> Solution:
    ensemble = p.model.ensemble(p.signals, p.n_jobs)
    kept = recall(keeper, objective, ensemble)
    if kept is not None:
        return _go_on(p, objective, kept, monitor, keeper)
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
    first = _first_fit(p, objective, ensemble, tau, monitor, keeper)
    refine, _ = PENALTIES[p.penalty]
    solution = refine(
        objective,
        ensemble,
        first,
        learn_scales=p.learn_scales,
        max_iter=p.max_iter,
        tol=p.tol,
        monitor=monitor,
        keeper=keeper,
    )
    if solution.status is not Status.INTERRUPTED:
        keep_solution(keeper, solution, ensemble)
    return solution


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
    ensemble = p.model.ensemble(p.signals, p.n_jobs)
    how: dict[str, Any] = {"learn_scales": p.learn_scales, "tol": p.tol, "monitor": monitor}
    if p.penalty == "l1":
        more = solve_heat(
            objective,
            ensemble,
            solution.w,
            solution.tau,
            max_iter=p.max_iter - solution.n_iter,
            codes=solution.codes,
            **how,
        )
        history = np.append(solution.objective[:-1], more.objective)
        found = replace(more, objective=history, n_iter=solution.n_iter + more.n_iter)
    else:
        refine, _ = PENALTIES[p.penalty]
        start = replace(solution, status=Status.CONVERGED)
        found = refine(objective, ensemble, start, max_iter=p.max_iter, **how)
    if found.status is not Status.INTERRUPTED:
        keep_solution(keeper, found, ensemble)
    return found


def _first_fit(
    p: HeatParameters,
    objective: HeatObjective,
    ensemble: Ensemble,
    tau: Array,
    monitor: Monitor | None,
    keeper: Keeper,
) -> Solution:
    """The l1 fit; with unit atoms, scales to start from are tried beside the usual start.

    Large scales sit on a plateau, where every atom is nearly constant: the usual start, below it,
    finds the same minimum whatever the caller's.  (Raw atoms have no minimum worth finding.)
    """

    def from_scales(start: Array, name: str, tol: float = p.tol) -> Solution:
        return solve_heat(
            objective,
            ensemble,
            p.w,
            start,
            learn_scales=p.learn_scales,
            max_iter=p.max_iter,
            tol=tol,
            monitor=monitor,
            keeper=keeper.within(name),
        )

    usual = first_scales(tau.size)
    if not p.learn_scales or p.atoms is ATOMS["raw"] or np.array_equal(tau, usual):
        # Under another penalty this fit is no more than a start.
        return from_scales(tau, "first", p.tol if p.penalty == "l1" else max(p.tol, ROUGH))
    return better_of(partial(from_scales, usual, "first"), partial(from_scales, tau, "second"))


def mean_around(p: HeatParameters, fit: Fit, keeper: Keeper = FORGETFUL) -> Array:
    """The mean weights of the fit, and of others at half and twice its alpha.

    Which alpha is chosen among neighbours is much of a toss-up, and what is an edge at one of them
    only is most often none.
    """
    stages = [keeper.within(f"around{k}") for k in range(len(AROUND))]
    kept = [stage.get() for stage in stages]
    missing = [c for c, record in zip(AROUND, kept, strict=True) if record is None]
    if isinstance(p.signals, Signals):
        fits = Parallel(n_jobs=min(p.n_jobs, len(AROUND)), return_as="generator")(
            delayed(_refit)(p, fit, p.signals, c) for c in missing
        )
    else:
        fits = (refit(p, fit, p.signals, c) for c in missing)
    return _mean([fit.solution.w, *_weights(stages, kept, fits)])


def _mean(weights: Sequence[Array]) -> Array:
    mean: Array = np.mean(weights, axis=0)
    return mean


def _weights(
    stages: Sequence[Keeper], kept: Sequence[Record | None], fits: Iterator[Solution]
) -> list[Array]:
    """The weights that were kept, and in between those of the fits made now, which are kept too."""
    weights = []
    for stage, record in zip(stages, kept, strict=True):
        weights.append(next(fits).w if record is None else record.arrays["w"])
        stage.put(Record(arrays={"w": weights[-1]}))
    return weights


def refit_resamples(p: HeatParameters, fit: Fit, n: int, keeper: Keeper = FORGETFUL) -> list[Array]:
    """The weights of ``n`` fits of signals drawn with replacement."""
    M = ensemble_of(p.signals).n_signals
    stages = [keeper.within(f"resample{k}") for k in range(n)]
    kept = [stage.get() for stage in stages]
    # Every draw is made, so that those that follow are the same whatever was kept.
    draws = (p.rng.integers(0, M, M) for _ in range(n))
    missing = (draw for draw, record in zip(draws, kept, strict=True) if record is None)
    if isinstance(p.signals, Signals):
        fits = Parallel(n_jobs=p.n_jobs, return_as="generator")(
            delayed(_refit)(p, fit, p.signals.take(draw)) for draw in missing
        )
    else:
        fits = (refit(p, fit, p.signals.take(draw)) for draw in missing)
    return _weights(stages, kept, fits)


def _refit(p: HeatParameters, fit: Fit, signals: Signals, times_alpha: float = 1.0) -> Solution:
    # In a process of its own, where the limits of the caller's do not hold.
    with bounded_blas():
        return refit(p, fit, signals, times_alpha)


def refit(
    p: HeatParameters, fit: Fit, signals: Signals | Ensemble, times_alpha: float = 1.0
) -> Solution:
    """Fit other signals, a resample say, or with another alpha, from where a fit ended."""
    objective = fit.objective
    ensemble = p.model.ensemble(signals)
    share = ensemble.n_signals / ensemble_of(p.signals).n_signals
    problem = p.objective(times_alpha * objective.alpha, objective.beta * share)
    how: dict[str, Any] = {"learn_scales": fit.learn_scales, "max_iter": p.max_iter}
    refine, _ = PENALTIES[p.penalty]
    if signals is p.signals:  # whose codes are known
        start = replace(fit.solution, n_iter=0)
        how["max_iter"] = min(p.max_iter, STEPS_AROUND)
        if p.penalty == "l1":
            solution = solve_heat(
                problem, ensemble, start.w, start.tau, tol=ROUGH, codes=start.codes, **how
            )
        else:
            solution = refine(problem, ensemble, start, tol=ROUGH, **how)
    else:
        between = 0.5 * (fit.solution.w + p.w)
        first = solve_heat(problem, ensemble, between, fit.solution.tau, tol=10.0 * p.tol, **how)
        solution = refine(problem, ensemble, first, tol=10.0 * p.tol, **how)
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return replace(solution, memory=None)
