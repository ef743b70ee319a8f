"""
Choose parameters without a known graph
=======================================

The signals decide which penalties are right: some signals are held out, and the penalties that make
them most likely are kept.
"""

from heatgraph import LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.plotting import plot_convergence, plot_selection

X, _ = make_heat_signals(make_graph("ring", 8, 0), (2.0,), 40, 2, noise_std=0.01, random_state=0)
model = LearnHeat(n_scales=1).fit(X)

# %%
# All values that were tried are in a table.

model.selection_[["alpha", "beta", "log_likelihood", "missed", "n_edges"]].head()

# %%
# The ring marks the choice: the largest penalty within one standard error of the best.

plot_selection(model.selection_, alpha=model.alpha_, beta=model.beta_)

# %%
# The rounds of the logarithmic penalty show as steps.

plot_convergence(model.objective_)
