"""
A layer of PyTorch Geometric on the graph
=========================================

A learned graph becomes a ``Data`` of PyTorch Geometric (``pip install torch torch-geometric``), on
which its layers work.
"""

import torch
from torch_geometric.nn import GCNConv

from heatgraph import HeatCovariance
from heatgraph.datasets import make_graph, make_heat_signals

X, _ = make_heat_signals(make_graph("er", 12, 0), [2.0], 200, 12, 0.1, random_state=0)
model = HeatCovariance(shrinkage=0.01, penalty=1.0).fit(X)

data = model.graph_.to_torch_geometric()  # every edge in both directions
layer = GCNConv(in_channels=200, out_channels=4)
features = layer(torch.tensor(X.T, dtype=torch.float32), data.edge_index, data.edge_weight)
print(features.shape)  # four features of each node
