"""What the paper's figures imply."""

import numpy as np
import pytest

from heatgraph.experiments.paper_settings import implied_density
from heatgraph.metrics import EdgeScores


def test_density_follows_from_the_scores_of_known_graphs():
    # 100 pairs, 30 edges, 24 of them among 32 learned ones.
    table = np.array([[24, 6], [8, 62]]) / 100
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    information = np.sum(table * np.log(table / np.outer(rows, columns)))
    entropies = [-np.sum(p * np.log(p)) for p in (rows, columns)]
    scores = EdgeScores(0.0, 24 / 32, 24 / 30, information / np.mean(entropies), 0.0)
    assert implied_density(scores) == pytest.approx(0.3)
