"""Pickups counted in zones: as prepared, from the raw file, and against a slow count."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest

from heatgraph.datasets import load_uber, load_yellow_cab
from heatgraph.datasets.new_york import (
    HOURS,
    UBER,
    YELLOW,
    ZONES_ZIP,
    count_pickups,
    read_zones,
    zone_names,
    zone_table,
)

geopandas = pytest.importorskip("geopandas", reason="polygons need the extra geo")


def corner(k):
    """Zone ``k`` is a square at this corner, in a row of squares side by side."""
    return -74.2 + 0.02 * k, 40.6


def square(k):
    x, y = corner(k)
    return [[x, y], [x + 0.02, y], [x + 0.02, y + 0.02], [x, y + 0.02], [x, y]]


@pytest.fixture
def made(tmp_path):
    """A folder of the prepared form, whose zones stand in a row."""
    names = zone_names()
    for folder in ("uber", "taxi_yellow"):
        (tmp_path / folder).mkdir()
    features = [
        {
            "type": "Feature",
            "properties": {"zone29": name, "zone29_name": name, "lon": x + 0.01, "lat": y + 0.01},
            "geometry": {"type": "Polygon", "coordinates": [square(k)]},
        }
        for k, name in enumerate(names)
        for x, y in [corner(k)]
    ]
    collection = {"type": "FeatureCollection", "features": features}
    (tmp_path / "uber/zones29.geojson").write_text(json.dumps(collection))
    pairs = pd.DataFrame({"a": names[:-1], "b": names[1:]})
    pairs.to_csv(tmp_path / "uber/zones29_adjacency.csv", index=False)
    counts = pd.DataFrame(np.arange(58).reshape(2, 29), columns=names)
    counts.insert(0, "hour_start_local", ["2014-09-01 00:00:00", "2014-09-01 01:00:00"])
    counts.to_csv(tmp_path / "uber/uber_sep2014_hourly_29zones.csv", index=False)
    counts.to_csv(tmp_path / "taxi_yellow/yellow_sep2014_hourly_29zones.csv", index=False)
    return tmp_path


@pytest.fixture
def polygons(made):
    """The TLC's zip file, with one taxi zone for each of the 29, in the state plane."""
    from shapely.geometry import Polygon

    first = zone_table().reset_index().drop_duplicates("zone").set_index("zone")["LocationID"]
    shapes = geopandas.GeoDataFrame(
        {"LocationID": [int(first[name]) for name in zone_names()]},
        geometry=[Polygon(square(k)) for k in range(29)],
        crs=4326,
    ).to_crs(2263)
    folder = made / "shapes"
    folder.mkdir()
    shapes.to_file(folder / "taxi_zones.shp")
    with zipfile.ZipFile(made / ZONES_ZIP.name, "w") as archive:
        for part in folder.iterdir():
            archive.write(part, f"inside/{part.name}")
    return made


def raw(home, layout, n=400, seed=0):
    """A file as FiveThirtyEight's, with pickups around the zones and beyond."""
    rng = np.random.default_rng(seed)
    minutes = pd.to_timedelta(rng.integers(0, 4 * 60, n), unit="min")
    times = pd.Timestamp("2014-09-01") + minutes
    rows = pd.DataFrame(
        {
            "Date/Time": [layout.format(t=t) for t in times],
            # Half a step beside every border.
            "Lat": rng.uniform(40.58, 40.64, n).round(3) + 0.0005,
            "Lon": rng.uniform(-74.25, -73.55, n).round(3) + 0.0005,
            "Base": "B02512",
        }
    )
    rows.to_csv(home / UBER.name, index=False)
    return rows, times


LAYOUTS = [
    "{t.month}/{t.day}/{t.year} {t.hour}:{t:%M:%S}",
    "{t.year}/{t.month}/{t.day} {t:%H:%M:%S}",
]


def test_prepared_says_that_it_is_reconstructed(made):
    data = load_uber(made)
    assert data.signals.shape == (2, 29)
    assert data.provenance.startswith("RECONSTRUCTED")
    assert data.adjacency.n_edges == 28
    assert data.adjacency.names == tuple(data.signals.columns)
    assert data.outlines["MN01"][0].tolist() == square(0)
    assert len(data.rings) == 29


def test_yellow_cabs_in_the_same_zones(made):
    data = load_yellow_cab(made)
    assert data.signals.equals(load_uber(made).signals)
    assert "yellow cabs" in data.provenance


@pytest.mark.parametrize("layout", LAYOUTS)
def test_raw_counts_are_those_of_a_slow_count(polygons, layout):
    rows, times = raw(polygons, layout)
    data = load_uber(polygons)
    expected = pd.DataFrame(0.0, index=HOURS, columns=zone_names())
    for time, lat, lon in zip(times, rows["Lat"], rows["Lon"], strict=True):
        for k, name in enumerate(expected.columns):
            x, y = corner(k)
            if x < lon < x + 0.02 and y < lat < y + 0.02:
                expected.loc[time.floor("h"), name] += 1
    assert 50 < expected.to_numpy().sum() < 400
    assert data.signals.equals(expected)
    assert f"{int(expected.to_numpy().sum()):,} pickups" in data.provenance
    assert "RECONSTRUCTED" not in data.provenance


def test_zones_from_polygons_are_those_of_the_prepared_files(polygons, made):
    zones, prepared = read_zones(polygons / ZONES_ZIP.name), load_uber(made)
    assert zones.adjacency == prepared.adjacency
    assert np.allclose(zones.places[["lon", "lat"]], prepared.coordinates, atol=1e-4)
    for name, rings in zones.outlines.items():
        assert np.ptp(rings[0], axis=0) == pytest.approx([0.02, 0.02], abs=1e-3), name


def test_yellow_trips_are_counted_by_their_zone(polygons):
    pytest.importorskip("pyarrow", reason="trip records need the extra parquet")
    table = zone_table()
    trips = pd.DataFrame(
        {
            "tpep_pickup_datetime": pd.to_datetime(["2014-09-01 00:59:59", "2014-09-30 23:00:00"]),
            "PULocationID": [table.index[0], 264],  # 264 is the TLC's "unknown"
        }
    )
    trips.to_parquet(polygons / YELLOW.name)
    YELLOW.check(polygons / YELLOW.name)
    data = load_yellow_cab(polygons)
    assert data.signals.to_numpy().sum() == 1.0
    assert data.signals.loc["2014-09-01 00:00", table["zone"].iloc[0]] == 1.0
    trips.drop(columns="PULocationID").to_parquet(polygons / YELLOW.name)
    with pytest.raises(ValueError, match="lacks the columns"):
        YELLOW.check(polygons / YELLOW.name)
    (polygons / YELLOW.name).write_bytes(b"<html>")
    with pytest.raises(ValueError, match="not a whole Parquet file"):
        YELLOW.check(polygons / YELLOW.name)


def test_other_dates_and_columns_are_refused(polygons):
    rows, _ = raw(polygons, "{t:%d.%m.%Y %H:%M}")
    with pytest.raises(ValueError, match="dates must read like 9/1/2014"):
        load_uber(polygons)
    rows.rename(columns={"Lat": "Latitude"}).to_csv(polygons / UBER.name, index=False)
    with pytest.raises(ValueError, match="expected the columns"):
        load_uber(polygons)


def test_a_download_that_is_not_the_whole_month_is_refused(polygons):
    raw(polygons, LAYOUTS[0])
    with pytest.raises(ValueError, match=r"expected 1028136 rows .* got 400"):
        UBER.check(polygons / UBER.name)


def test_a_zip_without_a_shapefile_is_refused(tmp_path):
    path = tmp_path / "zones.zip"
    path.write_bytes(b"<html>")
    with pytest.raises(ValueError, match="it is not a zip file"):
        ZONES_ZIP.check(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.shp", b"")
    with pytest.raises(ValueError, match="a shapefile has the parts"):
        ZONES_ZIP.check(path)


def test_without_a_folder_the_original_is_downloaded(polygons, monkeypatch):
    raw(polygons, LAYOUTS[0])
    asked = []

    def found(file, data_home):
        asked.append(file.name)
        return polygons / file.name

    monkeypatch.setattr("heatgraph.datasets.new_york.find_file", found)
    assert load_uber().signals.shape == (720, 29)
    assert asked == [ZONES_ZIP.name, UBER.name]


def test_every_taxi_zone_is_in_one_of_29():
    assert len(zone_names()) == 29
    assert zone_names()[0] == "MN01"
    assert set(zone_table().index) == set(range(1, 264)) - {57, 104, 105}


def test_real_prepared(data_home):
    uber, yellow = load_uber(data_home), load_yellow_cab(data_home)
    assert uber.signals.shape == yellow.signals.shape == (720, 29)
    assert uber.signals.to_numpy().sum() == 1_007_879
    assert yellow.signals.to_numpy().sum() == 13_098_204
    assert uber.adjacency.n_edges == 50


def test_real_polygons_give_the_prepared_zones(data_home):
    zones, prepared = read_zones(data_home / "uber/taxi_zones/taxi_zones.shp"), load_uber(data_home)
    assert zones.adjacency == prepared.adjacency
    assert np.allclose(zones.places[["lon", "lat"]], prepared.coordinates, atol=1e-4)
    (sample,) = (data_home / "uber/raw_sample").glob("*.csv.gz")
    counts = count_pickups(sample, zones)
    assert counts.to_numpy().sum() == 63_363  # of 65,535; the rest is outside the 29 zones
    # Two of the five bases in four days: the shares of the zones are near those of the month.
    share, whole = counts.sum() / counts.to_numpy().sum(), prepared.signals.sum()
    assert np.corrcoef(share, whole)[0, 1] > 0.98
