"""Fits of LearnHeat by the matrix-free engine: graphs too large for an array of all pairs."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from heatgraph.graph import CandidateEdges, Graph
from heatgraph.kernels.chebyshev import WIDTH, adjoint, clenshaw
from heatgraph.kernels.layout import Layout
from heatgraph.learners.parameters import HeatParameters
from heatgraph.objective.heat import Signals
from heatgraph.objective.sparse import SparseDictionary, SparseObjective
from heatgraph.solvers.certify import Certified, price_tangent, solve_priced
from heatgraph.solvers.coding import Coding
from heatgraph.solvers.heat import solve_heat
from heatgraph.solvers.keeping import FORGETFUL, Keeper
from heatgraph.solvers.majorise import PENALTIES, ROUNDS
from heatgraph.solvers.result import Monitor, Status
from heatgraph.solvers.sparse_signals import BlockCodes, Codes, SparseSignals

__all__ = [
    "GAP",
    "LargeModel",
    "check_memory",
    "fit_large",
    "large_laplacian",
    "large_sources",
    "memory_needed",
    "start_near",
    "typical_atom",
]

Array = NDArray[np.float64]

TOLERANCE = {np.dtype(np.float64): 1e-7, np.dtype(np.float32): 1e-6}
GAP = 0.01  # relative fall of the objective that no pair may promise, for a certificate
PRICED_NODES = 30_000  # past this, all pairs are too many to look at
ROUNDS_OF_PRICING = 12
NEAREST = 8  # neighbours that carry weight at the start
ENTRIES = 50_000_000  # sources beyond this are kept sparse
TYPICAL_ROWS = 500  # that heat from one patch reaches


def fit_large(
    p: HeatParameters,
    *,
    alpha: float,
    beta: float,
    dtype: Any,
    priced: bool,
    monitor: Monitor | None = None,
    keeper: Keeper = FORGETFUL,
) -> Certified:
    """Fit with all parameters given; over all pairs where ``priced``, or else the candidates."""
    layout = Layout.of(p.candidates)
    objective = SparseObjective(
        layout,
        alpha,
        beta,
        unit_atoms=p.unit_atoms,
        tol=TOLERANCE[np.dtype(dtype)],
        dtype=dtype,
        n_threads=p.n_jobs,
    )
    if not isinstance(p.signals, Signals):
        raise ValueError('solver="sparse" needs the signals in memory.')
    ensemble = SparseSignals(layout, p.signals, dtype, p.n_jobs)
    how: dict[str, Any] = {
        "learn_scales": p.learn_scales,
        "max_iter": p.max_iter,
        "tol": p.tol,
        "monitor": monitor,
    }
    if priced:
        first = solve_priced(
            objective,
            ensemble,
            p.w,
            p.starts[0],
            gap=GAP,
            n_rounds=ROUNDS_OF_PRICING,
            keeper=keeper,
            **how,
        )
    else:
        solution = solve_heat(
            objective, ensemble, p.w, p.starts[0], keeper=keeper.within("first"), **how
        )
        first = Certified(solution, objective, ensemble, float("nan"))
    if p.penalty == "l1" or first.solution.status is Status.INTERRUPTED:
        return first
    refine, _ = PENALTIES[p.penalty]
    start = replace(first.solution, status=_plain(first.solution.status))
    solution = refine(first.objective, first.ensemble, start, keeper=keeper, **how)
    if not priced or solution.status is Status.INTERRUPTED:
        return replace(first, solution=solution, gap=float("nan"))
    # The edges were priced under the l1 penalty; the certificate is for the penalty itself.
    gap = price_tangent(first.objective, first.ensemble, solution, tol=GAP).gap
    if gap <= GAP and solution.status is Status.CONVERGED:
        solution = replace(solution, status=Status.CERTIFIED)
    return replace(first, solution=solution, gap=gap)


def _plain(status: Status) -> Status:
    return Status.CONVERGED if status is Status.CERTIFIED else status


def start_near(candidates: CandidateEdges, X: Array) -> Array:
    """Equal weights on each node's nearest candidates, nothing on the others.

    Heat on all candidates alike would be everywhere at once, and no column of its kernel short.
    """
    N = candidates.n_nodes
    rows = np.nan_to_num(X.T)
    distance = np.empty(candidates.n_edges)
    for part in np.array_split(np.arange(distance.size), max(1, distance.size // 100_000)):
        difference = rows[candidates.i[part]] - rows[candidates.j[part]]
        distance[part] = np.einsum("em,em->e", difference, difference)
    ends = np.concatenate([candidates.i, candidates.j])
    twice = np.concatenate([distance, distance])
    by = np.lexsort((twice, ends))
    starts = np.searchsorted(ends[by], np.arange(N))
    rank = np.arange(by.size) - starts[ends[by]]
    near = np.zeros(candidates.n_edges, dtype=bool)
    near[by[rank < NEAREST] % candidates.n_edges] = True
    w = near.astype(np.float64)
    return w * (0.5 * N / w.sum())


def typical_atom(p: HeatParameters, dtype: Any) -> float:
    """The size of one source's trace: the median over signals of the largest share of an atom.

    ``max_j |d_j . x| / ||d_j||`` on the graph that the fit starts from.  Unlike the norm of a
    signal it does not grow with the number of sources.
    """
    layout = Layout.of(p.candidates)
    objective = SparseObjective(layout, 0.0, 0.0, unit_atoms=True, tol=1e-4, n_threads=p.n_jobs)
    ensemble = SparseSignals(layout, p.signals, dtype, p.n_jobs)  # type: ignore[arg-type]
    D = objective.dictionary(p.w, p.starts[0])
    S, N = D.omega.shape
    narrow = D.narrow._replace(
        values=D.narrow.values.astype(dtype), diagonal=D.narrow.diagonal.astype(dtype)
    )
    V, Q = np.empty((3, N, WIDTH), dtype), np.empty((S, N, WIDTH), dtype)
    sizes = []
    for block in ensemble.blocks:
        adjoint(narrow, D.heat.c.astype(dtype), block, V, Q)
        sizes.append(np.max(np.abs(Q) / D.omega[:, :, None], axis=(0, 1)))
    return float(np.median(np.concatenate(sizes)[: ensemble.n_signals]))


def memory_needed(
    n_nodes: int, n_signals: int, n_edges: int, n_scales: int, dtype: Any, n_jobs: int
) -> int:
    """Bytes that a fit is likely to need at its peak, on a graph where heat stays near."""
    item = np.dtype(dtype).itemsize
    signals = n_nodes * n_signals * (16 + item)
    work = n_jobs * n_nodes * WIDTH * item * (30 + 2 * n_scales)
    gram = n_nodes * TYPICAL_ROWS * (4 + 8 * n_scales * (n_scales + 1) // 2) * 2
    edges = n_edges * 8 * (2 * 10 + 8 + 8)
    return int(signals + work + gram + edges)


def check_memory(needed: int) -> None:
    """Refuse a fit that would not fit, with what would."""
    try:
        available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not told on this system
        return
    if needed > available:
        raise ValueError(
            f"The fit needs about {needed / 1e9:.1f} GB, and {available / 1e9:.1f} GB are free. "
            "Pass X as float32, fewer signals, a smaller number of candidates, or n_jobs=1."
        )


def large_laplacian(graph: Graph) -> Any:
    """The Laplacian of a large graph, sparse."""
    return sparse.csr_array(graph.laplacian())


def large_sources(codes: Codes, layout: Layout, n_signals: int, scale_of: Any, unit: float) -> Any:
    """The sources (n_signals, n_scales, n_nodes), as a sparse array where they are many."""
    n_scales, S = int(scale_of.max()) + 1, scale_of.size
    signal = np.concatenate([b * WIDTH + block.signal for b, block in enumerate(codes)])
    where = np.concatenate([block.where for block in codes])
    what = np.concatenate([block.what for block in codes]) * unit
    at = (signal, scale_of[where % S], layout.order[where // S])
    shape = (n_signals, n_scales, layout.n_nodes)
    if np.prod(shape, dtype=np.float64) > ENTRIES:
        return sparse.coo_array((what, at), shape=shape)
    sources = np.zeros(shape)
    np.add.at(sources, at, what)
    return sources


@dataclass(frozen=True, eq=False)
class LargeModel:
    """A learned graph and its scales, for coding and diffusing without an array of all pairs."""

    graph: Graph
    tau: Array
    unit_atoms: bool
    n_threads: int

    def _problem(self, alpha: float) -> tuple[SparseObjective, SparseDictionary]:
        edges = self.graph.edges.astype(np.intp)
        candidates = CandidateEdges(self.graph.n_nodes, edges[:, 0].copy(), edges[:, 1].copy())
        objective = SparseObjective(
            Layout.of(candidates),
            alpha,
            0.0,
            self.unit_atoms,
            tol=TOLERANCE[np.dtype(np.float64)],
            n_threads=self.n_threads,
        )
        return objective, objective.dictionary(np.asarray(self.graph.weights), self.tau)

    def code(self, signals: Signals, alpha: float, penalty: str) -> Coding:
        """The sources of signals (M, S N), with the duality gap of the last lasso of each."""
        objective, D = self._problem(alpha)
        layout = objective.layout
        ensemble = SparseSignals(layout, signals, np.float64, self.n_threads)
        codes, _ = ensemble.code(objective, D, ensemble.silence(D.n_atoms), None)
        discount = None
        for _ in range(ROUNDS if penalty == "log" else 0):
            discount, _ = ensemble.discount(D, codes, alpha)
            codes, _ = ensemble.code(objective, D, codes, discount)
        value, gap = _gaps(objective, D, ensemble, codes, discount)
        H = ensemble.sources(codes, self.tau.size)
        rows = np.ascontiguousarray(H.transpose(2, 0, 1)).reshape(ensemble.n_signals, -1)
        return Coding(rows, value, gap)

    def synthesis(self, H: Array) -> Array:
        """``sum_s E_s H_s`` (N, M) of sources (S, N, M)."""
        objective, D = self._problem(0.0)
        S, N, M = H.shape
        order, K = objective.layout.order, D.heat.degree
        out = np.empty((N, M))
        B, Y = np.empty((K + 1, N, WIDTH)), np.empty((N, WIDTH))
        for first in range(0, M, WIDTH):
            part = H[:, order, first : first + WIDTH]
            block = np.zeros((S, N, WIDTH))
            block[:, :, : part.shape[2]] = part
            clenshaw(D.operator, D.heat.c, block, B, Y)
            out[order, first : first + WIDTH] = Y[:, : part.shape[2]]
        return out


def _gaps(
    objective: SparseObjective,
    D: SparseDictionary,
    ensemble: SparseSignals,
    codes: Codes,
    discount: Codes | None,
) -> tuple[Array, Array]:
    """The value and the duality gap of every signal's lasso, by the kernels themselves."""
    S, N = D.omega.shape
    values, gaps = [], []
    penalty = objective.alpha * D.omega.T.ravel()
    V, Q = np.empty((3, N, WIDTH)), np.empty((S, N, WIDTH))
    for b, block in enumerate(codes):
        R = ensemble.residual(D, block, b)
        adjoint(D.operator, D.heat.c, R, V, Q)
        a = penalty * (np.ones((WIDTH, 1)) if discount is None else _full(discount[b], D.n_atoms))
        q = np.abs(2.0 * Q.transpose(2, 1, 0).reshape(WIDTH, -1))
        h = np.abs(block.rows(D.n_atoms))
        theta = np.min(np.where(q > a, a / np.maximum(q, 1e-300), 1.0), axis=1)
        rr = np.einsum("nb,nb->b", R, R)
        rx = np.einsum("nb,nb->b", R, ensemble.blocks[b])
        primal = rr + np.sum(a * h, axis=1)
        values.append(primal)
        gaps.append(np.maximum(primal - (2.0 * theta * rx - theta * theta * rr), 0.0))
    M = ensemble.n_signals
    return np.concatenate(values)[:M], np.concatenate(gaps)[:M]


def _full(discount: BlockCodes, n_atoms: int) -> Array:
    return discount.rows(n_atoms, 1.0)
