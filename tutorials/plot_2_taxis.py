"""
Taxis: the hours that were unlike the others
============================================

Uber's pickups in 29 zones of New York, September 2014. We take the usual week away, learn which
zones rise and fall together, and ask which hours break that rule.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.dates import DateFormatter

from heatgraph import HeatCovariance
from heatgraph.datasets import load_uber
from heatgraph.metrics import edge_scores

data = load_uber()
print(data.provenance)
counts = data.signals

# %%
# The spread of a count grows with its mean; that of its square root does not. The mean of each
# hour of the week is taken away: commuters, nights, weekends.

root = np.sqrt(counts)
week = [root.index.day_of_week, root.index.hour]
unusual = root - root.groupby(week).transform("mean")
model = HeatCovariance().fit(unusual)
print(model.status_, "-", model.graph_)

# %%
# The edges that were learned, beside the zones that touch. Zones that touch are no truth: people
# ride from airports, too.

touching = edge_scores(data.adjacency, model.graph_)
possible = 29 * 28 / 2
print(f"of {model.graph_.n_edges} edges, {touching.precision:.0%} join zones that touch,")
print(f"where of all pairs {data.adjacency.n_edges / possible:.0%} do")
titles = data.places["title"]
surest = model.edge_statistics().sort_values("z", ascending=False).head(5)
for edge in surest.itertuples():
    pair = f"{titles[edge.source]} - {titles[edge.target]}"
    print(f"{pair}: {edge.weight:.2f} ± {edge.standard_error:.2f}")

# %%
# How unlikely is each hour under the model? The squared Mahalanobis distance is about 29, the
# number of zones, where nothing is unusual.

distance = model.mahalanobis(unusual)
_, ax = plt.subplots(figsize=(9, 3), layout="constrained")
ax.plot(unusual.index, distance, color="#0072B2", linewidth=0.8)
ax.axhline(29.0, color="0.4", linestyle=":")
ax.xaxis.set_major_formatter(DateFormatter("%d %b"))
ax.set_ylabel("squared distance")
ax.set_title("Hours that the usual week and the graph do not explain")

for hour in np.argsort(-distance)[:5]:
    row = unusual.iloc[hour]
    zone = abs(row).idxmax()
    more = "more" if row[zone] > 0 else "fewer"
    when = unusual.index[hour].strftime("%A %d, %H:00")
    print(f"{when}: {distance[hour]:.0f}; {more} pickups than usual in {titles[zone]}")

# %%
# Monday the 1st was Labor Day: a Sunday in the place of a Monday. The last hour of the month is
# no event: the table has no pickup in it at all, which is a gap and not a count. Both are what
# such a list is good for, and nobody had told the model.
