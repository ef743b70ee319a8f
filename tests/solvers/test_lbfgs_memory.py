"""The memory of limited-memory BFGS against the recursion that defines the matrix."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from heatgraph.solvers.quasi_newton import Curvature

Array = NDArray[np.float64]


def pairs_of(n: int, count: int, seed: int = 0) -> list[tuple[Array, Array]]:
    """Steps and changes of the gradient of a convex quadratic."""
    rng = np.random.default_rng(seed)
    curvature = rng.uniform(0.5, 20.0, n)
    return [(s, curvature * s) for s in rng.normal(size=(count, n))]


def remembered(metric: Array, pairs: list[tuple[Array, Array]], most: int) -> Curvature:
    memory = Curvature.nothing(metric)
    for step, change in pairs:
        memory = memory.remember(step, change, most)
    return memory


def matrix_of(memory: Curvature) -> Array:
    sigma, middle = memory.compact()
    sides = np.vstack([memory.steps * memory.metric, memory.yields])
    dense: Array = sigma * np.diag(memory.metric) - sides.T @ middle @ sides
    return dense


@pytest.mark.parametrize(("count", "most"), [(1, 4), (3, 4), (9, 4), (23, 4), (5, 1)])
def test_is_the_matrix_of_the_recursion(count: int, most: int) -> None:
    n = 12
    metric = np.random.default_rng(1).uniform(0.2, 5.0, n)
    pairs = pairs_of(n, count)
    step, change = pairs[-1]
    B = np.diag(metric) * ((change / metric) @ change / (step @ change))
    for s, y in pairs[-most:]:
        B += np.outer(y, y) / (s @ y) - np.outer(B @ s, B @ s) / (s @ B @ s)
    np.testing.assert_allclose(matrix_of(remembered(metric, pairs, most)), B, atol=1e-9)


def test_remembering_more_leaves_what_was_remembered() -> None:
    pairs = pairs_of(30, 12)
    before = remembered(np.ones(30), pairs[:5], 4)
    steps, yields = before.steps.copy(), before.yields.copy()
    later = before
    for step, change in pairs[5:]:
        later = later.remember(step, change, 4)
    np.testing.assert_array_equal(before.steps, steps)
    np.testing.assert_array_equal(before.yields, yields)
    np.testing.assert_array_equal(later.steps, [step for step, _ in pairs[-4:]])


def test_pairs_that_do_not_bend_upwards_are_not_remembered() -> None:
    memory = Curvature.nothing(np.ones(3))
    step = np.array([1.0, -1.0, 0.0])
    assert len(memory.remember(step, -step, 4)) == 0
    assert len(memory.remember(step, np.array([1.0, 1.0, 0.0]), 4)) == 0
    assert len(memory.remember(step, step, 4)) == 1
