"""The default solver of LearnHeat: exact codes inside, a quasi-Newton method on the graph outside.

For a graph and scales ``(w, tau)`` the sources are the solution of a lasso, so that the problem
becomes one in ``phi(w, tau) = min_H F(w, H, tau)`` alone, whose gradient is that of ``F`` at the
minimising sources.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heatgraph.models.heat import Signals
from heatgraph.models.simplex import ValidSet
from heatgraph.solvers.checkpoint_protocol import FORGETFUL, Keeper, Record
from heatgraph.solvers.lbfgs_memory import Curvature
from heatgraph.solvers.quasi_newton import Evaluation, State, minimise
from heatgraph.solvers.result import Monitor, Progress, Solution, Status
from heatgraph.solvers.signal_access import (
    CODING_TOL,
    Ensemble,
    LocalSignals,
    Objective,
    as_sources,
    code_signals,
    ensemble_of,
)

__all__ = [
    "CODING_TOL",
    "as_sources",
    "code_signals",
    "keep_solution",
    "read_solution",
    "recall",
    "solution_record",
    "solve_heat",
    "with_codes",
]

Array = NDArray[np.float64]

FIRST_REACH = 3.0  # mean degrees of a Laplacian of trace N: how far a first step may move a weight
# Of the metric, all found by counting iterations on graphs of 20 to 2500 nodes.
POWER = 0.75  # of the contrast of a pair
FLATTEST = 0.1  # contrast, of the typical one
OF_SCALES = 0.008  # times the root of the energy of all signals over the typical contrast


@dataclass(frozen=True, eq=False)
class _Reduced:
    """``phi`` as a function of ``x = (w, tau)``, or of ``w`` alone where the scales are held."""

    objective: Objective
    ensemble: Ensemble
    tau: Array
    learn_scales: bool
    discount: Any

    def split(self, x: Array) -> tuple[Array, Array]:
        n = self.objective.candidates.n_edges
        return x[:n], (x[n:] if self.learn_scales else self.tau)

    def __call__(self, x: Array, codes: Any) -> Evaluation[Any]:
        w, tau = self.split(x)
        D = self.objective.dictionary(w, tau)
        codes, moments = self.ensemble.code(self.objective, D, codes, self.discount)
        value, gradient = self.objective.evaluate(D, w, moments)
        if self.learn_scales:
            gradient = np.append(gradient, self.objective.gradient_tau(D, moments))
        return Evaluation(value, gradient, codes)


def solve_heat(
    objective: Objective,
    signals: Signals | Ensemble,
    w: Array,
    tau: Array,
    *,
    learn_scales: bool,
    max_iter: int,
    tol: float,
    codes: Any = None,
    monitor: Monitor | None = None,
    n_threads: int = 1,
    discount: Any = None,
    memory: tuple[Array, Array] | None = None,
    keeper: Keeper = FORGETFUL,
) -> Solution:
    """Minimise the objective of LearnHeat from the weights ``w`` and the scales ``tau``.

    ``codes`` and ``discount`` are as the ensemble of the signals understands them: arrays
    (M, S N) for signals in memory.  ``memory`` is that of an earlier solution, of the same
    objective with another discount.
    """
    ensemble = ensemble_of(signals, n_threads)
    kept = recall(keeper, objective, ensemble)
    if kept is not None:
        return kept
    n, n_atoms = objective.candidates.n_edges, tau.size * objective.candidates.n_nodes
    reduced = _Reduced(objective, ensemble, tau, learn_scales, discount)
    keep = _StateKeeper(keeper.within("state"), ensemble, n_atoms)
    metric = _metric(objective, ensemble, tau.size * learn_scales)
    state, status = minimise(
        reduced,
        ValidSet(n, objective.total),
        np.concatenate([w, tau]) if learn_scales else w,
        ensemble.silence(n_atoms) if codes is None else codes,
        max_iter=max_iter,
        tol=tol,
        reach=FIRST_REACH,
        metric=metric,
        memory=None if memory is None else Curvature(metric, *memory),
        report=_reporter(monitor, keep, n, max_iter),
        resume=keep.last(metric),
    )
    w, tau = reduced.split(state.x)
    solution = Solution(
        w=w.copy(),
        H=ensemble.sources(state.at.aux, tau.size),
        tau=tau.copy(),
        objective=np.array(state.history),
        status=status,
        n_iter=state.n_iter,
        residual=state.residual,
        elsewhere=None if isinstance(ensemble, LocalSignals) else state.at.aux,
        memory=(state.memory.steps, state.memory.yields),
    )
    if status is Status.INTERRUPTED:
        keep(state)
    else:
        keep_solution(keeper, solution, ensemble)
    return solution


def _metric(objective: Objective, ensemble: Ensemble, n_scales: int) -> Array:
    """How sharply the objective bends along each weight and each scale, relatively.

    A little more weight between ``i`` and ``j`` changes the signals by ``(x_i - x_j)`` at both, in
    opposite directions: the curvature of the fit goes with the sum of its square over the signals.
    """
    contrasts, energy = ensemble.contrasts(objective.candidates)
    there = contrasts[contrasts > 0.0]
    if not there.size:
        return np.ones(contrasts.size + n_scales)
    typical = np.median(there)
    of_weights = np.maximum(contrasts / typical, FLATTEST) ** POWER
    of_scales = np.full(n_scales, OF_SCALES * np.sqrt(energy / typical))
    return np.concatenate([of_weights, of_scales])


def _reporter(
    monitor: Monitor | None, keep: _StateKeeper, n: int, max_iter: int
) -> Callable[[State[Any]], None]:
    def report(state: State[Any]) -> None:
        if keep.keeper.due:
            keep(state)
        if monitor is not None:
            monitor(
                Progress(
                    iteration=state.n_iter,
                    max_iter=max_iter,
                    objective=state.history[-1],
                    n_edges=int(np.count_nonzero(state.x[:n] > 0.0)),
                    residual=state.residual,
                )
            )

    return report


@dataclass(frozen=True, eq=False)
class _StateKeeper:
    """The state of a fit under way, to a keeper and back, bit for bit."""

    keeper: Keeper
    ensemble: Ensemble
    n_atoms: int

    def __call__(self, state: State[Any]) -> None:
        if self.keeper is FORGETFUL:
            return
        facts = {
            "value": state.at.value,
            "reach": state.reach,
            "residual": state.residual,
            "n_iter": state.n_iter,
        }
        arrays = {
            "x": state.x,
            "gradient": state.at.gradient,
            "steps": state.memory.steps,
            "yields": state.memory.yields,
            "history": np.array(state.history),
            **self.ensemble.pack(state.at.aux),
        }
        self.keeper.put(Record(facts, arrays))

    def last(self, metric: Array) -> State[Any] | None:
        """The state to go on from, of a problem with so many coordinates as the metric has."""
        size = metric.size
        record = self.keeper.get()
        if record is None:
            return None
        facts, arrays = record.facts, record.arrays
        if arrays["x"].shape != (size,) or arrays["gradient"].shape != (size,):
            raise ValueError(f"its state has {arrays['x'].size} coordinates, the problem {size}")
        codes = self.ensemble.unpack(arrays, self.n_atoms)
        return State(
            arrays["x"],
            Evaluation(facts["value"], arrays["gradient"], codes),
            Curvature(metric, arrays["steps"], arrays["yields"]),
            facts["reach"],
            tuple(arrays["history"].tolist()),
            facts["residual"],
            facts["n_iter"],
        )


def keep_solution(keeper: Keeper, solution: Solution, ensemble: Ensemble) -> None:
    """Leave a solution with a keeper."""
    if keeper is not FORGETFUL:
        keeper.put(solution_record(solution, ensemble))


def solution_record(solution: Solution, ensemble: Ensemble) -> Record:
    """A solution as a keeper holds it."""
    facts = {
        "status": str(solution.status),
        "n_iter": solution.n_iter,
        "residual": solution.residual,
    }
    arrays = {
        "w": solution.w,
        "tau": solution.tau,
        "objective": solution.objective,
        **ensemble.pack(solution.codes),
    }
    if solution.memory is not None:
        arrays["steps"], arrays["yields"] = solution.memory
    return Record(facts, arrays)


def recall(keeper: Keeper, objective: Objective, ensemble: Ensemble) -> Solution | None:
    """The solution that was left with a keeper, or None."""
    record = keeper.get()
    return None if record is None else read_solution(record, objective, ensemble)


def read_solution(record: Record, objective: Objective, ensemble: Ensemble) -> Solution:
    """The solution that :func:`solution_record` took apart."""
    facts, arrays = record.facts, record.arrays
    if arrays["w"].shape != (objective.candidates.n_edges,):
        raise ValueError(f"its solution has {arrays['w'].size} weights")
    n_scales = arrays["tau"].size
    codes = ensemble.unpack(arrays, n_scales * objective.candidates.n_nodes)
    solution = Solution(
        w=arrays["w"],
        H=np.empty((n_scales, objective.candidates.n_nodes, 0)),
        tau=arrays["tau"],
        objective=arrays["objective"],
        status=Status(facts["status"]),
        n_iter=facts["n_iter"],
        residual=facts["residual"],
        memory=(arrays["steps"], arrays["yields"]) if "steps" in arrays else None,
    )
    return with_codes(solution, ensemble, codes)


def with_codes(solution: Solution, ensemble: Ensemble, codes: Any) -> Solution:
    """The solution with other codes, as its ensemble understands them."""
    return replace(
        solution,
        H=ensemble.sources(codes, solution.tau.size),
        elsewhere=None if isinstance(ensemble, LocalSignals) else codes,
    )
