"""A learned graph and its scales at work on further signals, and the sources found there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from heatgraph.arrays import Array, Ints
from heatgraph.graph import CandidateEdges, Graph
from heatgraph.kernels.spectral import Kernel
from heatgraph.models.atoms import ATOMS
from heatgraph.models.heat import Dictionary, HeatObjective, Signals
from heatgraph.models.penalties import PENALTIES
from heatgraph.models.sparse_heat import SparseDictionary
from heatgraph.solvers.engine import code_signals
from heatgraph.solvers.lasso import Coding, LargeLasso


@dataclass(frozen=True, eq=False)
class SourceCodes:
    """Sources (n_signals, n_scales, n_nodes) and the duality gap of each, over its energy.

    ``signals`` and ``nodes`` are their names, ``scales`` the diffusion times.
    """

    sources: Array
    gap: Array
    signals: Sequence[Any] = ()
    nodes: Sequence[Any] = ()
    scales: Sequence[float] = ()

    def __repr__(self) -> str:
        M, S, N = self.sources.shape
        found = np.count_nonzero(self.sources)
        return f"SourceCodes({found} sources of {M} signals, at {N} nodes and {S} scales)"

    def to_pandas(self) -> pd.DataFrame:
        """A row a source that is not zero: its signal, node, scale and strength.

        The strongest of each signal comes first.
        """
        signal, scale, node = np.nonzero(self.sources)
        strength = self.sources[signal, scale, node]
        order = np.lexsort((-np.abs(strength), signal))
        return pd.DataFrame(
            {
                "signal": _named(self.signals, signal[order]),
                "node": _named(self.nodes, node[order]),
                "scale": _named(self.scales, scale[order]),
                "strength": strength[order],
            }
        )


def _named(names: Sequence[Any], which: Ints) -> list[Any]:
    return [names[k] for k in which] if len(names) else which.tolist()


CODING_TOL = 1e-6  # duality gap of the sources, over the energy of a signal


@dataclass(frozen=True, eq=False)
class LargeModel:
    """A graph, scales, and how sources are penalised; ``positive`` ones are >= 0."""

    graph: Graph
    tau: Array
    unit_atoms: bool
    penalty: str
    n_threads: int
    positive: bool = False

    @cached_property
    def _dictionary(self) -> SparseDictionary:
        return dictionary_on(self.graph, self.tau, self.unit_atoms, self.n_threads)

    def _lasso(self, alpha: float) -> LargeLasso:
        return LargeLasso(self._dictionary, alpha, self.penalty, self.positive, CODING_TOL)

    def code(self, signals: Signals, alpha: float) -> Coding:
        """The sources of signals, a row (S N,) each, with the duality gap that each reached."""
        coding = self._lasso(alpha).code(signals)
        return Coding(coding.h.toarray(), coding.value, coding.gap)

    def predict(self, signals: Signals, alpha: float) -> Array:
        """What the sources of signals diffuse into, (N, M)."""
        parts = [
            self._dictionary.synthesis(some.h.toarray())
            for some in self._lasso(alpha).batches(signals)
        ]
        return np.concatenate(parts).T

    def synthesis(self, H: Array) -> Array:
        """``sum_s E_s H_s`` (N, M) of sources (S, N, M)."""
        rows = np.ascontiguousarray(H.transpose(2, 0, 1)).reshape(H.shape[2], -1)
        return self._dictionary.synthesis(rows).T


def dictionary_on(graph: Graph, tau: Array, unit_atoms: bool, n_threads: int) -> SparseDictionary:
    """The atoms at scales ``tau`` on a graph."""
    pairs = CandidateEdges.of(graph.n_nodes, graph.edges)
    return SparseDictionary(pairs, np.asarray(graph.weights), tau, unit_atoms, n_threads)


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
