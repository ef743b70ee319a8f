"""Text and tables as HTML, whatever they hold."""

from __future__ import annotations

import html
from collections.abc import Sequence

from heatgraph.plotting.style import shortened

__all__ = ["paragraphs", "readable", "table", "text"]

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
