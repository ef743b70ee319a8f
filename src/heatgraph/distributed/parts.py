"""What a worker does with its part of the signals: code them, keep the codes, return sums.

Codes never leave the worker.  They are kept under the number of the step that made them, and a
worker that does not have them (it is new, or another had this part before) finds them again from
the recipe of the step, which is small: the dictionary, the penalty, and the step whose codes gave
the discount.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from heatgraph.objective.heat import Dictionary, HeatObjective, Moments, Signals
from heatgraph.solvers import ensemble
from heatgraph.solvers.ensemble import LocalSignals, above_tangent, energy_of, tree_sum

if TYPE_CHECKING:
    from heatgraph.selection.elsewhere import Draws, Trial

__all__ = [
    "Facts",
    "Recipe",
    "above_part",
    "add",
    "code_part",
    "energy_of",
    "errors_of_part",
    "facts_of",
    "forget",
    "gram_of_nodes",
    "make_part",
    "moments_of_part",
    "same",
    "sources_of_part",
]

Array = NDArray[np.float64]
Counts = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, eq=False)
class Recipe:
    """One step: codes are the sources on ``D``, found under ``number``.

    ``objective`` has the penalty and the atoms; its candidates are not read.
    """

    number: int
    objective: HeatObjective
    D: Dictionary


@dataclass(frozen=True, eq=False)
class Facts:
    """What has to be known of a part before its scale is: sums in units of ``top``."""

    n_signals: int
    top: float
    squares: float
    n_observed: NDArray[np.intp]
    n_infinite: int
    checksum: int = 0  # of the bits, whatever the chunks and the order

    @property
    def masked(self) -> bool:
        """Whether there are missing entries."""
        return bool((self.n_observed < self.n_signals).any())

    def __add__(self, other: Facts) -> Facts:
        top = max(self.top, other.top)
        squares = sum(
            part.squares * (part.top / top) ** 2 for part in (self, other) if part.top > 0.0
        )
        return Facts(
            self.n_signals + other.n_signals,
            top,
            float(squares),
            self.n_observed + other.n_observed,
            self.n_infinite + other.n_infinite,
            (self.checksum + other.checksum) % 2**64,
        )


def facts_of(rows: Any) -> Facts:
    """The facts of some signals (m, N) as the caller has them."""
    X = np.asarray(rows, dtype=np.float64)
    n_infinite = int(np.isinf(X).sum())
    if n_infinite:
        return Facts(len(X), 0.0, 0.0, (~np.isnan(X)).sum(axis=0), n_infinite)
    top = float(np.nanmax(np.abs(X), initial=0.0))
    squares = float(np.nansum(np.square(X / top))) if top > 0.0 else 0.0
    odd = 2 * np.arange(X.shape[1], dtype=np.uint64) + 1  # so that columns do not change places
    bits = np.where(np.isnan(X), 0.0, X).view(np.uint64)
    checksum = int((bits.sum(axis=0, dtype=np.uint64) * odd).sum(dtype=np.uint64))
    return Facts(len(X), top, squares, (~np.isnan(X)).sum(axis=0), 0, checksum)


def make_part(rows: Any, unit: float, masked: bool) -> Signals:
    """Signals (m, N) as columns of size one; ``masked`` if there are missing entries in any part.

    With a mask that hides nothing the sums are the same but for rounding, and no part may differ.
    """
    X = np.asarray(rows, dtype=np.float64)
    signals = Signals.from_missing(np.ascontiguousarray(X.T) / unit)
    if masked and signals.observed is None:
        return Signals(signals.X, np.ones(signals.X.shape, dtype=bool))
    return signals


def same(value: Any) -> Any:
    """A value, sent to a worker by the task that returns it."""
    return value


def gram_of_nodes(part: Signals) -> Array:
    """``X X^T`` (N, N): from which the distances between the nodes follow."""
    gram: Array = part.X @ part.X.T
    return gram


def add(terms: Sequence[Any]) -> Any:
    """The sum, in an order that does not depend on who adds what."""
    return tree_sum(terms)


# Codes by (store, part) and the number of their step; of each batch the columns of its nonzeros,
# how many there are in each row, and their values.
Thin = list[tuple[NDArray[np.int32], NDArray[np.int32], Array]]
_codes: dict[tuple[str, int], dict[int, Thin]] = {}
_grams: dict[int, Array] = {}
_lock = Lock()


def forget(store: str) -> None:
    """Drop the codes of a fit that is over."""
    with _lock:
        for key in [key for key in _codes if key[0] == store]:
            del _codes[key]
        _grams.clear()


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of a store: the signals that count there, and how often each does."""

    signals: Signals
    counts: Counts | None
    key: tuple[str, int]

    @property
    def n_signals(self) -> int:
        M = self.signals.X.shape[1]
        return M if self.counts is None else int(np.count_nonzero(self.counts))

    def batches(self) -> Iterator[tuple[Signals, Counts | None]]:
        """The signals that count, some at a time."""
        M = self.signals.X.shape[1]
        chosen = np.arange(M) if self.counts is None else np.flatnonzero(self.counts)
        for start in range(0, chosen.size, ensemble.BATCH):
            some = chosen[start : start + ensemble.BATCH]
            yield self.signals.take(some), None if self.counts is None else self.counts[some]

    def keep(self, number: int, codes: Thin, live: Sequence[int]) -> None:
        """Keep the codes of a step, and drop those that nobody will ask for."""
        with _lock:
            kept = _codes.setdefault(self.key, {})
            for old in [old for old in kept if old not in live]:
                del kept[old]
            kept[number] = codes

    def find(self, number: int) -> Thin | None:
        with _lock:
            return _codes.get(self.key, {}).get(number)


def _thin(codes: Array) -> tuple[NDArray[np.int32], NDArray[np.int32], Array]:
    rows, columns = np.nonzero(codes)
    counts = np.bincount(rows, minlength=len(codes)).astype(np.int32)
    return columns.astype(np.int32), counts, codes[rows, columns]


def _thick(thin: tuple[NDArray[np.int32], NDArray[np.int32], Array], n_atoms: int) -> Array:
    columns, counts, values = thin
    codes = np.zeros((counts.size, n_atoms))
    codes[np.repeat(np.arange(counts.size), counts), columns] = values
    return codes


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


def _code(
    part: _Part, recipes: Sequence[Recipe], start: int | None, live: Sequence[int]
) -> Moments:
    """Code a part by the first of the recipes, the others being where its discount is from."""
    recipe, before = recipes[0], recipes[1:]
    D, objective = recipe.D, recipe.objective
    warm = None if start is None else part.find(start)
    tangent = _codes_of(part, before, live) if before else None
    gram = _gram(recipe)
    codes: Thin = []
    sums: list[Moments] = []
    for k, (signals, counts) in enumerate(part.batches()):
        local = LocalSignals(signals)
        first = local.silence(D.n_atoms) if warm is None else _thick(warm[k], D.n_atoms)
        discount = None
        if tangent is not None:
            at = before[0]
            at_codes = _thick(tangent[k], at.D.n_atoms)
            discount = local.discount(at.D, at_codes, at.objective.alpha)[0]
        h, moments = local.code_batch(objective, D, first, discount, gram)
        if counts is not None and (counts > 1).any():
            moments = _repeated(local, objective, D, h, discount, counts)
        codes.append(_thin(h))
        sums.append(moments)
    part.keep(recipe.number, codes, [recipe.number, *live])
    return add(sums) if sums else _nothing(D)


def _nothing(D: Dictionary) -> Moments:
    S, N = D.decay.shape
    return Moments(0.0, np.zeros((S, N, N)), np.zeros((S, N)))


def _repeated(
    local: LocalSignals,
    objective: HeatObjective,
    D: Dictionary,
    h: Array,
    discount: Array | None,
    counts: Counts,
) -> Moments:
    """The sums with every signal as often as it counts."""
    again = np.repeat(np.arange(len(h)), counts)
    signals = local.signals.take(again)
    slopes = None if discount is None else discount[again]
    return LocalSignals(signals).sums(objective, D, h[again], slopes)


def _codes_of(part: _Part, recipes: Sequence[Recipe], live: Sequence[int]) -> Thin:
    """The codes of a step, found again where they are not at hand."""
    found = part.find(recipes[0].number)
    if found is None:
        _code(part, recipes, None, live)
        found = part.find(recipes[0].number)
    if found is None:  # dropped by a later step: this one was given up meanwhile
        raise RuntimeError("the codes of a step were dropped while it was under way")
    return found


def code_part(
    signals: Signals,
    counts: Counts | None,
    key: tuple[str, int],
    recipes: Sequence[Recipe],
    start: int | None,
    live: Sequence[int],
) -> Moments:
    """Code a part from the codes of step ``start``; its sums.

    ``recipes`` are the step's own and, where its penalty is discounted, those that lead to the
    discount.  The codes of the steps in ``live`` are kept.
    """
    return _code(_Part(signals, counts, key), recipes, start, live)


def above_part(
    signals: Signals,
    counts: Counts | None,
    key: tuple[str, int],
    recipes: Sequence[Recipe],
    live: Sequence[int],
) -> float:
    """How far the tangent at the codes of a step is above its own l1 term, summed."""
    part, at = _Part(signals, counts, key), recipes[0]
    above = []
    codes = _codes_of(part, recipes, live)
    for thin, (_, times) in zip(codes, part.batches(), strict=True):
        h = _thick(thin, at.D.n_atoms)
        if times is not None:
            h = np.repeat(h, times, axis=0)
        sizes = np.abs(h) * at.D.omega.ravel()
        above.append(above_tangent(sizes, at.objective.alpha))
    return float(add(above)) if above else 0.0


def moments_of_part(
    signals: Signals,
    counts: Counts | None,
    key: tuple[str, int],
    recipes: Sequence[Recipe],
    live: Sequence[int],
) -> Moments:
    """The sums at the codes of a step, discounted by the tangent at these codes."""
    part, at = _Part(signals, counts, key), recipes[0]
    sums = []
    codes = _codes_of(part, recipes, live)
    for thin, (some, times) in zip(codes, part.batches(), strict=True):
        h = _thick(thin, at.D.n_atoms)
        if times is not None:
            again = np.repeat(np.arange(len(h)), times)
            some, h = some.take(again), h[again]
        sums.append(LocalSignals(some).moments(at.objective, at.D, h))
    return add(sums) if sums else _nothing(at.D)


def sources_of_part(
    rows: Any, unit: float, masked: bool, recipes: Sequence[Recipe], scale_of: NDArray[np.intp]
) -> Array:
    """The sources (m, S', N) of signals by the recipes of a fit, in the units of the caller.

    ``scale_of`` (S,) numbers the scale of which each of the fit's is a part.
    """
    signals = make_part(rows, unit, masked)
    m, (S, N) = signals.X.shape[1], recipes[0].D.decay.shape
    sources = np.zeros((m, int(scale_of.max()) + 1, N))
    part = _Part(signals, None, (f"sources {id(signals)}", 0))
    codes = _codes_of(part, recipes, [recipe.number for recipe in recipes])
    forget(part.key[0])
    first = 0
    for thin in codes:
        H = _thick(thin, S * N).reshape(-1, S, N)
        for s in range(S):
            sources[first : first + len(H), scale_of[s]] += H[:, s]
        first += len(H)
    sources *= unit
    return sources


def errors_of_part(
    signals: Signals,
    folds: NDArray[np.int8],
    before: Sequence[int],
    shared: tuple[Sequence[Draws], str],
    trials: Sequence[Trial],
    n_rows: int,
) -> Array:
    """The products of the errors of a part's signals, see :mod:`heatgraph.selection.elsewhere`.

    ``before`` counts the signals of each fold in the parts before this one.
    """
    # Here, because it brings pandas along, and a worker that only fits has no use for that.
    from heatgraph.selection.elsewhere import error_products

    (draws, penalty), first = shared, np.array(before)
    products = np.zeros((n_rows + 2, n_rows + 2))
    for start in range(0, folds.size, ensemble.BATCH):
        some = folds[start : start + ensemble.BATCH]
        counts = np.bincount(some, minlength=len(draws))
        columns = [d.columns(int(a), int(n)) for d, a, n in zip(draws, first, counts, strict=True)]
        batch = signals.take(np.arange(start, start + some.size))
        products += error_products(batch, some, columns, trials, n_rows, penalty)
        first = first + counts
    return products
