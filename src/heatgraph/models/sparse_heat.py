"""Heat on a large graph without an array of all pairs: its operator and its dictionary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array, diags_array, eye_array, vstack
from scipy.sparse.linalg import LinearOperator

from heatgraph.arrays import Array, Mask
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels.probing import Probes, probing_vectors
from heatgraph.kernels.series import chebyshev_nodes, degree_for, interpolate
from heatgraph.kernels.sparse_laplacian import EdgeLayout, SparseLaplacian, from_blocks, to_blocks
from heatgraph.kernels.spectral import HeatKernel, Kernel
from heatgraph.models.gaussian import HEAT, HeatSpectrum

Spectral = Callable[[Array], Array]

SERIES_TOL = 1e-9  # of the largest value of a function
SOLVE_TOL = 1e-8  # of the first residual of conjugate gradients
SOLVE_ITER = 1000  # steps of conjugate gradients, at the most
AT_ONCE = 64  # signals whose systems are solved together
# For log-determinants and standard deviations: as far apart, in edges, as so many vectors allow.
PROBE_DISTANCE, MOST_PROBES = 30, 256


@dataclass(frozen=True, eq=False)
class _WeightedEdges:
    """The edges of ``candidates`` with the weights ``w``."""

    candidates: CandidateEdges
    w: Array

    @cached_property
    def layout(self) -> EdgeLayout:
        return EdgeLayout.of(self.candidates)

    @cached_property
    def L(self) -> SparseLaplacian:
        return self.layout.laplacian(self.w)


@dataclass(frozen=True, eq=False)
class SparseHeat(_WeightedEdges):
    """``C = f(L)`` of a graph."""

    spectrum: HeatSpectrum
    n_threads: int = 1

    def function(self, g: Spectral, X: Array) -> Array:
        """``g(L)`` times each row of ``X`` (M, N)."""
        return self._apply(self._series(g), X)

    def _apply(self, c: Array, X: Array) -> Array:
        blocks = self.L.apply(to_blocks(X, self.layout.order), c[None], self.n_threads)
        return from_blocks(blocks[:, :, 0, :], self.layout.order, len(X))

    def _series(self, g: Spectral) -> Array:
        a = self.L.a
        size = float(np.abs(g(np.linspace(0.0, 2.0 * a, 257))).max()) or 1.0
        n = degree_for(lambda x: g(a * (1.0 + x))[None] / size, SERIES_TOL)
        return interpolate(g(a * (1.0 + chebyshev_nodes(n))))

    def covariance_times(self, X: Array) -> Array:
        return self.function(self.spectrum.values, X)

    def precision_times(self, X: Array) -> Array:
        return self._apply(self._inverse_series, X)

    @cached_property
    def _inverse_series(self) -> Array:
        return self._series(lambda lam: 1.0 / self.spectrum.values(lam))

    def root_times(self, X: Array) -> Array:
        """``C^(1/2)`` times rows: white noise becomes signals of the model."""
        return self.function(lambda lam: np.sqrt(self.spectrum.values(lam)), X)

    def sources(self, X: Array) -> Array:
        """``v_s exp(-tau_s L) C^-1 x`` of each row, (M, S, N)."""
        v, tau = self.spectrum.v, self.spectrum.tau
        sources = [self.function(_posterior(self.spectrum, v[s], tau[s]), X) for s in range(v.size)]
        return np.stack(sources, axis=1)

    def diffused(self, H: Array) -> Array:
        """``sum_s exp(-tau_s L) h_s`` of sources (M, S, N)."""
        signals = np.zeros_like(H[:, 0])
        for s, tau in enumerate(self.spectrum.tau):
            kernel = _kernel(self.spectrum, tau)
            signals += self.function(kernel, np.ascontiguousarray(H[:, s]))
        return signals

    @cached_property
    def log_determinant(self) -> float:
        """``log det C``, by probing vectors."""
        blocks = to_blocks(self._probes, self.layout.order)
        C = self._series(lambda lam: np.log(self.spectrum.values(lam)))
        return float((self.L.apply(blocks, C[None], self.n_threads)[:, :, 0, :] * blocks).sum())

    @cached_property
    def _probes(self) -> Array:
        rng = np.random.default_rng(0)
        return probing_vectors(self.candidates, self.w, PROBE_DISTANCE, MOST_PROBES, rng).Z

    def log_likelihoods(self, X: Array) -> Array:
        """``log N(x; 0, C)`` of each row."""
        forms = np.einsum("mn,mn->m", X, self.precision_times(X))
        constant = X.shape[1] * np.log(2.0 * np.pi) + self.log_determinant
        return -0.5 * (constant + forms)

    def filled(self, X: Array) -> Array:
        """Rows with their NaN replaced by the mean given the other entries.

        With ``P = C^-1``, the missing entries solve ``P_mm x_m = -P_mo x_o``.
        """
        out = X.copy()
        for first in range(0, len(X), AT_ONCE):
            some = slice(first, first + AT_ONCE)
            missing = np.isnan(X[some])
            if missing.any():
                known = np.where(missing, 0.0, X[some])
                rhs = np.where(missing, -self.precision_times(known), 0.0)
                out[some] = known + self._solve(rhs, missing)
        return out

    def drawn(self, X: Array, rng: np.random.Generator) -> Array:
        """Rows with their NaN drawn at random, given the other entries.

        With ``y`` a signal of the model, ``y`` plus the mean of ``x - y`` given its known entries.
        """
        y = self.root_times(rng.standard_normal(X.shape))
        return self.filled(X - y) + y

    def standard_deviations(self, X: Array) -> Array:
        """Of each missing entry given the others of its row; 0 where an entry was observed.

        The diagonal of ``P_mm^-1``: a system for each missing node or, where these are many, for
        each probing vector, in which nodes far apart share a system.  It is at least the noise.
        """
        std = np.zeros_like(X)
        patterns, which = np.unique(np.isnan(X), axis=0, return_inverse=True)
        for k, missing in enumerate(patterns):
            if missing.any():
                own = np.eye(missing.size)[missing] if missing.sum() <= MOST_PROBES else None
                Z = np.where(missing, self._probes, 0.0) if own is None else own
                parts = (Z[p : p + AT_ONCE] for p in range(0, len(Z), AT_ONCE))
                solved = [self._solve(part, np.tile(missing, (len(part), 1))) for part in parts]
                variance = (Z * np.concatenate(solved)).sum(axis=0)
                least = np.where(missing, self.spectrum.sigma2, 0.0)
                std[which.ravel() == k] = np.sqrt(np.maximum(variance, least))
        return std

    def _solve(self, rhs: Array, missing: Mask) -> Array:
        """Conjugate gradients on ``P_mm y = rhs``, each row with missing entries of its own."""
        # Signals of any size: rows of size one, and P in units of the variance.
        unit = self.spectrum.sigma2 + float(self.spectrum.v.sum())
        length = np.abs(rhs).max(axis=1, keepdims=True)
        y = np.zeros_like(rhs)
        r = np.divide(rhs, length, out=np.zeros_like(rhs), where=length > 0.0)
        p, size = r.copy(), np.square(r).sum(axis=1)
        target = SOLVE_TOL**2 * size
        for _ in range(SOLVE_ITER):
            if not (size > target).any():
                break
            Pp = np.where(missing, unit * self.precision_times(p), 0.0)
            bend = (p * Pp).sum(axis=1)
            step = np.divide(size, bend, out=np.zeros_like(size), where=bend > 0.0)[:, None]
            y += step * p
            r -= step * Pp
            smaller = np.square(r).sum(axis=1)
            turn = np.divide(smaller, size, out=np.zeros_like(size), where=size > 0.0)
            p = r + turn[:, None] * p
            size = smaller
        return y * length * unit


class HeatOperator(LinearOperator):
    """``C`` or its inverse as scipy's operator (N, N), which is symmetric."""

    def __init__(self, heat: SparseHeat, *, inverse: bool) -> None:
        super().__init__(np.float64, (heat.candidates.n_nodes,) * 2)
        self.heat, self.inverse = heat, inverse

    def _matmat(self, V: Array) -> Array:
        times = self.heat.precision_times if self.inverse else self.heat.covariance_times
        return times(np.ascontiguousarray(np.asarray(V, dtype=np.float64).T)).T

    def _matvec(self, v: Array) -> Array:
        return self._matmat(np.reshape(v, (-1, 1))).ravel()

    def _adjoint(self) -> HeatOperator:
        return self


def _posterior(spectrum: HeatSpectrum, v: float, tau: float) -> Spectral:
    """``v g(lam, tau) / f(lam)``."""
    g = _kernel(spectrum, tau)
    return lambda lam: v * g(lam) / spectrum.values(lam)


def _kernel(spectrum: HeatSpectrum, tau: float) -> Spectral:
    return lambda lam: spectrum.power.kernel.value(lam, tau)


ATOM_TOL = 1e-8  # error of a kernel, whose largest value is 1
# Norms of atoms: each atom on its own up to so many nodes, else by about so many probing vectors.
# Nodes that share one are as many edges apart as that number allows, at the most DISTANCE.
EXACT_NODES, PROBES, DISTANCE = 4000, 400, 12
PROBES_AT_ONCE = 128  # vectors in memory together
# Short atoms: smaller entries are left out, of atoms that sum to 1; and more of them where rows
# would have more entries than MOST_ENTRIES on average.
THIN, MOST_ENTRIES = 1e-4, 200
# The series of exp at the exponent SHORT is cut after the power TAYLOR, which leaves 1e-6.
SHORT, TAYLOR = 0.5, 6
ROWS_AT_ONCE = 500  # of a product, thinned out together


@dataclass(frozen=True, eq=False)
class SparseDictionary(_WeightedEdges):
    """Atoms at the scales ``tau`` (S,) on a graph."""

    tau: Array
    unit_atoms: bool = True
    n_threads: int = 1
    kernel: Kernel = HEAT.kernel

    @property
    def n_nodes(self) -> int:
        return self.candidates.n_nodes

    @property
    def n_atoms(self) -> int:
        return self.tau.size * self.n_nodes

    @cached_property
    def _series(self) -> Array:
        return self._coefficients(self.kernel.value)

    def _coefficients(self, g: Callable[[Array, float], Array]) -> Array:
        """Of ``g(L, tau_s)``, (S, n)."""
        a = self.L.a

        def functions(x: Array) -> Array:
            lam = a * (1.0 + x)
            return np.stack([g(lam, tau) for tau in self.tau.tolist()])

        nodes = chebyshev_nodes(degree_for(functions, ATOM_TOL))
        return np.ascontiguousarray(interpolate(functions(nodes).T).T)

    def _apply(self, X: Array, C: Array) -> list[Array]:
        """Each polynomial of ``C`` (R, n) times the rows of ``X`` (m, N)."""
        order = self.layout.order
        blocks = self.L.apply(to_blocks(X, order), C, self.n_threads)
        return [from_blocks(blocks[:, :, r], order, len(X)) for r in range(len(C))]

    def synthesis(self, h: Array) -> Array:
        """``D h = sum_s g(L, tau_s) h_s``: sources (m, S N) to signals (m, N)."""
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

        ``omega^2`` is the diagonal of ``g(L, tau_s)^2``.
        """
        N = self.n_nodes
        if not self.unit_atoms:
            return np.ones(self.n_atoms)
        probes = self._probes
        C = self._coefficients(lambda lam, tau: np.square(self.kernel.value(lam, tau)))
        square = np.empty((self.tau.size, N))
        for first in range(0, probes.n_vectors, PROBES_AT_ONCE):
            row = probes.colours - first
            mine = np.flatnonzero((row >= 0) & (row < PROBES_AT_ONCE))
            Z = np.zeros((min(PROBES_AT_ONCE, probes.n_vectors - first), N))
            Z[row[mine], mine] = probes.signs[mine]
            for s, product in enumerate(self._apply(Z, C)):
                square[s, mine] = product[row[mine], mine] * probes.signs[mine]
        # What is spread evenly has the least norm; probing may miss it by its error.
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
        """The atoms as sparse rows (S N, N), without small entries: an approximation."""
        if isinstance(self.kernel, HeatKernel):
            return csr_array(vstack([self._short_heat(tau) for tau in self.tau]))
        parts: list[list[csr_array]] = [[] for _ in self.tau]
        for first in range(0, self.n_nodes, ROWS_AT_ONCE):
            some = np.eye(min(ROWS_AT_ONCE, self.n_nodes - first), self.n_nodes, first)
            for own, atoms in zip(parts, self._apply(some, self._series), strict=True):
                own.append(_thinned(csr_array(atoms)))
        return csr_array(vstack([part for own in parts for part in own]))

    def _short_heat(self, tau: float) -> csr_array:
        """By the series of a short time, squared again and again.

        The time that this takes grows as the number of entries.
        """
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
        parts.append(_thinned(csr_array(E[first : first + ROWS_AT_ONCE] @ E)))
    return csr_array(vstack(parts))


def _thinned(rows: csr_array) -> csr_array:
    """Some rows, in place, without their small entries."""
    least, beyond = THIN, rows.nnz - MOST_ENTRIES * rows.shape[0]
    if beyond > 0:
        least = max(least, float(np.partition(np.abs(rows.data), beyond)[beyond]))
    rows.data[np.abs(rows.data) < least] = 0.0
    rows.eliminate_zeros()
    return rows
