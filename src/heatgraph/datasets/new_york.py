"""Pickups of taxis in New York, counted by zone or district and by time."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from heatgraph.arrays import Array
from heatgraph.datasets.fetch import PathLike, PublicFile, find_file, named_home
from heatgraph.datasets.geography import (
    PlacedSignals,
    prepared_form,
    read_rings,
    read_table,
)
from heatgraph.errors import needed
from heatgraph.graph import Graph

FOLDER = "uber/taxi_zones/taxi_zones.shp"
PARTS = (".shp", ".shx", ".dbf", ".prj")
BOROUGHS = ("MN", "BK", "QN", "BX", "SI", "AP")
PLANE, SPHERE = 2263, 4326  # state plane in feet, and degrees
TOUCH_FEET = 250.0  # zones separated by a creek count as neighbours
SIMPLE_FEET = 60.0  # detail that no map of a city shows


def _check_zip(path: Path) -> None:
    if not zipfile.is_zipfile(path):
        raise ValueError("it is not a zip file")
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


def find_zones(data_home: PathLike | None) -> Zones:
    """The zones from the TLC's polygons."""
    home = named_home(data_home)
    if home is not None and (home / FOLDER).is_file():
        return read_zones(home / FOLDER)
    return read_zones(find_file(ZONES_ZIP, data_home))


def _prepared(outlines: Path, touching: Path) -> Zones:
    rings: dict[str, list[Array]] = {}
    rows = {}
    for about, ring in read_rings(outlines):
        rings.setdefault(about["zone29"], []).append(ring)
        rows[about["zone29"]] = (about["lon"], about["lat"], about["zone29_name"])
    places = pd.DataFrame.from_dict(rows, orient="index", columns=["lon", "lat", "title"])
    places = places.loc[zone_names()]
    pairs = pd.read_csv(touching)[["a", "b"]]
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
    geopandas = needed("geopandas", "reading polygons", "'heatgraph[geo]'")
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


HOURS = pd.date_range("2014-09-01", "2014-09-30 23:00", freq="h", name="hour")
N_PICKUPS = 1_028_136  # in the file of September, as its publisher counts them
FIELDS = ["Date/Time", "Lat", "Lon", "Base"]
# As published, and as one widespread copy writes them.
DATE_FORMATS = ("%m/%d/%Y %H:%M:%S", "%Y/%m/%d %H:%M:%S")


def _check_uber(path: Path) -> None:
    with open(path, "rb") as file:
        header = file.readline().decode("utf-8", "replace").replace('"', "").strip().split(",")
        n_rows = sum(1 for line in file if line.strip())
    if header != FIELDS or n_rows != N_PICKUPS:
        raise ValueError(f"expected {N_PICKUPS} rows of {FIELDS}, got {n_rows} of {header}")


def _check_yellow(path: Path) -> None:
    import pyarrow.parquet as pq

    try:
        content = pq.ParquetFile(path)
    except Exception as error:  # pyarrow has many, and some are not ValueErrors
        raise ValueError(f"not a whole Parquet file ({error})") from error
    missing = {"tpep_pickup_datetime", "PULocationID"} - set(content.schema_arrow.names)
    if missing:
        raise ValueError(f"it lacks the columns {sorted(missing)}")


# The publisher's bytes were not at hand when this was written: no checksum, but a check.
UBER = PublicFile(
    "uber/uber-raw-data-sep14.csv",
    "https://raw.githubusercontent.com/fivethirtyeight/uber-tlc-foil-response/master/"
    "uber-trip-data/uber-raw-data-sep14.csv",
    check=_check_uber,
)
YELLOW = PublicFile(
    "taxi_yellow/yellow_tripdata_2014-09.parquet",
    "https://d37ci6vzurychx.cloudfront.net/trip-data/yellow_tripdata_2014-09.parquet",
    check=_check_yellow,
)
PREPARED_ZONES = ("uber/zones29.geojson", "uber/zones29_adjacency.csv")
GROUPING = "29 zones are heatgraph's grouping of the 263 taxi zones of the TLC"
UBER_FORMS = {
    "original": (UBER.name,),
    "prepared": ("uber/uber_sep2014_hourly_29zones.csv", *PREPARED_ZONES),
}
YELLOW_FORMS = {
    "original": (YELLOW.name,),
    "prepared": ("taxi_yellow/yellow_sep2014_hourly_29zones.csv", *PREPARED_ZONES),
}


def load_uber(data_home: PathLike | None = None) -> PlacedSignals:
    """Load Uber's pickups in 29 zones of New York, every hour of September 2014.

    Parameters
    ----------
    data_home : str or path-like, optional
        A folder of data to read, without which (and without the environment variable
        ``HEATGRAPH_DATA``) the original is downloaded and kept: the file of FiveThirtyEight
        (``uber/uber-raw-data-sep14.csv``) counted in the TLC's zones (``uber/taxi_zones.zip``, or
        the folder that is in it), which needs the extra ``geo``.  Without that file, the folder
        has a prepared table, which is RECONSTRUCTED from public derivatives of it and has
        1,007,879 of its 1,028,136 pickups.

    Returns
    -------
    PlacedSignals
        By the hour, in local time, with the boundaries of the zones and which of them touch;
        ``provenance`` says which of the two it is.

    Raises
    ------
    OSError
        If the files are not there, or cannot be downloaded.
    """
    prepared = (
        "RECONSTRUCTED from public derivatives of the file of FiveThirtyEight "
        "(uber-tlc-foil-response): 1,007,879 of 1,028,136 pickups, ten outer zones partly "
        f"estimated; {GROUPING}"
    )
    return _load(data_home, UBER, UBER_FORMS, count_pickups, prepared)


def load_yellow_cab(data_home: PathLike | None = None) -> PlacedSignals:
    """Load the pickups of yellow cabs in the zones and hours of :func:`load_uber`.

    Parameters
    ----------
    data_home : str or path-like, optional
        A folder of data to read, without which (and without the environment variable
        ``HEATGRAPH_DATA``) the original is downloaded and kept: the TLC's trip records
        (``taxi_yellow/yellow_tripdata_2014-09.parquet``), which need the extras ``geo`` and
        ``parquet``.  Without that file, the folder has a prepared table.

    Returns
    -------
    PlacedSignals
        As of :func:`load_uber`.

    Raises
    ------
    OSError
        If the files are not there, or cannot be downloaded.
    """
    prepared = (
        "TLC trip records through vipassana/UberTaxi, 13,098,204 pickups of yellow cabs; "
        f"{GROUPING}"
    )
    return _load(data_home, YELLOW, YELLOW_FORMS, count_trips, prepared)


def _load(
    data_home: PathLike | None,
    file: PublicFile,
    forms: dict[str, tuple[str, ...]],
    count: Callable[[Path, Zones], pd.DataFrame],
    provenance: str,
) -> PlacedSignals:
    prepared = prepared_form(data_home, forms)
    if prepared is None:
        zones = find_zones(data_home)
        path = find_file(file, data_home)
        signals = read_table(path, lambda path: count(path, zones))
        n_counted = int(signals.to_numpy().sum())
        provenance = f"{n_counted:,} pickups in {file.name}, counted in {ZONES_ZIP.name}; "
        provenance += GROUPING
    else:
        table, outlines, touching = prepared
        zones = _prepared(outlines, touching)
        signals = read_table(table, _read_prepared)
    places = zones.places.loc[signals.columns]
    return PlacedSignals(signals, places, provenance, zones.outlines, zones.adjacency)


def _read_prepared(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path, index_col="hour_start_local")[zone_names()].astype(float)
    table.index = pd.to_datetime(table.index, format="%Y-%m-%d %H:%M:%S")
    table.index.name = "hour"
    return table


def count_pickups(path: Path, zones: Zones) -> pd.DataFrame:
    """Count the pickups of a file of FiveThirtyEight by hour and zone.

    Parameters
    ----------
    path : pathlib.Path
        A CSV with the columns ``Date/Time``, ``Lat``, ``Lon`` and ``Base``.
    zones : Zones
        With polygons, from :func:`~heatgraph.datasets.zones.read_zones`.

    Returns
    -------
    DataFrame
        Every hour of September 2014 by every zone.  Pickups outside all zones are not counted.
    """
    rows = pd.read_csv(path)
    if list(rows.columns) != FIELDS:
        raise ValueError(f"expected the columns {FIELDS}, got {list(rows.columns)}")
    where = zones.locate(rows[["Lon", "Lat"]].to_numpy(dtype=float))
    return _by_hour(_dates(rows["Date/Time"]), where)


def _dates(texts: pd.Series) -> pd.Series:
    for layout in DATE_FORMATS:
        try:
            return pd.to_datetime(texts, format=layout)
        except ValueError:
            continue
    raise ValueError(f"dates must read like 9/1/2014 0:01:00, got {texts.iloc[0]!r}")


def count_trips(path: Path, zones: Zones) -> pd.DataFrame:
    """Count the trips in a Parquet file of the TLC by hour and zone of the pickup."""
    rows = pd.read_parquet(path, columns=["tpep_pickup_datetime", "PULocationID"])
    where = rows["PULocationID"].map(zone_table()["zone"])
    return _by_hour(rows["tpep_pickup_datetime"], where)


def _by_hour(times: pd.Series, where: pd.Series) -> pd.DataFrame:
    hours = times.dt.floor("h")
    counts = pd.crosstab(hours, where)
    table = counts.reindex(index=HOURS, columns=zone_names(), fill_value=0).astype(float)
    table.columns.name = None
    return table
