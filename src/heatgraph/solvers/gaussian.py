"""Fits of heat from Gaussian sources to a second moment, in stages.

1. The maximum of the likelihood, from a start in closed form.
2. The same with a penalty on the weights, in units of their standard errors at 1.
3. Without the penalty again, on the edges that 2 kept: unbiased, for standard errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heatgraph.arrays import Array
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels.spectral import KERNELS, Kernel, times_before_zero
from heatgraph.models.gaussian import (
    HEAT,
    NOISE_FLOOR,
    GaussianHeat,
    GaussianPoint,
    LogPenalty,
    mean_variance,
)
from heatgraph.models.observed import ObservedHeat
from heatgraph.solvers.projected_newton import NewtonState, P, minimise_box
from heatgraph.solvers.result import Status

Report = Callable[[NewtonState[Any]], None]

START_SHRINKAGE = (1e-3, 0.1)  # of the moment whose logarithm is taken: least, and without signals
START_NOISE = 0.9  # of the smallest eigenvalue of that moment
SCALE_RATIO = 0.5  # of one scale to the next larger, at the start
RESTART_NOISE = 0.1  # of the mean variance: a second start for the noise, from above
LOW_NOISE = 1e-3  # of the mean variance: a start for the noise from below
RESTART_RATIO = 0.2  # of one scale to the next larger: a start for scales, once edges are chosen
FLAT = 1e-8  # of the largest information: an edge with less is given this much
ROUNDS = 2  # of the penalised fit: with standard errors of the start, and with its own
BETTER = 1e-6  # nats per node: a second start must win by this


def shrunk(S: Array, rho: float) -> Array:
    """``(1 - rho) S + rho tr(S)/N I``."""
    moment: Array = (1.0 - rho) * S
    moment[np.diag_indices_from(moment)] += rho * mean_variance(S)
    return moment


@dataclass(frozen=True, eq=False)
class GaussianFit:
    """The end of a fit: the point, how it ended, and the objective on the way."""

    point: GaussianPoint
    status: Status
    residual: float
    history: tuple[float, ...]

    @property
    def x(self) -> Array:
        return self.point.x

    @property
    def n_iter(self) -> int:
        return max(len(self.history) - 1, 0)


@dataclass(frozen=True, eq=False)
class GaussianFitter:
    """What every stage shares: where edges may be, the number of scales, when to stop.

    ``tol`` is in nats per node: the fall of ``phi`` that a step still promises, over N.
    """

    candidates: CandidateEdges
    n_scales: int = 1
    tol: float = 1e-5
    max_iter: int = 500
    report: Report | None = None
    kernel: Kernel = HEAT.kernel

    def with_kernel(self, name: str) -> GaussianFitter:
        """The same with the kernel of a name; with its own where there is none."""
        return replace(self, kernel=KERNELS[name]) if name else self

    def start(self, S: Array, n_signals: float) -> Array:
        """Weights from the logarithm of the moment, from which most of the noise is taken.

        ``C - sigma2 I = v exp(-2 L)``, so ``L = (log v I - log(C - sigma2 I)) / 2``: off the
        diagonal the weights are half the entries of the logarithm, and ``log v`` is the mean of
        its row sums.  A start with less noise has lighter weights and often ends in a worse
        optimum, without noise.  Other kernels than heat start from the same weights, but where a
        kernel has a zero its own inverse takes the place of the logarithm: steps do not cross it.
        """
        N = len(S)
        least, most = START_SHRINKAGE
        lam, U = np.linalg.eigh(shrunk(S, max(least, most * N / (N + n_signals))))
        noise = START_NOISE * max(float(lam[0]), NOISE_FLOOR * mean_variance(S))
        lam = np.maximum(lam - noise, (1.0 - START_NOISE) * noise)
        logarithm = (U * np.log(lam)) @ U.T
        log_v = float(logarithm.sum()) / N
        times = times_before_zero(self.kernel, np.sqrt(lam / np.exp(log_v)))
        if times is not None:
            logarithm = -2.0 * (U * times) @ U.T
        w = np.maximum(0.5 * logarithm[self.candidates.i, self.candidates.j], 0.0)
        variances = np.full(self.n_scales, log_v - np.log(self.n_scales))
        ratios = np.log(SCALE_RATIO) * np.arange(self.n_scales - 1, 0, -1)
        return np.concatenate([w, variances, ratios, [np.log(noise)]])

    def at(self, S: Array, x: Array) -> GaussianFit:
        """A point as it is, to start from; nothing is said of whether it is a good one."""
        point = self._problem(S).at(x)
        return GaussianFit(point, Status.MAX_ITER, float("nan"), ())

    def likeliest(self, S: Array, x: Array) -> GaussianFit:
        """Stage 1, from ``x``."""
        return self._minimise(self._problem(S), x)

    def from_low_noise(self, fit: GaussianFit) -> GaussianFit:
        """The better of a fit and of one that goes on from it with little noise.

        Noise explains what light weights explain too: the likelihood often has two optima, and
        the start in closed form may lead to the one with more noise.
        """
        problem = fit.point.problem
        low = float(np.log(LOW_NOISE * mean_variance(problem.S)))
        if fit.status is Status.INTERRUPTED or fit.x[-1] <= low:
            return fit
        on_edges = replace(self, candidates=problem.candidates)
        other = on_edges.likeliest(problem.S, _with_noise(fit.x, low))
        if other.point.value < fit.point.value - BETTER * len(problem.S):
            return other
        return replace(fit, status=other.status) if other.status is Status.INTERRUPTED else fit

    def sparse(self, S: Array, n_signals: float, c: float, start: GaussianFit) -> GaussianFit:
        """Stage 2: a weight enters where it is ``c`` standard errors from zero.

        Standard errors are those at the start, then those at what was found with them.
        """
        fit = start
        for _ in range(ROUNDS):
            information = fit.point.diagonal[: self.candidates.n_edges]
            information = np.maximum(information, FLAT * information.max(initial=0.0))
            penalty = LogPenalty(c, np.sqrt(2.0 / (n_signals * information)), n_signals)
            fit = self._minimise(self._problem(S, penalty), fit.x)
            if fit.status is Status.INTERRUPTED:
                break
        return fit

    def relaxed(self, S: Array, sparse: GaussianFit) -> GaussianFit:
        """Stage 3: on the edges that were kept, from several starts.

        The noise starts from where it is and from above.  Scales start apart too: with every pair
        a candidate, weights between nodes further apart do what a second scale does, and the fit
        ends with equal scales.  Equal scales are stationary on any edges, so that a fit does not
        leave them by itself.
        """
        keep = np.flatnonzero(sparse.point.w > 0.0)
        fitter = replace(self, candidates=self.candidates.some(keep))
        x = np.concatenate([sparse.x[keep], sparse.x[self.candidates.n_edges :]])
        starts = [x, _with_noise(x, np.log(RESTART_NOISE * mean_variance(S)))]
        if self.n_scales > 1:
            starts.append(_with_scales_apart(x, keep.size, self.n_scales))
        best: GaussianFit | None = None
        for start in starts:
            fit = fitter.likeliest(S, start)
            if best is None or fit.point.value < best.point.value - BETTER * len(S):
                best = fit
            if fit.status is Status.INTERRUPTED:
                return replace(best, status=Status.INTERRUPTED)
        assert best is not None
        return self.from_low_noise(best)

    def observed(self, problem: ObservedHeat, fit: GaussianFit) -> tuple[GaussianFit, Array]:
        """Go on from a fit with the likelihood of what was observed; the level, too."""
        state, status = self._newton(problem.at, problem.heat, fit.x)
        found = GaussianFit(state.point.heat, status, state.residual, state.history)
        return found, state.point.level

    def _problem(self, S: Array, penalty: LogPenalty | None = None) -> GaussianHeat:
        return GaussianHeat(self.candidates, S, self.n_scales, penalty, self.kernel)

    def _minimise(self, problem: GaussianHeat, x: Array) -> GaussianFit:
        state, status = self._newton(problem.at, problem, x)
        return GaussianFit(state.point, status, state.residual, state.history)

    def _newton(
        self, at: Callable[[Array], P], problem: GaussianHeat, x: Array
    ) -> tuple[NewtonState[P], Status]:
        return minimise_box(
            at,
            problem.bounds,
            x,
            tol=self.tol,
            max_iter=self.max_iter,
            unit=self.candidates.n_nodes,
            report=self.report,
        )


def _with_noise(x: Array, log_sigma2: float) -> Array:
    moved = x.copy()
    moved[-1] = log_sigma2
    return moved


def _with_scales_apart(x: Array, n_edges: int, n_scales: int) -> Array:
    """The same mean scale and the same heat, with scales in constant ratios."""
    moved = x.copy()
    ratios = RESTART_RATIO ** np.arange(n_scales - 1, 0, -1)
    tau = np.append(np.exp(x[n_edges + n_scales : -1]), 1.0)
    moved[:n_edges] *= tau.mean() / np.append(ratios, 1.0).mean()
    v = np.exp(x[n_edges : n_edges + n_scales])
    moved[n_edges : n_edges + n_scales] = np.log(v.mean())
    moved[n_edges + n_scales : -1] = np.log(ratios)
    return moved
