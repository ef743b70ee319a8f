"""29 zones of New York, made of the taxi zones of the TLC."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heatgraph.datasets.fetch import PathLike, PublicFile, find_file, named_home
from heatgraph.datasets.geography import read_rings
from heatgraph.graph import Graph

__all__ = ["ZONES_ZIP", "Zones", "find_zones", "read_zones", "zone_names", "zone_table"]

Array = NDArray[np.float64]

FOLDER = "uber/taxi_zones/taxi_zones.shp"
PARTS = (".shp", ".shx", ".dbf", ".prj")
BOROUGHS = ("MN", "BK", "QN", "BX", "SI", "AP")
PLANE, SPHERE = 2263, 4326  # state plane in feet, and degrees
TOUCH_FEET = 250.0  # a creek apart is still beside each other
SIMPLE_FEET = 60.0  # detail that no map of a city shows


def _check_zip(path: Path) -> None:
    if not zipfile.is_zipfile(path):
        raise ValueError("it is no zip file")
    with zipfile.ZipFile(path) as archive:
        found = {Path(name).suffix for name in archive.namelist()}
    if not found.issuperset(PARTS):
        raise ValueError(f"a shapefile has the parts {', '.join(PARTS)}, got {sorted(found)}")


ZONES_ZIP = PublicFile(
    "uber/taxi_zones.zip",
    "https://d37ci6vzurychx.cloudfront.net/misc/taxi_zones.zip",
    check=_check_zip,
)


@dataclass(frozen=True, eq=False)
class Zones:
    """The zones: where they are, the rings around them, which of them touch.

    ``shapes`` is a GeoDataFrame of polygons in the state plane, where they were read from one.
    """

    places: pd.DataFrame
    outlines: Mapping[str, tuple[Array, ...]]
    adjacency: Graph
    shapes: Any = None

    def locate(self, places: Array) -> pd.Series:
        """The zone that each place (n, 2) of longitude and latitude is in; NaN for none."""
        import geopandas

        if self.shapes is None:
            raise ValueError("these zones have outlines for a map and no polygons to count in")
        points = geopandas.GeoDataFrame(
            geometry=geopandas.points_from_xy(*places.T, crs=SPHERE)
        ).to_crs(PLANE)
        found = points.sjoin(self.shapes[["geometry"]], how="left", predicate="intersects")
        # A point on a border is in both zones, and counts in the first.
        zone: pd.Series = found[~found.index.duplicated()]["zone"]
        return zone


@cache
def zone_table() -> pd.DataFrame:
    """Which of the 29 zones each taxi zone of the TLC belongs to, by its LocationID."""
    path = files("heatgraph.datasets").joinpath("data", "new_york_29_zones.csv")
    with path.open(encoding="utf-8") as file:
        return pd.read_csv(file, index_col="LocationID")


def zone_names() -> list[str]:
    """The names of the zones: Manhattan, Brooklyn, Queens, the Bronx, Staten Island, airports."""
    return sorted(set(zone_table()["zone"]), key=lambda name: (BOROUGHS.index(name[:2]), name))


def find_zones(data_home: PathLike | None, prepared: Path | None) -> Zones:
    """The zones from the prepared files of a folder, or from the TLC's polygons."""
    if prepared is not None:
        return _prepared(prepared)
    home = named_home(data_home)
    if home is not None and (home / FOLDER).is_file():
        return read_zones(home / FOLDER)
    return read_zones(find_file(ZONES_ZIP, data_home))


def _prepared(home: Path) -> Zones:
    rings: dict[str, list[Array]] = {}
    rows = {}
    for about, ring in read_rings(home / "uber/zones29.geojson"):
        rings.setdefault(about["zone29"], []).append(ring)
        rows[about["zone29"]] = (about["lon"], about["lat"], about["zone29_name"])
    places = pd.DataFrame.from_dict(rows, orient="index", columns=["lon", "lat", "title"])
    places = places.loc[zone_names()]
    pairs = pd.read_csv(home / "uber/zones29_adjacency.csv")[["a", "b"]]
    return Zones(
        places,
        {name: tuple(found) for name, found in rings.items()},
        _touching(pairs.to_numpy().tolist(), list(places.index)),
    )


def _touching(pairs: list[list[str]], names: list[str]) -> Graph:
    number = {name: k for k, name in enumerate(names)}
    edges = [(number[a], number[b]) for a, b in pairs]
    return Graph(edges, np.ones(len(edges)), len(names), names)


def read_zones(path: Path) -> Zones:
    """The 29 zones out of the TLC's shapefile, or of the zip file that it comes in.

    Needs the extra ``geo``.
    """
    try:
        import geopandas
    except ImportError as error:
        raise ImportError("polygons need geopandas: pip install 'heatgraph[geo]'") from error
    if path.suffix == ".zip":
        with tempfile.TemporaryDirectory() as folder:
            return read_zones(_unpack(path, Path(folder)))
    taxi = geopandas.read_file(path).to_crs(PLANE)
    taxi["zone"] = taxi["LocationID"].map(zone_table()["zone"])
    shapes = taxi[["zone", "geometry"]].dissolve("zone").loc[zone_names()]
    centres = shapes.centroid.to_crs(SPHERE)
    titles = zone_table().drop_duplicates("zone").set_index("zone")["title"]
    places = pd.DataFrame({"lon": centres.x, "lat": centres.y, "title": titles}).loc[shapes.index]
    places.index.name = None
    simple = shapes.simplify(SIMPLE_FEET).to_crs(SPHERE)
    outlines = {name: _outer(shape) for name, shape in simple.items()}
    return Zones(places, outlines, _near(shapes), shapes)


def _unpack(path: Path, folder: Path) -> Path:
    """The parts of the shapefile, wherever in the archive they are, side by side in a folder."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if Path(name).suffix in PARTS:
                (folder / f"zones{Path(name).suffix}").write_bytes(archive.read(name))
    return folder / "zones.shp"


def _outer(shape: Any) -> tuple[Array, ...]:
    polygons = getattr(shape, "geoms", [shape])
    return tuple(np.asarray(polygon.exterior.coords)[:, :2] for polygon in polygons)


def _near(shapes: Any) -> Graph:
    names = list(shapes.index)
    i, j = shapes.sindex.query(shapes.geometry, predicate="dwithin", distance=TOUCH_FEET)
    return _touching([[names[a], names[b]] for a, b in zip(i, j, strict=True) if a < b], names)
