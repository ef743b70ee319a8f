"""
Connectivity for MNE-Python
===========================

Epochs of MNE-Python are ``(n_epochs, n_channels, n_times)``; heatgraph has channels last. The graph
becomes a ``Connectivity`` of MNE-Connectivity (``pip install mne-connectivity``).
"""

import matplotlib.pyplot as plt
import numpy as np

import heatgraph
from heatgraph.datasets import make_graph, make_heat_signals

X, _ = make_heat_signals(make_graph("er", 12, 0), [2.0], 300, 12, 0.1, random_state=0)
data = X.reshape(6, 50, 12).transpose(0, 2, 1)  # as of epochs.get_data()

model = heatgraph.learn(data.transpose(0, 2, 1), model="gaussian")  # epochs are held out whole
connectivity = model.graph_.to_mne()
print(connectivity)

plt.figure(figsize=(4, 3.4), layout="constrained")
plt.imshow(np.asarray(connectivity.get_data("dense")), cmap="Blues")
plt.colorbar(label="weight")
