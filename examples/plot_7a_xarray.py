"""
Signals from xarray, the graph to NetworkX
==========================================

A ``DataArray`` whose dimensions are called time and node, in any order, is read as it is.
"""

import networkx as nx
import xarray as xr

import heatgraph
from heatgraph.datasets import make_graph, make_heat_signals

names = [f"station {k}" for k in range(12)]
X, _ = make_heat_signals(make_graph("er", 12, 0), [2.0], 200, 12, 0.1, random_state=0)
temperature = xr.DataArray(X.T, dims=("node", "time"), coords={"node": names})
model = heatgraph.learn(temperature, model="gaussian")
print(model.graph_.to_pandas().head())

# %%
# In NetworkX the nodes keep their names, and the edges their weight and confidence.
network = model.graph_.to_networkx()
centrality = nx.betweenness_centrality(network, weight=None)
print("most paths go through", max(centrality, key=centrality.get))
nx.draw_networkx(network, nx.kamada_kawai_layout(network, weight=None), node_color="lightgrey")
