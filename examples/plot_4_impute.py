"""
Fill in what was not observed
=============================

NaN is a value that was not observed, in every method of ``LearnHeat``.
"""

import matplotlib.pyplot as plt
import numpy as np

from heatgraph import LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals

graph = make_graph("rbf", 12, 1)
X, _ = make_heat_signals(graph, (2.0,), 120, 2, noise_std=0.005, random_state=0)
hidden = np.random.default_rng(0).uniform(size=X.shape) < 0.2
seen = np.where(hidden, np.nan, X)
model = LearnHeat(n_scales=1, alpha=0.03, beta=0.003).fit(seen)
filled = model.impute(seen)

# %%
# Each point is a value that the model never saw.

_, ax = plt.subplots(figsize=(5, 4.5), layout="constrained")
means = np.broadcast_to(np.nanmean(seen, axis=0), X.shape)
ax.scatter(X[hidden], means[hidden], s=14, color="#E69F00", label="mean of the node")
ax.scatter(X[hidden], filled[hidden], s=14, color="#0072B2", marker="s", label="impute")
low, high = X[hidden].min(), X[hidden].max()
ax.plot([low, high], [low, high], color="0.4", linestyle=":")
ax.set_xlabel("true value")
ax.set_ylabel("filled in")
ax.legend(frameon=False)

error = np.mean((filled[hidden] - X[hidden]) ** 2)
baseline = np.mean((means[hidden] - X[hidden]) ** 2)
print(f"squared error over that of node means: {error / baseline:.2f}")
