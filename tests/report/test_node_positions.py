"""Coordinates in every form, and the errors that name what is missing."""

import numpy as np
import pandas as pd
import pytest

from heatgraph import Graph
from heatgraph.plotting import layout
from heatgraph.report.page_data import place

XY = np.array([[2.0, 48.0], [3.0, 50.0], [4.0, 49.0]])


@pytest.fixture
def graph():
    return Graph([(0, 1), (1, 2)], [1.0, 2.0], names=["a", "b", "c"])


@pytest.mark.parametrize(
    ("coordinates", "axes"),
    [
        (XY, ("x", "y")),
        ({"c": XY[2], "a": XY[0], "b": XY[1]}, ("x", "y")),
        (pd.DataFrame(XY[::-1], columns=["X", "Y"], index=["c", "b", "a"]), ("x", "y")),
        (
            pd.DataFrame(XY, columns=["lon", "lat"], index=["a", "b", "c"]),
            ("longitude", "latitude"),
        ),
        (
            pd.DataFrame(XY, columns=["Longitude", "Latitude"]).assign(name=["a", "b", "c"]),
            ("longitude", "latitude"),
        ),
        (
            pd.DataFrame(XY, columns=["lon", "lat"]).assign(
                name=["Aix", "Bern", "Bern"], code=["a", "b", "c"]
            ),
            ("longitude", "latitude"),
        ),
    ],
)
def test_every_form(graph, coordinates, axes):
    found = place(graph, coordinates)
    assert np.array_equal(found.xy, XY)
    assert found.axes == axes


def test_a_degree_of_longitude_is_shorter(graph):
    frame = pd.DataFrame(XY, columns=["longitude", "latitude"], index=["a", "b", "c"])
    assert place(graph, frame).aspect == pytest.approx(1.0 / np.cos(np.deg2rad(49.0)))
    assert place(graph, XY).aspect == 1.0


def test_without_coordinates(graph):
    assert np.array_equal(place(graph).xy, layout(graph))
    assert place(graph).axes is None
    own = Graph(graph.edges, graph.weights, names=graph.names, coordinates=XY)
    assert np.array_equal(place(own).xy, XY)


def test_only_near_outlines_are_kept(graph):
    near, far = XY + 0.5, XY + 100.0
    assert len(place(graph, XY, [near, far]).outlines) == 1
    assert place(graph, XY).outlines == ()


@pytest.mark.parametrize(
    ("coordinates", "message"),
    [
        (XY[:2], "two finite numbers for each of the 3 nodes"),
        (XY * np.nan, "two finite numbers"),
        ("here", "two finite numbers"),
        ({"a": (1, 2)}, "lack 'b', 'c'"),
        (pd.DataFrame(XY, columns=["x", "z"], index=["a", "b", "c"]), "columns longitude and lat"),
        (pd.DataFrame(XY, columns=["x", "y"], index=["a", "b", "b"]), "the index has 'b' twice"),
        (
            pd.DataFrame(XY, columns=["x", "y"]).assign(name=["k", "l", "m"], code=["a", "b", "d"]),
            "the column 'code' lacks 'c'",
        ),
    ],
)
def test_bad_coordinates(graph, coordinates, message):
    with pytest.raises(ValueError, match=message):
        place(graph, coordinates)
