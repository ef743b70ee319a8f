"""
A covariance estimator for nilearn
==================================

``HeatCovariance`` can be passed wherever nilearn asks for a covariance estimator.
"""

import matplotlib.pyplot as plt
from nilearn.connectome import ConnectivityMeasure

from heatgraph import HeatCovariance
from heatgraph.datasets import make_graph, make_heat_signals

brain = make_graph("er", 12, 0)
subjects = [
    make_heat_signals(brain, [2.0], 100, 12, 0.1, random_state=k)[0] for k in range(2)
]  # (n_times, n_regions) each
estimator = HeatCovariance(shrinkage=0.01, penalty=1.0)
measure = ConnectivityMeasure(cov_estimator=estimator, kind="partial correlation")
matrices = measure.fit_transform(subjects)

figure, axes = plt.subplots(1, 2, layout="constrained", figsize=(7, 3.2))
for k, (ax, matrix) in enumerate(zip(axes, matrices, strict=True)):
    ax.imshow(matrix, vmin=-1, vmax=1, cmap="PuOr_r")
    ax.set_title(f"subject {k + 1}")
