"""The likelihood of what was observed of signals with missing entries, and its gradient.

With ``C_oo`` the part of the covariance between the nodes that were observed of a signal,

    phi = (1 - rho) mean_m [log det C_oo + (x_o - u_o)^T C_oo^-1 (x_o - u_o)]
          + rho [log det C + t tr C^-1] + penalty,

the likelihood shrunk towards a covariance ``t I``.  Without gaps and with ``t = tr(S) / N`` it is
the objective of :class:`~heatgraph.models.gaussian.GaussianHeat` at the shrunk second moment.  The
level ``u`` is the best one for each covariance, a weighted mean, so that it has no slope.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from heatgraph.arrays import Array, Ints
from heatgraph.models.gaussian import GaussianHeat, GaussianPoint, InformationProducts
from heatgraph.models.moments import gap_patterns


@dataclass(frozen=True, eq=False)
class Pattern:
    """The signals of which the same nodes were observed: ``x`` (signals, seen)."""

    seen: Ints
    x: Array


@dataclass(frozen=True, eq=False)
class ObservedHeat:
    """``phi`` of signals (M, N) with gaps, NaN.

    ``heat`` has the candidate edges, the penalty and the bounds; its moment is not looked at.
    ``level`` (N,) is ``u``, and where it is fitted what nodes that were never observed keep.
    """

    heat: GaussianHeat
    X: Array
    rho: float
    target: float
    level: Array
    fit_intercept: bool = True

    @cached_property
    def patterns(self) -> list[Pattern]:
        """One for each set of nodes that was observed together."""
        patterns = gap_patterns(self.X)
        return [Pattern(o, self.X[np.ix_(rows, o)]) for rows, _, o in patterns if o.size]

    @cached_property
    def shares(self) -> Array:
        """How much of the information of complete signals each parameter has, about.

        Of a weight, the share of the signals in which both nodes were observed; of the other
        parameters, the share of the entries.
        """
        observed = (~np.isnan(self.X)).astype(np.float64)
        together = observed.T @ observed / len(observed)
        pairs = self.heat.candidates
        others = np.full(self.heat.n_parameters - pairs.n_edges, observed.mean())
        found = np.concatenate([together[pairs.i, pairs.j], others])
        return (1.0 - self.rho) * found + self.rho

    def at(self, x: Array) -> ObservedPoint:
        """Everything that is needed at a point, computed when it is asked for."""
        return ObservedPoint(self, self.heat.at(x))


@dataclass(frozen=True, eq=False)
class ObservedPoint:
    """Value, gradient and about the information of an :class:`ObservedHeat` at one point."""

    problem: ObservedHeat
    heat: GaussianPoint

    @property
    def x(self) -> Array:
        return self.heat.x

    @cached_property
    def _solved(self) -> list[tuple[Pattern, Array, float]]:
        """For each pattern ``C_oo^-1`` and ``log det C_oo``."""
        C, found = self.heat.covariance, []
        for pattern in self.problem.patterns:
            factor = cho_factor(C[np.ix_(pattern.seen, pattern.seen)], lower=True)
            inverse = cho_solve(factor, np.eye(pattern.seen.size))
            found.append((pattern, inverse, 2.0 * float(np.log(np.diag(factor[0])).sum())))
        return found

    @cached_property
    def level(self) -> Array:
        """The ``u`` (N,) at which the observed entries are the likeliest."""
        problem = self.problem
        if not problem.fit_intercept:
            return problem.level
        N = problem.level.size
        pull, hold, ever = np.zeros(N), np.zeros((N, N)), np.zeros(N, dtype=bool)
        for pattern, inverse, _ in self._solved:
            hold[np.ix_(pattern.seen, pattern.seen)] += len(pattern.x) * inverse
            pull[pattern.seen] += inverse @ (pattern.x - problem.level[pattern.seen]).sum(axis=0)
            ever[pattern.seen] = True
        u = problem.level.copy()
        u[ever] += np.linalg.solve(hold[np.ix_(ever, ever)], pull[ever])
        return u

    def _residuals(self) -> Iterator[tuple[Pattern, Array, float, Array]]:
        for pattern, inverse, log_det in self._solved:
            yield pattern, inverse, log_det, pattern.x - self.level[pattern.seen]

    @cached_property
    def value(self) -> float:
        heat, rho = self.heat, self.problem.rho
        seen = 0.0
        for _, inverse, log_det, r in self._residuals():
            seen += len(r) * log_det + float(np.einsum("mi,ij,mj->", r, inverse, r, optimize=True))
        prior = float(np.log(heat.f).sum() + self.problem.target * (1.0 / heat.f).sum())
        penalty = heat.problem.penalty
        added = 0.0 if penalty is None else penalty.value(heat.w)
        return (1.0 - rho) * seen / len(self.problem.X) + rho * prior + added

    @cached_property
    def gradient(self) -> Array:
        heat, rho = self.heat, self.problem.rho
        G = np.zeros((heat.f.size, heat.f.size))
        for pattern, inverse, _, r in self._residuals():
            white = r @ inverse
            G[np.ix_(pattern.seen, pattern.seen)] += len(r) * inverse - white.T @ white
        K = (1.0 - rho) / len(self.problem.X) * (heat.U.T @ G @ heat.U)
        K[np.diag_indices_from(K)] += rho * (1.0 - self.problem.target / heat.f) / heat.f
        slopes = heat.slopes(K)
        penalty = heat.problem.penalty
        if penalty is not None:
            slopes[: heat.problem.n_edges] += penalty.slope(heat.w)
        return slopes

    @property
    def diagonal(self) -> Array:
        """Of the information, about: that of complete signals, as far as there were any."""
        return self.problem.shares * self.heat.diagonal

    def information(self, d: Array) -> Array:
        """The information, about, times ``d``."""
        root = np.sqrt(self.problem.shares)
        return root * self.heat.information(root * d)

    def information_between(self, some: Ints) -> Array | InformationProducts:
        """The same between some parameters: a matrix, or what multiplies as one does."""
        whole = self.heat.information_between(some)
        if isinstance(whole, InformationProducts):
            return InformationProducts(self.information, self.x.size, some)
        root = np.sqrt(self.problem.shares[some])
        return whole * np.outer(root, root)
