"""Where to cut the learned weights, with no truth to cut by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from heatgraph.arrays import Array

MAX_STEPS = 500  # of expectation and maximisation
NEGLIGIBLE = 1e-6  # of the largest weight: zero, for the purpose of a cut
NARROWEST = 0.05  # the edges' spread relative to their mean; keeps the fit from collapsing
SETTLED = 1e-8  # change of a step, at which the fit has settled
TYPICAL_SHARE = 0.35
# Of the typical weight.  Above the first, noise; an edge that weighs more than the last is rare to
# be none, and many edges weigh less than that.
VALLEY = (TYPICAL_SHARE, 2.0 * TYPICAL_SHARE)
VALLEY_STEP = 0.01  # of the typical weight, from one cut that is tried to the next
NEARBY = 0.1  # of the typical weight: those no further from a cut say how dense weights are there
SURE = (0.99, 0.01)  # how likely a weight above Otsu's cut, or below it, is an edge's, at first
THINNEST = 1e-4  # of the largest weight: what the spread of noise and of edges is at least
FEWEST = 1e-6  # the share of either kind is at least this
NONE = 1e-12  # a sum of probabilities, to divide by where one kind has no weights
LARGEST_EXPONENT = 700.0  # the exponential of more is no number


def typical_cut(w: Array) -> float:
    """A share of the typical weight, the mean in which every edge counts by its weight.

    Many small weights hardly move that mean, so the cut does not depend on how much noise there
    is, nor on how many pairs there are.

    Parameters
    ----------
    w : (E,) weights >= 0; zeros count as absent.

    Examples
    --------
    >>> noise, edges = [0.01, 0.02, 0.005, 0.03, 0.012], [0.4, 0.5, 0.45, 0.6]
    >>> 0.03 <= typical_cut(np.array(noise + edges)) < 0.4
    True
    """
    total = float(w.sum())
    return TYPICAL_SHARE * float(w @ w) / total if total > 0.0 else 0.0


def valley_cut(w: Array, deviations: float = 1.0) -> float:
    """Where weights are rarest between noise and edges, from 0.35 to 0.7 of the typical weight.

    Where noise and edges overlap little, weights are rare between them; where many noisy weights
    are nearly as large as the edges, as on trees, they become rarer up to the edges.  Where edges
    are as many at 0.35 of the typical weight as above it, the cut is that of :func:`typical_cut`.
    It is the least at which no more weights are near than at the rarest place and ``deviations``
    standard deviations of that count.

    Parameters
    ----------
    w : (E,) weights >= 0; zeros count as absent.
    deviations : With few weights, one standard deviation is easily exceeded by chance: use two.

    Examples
    --------
    >>> noise, edges = np.linspace(0.01, 0.25, 100), np.linspace(0.4, 0.6, 50)
    >>> 0.25 < valley_cut(np.concatenate([noise, edges])) < 0.4
    True
    """
    typical = typical_cut(w) / TYPICAL_SHARE
    if not typical > 0.0:
        return 0.0
    low, high = VALLEY
    cuts = np.linspace(low, high, round((high - low) / VALLEY_STEP) + 1)
    v = np.sort(w[w > 0.0] / typical)
    near = np.searchsorted(v, cuts + NEARBY) - np.searchsorted(v, cuts - NEARBY)
    fewest = int(near.min())
    return float(cuts[np.argmax(near <= fewest + deviations * np.sqrt(fewest))] * typical)


def mixture_cut(w: Array) -> float:
    """The largest weight that is more likely noise than an edge.

    The positive weights are taken for draws from a mixture: those of absent edges fall off
    exponentially from zero (estimation noise, kept above zero by the constraint), those of edges
    are normal around their mean.  Expectation and maximisation from Otsu's cut; the answer is the
    largest weight, below the typical edge, for which noise is the likelier of the two; 0 where
    there are too few weights to tell, or no noise among them.
    """
    v = np.sort(w[w > NEGLIGIBLE * w.max(initial=0.0)])
    if v.size < 4:
        return 0.0
    edge = np.where(v > otsu(w), *SURE)
    for _ in range(MAX_STEPS):
        new = _posterior(v, edge)
        moved = float(np.abs(new - edge).max())
        edge = new
        if moved < SETTLED:
            break
    if not (edge >= 0.5).any():
        return 0.0
    typical = float(np.median(v[edge >= 0.5]))
    noise = v[(edge < 0.5) & (v < typical)]
    return float(noise[-1]) if noise.size else 0.0


def _posterior(v: Array, edge: Array) -> Array:
    """One step: the probability of each weight being an edge's, from those of the last step."""
    noise = 1.0 - edge
    floor = THINNEST * v[-1]
    n_noise, n_edges = max(float(noise.sum()), NONE), max(float(edge.sum()), NONE)
    scale = max(float(noise @ v) / n_noise, floor)
    mean = float(edge @ v) / n_edges
    spread = np.sqrt(float(edge @ np.square(v - mean)) / n_edges)
    spread = max(float(spread), NARROWEST * mean, floor)
    share = float(np.clip(edge.mean(), FEWEST, 1.0 - FEWEST))
    log_noise = np.log1p(-share) - np.log(scale) - v / scale
    log_edge = (
        np.log(share)
        - np.log(spread)
        - 0.5 * np.log(2.0 * np.pi)
        - 0.5 * np.square((v - mean) / spread)
    )
    log_ratio = np.clip(log_noise - log_edge, -LARGEST_EXPONENT, LARGEST_EXPONENT)
    ratio: Array = 1.0 / (1.0 + np.exp(log_ratio))
    return ratio


def otsu(w: Array) -> float:
    """The cut that best separates the weights into two groups by their means (Otsu 1979)."""
    v = np.sort(w)
    if v.size < 2 or v[0] == v[-1]:  # no two groups
        return 0.0
    below = np.arange(1, v.size)
    total = np.cumsum(v)
    gap = total[:-1] / below - (total[-1] - total[:-1]) / (v.size - below)
    best = int(np.argmax(below * (v.size - below) * np.square(gap)))
    return float(0.5 * (v[best] + v[best + 1]))


def just_above(cut: float) -> float:
    """The smallest weight of an edge, from the largest that is none; 0 where nothing is cut."""
    return float(np.nextafter(cut, np.inf)) if cut > 0.0 else 0.0


# Where the largest weight that is not an edge may be, by name.
CUTS: dict[str, Callable[[Array], float]] = {
    "typical": typical_cut,
    "valley": valley_cut,
    "mixture": mixture_cut,
    "otsu": otsu,
}
