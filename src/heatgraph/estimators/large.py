"""Fits of LearnHeat by the matrix-free engine: graphs too large for an array of all pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from heatgraph.estimators.memory import available_memory
from heatgraph.estimators.parameters import HeatParameters, first_scales
from heatgraph.graph import CandidateEdges, Graph
from heatgraph.kernels.layout import Layout
from heatgraph.models.heat import Signals
from heatgraph.models.sparse import PRICED_ROWS, Codes, SparseDictionary, SparseObjective
from heatgraph.selection.choose_parameters import units_of
from heatgraph.solvers.checkpoint_protocol import FORGETFUL, Keeper
from heatgraph.solvers.coarse_to_fine import solve_by_stages
from heatgraph.solvers.edge_generation import (
    SETTLED,
    Certified,
    price_tangent,
    solve_priced,
    with_pairs,
)
from heatgraph.solvers.lasso import Coding
from heatgraph.solvers.log_penalty import PENALTIES
from heatgraph.solvers.result import Monitor, Solution, Status, better_of
from heatgraph.solvers.sparse_signals import SparseSignals, absolute, as_rows
from heatgraph.solvers.threads import bounded_blas
from heatgraph.solvers.working_sets import TOGETHER

__all__ = [
    "GAP",
    "LargeModel",
    "fit_large",
    "large_sources",
    "memory_needed",
    "reach_of",
    "typical_atom",
]

Array = NDArray[np.float64]

TOLERANCE = {np.dtype(np.float64): 1e-7, np.dtype(np.float32): 1e-6}
GAP = 0.01  # relative fall of the objective that no pair may promise, for a certificate
PRICED_NODES = 30_000  # past this, all pairs are too many to look at
ROUNDS_OF_PRICING = 12
CODING_ROUNDS = 10  # of reweighting, to find the sources of further signals
ENTRIES = 50_000_000  # sources beyond this are kept sparse
# The least heat that an atom holds, by the most nodes of a graph.
REACHES = {
    np.dtype(np.float64): {300: 0.0, 3000: 1e-5, np.inf: 3e-4},
    np.dtype(np.float32): {300: 0.0, np.inf: 3e-4},
}
TYPICAL_ROWS = 200  # that one atom reaches
ENTRY = 40  # bytes of an entry of an atom, while atoms are put in order
RANK = 8  # of the gradient over all pairs
ALPHA = 0.1  # of the trace of one source
BETA = 1e-3  # in the units of `units_of`


def fit_large(
    p: HeatParameters,
    *,
    monitor: Monitor | None = None,
    keeper: Keeper = FORGETFUL,
) -> Certified:
    """Fit on the candidates, or from them over every pair.

    Penalties that are not given are not chosen by prediction, which takes dozens of fits, but set
    to shares of what the signals show: see `typical_atom`.
    """
    dtype = p.dtype
    if len(p.starts) > 1:
        raise ValueError(
            'n_scales="auto" compares dozens of fits, which solver="sparse" does not; pass a '
            "number, such as n_scales=2."
        )
    _check_memory(p)
    alpha, beta = _penalties(p)
    layout = Layout.of(p.candidates)
    objective = SparseObjective(
        layout,
        alpha,
        beta,
        unit_atoms=p.unit_atoms,
        tol=TOLERANCE[np.dtype(dtype)],
        dtype=dtype,
        n_threads=p.n_jobs,
        reach=reach_of(layout.n_nodes, dtype),
    )
    ensemble = SparseSignals(layout, _in_memory(p.signals), dtype, p.n_jobs)
    how: dict[str, Any] = {
        "learn_scales": p.learn_scales,
        "max_iter": p.max_iter,
        "tol": p.tol,
        "monitor": monitor,
    }
    priced = _is_priced(p)
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
        solution = _from_starts(p, objective, ensemble, how, keeper)
        first = Certified(solution, objective, ensemble, float("nan"))
    if p.penalty == "l1" or first.solution.status is Status.INTERRUPTED:
        return first
    return _refine(p, first, priced, how, keeper)


def _from_starts(
    p: HeatParameters,
    objective: SparseObjective,
    ensemble: SparseSignals,
    how: dict[str, Any],
    keeper: Keeper,
) -> Solution:
    """The l1 fit; scales to start from are tried beside the usual start, as on the dense path."""

    def from_scales(start: Array, name: str) -> Solution:
        return solve_by_stages(objective, ensemble, p.w, start, keeper=keeper.within(name), **how)

    tau, usual = p.starts[0], first_scales(p.starts[0].size)
    if not p.learn_scales or not p.unit_atoms or np.array_equal(tau, usual):
        return from_scales(tau, "first")
    return better_of(partial(from_scales, usual, "first"), partial(from_scales, tau, "second"))


def _refine(
    p: HeatParameters, first: Certified, priced: bool, how: dict[str, Any], keeper: Keeper
) -> Certified:
    """Go on with the logarithmic penalty, under which other pairs may pay than under l1."""
    refine, _ = PENALTIES[p.penalty]
    fit = first
    for k in range(ROUNDS_OF_PRICING if priced else 1):
        start = replace(fit.solution, status=Status.CONVERGED)
        stage = keeper.within(f"penalty{k}")
        with bounded_blas():  # whose threads would spin where ours work
            solution = refine(fit.objective, fit.ensemble, start, keeper=stage, **how)
        fit = replace(fit, solution=solution, gap=float("nan"))
        if not priced or solution.status is Status.INTERRUPTED:
            break
        try:
            prices = price_tangent(fit.objective, fit.ensemble, solution, tol=SETTLED * GAP)
        except KeyboardInterrupt:
            return replace(fit, solution=replace(solution, status=Status.INTERRUPTED))
        fit = replace(fit, gap=prices.gap)
        if prices.gap <= GAP and solution.status is Status.CONVERGED:
            return replace(fit, solution=replace(solution, status=Status.CERTIFIED))
        if not len(prices.pairs) or solution.n_iter >= p.max_iter:
            break
        fit = with_pairs(fit, prices)
    return fit


def reach_of(n_nodes: int, dtype: Any = np.float64) -> float:
    """The least heat that an atom holds.

    A rough one changes the learned graph little, but hides the last falls of the objective.
    """
    return next(reach for most, reach in REACHES[np.dtype(dtype)].items() if n_nodes <= most)


def _in_memory(signals: Any) -> Signals:
    if not isinstance(signals, Signals):
        raise ValueError(
            'solver="sparse" needs the signals in memory; use solver="dense" for a Dask collection.'
        )
    return signals


def typical_atom(p: HeatParameters) -> float:
    """The size of one source's trace: the median over signals of the largest share of an atom.

    ``max_j |d_j . x| / ||d_j||`` on the graph that the fit starts from.  Unlike the norm of a
    signal it does not grow with the number of sources.
    """
    layout = Layout.of(p.candidates)
    objective = SparseObjective(
        layout,
        0.0,
        0.0,
        unit_atoms=True,
        tol=1e-4,
        dtype=p.dtype,
        n_threads=p.n_jobs,
        reach=reach_of(layout.n_nodes, p.dtype),
    )
    ensemble = SparseSignals(layout, _in_memory(p.signals), p.dtype)
    D = objective.dictionary(p.w, p.starts[0])
    omega = D.omega.T.reshape(-1, 1)
    parts = [np.max(np.abs(Q) / omega, axis=0) for Q in ensemble.correlations(D, ensemble.rows)]
    largest = np.concatenate(parts)
    return float(np.median(largest[largest > 0.0]))


def memory_needed(p: HeatParameters) -> int:
    """Bytes that a fit is likely to need at its peak, on a graph where heat stays near."""
    N, M = p.candidates.n_nodes, _n_signals(p)
    S, item = p.starts[0].size, np.dtype(p.dtype).itemsize
    signals = N * M * (16 + item)
    signals += N * M * item  # residuals
    work = p.n_jobs * N * TOGETHER * 8 * 4 * S
    rows = min(N, PRICED_ROWS if _is_priced(p) else TYPICAL_ROWS)  # prices take finer atoms
    atoms = N * S * rows * ENTRY
    factors = 2 * 4 * RANK * N * M if _is_priced(p) else 0
    return int(signals + max(work + atoms, factors) + p.candidates.n_edges * 8 * 40)


def _n_signals(p: HeatParameters) -> int:
    return int(p.signals.X.shape[1]) if isinstance(p.signals, Signals) else 0


def _check_memory(p: HeatParameters) -> None:
    """Refuse a fit that would not fit, with what would."""
    needed = memory_needed(p)
    available = available_memory()
    if available is not None and needed > available:
        raise ValueError(
            f"The fit needs about {needed / 1e9:.1f} GB, and {available / 1e9:.1f} GB are free. "
            "Pass X as float32, fewer signals, a smaller number of candidates, or n_jobs=1."
        )


def _is_priced(p: HeatParameters) -> bool:
    return p.every_pair and p.candidates.n_nodes <= PRICED_NODES


def _penalties(p: HeatParameters) -> tuple[float, float]:
    """Those given, or shares settled on clean geometric graphs whose truth was known."""
    alpha, beta = p.alphas[0], p.betas[0]
    if len(p.alphas) > 1:
        alpha = ALPHA * typical_atom(p)
    if len(p.betas) > 1:
        beta = BETA * units_of(p.signals)[1]
    return alpha, beta


def large_sources(fit: Certified, scale_of: NDArray[np.intp], unit: float) -> Any:
    """The sources (n_signals, n_scales, n_nodes), as a sparse array where they are many."""
    codes: Codes = fit.solution.codes
    layout = fit.objective.layout
    n_scales, S = int(scale_of.max()) + 1, scale_of.size
    where, what = codes.where, codes.what * unit
    at = (codes.signal, scale_of[where % S], layout.order[where // S])
    shape = (fit.ensemble.n_signals, n_scales, layout.n_nodes)
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
    penalty: str
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
            reach=reach_of(self.graph.n_nodes),
        )
        return objective, objective.dictionary(np.asarray(self.graph.weights), self.tau)

    def code(self, signals: Signals, alpha: float) -> Coding:
        """The sources of signals (M, S N), with the duality gap of the last lasso of each."""
        objective, D = self._problem(alpha)
        layout = objective.layout
        ensemble = SparseSignals(layout, signals, np.float64, self.n_threads)
        codes, R = ensemble.encode(objective, D, ensemble.silence(D.n_atoms))
        discount = None
        for _ in range(CODING_ROUNDS if self.penalty == "log" else 0):
            discount, _ = ensemble.discount(D, codes, alpha)
            codes, R = ensemble.encode(objective, D, codes, discount)
        value, gap = _gaps(objective, D, ensemble, codes, R, discount)
        H = ensemble.whole(codes, self.tau.size)
        rows = np.ascontiguousarray(H.transpose(2, 0, 1)).reshape(ensemble.n_signals, -1)
        return Coding(rows, value, gap)

    def synthesis(self, H: Array) -> Array:
        """``sum_s E_s H_s`` (N, M) of sources (S, N, M), by the atoms that code."""
        objective, D = self._problem(0.0)
        S, N, M = H.shape
        order = objective.layout.order
        shape = (D.n_atoms, N)
        atoms = sparse.csr_array((D.atoms.values, D.atoms.rows, D.atoms.indptr), shape=shape)
        # Atom k is at node k // S in the order of the layout, with scale k % S.
        codes = H[:, order].transpose(2, 1, 0).reshape(M, N * S)
        out = np.empty((N, M))
        out[order] = (codes @ atoms).T
        return out


def _gaps(
    objective: SparseObjective,
    D: SparseDictionary,
    ensemble: SparseSignals,
    codes: Codes,
    R: NDArray[Any],
    discount: Codes | None,
) -> tuple[Array, Array]:
    """The value and the duality gap of every signal's lasso.

    The dual point is the residual, shortened until no atom's correlation exceeds its penalty.
    """
    penalty = objective.alpha * D.omega.T.ravel()
    theta = []
    for k, Q in enumerate(ensemble.correlations(D, R)):
        q, some = 2.0 * np.abs(Q.T), slice(k * TOGETHER, (k + 1) * TOGETHER)
        a = penalty * (1.0 if discount is None else as_rows(discount, some, D.n_atoms, 1.0))
        theta.append(np.min(np.where(q > a, a / np.maximum(q, 1e-300), 1.0), axis=1))
    shrink = np.concatenate(theta)
    rr = np.einsum("mn,mn->m", R, R)
    rx = np.einsum("mn,mn->m", R, ensemble.rows)
    sizes = absolute(codes, discount, D.n_atoms) * penalty[codes.where]
    primal = rr + np.bincount(codes.signal, sizes, ensemble.n_signals)
    return primal, np.maximum(primal - (2.0 * shrink * rx - shrink * shrink * rr), 0.0)
