"""Estimators that take no time to choose anything, and problems smaller than a quick look's."""

from __future__ import annotations

from functools import partial

import pytest

from heatgraph.estimators import LearnHeat
from heatgraph.experiments import figure1, figure3, paper_settings, synthetic_runs


@pytest.fixture
def hasty(monkeypatch):
    """Give LearnHeat() its parameters and few nodes: what it makes of them has tests elsewhere."""
    given = partial(LearnHeat, alpha=0.03, beta=0.03, penalty="l1", tol=1e-2)
    monkeypatch.setitem(synthetic_runs.ESTIMATORS, "heat", given)
    monkeypatch.setattr(figure1, "LearnHeat", given)
    monkeypatch.setattr(figure3, "QUICK_SIZES", (2, 15))
    monkeypatch.setattr(paper_settings, "QUICK_NODES", 6)
    monkeypatch.setattr(paper_settings, "QUICK_SIGNALS", 15)
