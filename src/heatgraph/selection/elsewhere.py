"""The choice of parameters for signals that are not in memory: by sums over them alone.

The folds, the hidden entries and the rule are those of :mod:`heatgraph.selection.penalties`.
There the errors of every signal are compared; here their products, summed over the signals.
Signals so few that each worker can have them all are not divided: a path is walked by one worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from heatgraph.objective.heat import HeatObjective, Signals
from heatgraph.selection.masked import HiddenPart, hide_by, prediction_errors, turns_for
from heatgraph.selection.penalties import (
    HIDDEN_SHARE,
    Choice,
    Grid,
    Walk,
    choose_from,
    draw_folds,
    fit_path,
    pick_from,
    resumed,
    tabulate,
    walk_path,
)
from heatgraph.solvers.ensemble import Ensemble
from heatgraph.solvers.keeping import FORGETFUL, Keeper, Record
from heatgraph.solvers.majorise import PENALTIES

__all__ = ["Divisible", "Draws", "Trial", "choose_elsewhere", "error_products"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trial:
    """A fit to score: which row of the errors it fills, for which fold of the signals."""

    row: int
    fold: int
    objective: HeatObjective
    w: Array
    tau: Array


@dataclass(frozen=True, eq=False)
class Draws:
    """The random numbers (n_nodes, n_signals) that hide entries, any columns of them.

    As one call of the generator would draw them all, without drawing the others.  They are hidden
    in so many turns.
    """

    state: dict[str, Any]
    n_nodes: int
    n_signals: int
    n_turns: int = 1

    @classmethod
    def next(
        cls, rng: np.random.Generator, n_nodes: int, n_signals: int, n_turns: int = 1
    ) -> Draws:
        """Those that the generator would draw now; it goes on as if it had."""
        bits = rng.bit_generator
        if not isinstance(bits, (np.random.PCG64, np.random.PCG64DXSM)):
            raise ValueError(
                "random_state must be a seed, or a generator made by numpy.random.default_rng, "
                f"for signals that are not in memory; got one of {type(bits).__name__}."
            )
        state = dict(bits.state)
        bits.advance(n_nodes * n_signals)
        # To advance forgets half a number that was left over; to draw does not.
        left = {key: state[key] for key in ("has_uint32", "uinteger")}
        bits.state = dict(bits.state) | left  # type: ignore[assignment]
        return cls(state, n_nodes, n_signals, n_turns)

    def columns(self, first: int, n: int) -> Array:
        kinds = {"PCG64": np.random.PCG64, "PCG64DXSM": np.random.PCG64DXSM}
        bits: Any = kinds[self.state["bit_generator"]]()
        draws = np.empty((self.n_nodes, n))
        for node, row in enumerate(draws):
            bits.state = self.state
            bits.advance(node * self.n_signals + first)
            np.random.Generator(bits).random(out=row)
        return draws


class Divisible(Ensemble, Protocol):
    """Signals elsewhere, of which some can be left out."""

    @property
    def n_nodes(self) -> int: ...

    def take(self, which: NDArray[Any]) -> Ensemble:
        """Some of them, by a mask."""
        ...

    @property
    def is_small(self) -> bool:
        """Whether one worker can have them all."""
        ...

    def each_whole(
        self, function: Callable[..., Any], each: Iterable[tuple[Any, ...]]
    ) -> Iterator[Any]:
        """A function of all signals for each of several arguments, every one on a worker."""
        ...

    def error_products(
        self, folds: NDArray[np.int8], draws: Sequence[Draws], trials: Sequence[Trial], penalty: str
    ) -> Array:
        """The sum of :func:`error_products` over all signals."""
        ...


def error_products(
    signals: Signals,
    folds: NDArray[np.int8],
    columns: Sequence[Array],
    trials: Sequence[Trial],
    n_rows: int,
    penalty: str,
    n_turns: int = 1,
) -> Array:
    """``A A^T`` of ``A``, whose columns are signals and whose rows are what is known of each.

    Its error in every row of the trials, the energy of what was hidden, and 1.  ``columns`` are
    the draws of the signals of each fold.
    """
    code = PENALTIES[penalty][1]
    A = np.zeros((n_rows + 2, signals.X.shape[1]))
    A[-1] = 1.0
    for fold, draws in enumerate(columns):
        held = np.flatnonzero(folds == fold)
        if not held.size:
            continue
        part = hide_by(signals.take(held), HIDDEN_SHARE, draws, n_turns)
        A[-2, held] = part.energy
        for trial in (trial for trial in trials if trial.fold == fold):
            D = trial.objective.dictionary(trial.w, trial.tau)
            A[trial.row, held] = prediction_errors(D, part, trial.objective.alpha, code=code)[0]
    products: Array = A @ A.T
    return products


def choose_elsewhere(
    objective: HeatObjective,
    signals: Divisible,
    w: Array,
    grid: Grid,
    *,
    penalty: str,
    learn_scales: bool,
    rng: np.random.Generator,
    report: Callable[[int, int], None] | None = None,
    keeper: Keeper = FORGETFUL,
) -> Choice:
    """Choose as :func:`heatgraph.selection.penalties.choose` does.

    What this needs here of every signal is the number of its fold.
    """
    M = signals.n_signals
    held = draw_folds(M, rng)
    n_turns = turns_for(signals.n_nodes, M, HIDDEN_SHARE)
    draws = [Draws.next(rng, signals.n_nodes, numbers.size, n_turns) for numbers in held]
    paths = [
        (fold, start, beta)
        for fold in range(len(held))
        for start in range(len(grid.starts))
        for beta in grid.betas
    ]
    if signals.is_small:
        how = objective, w, grid, penalty, learn_scales
        return _choose_whole(signals, held, draws, paths, how, report, keeper)
    folds = np.empty(M, dtype=np.int8)
    for k, numbers in enumerate(held):
        folds[numbers] = k
    rows: list[dict[str, float]] = []
    fits: list[tuple[int, HeatObjective, Array, Array]] = []
    if report is not None:
        report(0, len(paths))
    for done, (fold, start, beta) in enumerate(paths):
        stage = keeper.within(f"path{done}")
        record = stage.get() or _walk(
            signals.take(folds != fold),
            1.0 - held[fold].size / M,
            objective,
            beta,
            grid.alphas,
            w,
            grid.starts[start],
            penalty,
            learn_scales,
        )
        stage.put(record)
        for k, row in enumerate(record.facts["rows"]):
            for coding in grid.codings:
                problem = replace(objective, alpha=coding * row["alpha"], beta=0.0)
                rows.append({"start": start, "beta": beta, "coding": coding, **row})
                fits.append((fold, problem, record.arrays[f"w{k}"], record.arrays[f"tau{k}"]))
        if report is not None:
            report(done + 1, len(paths))
    table, keys = tabulate(rows)
    place = {key: k for k, key in enumerate(keys)}
    trials = [
        Trial(place[int(row["start"]), row["alpha"], row["beta"], row["coding"]], *fit)
        for row, fit in zip(rows, fits, strict=True)
    ]
    products = signals.error_products(folds, draws, trials, penalty)
    missed, standard_error, sparsest = _judged(products, M)
    return pick_from(grid, table, keys, missed, standard_error, sparsest)


def _choose_whole(
    signals: Divisible,
    held: Sequence[NDArray[np.intp]],
    draws: Sequence[Draws],
    paths: Sequence[tuple[int, int, float]],
    how: tuple[HeatObjective, Array, Grid, str, bool],
    report: Callable[[int, int], None] | None,
    keeper: Keeper,
) -> Choice:
    """The choice by paths that each are walked by one worker, on all signals."""
    objective, w, grid, penalty, learn_scales = how
    stages = [keeper.within(f"whole{k}") for k in range(len(paths))]
    kept = [stage.get() for stage in stages]
    walks = signals.each_whole(
        _walk_whole,
        [
            (
                held[fold],
                draws[fold],
                objective,
                beta,
                grid.alphas,
                w,
                grid.starts[start],
                penalty,
                learn_scales,
                grid.codings,
            )
            for (fold, start, beta), record in zip(paths, kept, strict=True)
            if record is None
        ],
    )
    energy = np.zeros(signals.n_signals)
    parts = signals.each_whole(_hidden_energy, list(zip(held, draws, strict=True)))
    for numbers, part in zip(held, parts, strict=True):
        energy[numbers] = part
    return choose_from(grid, paths, held, energy, resumed(stages, kept, walks), report)


def _hide(signals: Signals, held: NDArray[np.intp], draws: Draws) -> HiddenPart:
    columns = draws.columns(0, held.size)
    return hide_by(signals.take(held), HIDDEN_SHARE, columns, draws.n_turns)


def _hidden_energy(signals: Signals, held: NDArray[np.intp], draws: Draws) -> Array:
    return _hide(signals, held, draws).energy


def _walk_whole(signals: Signals, held: NDArray[np.intp], draws: Draws, *path: Any) -> Walk:
    training = np.ones(signals.X.shape[1], dtype=bool)
    training[held] = False
    return walk_path(signals.take(training), _hide(signals, held, draws), *path)


def _walk(training: Ensemble, *path: Any) -> Record:
    facts: dict[str, Any] = {"rows": []}
    arrays: dict[str, NDArray[Any]] = {}
    for k, (row, _, fit) in enumerate(fit_path(training, *path)):
        facts["rows"].append(row)
        arrays |= {f"w{k}": fit.w, f"tau{k}": fit.tau}
    return Record(facts, arrays)


def _judged(G: Array, M: int) -> tuple[Array, Array, Callable[[NDArray[np.intp]], int]]:
    """What was missed, its standard error, and the rule of one standard error, by products."""
    P = len(G) - 2
    sums, with_energy = G[:P, -1], G[:P, -2]
    total = float(G[-2, -1]) or 1.0
    missed = sums / total
    mean = (sums - missed * G[-2, -1]) / M
    square = np.diag(G)[:P] - 2.0 * missed * with_energy + missed**2 * G[-2, -2]
    standard_error = np.sqrt(np.maximum(square / M - mean**2, 0.0)) * np.sqrt(M) / total

    def sparsest(ordered: NDArray[np.intp]) -> int:
        best = ordered[sums[ordered].argmin()]
        excess = sums[ordered] - sums[best]
        square = np.diag(G)[ordered] - 2.0 * G[ordered, best] + G[best, best]
        spread = np.sqrt(np.maximum(square / M - (excess / M) ** 2, 0.0)) * np.sqrt(M)
        return int(np.flatnonzero(excess <= spread)[0])

    return missed, standard_error, sparsest
