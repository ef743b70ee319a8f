"""Maps hold the places where they are, and refuse what is no place."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import Normalize, to_rgba
from matplotlib.figure import Figure

from heatgraph.graph import Graph
from heatgraph.plotting import plot_map

PLACES = np.array([(-4.5, 48.4), (-1.7, 48.1), (2.3, 48.9)])
SQUARE = [(-5, 47), (3, 47), (3, 50), (-5, 50), (-5, 47)]


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture
def graph():
    return Graph([(0, 1), (1, 2)], [1.0, 3.0], names=["Brest", "Rennes", "Paris"])


def test_draws_on_the_axes_given(graph):
    ax = Figure().subplots()
    assert plot_map(graph, PLACES, [1.0, 2.0, np.nan], [SQUARE], ax) is ax
    assert plt.get_fignums() == []


def test_takes_the_coordinates_of_the_graph():
    graph = Graph([(0, 1)], [1.0], coordinates=PLACES[:2])
    assert np.allclose(plot_map(graph).collections[-1].get_offsets(), PLACES[:2])
    with pytest.raises(ValueError, match="coordinates must be given"):
        plot_map(Graph([(0, 1)], [1.0]))


def test_heavier_is_wider_and_one_scale_serves_several(graph):
    own, shared = (
        plot_map(graph, PLACES, heaviest=top).collections[1].get_linewidths() for top in (None, 6.0)
    )
    assert own[0] < own[1]
    assert shared[1] < own[1]


def test_what_was_not_measured_is_hollow(graph):
    ax = plot_map(graph, PLACES, [1.0, np.nan, 3.0])
    hollow, known = ax.collections[2:]
    assert hollow.get_offsets().tolist() == [PLACES[1].tolist()]
    assert tuple(hollow.get_facecolors()[0]) == to_rgba("white")
    assert known.get_array().tolist() == [1.0, 3.0]


def test_colour_bar_only_for_a_scale_of_its_own(graph):
    assert len(plot_map(graph, PLACES, [1, 2, 3]).get_figure().axes) == 2
    own = plot_map(graph, PLACES, [1, 2, 3], norm=Normalize(0, 3))
    assert len(own.get_figure().axes) == 1


def test_a_degree_is_as_wide_as_on_the_ground(graph):
    assert plot_map(graph, PLACES).get_aspect() == pytest.approx(1 / np.cos(np.radians(48.5)))


def test_names(graph):
    ax = plot_map(graph, PLACES, names=["", "R", ""])
    assert [text.get_text() for text in ax.texts] == ["R"]
    with pytest.raises(ValueError, match="names must be one per node, 3, got 1"):
        plot_map(graph, PLACES, names=["R"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [(PLACES[:2], "must have shape"), (PLACES * 100, "longitude and latitude")],
)
def test_refuses_what_is_no_place(graph, wrong, message):
    with pytest.raises(ValueError, match=message):
        plot_map(graph, wrong)
    with pytest.raises(ValueError, match="values must have one number per node"):
        plot_map(graph, PLACES, [1.0])
