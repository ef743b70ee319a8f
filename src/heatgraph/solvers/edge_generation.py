"""From a few candidate edges to all pairs: price the others, add those that pay, go on.

When no pair is left that pays, the answer is a stationary point of the problem over every pair of
nodes, although most were never candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from heatgraph.models.all_pairs_gradient import Prices, price
from heatgraph.models.sparse import PRICED_ROWS, SparseObjective
from heatgraph.solvers.checkpoint_protocol import FORGETFUL, Keeper
from heatgraph.solvers.coarse_to_fine import later, rough_enough, solve_by_stages
from heatgraph.solvers.result import Monitor, Solution, Status
from heatgraph.solvers.sparse_signals import SparseSignals

__all__ = ["Certified", "price_all", "price_tangent", "solve_priced", "with_pairs"]

Array = NDArray[np.float64]

A_NODE = 12  # new candidates at one node in a round
SEED = 3e-3  # weight of a pair that would pay, where the mean of all degrees is one
FINE = 1e-5  # a certificate needs atoms that leave out no more heat than this
SETTLED = 0.5  # share of the gap to which the fit on the candidates settles before pairs are priced
# While pairs promise far more than the gap: the share of it to which the fit settles in between.
MEANWHILE = 0.1


@dataclass(frozen=True, eq=False)
class Certified:
    """A solution, the problem on the candidates it ended with, and the gap over all pairs."""

    solution: Solution
    objective: SparseObjective
    ensemble: SparseSignals
    gap: float


def _fine(objective: SparseObjective) -> SparseObjective:
    """The same, with atoms fine enough for a certificate."""
    return replace(objective, reach=min(objective.reach, FINE), most_rows=PRICED_ROWS)


def price_all(
    objective: SparseObjective, ensemble: SparseSignals, solution: Solution, *, tol: float
) -> Prices:
    """The prices of all pairs at a solution under the l1 penalty."""
    objective = _fine(objective)
    D = objective.dictionary(solution.w, solution.tau)
    codes, moments = ensemble.code(objective, D, solution.codes, None)
    factors = ensemble.factors(D, codes)
    return price(objective, D, solution.w, moments, factors, tol=tol, most=A_NODE)


def price_tangent(
    objective: SparseObjective, ensemble: SparseSignals, solution: Solution, *, tol: float
) -> Prices:
    """The prices of all pairs at a solution under the logarithmic penalty: by its tangent there."""
    objective = _fine(objective)
    D = objective.dictionary(solution.w, solution.tau)
    moments = ensemble.moments(objective, D, solution.codes)
    factors = ensemble.factors(D, solution.codes)
    return price(objective, D, solution.w, moments, factors, tol=tol, most=A_NODE)


def with_pairs(fit: Certified, prices: Prices) -> Certified:
    """The same solution with more candidates, and a little weight on those that would pay.

    Without any, the slope of a pair between nodes far apart could not be seen: it depends on what
    is around either, and heat from one does not reach the other.
    """
    layout, w = fit.objective.layout.with_pairs(prices.pairs, fit.solution.w, SEED)
    w *= fit.objective.total / w.sum()
    return replace(
        fit,
        solution=replace(fit.solution, w=w),
        objective=replace(fit.objective, layout=layout),
        ensemble=replace(fit.ensemble, layout=layout),
    )


def solve_priced(
    objective: SparseObjective,
    ensemble: SparseSignals,
    w: Array,
    tau: Array,
    *,
    learn_scales: bool,
    max_iter: int,
    tol: float,
    gap: float,
    n_rounds: int,
    monitor: Monitor | None = None,
    keeper: Keeper = FORGETFUL,
) -> Certified:
    """Minimise over all pairs from the candidates of ``objective``, to a relative ``gap``.

    Each round settles the fit on its candidates first: to price pairs before floods nodes with
    edges that the next steps would have made needless.  It settles the finer, the less the pairs
    that came last had promised.  What the fit took to zero and prices would take back starts again.
    """
    codes, done = None, 0
    history = np.empty(0)
    solution: Solution | None = None
    reached = np.inf
    promised = 1.0
    for k in range(n_rounds):
        finest = max(tol, SETTLED * gap)
        settled = max(finest, MEANWHILE * promised)
        stage = _fine(objective)
        if settled > finest:
            stage = rough_enough(stage, settled)
        try:
            solution = solve_by_stages(
                stage,
                ensemble,
                w,
                tau,
                learn_scales=learn_scales,
                max_iter=max(1, max_iter - done),
                tol=settled,
                codes=codes,
                monitor=None if monitor is None else later(monitor, done, max_iter),
                keeper=keeper.within(f"priced{k}"),
            )
        except KeyboardInterrupt:
            if solution is None:
                raise
            # Before the round had a point of its own: the last one's has to do.
            solution, reached = replace(solution, status=Status.INTERRUPTED), float("nan")
            break
        history = np.append(history[:-1], solution.objective)
        done += solution.n_iter
        if solution.status is Status.INTERRUPTED:
            reached = float("nan")
            break
        try:
            prices = price_all(objective, ensemble, solution, tol=SETTLED * gap)
        except KeyboardInterrupt:
            solution, reached = replace(solution, status=Status.INTERRUPTED), float("nan")
            break
        reached = prices.gap
        # Where heat is everywhere no one can say; the next round settles further, and it recedes.
        promised = MEANWHILE * promised if np.isnan(reached) else min(promised, reached)
        if solution.status is Status.STALLED and stage.reach > _fine(objective).reach:
            promised = 0.0  # rough atoms hide what is left: no more of them
        if reached <= gap or done >= max_iter:
            break
        if settled == finest and not len(prices.pairs):
            break
        fit = with_pairs(Certified(solution, objective, ensemble, reached), prices)
        objective, ensemble, solution = fit.objective, fit.ensemble, fit.solution
        w, tau, codes = solution.w, solution.tau, solution.codes
    if solution is None:
        raise ValueError(f"n_rounds must be at least 1, got {n_rounds}.")
    status = solution.status
    if reached <= gap and status is Status.CONVERGED:
        status = Status.CERTIFIED
    elif status is Status.CONVERGED and solution.residual > tol:
        status = Status.MAX_ITER  # it had only settled as far as the prices asked for
    solution = replace(solution, objective=history, n_iter=done, status=status)
    return Certified(solution, objective, ensemble, float(reached))
