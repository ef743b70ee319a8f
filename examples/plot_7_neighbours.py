"""
Use the graph in another library
================================

A learned graph can be converted to NetworkX, pandas and PyGSP, and ``HeatCovariance`` is a
covariance estimator for nilearn.  Signals may come from xarray.
"""

# %%
# Signals in an ``xarray.DataArray``: its dimensions are called time and node, in any order.
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import xarray as xr
from nilearn.connectome import ConnectivityMeasure

import heatgraph
from heatgraph.datasets import make_graph, make_heat_signals

names = [f"station {k}" for k in range(12)]
X, _ = make_heat_signals(make_graph("er", 12, 0), [2.0], 200, 12, 0.1, random_state=0)
temperature = xr.DataArray(X, dims=("time", "node"), coords={"node": names})
model = heatgraph.learn(temperature, model="gaussian")
print(model.graph_.to_pandas().head())

# %%
# In NetworkX the nodes keep their names, and the edges their weight and confidence.
network = model.graph_.to_networkx()
centrality = nx.betweenness_centrality(network, weight=None)
print("most paths go through", max(centrality, key=centrality.get))

# %%
# PyGSP filters signals on the graph: here the parts of one that vary slowly along the edges.
other = model.graph_.to_pygsp()
other.compute_fourier_basis()
slow = other.U[:, :4] @ (other.U[:, :4].T @ X[0])
plt.figure(figsize=(6, 3), layout="constrained")
plt.plot(X[0], "o", label="measured")
plt.plot(slow, label="its four slowest parts")
plt.xlabel("station")
plt.legend()

# %%
# nilearn asks for a covariance estimator, and takes ``HeatCovariance``.
estimator = heatgraph.HeatCovariance(shrinkage=0.01, penalty=1.0)
measure = ConnectivityMeasure(cov_estimator=estimator, kind="partial correlation")
matrices = measure.fit_transform([X[:100], X[100:]])  # two subjects
print(np.round(matrices[0][:3, :3], 2))

# %%
# With their packages installed, ``model.graph_.to_torch_geometric()`` is the graph for PyTorch
# Geometric, and ``model.graph_.to_mne()`` the connectivity for MNE-Python:
# :doc:`/guide/neighbours`.
