"""
Compare the methods
===================

Three methods on the same signals: one assumes diffused heat, one smooth signals, one filtered
noise. The true graph is used only for the score.
"""

from heatgraph import LearnHeat, SmoothGraph, SpectralTemplates
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.metrics import edge_scores
from heatgraph.plotting import plot_laplacians

truth = make_graph("ba", 14, 0)
X, _ = make_heat_signals(truth, (1.0, 4.0), 100, 3, random_state=0)
models = {
    "heat": LearnHeat(alpha=0.03, beta=0.003),
    "smooth": SmoothGraph(n_edges=truth.n_edges),
    "templates": SpectralTemplates(n_edges=truth.n_edges),
}
graphs = {"true": truth.scaled(14)}
for name, model in models.items():
    graphs[name] = model.fit(X).graph_
    print(f"{name:10} F {edge_scores(truth, graphs[name]).f_measure:.2f}")

plot_laplacians(list(graphs.values()), list(graphs))
