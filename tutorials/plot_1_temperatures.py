"""
Temperatures: a station fails
=============================

Hourly temperatures around Brittany, January 2014. We learn which stations tell of each other, see
how well that holds on days that were not used, and fill in a station that failed, with an
interval.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.dates import DateFormatter

from heatgraph import HeatCovariance
from heatgraph.datasets import great_circle_km, load_molene
from heatgraph.plotting import plot_map

data = load_molene()
known = data.places.dropna().index
hours = data.signals[known].rename(columns=data.places["title"].str.title()).dropna()
print(f"{hours.shape[0]} hours, {hours.shape[1]} stations. {data.provenance}")

# %%
# A model of heat knows no night and day. So the mean of each hour of the day is taken from every
# station: what is left is how much warmer or colder it is than usual. The last ten days are kept
# aside, from the means too.

means = hours[:-240].groupby(hours.index[:-240].hour).mean()
usual = means.loc[hours.index.hour].set_axis(hours.index)
unusual = hours - usual
train, test = unusual[:-240], unusual[-240:]
model = HeatCovariance().fit(train)
print(model.status_, "-", model.graph_)

# %%
# Is there anything to it? A fifth of the values of the days kept aside is hidden and predicted; 1
# would be perfect, 0 is the mean of each station.

print(f"share of the variance of hidden values that is predicted: {model.score_hidden(test):.3f}")

# %%
# The model was not told where the stations are. Its edges are short all the same.

places = data.places.loc[known, ["lon", "lat"]].to_numpy()
apart = great_circle_km(places, places)
edges = model.graph_.edges
pairs = np.triu_indices(len(known), 1)
print(f"median length of an edge: {np.median(apart[tuple(edges.T)]):.0f} km")
print(f"median distance of two stations: {np.median(apart[pairs]):.0f} km")

plot_map(model.graph_, coordinates=places)

# %%
# The surest edges, by the standard errors of the weights.

surest = model.edge_statistics().sort_values("z", ascending=False).head(5)
for edge in surest.itertuples():
    print(f"{edge.source} - {edge.target}: {edge.weight:.2f} ± {edge.standard_error:.2f}")

# %%
# Now the station with the most neighbours fails for ten days. ``impute`` fills it in from the
# others, and says how sure it is; the usual course of the day is added again.

failed = max(model.graph_.names, key=lambda name: (model.graph_.to_pandas() == name).sum().sum())
gap = test.copy()
gap[failed] = np.nan
filled, std = model.impute(gap, return_std=True)
column = gap.columns.get_loc(failed)
middle = np.asarray(filled)[:, column] + usual.loc[test.index, failed]
width = 1.96 * np.asarray(std)[:, column]
true = hours.loc[test.index, failed]

_, ax = plt.subplots(figsize=(9, 3.5), layout="constrained")
ax.fill_between(
    true.index, middle - width, middle + width, color="#56B4E9", alpha=0.4, linewidth=0.0
)
ax.plot(true.index, middle, color="#0072B2", label="filled in, with 95% intervals")
ax.plot(true.index, true, color="#D55E00", linewidth=1.0, label="measured")
ax.xaxis.set_major_formatter(DateFormatter("%d %b"))
ax.set_ylabel("kelvin")
ax.set_title(f"{failed}, as if it had failed")
ax.legend(frameon=False, ncols=2)

inside = (abs(true - middle) <= width).mean()
error = np.sqrt(((true - middle) ** 2).mean())
print(f"error {error:.2f} K; {inside:.0%} of the hours are inside the intervals")
print(f"error of the usual course of the day: {np.sqrt((test[failed] ** 2).mean()):.2f} K")
