"""On which rows of its grid a method runs."""

import numpy as np
import pytest

from heatgraph.experiments import Settings, synthetic_runs
from heatgraph.experiments.paper_settings import grid
from heatgraph.experiments.synthetic_runs import as_weights
from heatgraph.experiments.table_rows import LEARNED, PAPER
from heatgraph.experiments.tables import KEPT, ROWS, Block, _key, _measured


@pytest.fixture
def ran(monkeypatch):
    """An algorithm that finds the graph at alpha 0.01 alone; returns what it was called with."""
    calls = []

    def found(drawn, rows):
        calls.append(rows)
        for alpha, _ in rows:
            true = as_weights(drawn.graph)
            w = true if np.isclose(alpha, 0.01) else np.ones_like(true)
            yield w, "converged", np.array(drawn.scales)

    for method in ("paper", "paper, scales learned"):
        monkeypatch.setitem(synthetic_runs.PATHS, method, found)
    return calls


def test_a_row_with_a_leader_runs_at_the_best_rows_of_that_one(ran):
    settings = Settings(instances=2)
    rows = tuple(row for row in ROWS if row.label in (PAPER, LEARNED))
    block = Block("er", settings.readings, "", rows)
    found = _measured([block], settings, noisy=False)
    held, learned = ([found[_key(block, row, k)] for k in range(2)] for row in rows)
    assert ran[:2] == [grid("paper", False)] * 2
    assert [len(tried) for tried in ran[2:]] == [KEPT] * 2
    assert [row[0] for row in learned[0]["grid"]] == pytest.approx([0.01] * 3)
    assert [scores[0] for scores in learned[1]["scores"]] == [1.0] * 3
    assert max(scores[0] for scores in held[0]["scores"]) == 1.0
