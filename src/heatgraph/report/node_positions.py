"""Where the page draws the nodes: on the coordinates given, or where springs leave them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from heatgraph.arrays import Array
from heatgraph.datasets.geography import country_outlines
from heatgraph.graph import Graph
from heatgraph.plotting import layout

# Columns of a table of coordinates, by what they are called.
PAIRS = (("longitude", "latitude"), ("lon", "lat"), ("lng", "lat"), ("x", "y"))
GEOGRAPHIC = ("latitude", "lat")
NAMING = ("name", "node")


@dataclass(frozen=True, eq=False)
class Places:
    """``xy`` (N, 2); ``axes`` are the names of the coordinates, or None for a layout.

    ``outlines`` are closed rings (n_points, 2) to draw below, such as those of countries.
    """

    xy: Array
    axes: tuple[str, str] | None
    outlines: tuple[Array, ...] = ()

    @property
    def geographic(self) -> bool:
        return self.axes == ("longitude", "latitude")

    @property
    def aspect(self) -> float:
        """How much longer a degree of latitude is than one of longitude, on the middle parallel."""
        if not self.geographic:
            return 1.0
        middle = np.deg2rad(0.5 * (self.xy[:, 1].min() + self.xy[:, 1].max()))
        return float(1.0 / max(np.cos(middle), 0.05))


def place(graph: Graph, coordinates: Any = None, outlines: Any = None) -> Places:
    """Places for the nodes of a graph, and the outlines around them.

    ``coordinates`` is an array (n_nodes, 2), a mapping from names to pairs, or a data frame whose
    index, or one of whose columns, has the names and which has longitude and latitude, or x and y.
    None takes those of the graph, and a layout where it has none.  ``outlines`` are rings of
    such coordinates; None takes countries for longitude and latitude.
    """
    known = _known_places(graph, coordinates)
    if outlines is None:
        outlines = country_outlines() if known.geographic else ()
    rings = [np.asarray(ring, dtype=np.float64) for ring in outlines]
    return replace(known, outlines=tuple(ring for ring in rings if _near(ring, known.xy)))


def _near(ring: Array, xy: Array) -> bool:
    """Whether the box of a ring meets that of the nodes, with half of that around it."""
    low, high = xy.min(axis=0), xy.max(axis=0)
    margin = 0.5 * float((high - low).max())
    return bool(
        (ring.max(axis=0) > low - margin).all() and (ring.min(axis=0) < high + margin).all()
    )


def _known_places(graph: Graph, coordinates: Any) -> Places:
    if coordinates is None and graph.coordinates is None:
        return Places(layout(graph), None)
    if coordinates is None:
        return Places(np.asarray(graph.coordinates, dtype=np.float64), ("x", "y"))
    axes = ("x", "y")
    if isinstance(coordinates, pd.DataFrame):
        coordinates, axes = _from_frame(graph, coordinates)
    elif isinstance(coordinates, Mapping):
        coordinates = _by_name(graph, coordinates, "they")
    try:
        xy = np.asarray(coordinates, dtype=np.float64)
    except (TypeError, ValueError):
        xy = np.empty(0)
    if xy.shape != (graph.n_nodes, 2) or not np.isfinite(xy).all():
        raise ValueError(
            f"coordinates must be two finite numbers for each of the {graph.n_nodes} nodes, got "
            f"an array of shape {np.shape(coordinates)}."
        )
    return Places(xy, axes)


def _from_frame(graph: Graph, frame: pd.DataFrame) -> tuple[list[Any], tuple[str, str]]:
    known = {str(column).strip().lower(): column for column in frame.columns}
    for x, y in PAIRS:
        if x in known and y in known:
            rows = frame[[known[x], known[y]]].to_numpy().tolist()
            named, keys = _naming(graph, frame, [known[x], known[y]])
            twice = [key for key, times in Counter(keys).items() if times > 1]
            if twice:
                raise ValueError(
                    f"coordinates must have one row per node, but {named} has {twice[0]!r} twice."
                )
            axes = ("longitude", "latitude") if y in GEOGRAPHIC else ("x", "y")
            return _by_name(graph, dict(zip(keys, rows, strict=True)), named), axes
    raise ValueError(
        "coordinates must have the columns longitude and latitude, or x and y, got "
        f"{', '.join(map(str, frame.columns)) or 'none'}."
    )


def _naming(graph: Graph, frame: pd.DataFrame, axes: list[Any]) -> tuple[str, list[str]]:
    """What names the nodes in most rows: a column called name or node, the index, any column."""
    called = [column for column in frame.columns if str(column).strip().lower() in NAMING]
    others = [column for column in frame.columns if column not in (*called, *axes)]
    index = "the index" if frame.index.name is None else f"the column {frame.index.name!r}"
    choices = [(f"the column {column!r}", frame[column]) for column in called]
    if frame.index.name not in axes:
        choices.append((index, frame.index.to_series()))
    choices += [(f"the column {column!r}", frame[column]) for column in others]
    nodes = set(map(str, _nodes(graph)))
    return max(
        ((named, list(map(str, values))) for named, values in choices),
        key=lambda choice: len(nodes.intersection(choice[1])),
    )


def _nodes(graph: Graph) -> Sequence[Any]:
    return range(graph.n_nodes) if graph.names is None else graph.names


def _by_name(graph: Graph, known: Mapping[Any, Any], named: str) -> list[Any]:
    as_text = {str(key): value for key, value in known.items()}
    missing = [name for name in _nodes(graph) if str(name) not in as_text]
    if missing:
        listed = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
        lack = "lack" if named == "they" else "lacks"
        raise ValueError(f"coordinates must name every node, but {named} {lack} {listed}.")
    return [as_text[str(name)] for name in _nodes(graph)]
