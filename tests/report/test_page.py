"""The file itself: complete, closed to names, and honest about what it leaves out."""

import base64
import hashlib
import json
import re
import sys

import numpy as np
import pytest

from heatgraph import (
    Graph,
    GraphicalLassoGraph,
    HeatFilter,
    LearnHeat,
    SmoothGraph,
)
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.report import write_report
from heatgraph.solvers.result import Status


def parts(text):
    """The contents of the script elements, by their type."""
    found = re.findall(r"<script([^>]*)>(.*?)</script>", text, re.DOTALL)
    return [body for kind, body in found if "json" in kind], [
        body for kind, body in found if "json" not in kind
    ]


@pytest.fixture(scope="module")
def graph():
    return Graph([(0, 1), (1, 2), (2, 3)], [1.0, 2.0, 3.0], names=["a", "b", "c", "d"])


@pytest.fixture(scope="module")
def text(graph, tmp_path_factory):
    """The page of the graph, for tests that only read it."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report(graph, path)
    return path.read_text(encoding="utf-8")


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "report.html"

    def written(*arguments, **options):
        write_report(arguments[0], path, *arguments[1:], **options)
        return path.read_text(encoding="utf-8")

    return written


def test_names_stay_in_the_data(hostile_page, hostile):
    _, frame = hostile
    text = hostile_page.read_text(encoding="utf-8")
    data, code = parts(text)
    assert len(data) == len(code) == 2
    assert json.loads(data[0])["names"] == list(frame.columns)
    assert "<img src=x" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text  # the heading


def test_only_listed_scripts_may_run(text):
    policy = re.search(r'Security-Policy" content="([^"]*)"', text)[1]
    assert "default-src 'none'" in policy
    allowed = set(re.findall(r"'sha256-([^']*)'", policy))
    _, code = parts(text)
    hashes = {base64.b64encode(hashlib.sha256(c.encode()).digest()).decode() for c in code}
    assert hashes == allowed
    assert "unsafe-eval" not in policy
    script = policy.split("script-src")[1].split(";")[0]
    assert "unsafe-inline" not in script


def test_nothing_points_elsewhere(text):
    markup = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"https?:|src=|href=|url\(", markup)


def test_the_same_model_gives_the_same_data(page, graph, text):
    assert parts(page(graph))[0][0] == parts(text)[0][0]


@pytest.mark.parametrize("estimator", [SmoothGraph(beta=0.1), GraphicalLassoGraph(alpha=0.1)])
def test_other_methods_have_pages_too(page, estimator):
    X, _ = make_heat_signals(make_graph("ring", 6, 0), [1.0], 30, 2, 0.01, 0)
    model = estimator.fit(X)
    text = page(model, X)
    assert f"learned by {type(model).__name__}" in text
    assert "How far heat spreads" not in text
    data = json.loads(parts(text)[0][0])
    assert data["scales"] == []
    assert (data["fit"] is None) == (not isinstance(model, SmoothGraph))


def test_model_report_writes_the_same_page(make_model, graph, tmp_path, page):
    model = make_model(graph)
    model.report(tmp_path / "own.html", title="Ours")
    assert (tmp_path / "own.html").read_text("utf-8").count("<h1>Ours</h1>") == 1


def test_what_was_run_and_what_to_beware_of(make_model, page, graph):
    model = make_model(graph, scales=(0.001, 2.0))
    model.status_ = Status.MAX_ITER
    text = page(model, np.ones((3, 4)), sources=np.zeros((3, 2, 4)))
    assert "The fit ended as" in text
    assert "`tol`" not in text
    assert "A scale fell to zero" in text
    assert "the model explains nothing of the energy" in text
    assert "<td>alpha, given</td><td>0.05</td>" in text
    lonely = Graph([(0, 1)], [1.0], n_nodes=3, names=["a", "b", "<c>"])
    assert "Without an edge: &lt;c&gt;." in page(lonely)


def test_the_choice_is_marked_in_the_table(page):
    X, _ = make_heat_signals(make_graph("ring", 6, 0), [1.0], 30, 2, 0.01, 0)
    model = LearnHeat(n_scales=1, beta=0.01, tol=0.1).fit(X)
    text = page(model)
    assert f"All {len(model.selection_)} that were tried" in text
    assert f"All {len(model.stretches_)} stretches of the diffusion times" in text
    chosen, stretched = re.findall(r'<tr class="chosen">(.*?)</tr>', text)
    assert f"<td>{model.alpha_:.3g}</td>" in chosen
    assert f"<td>{model.scales_[0]:.3g}</td>" in stretched


def test_confidence_and_signals_are_those_of_the_model(page, hostile):
    model, frame = hostile
    data = json.loads(parts(page(model, frame))[0][0])

    def unpack(key, dtype="<f4"):
        return np.frombuffer(base64.b64decode(data[key]), dtype)

    assert np.allclose(unpack("values"), frame.to_numpy().ravel())
    expected = model.inverse_transform(model.code(frame).sources)
    assert np.allclose(unpack("fit"), expected.ravel(), atol=1e-6)
    kept = slice(-data["kept"], None)
    assert np.allclose(np.sort(unpack("weight")[kept]), np.sort(model.graph_.weights))
    assert np.allclose(
        np.sort(unpack("confidence")[kept]), np.sort(model.graph_.confidence), atol=1e-6
    )


def test_bokeh_missing_says_what_to_install(page, graph, monkeypatch):
    monkeypatch.setitem(sys.modules, "bokeh", None)
    with pytest.raises(ImportError, match=r"heatgraph\[report\]"):
        page(graph)


def test_bad_input(page, graph, make_model):
    with pytest.raises(ValueError, match="signals must be"):
        page(graph, np.ones((2, 3)))
    with pytest.raises(ValueError, match="not fitted"):
        page(LearnHeat())


def test_a_model_whose_sources_are_elsewhere(page, graph, make_model):
    model = make_model(graph)
    model.sources_ = None
    data = json.loads(parts(page(model))[0][0])
    assert data["labels"] == []
    assert data["scales"] == [1.0, 3.0]


def test_edges_with_a_direction_have_heads(tmp_path):
    pairs, weights = [(0, 1), (1, 0), (2, 0)], [1.0, 2.0, 3.0]
    for directed in (True, False):
        path = tmp_path / f"{directed}.html"
        first = 0 if directed else 1
        write_report(Graph(pairs[first:], weights[first:], directed=directed), path)
        page = path.read_text(encoding="utf-8")
        assert ("3 directed edges" in page) == directed
        assert ("goes from its row to its column" in page) == directed
        assert ("triangle" in page.split('id="pictures"')[1].split("</script>")[0]) == directed


def test_a_filter_has_heat_everywhere(tmp_path):
    X, _ = make_heat_signals(make_graph("er", 8, 0), (1.0,), 60, 8, random_state=0)
    HeatFilter().fit(X).report(tmp_path / "report.html", X)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "heat was released at every node" in page
    assert "then it was measured at the nodes." in page
