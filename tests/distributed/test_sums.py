"""Sums in parts: the same bits, whoever has which of the terms."""

from __future__ import annotations

import numpy as np
import pytest

from heatgraph.distributed.sums import join, sum_up
from heatgraph.solvers.signal_access import tree_sum


@pytest.mark.parametrize("n", [1, 2, 3, 8, 11, 16, 27, 61])
@pytest.mark.parametrize("n_parts", [1, 2, 3, 7])
def test_sums_of_sums_are_the_same_bits(n, n_parts, rng):
    terms = list(rng.normal(size=n) * 10.0 ** rng.integers(-8, 8, n))
    ends = np.sort(rng.integers(0, n + 1, n_parts - 1))
    begins = [0, *ends.tolist()]
    parts = [sum_up(terms[a:b], a, n) for a, b in zip(begins, [*ends, n], strict=True)]
    assert join(parts).value == tree_sum(terms)
    by_two = [join(parts[k : k + 2]) for k in range(0, len(parts), 2)]
    assert join(by_two).value == tree_sum(terms)
    assert tree_sum(terms) == pytest.approx(np.sum(terms), rel=1e-9, abs=1e-9)


def test_little_is_handed_on():
    part = sum_up(np.ones(1000), 7, 2000)
    assert len(part.stretches) < 20
    whole = join([sum_up(np.ones(7), 0, 2000), part, sum_up(np.ones(993), 1007, 2000)])
    assert [size for _, size, _ in whole.stretches] == [2000]
    assert whole.value == 2000.0


@pytest.mark.parametrize("n", [8, 20, 79, 1000])
@pytest.mark.parametrize("n_parts", [1, 2, 4])
def test_equal_parts_hand_on_one_sum(n, n_parts):
    for k in range(n_parts):
        begin, end = k * n // n_parts, (k + 1) * n // n_parts
        assert len(sum_up(np.ones(end - begin), begin, n).stretches) == 1


def test_terms_are_taken_one_at_a_time():
    held, most = 0, 0

    class Term:
        def __init__(self):
            nonlocal held, most
            held += 1
            most = max(most, held)

        def __add__(self, other):
            nonlocal held
            held -= 1
            return self

    tree_sum((Term() for _ in range(1000)), 1000)
    assert held == 1
    assert most < 12


def test_a_part_that_is_missing_is_an_error():
    with pytest.raises(ValueError, match="not all of the 5 terms"):
        _ = sum_up([1.0, 2.0], 0, 5).value


def test_who_has_what_is_handed_on():
    from dataclasses import replace

    parts = [replace(sum_up([1.0], k, 2), homes=((k, f"worker {k}"),)) for k in range(2)]
    assert join(parts).homes == ((0, "worker 0"), (1, "worker 1"))
