"""Signals on a Dask cluster, as the solver sees them: what it asks is asked of every part.

What travels in a step is the dictionary, to the workers, and the sums, on the way back.  Every
thread of the cluster has one part and keeps it: its codes are there, and without them a step takes
several times as long.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from heatgraph.arrays import Array, Ints
from heatgraph.distributed import worker_tasks
from heatgraph.distributed.codes import end_fit
from heatgraph.distributed.trouble import check_versions
from heatgraph.distributed.worker_tasks import Recipe
from heatgraph.graph import CandidateEdges
from heatgraph.kernels.eigen import DenseHeat
from heatgraph.models.heat import Dictionary, HeatObjective, Signals
from heatgraph.solvers.engine import Engine, contrasts_of
from heatgraph.solvers.quasi_newton import Evaluation
from heatgraph.solvers.signal_model import PLAIN, SignalModel, engine_of

FAN_IN = 8  # sums that are added at a time: neither client nor worker ever holds more of them
# Steps.  Codes that a worker lost are computed again from the last tangents that led to them; where
# there were more, they may end at another stationary point of their penalty.
LONGEST_CHAIN = 24


@dataclass(frozen=True, eq=False)
class Step:
    """Codes that are with the workers: the recipe that made them, and the step of its tangent.

    ``remote`` is the recipe on the cluster, which tasks are given.
    """

    recipe: Recipe
    remote: Any
    before: Step | None

    @property
    def chain(self) -> tuple[Step, ...]:
        """The step and those that lead to its tangent."""
        return (self, *(self.before.chain if self.before is not None else ()))

    def cut(self, longest: int) -> Step:
        """The same step, with no more than so many in its chain."""
        if longest == 1 or self.before is None:
            return self if self.before is None else replace(self, before=None)
        return replace(self, before=self.before.cut(longest - 1))


@dataclass(frozen=True, eq=False)
class DaskSignals:
    """Signals in parts, each a future on a cluster.

    ``homes`` are the workers that have worked on each part last.  ``known`` are the workers whose
    version of the package is that of the client.
    """

    client: Any
    parts: Sequence[Any]
    sizes: tuple[int, ...]
    n_nodes: int
    total_energy: float
    n_observed: Ints
    homes: list[str]
    store: str = field(default_factory=lambda: secrets.token_hex(8))
    masked: bool = False
    alive: WeakSet[Step] = field(default_factory=WeakSet)
    known: set[str] = field(default_factory=set)

    @property
    def n_signals(self) -> int:
        return sum(self.sizes)

    @cached_property
    def gram(self) -> Array:
        """``X X^T`` (N, N), from which the distances between nodes follow."""
        gram: Array = self.sum_of(worker_tasks.gram_of_part)
        return gram

    def sample(self, which: Ints) -> Signals:
        """Some signals, by their numbers in ascending order, in memory."""
        begins = np.cumsum([0, *self.sizes])
        tasks = []
        for k, (begin, end) in enumerate(pairwise(begins.tolist())):
            here = which[(which >= begin) & (which < end)] - begin
            if here.size:
                tasks.append(self._task(worker_tasks.some_of_part, k, here))
        return Signals.joined(_result(tasks))

    def send(self, value: Any) -> Any:
        """A value on the cluster, for tasks to be given.

        By a task, and not as scattered data, which is lost with the worker that has it.
        """
        return self._submit(worker_tasks.same, value)

    def close(self) -> None:
        """Let the workers forget the codes."""
        if self.client.status == "running":
            self.client.run(end_fit, self.store, on_error="ignore")

    def sum_of(self, function: Any, *arguments: Any) -> Any:
        """The sum over the parts of what ``function`` returns for each."""
        tasks = [
            self._task(function, k, (self.store, k), *arguments) for k in range(len(self.parts))
        ]
        while len(tasks) > FAN_IN:
            groups = [tasks[k : k + FAN_IN] for k in range(0, len(tasks), FAN_IN)]
            tasks = [self._submit(worker_tasks.add_sums, group) for group in groups]
        total = worker_tasks.add_sums(_result(tasks))
        new = set(total.homes.values()) - self.known
        if new:  # it came while the fit was under way
            check_versions(self.client, sorted(new))
            self.known.update(new)
        for part, home in total.homes.items():
            self.homes[part] = home
        return total.value

    def _task(self, function: Any, k: int, *arguments: Any) -> Any:
        where = {"workers": [self.homes[k]], "allow_other_workers": True}
        return self._submit(function, self.parts[k], *arguments, **where)

    def _submit(self, function: Any, *arguments: Any, **where: Any) -> Any:
        name = f"heatgraph-{function.__name__.strip('_').replace('_', '-')}-{secrets.token_hex(8)}"
        return self.client.submit(function, *arguments, key=name, pure=False, **where)


@dataclass(frozen=True, eq=False)
class DaskEngine:
    """The objective of signals on a cluster; codes, and the tangent at them, are :class:`Step`s."""

    objective: HeatObjective
    signals: DaskSignals

    @property
    def n_signals(self) -> int:
        return self.signals.n_signals

    def evaluate(
        self, w: Array, tau: Array, codes: Step | None, slopes: Step | None = None
    ) -> Evaluation[Step | None]:
        D = self.objective.dictionary(w, tau)
        step = self._step(self._bare, D, slopes)
        number = None if codes is None else codes.recipe.number
        moments = self._ask(worker_tasks.code_part, step, number)
        return Evaluation(*self.objective.evaluate(D, w, moments), step)

    def tangent(self, w: Array, tau: Array, codes: Step) -> tuple[Step, float]:
        return codes, float(self._ask(worker_tasks.above_part, codes, self._bare))

    def value(self, w: Array, tau: Array, codes: Step) -> float:
        D, above = codes.recipe.D, self.tangent(w, tau, codes)[1]
        moments = self._ask(worker_tasks.moments_of_part, codes, self._bare)
        return self.objective.value(D, w, moments) + above

    def settle(self, w: Array, tau: Array, codes: Step) -> Step:
        step = self._step(self._bare, self.objective.dictionary(w, tau), codes, settle=True)
        self._ask(worker_tasks.code_part, step, None)
        return step

    def contrasts(self) -> tuple[Array, float]:
        return contrasts_of(self.signals.gram, self.objective.candidates)

    def zero_codes(self, n_atoms: int) -> None:
        """No step at all."""
        return None

    def pack(self, codes: Step | None) -> dict[str, NDArray[Any]]:
        """The recipes: codes are found again from them, to the precision of the coding."""
        arrays: dict[str, NDArray[Any]] = {}
        for k, step in enumerate(() if codes is None else codes.chain):
            D, settle = step.recipe.D, float(step.recipe.settle)
            penalty = np.array([step.recipe.objective.alpha, settle])
            own = {"lam": D.kernel.lam, "U": D.kernel.U, "tau": D.tau, "penalty": penalty}
            arrays |= {f"{name}{k}": array for name, array in own.items()}
        return arrays

    def unpack(self, arrays: Mapping[str, NDArray[Any]], n_atoms: int) -> Step | None:
        step: Step | None = None
        n_steps = sum(name.startswith("lam") for name in arrays)
        for k in reversed(range(n_steps)):
            alpha, settle = arrays[f"penalty{k}"].tolist()
            kernel, tau = DenseHeat(arrays[f"lam{k}"], arrays[f"U{k}"]), arrays[f"tau{k}"]
            omega = self.objective.atoms.weights(kernel, tau)
            D = Dictionary(kernel, tau, kernel.decay(tau), omega)
            step = self._step(replace(self._bare, alpha=alpha), D, step, bool(settle))
        return step

    @cached_property
    def _bare(self) -> HeatObjective:
        """The objective without candidates, which workers do not need."""
        none = np.empty(0, dtype=np.intp)
        return replace(self.objective, candidates=CandidateEdges(self.signals.n_nodes, none, none))

    def _step(
        self, objective: HeatObjective, D: Dictionary, before: Step | None, settle: bool = False
    ) -> Step:
        alive = self.signals.alive
        if before is not None:
            before = before.cut(LONGEST_CHAIN)
            alive.add(before)
        # By chance, so that two fits on one cluster do not share a number.
        recipe = Recipe(secrets.randbits(62), objective, D, settle)
        step = Step(recipe, self.signals.send(recipe), before)
        alive.add(step)
        return step

    def _ask(self, function: Any, step: Step, *arguments: Any) -> Any:
        recipes = [s.remote for s in step.chain]
        # What is still referred to here may be asked for; other codes the workers can drop.
        alive = [s.recipe.number for s in self.signals.alive]
        return self.signals.sum_of(function, recipes, *arguments, alive)


@engine_of.register
def _(
    signals: DaskSignals, objective: HeatObjective, model: SignalModel = PLAIN, n_threads: int = 1
) -> Engine[Any, Any]:
    return DaskEngine(objective, signals)


def _result(futures: list[Any]) -> list[Any]:
    """What tasks returned; an error of one of them is raised as it is."""
    found: list[Any] = futures[0].client.gather(futures)
    return found
