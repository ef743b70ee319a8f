"""Graphs in the libraries next door, which are installed by ``nox -s neighbours`` alone."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from heatgraph import Graph


@pytest.fixture
def graph():
    return Graph(
        [(0, 1), (1, 2), (0, 3)],
        [0.5, 2.0, 1.25],
        names=["a", "b", "c", "d"],
        coordinates=[[0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.5, 0.5]],
    )


class TestTorchGeometric:
    def test_has_the_weights_and_the_places(self, graph):
        utils = pytest.importorskip("torch_geometric.utils")
        data = graph.to_torch_geometric()
        assert data.validate()
        assert data.is_undirected()
        dense = utils.to_dense_adj(data.edge_index, edge_attr=data.edge_weight)[0]
        np.testing.assert_array_equal(dense.numpy(), graph.adjacency().toarray())
        np.testing.assert_array_equal(data.pos.numpy(), graph.coordinates)

    def test_a_layer_takes_it(self, graph):
        nn = pytest.importorskip("torch_geometric.nn")
        torch = pytest.importorskip("torch")
        data = graph.to_torch_geometric()
        # Of the identity, the weighted sums over neighbours are the weights themselves.
        layer = nn.SimpleConv(aggr="sum")
        found = layer(torch.eye(4), data.edge_index, data.edge_weight)
        np.testing.assert_allclose(found.numpy(), graph.adjacency().toarray().T)

    def test_nodes_without_edges_and_direction_stay(self):
        pytest.importorskip("torch_geometric")
        data = Graph([(2, 0)], [1.5], n_nodes=5, directed=True).to_torch_geometric()
        assert data.num_nodes == 5
        assert data.edge_index.tolist() == [[2], [0]]
        assert data.edge_weight.tolist() == [1.5]

    def test_without_the_package(self, graph, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch_geometric", None)
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(ImportError, match="pip install torch torch-geometric"):
            graph.to_torch_geometric()


class TestMne:
    def test_has_the_weights_and_the_names(self, graph):
        pytest.importorskip("mne_connectivity")
        found = graph.to_mne()
        np.testing.assert_array_equal(found.get_data("dense"), graph.adjacency().toarray())
        assert list(found.names) == ["a", "b", "c", "d"]

    def test_without_the_package(self, graph, monkeypatch):
        monkeypatch.setitem(sys.modules, "mne_connectivity", None)
        with pytest.raises(ImportError, match="pip install mne-connectivity"):
            graph.to_mne()
