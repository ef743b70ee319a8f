"""
Filter signals with PyGSP
=========================

PyGSP filters signals on the learned graph: here the parts of one that vary slowly along the edges.
"""

import matplotlib.pyplot as plt

from heatgraph import HeatCovariance
from heatgraph.datasets import make_graph, make_heat_signals

X, _ = make_heat_signals(make_graph("er", 12, 0), [2.0], 200, 12, 0.1, random_state=0)
model = HeatCovariance(shrinkage=0.01, penalty=1.0).fit(X)

other = model.graph_.to_pygsp()
other.compute_fourier_basis()
slow = other.U[:, :4] @ (other.U[:, :4].T @ X[0])

plt.figure(figsize=(6, 3), layout="constrained")
plt.plot(X[0], "o", label="measured")
plt.plot(slow, label="its four slowest parts")
plt.xlabel("node")
plt.legend()
