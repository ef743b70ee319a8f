"""
A tracer over Europe: what the silent stations would have said
==============================================================

On 23 October 1994 a gas was released in Brittany, and 168 stations in Europe measured it for three
days: the European Tracer Experiment. Many values are missing. We learn from the others how the gas
hangs together, and draw a map of one time step with its gaps filled. Stations that the gas hardly
reached are left out.
"""

import matplotlib.pyplot as plt
import numpy as np

from heatgraph import HeatCovariance
from heatgraph.datasets import load_etex

data = load_etex()
reached = (data.signals > 0.0).sum() >= 4  # in at least four intervals of three hours
measured = data.signals.loc[:, reached]
places = data.places[reached]
M, N = measured.shape
print(f"{M} intervals, {N} stations, {measured.isna().mean().mean():.0%} of the values missing.")
print(data.provenance)

# %%
# Concentrations span four orders of magnitude; their square roots are closer to what a Gaussian
# model can say. Missing values stay missing: the model is fitted to those that were measured.

root = np.sqrt(measured)
model = HeatCovariance().fit(root)
print(model.status_, "-", model.graph_)

# %%
# Believe it only if it predicts. A second model sees four values in five of what was measured,
# and predicts the fifth.

rng = np.random.default_rng(0)
hidden = root.notna() & (rng.random(root.shape) < 0.2)
filled = HeatCovariance().fit(root.mask(hidden)).impute(root.mask(hidden))
missed = ((filled - root)[hidden] ** 2).sum().sum()
spread = ((root - root.mask(hidden).mean())[hidden] ** 2).sum().sum()
print(f"share of the variance of hidden values that is predicted: {1.0 - missed / spread:.2f}")

# %%
# One time step as it was measured, and filled in: the one with the most gaps while there was much
# gas. The area of a disc is the root of the concentration; open discs were not measured.

gas = root.mean(axis=1)
step = root.isna().sum(axis=1)[gas > gas.median()].idxmax()
complete = np.clip(model.impute(root).loc[step], 0.0, None)
seen = measured.loc[step].notna()
_, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharex=True, sharey=True, layout="constrained")
for ax, shown, title in zip(axes, (seen, seen | True), ("measured", "filled in"), strict=True):
    at = places[shown]
    area = 8.0 + 150.0 * complete[shown] / complete.max()
    colour = np.where(seen[shown], "#0072B2", "none")
    ax.scatter(at["lon"], at["lat"], s=area, c=colour, edgecolors="#0072B2", linewidths=0.8)
    ax.plot(-2.0083, 48.058, marker="*", color="#D55E00", markersize=12)
    ax.set_title(title)
    ax.set_aspect(1.6)
axes[0].set_ylabel("latitude")
axes[0].set_xlabel("longitude; the star is where the gas was released")
