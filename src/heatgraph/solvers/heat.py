"""The default solver of LearnHeat: exact codes inside, a quasi-Newton method on the graph outside.

Two stages, each from where the one before ended:

1. An l1 fit: ``phi(w, tau)`` of the :mod:`~heatgraph.solvers.engine` by :class:`QuasiNewton`.
2. Where the penalty is not l1, rounds on its tangents.  At codes ``u0`` the tangent of a concave
   penalty lies above it, and is an l1 penalty with a price of its own on each code.  Every round
   takes a few steps on the tangent's objective from where the last one ended.

Where a tangent touches, its objective has the value and the gradient of the objective with the
penalty itself.  So at the start of a round, before any step, the tangent's residual is that of the
objective, up to the fall of the objective when the sources are found anew.  The rounds go on until
the sum of the two is at most ``tol``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from heatgraph.arrays import Array
from heatgraph.models.simplex import ValidSet
from heatgraph.solvers.driver import (
    NO_CHECKPOINT,
    Keeper,
    Record,
    attempt,
    run_stage,
)
from heatgraph.solvers.engine import Engine
from heatgraph.solvers.quasi_newton import Curvature, Evaluation, QuasiNewton, State
from heatgraph.solvers.result import Monitor, Progress, Solution, Status

ROUGH = 1e-2  # residual of an l1 fit that is only the start, and of fits that are compared
STEPS_PER_TANGENT = 2  # of the graph: to follow a tangent further costs more than a new one
BETTER = 1e-3  # relative fall of the objective by which a second start must win over the usual one
MAX_ROUNDS = 2000  # where rounding keeps the objective falling for ever
FIRST_REACH = 3.0  # mean degrees of a Laplacian of trace N: how far a first step may move a weight
# Of the metric, all found by counting iterations on graphs of 20 to 2500 nodes.
POWER = 0.75  # of the contrast of a pair
FLATTEST = 0.1  # contrast, of the typical one
OF_SCALES = 0.008  # times the root of the energy of all signals over the typical contrast


def solve_heat(
    engine: Engine[Any, Any],
    start: Solution,
    *,
    learn_scales: bool,
    max_iter: int,
    tol: float,
    first_tol: float | None = None,
    second_scales: Array | None = None,
    count_first: bool = True,
    monitor: Monitor | None = None,
    keeper: Keeper = NO_CHECKPOINT,
) -> Solution:
    """Minimise the objective of an engine over the weights, and the scales if they are learned.

    The history of the objective never rises.  In the rounds it is that of the tangents, and its
    last value, like the residual, is that of the objective with the penalty itself.

    Parameters
    ----------
    engine : Engine
        The objective of the signals.
    start : Solution
        Where to start: weights and scales alone, from which the l1 fit comes first, or an earlier
        solution, which is gone on from, its iterations counted.
    learn_scales : bool
        Whether the scales are variables too.
    max_iter : int
        Most iterations; once they are reached, the sources are found and no more.
    tol : float
        Residual at the end.  A fit to be compared with others, of a ``tol`` of `ROUGH` or more,
        ends without a last look at its sources.
    first_tol : float, optional
        Residual of the l1 fit; that of a start, where rounds follow, by default.
    second_scales : array (S,), optional
        Scales to start a second l1 fit from, which is taken if it wins by enough.
    count_first : bool
        Whether the iterations of the l1 fit that rounds start from count in ``max_iter``.
    monitor : Monitor, optional
        Called after every iteration.
    keeper : Keeper
        Where the state is kept, and found again.
    """
    linear = engine.objective.penalty.is_linear
    problem = _Problem.of(engine, start.tau, learn_scales)
    if start.codes is None and keeper.get() is None:
        if first_tol is None:
            first_tol = tol if linear else max(tol, ROUGH)
        stage = _L1(problem, first_tol, max_iter)
        usual = run_stage(stage, start, monitor, keeper.within("first"))
        start, w = _solution(problem, *usual), start.w
        if second_scales is not None and start.status is not Status.INTERRUPTED:
            other = replace(problem, tau=second_scales)
            stage = _L1(other, first_tol, max_iter)
            from_second = Solution(w, second_scales), monitor, keeper.within("second")
            second = attempt(partial(run_stage, stage, *from_second))
            start = _better(start, None if second is None else _solution(other, *second))
        if linear or start.status is Status.INTERRUPTED:
            return start
        max_iter += 0 if count_first else start.n_iter
    if linear:
        return _solution(problem, *run_stage(_L1(problem, tol, max_iter), start, monitor, keeper))
    rounds = _Rounds(problem, tol, max_iter)
    state, status = run_stage(rounds, start, monitor, keeper)
    w, tau = problem.split(state.point.x)
    history = np.array(state.history)
    # If stopped here, the fit reports the value of the last tangent, which is a little higher.
    value = attempt(partial(engine.value, w, tau, state.point.at.aux))
    if value is None:
        status = Status.INTERRUPTED
    else:
        history[-1] = value
    if status is Status.CONVERGED and state.point.residual > tol:
        status = Status.STALLED
    return replace(_solution(problem, state.point, status), objective=history, memory=None)


def _better(usual: Solution, second: Solution | None) -> Solution:
    """The fit from the usual scales, or that from the second if it wins by enough.

    Stopped by the user in the second of them is stopped, with the first to fall back on.
    """
    if second is None:
        return replace(usual, status=Status.INTERRUPTED)
    if second.objective[-1] < (1.0 - BETTER) * usual.objective[-1]:
        return second
    return replace(usual, status=second.status) if second.status is Status.INTERRUPTED else usual


@dataclass(frozen=True, eq=False)
class _Problem:
    """``phi`` as a function of ``x = (w, tau)``, or of ``w`` alone where the scales are held."""

    engine: Engine[Any, Any]
    tau: Array
    learn_scales: bool
    metric: Array

    @classmethod
    def of(cls, engine: Engine[Any, Any], tau: Array, learn_scales: bool) -> _Problem:
        return cls(engine, tau, learn_scales, _metric(engine, tau.size * learn_scales))

    @property
    def n_edges(self) -> int:
        return self.engine.objective.candidates.n_edges

    @property
    def n_atoms(self) -> int:
        return self.tau.size * self.engine.objective.candidates.n_nodes

    @property
    def valid(self) -> ValidSet:
        return ValidSet(self.n_edges, self.engine.objective.total)

    def split(self, x: Array) -> tuple[Array, Array]:
        return x[: self.n_edges], (x[self.n_edges :] if self.learn_scales else self.tau)

    def join(self, w: Array, tau: Array) -> Array:
        return np.concatenate([w, tau]) if self.learn_scales else w

    def evaluate(self, x: Array, codes: Any, slopes: Any = None) -> Evaluation[Any]:
        at = self.engine.evaluate(*self.split(x), codes, slopes)
        return at if self.learn_scales else replace(at, gradient=at.gradient[: self.n_edges])

    def method(self, tol: float, max_iter: int, slopes: Any = None) -> QuasiNewton[Any]:
        evaluate = partial(self.evaluate, slopes=slopes)
        return QuasiNewton(evaluate, self.valid, tol, max_iter, FIRST_REACH)

    def memory(self, start: Solution) -> Curvature:
        if start.memory is None:
            return Curvature.nothing(self.metric)
        return Curvature(self.metric, *start.memory)

    def progress(self, state: State[Any], max_iter: int) -> Progress:
        return Progress(
            iteration=state.n_iter,
            max_iter=max_iter,
            objective=state.history[-1],
            n_edges=int(np.count_nonzero(state.x[: self.n_edges] > 0.0)),
            residual=state.residual,
        )

    def pack(self, state: State[Any]) -> Record:
        """The state of a fit under way, bit for bit."""
        facts = {"value": state.at.value, "residual": state.residual, "n_iter": state.n_iter}
        arrays = {
            "x": state.x,
            "gradient": state.at.gradient,
            "steps": state.memory.steps,
            "yields": state.memory.yields,
            "history": np.array(state.history),
            **self.engine.pack(state.at.aux),
        }
        return Record(facts, arrays)

    def unpack(self, record: Record) -> State[Any]:
        facts, arrays, size = record.facts, record.arrays, self.metric.size
        if arrays["x"].shape != (size,) or arrays["gradient"].shape != (size,):
            raise ValueError(f"its state has {arrays['x'].size} coordinates, the problem {size}")
        codes = self.engine.unpack(arrays, self.n_atoms)
        return State(
            arrays["x"],
            Evaluation(facts["value"], arrays["gradient"], codes),
            Curvature(self.metric, arrays["steps"], arrays["yields"]),
            tuple(arrays["history"].tolist()),
            facts["residual"],
            facts["n_iter"],
        )


def _solution(problem: _Problem, state: State[Any], status: Status) -> Solution:
    w, tau = problem.split(state.x)
    return Solution(
        w=w.copy(),
        tau=tau.copy(),
        codes=state.at.aux,
        objective=np.array(state.history),
        status=status,
        n_iter=state.n_iter,
        residual=state.residual,
        memory=(state.memory.steps, state.memory.yields),
    )


class _L1:
    """The stage of the l1 fit."""

    def __init__(self, problem: _Problem, tol: float, max_iter: int) -> None:
        self.problem, self.max_iter = problem, max_iter
        method = problem.method(tol, max_iter)
        self.method, self.step, self.terminate = method, method.step, method.terminate
        self.pack, self.unpack = problem.pack, problem.unpack

    def init(self, start: Solution) -> State[Any]:
        problem, codes = self.problem, start.codes
        if codes is None:
            codes = problem.engine.zero_codes(problem.n_atoms)
        x = problem.join(start.w, start.tau)
        state = self.method.init(x, codes, problem.memory(start))
        # The fit begins at the graph where the last one ended.
        history = (*start.objective[:-1].tolist(), state.at.value)
        return replace(state, history=history, n_iter=start.n_iter)

    def progress(self, state: State[Any]) -> Progress:
        return self.problem.progress(state, self.max_iter)

    def is_resumable(self, state: State[Any]) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class _Round:
    """Where the rounds are.

    ``point.history`` is of this round, ``past`` of those before it.  ``slopes`` is the tangent at
    the codes ``before``, the ``number``-th of them, ``above`` how far it is above its own l1 term,
    ``n_steps`` how many steps were taken on it; ``is_new`` asks for a new one.  ``settled`` is
    whether the sources are stationary, the graph held.
    """

    point: State[Any]
    past: tuple[float, ...]
    slopes: Any = None
    above: float = 0.0
    before: Any = None
    number: int = 0
    n_steps: int = 0
    is_new: bool = True
    settled: bool = False
    status: Status | None = None

    @property
    def history(self) -> tuple[float, ...]:
        return (*self.past, *(value + self.above for value in self.point.history))


class _Rounds:
    """The stage of the tangents of a penalty."""

    def __init__(self, problem: _Problem, tol: float, max_iter: int) -> None:
        self.problem, self.tol, self.max_iter = problem, tol, max_iter

    def init(self, start: Solution) -> _Round:
        """At an earlier solution, whose codes give the first tangent."""
        x = self.problem.join(start.w, start.tau)
        at = Evaluation(float(start.objective[-1]), np.zeros(x.size), start.codes)
        point = State(x, at, self.problem.memory(start), (at.value,), start.residual, start.n_iter)
        return _Round(point, tuple(start.objective[:-1].tolist()))

    def terminate(self, state: _Round) -> Status | None:
        return state.status

    def step(self, state: _Round) -> _Round:
        """A new tangent, or a step of the graph on the one that there is."""
        if state.is_new:
            return self._touch(state)
        # Beyond half of the tolerance, a new tangent brings more than further steps on this one.
        method = self.problem.method(0.5 * self.tol, self.max_iter, state.slopes)
        point = method.step(state.point)
        if point is None and state.n_steps == 0:
            return replace(self._with_fall(state), status=Status.STALLED)
        if point is None:
            return replace(state, is_new=True)
        n_steps = state.n_steps + 1
        is_new = n_steps == STEPS_PER_TANGENT or method.terminate(point) is not None
        return replace(state, point=point, n_steps=n_steps, is_new=is_new)

    def _touch(self, state: _Round) -> _Round:
        """The tangent at the codes of a state, and its objective there with new codes."""
        problem, point, settled = self.problem, state.point, state.settled
        codes, (w, tau) = point.at.aux, problem.split(point.x)
        # Where the penalty is stationary, unless the fit is only to be compared.
        exact = self.tol < ROUGH
        if point.n_iter >= self.max_iter and not settled:
            codes = problem.engine.settle(w, tau, codes) if exact else codes
            settled = True
        slopes, above = problem.engine.tangent(w, tau, codes)
        method = problem.method(0.5 * self.tol, self.max_iter, slopes)
        at = problem.evaluate(point.x, codes, slopes)
        residual = method.residual(point.x, at)
        fresh = State(point.x, at, point.memory, (at.value,), residual, point.n_iter)
        # The round begins at the graph where the last one ended, with new sources.
        past, number = state.history[:-1], state.number + 1
        round_ = _Round(fresh, past, slopes, above, codes, number, is_new=False)
        status = method.terminate(fresh)
        if number == MAX_ROUNDS:
            return replace(round_, status=Status.STALLED)
        if status is None:
            return round_
        round_ = self._with_fall(round_)
        if settled or status is not Status.CONVERGED:
            return replace(round_, settled=settled, status=status)
        settled = round_.point.residual <= self.tol
        if settled and exact:
            at = replace(fresh.at, aux=problem.engine.settle(w, tau, fresh.at.aux))
            round_ = replace(round_, point=replace(round_.point, at=at))
        return replace(round_, settled=settled, is_new=True)

    def _with_fall(self, state: _Round) -> _Round:
        """With the fall of the objective by new codes added to the residual."""
        point = state.point
        before = self.problem.engine.value(*self.problem.split(point.x), state.before)
        fall = before - state.above - point.at.value
        residual = point.residual + max(fall, 0.0) / (abs(before) or 1.0)
        return replace(state, point=replace(point, residual=residual))

    def progress(self, state: _Round) -> Progress:
        step = self.problem.progress(state.point, self.max_iter)
        return replace(step, objective=state.point.history[-1] + state.above)

    def is_resumable(self, state: _Round) -> bool:
        """Between two tangents, or at the end: a tangent itself is not kept."""
        return state.is_new or state.status is not None

    def pack(self, state: _Round) -> Record:
        record = self.problem.pack(replace(state.point, history=state.history))
        status = None if state.status is None else str(state.status)
        return replace(record, facts={**record.facts, "settled": state.settled, "status": status})

    def unpack(self, record: Record) -> _Round:
        """The state that was kept; one that an iteration limit ended goes on if that was raised."""
        point, facts = self.problem.unpack(record), record.facts
        state = _Round(replace(point, history=point.history[-1:]), point.history[:-1])
        if facts["status"] == Status.MAX_ITER and point.n_iter < self.max_iter:
            return state
        status = None if facts["status"] is None else Status(facts["status"])
        return replace(state, settled=facts["settled"], status=status)


def _metric(engine: Engine[Any, Any], n_scales: int) -> Array:
    """How sharply the objective bends along each weight and each scale, relatively.

    A little more weight between ``i`` and ``j`` changes the signals by ``(x_i - x_j)`` at both, in
    opposite directions: the curvature of the fit goes with the sum of its square over the signals.
    """
    contrasts, energy = engine.contrasts()
    there = contrasts[contrasts > 0.0]
    if not there.size:
        return np.ones(contrasts.size + n_scales)
    typical = np.median(there)
    of_weights = np.maximum(contrasts / typical, FLATTEST) ** POWER
    of_scales = np.full(n_scales, OF_SCALES * np.sqrt(energy / typical))
    return np.concatenate([of_weights, of_scales])


def solution_record(solution: Solution, engine: Engine[Any, Any]) -> Record:
    """A solution as a keeper holds it; its memory is left out."""
    facts = {
        "status": str(solution.status),
        "n_iter": solution.n_iter,
        "residual": solution.residual,
    }
    arrays = {"w": solution.w, "tau": solution.tau, "objective": solution.objective}
    return Record(facts, {**arrays, **engine.pack(solution.codes)})


def read_solution(record: Record, engine: Engine[Any, Any]) -> Solution:
    """The solution that :func:`solution_record` took apart."""
    facts, arrays, candidates = record.facts, record.arrays, engine.objective.candidates
    if arrays["w"].shape != (candidates.n_edges,):
        raise ValueError(f"its solution has {arrays['w'].size} weights")
    return Solution(
        w=arrays["w"],
        tau=arrays["tau"],
        codes=engine.unpack(arrays, arrays["tau"].size * candidates.n_nodes),
        objective=arrays["objective"],
        status=Status(facts["status"]),
        n_iter=facts["n_iter"],
        residual=facts["residual"],
    )
