"""Pictures hold what they should, and refuse what they cannot draw."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from heatgraph.datasets import make_graph
from heatgraph.graph import Graph
from heatgraph.plotting import (
    layout,
    plot_convergence,
    plot_graph,
    plot_laplacians,
    plot_likelihood,
    plot_map,
    plot_selection,
    plot_sources,
    plot_stretches,
    plot_weights,
)
from heatgraph.plotting.style import shortened


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture
def graph():
    drawn = make_graph("community", 16, 0, weights="uniform")
    return Graph(drawn.edges, drawn.weights, names=[f"node {k}" for k in range(16)])


def boxes(ax):
    """Where the labels are, once drawn."""
    figure = ax.get_figure()
    figure.canvas.draw()
    return [text.get_window_extent() for text in ax.texts]


def test_draws_on_the_axes_given(graph):
    before = plt.get_fignums()
    ax = Figure().subplots()
    assert plot_graph(graph, ax=ax) is ax
    assert plot_sources(graph, np.ones(16), np.eye(2, 16), ax=ax) is ax
    ax = Figure().subplots()
    assert plot_convergence([2.0, 1.0], ax=ax) is ax
    assert plot_weights(graph, ax=ax) is ax
    panels = Figure().subplots(1, 2)
    assert plot_laplacians([graph, graph], ax=panels) == list(panels)
    assert plt.get_fignums() == before


def test_same_picture_at_every_call(graph):
    first, second = (plot_graph(graph).collections[1].get_offsets() for _ in range(2))
    assert np.array_equal(first, second)


def test_labels_are_in_the_picture_and_apart(graph):
    ax = plot_graph(graph)
    found = boxes(ax)
    window = ax.get_figure().bbox
    assert len(found) == 16
    for k, box in enumerate(found):
        assert window.x0 <= box.x0 < box.x1 <= window.x1
        assert not any(box.overlaps(other) for other in found[:k])


ODD = [r"cost $\foo$ 5", r"$\alpha$_{", "5 $ or 6 $", "a_b^c"]


def as_written(text):
    return not (text.get_parse_math() or text.get_usetex())


def test_dollar_signs_in_names_open_no_formula():
    graph = Graph([(0, 1), (1, 2), (2, 3)], [1.0, 2.0, 3.0], names=ODD)
    ax = plot_sources(graph, np.ones(4), np.eye(1, 4))
    ax.set_title(f"signal {ODD[0]}")
    boxes(ax)
    assert as_written(ax.title)
    for drawn in (plot_graph(graph), plot_map(graph, np.eye(4, 2))):
        boxes(drawn)
        assert [text.get_text() for text in drawn.texts] == ODD
        assert all(map(as_written, drawn.texts))


def test_dollar_signs_beside_matrices_open_no_formula():
    graph = Graph([(0, 1), (1, 2), (2, 3)], [1.0, 2.0, 3.0], names=ODD)
    (ax,) = plot_laplacians([graph], [ODD[0]])
    boxes(ax)
    ticks = [*ax.get_xticklabels(), *ax.get_yticklabels()]
    assert [text.get_text() for text in ticks] == 2 * ODD
    assert all(map(as_written, [ax.title, *ticks]))


def test_long_names_are_shortened_and_leave_the_graph_its_room(graph):
    names = [f"sensor of temperature in building {k}, upper floor, room {k:2}" for k in range(16)]
    ax = plot_graph(Graph(graph.edges, graph.weights, names=names))
    found = boxes(ax)
    window = ax.get_figure().bbox
    assert all(window.x0 <= box.x0 < box.x1 <= window.x1 for box in found)
    other = plot_graph(graph)
    boxes(other)
    assert ax.get_window_extent().height > 0.9 * other.get_window_extent().height
    written = [text.get_text() for text in ax.texts]
    assert len(set(written)) == 16
    assert all(len(text) <= 20 and "\u2026" in text for text in written)
    (matrix,) = plot_laplacians([Graph(graph.edges, graph.weights, names=names)])
    assert [text.get_text() for text in matrix.get_xticklabels()] == written


@pytest.mark.parametrize("text", ["", "a", "x" * 20])
def test_short_names_are_written_in_full(text):
    assert shortened(text) == text


@pytest.mark.parametrize("at_most", [5, 12, 20])
def test_of_a_long_name_both_ends_are_kept(at_most):
    short = shortened("abc" * 20 + "xyz", at_most)
    assert len(short) == at_most
    assert short.startswith("ab")
    assert short.endswith("z")


def far_from(box, ax, place):
    """How many points a label is away from the middle of a node."""
    x, y = ax.transData.transform(place)
    away = np.maximum([box.x0 - x, x - box.x1, box.y0 - y, y - box.y1], 0.0)
    return float(np.linalg.norm(away)) * 72.0 / ax.get_figure().dpi


def test_labels_touch_no_node():
    places = np.array([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)])
    names = ["WWWWWWWW", "Oakham", "MMMMMMMM", "wide\nwide"]
    graph = Graph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)], np.ones(5), names=names)
    ax = plot_graph(graph, places)
    radius = 0.5 * np.sqrt(ax.collections[1].get_sizes()[0])
    for box in boxes(ax):
        assert min(far_from(box, ax, place) for place in places) > radius + 1.0


def test_labels_of_nodes_that_nearly_coincide_are_not_mistaken():
    places = np.array([(0.0, 0.0), (1.0, 0.02), (1.0, 0.06), (0.4, 1.0)])
    graph = Graph([(0, 1), (1, 2), (2, 3), (0, 3)], np.ones(4), names=["a", "Brook", "Elton", "d"])
    ax = plot_graph(graph, places)
    found = boxes(ax)
    for own, other in ((1, 2), (2, 1)):
        near, far = (far_from(found[own], ax, places[k]) for k in (own, other))
        assert near + 2.0 < far


def test_many_names_are_left_out():
    assert not plot_graph(make_graph("ring", 80)).texts
    assert len(plot_graph(make_graph("ring", 64)).texts) == 64


def test_heavy_edges_are_wider_and_darker():
    graph = Graph([(0, 1), (1, 2), (2, 3)], [1.0, 3.0, 2.0])
    lines = plot_graph(graph).collections[0]
    assert np.all(np.diff(lines.get_linewidths()) > 0)
    assert np.all(np.diff(lines.get_colors()[:, 3]) > 0)


def test_values_of_both_signs_are_centred(graph):
    nodes = plot_graph(graph, values=np.linspace(-1.0, 3.0, 16)).collections[1]
    assert (nodes.norm.vmin, nodes.norm.vcenter, nodes.norm.vmax) == (-3.0, 0.0, 3.0)
    nodes = plot_graph(graph, values=np.linspace(1.0, 3.0, 16)).collections[1]
    assert (nodes.norm.vmin, nodes.norm.vmax) == (1.0, 3.0)


@pytest.mark.parametrize(
    "graph",
    [
        Graph([], [], n_nodes=1),
        Graph([], [], n_nodes=3),
        Graph([(0, 1)], [2.0]),
        Graph([(0, 1), (2, 3)], [1.0, 1e-9], n_nodes=5),
    ],
)
def test_small_and_scattered_graphs(graph):
    boxes(plot_graph(graph, values=np.zeros(graph.n_nodes)))


def test_values_with_gaps(graph):
    values = np.arange(16.0)
    values[3] = np.nan
    boxes(plot_graph(graph, values=values))


def test_faint_sources_are_left_out(graph):
    sources = np.zeros((2, 16))
    sources[0, 2], sources[1, 5], sources[1, 7] = 1.0, -0.5, 0.01
    ax = plot_sources(graph, np.ones(16), sources, scales=[1.0, 2.0])
    marked = [text.get_text() for text in ax.texts if "\n" in text.get_text()]
    assert sorted(marked) == ["node 2\n+1", "node 5\n-0.5"]
    assert [t.get_text() for t in ax.get_legend().texts] == ["source, scale 1", "source, scale 2"]


def test_convergence_of_a_short_or_flat_history():
    assert plot_convergence([1.0]).get_yscale() == "linear"
    assert plot_convergence([1.0, 1.0, 1.0]).get_yscale() == "linear"
    assert plot_convergence([3.0, 2.0, 1.0]).get_yscale() == "log"


def test_histogram_counts_every_edge(graph):
    for weights in (graph.weights, np.geomspace(1e-6, 1.0, graph.n_edges)):
        ax = plot_weights(Graph(graph.edges, weights))
        assert sum(bar.get_height() for bar in ax.patches) == graph.n_edges
    ax = plot_weights(Graph([(0, 1), (1, 2)], [1.0, 1.0]))
    assert sum(bar.get_height() for bar in ax.patches) == 2


def test_laplacians_share_a_scale():
    graphs = [Graph([(0, 1)], [1.0]), Graph([(0, 1)], [4.0])]
    assert {ax.images[0].get_clim() for ax in plot_laplacians(graphs)} == {(0.0, 4.0)}


def test_laplacians_name_their_nodes(graph):
    first, second = plot_laplacians([graph, graph])
    names = [f"node {k}" for k in range(16)]
    assert [tick.get_text() for tick in first.get_xticklabels()] == names
    assert [tick.get_text() for tick in first.get_yticklabels()] == names
    assert [tick.get_text() for tick in second.get_xticklabels()] == names


def test_what_is_far_from_zero_is_bright(graph):
    for sign in (1.0, -1.0):
        nodes = plot_graph(graph, values=sign * np.linspace(1.0, 3.0, 16)).collections[1]
        far, near = nodes.to_rgba(sign * np.array([3.0, 1.0]))
        assert far[:3].sum() > near[:3].sum()


def test_halos_are_below_the_nodes(graph):
    ax = plot_graph(graph)
    nodes = ax.collections[1].get_zorder()
    assert all(text.get_zorder() < nodes for text in ax.texts)


def test_the_choice_is_ringed():
    tried = pd.DataFrame(
        {
            "n_scales": 1,
            "alpha": [0.1, 0.2, 0.1],
            "beta": [1.0, 1.0, 2.0],
            "missed": [0.5, 0.6, 0.7],
        }
    ).assign(n_scales=1, standard_error=0.05)
    ring = plot_selection(tried, alpha=0.2, beta=1.0).collections[-1]
    assert ring.get_label() == "chosen"
    assert np.allclose(ring.get_offsets(), [(0.2, 0.6)])
    labels = [text.get_text() for text in plot_selection(tried, alpha=0.3, beta=1.0).legend_.texts]
    hundreds = plot_selection(tried.assign(beta=[141.3, 141.3, 47.1]))
    assert {text.get_text() for text in hundreds.legend_.texts} == {"beta 140", "beta 47"}
    assert "chosen" not in labels
    assert plot_selection(tried).get_xscale() == "log"
    assert plot_selection(tried.assign(alpha=0.0)).get_xscale() == "linear"


def test_choices_by_likelihood_show_the_likelihood():
    tried = pd.DataFrame(
        {"n_scales": 1, "alpha": [0.1, 0.2], "beta": 1.0, "missed": [0.4, 0.5]}
        | {"standard_error": 0.05, "log_likelihood": [3.0, 4.0], "coding": 1.0}
    )
    ax = plot_selection(tried, alpha=0.2, beta=1.0)
    assert ax.get_ylabel() == "held-out log-likelihood per signal"
    assert ax.lines[0].get_ydata().tolist() == [3.0, 4.0]
    assert ax.collections[-1].get_offsets().tolist() == [[0.2, 4.0]]
    ax = plot_stretches(tried.assign(stretch=[1.0, 1.2], scale1=[2.0, 2.4]), scale=2.4, beta=1.0)
    assert ax.lines[0].get_ydata().tolist() == [3.0, 4.0]
    assert ax.collections[-1].get_offsets().tolist() == [[1.2, 4.0]]


def test_layout_of_a_large_graph_keeps_neighbours_near(rng):
    graph = make_graph("ring", 1500)
    places = layout(graph)
    assert np.array_equal(places, layout(graph))
    i, j = graph.edges.T
    a, b = rng.integers(0, 1500, (2, 3000))
    near = np.linalg.norm(places[i] - places[j], axis=1)
    far = np.linalg.norm(places[a] - places[b], axis=1)
    assert np.median(near) < 0.1 * np.median(far)


def test_layout_of_large_graphs_that_fall_apart():
    assert np.isfinite(layout(Graph([], [], n_nodes=1200))).all()
    pairs = np.arange(1200).reshape(-1, 2)
    assert np.isfinite(layout(Graph(pairs, np.ones(600), n_nodes=1300))).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: plot_graph(g, values=[1.0]), "one number per node"),
        (lambda g: plot_graph(g, coordinates=np.ones((3, 2))), "coordinates must have shape"),
        (lambda g: plot_sources(g, np.ones(16), np.ones(16)), "sources must have the shape"),
        (lambda g: plot_sources(g, np.ones(16), np.ones((2, 16)), [1.0]), "scales must have one"),
        (lambda g: plot_convergence([]), "objective must be"),
        (lambda g: plot_convergence([np.nan]), "objective must be"),
        (lambda g: plot_laplacians([]), "graphs must be"),
        (lambda g: plot_laplacians([g, Graph([(0, 1)], [1.0])]), "same number of nodes"),
        (lambda g: plot_laplacians([g], ["a", "b"]), "titles must be"),
        (lambda g: plot_laplacians([g], ax=[]), "ax must be"),
        (lambda g: plot_weights(Graph([], [], n_nodes=2)), "must have an edge"),
    ],
)
def test_bad_input(graph, call, message):
    with pytest.raises(ValueError, match=message):
        call(graph)


def stretches(*missed):
    """Two betas, each at two stretches."""
    return pd.DataFrame(
        {
            "beta": [1.0, 1.0, 2.0, 2.0],
            "scale1": [3.0, 3.6, 3.0, 3.6],
            "stretch": [1.0, 1.2, 1.0, 1.2],
            "missed": missed,
            "standard_error": 0.1,
        }
    )


def legend_of(ax):
    return {text.get_text() for text in ax.get_legend().texts}


def test_stretches_are_shown_up_to_what_predicting_zero_misses():
    tried = stretches(0.4, 5.0, 0.5, 0.3)
    ax = plot_stretches(tried, scale=3.6, beta=2.0)
    assert ax.get_ylim()[1] == pytest.approx(1.05)
    assert ax.collections[-1].get_offsets().tolist() == [[1.2, 0.3]]
    assert legend_of(ax) == {"beta 1", "beta 2", "chosen"}
    assert "chosen" not in legend_of(plot_stretches(tried))


def test_stretches_that_all_miss_more_than_zero_does_are_seen():
    ax = plot_stretches(stretches(1.5, 2.0, 1.4, 1.2), scale=3.6, beta=2.0)
    assert ax.collections[-1].get_offsets().tolist() == [[1.2, 1.2]]
    assert ax.get_ylim()[0] < 1.2 < ax.get_ylim()[1]


def test_legends_of_choices_cover_no_data():
    tried = pd.DataFrame({"n_scales": 1, "alpha": [0.1, 0.2, 0.1, 0.2], "beta": [1, 1, 2, 2]})
    tried = tried.assign(missed=[0.5, 0.6, 0.7, 0.4], standard_error=0.5)
    for ax in (
        plot_selection(tried, alpha=0.2, beta=1.0),
        plot_stretches(stretches(0.4, 5.0, 0.5, 0.3)),
    ):
        found = boxes(ax)
        legend = ax.get_legend().get_window_extent()
        assert legend.y0 >= ax.get_window_extent().y1
        assert not any(legend.overlaps(box) for box in found)


class TestLikelihood:
    TRIED = pd.DataFrame(
        {
            "shrinkage": [0.1, 0.01, 0.001, 0.01, 0.01],
            "penalty": [2.0, 2.0, 2.0, 3.0, 3.0],
            "relaxed": [0, 0, 0, 0, 1],
            "log_likelihood": [1.0, 3.0, 2.5, 2.8, 3.2],
            "standard_error": 0.1,
        }
    )

    def test_has_a_line_for_every_penalty(self):
        ax = plot_likelihood(self.TRIED, shrinkage=0.01, penalty=3.0, relaxed=True)
        names = [text.get_text() for text in ax.get_legend().texts]
        assert names == ["chosen", "penalty 2", "penalty 3", "penalty 3, then left out"]
        assert ax.lines[0].get_xdata().tolist() == [0.001, 0.01, 0.1]
        ring = next(made for made in ax.collections if made.get_label() == "chosen")
        assert ring.get_offsets().tolist() == [[0.01, 3.2]]
        assert ax.get_xscale() == "log"

    def test_what_was_not_tried_has_no_ring(self):
        ax = plot_likelihood(self.TRIED, shrinkage=0.5, penalty=3.0)
        assert "chosen" not in [text.get_text() for text in ax.get_legend().texts]

    def test_no_shrinkage_has_a_place(self):
        ax = plot_likelihood(self.TRIED.assign(shrinkage=[0.0, 0.1, 0.2, 0.0, 0.0]))
        assert ax.get_xscale() == "linear"


def test_arrows_of_a_directed_graph():
    from matplotlib.patches import FancyArrowPatch

    graph = Graph([(0, 1), (1, 0), (2, 0)], [1.0, 2.0, 3.0], directed=True)
    places = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    ax = plot_graph(graph, places)
    arrows = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    ends = sorted((tuple(a), tuple(b)) for a, b in (arrow._posA_posB for arrow in arrows))
    assert ends == [((0, 0), (1, 0)), ((0, 1), (0, 0)), ((1, 0), (0, 0))]
    assert max(arrows, key=lambda arrow: arrow.get_linewidth())._posA_posB[0] == (0.0, 1.0)
