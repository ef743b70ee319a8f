"""Places on a map: distances, outlines, signals that have places."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from heatgraph.arrays import Array
from heatgraph.datasets.fetch import HOME_VARIABLE, PathLike, named_home
from heatgraph.graph import Graph

EARTH_RADIUS_KM = 6371.0088  # the mean radius of the WGS 84 ellipsoid
OUTLINES = "maps/europe_countries_50m.geojson"
# Natural Earth's countries at 1:110m come with pyogrio, the reader of geopandas, as an example.
SHIPPED = "tests/fixtures/naturalearth_lowres"


def great_circle_km(places: ArrayLike, others: ArrayLike | None = None) -> Array:
    """The distances on the sphere between places, in kilometres.

    Parameters
    ----------
    places : array-like, shape (n, 2)
        Longitude and latitude in degrees.
    others : array-like, shape (m, 2), optional
        By default the places themselves.

    Returns
    -------
    ndarray (n, m)
        By the haversine formula, exact for near places too; the Earth is not quite a sphere, so
        within half a percent of the truth.

    Examples
    --------
    >>> great_circle_km([(0.0, 0.0)], [(180.0, 0.0)]).round().tolist()
    [[20015.0]]
    """
    a = np.radians(_lon_lat("places", places))
    b = a if others is None else np.radians(_lon_lat("others", others))
    half = 0.5 * (a[:, None] - b[None, :])
    parallel = np.cos(a[:, None, 1]) * np.cos(b[None, :, 1])
    haversine = np.sin(half[..., 1]) ** 2 + parallel * np.sin(half[..., 0]) ** 2
    # Rounding can lift antipodes above 1.
    distance: Array = 2.0 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.minimum(haversine, 1.0)))
    return distance


def neighbour_graph(
    places: ArrayLike,
    n_neighbours: int = 8,
    *,
    bandwidth_km: float | None = None,
    names: Iterable[Hashable] | None = None,
) -> Graph:
    """Join each place to its nearest on the sphere; the nearer, the larger the weight.

    Parameters
    ----------
    places : array-like, shape (n_nodes, 2)
        Longitude and latitude in degrees.
    n_neighbours : int
        An edge is kept if either end has the other among this many nearest.
    bandwidth_km : float, optional
        The weight at distance ``d`` is ``exp(-d^2 / (2 bandwidth^2))``; by default the mean
        distance of the edges.
    names : iterable of hashable, optional
        One per node.

    Returns
    -------
    Graph
        Of trace ``n_nodes``, with ``places`` as coordinates.

    Examples
    --------
    >>> neighbour_graph([(0, 50), (1, 50), (5, 50)], 1)
    Graph(3 nodes, 2 edges, weights 0.347 to 1.15, coordinates)
    """
    coordinates = _lon_lat("places", places)
    N = len(coordinates)
    if not 1 <= n_neighbours < N:
        raise ValueError(f"n_neighbours must lie in [1, {N - 1}], got {n_neighbours!r}")
    distance = great_circle_km(coordinates)
    apart = np.where(np.eye(N, dtype=bool), np.inf, distance)
    near = apart <= np.sort(apart, axis=1)[:, [n_neighbours - 1]]
    i, j = np.nonzero(np.triu(near | near.T, k=1))
    width = float(distance[i, j].mean()) if bandwidth_km is None else bandwidth_km
    if not 0.0 < width < np.inf:
        raise ValueError(f"bandwidth_km must be positive, got {width!r}")
    weights = np.exp(-0.5 * (distance[i, j] / width) ** 2)
    keep = weights > 0.0
    edges = np.column_stack([i, j])[keep]
    return Graph(edges, weights[keep], N, names, coordinates=coordinates).normalized()


def country_outlines(data_home: PathLike | None = None) -> list[Array]:
    """The outlines of countries, for the background of a map.

    Parameters
    ----------
    data_home : str or path-like, optional
        A folder of data; its ``maps/europe_countries_50m.geojson`` is used if it is there.

    Returns
    -------
    list of ndarray (n_points, 2)
        Closed rings of longitude and latitude, from Natural Earth (public domain): Europe at
        1:50m from the folder, or the world at 1:110m as it comes with the extra ``geo``; empty if
        there is neither, for a map can do without.

    Examples
    --------
    >>> all(ring.shape[1] == 2 for ring in country_outlines())
    True
    """
    home = named_home(data_home)
    if home is not None and (home / OUTLINES).is_file():
        return [ring for _, ring in read_rings(home / OUTLINES)]
    try:
        import geopandas

        shipped = files("pyogrio").joinpath(*SHIPPED.split("/"))
        with as_file(shipped) as folder:
            if not folder.is_dir():
                return []
            shapes = geopandas.read_file(folder / "naturalearth_lowres.shp").geometry
    except ImportError:
        return []
    return [ring for shape in shapes for ring in _rings(shape.__geo_interface__)]


# What a file of another structure, or a number out of range, ends in.
DAMAGED = (ValueError, LookupError, TypeError, AttributeError, OverflowError)


def read_rings(path: Path) -> Iterator[tuple[dict[str, Any], Array]]:
    """The outer rings of the polygons in a GeoJSON file, each with its feature's properties."""
    try:
        features = json.loads(path.read_text(encoding="utf-8"))["features"]
        for feature in features:
            for ring in _rings(feature["geometry"]):
                yield feature["properties"], ring
    except (*DAMAGED, RecursionError) as error:
        raise ValueError(
            f"{path} is no GeoJSON collection of polygons ({type(error).__name__}: {error})"
        ) from error


def _rings(geometry: dict[str, Any]) -> list[Array]:
    nested = geometry["coordinates"]
    polygons = nested if geometry["type"] == "MultiPolygon" else [nested]
    return [np.asarray(polygon[0], dtype=np.float64)[:, :2] for polygon in polygons]


def _lon_lat(name: str, places: ArrayLike) -> Array:
    array = np.asarray(places, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(
            f"{name} must be rows of longitude and latitude in degrees, got shape {array.shape}"
        )
    outside = np.flatnonzero(~(np.abs(array) <= (360.0, 90.0)).all(axis=1))
    if outside.size:
        raise ValueError(
            f"{name} must be longitudes and latitudes in degrees; row {outside[0]} is "
            f"{array[outside[0]].tolist()}. Leave out places that are not known."
        )
    return array


@dataclass(frozen=True, eq=False)
class PlacedSignals:
    """Signals on nodes that are places.

    Parameters
    ----------
    signals : DataFrame
        One row per time, one column per node; NaN where nothing was measured.
    places : DataFrame
        One row per node, in the order of the columns of ``signals``: ``lon``, ``lat`` in degrees,
        and ``title``, the name in full.
    provenance : str
        Where the numbers come from and what was done to them.
    outlines : mapping of str to tuple of ndarray (n_points, 2)
        The rings of longitude and latitude around each zone, where nodes are zones.
    adjacency : Graph, optional
        Which zones touch, with weights 1.

    Examples
    --------
    >>> signals = pd.DataFrame({"a": [1.0], "b": [np.nan]})
    >>> places = pd.DataFrame({"lon": [2.0, 3.0], "lat": 50.0, "title": ["A", "B"]}, ["a", "b"])
    >>> PlacedSignals(signals, places, "made up").coordinates.tolist()
    [[2.0, 50.0], [3.0, 50.0]]
    """

    signals: pd.DataFrame
    places: pd.DataFrame
    provenance: str
    outlines: Mapping[str, tuple[Array, ...]] = field(default_factory=dict)
    adjacency: Graph | None = None

    def __post_init__(self) -> None:
        if list(self.signals.columns) != list(self.places.index):
            raise ValueError("places must have the nodes of signals, in the same order")

    @property
    def coordinates(self) -> Array:
        """Longitude and latitude, (n_nodes, 2)."""
        return self.places[["lon", "lat"]].to_numpy(dtype=np.float64)

    def placed(self) -> PlacedSignals:
        """The same data without the nodes whose coordinates are not known.

        Returns
        -------
        PlacedSignals
        """
        known = self.places.index[self.places[["lon", "lat"]].notna().all(axis=1)]
        return PlacedSignals(
            self.signals[known], self.places.loc[known], self.provenance, self.outlines
        )

    @property
    def rings(self) -> list[Array]:
        """Every ring around a zone."""
        return [ring for rings in self.outlines.values() for ring in rings]


def prepared_form(
    data_home: PathLike | None, forms: Mapping[str, tuple[str, ...]]
) -> list[Path] | None:
    """The prepared files of a data set, in the folder that the user named; None for the original.

    The first form that is there counts; without a folder the original is downloaded.
    """
    home = named_home(data_home)
    if home is None:
        return None
    for form, names in forms.items():
        paths = [home / name for name in names]
        if all(path.is_file() for path in paths):
            return paths if form == "prepared" else None
    needed = " or ".join(" and ".join(names) for names in forms.values())
    raise FileNotFoundError(
        f"the folder of data {home} lacks {needed}; name another by data_home or {HOME_VARIABLE}, "
        "or none to have the original downloaded"
    )


def read_table(path: Path, read: Callable[[Path], pd.DataFrame]) -> pd.DataFrame:
    """Read a table, and say which file it was if it is not as it should be."""
    try:
        return read(path)
    except (ValueError, KeyError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not as expected: {error}") from error
