"""Penalties as terms: slopes by differences, tangents that lie above and touch."""

from __future__ import annotations

import numpy as np
import pytest

from heatgraph.models.heat import L1, PENALTIES, LogSum, tangent


@pytest.fixture(params=PENALTIES)
def penalty(request):
    return PENALTIES[request.param]


def test_slope_is_the_derivative_over_alpha(penalty, rng):
    u, alpha, step = rng.exponential(size=50), 0.3, 1e-6
    change = penalty.value(u + step, alpha) - penalty.value(u - step, alpha)
    assert alpha * penalty.slope(u, alpha) == pytest.approx(change / (2 * step), rel=1e-7, abs=1e-9)


def test_slope_of_the_logarithm_lies_between_none_and_all():
    u = np.array([0.0, 0.3, 1e300])
    assert LogSum().slope(u, 0.3) == pytest.approx([1.0, 0.5, 0.0])


@pytest.mark.parametrize("alpha", [1e-3, 0.3, 50.0])
def test_tangent_lies_above_the_penalty_and_touches_it(penalty, rng, alpha):
    u0 = alpha * rng.exponential(size=30)
    u = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 100)]) * alpha
    for at in u0:
        slopes, above = tangent(penalty, np.array([at]), alpha)
        assert (alpha * slopes * u + above >= penalty.value(u, alpha) - 1e-12 * alpha**2).all()
    slopes, above = tangent(penalty, u0, alpha)
    touching = alpha * float(slopes @ u0) + above
    assert touching == pytest.approx(penalty.value(u0, alpha).sum())


def test_every_penalty_begins_as_l1(penalty):
    slopes, above = tangent(penalty, np.zeros(4), 0.2)
    assert slopes == pytest.approx(np.ones(4))
    assert above == 0.0
    assert not penalty.value(np.zeros(4), 0.2).any()


def test_without_alpha_nothing_is_charged(penalty):
    u = np.array([0.0, 2.0])
    slopes, above = tangent(penalty, u, 0.0)
    assert np.array_equal(slopes, [1.0, 1.0])
    assert above == 0.0
    assert not penalty.value(u, 0.0).any()


def test_only_l1_is_its_own_tangent():
    assert L1().is_linear
    assert not LogSum().is_linear
