"""The objective of LearnHeat with no array of all pairs: the same value, the same gradients.

Atoms are columns of the heat kernel, sparse, found a patch of neighbouring nodes at a time.  The
fit and the norms of the atoms are functions of these columns, so that one derivative of the columns
in the edge weights gives the whole gradient, whatever the number of signals.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import local
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from heatgraph.graph.candidates import CandidateEdges
from heatgraph.kernels.chebyshev import Operator, Polynomial, heat_polynomial
from heatgraph.kernels.lanes import aligned, lanes
from heatgraph.kernels.layout import Layout
from heatgraph.kernels.patches import columns_gradient, columns_of, columns_size, gradient_size
from heatgraph.kernels.pool import in_groups, run_threads
from heatgraph.kernels.reach import PATCHES, Patches, follow, lend, make_patches
from heatgraph.models.heat import spread

__all__ = [
    "Codes",
    "SparseAtoms",
    "SparseDictionary",
    "SparseMoments",
    "SparseObjective",
]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Block = NDArray[Any]

FEW_NODES = 1000  # up to here both engines take the same steps
REGION = 32  # nodes
MOST_ROWS = 1500  # that are looked at from one patch, the hottest
PRICED_ROWS = 4000  # the same where every pair is to be priced, which needs nearly all heat

_compiled = numba.njit(cache=True, nogil=True, fastmath=False)


class Codes(NamedTuple):
    """Those of signal ``m`` are ``what[indptr[m]:indptr[m + 1]]``, at the atoms ``where[...]``.

    An atom is ``node * S + s``, nodes in the order of the layout.
    """

    indptr: Ints
    where: Ints
    what: Array

    @property
    def signal(self) -> Ints:
        return np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr))


class SparseAtoms(NamedTuple):
    """Atom ``k`` is ``values[indptr[k]:indptr[k + 1]]`` at the nodes ``rows[...]``."""

    indptr: Ints
    rows: NDArray[np.int32]
    values: Block


@dataclass(frozen=True, eq=False)
class SparseDictionary:
    """Everything that depends on the graph and the scales but not on the signals.

    Nodes are in the order of the layout.  ``omega`` (S, N).
    """

    operator: Operator
    narrow: Operator
    tau: Array
    heat: Polynomial
    patches: Patches
    atoms: SparseAtoms
    omega: Array

    @property
    def n_atoms(self) -> int:
        return self.omega.size

    @property
    def threshold(self) -> float:
        """What is left out of an atom is below about this."""
        return float(self.patches.threshold.max())

    @property
    def lost(self) -> float:
        """The share of heat that is left out of atoms, in the mean over those of the worst scale.

        The columns of the kernel sum to one.
        """
        kept = np.add.reduceat(self.atoms.values, self.atoms.indptr[:-1], dtype=np.float64)
        return float(np.max(1.0 - kept.reshape(-1, self.tau.size).mean(axis=0)))


@dataclass(frozen=True, eq=False)
class SparseMoments:
    """Sums over signals: the fit, ``c`` (S, N) the sum of ``|H_s|``, and what depends on them.

    ``gradient`` (E,) and ``slopes`` (S,) are those of fit and sparsity together, in the weights
    and in the scales.
    """

    fit: float
    c: Array
    gradient: Array
    slopes: Array


class _Workspace(local):
    """Memory that a thread keeps from one group of patches to the next."""

    def __init__(self) -> None:
        self.lent: Block = np.empty(0)

    def take(self, size: int, N: int, dtype: Any) -> tuple[Block, NDArray[np.int32]]:
        """Numbers to work on, and -1 for every node."""
        if self.lent.size < size or self.lent.dtype != dtype:
            self.lent = aligned(size, dtype)
        return self.lent, np.full(N, -1, np.int32)


_workspace = _Workspace()


@dataclass(frozen=True, eq=False)
class SparseObjective:
    """``||X - sum_s E_s H_s||^2 + alpha sum omega_si |H_sim| + beta ||L||_F^2``, matrix-free.

    ``tol`` bounds the error of the polynomials, ``reach`` the entries that are left out of an atom
    (none where it is 0), ``most_rows`` how many a patch may have; ``dtype`` is the precision of the
    atoms, not that of sums over them.
    """

    layout: Layout
    alpha: float
    beta: float
    unit_atoms: bool
    tol: float = 1e-8
    dtype: Any = np.float64
    n_threads: int = 1
    reach: float = 0.0
    most_rows: int | None = None

    @property
    def candidates(self) -> CandidateEdges:
        return self.layout.candidates

    @property
    def total(self) -> float:
        """The sum of the weights that gives ``tr L = N``."""
        return 0.5 * self.layout.n_nodes

    @property
    def dear(self) -> bool:
        return self.layout.n_nodes > FEW_NODES

    @property
    def _width(self) -> int:
        """Nodes of a patch, at most: their columns are found at once."""
        return lanes(np.dtype(self.dtype))

    def dictionary(self, w: Array, tau: Array) -> SparseDictionary:
        N, S = self.layout.n_nodes, tau.size
        operator = self.layout.operator(w)
        narrow = operator._replace(
            values=operator.values.astype(self.dtype),
            diagonal=operator.diagonal.astype(self.dtype),
        )
        heat = heat_polynomial(tau, 1.0 / operator.inverse, self.tol)
        patches = self._patches(narrow, tau)
        atoms = self._atoms(narrow, patches, heat.c.astype(self.dtype))
        omega = np.ones((S, N))
        if self.unit_atoms:
            size = _norms(atoms)
            omega = np.ascontiguousarray(np.maximum(size, self.tol).reshape(N, S).T)
        return SparseDictionary(operator, narrow, tau, heat, patches, atoms, omega)

    def _patches(self, operator: Operator, tau: Array) -> Patches:
        N = self.layout.n_nodes
        weights = -operator.values / operator.inverse
        number = make_patches(operator.indptr, operator.indices, weights, self._width)
        nodes = np.argsort(number, kind="stable").astype(np.int64)
        sizes = np.bincount(number)
        starts = np.append(0, np.cumsum(sizes))
        # Those numbered one after the other are near each other.
        region = np.arange(sizes.size) * self._width // REGION
        if self.reach == 0.0:
            rows, indptr = np.tile(np.arange(N), sizes.size), N * np.arange(sizes.size + 1)
            return Patches(nodes, starts, rows, indptr, np.zeros(sizes.size), region)
        how = float(tau.min()), float(tau.max()), self.reach, self.most_rows or MOST_ROWS
        together = in_groups(sizes.size, PATCHES)

        def followed(which: Ints) -> tuple[Ints, Ints, Array]:
            memory = lend(N, self.dtype)
            return follow(operator, nodes, starts, which, *how, self.layout.both, memory)

        parts = run_threads(followed, together, self.n_threads)
        first = np.concatenate(together)
        by = _ranges(first, np.minimum(PATCHES, sizes.size - first))
        return Patches(
            nodes[_ranges(starts[by], sizes[by])],
            np.append(0, np.cumsum(sizes[by])),
            np.concatenate([rows for _, rows, _ in parts]),
            np.append(0, np.cumsum(np.concatenate([np.diff(part[0]) for part in parts]))),
            np.concatenate([kept for _, _, kept in parts]),
            region[by],
        )

    def _atoms(self, narrow: Operator, patches: Patches, c: Block) -> SparseAtoms:
        N, S = self.layout.n_nodes, c.shape[1]
        size = columns_size(int(np.diff(patches.indptr).max()), S, self.dtype)
        groups = in_groups(patches.n_patches)

        def columns(which: Ints) -> tuple[Ints, NDArray[np.int32], Block]:
            lent, position = _workspace.take(size, N, self.dtype)
            return columns_of(narrow, patches, which, c, self.reach, position, lent)

        found = run_threads(columns, groups, self.n_threads)
        sizes = np.diff(patches.starts)
        atoms = []
        for which in groups:
            nodes = patches.nodes[_ranges(patches.starts[which], sizes[which])]
            atoms.append((nodes[:, None] * S + np.arange(S)).ravel())
        indptr = np.zeros(N * S + 1, dtype=np.int64)
        for which, (counts, _, _) in zip(atoms, found, strict=True):
            indptr[which + 1] = counts
        np.cumsum(indptr, out=indptr)
        out = SparseAtoms(indptr, np.empty(indptr[-1], np.int32), np.empty(indptr[-1], self.dtype))
        run_threads(lambda k: _put(out, atoms[k], *found[k]), range(len(groups)), self.n_threads)
        return out

    def moments(
        self, D: SparseDictionary, R: Block, codes: Codes, absolute: Array
    ) -> SparseMoments:
        """The sums at ``codes`` whose residuals are ``R`` (M, N), zero where nothing was observed.

        ``absolute`` are the sizes of the codes, as the penalty counts them.  The columns' slopes
        are ``-2 sum_m R_m H_sim`` of the fit, and ``alpha c_si / omega_si`` times the atom itself
        of its norm.
        """
        S, N = D.omega.shape
        c: Array = np.bincount(codes.where, absolute, S * N).astype(np.float64)
        by = np.argsort(codes.where, kind="stable")
        starts = np.searchsorted(codes.where[by], np.arange(S * N + 1))
        by_atom = starts, codes.signal[by], codes.what[by]
        own = np.zeros(S * N)
        if self.unit_atoms:
            own = self.alpha * c / D.omega.T.ravel()
        coefficients = D.heat.c.astype(self.dtype)
        K = D.heat.degree

        size = gradient_size(int(np.diff(D.patches.indptr).max()), K, S, self.dtype)

        def part(which: Ints) -> tuple[Array, Array]:
            lent, position = _workspace.take(size, N, self.dtype)
            g, modes = np.zeros(self.candidates.n_edges), np.zeros((K + 1, S))
            slopes = by_atom, R, own
            graph = D.narrow, D.patches, which, D.atoms, coefficients, self.layout.both
            _gradient_of(*graph, slopes, position, lent, g, modes)
            return g, modes

        parts = run_threads(part, in_groups(D.patches.n_patches), self.n_threads)
        return SparseMoments(
            float(np.einsum("mn,mn->", R, R, dtype=np.float64)),
            c.reshape(N, S).T,
            np.sum([g for g, _ in parts], axis=0),
            np.sum(D.heat.slope * np.sum([modes for _, modes in parts], axis=0), axis=0),
        )

    def spread(self, w: Array) -> tuple[float, Array]:
        return spread(self.candidates, self.beta, w)

    def evaluate(
        self, D: SparseDictionary, w: Array, moments: SparseMoments
    ) -> tuple[float, Array]:
        """The value and the gradient in the weights."""
        spread, slopes = self.spread(w)
        slopes += moments.gradient
        return self._of_signals(D, moments) + spread, slopes

    def _of_signals(self, D: SparseDictionary, moments: SparseMoments) -> float:
        return moments.fit + self.alpha * float(np.vdot(D.omega, moments.c))

    def value(self, D: SparseDictionary, w: Array, moments: SparseMoments) -> float:
        return self._of_signals(D, moments) + self.spread(w)[0]

    def gradient_w(self, D: SparseDictionary, w: Array, moments: SparseMoments) -> Array:
        gradient: Array = moments.gradient + self.spread(w)[1]
        return gradient

    def gradient_tau(self, D: SparseDictionary, moments: SparseMoments) -> Array:
        return moments.slopes


def _ranges(starts: Ints, counts: Ints) -> Ints:
    """``[starts[0], ..., starts[0] + counts[0] - 1, starts[1], ...]``."""
    total = int(counts.sum())
    offsets = np.repeat(starts - np.append(0, np.cumsum(counts)[:-1]), counts)
    ranges: Ints = np.arange(total) + offsets
    return ranges


@_compiled
def _norms(atoms: SparseAtoms) -> Array:
    norms = np.zeros(atoms.indptr.size - 1)
    for k in range(norms.size):
        total = 0.0
        for p in range(atoms.indptr[k], atoms.indptr[k + 1]):
            total += float(atoms.values[p]) ** 2
        norms[k] = np.sqrt(total)
    return norms


@_compiled
def _put(
    atoms: SparseAtoms, which: Ints, counts: Ints, rows: NDArray[np.int32], values: Block
) -> None:
    """Some columns, one after the other, where they belong."""
    start = 0
    for k in range(which.size):
        at, stop = atoms.indptr[which[k]], start + counts[k]
        atoms.rows[at : at + counts[k]] = rows[start:stop]
        atoms.values[at : at + counts[k]] = values[start:stop]
        start = stop


@_compiled
def _gradient_of(
    A: Operator,
    patches: Patches,
    which: Ints,
    atoms: SparseAtoms,
    c: Block,
    edges: tuple[Ints, NDArray[np.int32], Ints],
    slopes: tuple[tuple[Ints, Ints, Array], Block, Array],
    position: NDArray[np.int32],
    lent: Block,
    g: Array,
    modes: Array,
) -> None:
    """Add the gradient of fit and sparsity that comes by the columns of some patches to ``g``.

    ``slopes`` are the codes by atom, what they leave of the signals, and the slopes of the atoms'
    norms.
    """
    by_atom, R, own = slopes
    S, W = c.shape[1], lanes(lent.dtype)
    for p in which:
        nodes = patches.nodes[patches.starts[p] : patches.starts[p + 1]]
        rows = patches.rows[patches.indptr[p] : patches.indptr[p + 1]]
        size = S * (rows.size + 1) * W
        P = lent[:size].reshape(S, rows.size + 1, W)
        _slopes(atoms, nodes, rows, by_atom, R, own, position, P)
        columns_gradient(A, nodes, rows, c, edges, P, position, lent[size:], g, modes)


@_compiled
def _slopes(
    atoms: SparseAtoms,
    nodes: Ints,
    rows: Ints,
    by_atom: tuple[Ints, Ints, Array],
    R: Block,
    own: Array,
    position: NDArray[np.int32],
    P: Block,
) -> None:
    """The slope of fit and sparsity in the entries of the columns of a patch, (S, rows + 1, W)."""
    starts, signal, what = by_atom
    S = P.shape[0]
    line = np.empty(rows.size)
    P[:] = 0
    for r in range(rows.size):
        position[rows[r]] = r
    for b in range(nodes.size):
        for s in range(S):
            k = nodes[b] * S + s
            line[:] = 0.0
            for p in range(atoms.indptr[k], atoms.indptr[k + 1]):
                line[position[atoms.rows[p]]] = own[k] * atoms.values[p]
            for p in range(starts[k], starts[k + 1]):
                m, h = signal[p], -2.0 * what[p]
                for r in range(rows.size):
                    line[r] += h * R[m, rows[r]]
            for r in range(rows.size):
                P[s, r, b] = line[r]
    position[rows] = -1
