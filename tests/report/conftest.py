"""Models with a page each, and a real browser to open it in."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pytest

from heatgraph import Graph, LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators.fitted_graph import store_weights
from heatgraph.report import write_report
from heatgraph.solvers.result import Status

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>document.title='broken'</script>",
    "<!--",
    "\"double\" and 'single'",
    "<img src=x onerror=alert(2)>",
    "$$x^2$$",
    "&lt;b&gt; &amp;",
    "日本語 Ωø 🌡",
    "a very long name " * 20,
    "@weight{safe}",
    "two\nlines",
    "\\[y\\]",
)
# As root, and without a screen or a network to look for.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
)


def made_model(graph, scales=(1.0, 3.0), n_signals=20, *, learned=None, seed=0):
    """A model as a fit leaves it, without the time that a fit takes."""
    rng = np.random.default_rng(seed)
    sources = np.zeros((n_signals, len(scales), graph.n_nodes))
    for row in sources:
        row[rng.integers(len(scales)), rng.choice(graph.n_nodes, 2, replace=False)] = 1.0
    model = LearnHeat(alpha=0.05)
    model.graph_ = graph
    store_weights(model, graph if learned is None else learned)
    model.location_ = np.zeros(graph.n_nodes)
    model.scales_, model.sources_ = np.array(scales), sources
    model.objective_ = np.geomspace(9.0, 1.0, 12)
    model.status_, model.n_iter_, model.residual_ = Status.CONVERGED, 11, 1e-5
    model.alpha_, model.beta_, model.cut_ = 0.05, 0.01, float(graph.weights.min())
    model.selection_ = None
    model.n_features_in_ = graph.n_nodes
    return model


@pytest.fixture(scope="session")
def make_model():
    return made_model


@pytest.fixture(scope="session")
def hostile():
    """A graph whose names try to break out, learned, with confidences; and its signals."""
    ring = make_graph("ring", len(HOSTILE), 0)
    graph = Graph(ring.edges, np.linspace(0.5, 1.5, ring.n_edges), names=HOSTILE)
    X, _ = make_heat_signals(graph, (1.0, 3.0), 30, 2, 0.01, 0)
    frame = pd.DataFrame(X, columns=list(HOSTILE), index=[f"<b>{k}</b>" for k in range(30)])
    return LearnHeat(alpha=0.05, beta=0.01, n_bootstrap=3).fit(frame), frame


@pytest.fixture(scope="session")
def hostile_page(hostile, tmp_path_factory):
    model, frame = hostile
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    write_report(model, path, frame, title=HOSTILE[0])
    return path


@dataclass
class Opened:
    """A page in a browser, and what it asked for and said on its console."""

    page: object
    requests: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def text(self, selector):
        return self.page.inner_text(selector)

    def data(self, name):
        """What Bokeh draws: the columns of a named source."""
        return self.page.evaluate(
            "name => { const d = Bokeh.documents.at(-1).get_model_by_name(name).data;"
            " return Object.fromEntries(Object.entries(d).map(([k, v]) => [k, Array.from(v)])) }",
            name,
        )

    def click_at(self, x, y, *, on="graph"):
        """Click where a picture has the point (x, y) of its data."""
        self.page.mouse.click(*self.place(x, y, on))

    def point_at(self, x, y, *, on="graph"):
        self.page.mouse.move(*self.place(x, y, on))

    def place(self, x, y, on):
        """Where on the screen a picture has the point (x, y) of its data."""
        self.page.eval_on_selector(f"#{on}", "box => box.scrollIntoView({block: 'center'})")
        return self.page.evaluate(
            "([name, x, y]) => { const m = Bokeh.documents.at(-1).get_model_by_name(name);"
            " const v = Bokeh.index.find_one(m); const box = v.el.getBoundingClientRect();"
            " const f = v.frame; return [box.left + f.x_scale.compute(x),"
            " box.top + f.y_scale.compute(y)] }",
            [on, x, y],
        )

    def check_quiet(self, path):
        """Nothing but the file was asked for, and nothing went wrong."""
        assert self.requests == [path.as_uri()]
        assert [text for text in self.said if not text.startswith("info: [bokeh")] == []


@pytest.fixture(scope="session")
def browser():
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        pytest.skip("no browser: install Debian's chromium, or put one called chromium on PATH")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=executable, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser):
    """Open a file, wait until the page answers, and listen to it."""
    contexts = []

    def opened(path, **options):
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        contexts.append(context)
        made = Opened(context.new_page())
        made.page.on("request", lambda request: made.requests.append(request.url))
        made.page.on("console", lambda said: made.said.append(f"{said.type}: {said.text}"))
        made.page.on("pageerror", lambda error: made.said.append(f"error: {error}"))
        made.page.on("dialog", lambda box: (made.said.append("dialog"), box.dismiss()))
        made.page.goto(path.as_uri())
        made.page.wait_for_selector("html[data-ready]", state="attached")
        return made

    yield opened
    for context in contexts:
        context.close()
