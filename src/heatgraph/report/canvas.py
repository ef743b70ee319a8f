"""What the page shares: HTML of text and tables, frames and legends of pictures, their colours.

A model tagged ``ink`` has the properties that follow in its tags drawn in the colour of the text,
light or dark as the reader's screen is; those after ``paper`` in the colour of the background,
those after ``accent`` in that of what is selected, after ``land`` in that of a map.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from bokeh.plotting import figure

from heatgraph.plotting.style import shortened

LONGEST = 500  # characters of a name or a title; a browser lays out a megabyte for minutes


def readable(content: object) -> str:
    """A name or a title as a page shows it: of a very long one, both ends."""
    return shortened(str(content), LONGEST)


def text(content: str) -> str:
    """Text as HTML, whatever it holds."""
    return html.escape(content).encode("ascii", "xmlcharrefreplace").decode("ascii")


def paragraphs(texts: Sequence[str], kind: str) -> str:
    """A paragraph each, of a class."""
    return "\n".join(f'<p class="{kind}">{text(content)}</p>' for content in texts)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], chosen: int | None = None) -> str:
    """A table, of which one row may be the chosen one."""

    def row(cells: Sequence[str], tag: str) -> str:
        return "".join(f"<{tag}>{text(cell)}</{tag}>" for cell in cells)

    marks = ['<tr class="chosen">' if k == chosen else "<tr>" for k in range(len(rows))]
    lines = [f"{m}{row(cells, 'td')}</tr>" for m, cells in zip(marks, rows, strict=True)]
    return (
        f"<table><thead><tr>{row(head, 'th')}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )


def new_figure(name: str, height: int, **options: Any) -> figure:
    """As wide as its place on the page, on the ground of the page."""
    made = figure(
        name=name,
        height=height,
        sizing_mode="stretch_width",
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        **({"tools": "", "toolbar_location": None} | options),
    )
    made.toolbar.logo = None
    for axis in (*made.xaxis, *made.yaxis):
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_font_size = axis.major_label_text_font_size = "13px"
        axis.minor_tick_line_color = None
        tag(
            axis,
            "ink",
            "axis_line_color major_tick_line_color major_label_text_color axis_label_text_color",
        )
    for grid in (*made.xgrid, *made.ygrid):
        grid.grid_line_alpha = 0.15
        tag(grid, "ink", "grid_line_color")
    return made


def tag(model: Any, kind: str, properties: str) -> None:
    """Have properties of a model, separated by blanks, follow the colours of the screen."""
    model.tags = [*model.tags, kind, *properties.split()]


def put_legend(made: figure) -> None:
    """The legend over the picture, where it covers nothing."""
    made.legend.background_fill_color = None
    made.legend.border_line_color = None
    made.legend.label_text_font_size = "13px"
    made.legend.spacing = 0
    for legend in made.legend:
        tag(legend, "ink", "label_text_color")
    made.add_layout(made.legend[0], "above")
    made.legend.orientation = "horizontal"
    made.legend.ncols = 2  # as wide as a phone takes
    made.legend.location = "left"
