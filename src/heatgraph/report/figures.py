"""The pictures of the page that answer a pointer, as Bokeh figures, which the page fills in."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.models import (
    BasicTicker,
    ColorBar,
    ColumnDataSource,
    FixedTicker,
    HoverTool,
    LinearColorMapper,
    PlainText,
    Range1d,
    Span,
    TapTool,
)
from bokeh.plotting import figure

from heatgraph.arrays import Array
from heatgraph.plotting.style import BLUE, VERMILION, shortened
from heatgraph.report.canvas import new_figure, tag
from heatgraph.report.page_data import Content, Places
from heatgraph.report.shown_signals import Shown

MAX_OUTLINED = 1000  # nodes; more of them would be all outline
MAX_NAMED = 30  # nodes; more names than that do not fit beside the matrix
LONGEST = 16  # name beside the matrix that is written in full
NARROWEST = 250  # cells of the matrix that are still seen, on a side
BARS = 40
STEEP = 30.0
SPAN = 1e5  # of weights in the histogram; what is lighter is in its first bar
EDGE_TIP = [("edge", "@from \u2013 @to"), ("weight", "@weight{0.[0000]}")]
NODE_TIP = [("node", "@name"), ("value", "@shown")]


def pictures(content: Content) -> dict[str, figure]:
    """The figures, by the name of the place that the page has for each."""
    edges = _empty("edges", EDGE_COLUMNS)
    drawn = {
        "graph": _graph(content, edges),
        "histogram": _histogram(content),
        "matrix": _matrix(content, edges),
    }
    if content.shown is not None and content.shown.times is not None:
        drawn["series"] = _series(content.shown)
    return drawn


# The segment (a, b) to (c, d) is the middle of an edge: what a pointer hits, clear of the nodes.
EDGE_COLUMNS = "x0 y0 x1 y1 a b c d row column width ink weight from to found turn head"


def _empty(name: str, columns: str) -> ColumnDataSource:
    """Columns that the page fills in."""
    return ColumnDataSource(name=name, data={column: [] for column in columns.split()})


def _graph(content: Content, edges: ColumnDataSource) -> figure:
    """Edges, what is chosen of them, nodes, rings round sources, names; all empty yet."""
    places = content.places
    made = new_figure(
        "graph",
        520,
        tools="pan,wheel_zoom,box_zoom,reset,save",
        toolbar_location="above",
        active_drag=None,
        active_scroll=None,
        match_aspect=True,
        aspect_scale=places.aspect,
    )
    # Room for names at the border.
    made.x_range.range_padding = made.y_range.range_padding = 0.2
    if places.axes is not None and places.geographic:
        made.xaxis.axis_label, made.yaxis.axis_label = places.axes
    else:  # numbers that say nothing to a reader
        made.axis.visible = False
        made.grid.visible = False
    if places.outlines:
        xs, ys = zip(*(ring.T.tolist() for ring in places.outlines), strict=True)
        land = made.patches(xs, ys, line_width=0.7, line_alpha=0.4)
        tag(land.glyph, "land", "fill_color")
        tag(land.glyph, "ink", "line_color")
    lines = made.segment(
        "x0", "y0", "x1", "y1", line_width="width", line_alpha="ink", line_cap="round", source=edges
    )
    tag(lines.glyph, "ink", "line_color")
    if content.graph.directed:
        heads = made.scatter(
            "c", "d", marker="triangle", angle="turn", size="head", fill_alpha="ink", source=edges
        )
        heads.glyph.line_color = None
        heads.nonselection_glyph = None
        tag(heads.glyph, "ink", "fill_color")
    touch = made.segment("a", "b", "c", "d", line_alpha=0.0, line_width=9, source=edges)
    chosen = made.segment(
        "x0",
        "y0",
        "x1",
        "y1",
        line_width="width",
        source=_empty("chosen", "x0 y0 x1 y1 width"),
    )
    tag(chosen.glyph, "accent", "line_color")
    nodes = _nodes(made, places)
    rings = made.scatter(
        "x",
        "y",
        size="size",
        marker="marker",
        fill_color=None,
        line_color=VERMILION,
        line_width=3,
        source=_empty("rings", "x y size marker"),
    )
    mark = made.scatter(
        "x",
        "y",
        size="size",
        fill_color=None,
        line_width=4,
        source=_empty("mark", "x y size"),
    )
    tag(mark.glyph, "accent", "line_color")
    _names(made)
    # The nodes alone say what is in view, not the countries around them.
    made.x_range.renderers = made.y_range.renderers = [nodes]
    for renderer in (lines, touch, chosen, nodes, rings, mark):
        renderer.nonselection_glyph = None
    made.add_tools(
        HoverTool(renderers=[nodes], tooltips=NODE_TIP, limit=1, description="nodes"),
        HoverTool(renderers=[touch], tooltips=_edge_tip(content), limit=1, description="edges"),
        TapTool(renderers=[nodes, touch]),
    )
    return made


def _edge_tip(content: Content) -> list[tuple[str, str]]:
    title = "p-value" if content.gaussian else "found"
    between = [("edge", "@from \u2192 @to"), EDGE_TIP[1]] if content.graph.directed else EDGE_TIP
    measured = [] if content.edges.confidence is None else [(title, "@found")]
    return [*between, *measured]


def _nodes(made: figure, places: Places) -> Any:
    x, y = places.xy.T.astype(np.float32)
    blank = dict.fromkeys(("size", "value", "solid", "name", "shown"), np.zeros_like(x))
    colours = LinearColorMapper(name="colours", palette=[BLUE], low=0.0, high=1.0, nan_color="#999")
    nodes = made.scatter(
        "x",
        "y",
        size="size",
        fill_color={"field": "value", "transform": colours},
        fill_alpha="solid",
        line_width=1.0 if x.size <= MAX_OUTLINED else 0.0,
        source=ColumnDataSource(name="nodes", data={"x": x, "y": y} | blank),
    )
    tag(nodes.glyph, "ink", "line_color")
    bar = ColorBar(
        name="bar",
        color_mapper=colours,
        width=10,
        ticker=BasicTicker(desired_num_ticks=5),
        background_fill_color=None,
        major_label_text_font_size="13px",
    )
    bar.title_text_font_size = "13px"
    tag(bar, "ink", "major_label_text_color title_text_color")
    made.add_layout(bar, "right")
    return nodes


def _names(made: figure) -> None:
    names = made.text(
        "x",
        "y",
        text="text",
        y_offset=-9,
        text_align="align",
        text_font_size="13px",
        background_fill_alpha=0.65,
        source=_empty("names", "x y text align"),
    )
    tag(names.glyph, "ink", "text_color")
    tag(names.glyph, "paper", "background_fill_color")


def _histogram(content: Content) -> figure:
    """The weights of all learned edges, with the cut as a line that the page moves."""
    weights = content.edges.weights
    bins, wide = _bins(weights)
    counts, _ = np.histogram(np.clip(weights, bins[0], bins[-1]), bins)
    top = float(counts.max(initial=1))
    # Where noise outnumbers edges a hundredfold, only a logarithm shows both.
    steep = top > STEEP * float(np.median(counts[counts > 0])) if weights.size else False
    foot = 0.7 if steep else 0.0
    made = new_figure(
        "histogram",
        280,
        x_axis_type="log" if wide else "linear",
        x_axis_label="weight of an edge",
        y_axis_label="number of edges",
        y_axis_type="log" if steep else "linear",
        y_range=(foot, (1.6 if steep else 1.05) * top),
    )
    made.quad(
        left=bins[:-1],
        right=bins[1:],
        bottom=foot,
        top=np.maximum(counts, foot),
        fill_color=BLUE,
        line_color=None,
    )
    learned = Span(
        name="learned",
        location=_learned_cut(content, bins),
        dimension="height",
        line_dash="dotted",
        line_width=2,
    )
    tag(learned, "ink", "line_color")
    cut = Span(
        name="cut", location=float(bins[-1]), dimension="height", line_color=VERMILION, line_width=3
    )
    made.add_layout(learned)
    made.add_layout(cut)
    return made


def _series(shown: Shown) -> figure:
    """A node over time, measured and as the model has it, and which signal is shown above."""
    made = new_figure(
        "over time",
        260,
        x_axis_type="datetime",
        tools="xpan,xwheel_zoom,reset",
        toolbar_location="above",
        active_drag=None,
        active_scroll=None,
    )
    nothing = np.full(shown.times.size if shown.times is not None else 0, np.nan)
    source = ColumnDataSource(
        name="series",
        data={
            "time": shown.times,
            "signal": nothing if shown.values is None else shown.values[:, 0],
            "fit": nothing if shown.fit is None else shown.fit[:, 0],
        },
    )
    made.xaxis.ticker.desired_num_ticks = 4  # as many as a phone has room for
    for key, array, label, colour, width in (
        ("fit", shown.fit, "fit of the model", VERMILION, 4.0),  # below, as it may be the same
        ("signal", shown.values, "measured", BLUE, 1.3),
    ):
        if array is not None:
            made.line("time", key, source=source, legend_label=label, color=colour, width=width)
            made.renderers[-1].glyph.line_alpha = 0.5 if key == "fit" else 1.0
    legend = made.legend[0]
    legend.orientation, legend.background_fill_alpha, legend.border_line_color = (
        "horizontal",
        0,
        None,
    )
    made.add_layout(legend, "above")
    tag(legend, "ink", "label_text_color")
    now = Span(name="now", location=0.0, dimension="height", line_dash="dotted", line_width=2)
    tag(now, "ink", "line_color")
    made.add_layout(now)
    return made


def _learned_cut(content: Content, bins: Array) -> float:
    """Where the learned cut is drawn: within the bars, as a cut may be far below all weights."""
    cut = content.cut
    if cut is None and content.edges.kept:
        cut = float(content.edges.weights[-content.edges.kept])
    return float(bins[-1] if cut is None else np.clip(cut, bins[0], bins[-1]))


def _bins(weights: Array) -> tuple[Array, bool]:
    """Limits of the bars, and whether they are spaced by ratios."""
    if not weights.size:
        return np.linspace(0.0, 1.0, BARS + 1), False
    top = float(weights.max())
    low = max(float(weights.min()), top / SPAN)
    if top > 30.0 * low:
        return np.geomspace(low, top, BARS + 1), True
    if top <= low * (1.0 + 1e-9):
        low, top = 0.5 * top, 1.5 * top
    return np.linspace(low, top, BARS + 1), False


_BOTH = (("row", "column"), ("column", "row"))


def _matrix(content: Content, edges: ColumnDataSource) -> figure:
    """The weights as a matrix, rows and columns in the order of the communities."""
    N = content.graph.n_nodes
    made = new_figure(
        "matrix",
        420,
        match_aspect=True,
        x_range=Range1d(-0.5, N - 0.5),
        y_range=Range1d(N - 0.5, -0.5),
    )
    made.grid.visible = False
    _name_rows(made, content)
    side = max(1.0, N / NARROWEST)
    # A row is where an edge starts, and a column where it ends.
    halves = (("column", "row"),) if content.graph.directed else _BOTH
    cells = [
        made.rect(x, y, width=side, height=side, fill_alpha="ink", line_color=None, source=edges)
        for x, y in halves
    ]
    for renderer in cells:
        renderer.glyph.fill_color = BLUE
        renderer.nonselection_glyph = None
    made.add_tools(
        HoverTool(renderers=cells, tooltips=_edge_tip(content)), TapTool(renderers=cells)
    )
    ends = np.concatenate([[0], content.borders]) - 0.5
    frames = made.quad(
        left=ends[:-1],
        right=ends[1:],
        top=ends[:-1],
        bottom=ends[1:],
        fill_color=None,
        line_width=1,
    )
    tag(frames.glyph, "ink", "line_color")
    return made


def _name_rows(made: figure, content: Content) -> None:
    """Every node's name beside its row and below its column, if they are few."""
    N = content.graph.n_nodes
    if N > MAX_NAMED:
        made.axis.visible = False
        return
    for axis in (*made.xaxis, *made.yaxis):
        axis.ticker = FixedTicker(ticks=list(range(N)))
        # Plain text, because Bokeh would read a formula between dollar signs.
        axis.major_label_overrides = {
            int(rank): PlainText(text=shortened(name, LONGEST))
            for rank, name in zip(content.order, content.names, strict=True)
        }
        axis.major_label_text_font_size = "12px" if N <= 20 else "10px"
        axis.axis_line_color = axis.major_tick_line_color = None
        axis.tags = []
        tag(axis, "ink", "major_label_text_color")
    made.xaxis.major_label_orientation = "vertical"
