"""Distances on the sphere against independent formulas, neighbours against a slow search."""

import builtins
import json

import numpy as np
import pytest
from pyproj import Geod

from heatgraph.datasets.geography import (
    EARTH_RADIUS_KM,
    country_outlines,
    great_circle_km,
    neighbour_graph,
)


@pytest.fixture
def places(rng):
    return np.column_stack([rng.uniform(-180, 180, 12), rng.uniform(-90, 90, 12)])


def test_distance_is_the_angle_between_directions(places):
    lon, lat = np.radians(places).T
    unit = np.array([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    angle = np.arccos(np.clip(unit.T @ unit, -1.0, 1.0))
    np.fill_diagonal(angle, 0.0)
    assert np.allclose(great_circle_km(places), EARTH_RADIUS_KM * angle, atol=1e-3)


def test_distance_is_near_that_on_the_ellipsoid(places):
    lon, lat = places.T
    geod = Geod(ellps="WGS84")
    for k in range(1, len(places)):
        metres = geod.inv(lon[0], lat[0], lon[k], lat[k])[2]
        assert great_circle_km(places)[0, k] == pytest.approx(metres / 1000, rel=0.006)


def test_near_places_keep_their_digits():
    # Half a metre north: the cosine formula would give 0 or a metre here.
    metre = 1e-3 / EARTH_RADIUS_KM
    found = great_circle_km([(7.0, 50.0)], [(7.0, 50.0 + np.degrees(0.5 * metre))])
    assert found[0, 0] == pytest.approx(0.5e-3, rel=1e-6)


def test_antipodes_are_half_a_circle_apart(places):
    opposite = np.column_stack([places[:, 0] - 180 * np.sign(places[:, 0]), -places[:, 1]])
    assert np.allclose(np.diagonal(great_circle_km(places, opposite)), np.pi * EARTH_RADIUS_KM)


def test_neighbours_are_the_nearest(places):
    graph = neighbour_graph(places, 3)
    distance = great_circle_km(places)
    expected = set()
    for i in range(12):
        for j in sorted(range(12), key=lambda j: distance[i, j])[1:4]:
            expected.add((min(i, j), max(i, j)))
    assert set(map(tuple, graph.edges.tolist())) == expected
    lengths = distance[tuple(graph.edges.T)]
    assert (np.diff(graph.weights[np.argsort(lengths)]) <= 0).all()
    assert graph.weights.sum() == pytest.approx(6.0)


def test_neighbours_cross_the_date_line():
    graph = neighbour_graph([(179.5, 0.0), (-179.5, 0.0), (170.0, 0.0)], 1)
    assert [0, 1] in graph.edges.tolist()


@pytest.mark.parametrize("n", [0, 12])
def test_number_of_neighbours_has_to_be_possible(places, n):
    with pytest.raises(ValueError, match=r"n_neighbours must lie in \[1, 11\]"):
        neighbour_graph(places, n)


@pytest.mark.parametrize("wrong", [[1.0, 2.0], [(50.0, 120.0)], [(np.nan, 1.0)], [(1, 2, 3)]])
def test_places_have_to_be_longitude_and_latitude(wrong):
    with pytest.raises(ValueError, match=r"places must be .*longitude.* and latitude"):
        great_circle_km(wrong)


def holds(rings, lon, lat):
    from shapely.geometry import Point, Polygon

    return any(Polygon(ring).contains(Point(lon, lat)) for ring in rings)


def test_outlines_that_come_with_a_package_hold_the_land():
    rings = country_outlines()
    assert holds(rings, 2.3, 48.8)  # Paris
    assert holds(rings, 116.4, 39.9)  # Peking
    assert not holds(rings, -30.0, 45.0)  # the Atlantic


def test_outlines_from_a_folder_come_first(tmp_path):
    (tmp_path / "maps").mkdir()
    square = [[0, 0], [1, 0], [1, 1], [0, 0]]
    shapes = [
        {"type": "Polygon", "coordinates": [square]},
        {"type": "MultiPolygon", "coordinates": [[square], [square]]},
    ]
    features = [{"type": "Feature", "properties": {}, "geometry": shape} for shape in shapes]
    path = tmp_path / "maps" / "europe_countries_50m.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    assert [ring.tolist() for ring in country_outlines(tmp_path)] == [square] * 3
    path.write_text("{}")
    with pytest.raises(ValueError, match="is no GeoJSON collection of polygons"):
        country_outlines(tmp_path)


def test_a_map_can_do_without_outlines(monkeypatch):
    whole = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "geopandas":
            raise ImportError(name)
        return whole(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    assert country_outlines() == []


def test_real_outlines(data_home):
    rings = country_outlines(data_home)
    assert holds(rings, 2.3, 48.8)
    assert not holds(rings, -30.0, 45.0)
