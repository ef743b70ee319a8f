"""The page in a real browser: what a reader sees, moves and clicks."""

import re
import time
import zlib

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread as read_picture

from heatgraph import Graph
from heatgraph.cli.demo import TOWNS, make_example
from heatgraph.datasets import make_graph
from heatgraph.plotting.style import shortened
from heatgraph.report import write_report


@pytest.fixture(scope="module")
def demo_page(demo_folder):
    return demo_folder / "report.html"


@pytest.fixture(scope="module")
def stations(make_model):
    """168 nodes with every pair learned, as a large fit leaves them, and 100 signals with gaps."""
    rng = np.random.default_rng(0)
    xy = rng.uniform(size=(168, 2)) * (10.0, 8.0) + (0.0, 45.0)
    i, j = np.triu_indices(168, 1)
    weights = np.exp(-np.sum((xy[i] - xy[j]) ** 2, axis=1)) + 1e-6
    names = [f"station {k}" for k in range(168)]
    learned = Graph(np.stack([i, j], axis=1), weights, names=names).scaled(168)
    model = make_model(learned.cut(n_edges=500), n_signals=100, learned=learned)
    X = model.inverse_transform(model.sources_)
    X[rng.uniform(size=X.shape) < 0.05] = np.nan
    places = pd.DataFrame(xy, columns=["longitude", "latitude"], index=names)
    return model, X, places


def kept(opened):
    return int(re.match(r"([\d,]+) edge", opened.text("#cut-says"))[1].replace(",", ""))


def test_the_demo_answers(open_page, demo_page):
    opened = open_page(demo_page)
    page = opened.page
    assert opened.text("h1").startswith("Twenty towns")
    before = kept(opened)
    assert "1 piece" in opened.text("#cut-says")
    assert len(opened.data("edges")["weight"]) == before

    page.focus("#cut")
    page.keyboard.press("ArrowLeft")
    assert kept(opened) == before - 1
    for _ in range(30):
        page.keyboard.press("ArrowLeft")
    after = kept(opened)
    assert after == before - 31
    assert len(opened.data("edges")["weight"]) == after
    assert int(re.search(r"(\d+) piece", opened.text("#cut-says"))[1]) > 1
    page.click("#cut-reset")
    assert kept(opened) == before

    assert opened.text("#signal-says") == "day 1 (1 of 200)"
    first = opened.data("nodes")["value"]
    page.click("#next")
    assert opened.text("#signal-says") == "day 2 (2 of 200)"
    assert re.fullmatch(r"\d+ sources?; \d+ % of it explained", opened.text("#fit-says"))
    assert opened.data("nodes")["value"] != first
    assert len(opened.data("rings")["x"]) == int(opened.text("#fit-says").split()[0])
    assert opened.text("#key").count("source") == len(opened.data("rings")["x"])

    nodes = opened.data("nodes")
    opened.click_at(nodes["x"][3], nodes["y"][3])
    page.wait_for_selector("#details h3")
    assert opened.text("#details h3") == nodes["name"][3] == "Dene"
    assert "neighbours, of total weight" in opened.text("#details")
    assert page.input_value("#node") == "3"
    opened.check_quiet(demo_page)


@pytest.mark.slow
def test_the_cut_is_the_one_that_was_used(open_page, make_model, tmp_path):
    learned = Graph([(0, 1), (1, 2), (2, 3)], [0.01, 0.5, 1.0], names=["a", "b", "c", "d"])
    model = make_model(learned.cut(weight=0.2), learned=learned)
    model.cut_ = 0.2
    path = tmp_path / "report.html"
    write_report(model, path)
    assert "<td>cut, used</td><td>0.2</td>" in path.read_text("utf-8")
    opened = open_page(path)
    place = "name => Bokeh.documents.at(-1).get_model_by_name(name).location"
    as_learned = "2 edges, 2 pieces; cut at weight 0.2, the lightest edge kept has 0.5"
    assert opened.text("#cut-says") == as_learned
    assert [opened.page.evaluate(place, name) for name in ("cut", "learned")] == [0.2, 0.2]
    opened.page.fill("#kept", "1")
    opened.page.press("#kept", "Enter")
    assert opened.text("#cut-says") == "1 edge, 3 pieces; cut at weight 1"
    assert [opened.page.evaluate(place, name) for name in ("cut", "learned")] == [1.0, 0.2]
    opened.page.click("#cut-reset")
    assert opened.text("#cut-says") == as_learned


@pytest.mark.slow
def test_a_cut_below_all_weights_is_drawn_at_their_end(open_page, make_model, tmp_path):
    graph = Graph([(0, 1), (1, 2), (2, 3)], [0.01, 0.5, 1.0])
    model = make_model(graph)
    model.cut_ = 0.0
    path = tmp_path / "report.html"
    write_report(model, path)
    opened = open_page(path)
    assert "cut at weight 0, the lightest" in opened.text("#cut-says")
    place = "Bokeh.documents.at(-1).get_model_by_name('cut').location"
    assert opened.page.evaluate(place) == pytest.approx(0.01)
    opened.check_quiet(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "low", "high"),
    [([280.0, 285.0, 290.0, 281.0], 280.0, 290.0), ([0.5, 3.0, 2.0, 1.0], 0.0, 3.0)],
    ids=["kelvins", "heat"],
)
def test_colours_span_what_the_signal_spans(open_page, tmp_path, values, low, high):
    graph = Graph([(0, 1), (1, 2), (2, 3)], [0.01, 0.5, 1.0])
    path = tmp_path / "report.html"
    write_report(graph, path, np.array([values]))
    opened = open_page(path)
    ends = "(m => [m.low, m.high])(Bokeh.documents.at(-1).get_model_by_name('colours'))"
    assert opened.page.evaluate(ends) == [low, high]
    opened.check_quiet(path)


@pytest.mark.slow
def test_the_demo_stands_on_its_coordinates(open_page, demo_page):
    nodes = open_page(demo_page).data("nodes")
    assert nodes["name"] == TOWNS
    assert np.allclose(np.column_stack([nodes["x"], nodes["y"]]), make_example().graph.coordinates)


@pytest.mark.slow
def test_pointing_shows_one_thing(open_page, demo_page):
    opened = open_page(demo_page)
    nodes, edges = opened.data("nodes"), opened.data("edges")
    tips = opened.page.locator(".bk-tooltip-content")
    for point, text in (
        ((nodes["x"][5], nodes["y"][5]), "Fairford"),
        (
            (0.5 * (edges["x0"][3] + edges["x1"][3]), 0.5 * (edges["y0"][3] + edges["y1"][3])),
            f"{edges['from'][3]} \u2013 {edges['to'][3]}",
        ),
    ):
        opened.point_at(*point)
        tips.first.wait_for()
        assert tips.count() == 1
        assert text in tips.first.inner_text()


def test_few_rows_of_the_matrix_are_named(open_page, hostile, hostile_page):
    _, frame = hostile
    opened = open_page(hostile_page)
    written = opened.page.evaluate(
        "() => { const m = Bokeh.documents.at(-1).get_model_by_name('matrix');"
        " return [m.left[0], m.below[0]].map(a => a.visible &&"
        "   Array.from(a.major_label_overrides, ([k, v]) => [+k, v.type, v.text])) }"
    )
    assert written[0] == written[1]
    edges = opened.data("edges")
    names = {int(rank): text for rank, _, text in written[0]}
    assert {kind for _, kind, _ in written[0]} == {"PlainText"}
    for end, place in (("from", "row"), ("to", "column")):
        for name, rank in zip(edges[end], edges[place], strict=True):
            assert names[int(rank)] == shortened(name, 16)
    assert len(names) == len(frame.columns)
    assert "Point at a square" not in hostile_page.read_text("utf-8")


@pytest.mark.slow
def test_many_rows_of_the_matrix_are_named_by_pointing(open_page, stations, tmp_path):
    model, _, places = stations
    path = tmp_path / "report.html"
    write_report(model, path, coordinates=places)
    assert "Point at a square to see whose it is." in path.read_text("utf-8")
    opened = open_page(path)
    edges = opened.data("edges")
    opened.point_at(edges["row"][-1], edges["column"][-1], on="matrix")
    tip = opened.page.locator(".bk-tooltip-content").first
    tip.wait_for()
    assert f"{edges['from'][-1]} \u2013 {edges['to'][-1]}" in tip.inner_text()


def test_long_names_keep_both_ends(open_page, hostile, hostile_page):
    _, frame = hostile
    texts = open_page(hostile_page).data("names")["text"]
    assert texts == [shortened(name, 24) for name in frame.columns]
    assert max(map(len, texts)) == 24


def test_hostile_names_are_text(open_page, hostile, hostile_page):
    _, frame = hostile
    opened = open_page(hostile_page)
    page = opened.page
    assert page.title() == opened.text("h1") == "<script>alert(1)</script>"
    assert opened.text("#signal-says") == "<b>0</b> (1 of 30)"
    names = list(frame.columns)
    assert opened.data("nodes")["name"] == names
    options = page.eval_on_selector_all("#node option", "all => all.map(o => o.textContent)")
    assert options[1:] == names
    for k, name in enumerate(names):
        page.select_option("#node", str(k))
        assert page.eval_on_selector("#details h3", "h => h.textContent") == name
        assert page.locator("#details h3 *").count() == 0
    assert page.locator("main script, main img:not(.graphs)").count() == 0
    # Pointing at nodes shows a tooltip, which is HTML that Bokeh makes.
    nodes = opened.data("nodes")
    for k in range(len(names)):
        opened.click_at(nodes["x"][k], nodes["y"][k])
    page.wait_for_timeout(200)
    assert page.title() == "<script>alert(1)</script>"
    opened.check_quiet(hostile_page)


@pytest.mark.slow
def test_an_edge_tells_its_weight_and_confidence(open_page, hostile, hostile_page):
    model, _ = hostile
    opened = open_page(hostile_page)
    edges = opened.data("edges")
    k = len(edges["weight"]) - 1
    x, y = (0.5 * (edges[f"{axis}0"][k] + edges[f"{axis}1"][k]) for axis in "xy")
    opened.click_at(x, y)
    opened.page.wait_for_selector("#details h3")
    heaviest = float(model.graph_.weights.max())
    assert f"Weight {heaviest:.3g}, number 1 of {model.weights_.n_edges}" in opened.text("#details")
    assert re.search(r"Found in \d+ % of resamples", opened.text("#details"))
    # The same edge in the matrix.
    opened.page.select_option("#node", "")
    opened.click_at(edges["row"][k], edges["column"][k], on="matrix")
    opened.page.wait_for_selector("#details h3")
    assert "number 1 of" in opened.text("#details")
    opened.check_quiet(hostile_page)


@pytest.mark.slow
def test_168_nodes_and_100_signals(open_page, stations, tmp_path):
    model, X, places = stations
    path = tmp_path / "report.html"
    write_report(model, path, X, coordinates=places, sources=model.sources_)
    assert path.stat().st_size < 5e6
    opened = open_page(path)
    began = time.perf_counter()
    opened.page.fill("#kept", "700")
    opened.page.press("#kept", "Enter")
    assert kept(opened) == 700
    opened.page.click("#next")
    assert opened.text("#signal-says") == "signal 2 (2 of 100)"
    assert time.perf_counter() - began < 1.0
    assert "not observed" in opened.data("nodes")["shown"]
    opened.page.select_option("#view", "difference")
    seen = np.array(opened.data("nodes")["value"], dtype=float)
    assert np.nanmax(np.abs(seen)) < 1e-5
    opened.page.select_option("#view", "fit")
    assert "not observed" not in opened.data("nodes")["shown"]
    opened.check_quiet(path)


def test_the_player_plays_and_stops(open_page, hostile_page):
    opened = open_page(hostile_page)
    opened.page.click("#play")
    opened.page.get_by_text("(2 of 30)").wait_for()
    assert opened.text("#play") == "Pause"
    opened.page.click("#play")
    assert opened.text("#play") == "Play"


@pytest.mark.slow
def test_a_bare_graph_and_a_model_without_sources(open_page, tmp_path, make_model):
    path = tmp_path / "graph.html"
    write_report(Graph([], [], n_nodes=3), path)
    opened = open_page(path)
    assert opened.text("#cut-says") == "0 edges, 3 pieces"
    assert opened.page.locator("#signal").count() == 0
    opened.check_quiet(path)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_a_phone_in_light_and_dark(open_page, hostile_page, scheme):
    opened = open_page(
        hostile_page,
        viewport={"width": 360, "height": 740},
        is_mobile=True,
        has_touch=True,
        color_scheme=scheme,
    )
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 360
    paper = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    ink = opened.page.evaluate(
        "Bokeh.documents.at(-1).get_model_by_name('histogram').below[0].axis_label_text_color"
    )
    dark = int(re.search(r"\d+", paper)[0]) < 128
    assert dark == (scheme == "dark")
    assert (int(ink[1:3], 16) > 128) == dark
    opened.check_quiet(hostile_page)


def test_printed_from_the_dark_it_is_light(open_page, hostile_page, tmp_path):
    page = open_page(hostile_page, color_scheme="dark").page

    def brightness():
        page.locator("#graph").screenshot(path=tmp_path / "graph.png")
        return float(np.median(read_picture(tmp_path / "graph.png")[..., :3]))

    assert brightness() < 0.2
    page.emulate_media(media="print")
    assert brightness() > 0.9


def test_printed_from_the_dark_without_backgrounds_it_is_light(open_page, hostile_page):
    """As browsers print unless asked otherwise."""
    page = open_page(hostile_page, color_scheme="dark").page
    content = page.pdf(format="A4", print_background=False)
    pictures = [
        np.frombuffer(zlib.decompress(stream), np.uint8)
        for kind, stream in re.findall(
            rb"/Type /XObject\n/Subtype /Image(.*?)>> stream\n(.*?)\nendstream", content, re.DOTALL
        )
        if b"/DeviceRGB" in kind
    ]
    assert pictures
    assert all(np.median(picture) > 200 for picture in pictures)


def test_every_control_is_reached_by_the_keyboard(open_page, hostile_page):
    opened = open_page(hostile_page)
    reached = set()
    for _ in range(40):
        opened.page.keyboard.press("Tab")
        reached.add(opened.page.evaluate("document.activeElement.id"))
    assert {"cut", "kept", "cut-reset", "signal", "back", "next", "play", "view", "node"} <= reached
    names = opened.page.evaluate(
        "[...document.querySelectorAll('input, select')].map(e => e.ariaLabel ?? e.labels.length)"
    )
    assert all(names)


@pytest.mark.slow
def test_ten_thousand_nodes_open(open_page, make_model, tmp_path):
    rng = np.random.default_rng(0)
    ring = make_graph("ring", 10_000)
    more = rng.integers(0, 10_000, (50_000, 2))
    pairs = np.unique(np.sort(np.concatenate([ring.edges, more[more[:, 0] != more[:, 1]]])), axis=0)
    pairs = np.unique(np.sort(pairs, axis=1), axis=0)
    graph = Graph(pairs, rng.uniform(0.2, 1.0, len(pairs)), n_nodes=10_000).scaled(10_000)
    path = tmp_path / "large.html"
    began = time.perf_counter()
    write_report(make_model(graph, n_signals=40), path)
    assert time.perf_counter() - began < 120.0
    assert path.stat().st_size < 8e6
    opened = open_page(path)
    assert f"Of {graph.n_edges:,} learned edges the 20,000 heaviest" in opened.text("main")
    assert "Of 40 signals 25, evenly spaced" in opened.text("main")
    assert kept(opened) == 20_000
    opened.check_quiet(path)


class TestOverTime:
    @pytest.fixture
    def dated(self, make_model, tmp_path):
        model = make_model(Graph([(0, 1), (1, 2)], [1.0, 2.0], names=list("abc")), n_signals=9)
        days = pd.date_range("2024-02-26", periods=9).strftime("%d.%m.%Y")
        X = pd.DataFrame(model.inverse_transform(model.sources_), columns=list("abc"), index=days)
        X.iloc[4, 1] = np.nan
        path = tmp_path / "report.html"
        write_report(model, path, X.to_numpy(), labels=days)
        return X, path

    def test_the_chosen_node_is_drawn_at_its_dates(self, open_page, dated):
        X, path = dated
        opened = open_page(path)
        assert opened.text("#series-says") == "a"
        opened.page.select_option("#node", label="b")
        assert opened.text("#series-says") == "b"
        drawn = opened.data("series")
        assert pd.to_datetime(drawn["time"], unit="ms").strftime("%d.%m.%Y").tolist() == [*X.index]
        seen = np.array(drawn["signal"], dtype=float)
        np.testing.assert_allclose(seen, X["b"].to_numpy(), rtol=1e-6)
        opened.page.click("#next")
        now = "Bokeh.documents.at(-1).get_model_by_name('now').location"
        assert opened.page.evaluate(now) == drawn["time"][1]
        opened.check_quiet(path)

    def test_signals_without_dates_have_none(self, hostile_page):
        assert "Over time" not in hostile_page.read_text(encoding="utf-8")
