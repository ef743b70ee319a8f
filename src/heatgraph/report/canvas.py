"""What the page shares: HTML of text, tables and still pictures, frames of the others, colours.

A model tagged ``ink`` has the properties that follow in its tags drawn in the colour of the text,
light or dark as the reader's screen is; those after ``paper`` in the colour of the background,
those after ``accent`` in that of what is selected, after ``land`` in that of a map.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from heatgraph.plotting.style import INK, shortened

if TYPE_CHECKING:  # Bokeh is an extra, and takes a while to load
    from bokeh.plotting import figure
    from matplotlib.axes import Axes

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
    from bokeh.plotting import figure

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


# As in the style of the page.
COLOURS = "svg{color:#1d1d1f}@media(prefers-color-scheme:dark){svg{color:#ececef}}"


def still_picture(title: str, draw: Callable[[Axes], object], height: float = 3.2) -> str:
    """A picture within the page that answers no pointer; what is black in it is as the text is."""
    parts = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    made, file = Figure(figsize=(6.0, height), layout="constrained"), StringIO()
    style: dict[Any, str] = dict.fromkeys(parts, INK) | {"svg.hashsalt": title}
    with rc_context(style):
        draw(made.subplots())
        made.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    svg = file.getvalue().replace("<defs>", f"<style>{COLOURS}</style><defs>", 1)
    data = base64.b64encode(svg.replace(INK, "currentColor").encode()).decode("ascii")
    return f'<img class="graphs" alt="{title}" src="data:image/svg+xml;base64,{data}">'
