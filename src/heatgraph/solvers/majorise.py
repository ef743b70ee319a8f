"""The logarithmic penalty, by majorisation: a few fits whose penalties are discounted.

The l1 penalty that finds the sources also shrinks them, and what the codes lose the graph makes
up for.  A penalty that flattens for large codes does not shrink them::

    alpha e sum log(1 + u / e),   u = omega_si |H_sim|,   e = alpha,

where ``e`` is the size at which an atom's share of the signal is no longer taken for noise.  It is
concave in ``u``, so that at ``u0`` its tangent lies above it: slope ``alpha / (1 + u0 / e)``, an
l1 penalty with a discount on each code.  Every round minimises the tangent's objective from where
the last one ended; the l1 problem itself is the round that starts from no sources at all.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heatgraph.objective.heat import Dictionary, Signals
from heatgraph.solvers.coding import Coding
from heatgraph.solvers.ensemble import (
    CODING_TOL,
    Ensemble,
    Objective,
    code_signals,
    discount_of,
    ensemble_of,
)
from heatgraph.solvers.heat import solve_heat
from heatgraph.solvers.keeping import FORGETFUL, Keeper
from heatgraph.solvers.result import Monitor, Progress, Solution, Status

__all__ = ["PENALTIES", "ROUNDS", "Coder", "Refine", "code_log", "discount_of", "refine_log"]

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


ROUNDS = 3  # after the l1 round; more change the graph no further


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
    neither within a round nor from one to the next; its last value is the objective's own.
    ``max_iter`` counts the iterations of all; once it is reached, the rounds only find the sources.
    """
    ensemble = ensemble_of(signals, n_threads)
    solution, history = start, start.objective
    for k in range(ROUNDS):
        done = solution.n_iter
        if solution.status is Status.INTERRUPTED:
            break
        try:
            D = objective.dictionary(solution.w, solution.tau)
            discount, above = ensemble.discount(D, solution.codes, objective.alpha)
            following = solve_heat(
                objective,
                ensemble,
                solution.w,
                solution.tau,
                learn_scales=learn_scales,
                max_iter=max_iter - done,
                tol=tol,
                codes=solution.codes,
                discount=discount,
                monitor=None if monitor is None else _shifted(monitor, done, max_iter, above),
                keeper=keeper.within(f"round{k + 1}"),
            )
        except KeyboardInterrupt:
            # Before the round had a point of its own.
            solution = replace(solution, status=Status.INTERRUPTED)
            break
        # The round begins at the graph where the last one ended, with new sources.
        history = np.append(history[:-1], following.objective + above)
        solution = replace(following, n_iter=done + following.n_iter)
    try:
        value = _value(objective, ensemble, solution)
    except KeyboardInterrupt:  # what the tangent was worth is not far above
        return replace(solution, objective=history, status=Status.INTERRUPTED)
    return replace(solution, objective=np.append(history[:-1], value))


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
) -> Coding:
    """The sources of signals under the logarithmic penalty: the same rounds, the graph held.

    The gap is that of the last round's lasso.
    """
    code = partial(code_signals, D, signals, alpha, tol=tol, n_threads=n_threads, positive=positive)
    coding = code()
    for _ in range(ROUNDS):
        discount = discount_of(np.abs(coding.h) * D.omega.ravel(), alpha)
        coding = code(start=coding.h, discount=discount)
    return coding


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
