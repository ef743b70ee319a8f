"""Estimators that take no time to choose anything, in place of those that do."""

from __future__ import annotations

from functools import partial

import pytest

from heatgraph.estimators import LearnHeat
from heatgraph.experiments import figure1, synthetic_runs


@pytest.fixture
def hasty(monkeypatch):
    """Give LearnHeat() its parameters: what it makes of them is tested where it is made."""
    given = partial(LearnHeat, alpha=0.03, beta=0.03, penalty="l1", tol=1e-2)
    monkeypatch.setitem(synthetic_runs.ESTIMATORS, "heat", given)
    monkeypatch.setattr(figure1, "LearnHeat", given)
