"""Heat from Gaussian sources on a large sparse graph: the likelihood without an array of all pairs.

The objective is that of :mod:`heatgraph.models.gaussian`,

    phi = tr log f(L) + (1 - rho) / M sum_m x_m^T f(L)^-1 x_m + rho mu tr f(L)^-1,

with ``mu`` the mean variance of the signals.  ``log f`` and ``1 / f`` are Chebyshev series.
Signals enter by quadratic forms, traces by probing vectors.  The gradient is that of these series
and vectors, so that a search along a line sees one function, to the tolerance of the series.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.optimize import minimize

from heatgraph.arrays import Array, Ints, Mask
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels.probing import Probes
from heatgraph.kernels.series import (
    QuadraticSeries,
    chebyshev_nodes,
    degree_for,
    interpolate,
    quadratic_series,
    symmetric_factors,
)
from heatgraph.kernels.sparse_laplacian import (
    EdgeLayout,
    SparseLaplacian,
    aligned,
    block_width,
    to_blocks,
)
from heatgraph.kernels.spectral import HeatKernel, Kernel
from heatgraph.models.gaussian import HEAT, LEAST_INFORMATION, HeatSpectrum, LogPenalty

SERIES_TOL = 1e-6  # relative error of the series of log f, 1 / f and their divided differences
INFORMATION_TOL = 1e-5  # of the largest factor of the information: left out
NOISE_FLOOR = 1e-4  # of the mean variance: bounds the condition of C, and so the degree of 1 / f
SPECTRUM_TERMS = 192  # of the moments that a spectrum is fitted to
STRETCHES = (-3.0, 3.5)  # logarithms of the least and the largest stretch of the weights at once
# The largest exponent 2 tau lam: heat of exp(-60) is none, and the moments still resolve it.
LARGEST_EXPONENT = 60.0
SLOW = 30.0  # as much more for kernels that fall by a power, whose series are shorter
# Where the search for a spectrum starts, too: logarithms of the stretch, and of the noise over the
# mean variance.
OTHER_STRETCHES, OTHER_NOISES = (-0.7, 0.6), (-2.0, -7.0)
SOURCES = (-12.0, 12.0)  # logarithms of the variance of the sources, over that of the signals
TRUSTED = 1e-2  # nats per node: a spectrum whose value the moments give wrong by more is refused


@dataclass(frozen=True, eq=False)
class StartPrior:
    """``sum_e ((w_e - start_e) / spread)^2 / M``: weights are normal around those of a start.

    Of ``M`` signals; with many of them the prior counts for little.
    """

    start: Array
    spread: float
    n_signals: float

    def value(self, w: Array) -> float:
        return float(np.square((w - self.start) / self.spread).sum()) / self.n_signals

    def slope(self, w: Array) -> Array:
        slope: Array = 2.0 * (w - self.start) / (self.spread**2 * self.n_signals)
        return slope


class SignalBlocks(Protocol):
    """Signals, wherever they are: their number, mean variance, and quadratic forms."""

    @property
    def n_signals(self) -> int: ...
    @property
    def mean_variance(self) -> float: ...
    def quadratic(self, L: SparseLaplacian, series: QuadraticSeries) -> tuple[Array, Array]:
        """``sum_m <x_m, T_k x_m>`` (n,) and the slope of ``sum_m x_m^T g(L) x_m`` (E,)."""
        ...


@dataclass(frozen=True, eq=False)
class BlockSignals:
    """Signals in memory, in blocks, less their location."""

    blocks: NDArray[np.floating[Any]]
    n_signals: int
    n_threads: int = 1

    @classmethod
    def of(
        cls, X: Array, layout: EdgeLayout, n_threads: int = 1, dtype: DTypeLike = np.float64
    ) -> BlockSignals:
        """Of centred signals (M, N)."""
        return cls.ordered(X, layout.order, n_threads, dtype)

    @classmethod
    def ordered(
        cls,
        X: Array,
        order: Ints,
        n_threads: int = 1,
        dtype: DTypeLike = np.float64,
    ) -> BlockSignals:
        """The same, with nodes in this order."""
        return cls(to_blocks(X, order, dtype), len(X), n_threads)

    @cached_property
    def mean_variance(self) -> float:
        total = sum(float(np.square(block, dtype=np.float64).sum()) for block in self.blocks)
        return total / float(self.n_signals * self.blocks.shape[1])

    def quadratic(self, L: SparseLaplacian, series: QuadraticSeries) -> tuple[Array, Array]:
        return L.quadratic(self.blocks, series, self.n_threads)


@dataclass(frozen=True, eq=False)
class LargeGaussianHeat:
    """The problem; a point is ``[w, log v, log r, log sigma2]`` as in the dense one."""

    layout: EdgeLayout
    signals: SignalBlocks
    probes: Probes
    n_scales: int = 1
    rho: float = 0.0
    penalties: tuple[LogPenalty | StartPrior, ...] = ()
    n_threads: int = 1
    dtype: DTypeLike = np.float64  # of the probing vectors
    kernel: Kernel = HEAT.kernel
    series_tol: float = SERIES_TOL

    @property
    def candidates(self) -> CandidateEdges:
        return self.layout.candidates

    @property
    def n_edges(self) -> int:
        return self.candidates.n_edges

    @cached_property
    def probe_blocks(self) -> NDArray[np.floating[Any]]:
        colours, W = self.probes.colours, block_width(self.dtype)
        blocks = aligned((-(-self.probes.n_vectors // W), colours.size, W), self.dtype)
        blocks[:] = 0.0
        blocks[colours // W, self.layout.place, colours % W] = self.probes.signs
        return blocks

    @property
    def noise_floor(self) -> float:
        return NOISE_FLOOR * self.signals.mean_variance

    def at(self, x: Array) -> LargePoint:
        return LargePoint(self, x)

    def moments(self, L: SparseLaplacian, n: int) -> tuple[Array, Array]:
        """``n`` Chebyshev moments of the probes and of the signals, without any slope."""
        nothing = QuadraticSeries(np.zeros(n), np.zeros((1, n)), np.ones(1))
        of_probes, _ = L.quadratic(self.probe_blocks, nothing, self.n_threads)
        return of_probes, self.signals.quadratic(L, nothing)[0]


@dataclass(frozen=True, eq=False)
class Terms:
    """``log f + rho mu / f`` for the traces and ``(1 - rho) / M / f`` for the signals, at nodes."""

    traces: Array
    forms: Array


@dataclass(frozen=True, eq=False)
class LargePoint:
    """Value, gradient and the diagonal of the Fisher information at one point."""

    problem: LargeGaussianHeat
    x: Array

    @property
    def w(self) -> Array:
        return self.x[: self.problem.n_edges]

    @cached_property
    def spectrum(self) -> HeatSpectrum:
        return HeatSpectrum.of(self.x[self.problem.n_edges :], self.problem.kernel)

    @cached_property
    def L(self) -> SparseLaplacian:
        return self.problem.layout.laplacian(self.w)

    @cached_property
    def n_terms(self) -> int:
        """Enough for ``log f`` and ``mu / f``, to a small absolute error."""
        f, a = self.spectrum.values, self.L.a
        mu = self.problem.signals.mean_variance

        def functions(x: Array) -> Array:
            values = f(a * (1.0 + x))
            return np.stack([np.log(values), mu / values])

        return degree_for(functions, self.problem.series_tol)

    @cached_property
    def lam(self) -> Array:
        """Eigenvalues at which the series interpolate."""
        return self.L.a * (1.0 + chebyshev_nodes(self.n_terms))

    @cached_property
    def f(self) -> Array:
        return self.spectrum.values(self.lam)

    @property
    def shares(self) -> tuple[float, float]:
        """What ``1 / f`` counts for in the traces, and in the forms."""
        problem = self.problem
        trace = problem.rho * problem.signals.mean_variance
        return trace, (1.0 - problem.rho) / problem.signals.n_signals

    @cached_property
    def terms(self) -> Terms:
        trace, form = self.shares
        return Terms(np.log(self.f) + trace / self.f, form / self.f)

    @cached_property
    def _moments(self) -> tuple[Array, Array, Array]:
        """Chebyshev moments of the probes and of the signals, and the slope in ``w``."""
        problem, terms = self.problem, self.terms
        tol = problem.series_tol
        traces = quadratic_series(terms.traces, np.ones_like(self.f), tol)
        forms = quadratic_series(terms.forms, self.f, tol)
        of_probes, slope = self.L.quadratic(problem.probe_blocks, traces, problem.n_threads)
        of_signals, more = problem.signals.quadratic(self.L, forms)
        return of_probes, of_signals, slope + more

    @cached_property
    def fit(self) -> float:
        """The objective without the penalty."""
        of_probes, of_signals, _ = self._moments
        return self._value_of(of_probes, of_signals)

    @property
    def fit_alone(self) -> float:
        """The same, where no slope is needed."""
        return self._value_of(*self.problem.moments(self.L, self.n_terms))

    def _value_of(self, of_probes: Array, of_signals: Array) -> float:
        terms = self.terms
        return float(interpolate(terms.traces) @ of_probes + interpolate(terms.forms) @ of_signals)

    @cached_property
    def value(self) -> float:
        return self.fit + sum(term.value(self.w) for term in self.problem.penalties)

    @cached_property
    def gradient(self) -> Array:
        of_probes, of_signals, slope = self._moments
        trace, form = self.shares
        df = self.spectrum.slopes(self.lam)
        in_traces = interpolate((df / self.f - trace * df / self.f**2).T)
        in_forms = interpolate((-form * df / self.f**2).T)
        for term in self.problem.penalties:
            slope = slope + term.slope(self.w)
        return np.concatenate([slope, of_probes @ in_traces + of_signals @ in_forms])

    @cached_property
    def information_factors(self) -> tuple[Array, Array]:
        """``q`` (R, n) and signs with ``F(x, y)^2 / (f(x) f(y)) = sum_r s_r q_r(x) q_r(y)``.

        ``F`` are the divided differences of ``f``.
        """
        f, lam = self.f, self.lam
        apart = lam[:, None] - lam[None, :]
        np.fill_diagonal(apart, 1.0)
        F = (f[:, None] - f[None, :]) / apart
        np.fill_diagonal(F, self.slope_of_f)
        J = np.square(F) / np.outer(f, f)
        return symmetric_factors(J, np.ones_like(f), INFORMATION_TOL)

    @property
    def slope_of_f(self) -> Array:
        v, tau, g = self.spectrum.v, self.spectrum.tau, self.problem.kernel
        slopes = [2.0 * g.value(self.lam, t) * g.slope(self.lam, t) for t in tau.tolist()]
        return np.asarray(v @ np.array(slopes))

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of the Fisher information ``tr(C^-1 C_e C^-1 C_f)``, by the probes.

        Of a weight ``sum_r s_r (q_r[i, i] + q_r[j, j] - 2 q_r[i, j])^2``.
        """
        of_probes, _, _ = self._moments
        signs = self.information_factors[1]
        in_w = signs @ np.square(self._factors_on_candidates())
        others = of_probes @ interpolate(np.square(self.spectrum.slopes(self.lam) / self.f).T)
        diagonal: Array = np.maximum(np.concatenate([in_w, others]), LEAST_INFORMATION)
        return diagonal

    def _factors_on_candidates(self) -> Array:
        """``K_r[i, i] + K_r[j, j] - 2 K_r[i, j]`` of ``K_r = q_r(L)`` on every candidate, (R, E).

        A few blocks of probing vectors at a time: all ``K_r Z`` would be the largest array of a
        fit.
        """
        problem, factors = self.problem, self.information_factors[0]
        place = problem.layout.place
        i, j = problem.candidates.i, problem.candidates.j
        found, own = np.zeros((len(factors), i.size)), np.zeros((len(factors), place.size))
        blocks, nodes, at_once = problem.probe_blocks, np.arange(place.size), problem.n_threads
        for first in range(0, len(blocks), at_once):
            some = slice(first, first + at_once)
            read = _ProbedRows(
                self.L.apply(blocks[some], factors, problem.n_threads), first, problem.probes, place
            )
            within = read.holds(nodes)
            own[:, within] = read.entries(nodes[within], nodes[within])
            for at, of in ((i, j), (j, i)):
                edges = np.flatnonzero(read.holds(of))
                found[:, edges] -= read.entries(at[edges], of[edges])
        return found + own[:, i] + own[:, j]


@dataclass(frozen=True, eq=False)
class _ProbedRows:
    """Entries of ``K_r`` from ``K_r Z`` (b, N, R, W) of some blocks of probing vectors."""

    rows: NDArray[np.floating[Any]]
    first: int
    probes: Probes
    place: Ints

    def holds(self, of: Ints) -> Mask:
        """Whether the columns of these nodes are among them."""
        block = self.probes.colours[of] // self.rows.shape[3] - self.first
        held: Mask = (block >= 0) & (block < len(self.rows))
        return held

    def entries(self, at: Ints, of: Ints) -> Array:
        """``K_r[at, of]``, (R, n)."""
        colours, W = self.probes.colours[of], self.rows.shape[3]
        found = self.rows[colours // W - self.first, self.place[at], :, colours % W]
        entries: Array = (found * self.probes.signs[of, None]).T
        return entries


def fit_spectrum(problem: LargeGaussianHeat, x: Array) -> tuple[Array, float]:
    """The best stretch of the weights, factor of ``v`` and noise of a point; and the objective.

    The point itself comes back where nothing better is found.  Stretching the weights moves the
    eigenvalues, not the eigenvectors, so that the moments of one pass serve every stretch.  Without
    penalties.
    """
    w, spectrum = x[: problem.n_edges], HeatSpectrum.of(x[problem.n_edges :], problem.kernel)
    L = problem.layout.laplacian(w)
    lam = L.a * (1.0 + chebyshev_nodes(SPECTRUM_TERMS))
    of_probes, of_signals = problem.moments(L, SPECTRUM_TERMS)
    # Moments as weights of the nodes: the value of a series is its values at the nodes times these.
    transform = interpolate(np.eye(SPECTRUM_TERMS))
    traces, forms = of_probes @ transform, of_signals @ transform
    mu, M = problem.signals.mean_variance, problem.signals.n_signals
    trace, form = problem.rho * mu, (1.0 - problem.rho) / M

    def stretched(y: Array) -> HeatSpectrum:
        return HeatSpectrum(
            np.exp(y[1]) * spectrum.v,
            np.exp(y[0]) * spectrum.tau,
            mu * float(np.exp(y[2])),
            spectrum.power,
        )

    widest = 4.0 * L.a * float(spectrum.tau.max())
    if not isinstance(problem.kernel, HeatKernel):
        widest /= SLOW

    def objective(y: Array) -> float:
        if widest * np.exp(y[0]) > LARGEST_EXPONENT:
            return float("inf")
        f = stretched(y).values(lam)
        return float(traces @ (np.log(f) + trace / f) + form * forms @ (1.0 / f))

    size = float(np.log(spectrum.v.sum() / mu))
    box = [STRETCHES, (SOURCES[0] - size, SOURCES[1] - size), (float(np.log(NOISE_FLOOR)), 1.0)]
    here = float(np.clip(np.log(spectrum.sigma2 / mu), *box[2]))
    middle = min(0.0, float(np.log(0.5 * LARGEST_EXPONENT / widest)))
    starts = [(middle, 0.0, here)]
    starts += [(middle + s, 0.0, n) for s in OTHER_STRETCHES for n in OTHER_NOISES]
    best = min(
        (minimize(objective, start, bounds=box, method="Nelder-Mead") for start in starts),
        key=lambda found: float(found.fun),
    )
    E, n = problem.n_edges, problem.n_scales
    moved = x.copy()
    moved[:E] *= np.exp(best.x[0])
    moved[E : E + n] += best.x[1]
    moved[-1] = np.log(mu) + best.x[2]
    value, before = problem.at(moved).fit_alone, problem.at(x).fit_alone
    if abs(value - best.fun) > TRUSTED * problem.layout.n_nodes or not value <= before:
        return x, before
    return moved, value
