"""Sparse coding on a large graph, where there is no Gram matrix of all atoms.

For every signal ``x``: minimise ``||x - D h||^2 + sum_j a_j |h_j|`` over ``h``, or over ``h >= 0``,
on the entries of ``x`` that were observed.  `LargeLasso` repeats:

1. The residual ``r = x - D h`` and the correlations ``q = D^T r``, by Chebyshev series, of all
   signals at once.  They give the duality gap.  A signal whose gap is small is done.
2. For every other signal the lasso on a few atoms: those in use, and those whose correlation
   exceeds its bound and those of their neighbours.  Its Gram matrix is that of atoms without thin
   heat, its gradient at ``h`` that of the whole problem.
3. Towards its solution, as far as the objective falls.

The logarithmic penalty is the same with the bounds of
its tangent at ``h``, taken anew in every turn.  A signal is stationary where its gap vanishes at
the tangent of its own sources.

The dictionary is so coherent that accelerated proximal steps, which need no Gram matrix, take
about a thousand turns where this takes twenty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, vstack

from heatgraph.arrays import Array, Ints, Mask
from heatgraph.models.heat import PENALTIES, Signals
from heatgraph.models.sparse_heat import SparseDictionary
from heatgraph.solvers.driver import Record
from heatgraph.solvers.engine import code

TURNS = 100  # at the most
AT_ONCE = 32  # signals
INNER_TOL = 0.1  # of the tolerance: gap of the lasso on a few atoms
SHARES = (1.0, 0.5, 0.25, 0.1, 0.03)  # of the way to the solution on a few atoms
WITHIN = 1e-9  # of a bound: what exceeds it by less is within


@dataclass(frozen=True, eq=False)
class SparseCoding:
    """Sources as sparse rows (M, S N), and the value and the duality gap of each signal.

    Under the logarithmic penalty the value is that of this penalty, and the gap that of its
    tangent.
    """

    h: csr_array
    value: Array
    gap: Array

    def record(self) -> Record:
        """For a checkpoint."""
        parts = {"data": "<f8", "indices": "<i8", "indptr": "<i8"}
        arrays = {name: getattr(self.h, name).astype(dtype) for name, dtype in parts.items()}
        return Record({}, {**arrays, "value": self.value, "gap": self.gap})

    @classmethod
    def of(cls, record: Record, n_atoms: int) -> SparseCoding:
        a = record.arrays
        shape = (a["gap"].size, n_atoms)
        h = csr_array((a["data"], a["indices"], a["indptr"]), shape=shape)
        h.check_format(full_check=True)
        return cls(h, a["value"], a["gap"])


@dataclass(frozen=True, eq=False)
class LargeLasso:
    """How sources are found on a dictionary.

    ``tol`` is the duality gap over the energy of a signal, ``penalty`` "l1" or "log".
    """

    D: SparseDictionary
    alpha: float
    penalty: str = "log"
    positive: bool = False
    tol: float = 1e-4

    def code(self, signals: Signals) -> SparseCoding:
        """The sources of signals, from none at all."""
        return joined(list(self.batches(signals)))

    def batches(self, signals: Signals) -> Iterator[SparseCoding]:
        """The same, for some signals after the others."""
        for first in range(0, signals.X.shape[1], AT_ONCE):
            yield _Batch(self, signals.take(slice(first, first + AT_ONCE))).run()


def joined(parts: Sequence[SparseCoding]) -> SparseCoding:
    """Some signals after the others."""
    return SparseCoding(
        csr_array(vstack([part.h for part in parts])),
        np.concatenate([part.value for part in parts]),
        np.concatenate([part.gap for part in parts]),
    )


def silent(signals: Signals, n_atoms: int) -> SparseCoding:
    """No sources at all."""
    h = csr_array((signals.X.shape[1], n_atoms))
    return SparseCoding(h, signals.energy, signals.energy)


class _Batch:
    """Some signals, with their sources ``h``, residuals ``r`` and correlations ``q``, as rows."""

    def __init__(self, problem: LargeLasso, signals: Signals) -> None:
        self.problem, self.D = problem, problem.D
        self.x = np.ascontiguousarray(signals.X.T)
        self.observed = None if signals.observed is None else signals.observed.T
        self.energy = np.einsum("mn,mn->m", self.x, self.x)
        self.h = np.zeros((len(self.x), self.D.n_atoms))
        self.r, self.q = self.x.copy(), self.D.correlations(self.x)
        self.is_log = False
        self.value, self.gap = self.energy.copy(), np.zeros(len(self.x))

    def run(self) -> SparseCoding:
        self._descend()
        if self.problem.penalty == "log" and self.problem.alpha > 0.0:
            # From the sources of the l1 penalty: which stationary point is found depends on it.
            self.is_log = True
            self._descend()
        return SparseCoding(csr_array(self.h), self.value, self.gap)

    def _descend(self) -> None:
        open_ = np.flatnonzero(self.energy > 0.0)
        for _ in range(TURNS):
            self._measure(open_)
            open_ = open_[self.gap[open_] > self.problem.tol * self.energy[open_]]
            if not open_.size:
                return
            open_ = self._move(open_)
        self._measure(open_)

    def _bounds(self, some: Ints) -> Array:
        """``a`` (len(some), S N): of the l1 penalty, or of the tangent of the logarithmic one."""
        alpha, omega = self.problem.alpha, self.D.omega
        if self.is_log:
            penalty = PENALTIES[self.problem.penalty]
            return alpha * omega * penalty.slope(omega * np.abs(self.h[some]), alpha)
        return np.tile(alpha * omega, (some.size, 1))

    def _measure(self, some: Ints) -> None:
        """Value and duality gap of signals.

        The dual point is the residual, shortened until no correlation exceeds its bound.
        """
        a, h, q, r = self._bounds(some), self.h[some], self.q[some], self.r[some]
        pull = q if self.problem.positive else np.abs(q)
        most = np.maximum(2.0 * pull, a)
        shares = np.divide(a, most, out=np.ones_like(a), where=most > 0.0)
        theta = shares.min(axis=1)
        rr, rx = np.einsum("mn,mn->m", r, r), np.einsum("mn,mn->m", r, self.x[some])
        primal = rr + np.einsum("mk,mk->m", a, np.abs(h))
        self.gap[some] = np.maximum(primal - theta * (2.0 * rx - theta * rr), 0.0)
        self.value[some] = primal
        if self.is_log:
            alpha = self.problem.alpha
            u = self.D.omega * np.abs(h)
            self.value[some] = rr + PENALTIES[self.problem.penalty].value(u, alpha).sum(axis=1)

    def _move(self, open_: Ints) -> Ints:
        """One turn of signals; those that no step lowers are left out of what is returned."""
        a, r, q, h = self._bounds(open_), self.r[open_], self.q[open_], self.h[open_]
        target = np.zeros_like(h)
        for k, atoms in enumerate(self._working_sets(q, a, h)):
            seen = None if self.observed is None else self.observed[open_[k]]
            found = self._on_few(atoms, a[k, atoms], q[k, atoms], h[k, atoms], r[k], seen)
            target[k, atoms] = found
        residual = self.x[open_] - self.D.synthesis(target)
        if self.observed is not None:
            residual *= self.observed[open_]
        dh, dr, dq = target - h, residual - r, self.D.correlations(residual) - q
        before, share = _values(r, h, a), np.zeros((open_.size, 1))
        for t in SHARES:
            lower = _values(r + t * dr, h + t * dh, a) < before
            share[lower & (share[:, 0] == 0.0)] = t
            if share.all():
                break
        self.h[open_], self.r[open_], self.q[open_] = h + share * dh, r + share * dr, q + share * dq
        return open_[share[:, 0] > 0.0]

    def _working_sets(self, q: Array, a: Array, h: Array) -> list[Ints]:
        """Atoms in use, and those whose correlation exceeds its bound by the most around."""
        S, N = self.D.tau.size, self.D.n_nodes
        excess = (q if self.problem.positive else np.abs(q)) - (0.5 + WITHIN) * a
        excess[h != 0.0] = 0.0
        most = np.maximum(excess, 0.0).reshape(len(q), S, N).max(axis=1)
        around = _largest_around(self.D.adjacency, most)
        peaks = np.tile((most > 0.0) & (most >= around), (1, S)) & (excess > 0.0)
        return [np.flatnonzero(row) for row in peaks | (h != 0.0)]

    def _on_few(
        self,
        atoms: Ints,
        a: Array,
        q: Array,
        h: Array,
        r: Array,
        observed: Mask | None,
    ) -> Array:
        """The lasso on some atoms whose gradient at ``h`` is the exact one."""
        short = self.D.short_atoms[atoms]
        if observed is not None:
            short.data *= observed[short.indices]
        G = (short @ short.T).toarray()
        # Of the signal r + D h, whose correlations are q + G h.
        explained = G @ h
        energy = float(r @ r + 2.0 * (q @ h) + h @ explained)
        coding = code(
            G,
            (q + explained)[None],
            a,
            np.array([max(energy, 0.0)]),
            h[None],
            tol=INNER_TOL * self.problem.tol,
            positive=self.problem.positive,
        )
        return coding.h[0]


def _values(r: Array, h: Array, a: Array) -> Array:
    """``||r||^2 + sum_j a_j |h_j|`` of each row."""
    return np.einsum("mn,mn->m", r, r) + np.einsum("mk,mk->m", a, np.abs(h))


def _largest_around(W: csr_array, values: Array) -> Array:
    """Of rows (m, N), the largest value among the neighbours of each node; 0 where it has none."""
    around = np.zeros_like(values)
    linked = np.flatnonzero(np.diff(W.indptr))
    if linked.size:
        there = values[:, W.indices]
        around[:, linked] = np.maximum.reduceat(there, W.indptr[linked], axis=1)
    return around
