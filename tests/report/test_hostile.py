"""Texts from strangers in every place of a report that takes one, in a real browser.

Nothing of them runs, nothing is asked for, and nothing on the page changes place.
"""

import pandas as pd
import pytest

from heatgraph import Graph
from heatgraph.report import write_report

OUT = "http://127.0.0.1:9/"  # nothing listens there; a page that asks is found out anyway
TEXTS = {
    "script": "<script>document.title = 'ran'; fetch('" + OUT + "')</script>",
    "end of script": "</script><script src='" + OUT + "x.js'></script>",
    "end of a block of data": "</script></title></style><h1 onclick=alert(1)>new</h1>",
    "comment": "<!--<script>",
    "handler": "<img src=x onerror=\"document.title='ran'\"><svg onload=alert(1)>",
    "attribute": "\" onmouseover=\"document.title='ran'\" autofocus onfocus='alert(1)' x=\"",
    "frame": "<iframe src='"
    + OUT
    + "'></iframe><meta http-equiv=refresh content='0;url="
    + OUT
    + "'>",
    "address": "javascript:document.title='ran'",
    "style": "</style><style>@import '" + OUT + "a.css'; body { display: none }</style>",
    "style of a name": "red; background: url(" + OUT + "a.png)",
    "template": "@name{safe} @{name}{custom} ${1 + 1} {{1 + 1}} %(title)s $title",
    "formula": "$$x^2$$",
    "formula in brackets": "\\[x^2\\]",
    "formula in parentheses": "\\(x^2\\)",
    "formula alone": r"\begin{math}x\end{math} $x$",
    "entity": "&lt;script&gt;alert(1)&#x3c;/script&#x3e;",
    "prototype": "__proto__",
    "constructor": "constructor",
    "right to left": "\u202egnp.exe\u202c \u2067abc\u2069 \u05d0\u05d1\u05d2 \u200f",
    "never closed": "\u202e\u2066\u202d",
    "line ends": "one\ntwo\r\nthree\u2028four\u2029five",
    "control": "bell\x07 escape\x1b[31m",
    "lone surrogate": "\ud83d",
    "combining": "Z" + "\u0353\u033d\u0351" * 400,
}


@pytest.fixture(scope="module")
def report_of(make_model, tmp_path_factory):
    """A report with a text as title, name of nodes, of signals, and parameter of the model."""

    def written(text):
        names = [text, f"{text}{text}", "plain", f"a {text} b"]
        graph = Graph([(0, 1), (1, 2), (2, 3)], [0.5, 1.0, 1.5], names=names)
        model = make_model(graph, n_signals=3)
        model.stepsize = text
        texts = pd.Index(names, dtype=object), pd.Index([text, "b", text], dtype=object)
        X = pd.DataFrame([[0.0, 1.0, 2.0, 3.0]] * 3, columns=texts[0], index=texts[1])
        path = tmp_path_factory.mktemp("hostile") / "report.html"
        write_report(model, path, X, sources=model.sources_, title=text)
        return path

    return written


def use(opened):
    """Go over the page as a reader does: every node, every signal, tooltips, the cut."""
    page = opened.page
    nodes = opened.data("nodes")
    for k in range(len(nodes["name"])):
        page.select_option("#node", str(k))
        opened.point_at(nodes["x"][k], nodes["y"][k])
        opened.click_at(nodes["x"][k], nodes["y"][k])
    page.click("#next")
    page.focus("#cut")
    page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(100)


# A page of each takes seconds, so that one page has them all, and the others are slow tests.
EACH = [
    pytest.param(" ".join(TEXTS.values()), id="all"),
    *(pytest.param(text, id=name, marks=pytest.mark.slow) for name, text in TEXTS.items()),
]


@pytest.mark.parametrize("text", EACH)
def test_nothing_runs_and_nothing_leaves(open_page, report_of, text):
    path = report_of(text)
    opened = open_page(path)
    heading = opened.page.eval_on_selector("h1", "h => h.textContent")
    scripts = opened.page.evaluate("document.scripts.length")
    use(opened)
    # HTML has no lone halves of characters: the browser shows the mark for what it cannot.
    shown = text.replace("\ud83d", "\ufffd")
    if len(shown) <= 500:
        assert heading.split() == shown.split()
    else:  # of a very long one, both ends
        start, end = heading.split("\N{HORIZONTAL ELLIPSIS}")
        assert shown.startswith(start)
        assert shown.endswith(end)
    assert opened.page.evaluate("document.title") != "ran"
    assert opened.page.evaluate("document.scripts.length") == scripts
    foreign = "main img:not(.graphs), main iframe, main svg[onload], h1 *"
    assert opened.page.locator(foreign).count() == 0
    assert opened.page.evaluate("getComputedStyle(document.body).display") != "none"
    opened.check_quiet(path)


@pytest.mark.slow
def test_text_that_runs_from_right_to_left_stays_within_itself(open_page, report_of):
    """A mark that turns the direction and is never closed leaves the words after it alone."""
    opened = open_page(report_of("\u202e\u2066\u202d"))
    use(opened)
    directions = opened.page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3, p, td, label, button, output')]"
        ".map(e => getComputedStyle(e).unicodeBidi)"
    )
    assert set(directions) <= {"isolate", "plaintext", "isolate-override"}


@pytest.mark.slow
def test_a_megabyte_of_text(open_page, report_of):
    path = report_of("<b>very long</b> " * 60_000)
    assert path.stat().st_size < 60e6
    opened = open_page(path)
    use(opened)
    assert opened.page.locator("h1 b, main b").count() == 0
    opened.check_quiet(path)
