"""Sums whose terms are with several workers, to the same bits whoever has which of them.

Terms are added by halves, as :func:`~heatgraph.solvers.signal_access.tree_sum` adds
them.  Whoever has the terms from one to another adds those that have their place in that order, and
hands on a sum for each stretch of them that is one of the halves, their halves and so on: one for
one of two parts, and some ten at most, whatever the number of terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Sums", "join", "sum_up"]

# The first of the terms, how many they are, their sum.
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
        if [size for _, size, _ in self.stretches] != [self.n_terms]:
            raise ValueError(f"not all of the {self.n_terms} terms of a sum are there")
        return self.stretches[0][2]


def sum_up(values: Iterable[Any], first: int, n_terms: int) -> Sums:
    """The sums of the terms from number ``first`` on, taken one at a time."""
    stack: list[Stretch] = []
    for k, value in enumerate(values, start=first):
        _push(stack, (k, 1, value), n_terms)
    return Sums(tuple(stack), n_terms)


def join(sums: Sequence[Sums]) -> Sums:
    """The sums of neighbours, in their order, as one."""
    stack: list[Stretch] = []
    n_terms = sums[0].n_terms
    for some in sums:
        for stretch in some.stretches:
            _push(stack, stretch, n_terms)
    return Sums(tuple(stack), n_terms, tuple(home for some in sums for home in some.homes))


def _push(stack: list[Stretch], stretch: Stretch, n_terms: int) -> None:
    first, size, value = stretch
    while stack and _are_halves(stack[-1][0], first, first + size, n_terms):
        first, before, term = stack.pop()
        size, value = before + size, term + value
    stack.append((first, size, value))


def _are_halves(begin: int, middle: int, end: int, n_terms: int) -> bool:
    """Whether the terms up to the middle and those after it are the halves of one stretch."""
    low, high = 0, n_terms
    while (low, high) != (begin, end):
        half = (low + high) // 2
        if end <= half:
            high = half
        elif begin >= half:
            low = half
        else:
            return False
    return middle == (low + high) // 2
