"""Where the page draws the nodes: on the coordinates given, or where springs leave them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heatgraph.datasets.geography import country_outlines
from heatgraph.graph import Graph
from heatgraph.plotting import layout

__all__ = ["Places", "place"]

Array = NDArray[np.float64]

# Columns of a table of coordinates, by what they are called.
PAIRS = (("longitude", "latitude"), ("lon", "lat"), ("lng", "lat"), ("x", "y"))
GEOGRAPHIC = ("latitude", "lat")


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
    index, or column "name", has the names and whose columns are longitude and latitude, or x and
    y.  None takes those of the graph, and a layout where it has none.  ``outlines`` are rings of
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
        coordinates, axes = _from_frame(coordinates)
    if isinstance(coordinates, Mapping):
        coordinates = _by_name(graph, coordinates)
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


def _from_frame(frame: pd.DataFrame) -> tuple[Mapping[Any, Any], tuple[str, str]]:
    known = {str(column).strip().lower(): column for column in frame.columns}
    for x, y in PAIRS:
        if x in known and y in known:
            names = next((frame[known[key]] for key in ("name", "node") if key in known), None)
            rows = frame[[known[x], known[y]]].to_numpy()
            keys = frame.index if names is None else names
            if keys.duplicated().any():
                twice = keys[keys.duplicated()].tolist()[0]
                raise ValueError(f"coordinates must have one row a node, got {twice!r} twice.")
            axes = ("longitude", "latitude") if y in GEOGRAPHIC else ("x", "y")
            return dict(zip(keys.tolist(), rows.tolist(), strict=True)), axes
    raise ValueError(
        "coordinates must have the columns longitude and latitude, or x and y, got "
        f"{', '.join(map(str, frame.columns)) or 'none'}."
    )


def _by_name(graph: Graph, known: Mapping[Any, Any]) -> list[Any]:
    nodes = range(graph.n_nodes) if graph.names is None else graph.names
    as_text = {str(key): value for key, value in known.items()}
    missing = [name for name in nodes if str(name) not in as_text]
    if missing:
        listed = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise ValueError(f"coordinates must name every node, but lack {listed}.")
    return [as_text[str(name)] for name in nodes]
