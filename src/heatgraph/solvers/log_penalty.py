"""The logarithmic penalty, by majorisation: rounds of fits whose penalties are discounted.

Differs from the paper, whose penalty is the l1 norm.  That finds the sources and also shrinks
them, and what the codes lose the graph makes up for.  A penalty
that flattens for large codes does not shrink them::

    alpha e sum log(1 + u / e),   u = omega_si |H_sim|,   e = alpha,

where ``e`` is the size at which an atom's share of the signal is no longer taken for noise.  It is
concave in ``u``, so that at ``u0`` its tangent lies above it: slope ``alpha / (1 + u0 / e)``, an
l1 penalty with a discount on each code.  Every round takes a few steps on the tangent's objective
from where the last one ended; the l1 problem itself is the round that starts from no sources.

Where a tangent touches, its objective has the value and the gradient of the objective with the
logarithmic penalty.  So at the start of a round, before any step, the tangent's residual is that
of the objective itself, up to the fall of the objective when the sources are found anew.  The
rounds go on until the sum of the two is at most ``tol``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from heatgraph.models.heat import Dictionary, Signals
from heatgraph.solvers.checkpoint_protocol import FORGETFUL, Keeper
from heatgraph.solvers.heat import read_solution, solution_record, solve_heat, with_codes
from heatgraph.solvers.lasso import Coding
from heatgraph.solvers.result import Monitor, Progress, Solution, Status
from heatgraph.solvers.signal_access import (
    CODING_ROUNDS,
    CODING_TOL,
    Ensemble,
    Objective,
    code_signals,
    discount_of,
    ensemble_of,
    settle_codes,
)

__all__ = ["PENALTIES", "ROUGH", "Coder", "Refine", "code_log", "discount_of", "refine_log"]

Array = NDArray[np.float64]


class Refine(Protocol):
    """From the l1 fit of a problem to the fit with its own penalty."""

    def __call__(
        self,
        objective: Objective,
        signals: Signals | Ensemble,
        start: Solution,
        *,
        learn_scales: bool,
        max_iter: int,
        tol: float,
        monitor: Monitor | None = None,
        n_threads: int = 1,
        keeper: Keeper = FORGETFUL,
    ) -> Solution: ...


class Coder(Protocol):
    """How the sources of signals are found on a dictionary."""

    def __call__(
        self,
        D: Dictionary,
        signals: Signals,
        alpha: float,
        *,
        tol: float = CODING_TOL,
        n_threads: int = 1,
        positive: bool = False,
    ) -> Coding: ...


MAX_ROUNDS = 2000
ROUGH = 1e-2  # residual of the l1 fit where it is only the start


def refine_log(
    objective: Objective,
    signals: Signals | Ensemble,
    start: Solution,
    *,
    learn_scales: bool,
    max_iter: int,
    tol: float,
    monitor: Monitor | None = None,
    n_threads: int = 1,
    keeper: Keeper = FORGETFUL,
) -> Solution:
    """Minimise the objective with the logarithmic penalty, from the l1 fit of the same problem.

    The history goes on from that of the l1 fit: it is that of the majoriser, which never rises,
    neither within a round nor from one to the next; its last value is the objective's own, and so
    is the residual.  ``max_iter`` counts the iterations of all; once it is reached, the sources
    are found and no more.  A fit to be compared with others, of a ``tol`` of `ROUGH` or more, ends
    without a last look at its sources.
    """
    ensemble = ensemble_of(signals, n_threads)
    stage = _Stage(objective, ensemble, keeper.within("rounds"))
    solution, history, first, settled = stage.last(start)
    for k in range(first, MAX_ROUNDS):
        if solution.status is Status.INTERRUPTED:
            break
        done = solution.n_iter
        try:
            if done >= max_iter and not settled:
                solution, settled = stage.settled(solution) if tol < ROUGH else solution, True
            D = objective.dictionary(solution.w, solution.tau)
            discount, above = ensemble.discount(D, solution.codes, objective.alpha)
            following = solve_heat(
                objective,
                ensemble,
                solution.w,
                solution.tau,
                learn_scales=learn_scales,
                max_iter=min(ensemble.steps_per_tangent, max_iter - done),
                tol=0.5 * tol,
                codes=solution.codes,
                discount=discount,
                memory=solution.memory,
                monitor=None if monitor is None else _shifted(monitor, done, max_iter, above),
                keeper=stage.keeper.within(f"round{k}"),
            )
            # The round begins at the graph where the last one ended, with new sources.
            history = np.append(history[:-1], following.objective + above)
            still = following.n_iter == 0
            if still:
                before = _value(objective, ensemble, solution)
                fall = before - above - float(following.objective[0])
                residual = following.residual + max(fall, 0.0) / (abs(before) or 1.0)
                following = replace(following, residual=residual)
            solution = replace(following, n_iter=done + following.n_iter)
            if solution.status is Status.INTERRUPTED:
                break
            if still and (settled or solution.status is not Status.CONVERGED):
                break
            settled = still and solution.residual <= tol
            if settled and tol < ROUGH:
                solution = stage.settled(solution)
            stage.keep(solution, history, k, settled)
        except KeyboardInterrupt:
            # Before the round had a point of its own.
            solution = replace(solution, status=Status.INTERRUPTED)
            break
    if solution.status is Status.CONVERGED and solution.residual > tol:
        solution = replace(solution, status=Status.STALLED)
    try:
        value = _value(objective, ensemble, solution)
    except KeyboardInterrupt:  # what the tangent was worth is not far above
        return replace(solution, objective=history, status=Status.INTERRUPTED, memory=None)
    return replace(solution, objective=np.append(history[:-1], value), memory=None)


@dataclass(frozen=True, eq=False)
class _Stage:
    """The rounds of one problem: how sources settle, and what a keeper holds in between."""

    objective: Objective
    ensemble: Ensemble
    keeper: Keeper

    def settled(self, solution: Solution) -> Solution:
        """The same graph with the sources at which the objective is stationary."""
        D = self.objective.dictionary(solution.w, solution.tau)
        codes = self.ensemble.settle(self.objective, D, solution.codes)
        return with_codes(solution, self.ensemble, codes)

    def keep(self, solution: Solution, history: Array, k: int, settled: bool) -> None:
        if self.keeper is FORGETFUL:
            return
        record = solution_record(replace(solution, objective=history), self.ensemble)
        self.keeper.put(replace(record, facts={**record.facts, "round": k, "settled": settled}))

    def last(self, start: Solution) -> tuple[Solution, Array, int, bool]:
        """The solution to go on from, the history up to it, and the number of the round.

        The last value is whether its sources are stationary, the graph held.
        """
        record = self.keeper.get()
        if record is None:
            return start, start.objective, 0, False
        solution = read_solution(record, self.objective, self.ensemble)
        facts = record.facts
        return solution, solution.objective, int(facts["round"]) + 1, bool(facts["settled"])


def _value(objective: Objective, ensemble: Ensemble, solution: Solution) -> float:
    """The objective with the logarithmic penalty: what the tangent at a point is worth there."""
    D = objective.dictionary(solution.w, solution.tau)
    _, above = ensemble.discount(D, solution.codes, objective.alpha)
    moments = ensemble.moments(objective, D, solution.codes)
    return objective.value(D, solution.w, moments) + above


def keep_l1(
    objective: Objective,
    signals: Signals | Ensemble,
    start: Solution,
    *,
    learn_scales: bool,
    max_iter: int,
    tol: float,
    monitor: Monitor | None = None,
    n_threads: int = 1,
    keeper: Keeper = FORGETFUL,
) -> Solution:
    """The l1 fit as it is: the refinement of the paper's own penalty."""
    return start


def code_log(
    D: Dictionary,
    signals: Signals,
    alpha: float,
    *,
    tol: float = CODING_TOL,
    n_threads: int = 1,
    positive: bool = False,
    n_rounds: int = CODING_ROUNDS,
) -> Coding:
    """The sources of signals under the logarithmic penalty: the same rounds, the graph held.

    They start from those of the l1 penalty, and go on until the codes of a signal are stationary.
    The gap is that of the last round's lasso.
    """
    how: dict[str, Any] = {"tol": tol, "n_threads": n_threads, "positive": positive}
    first = code_signals(D, signals, alpha, **how)
    return settle_codes(D, signals, alpha, first, n_rounds=n_rounds, **how)


def _shifted(monitor: Monitor, done: int, max_iter: int, above: float) -> Monitor:
    def report(step: Progress) -> None:
        monitor(
            replace(
                step,
                iteration=step.iteration + done,
                max_iter=max_iter,
                objective=step.objective + above,
            )
        )

    return report


# What follows the l1 fit, and how the sources of further signals are found.
PENALTIES: dict[str, tuple[Refine, Coder]] = {
    "l1": (keep_l1, code_signals),
    "log": (refine_log, code_log),
}
