"""``compare``: the same gaps for all, honest errors, failures and interruptions as results."""

from __future__ import annotations

import json
from contextlib import contextmanager

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator
from sklearn.covariance import LedoitWolf

import heatgraph
from heatgraph import GeneralizedLaplacian, Graph, SmoothGraph
from heatgraph.comparison import Comparison, MethodResult
from heatgraph.comparison import run as comparing
from heatgraph.comparison.methods import METHODS, NO_GRAPH, chosen_methods
from heatgraph.comparison.table import share_missed
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators.hidden import which_hidden
from heatgraph.metrics import edge_scores
from heatgraph.report import write_report

QUICK = ["GGL", "HeatFilter", "LedoitWolf", "KNN"]


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def truth():
    graph = make_graph("er", 10, random_state=0)
    return Graph(graph.edges, graph.weights, names=list("abcdefghij"))


@pytest.fixture(scope="module")
def frame(truth):
    X, _ = make_heat_signals(truth, [1.0], 90, 10, 0.05, random_state=0)
    return pd.DataFrame(X + 3.0, columns=list("abcdefghij"))


@pytest.fixture(scope="module")
def found(frame, truth):
    return heatgraph.compare(frame, [*QUICK, "neighbours"], truth)


class Failing(BaseEstimator):
    def fit(self, X, y=None):
        raise ValueError("X is not to its taste.")


class Broken(BaseEstimator):
    def fit(self, X, y=None):
        raise RuntimeError("no licence")


class Stopped(BaseEstimator):
    def fit(self, X, y=None):
        raise KeyboardInterrupt


def test_the_share_is_that_of_a_loop(frame, found):
    X = frame.to_numpy()
    hidden = which_hidden(X, np.random.default_rng(0))
    missed = total = 0.0
    for fold in np.array_split(np.arange(90), 3):
        rest = np.delete(X, fold, axis=0)
        P, mean = LedoitWolf().fit(rest).precision_, rest.mean(axis=0)
        for k in fold:
            h = hidden[k]
            guess = mean[h] - np.linalg.solve(P[np.ix_(h, h)], P[np.ix_(h, ~h)] @ (X[k] - mean)[~h])
            missed += np.sum((X[k, h] - guess) ** 2)
            total += np.sum((X[k, h] - mean[h]) ** 2)
    assert found["LedoitWolf"].missed == pytest.approx(missed / total)


def test_rows_are_ranked_and_measured_against_the_best(found):
    shares = [row.missed for row in found.results if row.predicts]
    assert shares == sorted(shares)
    assert found.best.excess == found.best.excess_error == 0.0
    for row in found.results[:5]:
        assert row.excess == pytest.approx(row.missed - found.best.missed)
    assert found["mean"].missed == pytest.approx(1.0)
    assert found["mean"].error == pytest.approx(0.0, abs=1e-12)
    assert found.results[-1].name == "neighbours"
    assert np.isnan(found.results[-1].missed)


def test_graphs_are_those_of_all_signals(frame, truth, found):
    alone = GeneralizedLaplacian().fit(frame)
    row = found["GGL"]
    assert found.graphs["GGL"] == alone.graph_
    assert row.n_edges == alone.graph_.n_edges
    scores = edge_scores(truth.normalized(), alone.graph_.normalized())
    assert (row.f_measure, row.nmi, row.weight_error) == pytest.approx(
        (scores.f_measure, scores.nmi, scores.weight_error)
    )
    halves = [GeneralizedLaplacian().fit(part).graph_ for part in (frame[:45], frame[45:])]
    assert row.agreement == edge_scores(*halves).f_measure
    assert row.seconds > 0.0
    assert set(found.graphs) == {"GGL", "HeatFilter", "neighbours"}


def test_the_standard_error_allows_for_series(found):
    """Signals that come ten times in a row say no more than if they came once."""
    rng = np.random.default_rng(0)
    errors, total = rng.random(30), rng.random(30) + 1.0
    once = share_missed(errors, total)
    assert share_missed(np.repeat(errors, 10), np.repeat(total, 10)) == pytest.approx(once)
    draws = [share_missed(*pair) for pair in np.random.default_rng(1).random((2000, 2, 30)) + 0.5]
    shares, spreads = np.array(draws).T
    assert spreads.mean() == pytest.approx(shares.std(), rel=0.1)


def test_the_verdict_says_what_is_chance():
    rows = [
        MethodResult("A", 0.2, 0.01, 0.0, 0.0),
        MethodResult("B", 0.22, 0.01, 0.02, 0.03),
        MethodResult("C", 0.23, 0.01, 0.03, 0.02),
        MethodResult("mean", 1.0, 0.0, 0.8, 0.01),
    ]
    text = Comparison(tuple(rows), without_graph=("mean",)).verdict
    assert text.startswith("A predicts best: it misses 20.0% ± 1.0%")
    assert "The next, B, misses 2% ± 3% more, which is no more than chance." in text
    assert "Its difference from C may be chance." in text
    assert "The best without a graph, mean, misses 80.0% ± 1.0% more, which is more" in text
    plain = Comparison((rows[0], rows[1]), without_graph=("A",)).verdict
    assert "none of the graphs is better." in plain
    far = MethodResult("B", 0.4, 0.01, 0.2, 0.03)
    plain = Comparison((rows[0], far), without_graph=("A",)).verdict
    assert "none of the graphs helps to predict these signals." in plain


def test_the_time_left_is_that_of_the_method_that_takes_long(frame, monkeypatch):
    clock, ends = [0.0], []

    class Timed(LedoitWolf):
        def fit(self, X, y=None):
            clock[0] += (100.0 if self.store_precision else 0.1) * len(X)
            return super().fit(X)

    @contextmanager
    def bar(name):
        yield lambda done, of, text, end: ends.append((text, clock[0], end))

    monkeypatch.setattr(comparing, "counting_bar", bar)
    monkeypatch.setattr(comparing.time, "monotonic", lambda: clock[0])
    methods = {"quick": Timed(store_precision=False), "slow": Timed()}
    heatgraph.compare(frame, methods, verbose=1)
    assert all(end is None for text, _, end in ends if text != "slow")
    slow = [(now, end) for text, now, end in ends if text == "slow"]
    assert len(slow) == 6
    left = [(end - now) / (clock[0] - now) for now, end in slow[:-1]]
    assert all(0.8 < ratio < 1.25 for ratio in left)
    assert slow[-1][1] == pytest.approx(clock[0])


def test_nothing_compared_is_a_result_too(tmp_path):
    nothing = Comparison((), interrupted=True)
    assert nothing.verdict.startswith("No method predicts hidden entries")
    assert nothing.best is None
    assert nothing.table.empty
    assert {path.name for path in nothing.save(tmp_path)} == {"comparison.csv", "comparison.json"}
    with pytest.raises(KeyError, match="'GGL' was not compared"):
        nothing["GGL"]
    with pytest.raises(ValueError, match="no graph to draw"):
        nothing.plot()


def test_a_failure_is_a_row(frame):
    methods = {"bad": Failing(), "broken": Broken(), "GGL": GeneralizedLaplacian()}
    found = heatgraph.compare(frame, methods)
    assert found["bad"].status == "failed: X is not to its taste."
    assert found["broken"].status == "failed: RuntimeError: no licence"
    assert {result.name for result in found.results[-2:]} == {"bad", "broken"}
    assert found["GGL"].predicts


def test_gaps_are_for_those_that_take_them(frame):
    X = frame.to_numpy().copy()
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    found = heatgraph.compare(X, ["GGL", "HeatFilter", "LedoitWolf", "KNN"])
    told = "failed: it takes complete signals only, and there are gaps (NaN)"
    assert found["HeatFilter"].status == told
    assert all(found[name].missed < 1.0 for name in ("GGL", "LedoitWolf", "KNN"))


def test_what_is_done_before_an_interruption_is_kept(frame):
    models = {"GGL": GeneralizedLaplacian(), "stop": Stopped(), "never": SmoothGraph()}
    found = heatgraph.compare(frame, models)
    assert found.interrupted
    assert [row.name for row in found.results] == ["GGL"]
    assert "Stopped by the user" in found.verdict


def test_a_method_that_does_not_converge_says_so(frame):
    found = heatgraph.compare(frame, {"short": GeneralizedLaplacian(max_iter=1)})
    assert found["short"].status == "max_iter"


def test_workers_change_nothing(frame, found, truth):
    with parallel_config(backend="threading"):
        other = heatgraph.compare(frame, ["GGL", "LedoitWolf"], truth, n_jobs=2)
    for name in ("GGL", "LedoitWolf"):
        assert other[name].missed == pytest.approx(found[name].missed)
    assert other.graphs["GGL"] == found.graphs["GGL"]


def test_files_and_picture(found, tmp_path):
    open_figures = plt.get_fignums()
    files = {path.name for path in found.save(tmp_path / "out")}
    assert plt.get_fignums() == open_figures  # the picture is closed once it is written
    assert files == {"comparison.csv", "comparison.json", "graphs.csv", "graphs.png"}
    table = pd.read_csv(tmp_path / "out" / "comparison.csv", index_col="name")
    assert table.loc["GGL", "missed"] == pytest.approx(found["GGL"].missed)
    told = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert told["verdict"] == found.verdict
    assert told["methods"][-1]["missed"] is None
    edges = pd.read_csv(tmp_path / "out" / "graphs.csv")
    assert (edges["method"] == "GGL").sum() == found["GGL"].n_edges
    figure = found.plot()
    titles = [ax.get_title() for ax in figure.axes]
    plt.close(figure)
    assert titles[0] == f"known, {found.truth.n_edges} edges"
    assert len([title for title in titles if title]) == 4


def test_without_a_known_graph_there_are_no_scores(frame):
    table = heatgraph.compare(frame, ["GGL"]).table
    assert "f_measure" not in table.columns
    assert "agreement" in table.columns
    assert "f_measure" not in str(heatgraph.compare(frame, ["GGL"]))


def test_which_methods():
    assert set(chosen_methods(None, False)) == set(METHODS) - {
        "SpectralTemplates",
        "DiffusionPolytope",
        "neighbours",
    }
    assert set(chosen_methods(None, True)) == set(METHODS)
    assert list(chosen_methods(["ggl", SmoothGraph()], False)) == ["GGL", "SmoothGraph", "mean"]
    assert set(NO_GRAPH) <= set(METHODS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["magic"]}, "methods: 'magic' is none of HeatCovariance"),
        ({"methods": "GGL"}, "methods must be None, a list"),
        ({"methods": {"a": 3}}, "methods: 'a' must be an estimator"),
        ({"methods": [SmoothGraph]}, "must be an estimator with fit"),
        ({"cv": 1}, "cv must be an integer >= 2"),
        ({"cv": 50}, "cv=50 folds of at least two need 100"),
        ({"truth": Graph([(0, 1)], [1.0])}, "truth must be a Graph on the 10 columns"),
        ({"truth": np.eye(10)}, "truth must be a Graph on the 10 columns"),
        ({"random_state": None}, "random_state must be an integer"),
    ],
)
def test_bad_input_is_named(frame, options, message):
    with pytest.raises(ValueError, match=message):
        heatgraph.compare(frame, **options)


def test_the_report_shows_the_comparison(frame, found, tmp_path):
    found.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    best = next(r.name for r in found.results if r.name in found.graphs)
    assert f"The graph of {best}, beside other methods" in page
    assert "Which method predicts best" in page
    assert "data:image/png;base64," in page
    for result in found.results:
        assert f"<td>{result.name}</td>" in page
    GeneralizedLaplacian().fit(frame).report(tmp_path / "own.html", comparison=found)
    assert "Which method predicts best" in (tmp_path / "own.html").read_text(encoding="utf-8")


def test_a_name_of_a_method_is_text_on_the_page(frame, tmp_path):
    named = heatgraph.compare(frame, {"<b>mine": GeneralizedLaplacian()})
    named.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<b>mine" not in page
    assert "&lt;b&gt;mine" in page


def test_a_comparison_of_other_nodes_is_refused(found, tmp_path):
    other = Graph([(0, 1)], [1.0])
    with pytest.raises(ValueError, match="comparison must be of the 2 nodes"):
        write_report(other, tmp_path / "page.html", comparison=found)
    without = Comparison((MethodResult("mean", missed=1.0),))
    with pytest.raises(ValueError, match="no method learned one"):
        without.report(tmp_path / "page.html")
