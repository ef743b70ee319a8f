"""One fit of LearnHeat from resolved parameters: choose, solve, refine, measure confidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from heatgraph.learners.large import fit_large
from heatgraph.learners.outcome import CUT
from heatgraph.learners.parameters import HeatParameters, first_scales
from heatgraph.objective.atoms import ATOMS
from heatgraph.objective.heat import HeatObjective, Signals
from heatgraph.selection.density import fit_for_edges
from heatgraph.selection.elsewhere import choose_elsewhere
from heatgraph.selection.penalties import Choice, Grid, choose, n_stretching, stretched
from heatgraph.solvers.certify import Certified
from heatgraph.solvers.ensemble import Ensemble, Objective, ensemble_of
from heatgraph.solvers.heat import keep_solution, recall, solve_heat
from heatgraph.solvers.keeping import FORGETFUL, Keeper, Record
from heatgraph.solvers.majorise import PENALTIES, ROUGH
from heatgraph.solvers.paper import solve_paper
from heatgraph.solvers.result import Monitor, Solution, Status, better_of
from heatgraph.solvers.threads import bounded_blas

__all__ = ["Fit", "fit_heat", "mean_around", "refit", "refit_resamples"]

Array = NDArray[np.float64]
Report = Callable[[int, int], None]  # paths done, and of how many

AROUND = (0.5, 2.0)  # times the chosen alpha: the other fits whose mean says what is an edge
BETA_RANGE = 1e3  # how far beta may go from its usual value to reach a number of edges


@dataclass(frozen=True, eq=False)
class Fit:
    """A solution, the objective that it solves, and how its parameters were chosen."""

    solution: Solution
    objective: Objective
    choice: Choice | None
    large: Certified | None = None
    learn_scales: bool = True


def fit_heat(
    p: HeatParameters,
    monitor: Monitor | None,
    report: Report | None,
    *,
    beta_is_free: bool,
    keeper: Keeper = FORGETFUL,
) -> Fit:
    """Choose what is not given, then fit on all signals.

    A number of edges is met by beta, where that is free: the larger, the more edges.
    """
    if p.solver == "sparse":
        large = fit_large(p, monitor=monitor, keeper=keeper)
        return Fit(large.solution, large.objective, None, large, p.learn_scales)
    choice = None
    alpha, beta, tau = p.alphas[0], p.betas[0], p.starts[0]
    if p.grid is not None:
        stretch = p.learn_scales and p.unit_atoms and p.n_edges is None
        M = ensemble_of(p.signals).n_signals
        reports = _in_turn(report, n_stretching(M, beta_is_free) if stretch else 0)
        choice = _choose(p, p.grid, p.objective(alpha, beta), reports[0], keeper.within("choice"))
        tau = next(start for start in p.starts if start.size == choice.n_scales)
        if stretch:
            choice = _stretch(p, choice, beta_is_free, reports[1], keeper.within("stretch"))
            p, tau = replace(p, learn_scales=False), choice.scales
        alpha, beta = choice.alpha, choice.beta

    def at(beta: float) -> Solution:
        return _solve(p, p.objective(alpha, beta), tau, monitor, keeper.within(f"beta {beta!r}"))

    if p.n_edges is not None and beta_is_free:
        count = partial(_count, wanted=p.n_edges)
        beta, solution = fit_for_edges(at, count, p.n_edges, beta / BETA_RANGE, beta * BETA_RANGE)
    else:
        solution = at(beta)
    return Fit(solution, p.objective(alpha, beta), choice, learn_scales=p.learn_scales)


def _in_turn(report: Report | None, later: int) -> tuple[Report | None, Report | None]:
    """Reports of two searches as one, of which the second has so many paths."""
    if report is None:
        return None, None
    earlier = 0

    def first(done: int, of: int) -> None:
        nonlocal earlier
        earlier = of
        report(done, of + later)

    return first, lambda done, of: report(earlier + done, earlier + of)


def _stretch(
    p: HeatParameters,
    choice: Choice,
    beta_is_free: bool,
    report: Report | None,
    keeper: Keeper,
) -> Choice:
    """The choice with scales that are to be held, see :func:`stretched`."""
    held = replace(p, learn_scales=False)

    def choose_among(grid: Grid) -> Choice:
        return _choose(held, grid, p.objective(choice.alpha, choice.beta), report, keeper)

    return stretched(choice, beta_is_free, choose_among)


def _choose(
    p: HeatParameters,
    grid: Grid,
    objective: HeatObjective,
    report: Report | None,
    keeper: Keeper,
) -> Choice:
    how: dict[str, Any] = {
        "penalty": p.penalty,
        "learn_scales": p.learn_scales,
        "rng": p.rng,
        "report": report,
        "keeper": keeper,
    }
    if isinstance(p.signals, Signals):
        return choose(objective, p.signals, p.w, grid, n_jobs=p.n_jobs, model=p.model, **how)
    return choose_elsewhere(objective, p.signals, p.w, grid, **how)


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
        return kept
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
    elif p.signals.is_small:
        # What a worker needs of the fit is its graph, and not the codes, which it could not read.
        bare = replace(fit, solution=replace(fit.solution, elsewhere=None))
        other = replace(p, signals=Signals(np.empty((p.candidates.n_nodes, 0))))
        each = ((other, bare, draw) for draw in missing)
        fits = p.signals.each_whole(_refit_whole, each)
    else:
        fits = (refit(p, fit, p.signals.take(draw)) for draw in missing)
    return _weights(stages, kept, fits)


def _refit(p: HeatParameters, fit: Fit, signals: Signals, times_alpha: float = 1.0) -> Solution:
    # In a process of its own, where the limits of the caller's do not hold.
    with bounded_blas():
        return refit(p, fit, signals, times_alpha)


def _refit_whole(signals: Signals, p: HeatParameters, fit: Fit, draw: NDArray[np.intp]) -> Solution:
    solution = _refit(replace(p, signals=signals), fit, signals.take(draw))
    return replace(solution, H=solution.H[:, :, :0])


def refit(
    p: HeatParameters, fit: Fit, signals: Signals | Ensemble, times_alpha: float = 1.0
) -> Solution:
    """Fit other signals, a resample say, or with another alpha, from where a fit ended."""
    objective = fit.objective
    ensemble = p.model.ensemble(signals)
    share = ensemble.n_signals / ensemble_of(p.signals).n_signals
    problem = p.objective(times_alpha * objective.alpha, objective.beta * share)
    first = solve_heat(
        problem,
        ensemble,
        0.5 * (fit.solution.w + p.w),
        fit.solution.tau,
        learn_scales=fit.learn_scales,
        max_iter=p.max_iter,
        tol=10.0 * p.tol,
    )
    refine, _ = PENALTIES[p.penalty]
    solution = refine(
        problem,
        ensemble,
        first,
        learn_scales=fit.learn_scales,
        max_iter=p.max_iter,
        tol=10.0 * p.tol,
    )
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return solution
