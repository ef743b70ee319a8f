"""The dictionary of heat atoms on a large sparse graph, as operators on rows.

Atom ``(s, i)`` is ``exp(-tau_s L) delta_i``.  With the spectrum of ``L`` in ``[0, 2a]``,
``exp(-tau L)`` is a Chebyshev series of ``A = L / a - I``, which the compiled core applies.
Signals are rows (m, N), sources rows (m, S N), as in the dense model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, eye_array, vstack

from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels.probing import Probes, probing_vectors
from heatgraph.kernels.series import chebyshev_nodes, degree_for, interpolate
from heatgraph.kernels.sparse_laplacian import EdgeLayout, SparseLaplacian, from_blocks, to_blocks

__all__ = ["SparseDictionary"]

Array = NDArray[np.float64]

SERIES_TOL = 1e-8  # error of exp(-tau lam), whose largest value is 1
# Norms of atoms: each atom on its own up to so many nodes, else by about so many probing vectors.
# Nodes that share one are as many edges apart as that number allows, at the most DISTANCE.
EXACT_NODES, PROBES, DISTANCE = 4000, 400, 12
PROBES_AT_ONCE = 128
# Short atoms: smaller entries are left out, of atoms that sum to 1; and more of them where rows
# would have more entries than MOST_ENTRIES on average.
THIN, MOST_ENTRIES = 1e-4, 200
SHORT = 0.5  # exponent of which the series of exp is cut after the power TAYLOR, to 1e-6
TAYLOR = 6
ROWS_AT_ONCE = 500  # of a product, thinned out together


@dataclass(frozen=True, eq=False)
class SparseDictionary:
    """Atoms at the scales ``tau`` (S,) on the edges of ``candidates`` with the weights ``w``."""

    candidates: CandidateEdges
    w: Array
    tau: Array
    unit_atoms: bool = True
    n_threads: int = 1

    @property
    def n_nodes(self) -> int:
        return self.candidates.n_nodes

    @property
    def n_atoms(self) -> int:
        return self.tau.size * self.n_nodes

    @cached_property
    def layout(self) -> EdgeLayout:
        return EdgeLayout.of(self.candidates)

    @cached_property
    def L(self) -> SparseLaplacian:
        return self.layout.laplacian(self.w)

    @cached_property
    def _series(self) -> Array:
        return self._heat(self.tau)

    def _heat(self, t: Array) -> Array:
        """Coefficients (len(t), n) of ``exp(-t L)``."""
        a = self.L.a

        def functions(x: Array) -> Array:
            values: Array = np.exp(-np.outer(t, a * (1.0 + x)))
            return values

        nodes = chebyshev_nodes(degree_for(functions, SERIES_TOL))
        return np.ascontiguousarray(interpolate(functions(nodes).T).T)

    def _apply(self, X: Array, C: Array) -> list[Array]:
        """Each polynomial of ``C`` (R, n) times the rows of ``X`` (m, N)."""
        order = self.layout.order
        blocks = self.L.apply(to_blocks(X, order), C, self.n_threads)
        return [from_blocks(blocks[:, :, r], order, len(X)) for r in range(len(C))]

    def synthesis(self, h: Array) -> Array:
        """``D h = sum_s exp(-tau_s L) h_s``: sources (m, S N) to signals (m, N)."""
        sources = h.reshape(len(h), self.tau.size, self.n_nodes)
        signals = np.zeros((len(h), self.n_nodes))
        for s in range(self.tau.size):
            signals += self._apply(sources[:, s], self._series[s : s + 1])[0]
        return signals

    def correlations(self, R: Array) -> Array:
        """``D^T r``: signals (m, N) to (m, S N)."""
        return np.concatenate(self._apply(R, self._series), axis=1)

    @cached_property
    def omega(self) -> Array:
        """The norms of the atoms (S N,), or ones where atoms are raw.

        ``omega^2`` is the diagonal of ``exp(-2 tau_s L)``.
        """
        N = self.n_nodes
        if not self.unit_atoms:
            return np.ones(self.n_atoms)
        probes, C = self._probes, self._heat(2.0 * self.tau)
        square = np.empty((self.tau.size, N))
        for first in range(0, probes.n_vectors, PROBES_AT_ONCE):
            row = probes.colours - first
            mine = np.flatnonzero((row >= 0) & (row < PROBES_AT_ONCE))
            Z = np.zeros((min(PROBES_AT_ONCE, probes.n_vectors - first), N))
            Z[row[mine], mine] = probes.signs[mine]
            for s, product in enumerate(self._apply(Z, C)):
                square[s, mine] = product[row[mine], mine] * probes.signs[mine]
        # Heat that is spread evenly has the least norm; probing may miss it by its error.
        return np.sqrt(np.maximum(square, 1.0 / N)).ravel()

    @property
    def _probes(self) -> Probes:
        N = self.n_nodes
        if N <= EXACT_NODES:
            return Probes(np.arange(N), np.ones(N))
        return probing_vectors(self.candidates, self.w, DISTANCE, PROBES, np.random.default_rng(0))

    @cached_property
    def adjacency(self) -> csr_array:
        """The weights (N, N)."""
        ends, N = (self.candidates.i, self.candidates.j), self.n_nodes
        upper = csr_array((self.w, ends), shape=(N, N))
        W = csr_array(upper + upper.T)
        W.eliminate_zeros()
        return W

    @cached_property
    def short_atoms(self) -> csr_array:
        """The atoms as sparse rows (S N, N), without thin heat: an approximation.

        By the series of a short time, squared again and again: the time that this takes grows
        as the number of entries.
        """
        return csr_array(vstack([self._short_kernel(tau) for tau in self.tau]))

    def _short_kernel(self, tau: float) -> csr_array:
        W, one = self.adjacency, eye_array(self.n_nodes)
        minus_L = csr_array(W - diags_array(W.sum(axis=1)))
        n = int(np.ceil(np.log2(max(2.0 * self.L.a * tau / SHORT, 1.0))))
        step = minus_L * (tau / 2**n)
        E = csr_array(one)
        for k in range(TAYLOR, 0, -1):
            E = csr_array(one + (step / k) @ E)
        for _ in range(n):
            E = _thin_square(E)
        return E


def _thin_square(E: csr_array) -> csr_array:
    """``E @ E`` without its small entries, some rows at a time."""
    parts = []
    for first in range(0, E.shape[0], ROWS_AT_ONCE):
        part = csr_array(E[first : first + ROWS_AT_ONCE] @ E)
        least, beyond = THIN, part.nnz - MOST_ENTRIES * part.shape[0]
        if beyond > 0:
            least = max(least, float(np.partition(np.abs(part.data), beyond)[beyond]))
        part.data[np.abs(part.data) < least] = 0.0
        part.eliminate_zeros()
        parts.append(part)
    return csr_array(vstack(parts))
