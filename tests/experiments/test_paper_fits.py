"""On which rows of its grid the paper's own algorithm runs, and on which graphs."""

import numpy as np
import pytest

from heatgraph.experiments import Settings, paper_fits, synthetic_runs
from heatgraph.experiments.paper_settings import grid, implied_density, problem
from heatgraph.experiments.synthetic_runs import as_weights
from heatgraph.metrics import EdgeScores


@pytest.fixture
def ran(monkeypatch):
    """An algorithm that finds the graph at alpha 0.01 alone; returns what it was called with."""
    calls = []

    def found(drawn, rows, learn_scales=False):
        calls.extend((tuple(row), learn_scales) for row in rows)
        for alpha, _ in rows:
            true = as_weights(drawn.graph)
            w = true if np.isclose(alpha, 0.01) else np.ones_like(true)
            yield w, "converged", np.array(drawn.scales)

    monkeypatch.setitem(synthetic_runs.PATHS, paper_fits.HELD, found)
    learned = lambda drawn, rows: found(drawn, rows, learn_scales=True)  # noqa: E731
    monkeypatch.setitem(synthetic_runs.PATHS, paper_fits.LEARNED, learned)
    return calls


def graphs(settings):
    return {"er": [problem(settings, "er", k, noisy=False) for k in range(3)]}


def test_a_screened_grid_runs_its_middle_on_the_first_graph_and_its_best_rows_on_others(ran):
    settings = Settings(paper_grid="screened", learned_instances=1)
    results = paper_fits.paper_results(graphs(settings), settings)["er"]
    assert len(ran) == 27 + 2 * paper_fits.KEPT
    assert all(result["grid"] == results[0]["grid"] for result in results)
    assert [row[0] for row in results[0]["grid"]] == pytest.approx([0.01] * 3)
    assert [[scores[0] for scores in r["scores"]] for r in results] == [[1.0] * 3] * 3
    ran.clear()
    learned = paper_fits.learned_results(graphs(settings), {"er": results}, settings)["er"]
    assert ran == [(tuple(row), True) for row in results[0]["grid"]]
    assert len(learned) == 1


def test_the_whole_grid_runs_on_as_many_graphs_as_asked(ran):
    settings = Settings(paper_instances=2)
    results = paper_fits.paper_results(graphs(settings), settings)["er"]
    assert [result["grid"] for result in results] == [grid("paper", False)] * 2
    assert len(ran) == 2 * 45


def test_density_follows_from_the_scores_of_known_graphs():
    # 100 pairs, 30 edges, 24 of them among 32 learned ones.
    table = np.array([[24, 6], [8, 62]]) / 100
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    information = np.sum(table * np.log(table / np.outer(rows, columns)))
    entropies = [-np.sum(p * np.log(p)) for p in (rows, columns)]
    scores = EdgeScores(0.0, 24 / 32, 24 / 30, information / np.mean(entropies), 0.0)
    assert implied_density(scores) == pytest.approx(0.3)
