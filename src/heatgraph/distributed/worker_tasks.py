"""What a worker does with its part of the signals: code them, keep the codes, return sums.

Codes never leave the worker.  They are kept under the number of the step that made them.  A worker
that does not have them (it is new, or another worker had this part before) computes them again from
the recipe of the step, which is small: the dictionary, the penalty, and the step whose codes gave
the tangent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from heatgraph.arrays import Array, Ints
from heatgraph.distributed import codes
from heatgraph.distributed.codes import CodeStore, forget
from heatgraph.distributed.parquet import ParquetRows
from heatgraph.models.heat import Dictionary, HeatObjective, Moments, Signals
from heatgraph.solvers import engine
from heatgraph.solvers.engine import LocalEngine, code_signals


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows as a Dask task that this worker runs whenever it needs them."""

    graph: Mapping[Any, Any]
    key: Any

    def pieces(self) -> Iterator[Array]:
        import dask

        yield np.asarray(dask.get(self.graph, self.key))


@dataclass(frozen=True, eq=False)
class Stream:
    """The signals of a part that is read again at every step, one chunk at a time.

    ``first`` rows of the first chunk belong to the part before.
    """

    chunks: Sequence[Chunk | ParquetRows]
    first: int
    n_signals: int
    unit: float
    masked: bool

    def rows(self) -> Iterator[Array]:
        """The rows that are in the part, as they are read."""
        left, skip = self.n_signals, self.first
        for piece in (piece for chunk in self.chunks for piece in chunk.pieces()):
            rows = piece[skip : skip + left]
            left, skip = left - len(rows), max(0, skip - len(piece))
            yield rows
            if not left:
                return
        raise ValueError(f"X: its chunks have {left} signals less than when the fit began.")


Source = Signals | Stream


def make_part(rows: Any, unit: float, masked: bool) -> Signals:
    """Signals (m, N) as columns of size one; ``masked`` if any part has missing entries."""
    X = np.asarray(rows, dtype=np.float64)
    signals = Signals.from_missing(np.ascontiguousarray(X.T) / unit)
    if masked and signals.observed is None:
        return Signals(signals.X, np.ones(signals.X.shape, dtype=bool))
    return signals


def batches(source: Source) -> Iterator[Signals]:
    """The signals, one batch at a time."""
    if isinstance(source, Stream):
        yield from _read_batches(source)
        return
    for k in range(0, source.X.shape[1], engine.BATCH):
        yield source.take(slice(k, k + engine.BATCH))


def _read_batches(stream: Stream) -> Iterator[Signals]:
    size = engine.BATCH
    waiting = np.empty((0, 0))  # rows read that do not fill a batch yet
    for rows in stream.rows():
        if len(waiting):
            rows = np.concatenate([waiting, rows])
        whole = len(rows) - len(rows) % size
        for k in range(0, whole, size):
            yield make_part(rows[k : k + size], stream.unit, stream.masked)
        # A copy, so that the chunk is not held for the sake of its last rows.
        waiting = rows[whole:].copy()
    if len(waiting):
        yield make_part(waiting, stream.unit, stream.masked)


Key = tuple[str, int]  # of a part: the fit, and the number of the part in it


@dataclass(frozen=True, eq=False)
class Recipe:
    """One step: codes are the sources on ``D``, kept under ``number``.

    ``objective`` has the penalty and the atoms; its candidates are not read.  ``settle`` is
    whether the codes go on from those of the step before until they are stationary.
    """

    number: int
    objective: HeatObjective
    D: Dictionary
    settle: bool = False


@dataclass(frozen=True, eq=False)
class PartSum:
    """A sum over the signals of some parts, and the workers that computed it, by part."""

    value: Any
    homes: dict[int, str]

    def __add__(self, other: PartSum) -> PartSum:
        return PartSum(self.value + other.value, self.homes | other.homes)


def add_sums(sums: Sequence[PartSum]) -> PartSum:
    """The sum over all of the parts."""
    return reduce(add, sums)


def same(value: Any) -> Any:
    """A value, sent to a worker by the task that returns it."""
    return value


def _summed(key: Key, values: Iterable[Any], zero: Any) -> PartSum:
    """The sum over the batches of a part."""
    return PartSum(sum(values, start=zero), {key[1]: codes.worker_address()})


def _zero(D: Dictionary) -> Moments:
    S, N = D.decay.shape
    return Moments(0.0, np.zeros((S, N, N)), np.zeros((S, N)))


def _code_batch(
    signals: Signals,
    recipes: Sequence[Recipe],
    warm: csr_array | None,
    tangent: csr_array | None,
) -> tuple[Array, Moments]:
    D, objective = recipes[0].D, recipes[0].objective
    if tangent is not None and recipes[0].settle:
        # No sums: a step follows that computes them.
        start, f = tangent.toarray(), objective
        return code_signals(D, signals, f.alpha, f.penalty, start=start).h, _zero(D)
    slopes = None
    if tangent is not None:
        slopes = objective.tangent(recipes[1].D, tangent.toarray())[0]
    local = LocalEngine(objective, signals)
    first = local.zero_codes(D.n_atoms) if warm is None else warm.toarray()
    return local.code(D, first, slopes)


def _store_of(source: Source, key: Key) -> CodeStore:
    return CodeStore(key, on_disk=isinstance(source, Stream))


def _codes_of(
    source: Source, key: Key, recipes: Sequence[Recipe], live: Sequence[int]
) -> Iterable[csr_array]:
    """The codes of a step, computed again where they are not at hand."""
    store = _store_of(source, key)
    found = store.find(recipes[0].number)
    if found is None:
        code_part(source, key, recipes, None, live)
        found = store.find(recipes[0].number)
    if found is None:  # dropped by a later step: this one was given up meanwhile
        raise RuntimeError("the codes of a step were dropped while it was under way")
    return found


def code_part(
    source: Source,
    key: Key,
    recipes: Sequence[Recipe],
    start: int | None,
    live: Sequence[int],
) -> PartSum:
    """Code a part from the codes of step ``start``; its moments.

    ``recipes`` are the step's own and, where its penalty is a tangent, those that lead to that.
    The codes of the steps in ``live`` are kept.
    """
    recipe, before = recipes[0], recipes[1:]
    none = [None] * -(-source.n_signals // engine.BATCH)
    warm = _store_of(source, key).find(start) or none
    tangent = _codes_of(source, key, before, live) if before else none
    with _store_of(source, key).adding(recipe.number, live) as store:

        def moments() -> Iterator[Moments]:
            for signals, first, at in zip(batches(source), warm, tangent, strict=True):
                h, sums = _code_batch(signals, recipes, first, at)
                store.append(csr_array(h))
                yield sums

        return _summed(key, moments(), _zero(recipe.D))


def gram_of_part(source: Source, key: Key) -> PartSum:
    """``X X^T`` (N, N)."""
    return _summed(key, (signals.X @ signals.X.T for signals in batches(source)), 0.0)


def above_part(
    source: Source,
    key: Key,
    recipes: Sequence[Recipe],
    objective: HeatObjective,
    live: Sequence[int],
) -> PartSum:
    """How far an objective's tangent at the codes of a step is above its own l1 term, summed."""
    found = _codes_of(source, key, recipes, live)
    above = (objective.tangent(recipes[0].D, h.toarray())[1] for h in found)
    return _summed(key, above, 0.0)


def moments_of_part(
    source: Source,
    key: Key,
    recipes: Sequence[Recipe],
    objective: HeatObjective,
    live: Sequence[int],
) -> PartSum:
    """The moments at the codes of a step, with the slopes of an objective at these codes."""
    D, found = recipes[0].D, _codes_of(source, key, recipes, live)

    def moments() -> Iterator[Moments]:
        for h, signals in zip(found, batches(source), strict=True):
            codes = h.toarray()
            slopes, _ = objective.tangent(D, codes)
            yield objective.moments(D, signals, codes, slopes)

    return _summed(key, moments(), _zero(D))


def some_of_part(source: Source, which: Ints) -> Signals:
    """Some signals of a part, by their numbers within it in ascending order, in memory."""
    found, first = [], 0
    for signals in batches(source):
        last = first + signals.X.shape[1]
        found.append(signals.take(which[(which >= first) & (which < last)] - first))
        first = last
    return Signals.joined(found)


def sources_of_part(
    rows: Any, unit: float, masked: bool, recipes: Sequence[Recipe], scale_of: Ints
) -> Array:
    """The sources (m, S', N) of signals by the recipes of a fit, in the units of the caller.

    ``scale_of`` (S,) numbers the scale of which each of the fit's is a part.
    """
    signals = make_part(rows, unit, masked)
    S, N = recipes[0].D.decay.shape
    key = f"sources {id(signals)}", 0
    try:
        found = _codes_of(signals, key, recipes, [recipe.number for recipe in recipes])
    finally:
        forget(key[0])
    H = np.concatenate([np.zeros((0, S * N)), *(h.toarray() for h in found)]).reshape(-1, S, N)
    sources = np.zeros((len(H), int(scale_of.max()) + 1, N))
    for s in range(S):
        sources[:, scale_of[s]] += H[:, s]
    return sources * unit
