"""
Choose with nothing to compare with
===================================

Which penalties are right is decided by the signals: some of their values are hidden, and what
predicts them best is kept.
"""

from heatgraph import LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.plotting import plot_convergence, plot_selection

X, _ = make_heat_signals(make_graph("ring", 8, 0), (2.0,), 40, 2, noise_std=0.01, random_state=0)
model = LearnHeat(n_scales=1).fit(X)

# %%
# Everything that was tried is a table.

model.selection_[["alpha", "beta", "missed", "standard_error", "n_edges"]].head()

# %%
# The ring marks the choice: the sparsest within one standard error of the best. The dotted line at
# 1 is what predicting zero would miss.

plot_selection(model.selection_, alpha=model.alpha_, beta=model.beta_)

# %%
# The rounds of the logarithmic penalty show as steps.

plot_convergence(model.objective_)
