"""Known graphs and known signals: they are what they claim, and the seed decides."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.spatial.distance import pdist

from heatgraph.datasets import make_graph, make_heat_signals, random_graphs, synthetic
from heatgraph.graph import Graph

KINDS = ["rbf", "er", "ba", "geometric", "grid", "ring", "community"]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(n=st.integers(8, 40), seed=st.integers(0, 1000))
def test_connected_normalised_and_seeded(kind, n, seed):
    graph = make_graph(kind, n, random_state=seed)
    assert graph.n_nodes == n
    assert graph.n_components() == 1
    assert graph.laplacian().trace() == pytest.approx(n)
    assert make_graph(kind, n, random_state=seed) == graph
    assert make_graph(kind, n, random_state=np.random.default_rng(seed)) == graph


@pytest.mark.parametrize("kind", ["rbf", "er", "ba", "geometric", "community"])
def test_seeds_differ(kind):
    assert make_graph(kind, 20, random_state=0) != make_graph(kind, 20, random_state=1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["er", "ba", "grid", "ring", "community"])
def test_the_choice_of_weights_does_not_move_the_edges(kind, seed):
    unit = make_graph(kind, 20, random_state=seed)
    drawn = make_graph(kind, 20, random_state=seed, weights="uniform")
    assert np.ptp(unit.weights) == 0
    assert drawn.weights.max() / drawn.weights.min() > 1.2
    np.testing.assert_array_equal(unit.edges, drawn.edges)


def edge_lengths(graph):
    return np.linalg.norm(np.diff(graph.coordinates[graph.edges], axis=1)[:, 0], axis=1)


@pytest.mark.parametrize("threshold", ["weight", "distance"])
def test_rbf(threshold):
    graph = random_graphs.rbf(30, np.random.default_rng(0), threshold=threshold)
    distances = pdist(graph.coordinates)
    weights = np.exp(-(distances**2) / (2 * 0.5**2))
    keep = weights >= 0.75 if threshold == "weight" else distances <= 0.75
    i, j = np.triu_indices(30, 1)
    np.testing.assert_array_equal(graph.edges, np.column_stack([i, j])[keep])
    np.testing.assert_allclose(graph.weights, weights[keep])


def test_densities_of_the_two_readings():
    def density(kind, **options):
        graphs = [make_graph(kind, 20, random_state=k, **options) for k in range(30)]
        return np.mean([g.n_edges for g in graphs]) / 190

    # Only connected draws count, which puts the mean a little above p.
    assert density("rbf") == pytest.approx(0.30, abs=0.03)
    assert density("rbf", threshold="distance") == pytest.approx(0.80, abs=0.03)
    assert density("ba") == pytest.approx(36 / 190)
    assert density("ba", m=1) == pytest.approx(19 / 190)
    assert density("er") == pytest.approx(0.21, abs=0.02)


def test_er_draws_each_pair_alike(rng):
    counts = np.zeros((6, 6))
    n_draws = 4000
    for _ in range(n_draws):
        np.add.at(counts, tuple(random_graphs.random_pairs(6, 0.3, rng).T), 1)
    i, j = np.triu_indices(6, 1)
    assert counts.sum() == counts[i, j].sum()
    # Five standard deviations of a binomial.
    assert np.abs(counts[i, j] / n_draws - 0.3).max() < 5 * np.sqrt(0.3 * 0.7 / n_draws)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 300])
def test_random_pairs_at_the_ends_of_the_range(rng, n):
    assert len(random_graphs.random_pairs(n, 1.0, rng)) == n * (n - 1) // 2
    assert len(random_graphs.random_pairs(n, 0.0, rng)) == 0
    assert len(random_graphs.random_pairs(n, 1e-300, rng)) == 0


def test_ba_prefers_the_well_connected():
    degrees = np.array([make_graph("ba", 200, random_state=k).degrees() for k in range(20)])
    assert degrees[:, :5].mean() > 4 * degrees[:, 100:].mean()
    # Every newcomer brings exactly m edges.
    graph = make_graph("ba", 50, random_state=0, m=3)
    assert np.bincount(graph.edges[:, 1], minlength=50)[4:].tolist() == [3] * 46


@pytest.mark.parametrize("seed", range(5))
def test_geometric_links_are_the_shortest_that_connect(seed):
    n, mean_degree = 60, 2.0
    graph = make_graph("geometric", n, random_state=seed, mean_degree=mean_degree)
    radius = np.sqrt(mean_degree / (np.pi * (n - 1)))
    lengths = edge_lengths(graph)
    short = Graph(graph.edges[lengths <= radius], graph.weights[lengths <= radius], n)
    assert len(short.edges) == (pdist(graph.coordinates) <= radius).sum()
    assert short.n_components() > 1
    # Kruskal: each link joins two components, and as few and as short as can be.
    links = np.sort(lengths[lengths > radius])
    assert len(links) == short.n_components() - 1
    i, j = np.triu_indices(n, 1)
    distances = pdist(graph.coordinates)
    for link in links:
        below = distances < link * (1 - 1e-9)
        closer = Graph(np.column_stack([i, j])[below], np.ones(below.sum()), n)
        up_to = distances <= link * (1 + 1e-9)
        with_it = Graph(np.column_stack([i, j])[up_to], np.ones(up_to.sum()), n)
        assert with_it.n_components() == closer.n_components() - 1


def test_geometric_weights():
    graph = make_graph("geometric", 50, random_state=0)
    radius = np.sqrt(8.0 / (np.pi * 49))
    w = np.exp(-(edge_lengths(graph) ** 2) / (2 * radius**2))
    np.testing.assert_allclose(graph.weights, w * 25 / w.sum())
    assert np.ptp(make_graph("geometric", 50, weights="unit").weights) == 0


@pytest.mark.parametrize("n", [2, 3, 4])
def test_geometric_of_a_few_nodes(n):
    for seed in range(10):
        assert make_graph("geometric", n, random_state=seed, mean_degree=1).n_components() == 1


def test_geometric_of_many_nodes_is_quick():
    start = time.process_time()
    graph = make_graph("geometric", 20_000, random_state=0)
    assert time.process_time() - start < 5.0
    assert graph.n_components() == 1
    assert 2 * graph.n_edges / graph.n_nodes == pytest.approx(8.0, abs=0.2)


@pytest.mark.parametrize(("n", "n_edges"), [(2, 1), (4, 4), (7, 8), (12, 17), (20, 31)])
def test_grid(n, n_edges):
    graph = make_graph("grid", n)
    assert graph.n_edges == n_edges
    np.testing.assert_allclose(edge_lengths(graph), 1.0)
    assert len(np.unique(graph.coordinates, axis=0)) == n


def test_ring():
    graph = make_graph("ring", 5)
    assert graph.edges.tolist() == [[0, 1], [0, 4], [1, 2], [2, 3], [3, 4]]
    np.testing.assert_allclose(edge_lengths(graph), edge_lengths(graph)[0])


def test_community():
    graph = make_graph("community", 200, random_state=0, n_communities=3, p_in=0.4, p_out=0.02)
    block = np.arange(200) * 3 // 200
    same = block[graph.edges[:, 0]] == block[graph.edges[:, 1]]
    sizes = np.bincount(block)
    assert np.ptp(sizes) <= 1
    inside = (sizes * (sizes - 1) // 2).sum()
    assert same.sum() / inside == pytest.approx(0.4, abs=0.03)
    assert (~same).sum() / (19900 - inside) == pytest.approx(0.02, abs=0.006)


@pytest.mark.parametrize(
    ("kind", "n", "options", "message"),
    [
        ("tree", 20, {}, "kind must be one of 'rbf', 'er'"),
        ("er", 1, {}, "n_nodes must be an integer >= 2"),
        ("er", 20.0, {}, "n_nodes must be an integer"),
        ("ring", 2, {}, "n_nodes must be an integer >= 3"),
        ("er", 20, {"q": 1}, "no option 'q' for kind 'er', which takes 'p', 'weights'"),
        ("er", 20, {"rng": 1}, "no option 'rng'"),
        ("er", 20, {"p": 1.5}, "p must be at most 1"),
        ("er", 20, {"p": "high"}, "p must be a finite number > 0"),
        ("er", 20, {"p": np.nan}, "p must be a finite number > 0"),
        ("er", 20, {"weights": "gaussian"}, "weights must be one of"),
        ("er", 20, {"p": 0.001}, "no connected graph of 20 nodes in 1000 draws; raise p"),
        ("er", 2000, {"p": 1e-4}, "no connected graph of 2000 nodes"),
        ("ba", 20, {"m": 0}, "m must be an integer >= 1"),
        ("ba", 20, {"m": 20}, "m must be at most 19"),
        ("rbf", 20, {"sigma": 0.0}, "sigma must be"),
        ("rbf", 20, {"kappa": 1.5}, "kappa must be"),
        ("rbf", 20, {"threshold": "number"}, "threshold must be one of"),
        ("rbf", 20, {"threshold": "distance", "sigma": 1e-5}, "raise sigma"),
        ("geometric", 20, {"mean_degree": 0.5}, "mean_degree must be"),
        ("geometric", 20, {"weights": "uniform"}, "weights must be one of"),
        ("community", 20, {"n_communities": 0}, "n_communities must be"),
        ("community", 20, {"p_in": -1}, "p_in must be"),
        ("community", 20, {"p_out": 0.0}, "raise p_in or p_out"),
    ],
)
def test_make_graph_refuses(kind, n, options, message):
    with pytest.raises(ValueError, match=message):
        make_graph(kind, n, random_state=0, **options)


@pytest.mark.parametrize("random_state", ["seed", -1, 1.5])
def test_random_state_is_checked(random_state):
    with pytest.raises(ValueError, match="random_state must be"):
        make_graph("er", 20, random_state=random_state)


@pytest.fixture
def graph():
    return make_graph("rbf", 20, random_state=0)


def test_signals_are_diffused_sources(graph):
    tau = [2.5, 4.0]
    X, H = make_heat_signals(graph, tau, n_signals=50, random_state=1)
    L = graph.laplacian().toarray()
    expected = sum(H[:, s] @ expm(-t * L) for s, t in enumerate(tau))
    np.testing.assert_allclose(X, expected, atol=1e-12)
    assert X.shape == (50, 20)
    assert H.shape == (50, 2, 20)
    assert ((H != 0).sum(axis=(1, 2)) == 3).all()


def test_atoms_are_uniform_and_coefficients_normal(graph):
    _, H = make_heat_signals(graph, [1.0, 2.0], n_signals=4000, random_state=0)
    rate = (H != 0).mean(axis=0)
    p = 3 / 40
    assert np.abs(rate - p).max() < 5 * np.sqrt(p * (1 - p) / 4000)
    values = H[H != 0]
    assert values.mean() == pytest.approx(0.0, abs=0.04)
    assert values.std() == pytest.approx(1.0, abs=0.04)


def test_noise_does_not_move_the_sources(graph):
    clean, H = make_heat_signals(graph, [2.5, 4.0], 500, random_state=7)
    noisy, H_noisy = make_heat_signals(graph, [2.5, 4.0], 500, noise_std=0.02, random_state=7)
    louder, _ = make_heat_signals(graph, [2.5, 4.0], 500, noise_std=0.04, random_state=7)
    np.testing.assert_array_equal(H, H_noisy)
    assert (noisy - clean).std() == pytest.approx(0.02, rel=0.05)
    np.testing.assert_allclose(louder - clean, 2 * (noisy - clean), atol=1e-12)


def test_noise_does_not_move_what_a_shared_generator_gives_next(graph):
    after = []
    for noise_std in (0.0, 1.0):
        rng = np.random.default_rng(0)
        make_heat_signals(graph, [1.0], 5, noise_std=noise_std, random_state=rng)
        after.append(rng.random())
    assert after[0] == after[1]


def test_sparse_diffusion_is_the_dense_one(graph, monkeypatch):
    dense, _ = make_heat_signals(graph, [0.0, 1.0, 4.0], 100, random_state=0)
    monkeypatch.setattr(synthetic, "DENSE_NODES", 0)
    monkeypatch.setattr(synthetic, "BLOCK", 33)
    sparse, _ = make_heat_signals(graph, [0.0, 1.0, 4.0], 100, random_state=0)
    np.testing.assert_allclose(sparse, dense, atol=1e-10)


def test_many_nodes_need_no_dense_matrix(monkeypatch):
    graph = make_graph("geometric", 20_000, random_state=0)
    monkeypatch.setattr(np.linalg, "eigh", lambda *_: pytest.fail("eigh"))
    X, H = make_heat_signals(graph, [1.0], n_signals=2, n_sources=50, random_state=0)
    # Heat is moved, not made.
    np.testing.assert_allclose(X.sum(axis=1), H.sum(axis=(1, 2)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scales": []}, "scales must be"),
        ({"scales": 1.0}, "scales must be"),
        ({"scales": [-1.0]}, "scales must be"),
        ({"scales": [np.nan]}, "scales must be"),
        ({"n_signals": 0}, "n_signals must be"),
        ({"n_sources": 0}, "n_sources must be an integer >= 1"),
        ({"n_sources": 21}, "n_sources must be at most 20"),
        ({"noise_std": -0.1}, "noise_std must be"),
        ({"random_state": "x"}, "random_state must be"),
    ],
)
def test_make_heat_signals_refuses(graph, changes, message):
    arguments = {"scales": [1.0], "n_signals": 5} | changes
    with pytest.raises(ValueError, match=message):
        make_heat_signals(graph, **arguments)
