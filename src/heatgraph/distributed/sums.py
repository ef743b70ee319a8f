"""Sums whose terms are with several workers, to the same bits whoever has which of them.

Terms are added by halves, as :func:`~heatgraph.solvers.ensemble.tree_sum` adds them.  Whoever has
the terms from one to another adds those that have their place in that order, and hands on a sum
for each stretch of 2^k of them: some ten numbers at most, whatever the number of terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Sums", "join", "sum_up"]

# The first of the terms, how many they are (a power of two that divides the first), their sum.
Stretch = tuple[int, int, Any]


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums over neighbouring terms of ``n_terms``, and who has found those of which part."""

    stretches: tuple[Stretch, ...]
    n_terms: int
    homes: tuple[tuple[int, str], ...] = ()

    @property
    def value(self) -> Any:
        """The sum of all terms."""
        if sum(size for _, size, _ in self.stretches) != self.n_terms:
            raise ValueError(f"not all of the {self.n_terms} terms of a sum are there")
        *before, (_, _, value) = self.stretches
        for _, _, term in reversed(before):
            value = term + value
        return value


def sum_up(values: Iterable[Any], first: int, n_terms: int) -> Sums:
    """The sums of the terms from number ``first`` on, taken one at a time."""
    stack: list[Stretch] = []
    for k, value in enumerate(values, start=first):
        _push(stack, (k, 1, value))
    return _of(stack, n_terms)


def join(sums: Sequence[Sums]) -> Sums:
    """The sums of neighbours, in their order, as one."""
    stack: list[Stretch] = []
    for some in sums:
        for stretch in some.stretches:
            _push(stack, stretch)
    return _of(stack, sums[0].n_terms, tuple(home for some in sums for home in some.homes))


def _push(stack: list[Stretch], stretch: Stretch) -> None:
    first, size, value = stretch
    while stack and stack[-1][1] == size and stack[-1][0] % (2 * size) == 0:
        first, _, before = stack.pop()
        size, value = 2 * size, before + value
    stack.append((first, size, value))


def _of(stack: list[Stretch], n_terms: int, homes: tuple[tuple[int, str], ...] = ()) -> Sums:
    sums = Sums(tuple(stack), n_terms, homes)
    if sum(size for _, size, _ in stack) < n_terms:
        return sums
    return Sums(((0, n_terms, sums.value),), n_terms, homes)
