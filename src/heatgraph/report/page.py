"""The page put together: data as JSON that no name can break out of, and a policy that keeps it in.

Everything executable is listed in the policy by its hash, so that even a name that became markup
could not run, and nothing may be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from heatgraph.comparison import Comparison
from heatgraph.errors import needed
from heatgraph.files import write_atomically
from heatgraph.graph import Graph
from heatgraph.plotting.style import shortened
from heatgraph.report import sections
from heatgraph.report.canvas import paragraphs, readable, table, text
from heatgraph.report.compared import compared_section
from heatgraph.report.page_data import Content, gather, place

POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; "
    "font-src data:; base-uri 'none'; form-action 'none'"
)
COLOURS = 64
LONGEST = 24  # name in the picture of the graph that is written in full


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    signals: Any = None,
    *,
    coordinates: Any = None,
    outlines: Iterable[ArrayLike] | None = None,
    sources: Any = None,
    labels: Sequence[Any] | None = None,
    title: str = "A learned graph",
    comparison: Comparison | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Write a page that shows a model: one file of HTML, which needs no network to open.

    Parameters
    ----------
    model : estimator or Graph
        A fitted estimator of :mod:`heatgraph.estimators`, or a graph.
    path : str or path-like
        The file, by custom ending in ``.html``.
    signals : array-like or data frame (n_signals, n_nodes), optional
        What to show on the nodes; their sources are found by the model.  Without them the page
        shows the signals of the fit as the model has them.
    coordinates : optional
        Where the nodes are: an array (n_nodes, 2), a mapping from names to pairs, or a data frame
        with the columns longitude and latitude, or x and y, and the names in its index or in any
        other column.
    outlines : iterable of array-like (n_points, 2), optional
        Closed rings drawn below the graph, in the same coordinates.  By default those of countries
        where the coordinates are longitude and latitude and the extra ``geo`` is installed.
    sources : array-like (n_signals, n_scales, n_nodes), optional
        The sources of the signals, where they are known already.
    labels : sequence, optional
        What each signal is called; the index of a data frame by default.
    title : str
        The heading.
    comparison : Comparison, optional
        What :func:`heatgraph.compare` found on the same nodes; the page begins its sections with
        it.
    warnings : sequence of str
        What was warned of during the fit; it stands in a banner at the top of the page.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(Graph([(0, 1), (1, 2)], [1.0, 2.0], names=["a", "<i>b", "c"]), path)
    >>> "<i>b" in path.read_text(encoding="utf-8")
    False
    """
    if not isinstance(model, Graph):
        check_is_fitted(model, "graph_")
    needed("bokeh", "the report", '"heatgraph[report]"')
    places = place(model if isinstance(model, Graph) else model.graph_, coordinates, outlines)
    content = gather(model, signals, sources, labels, places)
    if comparison is not None and comparison.n_nodes != content.graph.n_nodes:
        raise ValueError(
            f"comparison must be of the {content.graph.n_nodes} nodes of the graph, got one of "
            f"{comparison.n_nodes}."
        )
    page = _page(model, content, title, comparison, warnings)
    with write_atomically(path, "w", newline="\n") as file:
        file.write(page)


def _page(
    model: Any,
    content: Content,
    title: str,
    comparison: Comparison | None,
    warnings: Sequence[str],
) -> str:
    from bokeh.resources import INLINE

    library = next(iter(type(INLINE)(mode="inline", components=["bokeh"]).js_raw))
    scripts = {"library": _script(library), "script": _script(_part("report.js"))}
    hashes = " ".join(f"'sha256-{_digest(text)}'" for text in scripts.values())
    below = sections.sections(model, content)
    if comparison is not None:
        below = compared_section(comparison, content.places.xy) + below
    return Template(_part("page.html")).substitute(
        scripts,
        policy=POLICY.format(scripts=hashes),
        title=text(readable(title)),
        style=_part("report.css"),
        lead=text(sections.lead(model, content)),
        story=paragraphs([told] if (told := sections.story(content)) else [], "hint"),
        cautions=paragraphs([*warnings, *sections.cautions(model, content)], "caution"),
        graph_hint=text(_graph_hint(content)),
        signal_controls=_signal_controls(content),
        matrix_hint=_matrix_hint(content),
        series=_series(content),
        sections=below,
        parameters=_parameters(model, content),
        omissions=paragraphs(sections.omissions(content), "hint"),
        data=_json(_data(content)),
        pictures=_json(_figures(content)),
    )


def _part(name: str) -> str:
    return files("heatgraph.report").joinpath(name).read_text(encoding="utf-8")


def _script(text: str) -> str:
    """Code as it may stand between script tags."""
    if "</script" in text.lower() or "<!--" in text:
        text = text.replace("</script", "<\\/script").replace("<!--", "\\x3c!--")
    return text


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _json(value: Any) -> str:
    """JSON in which nothing can end the script element that holds it."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _figures(content: Content) -> dict[str, Any]:
    """The document of all figures, and which element each is put in."""
    from bokeh.document import Document

    from heatgraph.report.figures import pictures

    drawn = pictures(content)
    document = Document()
    for made in drawn.values():
        document.add_root(made)
    roots = {made.id: name for name, made in drawn.items()}
    return {
        "docs": {"heatgraph": document.to_json(deferred=False)},
        "items": [{"docid": "heatgraph", "roots": roots, "root_ids": list(roots)}],
    }


def _graph_hint(content: Content) -> str:
    where = (
        "Nodes that are tied closely stand near each other; where they stand means nothing else."
        if content.places.axes is None
        else "Nodes stand where their coordinates say."
    )
    return f"Wide, strong edges are heavy ones. {where} Point at a node or an edge, or click it."


def _matrix_hint(content: Content) -> str:
    from heatgraph.report.figures import MAX_NAMED

    told = "" if content.graph.n_nodes <= MAX_NAMED else " Point at a square to see whose it is."
    goes = " An edge goes from its row to its column." if content.graph.directed else ""
    return (
        "A row and a column for every node; the stronger the colour, the heavier the edge. Nodes "
        f"of one community, framed, stand together.{goes}{told}"
    )


def _series(content: Content) -> str:
    return _part("series.html") if content.shown and content.shown.times is not None else ""


def _signal_controls(content: Content) -> str:
    shown = content.shown
    if shown is None:
        return ""
    known = [("signal", "signal", shown.values), ("fit", "fit of the model", shown.fit)]
    options = [(value, text) for value, text, array in known if array is not None]
    if len(options) == 2:
        options.append(("difference", "signal minus fit"))
    listed = "".join(f'<option value="{value}">{text}</option>' for value, text in options)
    return Template(_part("signals.html")).substitute(options=listed)


def _parameters(model: Any, content: Content) -> str:
    told = table(["", ""], sections.what_was_run(model, content))
    rows = sections.parameters(model)
    if not rows:
        return told
    every = table(["parameter", "value"], rows)
    return f"{told}<details><summary>All {len(rows)} parameters</summary>{every}</details>"


def _data(content: Content) -> dict[str, Any]:
    edges, shown = content.edges, content.shown
    values, fit, explained = (
        (None, None, None) if shown is None else (shown.values, shown.fit, shown.explained)
    )
    return {
        "names": content.names,
        "short": {
            k: short
            for k, name in enumerate(content.names)
            if (short := shortened(name, LONGEST)) != name
        },
        "rank": _pack(content.order, "<i4"),
        "from": _pack(edges.pairs[:, 0], "<i4"),
        "to": _pack(edges.pairs[:, 1], "<i4"),
        "weight": _pack(edges.weights),
        "confidence": _pack(edges.confidence),
        "merges": _pack(edges.merges, "<i4"),
        "kept": edges.kept,
        "cut": content.cut,
        "learned": edges.n_learned,
        "labels": [] if shown is None else shown.labels,
        "values": _pack(values),
        "fit": _pack(fit),
        "times": _pack(None if shown is None else shown.times, "<f8"),
        "explained": None if explained is None else explained.round(4).tolist(),
        "sources": []
        if shown is None
        else [_pack(shown.sources[:, k], "<i4" if k < 3 else "<f4") for k in range(4)],
        "scales": [] if content.scales is None else content.scales.tolist(),
        # White is no heat, with one sign as with two.
        "positive": _palette("PuOr_r", 0.5, 1.0),
        "signed": _palette("PuOr_r", 0.0, 1.0),
        "gaussian": content.gaussian,
        # A unit of x on the screen, in units of y.
        "squeeze": 1.0 / content.places.aspect,
        "invitation": "Choose a node above, or click a node or an edge in the picture.",
        "unmeasured": "It is not an edge of the graph, and has no p-value."
        if content.gaussian
        else "How certain it is was not measured; learning with n_bootstrap=50 would.",
    }


def _pack(values: ArrayLike | None, dtype: str = "<f4") -> str | None:
    """Numbers in the form that costs a page least: 4 bytes each, as base64."""
    if values is None:
        return None
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode("ascii")


def _palette(name: str, low: float, high: float) -> list[str]:
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colour) for colour in colormaps[name](np.linspace(low, high, COLOURS))]
