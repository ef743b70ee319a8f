"""The default solver of LearnHeat: exact codes inside, a quasi-Newton method on the graph outside.

For a graph and scales ``(w, tau)`` the sources are the solution of a lasso, so that the problem
becomes one in ``phi(w, tau) = min_H F(w, H, tau)`` alone, whose gradient is that of ``F`` at the
minimising sources.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heatgraph.objective.heat import Dictionary, HeatObjective, Signals
from heatgraph.objective.simplex import ValidSet
from heatgraph.solvers.coding import Coding, code
from heatgraph.solvers.quasi_newton import Evaluation, State, minimise
from heatgraph.solvers.result import Monitor, Progress, Solution

__all__ = ["CODING_TOL", "code_signals", "solve_heat"]

Array = NDArray[np.float64]

CODING_TOL = 1e-11  # duality gap of the sources, relative to each signal's energy
MEAN_DEGREE = 1.0  # of a Laplacian of trace N: how far a first step may move one weight


def code_signals(
    D: Dictionary,
    signals: Signals,
    alpha: float,
    *,
    start: Array | None = None,
    tol: float = CODING_TOL,
    n_threads: int = 1,
    Xhat: Array | None = None,
    discount: Array | None = None,
) -> Coding:
    """The sources of signals on a dictionary, a row (S N,) a signal; the observed entries only.

    ``discount`` (M, S N) multiplies the penalty of each code.
    """
    if Xhat is None:
        Xhat = D.kernel.U.T @ signals.X
    masked = signals.observed is not None
    return code(
        D.kernel.gram(D.tau),
        D.correlations(Xhat).T,
        alpha * D.omega.ravel() * (1.0 if discount is None else discount),
        signals.energy,
        np.zeros((signals.X.shape[1], D.n_atoms)) if start is None else start,
        tol=tol,
        D=D.kernel.atoms(D.tau) if masked else None,
        observed=np.ascontiguousarray(signals.observed.T) if signals.observed is not None else None,
        n_threads=n_threads,
    )


def as_sources(codes: Array, n_scales: int) -> Array:
    """Rows (M, S N) seen as the paper's (S, N, M)."""
    M, K = codes.shape
    return codes.reshape(M, n_scales, K // n_scales).transpose(1, 2, 0)


@dataclass(frozen=True, eq=False)
class _Reduced:
    """``phi`` as a function of ``x = (w, tau)``, or of ``w`` alone where the scales are held."""

    objective: HeatObjective
    signals: Signals
    tau: Array
    learn_scales: bool
    n_threads: int
    discount: Array | None

    def split(self, x: Array) -> tuple[Array, Array]:
        n = self.objective.candidates.n_edges
        return x[:n], (x[n:] if self.learn_scales else self.tau)

    def __call__(self, x: Array, codes: Array) -> Evaluation[Array]:
        w, tau = self.split(x)
        D = self.objective.dictionary(w, tau)
        Xhat = D.kernel.U.T @ self.signals.X
        coding = code_signals(
            D,
            self.signals,
            self.objective.alpha,
            start=codes,
            n_threads=self.n_threads,
            Xhat=Xhat,
            discount=self.discount,
        )
        H = as_sources(coding.h, tau.size)
        discount = None if self.discount is None else as_sources(self.discount, tau.size)
        moments = self.objective.moments(D, self.signals, H, Xhat, discount)
        gradient = self.objective.gradient_w(D, w, moments)
        if self.learn_scales:
            gradient = np.append(gradient, self.objective.gradient_tau(D, moments))
        return Evaluation(self.objective.value(D, w, moments), gradient, coding.h)


def solve_heat(
    objective: HeatObjective,
    signals: Signals,
    w: Array,
    tau: Array,
    *,
    learn_scales: bool,
    max_iter: int,
    tol: float,
    codes: Array | None = None,
    monitor: Monitor | None = None,
    n_threads: int = 1,
    discount: Array | None = None,
) -> Solution:
    """Minimise the objective of LearnHeat from the weights ``w`` and the scales ``tau``."""
    M = signals.X.shape[1]
    n = objective.candidates.n_edges
    reduced = _Reduced(objective, signals, tau, learn_scales, n_threads, discount)
    if codes is None:
        codes = np.zeros((M, tau.size * objective.candidates.n_nodes))
    state, status = minimise(
        reduced,
        ValidSet(n, objective.total),
        np.concatenate([w, tau]) if learn_scales else w,
        codes,
        max_iter=max_iter,
        tol=tol,
        reach=MEAN_DEGREE,
        report=None if monitor is None else _reporter(monitor, n, max_iter),
    )
    w, tau = reduced.split(state.x)
    return Solution(
        w=w.copy(),
        H=as_sources(state.at.aux, tau.size),
        tau=tau.copy(),
        objective=np.array(state.history),
        status=status,
        n_iter=state.n_iter,
        residual=state.residual,
    )


def _reporter(monitor: Monitor, n: int, max_iter: int) -> Callable[[State[Array]], None]:
    def report(state: State[Array]) -> None:
        monitor(
            Progress(
                iteration=state.n_iter,
                max_iter=max_iter,
                objective=state.history[-1],
                n_edges=int(np.count_nonzero(state.x[:n])),
                residual=state.residual,
            )
        )

    return report
