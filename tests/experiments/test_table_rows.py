"""Rows of a table: which parameters the truth prefers, and what is said beside the paper."""

import numpy as np
import pytest

from heatgraph.experiments.paper_settings import TABLES
from heatgraph.experiments.table_rows import (
    Line,
    draw_table,
    line_of_path,
    long_table,
    markdown_table,
)
from heatgraph.metrics import EdgeScores


def line(values, paper):
    scores = np.repeat(np.array(values, dtype=float)[:, None], 5, axis=1)
    return Line("er", "LearnHeat", "oracle", scores, EdgeScores(*[paper] * 5))


@pytest.mark.parametrize(
    ("values", "paper", "verdict"),
    [([0.8, 0.9], 0.85, "within"), ([0.8, 0.9], 0.7, "above"), ([0.8, 0.9], 0.95, "below")],
)
def test_verdict(values, paper, verdict):
    assert line(values, paper).verdict("f_measure") == verdict


def test_an_oracle_takes_one_row_of_the_grid_for_all_graphs():
    results = [
        {"scores": [[0.9] * 5, [0.7] * 5, [0.1] * 5]},
        {"scores": [[0.1] * 5, [0.6] * 5, [0.8] * 5]},
    ]
    found = line_of_path("er", "LearnHeat", results, [[1.0], [2.0], [3.0]], None)
    assert found.parameters == (2.0,)
    assert found.mean.f_measure == pytest.approx(0.65)
    assert found.own == pytest.approx(0.85)
    assert found.verdict("f_measure") == ""


def test_tables_have_ours_and_the_papers():
    lines = [line([0.8, 0.9], 0.7)]
    table = long_table(lines)
    assert table["score"].tolist() == list(EdgeScores._fields)
    assert table["std"].tolist() == pytest.approx([0.1 / np.sqrt(2)] * 5)
    assert "0.850 ± 0.071 ▲ (0.700)" in markdown_table(lines)
    assert draw_table(lines, "A table").axes[0].get_title(loc="left") == "A table"


def test_fewer_graphs_are_counted():
    lines = [line([0.8, 0.9, 0.7], 0.7), line([0.8], 0.7), line([0.8, 0.9], 0.7)]
    shown = " ".join(text.get_text() for text in draw_table(lines, "A table").axes[0].texts)
    assert ", 1 graph " in shown
    assert ", 2 graphs " in shown


def test_the_paper_has_a_row_for_every_model_and_method():
    for table in TABLES.values():
        assert len(table) == 9
        assert all(0.0 < value < 1.0 for scores in table.values() for value in scores)
