"""Fits of heat from Gaussian sources to large graphs: weights and spectrum in turn.

1. Signals are divided into some to fit and a contiguous part that is held out.
2. Weights are fitted to the former with the noise held; then the noise, a stretch of all weights
   and the variance of the sources to the latter, which three numbers cannot fit too well.
   Again, for as long as the held-out signals become likelier.  Then the same from the edges of a
   fit with the penalty of stage 4 in place of the first start, as long as that is better.
3. On all signals, the weights with that noise.
4. The same with a penalty of five standard errors, which says what is an edge: about what chance
   reaches once among the pairs of some thousand nodes.  Its prior may be around other weights, to
   choose by the fit of stage 3.

The noise must not be fitted together with the weights: where noise is large, weights that are too
light explain it as heat that hardly spread.  It is the same for all nodes, so that stage 2 on a
compact part of a larger graph finds it; :meth:`LargeFitter.follow` takes it from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import Bounds, minimize

from heatgraph.arrays import Array
from heatgraph.kernels.probing import Probes, probing_vectors
from heatgraph.kernels.sparse_laplacian import EdgeLayout
from heatgraph.kernels.spectral import Kernel
from heatgraph.models.gaussian import HEAT, LogPenalty
from heatgraph.models.gaussian_large import (
    LargeGaussianHeat,
    LargePoint,
    SignalBlocks,
    StartPrior,
    fit_spectrum,
)
from heatgraph.solvers.result import Progress, Status

Report = Callable[[Progress], None]

PRIOR_SPREAD = 0.5  # of the mean weight of the start
PREDICT_PENALTY, EDGE_PENALTY = 1.0, 5.0  # standard errors
ROUNDS = 12  # of weights and spectrum in turn, at the most
RESTARTS = 5  # from the edges found, at the most
GAIN = 1e-2  # nats per node and signal: held-out signals must become likelier by this to go on
ROUND_ITER = 12  # iterations on the weights in one round: the next round changes their optimum
FOLLOW_ITER = 24  # the same where no rounds follow
PER_SIGNAL = 0.5  # nats per node, over the number of signals: smaller falls are sampling error
LOOSEST = 0.01  # nats per node: however few the signals are
VECTORS = 200  # probing vectors, about: their error is then below that of a few hundred signals
CHOICE_VECTORS = 100  # the same while the noise is chosen: a quarter of the sampling error
SERIES_TOL = 1e-4  # slopes are then wrong by less than a hundredth of their sampling error
DISTANCE = 6  # of nodes with the same colour, in edges: if possible, more than this
WEAK = 0.1  # of the median weight: lighter edges do not count as edges for the colours
FLAT = 0.05  # of the median information: an edge with less is given this much
MEMORY = 20  # pairs of L-BFGS
FIRST_NOISE = 0.1  # of the mean variance, where nothing is known of it yet
# Of signals and probing vectors: slopes are then wrong by 1e-4 of their sampling error.
PRECISION = np.float32
FURTHEST = 2.0  # how far a logarithm may move in the step that the residual is made of


@dataclass(frozen=True, eq=False)
class LargeFit:
    """The end of one minimisation."""

    point: LargePoint
    status: Status
    residual: float
    history: tuple[float, ...]

    @property
    def x(self) -> Array:
        return self.point.x


@dataclass(frozen=True, eq=False)
class Identified:
    """The start that a prior is around, a point with its noise, the held-out objectives."""

    start: Array
    x: Array
    values: tuple[float, ...] = ()
    is_stopped: bool = False
    n_restarts: int = 0  # from the edges found, that made the held-out signals likelier

    @property
    def least(self) -> float:
        return min(self.values, default=np.inf)


@dataclass(frozen=True, eq=False)
class LargeResult:
    """The fit that predicts, and the one that says what is an edge."""

    fit: LargeFit
    edges: LargeFit
    status: Status

    @classmethod
    def interrupted(cls, point: LargePoint) -> LargeResult:
        """A point as it is, where the user stopped before anything was fitted to all signals."""
        fit = LargeFit(point, Status.INTERRUPTED, float("nan"), (point.value,))
        return cls(fit, fit, Status.INTERRUPTED)


# The point that the prior of stage 4 is around, and its spread, from the fit of stage 3.
EdgePrior = Callable[[LargeFit, Identified], tuple[Array, float]]


@dataclass(frozen=True, eq=False)
class LargeFitter:
    """What every stage shares.  ``tol`` is in nats per node, as in the dense fit."""

    layout: EdgeLayout
    n_scales: int = 1
    rho: float = 1e-3
    tol: float = 1e-5
    max_iter: int = 500
    n_threads: int = 1
    seed: int = 0
    report: Report | None = None
    kernel: Kernel = HEAT.kernel

    def start(self, w: Array, signals: SignalBlocks) -> tuple[LargeGaussianHeat, Array]:
        """From weights of any unit: the stretch, the sources and the noise that fit best."""
        problem = self._problem(w, signals, CHOICE_VECTORS)
        log_v = np.log(signals.mean_variance / self.n_scales)
        ratios = np.log(0.5) * np.arange(self.n_scales - 1, 0, -1)
        noise = np.log(FIRST_NOISE * signals.mean_variance)
        x = np.concatenate([w, np.full(self.n_scales, log_v), ratios, [noise]])
        return problem, fit_spectrum(problem, x)[0]

    def identify(self, w: Array, train: SignalBlocks, held_out: SignalBlocks) -> Identified:
        """Stages 1 and 2, anew from the edges found as long as the held-out signals gain by it.

        Where the nearest rows are not the neighbours (hubs), the first start ends in a poor
        minimum, and the prior holds it there.  Ctrl-C ends the search with the best so far.
        """
        best = self._rounds(w, train, held_out)
        for _ in range(RESTARTS):
            if best.is_stopped:
                break
            problem = self._problem(best.x[: self.layout.candidates.n_edges], train, CHOICE_VECTORS)
            edges = self.minimise(problem, best.x, best.start, EDGE_PENALTY, ROUND_ITER)
            stopped = edges.status is Status.INTERRUPTED
            again = best
            if not stopped:
                again = self._rounds(edges.point.w, train, held_out, best.least)
            values = (*best.values, *again.values)
            if stopped or again.is_stopped or again.least > best.least - GAIN:
                return replace(best, values=values, is_stopped=stopped or again.is_stopped)
            best = replace(again, values=values, n_restarts=best.n_restarts + 1)
        return best

    def follow(
        self, part: Identified, stretch: float, w: Array, signals: SignalBlocks
    ) -> Identified:
        """What was identified on a part of the graph, on all of it, without anything held out.

        The spectrum is that of the part; weights are stretched as they were there; the start comes
        from edges found as often as it did there.
        """
        spectrum = part.x[-2 * self.n_scales :]
        start = x = np.concatenate([stretch * w, spectrum])
        for _ in range(part.n_restarts):
            problem = self._problem(x[: w.size], signals, CHOICE_VECTORS)
            edges = self.minimise(problem, x, start, EDGE_PENALTY, FOLLOW_ITER)
            if edges.status is Status.INTERRUPTED:
                return Identified(start, edges.x, part.values, is_stopped=True)
            x = np.concatenate([edges.point.w, spectrum])
            start = x
        # The information at the start says little of that at the end: steps in its units are short.
        problem = self._problem(x[: w.size], signals, CHOICE_VECTORS)
        fit = self.minimise(problem, x, start, PREDICT_PENALTY, ROUND_ITER)
        x = np.concatenate([fit.point.w, spectrum])
        stopped = fit.status is Status.INTERRUPTED
        return replace(part, start=start, x=x, is_stopped=stopped)

    def _rounds(
        self, w: Array, train: SignalBlocks, held_out: SignalBlocks, beaten: float = np.inf
    ) -> Identified:
        """Weights and spectrum in turn, from one start, which has to beat a value at once."""
        problem, start = self.start(w, train)
        best, x, values = Identified(start, start), start, []
        try:
            for _ in range(ROUNDS):
                fit = self.minimise(problem, x, start, PREDICT_PENALTY, ROUND_ITER)
                if fit.status is Status.INTERRUPTED:
                    raise KeyboardInterrupt
                problem = replace(problem, probes=self._probes(fit.point.w, CHOICE_VECTORS))
                x, value = fit_spectrum(replace(problem, signals=held_out, rho=0.0), fit.x)
                start = _stretched_like(start, fit.x, x, problem.n_edges)
                values.append(value / self.layout.n_nodes)
                earlier = min(values[:-1], default=np.inf)
                if values[-1] < earlier:
                    best = Identified(start, x)
                if values[-1] > min(earlier, beaten) - GAIN:
                    break
        except KeyboardInterrupt:
            return replace(best, values=tuple(values), is_stopped=True)
        return replace(best, values=tuple(values))

    def finish(
        self, found: Identified, signals: SignalBlocks, edge_prior: EdgePrior | None = None
    ) -> LargeResult:
        """Stages 3 and 4, on all signals, with the noise that was identified."""
        start, x = found.start, found.x
        w = x[: self.layout.candidates.n_edges]
        problem = self._problem(w, signals)
        if found.is_stopped:
            return LargeResult.interrupted(problem.at(x))
        fit = self.minimise(problem, x, start, PREDICT_PENALTY, self.max_iter)
        if fit.status is Status.INTERRUPTED:
            return LargeResult(fit, fit, fit.status)
        spread = PRIOR_SPREAD
        try:
            if edge_prior is not None:
                start, spread = edge_prior(fit, found)
            edges = self.minimise(problem, fit.x, start, EDGE_PENALTY, self.max_iter, spread)
        except KeyboardInterrupt:
            return LargeResult(fit, fit, Status.INTERRUPTED)
        if edges.status is Status.INTERRUPTED:
            return LargeResult(fit, fit, edges.status)
        status = edges.status if fit.status is Status.CONVERGED else fit.status
        return LargeResult(fit, edges, status)

    def relaxed(self, signals: SignalBlocks, x: Array) -> LargeFit:
        """The likeliest weights of all candidates, without prior and penalty."""
        problem = self._problem(x[: self.layout.candidates.n_edges], signals)
        return _Descent(self, problem, x, _information(problem.at(x)), self.max_iter).run()

    def _problem(
        self, w: Array, signals: SignalBlocks, n_vectors: int = VECTORS
    ) -> LargeGaussianHeat:
        return LargeGaussianHeat(
            self.layout,
            signals,
            self._probes(w, n_vectors),
            self.n_scales,
            self.rho,
            (),
            self.n_threads,
            PRECISION,
            self.kernel,
            SERIES_TOL,
        )

    def _probes(self, w: Array, n_vectors: int) -> Probes:
        """About so many, for the edges that are not weak."""
        positive = w[w > 0.0]
        strong = w * (w > WEAK * np.median(positive)) if positive.size else w
        rng = np.random.default_rng(self.seed)
        return probing_vectors(self.layout.candidates, strong, DISTANCE, n_vectors, rng)

    def minimise(
        self,
        problem: LargeGaussianHeat,
        x: Array,
        start: Array,
        c: float,
        max_iter: int,
        spread: float = PRIOR_SPREAD,
    ) -> LargeFit:
        """L-BFGS with bounds, in units of the standard errors; the noise is held.

        With the prior around ``start``, with ``spread`` times its mean weight as the standard
        deviation, and a penalty of ``c`` standard errors at ``x``.
        """
        M, w = problem.signals.n_signals, start[: problem.n_edges]
        information = _information(problem.at(x))
        typical = float(w[w > 0.0].mean())
        se = np.sqrt(2.0 / (M * information))
        terms = (StartPrior(w, spread * typical, M), LogPenalty(c, se, M))
        return _Descent(self, replace(problem, penalties=terms), x, information, max_iter).run()


def _information(point: LargePoint) -> Array:
    """Of the weights, (E,); those that are known best set a floor for the others."""
    information = point.diagonal[: point.problem.n_edges]
    return np.maximum(information, FLAT * float(np.median(information)))


def _stretched_like(start: Array, before: Array, after: Array, n_edges: int) -> Array:
    """The start, stretched as the weights were."""
    total = float(before[:n_edges].sum())
    stretch = float(after[:n_edges].sum()) / total if total > 0.0 else 1.0
    moved = start.copy()
    moved[:n_edges] *= stretch
    return moved


class _Descent:
    """One run of scipy's L-BFGS-B, which calls back with points and is stopped by the residual."""

    def __init__(
        self,
        fitter: LargeFitter,
        problem: LargeGaussianHeat,
        x: Array,
        information: Array,
        max_iter: int,
    ) -> None:
        self.fitter, self.problem, self.max_iter = fitter, problem, max_iter
        N = fitter.layout.n_nodes
        self.tol = max(fitter.tol, min(LOOSEST, PER_SIGNAL / problem.signals.n_signals))
        self.latest = self.best = problem.at(x)
        # About the information of a logarithm of a variance.
        others = np.full(x.size - problem.n_edges, float(N))
        self.diagonal = np.concatenate([information, others])
        self.unit = 1.0 / np.sqrt(self.diagonal)
        self.history = [self.latest.value]
        self.residual = self._promised_fall(self.latest)

    def run(self) -> LargeFit:
        E = self.problem.n_edges
        lower = np.full(self.unit.size, -np.inf)
        upper = np.full(self.unit.size, np.inf)
        y = self.best.x / self.unit
        lower[:E] = 0.0
        upper[E + self.problem.n_scales : -1] = 0.0
        lower[-1] = upper[-1] = y[-1]
        try:
            self._report()
            if self.residual > self.tol:
                minimize(
                    self._evaluate,
                    y,
                    jac=True,
                    method="L-BFGS-B",
                    bounds=Bounds(lower, upper),
                    callback=self._after,
                    options={"maxiter": self.max_iter, "maxcor": MEMORY, "ftol": 0.0, "gtol": 0.0},
                )
        except KeyboardInterrupt:
            return self._result(Status.INTERRUPTED)
        if self.residual <= self.tol:
            return self._result(Status.CONVERGED)
        at_limit = len(self.history) > self.max_iter
        return self._result(Status.MAX_ITER if at_limit else Status.STALLED)

    def _result(self, status: Status) -> LargeFit:
        return LargeFit(self.best, status, self.residual, tuple(self.history))

    def _evaluate(self, y: Array) -> tuple[float, Array]:
        """Not per node: the first step of L-BFGS-B is no longer than the gradient.

        In these units the Hessian is about the identity, so that this is far enough.  A far shorter
        step sees nothing but the concave penalty, and the next one is as short.
        """
        x = y * self.unit
        if not np.allclose(x, self.latest.x, rtol=1e-12, atol=0.0):  # the start is known
            self.latest = self.problem.at(x)
        return self.latest.value, self.latest.gradient * self.unit

    def _after(self, intermediate_result: Any) -> None:
        """After an accepted step: scipy evaluates it last."""
        x = intermediate_result.x * self.unit
        point = self.latest if np.array_equal(self.latest.x, x) else self.problem.at(x)
        self.best, self.residual = point, self._promised_fall(point)
        self.history.append(point.value)
        self._report()
        if self.residual <= self.tol:
            raise StopIteration

    def _promised_fall(self, point: LargePoint) -> float:
        """Of a step scaled by the information, per node; the noise does not move."""
        g, E = point.gradient.copy(), self.problem.n_edges
        g[-1] = 0.0
        step = np.clip(-g / self.diagonal, -FURTHEST, FURTHEST)
        step[:E] = np.maximum(step[:E], -point.x[:E])
        ratios = slice(E + self.problem.n_scales, -1)  # logarithms, at most 0
        step[ratios] = np.minimum(step[ratios], -point.x[ratios])
        return -float(g @ step) / self.fitter.layout.n_nodes

    def _report(self) -> None:
        if self.fitter.report is not None:
            n = int((self.best.w > 0.0).sum())
            self.fitter.report(
                Progress(len(self.history) - 1, self.max_iter, self.history[-1], n, self.residual)
            )
