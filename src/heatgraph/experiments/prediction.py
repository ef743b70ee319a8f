"""Hidden entries of signals, predicted on a graph that is given, and how far off that is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from heatgraph.arrays import Array, Mask
from heatgraph.graph import CandidateEdges
from heatgraph.models.heat import ATOMS, Dictionary, HeatObjective, Signals, units_of
from heatgraph.solvers.engine import code_signals


def dictionary_of(L: Array, tau: Sequence[float]) -> Dictionary:
    """The paper's dictionary of diffusions on a graph: ``exp(-tau_s L)``."""
    candidates = CandidateEdges.complete(len(L))
    objective = HeatObjective(candidates, 0.0, 0.0, ATOMS["raw"])
    return objective.dictionary(candidates.weights(L), np.array(tau, dtype=np.float64))


def digest(signals: pd.DataFrame) -> str:
    """What tells one table of signals from another, for the key of a cell."""
    return hashlib.sha256(signals.to_csv().encode()).hexdigest()[:16]


def units(X: Array) -> tuple[float, float]:
    """What 1 means for alpha and for beta, for signals (M, N) with NaN."""
    return units_of(Signals.from_missing(X.T))


def predict(L: Array, tau: Sequence[float], alpha: float, X: Array) -> Array:
    """Every entry (M, N) from the sources of the visible ones; NaN is hidden.

    The sources minimise the paper's objective, ``||x - D h||^2 + alpha ||h||_1`` over the visible
    entries.
    """
    D = dictionary_of(L, tau)
    coding = code_signals(D, Signals.from_missing(X.T), alpha)
    return D.synthesis(coding.h)


def hide(X: Array, share: float, rng: np.random.Generator) -> tuple[Array, Mask]:
    """Signals with a share of their visible entries hidden, and which."""
    parts = list(in_parts(~np.isnan(X), round(1.0 / share), rng))
    return np.where(parts[0], np.nan, X), parts[0]


def in_parts(visible: Mask, n: int, rng: np.random.Generator) -> Iterator[Mask]:
    """The visible entries in ``n`` random parts of one size, each a mask."""
    where = np.flatnonzero(visible)
    part = np.full(visible.size, -1)
    part[rng.permutation(where)] = np.arange(where.size) % n
    for k in range(n):
        yield (part == k).reshape(visible.shape)


@dataclass(frozen=True, eq=False)
class Missed:
    """Squared errors and energies of hidden entries, summed over each signal, (M,) each."""

    error: Array
    energy: Array

    @classmethod
    def of(cls, predicted: Array, truth: Array, hidden: Mask) -> Missed:
        """What a prediction of hidden entries missed."""
        off = np.where(hidden, predicted - truth, 0.0)
        return cls((off**2).sum(axis=1), (np.where(hidden, truth, 0.0) ** 2).sum(axis=1))

    def __add__(self, other: Missed) -> Missed:
        return Missed(self.error + other.error, self.energy + other.energy)

    @property
    def share(self) -> float:
        """The share of the energy that was missed; 1 is predicting zero."""
        return float(self.error.sum() / self.energy.sum())

    @property
    def standard_error(self) -> float:
        """Of the share: signals are the units that vary, as entries of one go together."""
        return self._spread(self.error - self.share * self.energy)

    def less_than(self, other: Missed) -> tuple[float, float]:
        """By how much of the energy this missed less than another, and the standard error."""
        gain = other.error - self.error
        mean = float(gain.sum() / self.energy.sum())
        return mean, self._spread(gain - mean * self.energy)

    def _spread(self, off: Array) -> float:
        M = int(np.count_nonzero(self.energy))
        return float(np.sqrt(M / max(M - 1, 1) * np.sum(off**2)) / self.energy.sum())
