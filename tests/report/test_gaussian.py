"""The page of a Gaussian model: p-values, variances, intervals, and which model was kept."""

import re

import numpy as np
import pandas as pd
import pytest

from heatgraph import HeatCovariance
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators import ModelComparison
from heatgraph.report import write_report
from heatgraph.report.page_data import gather, place
from heatgraph.report.shown_signals import gaps_of, mean_heat, p_value, with_graph

NAMES = ["a", "b", "<i>c", "d", "e", "f", "g"]


@pytest.fixture(scope="module")
def frame():
    X, _ = make_heat_signals(make_graph("ring", 7, 0), [2.0], 60, 7, 0.05, random_state=1)
    gaps = pd.DataFrame(X + 8.0, columns=NAMES, index=[f"day {k}" for k in range(60)])
    gaps.iloc[3, 2] = gaps.iloc[3, 4] = gaps.iloc[10, 0] = np.nan
    return gaps


@pytest.fixture(scope="module")
def model(frame):
    return HeatCovariance(penalty=2.0).fit(frame)


def content_of(model, frame):
    return gather(model, frame, None, None, place(model.graph_, None, None))


def test_gaps_have_their_intervals(model, frame):
    gaps, n_gaps = gaps_of(model, frame)
    assert n_gaps == len(gaps) == 3
    mean, std = model.impute(frame, return_std=True)
    first = gaps[0]
    assert (first.signal, first.node, first.mean) == (3, 2, mean.iloc[3, 2])
    assert first.high - first.low == pytest.approx(2 * 1.96 * std.iloc[3, 2])
    assert len(gaps_of(model, frame, at_most=2)[0]) == 2
    assert gaps_of(model, frame.fillna(8.0)) == ([], 0)
    assert gaps_of(model.graph_, frame) == ([], 0)


def test_sources_are_means_and_the_strongest_are_ringed(model, frame):
    H, ringed = mean_heat(model, frame)
    assert np.array_equal(H.reshape(60, -1), model.transform(frame))
    assert (np.count_nonzero(ringed, axis=(1, 2)) == 3).all()
    assert np.abs(ringed).max() == np.abs(H).max()


def test_the_fit_is_what_the_model_explains(model, frame):
    shown = content_of(model, frame).shown
    expected = model.inverse_transform(model.transform(frame))
    assert np.allclose(shown.fit, expected)
    assert np.median(shown.explained) > 0.8
    assert len(shown.sources) == 3 * 60


def test_edges_of_the_graph_need_not_be_edges_of_the_model(model, frame):
    content = content_of(model, frame)
    edges = content.edges
    kept = {tuple(pair) for pair in edges.pairs[-edges.kept :].tolist()}
    assert kept == {tuple(pair) for pair in model.graph_.edges.tolist()}
    merged = with_graph(model.graph_, model.weights_)
    assert len({tuple(pair) for pair in merged.edges.tolist()}) == merged.n_edges
    assert edges.n_learned == merged.n_edges
    assert np.isfinite(edges.confidence[-edges.kept :]).all()


def test_the_page_has_all_of_it(model, frame, tmp_path):
    model.comparison_ = ModelComparison(0.31, 0.02, 0.12, 0.01, 0.015, 60.0, 0.4, 0.7, 0.2)
    write_report(model, tmp_path / "report.html", frame)
    model.comparison_ = None
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for title in ("Which model", "How the parameters were chosen", "Edges by confidence"):
        assert title in page
    assert "Missing values" in page
    assert "<td>sparse (LearnHeat)</td><td>0.3100</td><td>0.0200</td>" in page
    assert '<tr class="chosen"><td>gaussian (HeatCovariance), kept</td><td>0.1200</td>' in page
    assert "<td>sparse less gaussian</td><td>+0.1900</td><td>0.0150</td>" in page
    assert "mean over signals</td><td>+0.70</td><td>0.20</td>" in page
    assert "<td>day 3</td><td>&lt;i&gt;c</td>" in page
    assert "heat was released at every node" in page
    assert "<td>noise variance, used</td>" in page
    assert "<td>source variances, used</td>" in page
    assert page.count('class="chosen"') == 2  # of the models, and of what was tried
    assert "<i>c" not in page
    assert "nan" not in re.sub("<script.*?</script>", "", page, flags=re.DOTALL)


def test_a_comparison_of_an_older_file_has_no_typical_ratio(model, frame, tmp_path):
    model.comparison_ = ModelComparison(0.31, 0.02, 0.12, 0.01, 0.015, 60.0, 0.4)
    write_report(model, tmp_path / "report.html", frame)
    model.comparison_ = None
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<td>sparse less gaussian</td><td>+0.1900</td>" in page
    assert "log of the ratio" not in page


def test_edges_chosen_by_their_p_values_have_no_cut(frame, tmp_path):
    model = HeatCovariance(shrinkage=0.001, penalty=2.0, cut="significance").fit(frame[11:])
    assert np.isnan(model.cut_)
    assert content_of(model, None).cut is None
    write_report(model, tmp_path / "report.html", frame)


def test_without_signals_there_are_neither_gaps_nor_sources(model, tmp_path):
    write_report(model, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Edges by confidence" in page
    assert "Missing values" not in page
    assert "Which model" not in page


def test_a_comparison_that_was_stopped_says_so(model, tmp_path):
    nan = float("nan")
    model.comparison_ = ModelComparison(nan, nan, 0.12, 0.01, nan, 60.0)
    write_report(model, tmp_path / "report.html")
    model.comparison_ = None
    assert "not compared" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("confidence", "text"), [(1.0, "< 0.0001"), (0.97, "0.03"), (0.0, "1")])
def test_p_values(confidence, text):
    assert p_value(confidence) == text


def test_a_level_is_part_of_the_fit_of_a_sparse_model(make_model, frame):
    graph = make_graph("ring", 7)
    model = make_model(graph, n_signals=4)
    model.location_ = np.arange(7.0)
    shown = content_of(model, None).shown
    model.location_ = np.zeros(7)
    assert np.allclose(shown.fit - content_of(model, None).shown.fit, np.arange(7.0))
