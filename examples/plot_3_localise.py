"""
Find where the heat came from
=============================

A learned graph is a dictionary of heat patterns, on which the sources of a new signal are found.
The duality gap says how exactly.
"""

import numpy as np

from heatgraph import LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.plotting import plot_sources

graph = make_graph("rbf", 14, 2)
X, H = make_heat_signals(graph, (1.0, 3.0), 110, 2, noise_std=0.005, random_state=1)
model = LearnHeat(alpha=0.03, beta=0.003).fit(X[:100])

# %%
# Ten signals that the fit has not seen.

found = model.code(X[100:])
print("largest gap", found.gap.max())

true = np.abs(H[100]).sum(axis=0)
plot_sources(model.graph_, X[100], found.sources[0], model.scales_, graph.coordinates).set_title(
    f"true sources: {', '.join(map(str, np.flatnonzero(true)))}"
)
