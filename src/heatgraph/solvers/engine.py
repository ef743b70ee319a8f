"""The objective of LearnHeat as a function of graph and scales, wherever the signals are.

For a graph and scales ``(w, tau)`` the sources are the solution of a lasso for each signal, so that
the problem is one in ``phi(w, tau) = min_H F(w, H, tau)`` alone, whose gradient is that of ``F`` at
the minimising sources.  A solver asks an :class:`Engine` for value and gradient, and hands the
codes back without looking inside: :class:`LocalEngine` has the signals in memory, others have them
with an unknown level, or in parts on a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from heatgraph.arrays import Array, Mask
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels import native
from heatgraph.models.heat import L1, Dictionary, HeatObjective, Moments, Penalty, Signals
from heatgraph.solvers.quasi_newton import Evaluation
from heatgraph.solvers.threads import run_threads

Codes = TypeVar("Codes")
Slopes = TypeVar("Slopes")

CODING_TOL = 1e-11  # duality gap of the sources, relative to each signal's energy
BATCH = 256  # signals that are coded, and summed over, together: their arrays stay in the cache
CODING_ROUNDS = 200  # tangents of the penalty, the graph held: a few signals take more than fifty
SETTLED = 1e-10  # relative change of a signal's codes from one tangent to the next: they are found


class Engine(Protocol[Codes, Slopes]):
    """The objective of some signals; ``Codes`` and ``Slopes`` are handles that it alone reads."""

    @property
    def objective(self) -> HeatObjective: ...

    @property
    def n_signals(self) -> int: ...

    def evaluate(
        self, w: Array, tau: Array, codes: Codes, slopes: Slopes | None = None
    ) -> Evaluation[Codes]:
        """Value, gradient (E + S,) and codes at weights and scales, coding from ``codes`` on.

        Under the l1 penalty, or under the tangent of the penalty with these ``slopes``.
        """
        ...

    def tangent(self, w: Array, tau: Array, codes: Codes) -> tuple[Slopes, float]:
        """The slopes of the penalty at codes, and by how much its tangent is above l1."""
        ...

    def value(self, w: Array, tau: Array, codes: Codes) -> float:
        """The objective at codes, with the penalty itself."""
        ...

    def settle(self, w: Array, tau: Array, codes: Codes) -> Codes:
        """From codes, those at which the penalty is stationary, the graph held."""
        ...

    def contrasts(self) -> tuple[Array, float]:
        """``sum_m (x_im - x_jm)^2`` of every candidate edge, and the energy of all signals.

        Missing entries are taken for zero.
        """
        ...

    def zero_codes(self, n_atoms: int) -> Codes:
        """No sources: where a first coding starts."""
        ...

    def pack(self, codes: Codes) -> dict[str, NDArray[Any]]:
        """Codes as arrays that a file can hold."""
        ...

    def unpack(self, arrays: Mapping[str, NDArray[Any]], n_atoms: int) -> Codes:
        """What :meth:`pack` took apart."""
        ...


@dataclass(frozen=True, eq=False)
class LocalEngine:
    """Signals in memory; codes and slopes are arrays (M, S N), one row per signal.

    With ``positive`` the codes are >= 0.
    """

    objective: HeatObjective
    signals: Signals
    n_threads: int = 1
    positive: bool = False

    @property
    def n_signals(self) -> int:
        return self.signals.n_signals

    def evaluate(
        self, w: Array, tau: Array, codes: Array, slopes: Array | None = None
    ) -> Evaluation[Array]:
        D = self.objective.dictionary(w, tau)
        codes, moments = self.code(D, codes, slopes)
        return Evaluation(*self.objective.evaluate(D, w, moments), codes)

    def code(self, D: Dictionary, start: Array, slopes: Array | None) -> tuple[Array, Moments]:
        """The sources of all signals on a dictionary, and the sums over them."""
        codes, total, G = np.empty_like(start), None, D.gram
        for signals, rows in self._batches():
            some = None if slopes is None else slopes[rows]
            Xhat = signals.X.T @ D.kernel.U
            h = lasso_of(
                D,
                G,
                signals,
                self.objective.alpha,
                start[rows],
                some,
                n_threads=self.n_threads,
                positive=self.positive,
                Xhat=Xhat,
            ).h
            codes[rows] = h
            moments = self.objective.moments(D, signals, h, some, Xhat)
            total = moments if total is None else total + moments
        assert total is not None  # for the type checker: there is a signal
        return codes, total

    def tangent(self, w: Array, tau: Array, codes: Array) -> tuple[Array, float]:
        return self.objective.tangent(self.objective.dictionary(w, tau), codes)

    def value(self, w: Array, tau: Array, codes: Array) -> float:
        D, total, above = self.objective.dictionary(w, tau), None, 0.0
        for signals, rows in self._batches():
            slopes, more = self.objective.tangent(D, codes[rows])
            moments = self.objective.moments(D, signals, codes[rows], slopes)
            total, above = moments if total is None else total + moments, above + more
        assert total is not None  # for the type checker: there is a signal
        return self.objective.value(D, w, total) + above

    def settle(self, w: Array, tau: Array, codes: Array) -> Array:
        D = self.objective.dictionary(w, tau)
        how: dict[str, Any] = {"n_threads": self.n_threads, "positive": self.positive}
        f, found = self.objective, np.empty_like(codes)
        for signals, rows in self._batches():
            found[rows] = code_signals(D, signals, f.alpha, f.penalty, start=codes[rows], **how).h
        return found

    def _batches(self) -> Iterator[tuple[Signals, slice]]:
        """The signals, some at a time, and which rows of the codes are theirs."""
        M = self.signals.n_signals
        if M <= BATCH:
            yield self.signals, slice(None)
            return
        for first in range(0, M, BATCH):
            some = slice(first, min(first + BATCH, M))
            yield self.signals.take(some), some

    def contrasts(self) -> tuple[Array, float]:
        X = self.signals.X
        return contrasts_of(X @ X.T, self.objective.candidates)

    def zero_codes(self, n_atoms: int) -> Array:
        return np.zeros((self.n_signals, n_atoms))

    def pack(self, codes: Array) -> dict[str, NDArray[Any]]:
        return to_sparse(codes)

    def unpack(self, arrays: Mapping[str, NDArray[Any]], n_atoms: int) -> Array:
        return to_dense(arrays, (self.n_signals, n_atoms))


@dataclass(frozen=True)
class Coding:
    """Codes ``h`` (M, K), one row per signal, with the value and duality gap each row reached."""

    h: Array
    value: Array
    gap: Array


def code(
    G: Array,
    C: Array,
    a: Array,
    energy: Array,
    start: Array,
    *,
    tol: float,
    D: Array | None = None,
    observed: Mask | None = None,
    n_threads: int = 1,
    positive: bool = False,
) -> Coding:
    """Solve the lasso of every signal to a duality gap of ``tol`` times its energy.

    Minimise ``||x - D h||^2 + sum_j a_j |h_j|`` over ``h``, or over ``h >= 0``, on the entries of
    ``x`` that were observed.  Heat atoms are so coherent that coordinate descent and proximal steps
    crawl.  The compiled core (``src/native/lasso.hpp``) keeps the support small and independent and
    solves for the minimiser on it by Cholesky.

    Parameters
    ----------
    G : (K, K) Gram matrix ``D^T D``.
    C : (M, K) correlations ``D^T x`` of the observed entries, one row per signal.
    a : (K,) penalty of each atom, or (M, K) where it differs between signals.
    energy : (M,) squared norm of the observed entries.
    start : (M, K) codes to start from; not written to.
    tol : relative duality gap.
    D, observed : (N, K) dictionary and (M, N) mask, where entries are missing.
    n_threads : signals are independent, so any number of threads gives the same bits.
    positive : whether codes are held at ``h >= 0``; negative ones of ``start`` are taken for zero.
    """
    h = np.array(start, dtype=np.float64, order="C")
    if positive:
        np.maximum(h, 0.0, out=h)
    if observed is None:
        D, observed = np.empty((0, h.shape[1])), np.empty((len(h), 0), dtype=np.bool_)
    elif D is None:
        raise ValueError("D is needed to code signals with missing entries.")
    given = (G, C, D, a, energy)
    G, C, D, a, energy = map(partial(np.ascontiguousarray, dtype=np.float64), given)
    a = np.atleast_2d(a)
    report = np.empty((len(h), 2))

    def run(rows: slice) -> None:
        bounds = a if len(a) == 1 else a[rows]
        part = C[rows], bounds, energy[rows], tol, positive, D, observed[rows]
        native.lasso(G, *part, h[rows], report[rows])

    n_chunks = min(n_threads, len(h))
    if n_chunks <= 1:
        native.lasso(G, C, a, energy, tol, positive, D, observed, h, report)
    else:
        ends = [k * len(h) // n_chunks for k in range(n_chunks + 1)]
        run_threads(run, [slice(*both) for both in pairwise(ends)], n_chunks)
    return Coding(h, report[:, 0], report[:, 1])


def lasso_of(
    D: Dictionary,
    G: Array,
    signals: Signals,
    alpha: float,
    start: Array | None = None,
    slopes: Array | None = None,
    *,
    tol: float = CODING_TOL,
    n_threads: int = 1,
    positive: bool = False,
    Xhat: Array | None = None,
) -> Coding:
    """The lasso of each signal on a dictionary with the Gram matrix ``G``.

    ``slopes`` (M, S N) multiply its prices.
    """
    observed = signals.observed
    return code(
        G,
        D.correlations(signals.X.T @ D.kernel.U if Xhat is None else Xhat),
        alpha * D.omega.ravel() * (1.0 if slopes is None else slopes),
        signals.energy,
        np.zeros((signals.n_signals, D.decay.size)) if start is None else start,
        tol=tol,
        D=None if observed is None else D.kernel.atoms(D.tau),
        observed=None if observed is None else np.ascontiguousarray(observed.T),
        n_threads=n_threads,
        positive=positive,
    )


def code_signals(
    D: Dictionary,
    signals: Signals,
    alpha: float,
    penalty: Penalty | None = None,
    *,
    start: Array | None = None,
    tol: float = CODING_TOL,
    n_threads: int = 1,
    positive: bool = False,
    n_rounds: int = CODING_ROUNDS,
) -> Coding:
    """The sources of signals on a dictionary, one row (S N,) per signal; observed entries only.

    Under a penalty that is not l1 (the default), a lasso is solved under the tangent at the codes
    of the one before, until the codes of a signal stay what they are: they are then stationary.
    Value and gap are those of the last lasso, whose gap is at most ``tol`` times the energy of the
    signal.  It goes on from the codes ``start`` (M, S N), by default from the l1 solution, for at
    most ``n_rounds`` tangents.
    """
    penalty = L1() if penalty is None else penalty
    how: dict[str, Any] = {"tol": tol, "n_threads": n_threads, "positive": positive}

    def lasso(some: Signals, start: Array | None = None, slopes: Array | None = None) -> Coding:
        return lasso_of(D, D.gram, some, alpha, start, slopes, **how)

    if penalty.is_linear:
        return lasso(signals, start)
    nothing = np.zeros(signals.n_signals)
    first = lasso(signals) if start is None else Coding(start, nothing, nothing)
    h, value, gap = first.h.copy(), first.value.copy(), first.gap.copy()
    open_ = np.arange(len(h))
    for _ in range(n_rounds):
        if not open_.size:
            break
        before = h[open_]
        slopes = penalty.slope(np.abs(before) * D.omega.ravel(), alpha)
        some = signals if open_.size == len(h) else signals.take(open_)
        coding = lasso(some, before, slopes)
        h[open_], value[open_], gap[open_] = coding.h, coding.value, coding.gap
        moved = np.abs(coding.h - before).max(axis=1, initial=0.0)
        open_ = open_[moved > SETTLED * np.abs(coding.h).max(axis=1, initial=0.0)]
    return Coding(h, value, gap)


def contrasts_of(gram: Array, candidates: CandidateEdges) -> tuple[Array, float]:
    """The squared distances between nodes and the energy, from the products of their rows."""
    return np.maximum(candidates.adjoint(gram), 0.0), float(np.trace(gram))


def to_sparse(codes: Array) -> dict[str, NDArray[Any]]:
    """An array that is mostly zeros, as the entries that are not; every bit comes back.

    By their bits: a negative zero is kept for what it is.
    """
    flat = np.ascontiguousarray(codes).reshape(-1)
    where = np.flatnonzero(flat.view(np.int64))
    return {"where": where.astype("<i8"), "what": flat[where].astype("<f8")}


def to_dense(arrays: Mapping[str, NDArray[Any]], shape: tuple[int, ...]) -> Array:
    """The array that :func:`to_sparse` took apart."""
    flat = np.zeros(int(np.prod(shape)))
    where, what = arrays["where"], arrays["what"]
    if where.shape != what.shape or (
        where.size and not 0 <= where.min() <= where.max() < flat.size
    ):
        raise ValueError(f"its codes do not fit the shape {shape}")
    flat[where] = what
    return flat.reshape(shape)
