"""What a worker does with its part of the signals: code them, keep the codes, return sums.

Codes never leave the worker.  They are kept under the number of the step that made them, and a
worker that does not have them (it is new, or another had this part before) finds them again from
the recipe of the step, which is small: the dictionary, the penalty, and the step whose codes gave
the discount.  Signals may be in memory or read at every step, a batch at a time is what is looked
at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heatgraph.distributed import codes
from heatgraph.distributed.codes import Shelf, Thin, thick, thin
from heatgraph.distributed.memory import keep_freed
from heatgraph.distributed.parquet import ParquetRows
from heatgraph.distributed.signal_batches import Counts, Source, Stream, batches, make_part, whole
from heatgraph.distributed.sums import Sums, join, sum_up
from heatgraph.models.heat import Dictionary, HeatObjective, Moments, Signals
from heatgraph.solvers import signal_access
from heatgraph.solvers.signal_access import LocalSignals, above_tangent, energy_of, tree_sum

__all__ = [
    "Facts",
    "Place",
    "Recipe",
    "above_part",
    "add",
    "code_part",
    "energy_of",
    "facts_of",
    "facts_of_rows",
    "forget",
    "gram_of_part",
    "join",
    "make_part",
    "moments_of_part",
    "on_whole",
    "same",
    "some_of_part",
    "sources_of_part",
    "sum_over",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Recipe:
    """One step: codes are the sources on ``D``, found under ``number``.

    ``objective`` has the penalty and the atoms; its candidates are not read.  ``settle`` is
    whether the codes go on from those of the step before until they are stationary.
    """

    number: int
    objective: HeatObjective
    D: Dictionary
    settle: bool = False


@dataclass(frozen=True, eq=False)
class Facts:
    """What has to be known of a part before its scale is: sums in units of ``top``."""

    n_signals: int
    top: float
    squares: float
    sums: Array
    n_observed: NDArray[np.intp]
    n_infinite: int
    checksum: int = 0  # of the bits, whatever the chunks and the order

    @property
    def masked(self) -> bool:
        """Whether there are missing entries."""
        return bool((self.n_observed < self.n_signals).any())

    @property
    def node_means(self) -> Array:
        """The mean of what was observed of each node; 0 where nothing was."""
        means: Array = self.sums / np.maximum(self.n_observed, 1) * self.top
        return means

    def _sums_over(self, top: float) -> Array:
        return self.sums * (self.top / top) if top > 0.0 else self.sums

    def __add__(self, other: Facts) -> Facts:
        top = max(self.top, other.top)
        squares = sum(
            part.squares * (part.top / top) ** 2 for part in (self, other) if part.top > 0.0
        )
        return Facts(
            self.n_signals + other.n_signals,
            top,
            float(squares),
            self._sums_over(top) + other._sums_over(top),
            self.n_observed + other.n_observed,
            self.n_infinite + other.n_infinite,
            (self.checksum + other.checksum) % 2**64,
        )


def facts_of(rows: Any) -> Facts:
    """The facts of some signals (m, N) as the caller has them."""
    X = np.asarray(rows)
    n_batches = max(1, -(-len(X) // signal_access.BATCH))
    facts: Facts = add([_facts_of_batch(some) for some in np.array_split(X, n_batches)])
    return facts


def facts_of_rows(rows: ParquetRows) -> Facts:
    """The facts of a row group."""
    facts: Facts = add([_facts_of_batch(piece) for piece in rows.pieces()])
    return facts


def _facts_of_batch(rows: Any) -> Facts:
    X = np.asarray(rows, dtype=np.float64)
    n_infinite = int(np.isinf(X).sum())
    if n_infinite:
        return Facts(len(X), 0.0, 0.0, np.zeros(X.shape[1]), (~np.isnan(X)).sum(axis=0), n_infinite)
    top = float(np.nanmax(np.abs(X), initial=0.0))
    squares = float(np.nansum(np.square(X / top))) if top > 0.0 else 0.0
    sums = np.nansum(X / top, axis=0) if top > 0.0 else np.zeros(X.shape[1])
    odd = 2 * np.arange(X.shape[1], dtype=np.uint64) + 1  # so that columns do not change places
    bits = np.where(np.isnan(X), 0.0, X).view(np.uint64)
    checksum = int((bits.sum(axis=0, dtype=np.uint64) * odd).sum(dtype=np.uint64))
    return Facts(len(X), top, squares, sums, (~np.isnan(X)).sum(axis=0), 0, checksum)


def same(value: Any) -> Any:
    """A value, sent to a worker by the task that returns it."""
    return value


@dataclass(frozen=True)
class Place:
    """Where a part is among those of a fit: its number, and that of the first term of its sums.

    The terms are the batches of so many signals; where only some signals count, the parts.
    """

    fit: str
    part: int
    first: int
    n_terms: int
    batch: int

    def sum_up(self, values: Iterable[Any], nothing: Any = 0.0, *, as_one: bool = False) -> Sums:
        """The sums of the part's terms; ``as_one`` if they are one term of the whole."""
        if as_one:
            terms = list(values)
            values = [tree_sum(terms) if terms else nothing]
        found = sum_up(values, self.first, self.n_terms)
        return replace(found, homes=((self.part, codes.worker_address()),))


def sum_over(source: Source, place: Place, function: Callable[[Signals], Any]) -> Sums:
    """The sums of a function of each batch."""
    return place.sum_up(function(batch) for batch, _ in batches(source, place.batch))


def on_whole(function: Callable[..., Any], sources: Sequence[Source], *arguments: Any) -> Any:
    """A function of all signals, brought together here."""
    return function(whole(sources), *arguments)


def add(terms: Sequence[Any]) -> Any:
    """The sum, in an order that does not depend on who adds what."""
    return tree_sum(terms)


ARRAYS = 16  # of the size of a batch of codes, that coding a batch makes and frees

_grams: dict[int, Array] = {}
_lock = Lock()


def forget(fit: str) -> None:
    """Drop the codes of a fit that is over."""
    codes.forget(fit)
    with _lock:
        _grams.clear()


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of a fit: the signals that count there, and how often each does."""

    source: Source
    counts: Counts | None
    place: Place

    @property
    def shelf(self) -> Shelf:
        key = self.place.fit, self.place.part
        return Shelf(key, on_disk=isinstance(self.source, Stream))

    def batches(self) -> Iterator[tuple[Signals, Counts | None]]:
        return batches(self.source, self.place.batch, self.counts)

    def sum_up(self, values: Iterable[Any], nothing: Any) -> Sums:
        return self.place.sum_up(values, nothing, as_one=self.counts is not None)


def _gram(recipe: Recipe) -> Array:
    """The Gram matrix of a step, once for all parts of a worker."""
    with _lock:
        gram = _grams.get(recipe.number)
    if gram is None:
        gram = recipe.D.kernel.gram(recipe.D.tau)
        with _lock:
            while len(_grams) >= 2:
                del _grams[next(iter(_grams))]
            _grams[recipe.number] = gram
    return gram


def _code(part: _Part, recipes: Sequence[Recipe], start: int | None, live: Sequence[int]) -> Sums:
    """Code a part by the first of the recipes, the others being where its discount is from."""
    recipe, before = recipes[0], recipes[1:]
    keep_freed(ARRAYS * 8 * part.place.batch * recipe.D.n_atoms)
    gram = _gram(recipe)
    warm: Iterable[Thin | None] = part.shelf.find(start) or repeat(None)
    tangent: Iterable[Thin | None] = _codes_of(part, before, live) if before else repeat(None)
    with part.shelf.adding(recipe.number, live) as shelf:

        def moments() -> Iterator[Moments]:
            for (signals, counts), first, at in zip(part.batches(), warm, tangent, strict=False):
                h, sums = _code_batch(LocalSignals(signals), recipes, first, at, gram, counts)
                shelf.append(thin(h))
                yield sums

        return part.sum_up(moments(), _nothing(recipe.D))


def _code_batch(
    local: LocalSignals,
    recipes: Sequence[Recipe],
    warm: Thin | None,
    tangent: Thin | None,
    gram: Array,
    counts: Counts | None,
) -> tuple[Array, Moments]:
    D, objective = recipes[0].D, recipes[0].objective
    first = local.silence(D.n_atoms) if warm is None else thick(warm, D.n_atoms)
    discount = None
    if tangent is not None and recipes[0].settle:
        h = local.settle_batch(objective, D, thick(tangent, D.n_atoms))
        return h, _nothing(D)  # nothing is asked of them yet
    if tangent is not None:
        at = recipes[1]
        discount = local.discount(at.D, thick(tangent, at.D.n_atoms), at.objective.alpha)[0]
    h, moments = local.code_batch(objective, D, first, discount, gram)
    if counts is not None and (counts > 1).any():
        # The sums with every signal as often as it counts.
        again = np.repeat(np.arange(len(h)), counts)
        slopes = None if discount is None else discount[again]
        repeated = LocalSignals(local.signals.take(again))
        moments = repeated.sums(objective, D, h[again], slopes)
    return h, moments


def _nothing(D: Dictionary) -> Moments:
    S, N = D.decay.shape
    return Moments(0.0, np.zeros((S, N, N)), np.zeros((S, N)))


def _codes_of(part: _Part, recipes: Sequence[Recipe], live: Sequence[int]) -> Iterable[Thin]:
    """The codes of a step, found again where they are not at hand."""
    found = part.shelf.find(recipes[0].number)
    if found is None:
        _code(part, recipes, None, live)
        found = part.shelf.find(recipes[0].number)
    if found is None:  # dropped by a later step: this one was given up meanwhile
        raise RuntimeError("the codes of a step were dropped while it was under way")
    return found


def code_part(
    source: Source,
    counts: Counts | None,
    place: Place,
    recipes: Sequence[Recipe],
    start: int | None,
    live: Sequence[int],
) -> Sums:
    """Code a part from the codes of step ``start``; its sums.

    ``recipes`` are the step's own and, where its penalty is discounted, those that lead to the
    discount.  The codes of the steps in ``live`` are kept.
    """
    return _code(_Part(source, counts, place), recipes, start, live)


def gram_of_part(source: Source, counts: Counts | None, place: Place) -> Sums:
    """``X X^T`` (N, N), every signal as often as it counts."""
    part = _Part(source, counts, place)
    grams = (
        signals.X @ signals.X.T if often is None else (signals.X * often) @ signals.X.T
        for signals, often in part.batches()
    )
    return part.sum_up(grams, 0.0)


def above_part(
    source: Source,
    counts: Counts | None,
    place: Place,
    recipes: Sequence[Recipe],
    live: Sequence[int],
) -> Sums:
    """How far the tangent at the codes of a step is above its own l1 term, summed."""
    part, at = _Part(source, counts, place), recipes[0]
    chosen = None if counts is None else counts[np.flatnonzero(counts)]

    def above() -> Iterator[float]:
        first = 0
        for batch in _codes_of(part, recipes, live):
            h = thick(batch, at.D.n_atoms)
            if chosen is not None:
                first, times = first + len(h), chosen[first : first + len(h)]
                h = np.repeat(h, times, axis=0)
            yield above_tangent(np.abs(h) * at.D.omega.ravel(), at.objective.alpha)

    return part.sum_up(above(), 0.0)


def moments_of_part(
    source: Source,
    counts: Counts | None,
    place: Place,
    recipes: Sequence[Recipe],
    live: Sequence[int],
) -> Sums:
    """The sums at the codes of a step, discounted by the tangent at these codes."""
    part, at = _Part(source, counts, place), recipes[0]

    def moments() -> Iterator[Moments]:
        found = _codes_of(part, recipes, live)
        for batch, (some, times) in zip(found, part.batches(), strict=True):
            h = thick(batch, at.D.n_atoms)
            if times is not None:
                again = np.repeat(np.arange(len(h)), times)
                some, h = some.take(again), h[again]
            yield LocalSignals(some).moments(at.objective, at.D, h)

    return part.sum_up(moments(), _nothing(at.D))


def some_of_part(source: Source, place: Place, which: NDArray[np.intp]) -> Signals:
    """Some signals of a part, by their numbers within it, in memory."""
    found, first = [], 0
    for signals, _ in batches(source, place.batch):
        last = first + signals.X.shape[1]
        found.append(signals.take(which[(which >= first) & (which < last)] - first))
        first = last
    masks = [part.observed for part in found]
    observed = None if masks[0] is None else np.hstack([m for m in masks if m is not None])
    return Signals(np.hstack([part.X for part in found]), observed)


def sources_of_part(
    rows: Any, unit: float, masked: bool, recipes: Sequence[Recipe], scale_of: NDArray[np.intp]
) -> Array:
    """The sources (m, S', N) of signals by the recipes of a fit, in the units of the caller.

    ``scale_of`` (S,) numbers the scale of which each of the fit's is a part.
    """
    signals = make_part(rows, unit, masked)
    m, (S, N) = signals.X.shape[1], recipes[0].D.decay.shape
    sources = np.zeros((m, int(scale_of.max()) + 1, N))
    batch = signal_access.BATCH
    part = _Part(signals, None, Place(f"sources {id(signals)}", 0, 0, -(-m // batch), batch))
    found = _codes_of(part, recipes, [recipe.number for recipe in recipes])
    codes.forget(part.place.fit)
    first = 0
    for some in found:
        H = thick(some, S * N).reshape(-1, S, N)
        for s in range(S):
            sources[first : first + len(H), scale_of[s]] += H[:, s]
        first += len(H)
    sources *= unit
    return sources
