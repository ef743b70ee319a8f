"""
Learn a graph from heat
=======================

Heat is released at a few towns, spreads along roads that we do not know, and is measured. From
many such days we learn the roads.
"""

# %%
# Signals to learn from
# ---------------------
# A graph of twelve towns, and eighty days on which two towns each were heated. In real life they
# are the table that you have: one row per day, one column per town.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from heatgraph import Graph, LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.metrics import edge_scores
from heatgraph.plotting import layout, plot_graph, plot_laplacians, plot_weights

towns = ["Ashby", "Brook", "Colne", "Dene", "Elton", "Fair"]
towns += ["Garth", "Hale", "Ilford", "Jarrow", "Keld", "Leigh"]
drawn = make_graph("er", len(towns), 3)
truth = Graph(drawn.edges, drawn.weights, names=towns)
signals, _ = make_heat_signals(truth, (1.0, 3.0), 80, 2, noise_std=0.005, random_state=0)
X = pd.DataFrame(signals, columns=towns)
X.iloc[:4, :8].round(3)

# %%
# Learn
# -----
# ``LearnHeat()`` needs no parameters: it chooses the two penalties by the likelihood of held-out
# signals. Here they are given, to be quick.

model = LearnHeat(alpha=0.03, beta=0.003).fit(X)
print(model.graph_.to_pandas().head())
print("scales", np.round(model.scales_, 2), "status", model.status_)

# %%
# Look
# ----

fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
places = layout(truth)
plot_graph(truth, places, ax=axes[0]).set_title("true")
plot_graph(model.graph_, places, ax=axes[1]).set_title("learned")

# %%
# The same as matrices of weights, on one scale of colours.

plot_laplacians([truth.scaled(12), model.graph_], ["true", "learned"])

# %%
# The weights fall into two groups, edges and noise; the cut lies between them.

plot_weights(model.weights_, cut=model.cut_)
print(f"F-measure {edge_scores(truth, model.graph_).f_measure:.2f}")
