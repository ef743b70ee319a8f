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
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from heatgraph.distributed import worker_tasks
from heatgraph.distributed.worker_tasks import Recipe
from heatgraph.graph import CandidateEdges
from heatgraph.kernels.eigen import DenseHeat
from heatgraph.models.atoms import ATOMS
from heatgraph.models.heat import Dictionary, HeatObjective, Moments, Signals
from heatgraph.solvers import signal_access

__all__ = ["DaskSignals", "Step", "add_remedy"]

Array = NDArray[np.float64]

FAN_IN = 8  # sums that are added at a time: neither client nor worker ever holds more of them
# Steps.  Codes that a worker lost are computed again from the last tangents that led to them; where
# there were more, they may end at another stationary point of their penalty.
LONGEST_CHAIN = 24


@dataclass(frozen=True, eq=False)
class Step:
    """Codes that are with the workers: the recipe that made them, and where its discount is from.

    ``remote`` is the recipe on the cluster, which tasks are given.
    """

    recipe: Recipe
    remote: Any
    before: Step | None

    @property
    def chain(self) -> tuple[Step, ...]:
        """The step and those that lead to its discount."""
        return (self, *(self.before.chain if self.before is not None else ()))

    def cut(self, longest: int) -> Step:
        """The same step, with no more than so many in its chain."""
        if longest == 1 or self.before is None:
            return self if self.before is None else replace(self, before=None)
        return replace(self, before=self.before.cut(longest - 1))


@dataclass(frozen=True, eq=False)
class DaskSignals:
    """Signals in parts, each a future on a cluster; an ``Ensemble``.

    ``homes`` are the workers that have worked on each part last.  ``counts`` says how often each
    signal of a part counts, where that is not once.
    """

    client: Any
    parts: Sequence[Any]
    sizes: tuple[int, ...]
    n_nodes: int
    total_energy: float
    n_observed: NDArray[np.intp]
    homes: list[str]
    counts: Sequence[Any] | None = None
    n_signals: int = 0
    store: str = field(default_factory=lambda: secrets.token_hex(8))
    masked: bool = False
    alive: WeakSet[Step] = field(default_factory=WeakSet)
    steps_per_tangent: ClassVar[int] = signal_access.STEPS_PER_TANGENT

    def silence(self, n_atoms: int) -> None:
        """No step at all."""
        return None

    def code(
        self, objective: HeatObjective, D: Dictionary, start: Step | None, discount: Step | None
    ) -> tuple[Step, Moments]:
        step = self._step(objective, D, discount)
        number = None if start is None else start.recipe.number
        return step, self._ask(worker_tasks.code_part, step, number)

    def discount(self, D: Dictionary, codes: Step, alpha: float) -> tuple[Step, float]:
        return codes, float(self._ask(worker_tasks.above_part, codes))

    def moments(self, objective: HeatObjective, D: Dictionary, codes: Step) -> Moments:
        moments: Moments = self._ask(worker_tasks.moments_of_part, codes)
        return moments

    def settle(self, objective: HeatObjective, D: Dictionary, codes: Step) -> Step:
        step = self._step(objective, D, codes, settle=True)
        self._ask(worker_tasks.code_part, step, None)
        return step

    def sources(self, codes: Step, n_scales: int) -> Array:
        return np.empty((n_scales, self.n_nodes, 0))

    def pack(self, codes: Step | None) -> dict[str, NDArray[Any]]:
        """The recipes: codes are found again from them, to the precision of the coding."""
        arrays: dict[str, NDArray[Any]] = {}
        for k, step in enumerate(() if codes is None else codes.chain):
            D, objective = step.recipe.D, step.recipe.objective
            unit = int(objective.atoms is ATOMS["unit"])
            arrays |= {
                f"lam{k}": D.kernel.lam,
                f"U{k}": D.kernel.U,
                f"tau{k}": D.tau,
                f"penalty{k}": np.array(
                    [objective.alpha, unit, step.recipe.settle], dtype=np.float64
                ),
            }
        return arrays

    def unpack(self, arrays: Mapping[str, NDArray[Any]], n_atoms: int) -> Step | None:
        step: Step | None = None
        n_steps = sum(name.startswith("lam") for name in arrays)
        for k in reversed(range(n_steps)):
            alpha, unit, settle = arrays[f"penalty{k}"].tolist()
            kernel, tau = DenseHeat(arrays[f"lam{k}"], arrays[f"U{k}"]), arrays[f"tau{k}"]
            atoms = ATOMS["unit" if unit else "raw"]
            objective = HeatObjective(_no_candidates(self.n_nodes), alpha, 0.0, atoms)
            D = Dictionary(kernel, tau, kernel.decay(tau), atoms.weights(kernel, tau))
            step = self._step(objective, D, step, bool(settle))
        return step

    def take(self, which: NDArray[Any]) -> DaskSignals:
        """Some of the signals: by a mask, or by their numbers, as often as they are named."""
        M = sum(self.sizes)
        counts = which if which.dtype == bool else np.bincount(which, minlength=M)
        small = counts.astype(np.min_scalar_type(int(counts.max(initial=0))))
        pieces = np.split(small, np.cumsum(self.sizes)[:-1])
        return replace(
            self,
            counts=[self.send(piece) for piece in pieces],
            n_signals=int(counts.sum()),
            store=secrets.token_hex(8),
            alive=WeakSet(),
        )

    @cached_property
    def gram(self) -> Array:
        """``X X^T`` (N, N), from which the distances between nodes follow."""
        gram: Array = self._sum(worker_tasks.gram_of_part)
        return gram

    def contrasts(self, candidates: CandidateEdges) -> tuple[Array, float]:
        return signal_access.contrasts_of(self.gram, candidates)

    def sample(self, which: NDArray[np.intp]) -> Signals:
        """Some signals, by their numbers in ascending order, in memory."""
        begins = np.cumsum([0, *self.sizes])
        tasks = []
        for k, (begin, end) in enumerate(pairwise(begins.tolist())):
            here = which[(which >= begin) & (which < end)] - begin
            if here.size:
                tasks.append(self._task(worker_tasks.some_of_part, k, here))
        found = _result(tasks)
        masks = [part.observed for part in found if part.observed is not None]
        X = np.hstack([part.X for part in found])
        return Signals(X, np.hstack(masks) if masks else None)

    def send(self, value: Any) -> Any:
        """A value on the cluster, for tasks to be given.

        By a task, and not as scattered data, which is lost with the worker that has it.
        """
        return self._submit(worker_tasks.same, value)

    def close(self) -> None:
        """Let the workers forget the codes."""
        self.client.run(worker_tasks.forget, self.store, on_error="ignore")

    def _step(
        self, objective: HeatObjective, D: Dictionary, before: Step | None, settle: bool = False
    ) -> Step:
        if before is not None:
            before = before.cut(LONGEST_CHAIN)
            self.alive.add(before)
        bare = replace(objective, candidates=_no_candidates(self.n_nodes))
        # By chance, so that two fits on one cluster do not share a number.
        recipe = Recipe(secrets.randbits(62), bare, D, settle)
        step = Step(recipe, self.send(recipe), before)
        self.alive.add(step)
        return step

    def _ask(self, function: Any, step: Step, *arguments: Any) -> Any:
        recipes = [s.remote for s in step.chain]
        # What is still referred to here may be asked for; other codes the workers can drop.
        alive = [s.recipe.number for s in self.alive]
        return self._sum(function, recipes, *arguments, alive)

    def _sum(self, function: Any, *arguments: Any) -> Any:
        """The sum over the parts of what ``function`` returns for each."""
        counts = [None] * len(self.parts) if self.counts is None else self.counts
        tasks = [
            self._task(function, k, counts[k], (self.store, k), *arguments)
            for k in range(len(self.parts))
        ]
        while len(tasks) > FAN_IN:
            groups = [tasks[k : k + FAN_IN] for k in range(0, len(tasks), FAN_IN)]
            tasks = [self._submit(worker_tasks.add_sums, group) for group in groups]
        total = worker_tasks.add_sums(_result(tasks))
        for part, home in total.homes.items():
            self.homes[part] = home
        return total.value

    def _task(self, function: Any, k: int, *arguments: Any) -> Any:
        where = {"workers": [self.homes[k]], "allow_other_workers": True}
        return self._submit(function, self.parts[k], *arguments, **where)

    def _submit(self, function: Any, *arguments: Any, **where: Any) -> Any:
        name = f"heatgraph-{function.__name__.strip('_').replace('_', '-')}-{secrets.token_hex(8)}"
        return self.client.submit(function, *arguments, key=name, pure=False, **where)


def _result(futures: list[Any]) -> list[Any]:
    """What tasks returned; an error of one of them is raised as it is."""
    try:
        found: list[Any] = futures[0].client.gather(futures)
        return found
    except Exception as error:
        add_remedy(error)
        raise


def add_remedy(error: Exception) -> None:
    """Say what helps where workers died on a task."""
    if type(error).__name__ == "KilledWorker":
        error.add_note(
            "Workers died again and again on one part of X, most likely for want of memory: give "
            "them more (memory_limit of the cluster), fewer threads each, or smaller chunks of "
            "signals."
        )


def _no_candidates(n_nodes: int) -> CandidateEdges:
    none = np.empty(0, dtype=np.intp)
    return CandidateEdges(n_nodes, none, none)
