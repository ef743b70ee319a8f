"""LearnHeat: the graph, the scales and the sources of signals that diffused."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from heatgraph.graph import CandidateEdges, Graph
from heatgraph.learners.parameters import HeatParameters, n_threads, resolve
from heatgraph.learners.progress import progress_monitor
from heatgraph.learners.validation import check_signals, node_names, unit_of
from heatgraph.objective.atoms import ATOMS
from heatgraph.objective.heat import Dictionary, HeatObjective, Signals
from heatgraph.selection.masked import hide_entries, prediction_errors
from heatgraph.solvers.heat import as_sources, code_signals, solve_heat
from heatgraph.solvers.paper import solve_paper
from heatgraph.solvers.result import Monitor, Solution, Status

__all__ = ["LearnHeat", "SourceCodes"]

Array = NDArray[np.float64]

PAPER_CUT = 1e-4  # the paper ignores entries of the Laplacian below this
MERGED = 1e-2  # two scales this near, relatively, are one
HIDDEN_SHARE = 0.25


@dataclass(frozen=True, eq=False)
class SourceCodes:
    """Sources (n_signals, n_scales, n_nodes) and the duality gap of each, over its energy."""

    sources: Array
    gap: Array


class LearnHeat(TransformerMixin, BaseEstimator):
    r"""Learn the graph on which a few sources diffused into the signals.

    .. math::
        \min_{L, H, \tau} \; \Big\| X - \sum_s e^{-\tau_s L} H_s \Big\|_F^2
        + \alpha \sum_{s, i, m} \omega_{si} |H_{sim}| + \beta \|L\|_F^2

    over valid Laplacians of trace ``n_nodes`` and scales ``tau >= 0``.  With ``atoms="raw"``,
    ``omega = 1``, this is the problem of Thanou, Dong, Kressner and Frossard, "Learning heat
    diffusion graphs" (2017); with ``atoms="unit"`` an atom costs its norm,
    ``omega_si = ||exp(-tau_s L) delta_i||``, without which the scales are not identified.

    Parameters
    ----------
    n_scales : int
        Number of diffusion scales.
    alpha : float or "auto"
        Weight of the sparsity of the sources, in the units of ``X``.
    beta : float or "auto"
        Weight of the spread of the edge weights, in the squared units of ``X``.
    scales : sequence of float, optional
        The scales to start from, or to hold.
    learn_scales : bool
        Whether the scales are learned too.
    atoms : {"unit", "raw"}
        What the sparsity penalty charges for an atom: its norm, or 1 as in the paper.
    solver : {"auto", "dense", "paper"}
        "dense" is the fast solver; "paper" runs the paper's two algorithms to the letter, with a
        conic solver inside (``pip install "heatgraph[paper]"``).
    candidates : optional
        The pairs that may be edges: None for all, a number of nearest neighbours, an edge list,
        a mask, a Graph.
    n_edges : int, optional
        Keep this many edges in ``graph_``.
    n_jobs : int, optional
        Threads that code the signals.  Any number gives the same result.
    max_iter : int
        Limit on the iterations.
    tol : float
        Stop when the gradient promises no larger relative fall of the objective.  (For
        ``solver="paper"``: the paper's own rule, an absolute change of the objective.)
    random_state : int, Generator or None
        Seed of the random start, where ``init="random"``.
    verbose : int
        1 shows a progress bar.
    init : {"uniform", "random"} or Graph
        The graph to start from.

    Attributes
    ----------
    graph_ : Graph
        The learned graph, cut, with the node names of ``X``.
    laplacian_ : ndarray (n_nodes, n_nodes)
        The learned Laplacian before the cut; its trace is ``n_nodes``.
    weights_ : Graph
        Every edge that was learned, before the cut.
    scales_ : ndarray (n_scales,)
        Ascending; two that met are reported as one.
    sources_ : ndarray (n_signals, n_scales, n_nodes)
    objective_ : ndarray
        Its history, the start first and the final value last.
    status_ : str
        "converged", "max_iter", "stalled" or "interrupted".
    residual_ : float
        Relative fall of the objective that the gradient still promises.
    n_iter_ : int
    alpha_, beta_ : float
        The penalties used.

    Examples
    --------
    >>> from heatgraph.datasets import make_graph, make_heat_signals
    >>> graph = make_graph("er", 12, random_state=0)
    >>> X, _ = make_heat_signals(graph, (2.5, 4), 80, n_sources=2, random_state=0)
    >>> model = LearnHeat(scales=(2.5, 4), learn_scales=False, alpha=0.01, beta=0.01, atoms="raw")
    >>> model.fit(X).graph_.n_nodes
    12
    >>> str(model.status_)
    'converged'
    >>> model.transform(X).shape
    (80, 24)
    """

    def __init__(
        self,
        n_scales: int = 2,
        alpha: float | str = "auto",
        beta: float | str = "auto",
        scales: Any = None,
        learn_scales: bool = True,
        atoms: str = "unit",
        solver: str = "auto",
        candidates: Any = None,
        n_edges: int | None = None,
        n_jobs: int | None = None,
        max_iter: int = 1000,
        tol: float = 1e-4,
        random_state: Any = None,
        verbose: int = 0,
        init: Any = "uniform",
    ) -> None:
        self.n_scales = n_scales
        self.alpha = alpha
        self.beta = beta
        self.scales = scales
        self.learn_scales = learn_scales
        self.atoms = atoms
        self.solver = solver
        self.candidates = candidates
        self.n_edges = n_edges
        self.n_jobs = n_jobs
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.init = init

    def fit(self, X: Any, y: Any = None, *, monitor: Monitor | None = None) -> Self:
        """Learn the graph, the scales and the sources.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            NaN marks an entry that was not observed.  The columns of a data frame name the nodes.
        y : ignored
        monitor : callable, optional
            Called with a :class:`~heatgraph.solvers.result.Progress` after every iteration; a
            KeyboardInterrupt from it, or Ctrl-C, ends the fit with the best so far.
        """
        names = node_names(X)
        observations = check_signals(self, X, reset=True)
        unit = unit_of(observations)
        parameters = resolve(self, observations / unit, unit, names)
        with progress_monitor(self.verbose, monitor) as report:
            solution = _solve(parameters, report)
        self._store(parameters, solution, unit, names)
        self._warn(parameters)
        return self

    def _store(
        self, parameters: HeatParameters, solution: Solution, unit: float, names: Any
    ) -> None:
        tau, H = _merge_scales(solution.tau, solution.H)
        candidates = parameters.objective.candidates
        learned = np.flatnonzero(solution.w)
        edges = np.stack([candidates.i, candidates.j], axis=1)[learned]
        self.weights_ = Graph(edges, solution.w[learned], candidates.n_nodes, names)
        self.graph_ = _cut(self.weights_, self.n_edges)
        self.laplacian_ = candidates.laplacian(solution.w)
        self.scales_ = tau
        self.sources_ = np.ascontiguousarray(H.transpose(2, 0, 1)) * unit
        self.objective_ = solution.objective * unit**2
        self.status_ = solution.status
        self.residual_ = solution.residual
        self.n_iter_ = solution.n_iter
        self.alpha_ = parameters.objective.alpha * unit
        self.beta_ = parameters.objective.beta * unit**2

    def _warn(self, parameters: HeatParameters) -> None:
        if self.status_ in (Status.MAX_ITER, Status.STALLED):
            warnings.warn(f"LearnHeat: {self.status_.advice}", ConvergenceWarning, stacklevel=3)
        if parameters.learn_scales and self.atoms == "raw" and self.scales_.min() < 1e-2:
            warnings.warn(
                "LearnHeat: a scale fell to zero, where an atom is a single node and explains any "
                'signal without a graph.  The penalty of atoms="raw" favours that; use '
                'atoms="unit", or hold the scales with learn_scales=False and scales=....',
                UserWarning,
                stacklevel=3,
            )

    def code(self, X: Any) -> SourceCodes:
        """The sources of signals on the learned graph, with the duality gap that each reached."""
        check_is_fitted(self)
        observations = check_signals(self, X, reset=False)
        unit = unit_of(observations)
        signals = Signals.from_missing(observations.T / unit)
        coding = code_signals(
            self._dictionary(), signals, self.alpha_ / unit, n_threads=n_threads(self.n_jobs)
        )
        energy = signals.energy
        gap = np.divide(coding.gap, energy, out=np.zeros_like(energy), where=energy > 0.0)
        shape = (len(observations), self.scales_.size, self.n_features_in_)
        return SourceCodes(coding.h.reshape(shape) * unit, gap)

    def transform(self, X: Any) -> Array:
        """The sources of signals on the learned graph, a row a signal.

        Minimises ``||x - D h||^2 + alpha sum omega |h|`` to a duality gap of 1e-11 of the signal's
        energy (see :meth:`code` for the gap itself).

        Returns
        -------
        ndarray (n_signals, n_scales * n_nodes)
            ``.reshape(-1, n_scales, n_nodes)`` has the layout of ``sources_``.
        """
        sources = self.code(X).sources
        return sources.reshape(len(sources), -1)

    def inverse_transform(self, H: Any) -> Array:
        """The signals (n_signals, n_nodes) that sources diffuse into.

        ``H`` is ``(n_signals, n_scales, n_nodes)``, or as :meth:`transform` gives it.
        """
        check_is_fitted(self)
        S, N = self.scales_.size, self.n_features_in_
        sources = np.asarray(H, dtype=np.float64)
        if sources.shape[1:] not in ((S, N), (S * N,)):
            raise ValueError(
                f"H must be (n_signals, {S}, {N}) or (n_signals, {S * N}), got {sources.shape}."
            )
        return self._dictionary().synthesis(as_sources(sources.reshape(-1, S * N), S)).T

    def impute(self, X: Any) -> Array:
        """``X`` with its NaN replaced by what the sources of the observed entries diffuse into."""
        check_is_fitted(self)
        observations = check_signals(self, X, reset=False)
        filled = self.inverse_transform(self.code(observations).sources)
        return np.where(np.isnan(observations), filled, observations)

    def score(self, X: Any, y: Any = None) -> float:
        """The share of hidden entries' energy that the model predicts; 0 is predicting zero.

        A quarter of each signal's entries is hidden, always the same ones for the same shape; the
        sources are found from the rest.
        """
        check_is_fitted(self)
        observations = check_signals(self, X, reset=False)
        unit = unit_of(observations)
        part = hide_entries(
            Signals.from_missing(observations.T / unit), HIDDEN_SHARE, np.random.default_rng(0)
        )
        error, energy = prediction_errors(
            self._dictionary(), part, self.alpha_ / unit, n_threads=n_threads(self.n_jobs)
        )
        total = float(energy.sum())
        return 1.0 - float(error.sum()) / total if total > 0.0 else 0.0

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """``"node@scale1"``, ...: the columns of :meth:`transform`."""
        check_is_fitted(self)
        names = self.graph_.names or tuple(f"x{k}" for k in range(self.n_features_in_))
        scales = range(1, self.scales_.size + 1)
        return np.array([f"{name}@scale{s}" for s in scales for name in names], dtype=object)

    def _dictionary(self) -> Dictionary:
        candidates = CandidateEdges.complete(self.n_features_in_)
        objective = HeatObjective(candidates, 0.0, 0.0, ATOMS[self.atoms])
        return objective.dictionary(candidates.weights(self.laplacian_), self.scales_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _solve(parameters: HeatParameters, monitor: Monitor | None) -> Solution:
    p = parameters
    if p.solver == "paper":
        return solve_paper(
            p.signals.X,
            p.objective.candidates,
            p.objective.candidates.laplacian(p.w),
            p.tau,
            alpha=p.objective.alpha,
            beta=p.objective.beta,
            learn_scales=p.learn_scales,
            max_iter=p.max_iter,
            tol=p.tol,
            monitor=monitor,
        )
    return solve_heat(
        p.objective,
        p.signals,
        p.w,
        p.tau,
        learn_scales=p.learn_scales,
        max_iter=p.max_iter,
        tol=p.tol,
        monitor=monitor,
        n_threads=p.n_threads,
    )


def _merge_scales(tau: Array, H: Array) -> tuple[Array, Array]:
    """Scales in ascending order, those that met as one: equal kernels, so their sources add."""
    order = np.argsort(tau, kind="stable")
    tau, H = tau[order], H[order]
    apart = np.diff(tau) > MERGED * tau[1:]
    first = np.flatnonzero(np.append(True, apart))
    return tau[first], np.add.reduceat(H, first, axis=0)


def _cut(graph: Graph, n_edges: int | None) -> Graph:
    if n_edges is not None:
        return graph.cut(n_edges=min(n_edges, graph.n_edges))
    return graph.cut(weight=PAPER_CUT)
