"""A learned graph and its scales at work on further signals, by an array of all pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from heatgraph.graph import CandidateEdges
from heatgraph.kernels.spectral import Kernel
from heatgraph.models.atoms import ATOMS
from heatgraph.models.heat import Dictionary, HeatObjective, Signals
from heatgraph.models.penalties import PENALTIES
from heatgraph.solvers.engine import code_signals
from heatgraph.solvers.lasso import Coding

__all__ = ["DenseModel"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DenseModel:
    """A Laplacian (N, N), scales, and how sources are penalised; ``positive`` ones are >= 0."""

    laplacian: Array
    tau: Array
    atoms: str
    penalty: str
    n_threads: int
    positive: bool = False
    kernel: Kernel | None = None

    @cached_property
    def _dictionary(self) -> Dictionary:
        candidates = CandidateEdges.complete(len(self.laplacian))
        objective = HeatObjective(candidates, 0.0, 0.0, ATOMS[self.atoms], self.kernel)
        return objective.dictionary(candidates.weights(self.laplacian), self.tau)

    def code(self, signals: Signals, alpha: float, start: Array | None = None) -> Coding:
        """The sources of signals, a row (S N,) each, with the duality gap each reached.

        ``start`` are sources to go on from in place of none at all.
        """
        return code_signals(
            self._dictionary,
            signals,
            alpha,
            PENALTIES[self.penalty],
            start=start,
            n_threads=self.n_threads,
            positive=self.positive,
        )

    def predict(self, signals: Signals, alpha: float) -> Array:
        """What the sources of signals diffuse into, (N, M)."""
        return self._dictionary.synthesis(self.code(signals, alpha).h).T

    def synthesis(self, H: Array) -> Array:
        """``sum_s E_s H_s`` (N, M) of sources (S, N, M)."""
        S, N, M = H.shape
        return self._dictionary.synthesis(H.transpose(2, 0, 1).reshape(M, S * N)).T
