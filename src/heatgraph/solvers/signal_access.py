"""The signals, wherever they are: what the solver asks of them, and the answer from memory.

The solver sees signals only through sums over them (:class:`~heatgraph.models.heat.Moments`),
and hands their codes back without looking inside.  So the signals may be elsewhere, in parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from heatgraph.graph.candidates import CandidateEdges
from heatgraph.models.heat import Dictionary, HeatObjective, Moments, Signals
from heatgraph.solvers.checkpoint_protocol import thick, thin
from heatgraph.solvers.lasso import Coding, code

__all__ = [
    "BATCH",
    "CODING_ROUNDS",
    "CODING_TOL",
    "STEPS_PER_TANGENT",
    "Ensemble",
    "LocalSignals",
    "Objective",
    "above_tangent",
    "as_sources",
    "code_signals",
    "contrasts_of",
    "discount_of",
    "energy_of",
    "ensemble_of",
    "settle_by_rounds",
    "settle_codes",
]

Array = NDArray[np.float64]

CODING_TOL = 1e-11  # duality gap of the sources, relative to each signal's energy
BATCH = 256  # signals that are coded, and summed over, together: their arrays stay in the cache
STEPS_PER_TANGENT = 2  # of the graph: to follow a tangent further costs more than a new one
CODING_ROUNDS = 200  # of reweighting, the graph held: a few signals take more than fifty
SETTLED = 1e-10  # relative change of a signal's codes in a round, at which they are found
SETTLED_SUM = 1e-9  # relative fall of the objective in a round, where all signals go on together
ROUNDS_OF_ALL = 50


class Objective(Protocol):
    """What is minimised, whatever its dictionaries and the sums over signals are made of."""

    @property
    def alpha(self) -> float: ...

    @property
    def beta(self) -> float: ...

    @property
    def candidates(self) -> CandidateEdges: ...

    @property
    def total(self) -> float: ...

    def dictionary(self, w: Array, tau: Array) -> Any: ...

    def evaluate(self, D: Any, w: Array, moments: Any) -> tuple[float, Array]:
        """The value and the gradient in the weights."""
        ...

    def value(self, D: Any, w: Array, moments: Any) -> float: ...

    def gradient_w(self, D: Any, w: Array, moments: Any) -> Array: ...

    def gradient_tau(self, D: Any, moments: Any) -> Array: ...


class Ensemble(Protocol):
    """Signals that can be coded on a dictionary.

    Codes and discounts are handles, which only the ensemble that made them understands.
    """

    @property
    def n_signals(self) -> int: ...

    def contrasts(self, candidates: CandidateEdges) -> tuple[Array, float]:
        """``sum_m (x_im - x_jm)^2`` of every candidate edge, and the energy of all signals.

        Missing entries are taken for zero.
        """
        ...

    def silence(self, n_atoms: int) -> Any:
        """Codes that are all zero: where a first coding starts."""
        ...

    def code(self, objective: Any, D: Any, start: Any, discount: Any) -> tuple[Any, Any]:
        """The sources of every signal, and the sums over them that value and gradients need."""
        ...

    def discount(self, D: Any, codes: Any, alpha: float) -> tuple[Any, float]:
        """The tangent of the logarithmic penalty at codes: its slopes, and how far it is above.

        The first multiplies the penalty of each code, the second is :func:`above_tangent`.
        """
        ...

    def moments(self, objective: Any, D: Any, codes: Any) -> Any:
        """The sums at codes, their penalty discounted by the tangent at these codes."""
        ...

    @property
    def steps_per_tangent(self) -> int:
        """How many steps of the graph a tangent of the logarithmic penalty is worth."""
        ...

    def settle(self, objective: Any, D: Any, codes: Any) -> Any:
        """From codes, those at which the logarithmic penalty is stationary, the graph held."""
        ...

    def sources(self, codes: Any, n_scales: int) -> Array:
        """The codes as the paper's (S, N, M); (S, N, 0) where they stay elsewhere."""
        ...

    def pack(self, codes: Any) -> dict[str, NDArray[Any]]:
        """Codes as arrays that a file can hold."""
        ...

    def unpack(self, arrays: Mapping[str, NDArray[Any]], n_atoms: int) -> Any:
        """What :meth:`pack` took apart."""
        ...


def ensemble_of(signals: Signals | Ensemble, n_threads: int = 1) -> Ensemble:
    """Signals in memory, or whatever else answers for them."""
    return LocalSignals(signals, n_threads) if isinstance(signals, Signals) else signals


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
    gram: Array | None = None,
    positive: bool = False,
) -> Coding:
    """The sources of signals on a dictionary, one row (S N,) per signal; observed entries only.

    ``discount`` (M, S N) multiplies the penalty of each code.  ``positive`` sources are >= 0.
    """
    if Xhat is None:
        Xhat = (signals.X.T @ D.kernel.U).T
    masked = signals.observed is not None
    return code(
        D.kernel.gram(D.tau) if gram is None else gram,
        D.correlations(Xhat).T,
        alpha * D.omega.ravel() * (1.0 if discount is None else discount),
        signals.energy,
        np.zeros((signals.X.shape[1], D.n_atoms)) if start is None else start,
        tol=tol,
        D=D.kernel.atoms(D.tau) if masked else None,
        observed=np.ascontiguousarray(signals.observed.T) if signals.observed is not None else None,
        n_threads=n_threads,
        positive=positive,
    )


def settle_codes(
    D: Dictionary,
    signals: Signals,
    alpha: float,
    start: Coding,
    *,
    tol: float = CODING_TOL,
    n_threads: int = 1,
    positive: bool = False,
    n_rounds: int = CODING_ROUNDS,
) -> Coding:
    """Find the codes of each signal again under its own tangent, until they stay what they are.

    They are then stationary for the logarithmic penalty.
    """
    h, value, gap = start.h.copy(), start.value.copy(), start.gap.copy()
    open_ = np.arange(len(h))
    for _ in range(n_rounds):
        if not open_.size:
            break
        before = h[open_]
        coding = code_signals(
            D,
            signals if open_.size == len(h) else signals.take(open_),
            alpha,
            start=before,
            tol=tol,
            n_threads=n_threads,
            discount=discount_of(np.abs(before) * D.omega.ravel(), alpha),
            positive=positive,
        )
        h[open_], value[open_], gap[open_] = coding.h, coding.value, coding.gap
        moved = np.abs(coding.h - before).max(axis=1, initial=0.0)
        open_ = open_[moved > SETTLED * np.abs(coding.h).max(axis=1, initial=0.0)]
    return Coding(h, value, gap)


def settle_by_rounds(ensemble: Ensemble, objective: Any, D: Any, codes: Any) -> Any:
    """As :func:`settle_codes`, for codes that only their ensemble understands."""
    last = np.inf
    for _ in range(ROUNDS_OF_ALL):
        discount, above = ensemble.discount(D, codes, objective.alpha)
        codes, moments = ensemble.code(objective, D, codes, discount)
        value = moments.fit + objective.alpha * float(np.vdot(D.omega, moments.c)) + above
        if last - value <= SETTLED_SUM * abs(value):
            break
        last = value
    return codes


def as_sources(codes: Array, n_scales: int) -> Array:
    """Rows (M, S N) seen as the paper's (S, N, M)."""
    M, K = codes.shape
    return codes.reshape(M, n_scales, K // n_scales).transpose(1, 2, 0)


def discount_of(u: Array, alpha: float) -> Array:
    """``1 / (1 + u / e)``: the slope of the logarithmic penalty relative to that of l1."""
    return alpha / (alpha + u) if alpha > 0.0 else np.ones_like(u)


def above_tangent(u: Array, alpha: float) -> float:
    """The constant by which the tangent at ``u`` passes above the tangent's own l1 term.

    ``sum alpha (e log(1 + u / e) - discount u)``, with ``e = alpha``.
    """
    if alpha == 0.0:
        return 0.0
    return alpha * float(np.sum(alpha * np.log1p(u / alpha) - discount_of(u, alpha) * u))


def energy_of(signals: Signals) -> float:
    """The squared norm of all signals."""
    return float(signals.energy.sum())


def contrasts_of(gram: Array, candidates: CandidateEdges) -> tuple[Array, float]:
    """The squared distances between nodes and the energy, from the products of their rows."""
    return np.maximum(candidates.adjoint(gram), 0.0), float(np.trace(gram))


def _sizes(D: Dictionary, codes: Array) -> Array:
    """``u`` (M, S N): each atom's share of each signal."""
    return np.abs(codes) * D.omega.ravel()


@dataclass(frozen=True, eq=False)
class LocalSignals:
    """Signals in memory; codes and discounts are arrays (M, S N), one row per signal.

    With ``positive`` the codes are >= 0.
    """

    signals: Signals
    n_threads: int = 1
    positive: bool = False
    steps_per_tangent: ClassVar[int] = STEPS_PER_TANGENT

    @property
    def n_signals(self) -> int:
        return int(self.signals.X.shape[1])

    def contrasts(self, candidates: CandidateEdges) -> tuple[Array, float]:
        X = self.signals.X
        return contrasts_of(X @ X.T, candidates)

    def silence(self, n_atoms: int) -> Array:
        return np.zeros((self.n_signals, n_atoms))

    def code(
        self, objective: HeatObjective, D: Dictionary, start: Array, discount: Array | None
    ) -> tuple[Array, Moments]:
        gram = D.kernel.gram(D.tau)
        codes = []

        def moments() -> Iterator[Moments]:
            for some, rows in self.batches():
                slopes = None if discount is None else discount[rows]
                h, sums = some.code_batch(objective, D, start[rows], slopes, gram)
                codes.append(h)
                yield sums

        total = reduce(add, moments())
        return codes[0] if len(codes) == 1 else np.concatenate(codes), total

    def batches(self) -> Iterator[tuple[LocalSignals, slice]]:
        """The signals, some at a time, and which rows of the codes are theirs."""
        M = self.n_signals
        if M <= BATCH:
            yield self, slice(None)
            return
        for first in range(0, M, BATCH):
            some = slice(first, min(first + BATCH, M))
            yield replace(self, signals=self.signals.take(some)), some

    def code_batch(
        self,
        objective: HeatObjective,
        D: Dictionary,
        start: Array,
        discount: Array | None,
        gram: Array,
    ) -> tuple[Array, Moments]:
        """The sources of all signals at once, and their sums."""
        Xhat = (self.signals.X.T @ D.kernel.U).T
        coding = code_signals(
            D,
            self.signals,
            objective.alpha,
            start=start,
            n_threads=self.n_threads,
            Xhat=Xhat,
            discount=discount,
            gram=gram,
            positive=self.positive,
        )
        return coding.h, self.sums(objective, D, coding.h, discount, Xhat)

    def sums(
        self,
        objective: HeatObjective,
        D: Dictionary,
        codes: Array,
        discount: Array | None,
        Xhat: Array | None = None,
    ) -> Moments:
        """The moments at codes, the penalty of each discounted."""
        if Xhat is None:
            Xhat = (self.signals.X.T @ D.kernel.U).T
        H = as_sources(codes, D.tau.size)
        slopes = None if discount is None else as_sources(discount, D.tau.size)
        return objective.moments(D, self.signals, H, Xhat, slopes)

    def discount(self, D: Dictionary, codes: Array, alpha: float) -> tuple[Array, float]:
        u = _sizes(D, codes)
        return discount_of(u, alpha), above_tangent(u, alpha)

    def moments(self, objective: HeatObjective, D: Dictionary, codes: Array) -> Moments:
        def moments() -> Iterator[Moments]:
            for some, rows in self.batches():
                discount = discount_of(_sizes(D, codes[rows]), objective.alpha)
                yield some.sums(objective, D, codes[rows], discount)

        return reduce(add, moments())

    def settle(self, objective: HeatObjective, D: Dictionary, codes: Array) -> Array:
        return np.concatenate(
            [some.settle_batch(objective, D, codes[rows]) for some, rows in self.batches()]
        )

    def settle_batch(self, objective: HeatObjective, D: Dictionary, codes: Array) -> Array:
        """The stationary codes of all signals at once."""
        nothing = np.zeros(len(codes))
        how: dict[str, Any] = {"n_threads": self.n_threads, "positive": self.positive}
        start = Coding(codes, nothing, nothing)
        return settle_codes(D, self.signals, objective.alpha, start, **how).h

    def sources(self, codes: Array, n_scales: int) -> Array:
        return as_sources(codes, n_scales)

    def pack(self, codes: Array) -> dict[str, NDArray[Any]]:
        return thin(codes)

    def unpack(self, arrays: Mapping[str, NDArray[Any]], n_atoms: int) -> Array:
        return thick(arrays, (self.n_signals, n_atoms))
