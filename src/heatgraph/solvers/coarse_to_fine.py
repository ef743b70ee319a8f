"""Rough atoms first: far from a minimum, what they leave out is less than what is left to fall."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heatgraph.models.sparse import SparseObjective
from heatgraph.solvers.checkpoint_protocol import FORGETFUL, Keeper
from heatgraph.solvers.heat import keep_solution, recall, solve_heat
from heatgraph.solvers.result import Monitor, Progress, Solution, Status
from heatgraph.solvers.sparse_signals import SparseSignals
from heatgraph.solvers.threads import bounded_blas

__all__ = ["later", "rough_enough", "solve_by_stages"]

Array = NDArray[np.float64]

# Residuals a thousand nodes, and the least heat of atoms with which fits settle as far as that.
# Measured on geometric graphs of 2000 nodes, where the residual with atoms of 1e-5 was then much
# the same; it is the promise of the best pair, times half the nodes.
ROUGH = ((0.25, 1e-3), (0.025, 3e-4))
POLYNOMIAL = 0.01  # of the least heat of an atom: what its polynomial may be wrong by


def rough_enough(objective: SparseObjective, residual: float) -> SparseObjective:
    """The same with the roughest atoms that a fit can settle with, down to a residual.

    These are in single precision, and of polynomials that are no better than they are.
    """
    stages = _rough(objective)
    reach = max((reach for until, reach in stages if until <= residual), default=0.0)
    if not 0.0 < objective.reach < reach:
        return objective
    tol = max(objective.tol, POLYNOMIAL * reach)
    return replace(objective, reach=reach, tol=tol, dtype=np.float32)


def solve_by_stages(
    objective: SparseObjective,
    ensemble: SparseSignals,
    w: Array,
    tau: Array,
    *,
    learn_scales: bool,
    max_iter: int,
    tol: float,
    codes: Any = None,
    monitor: Monitor | None = None,
    keeper: Keeper = FORGETFUL,
) -> Solution:
    """As `solve_heat`, with rougher atoms than the objective has as long as these will do.

    The history may rise a little where one stage gives way to the next, whose atoms hold more.
    """
    kept = recall(keeper, objective, ensemble)
    if kept is not None:
        return kept
    solution: Solution | None = None
    history = np.empty(0)
    done = 0
    for stage, until in _stages(objective, tol):
        if done >= max_iter and done > 0 and stage is not objective:
            continue  # the last one still says what the residual is
        try:
            # BLAS adds up vectors here and no more; its threads would spin where ours work.
            with bounded_blas():
                solution = solve_heat(
                    stage,
                    ensemble.of_type(stage.dtype),
                    w,
                    tau,
                    learn_scales=learn_scales,
                    max_iter=max_iter - done,
                    tol=until,
                    codes=codes,
                    monitor=None if monitor is None else later(monitor, done, max_iter),
                    keeper=keeper.within(f"reach{stage.reach:g}"),
                )
        except KeyboardInterrupt:
            if solution is None:
                raise
            # Before the stage had a point of its own: the last one's has to do.
            solution = replace(solution, status=Status.INTERRUPTED)
            break
        history = np.append(history[:-1], solution.objective)
        done += solution.n_iter
        w, tau, codes = solution.w, solution.tau, solution.codes
        if solution.status is Status.INTERRUPTED:
            break
    assert solution is not None  # for the type checker: there is a stage
    solution = replace(solution, objective=history, n_iter=done)
    if solution.status is not Status.INTERRUPTED:
        keep_solution(keeper, solution, ensemble)
    return solution


def _rough(objective: SparseObjective) -> list[tuple[float, float]]:
    thousands = objective.layout.n_nodes / 1000
    return [(until * thousands, reach) for until, reach in ROUGH]


def _stages(objective: SparseObjective, tol: float) -> Iterator[tuple[SparseObjective, float]]:
    """Objectives, the roughest first, and the residuals down to which they are to be used."""
    for until, _ in _rough(objective):
        rough = rough_enough(objective, until)
        if until > tol and rough.reach > objective.reach:
            yield rough, until
    yield objective, tol


def later(monitor: Monitor, done: int, max_iter: int) -> Monitor:
    """The same, of iterations that come after those ``done``."""

    def report(step: Progress) -> None:
        monitor(replace(step, iteration=step.iteration + done, max_iter=max_iter))

    return report
