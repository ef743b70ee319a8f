"""SpectralTemplates: a sparse graph that has the eigenvectors of the covariance."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from heatgraph.arrays import Array, Mask
from heatgraph.baselines.base import FitInput, GraphMethod, known_eigenvectors, number_or_auto
from heatgraph.baselines.templates_solver import (
    Templates,
    TemplatesSolution,
    learn_templates,
    learn_templates_within,
    smallest_residual,
)
from heatgraph.estimators.fitted_graph import CUT, tell
from heatgraph.estimators.validation import check_choice, check_number
from heatgraph.graph import CandidateEdges
from heatgraph.selection.masked_prediction import RESOLUTION, fit_for_edges
from heatgraph.solvers.result import Monitor

FORMS = ("penalised", "epsilon")
# The program has no unit and its two terms grow alike with the number of nodes, so that a
# constant serves: over 24 settings (three graph models, 20 and 40 nodes, 100 and 400 signals, clean
# and noisy) its mean F was within 0.05 of the best penalty's on 17, and within 0.15 on all.
PENALTY = {"estimated": 10.0, "known": 0.1}
MARGIN = 3.0  # eps over the smallest feasible
LEAST_EPS = 1e-2  # for known eigenvectors, where the smallest feasible is 0
STILL = 1e-12  # of its largest entry: a column that varies less is constant
TIE = 1e-4  # weight of smoothness where known eigenvectors leave the graph open
# The strengths of sparsity between which a number of edges is sought.
STRENGTHS = {"penalised": (1e-4, 1e6), "epsilon": (1.0 + 1e-6, 1e3)}


class SpectralTemplates(GraphMethod):
    r"""Learn a sparse graph whose eigenvectors are those of the signals' covariance.

    .. math::
        \min_{w \ge 0} \; \tfrac12 \| \mathrm{offdiag}(V^\top L(w) V) \|_F^2
        + \gamma \, \delta \sum_e \log(1 + w_e / \delta), \qquad \mathrm{tr} L = N,

    by reweighting; ``V`` are the eigenvectors of the sample covariance, those of the graph if the
    signals are noise that went through any filter of it.  With ``form="epsilon"`` the first term
    is a constraint instead, ``||offdiag(V^T L V)||_F <= eps``: the robust form of Segarra, Marques,
    Mateos and Ribeiro, "Network topology inference from spectral templates" (2017).  Signals are
    not centred: the model's have mean zero.

    Parameters
    ----------
    form : {"penalised", "epsilon"}
        Both find edges about equally well; "penalised" is faster, and its default holds for more
        kinds of signals.
    penalty : float or "auto"
        With "penalised": the weight of sparsity.  "auto" is what ``n_edges`` asks for, else 10,
        or 0.1 with known eigenvectors.  It has no unit.
    eps : float or "auto"
        With "epsilon": the distance allowed.  "auto" is what ``n_edges`` asks for, else 3 times
        the smallest that any graph reaches, at least 0.01 with known eigenvectors.
    eigenvectors : array-like (n_nodes, n_nodes), optional
        Known eigenvectors, one per column, in place of those of the covariance.  Exact ones do not
        identify the graph (the complete graph has them too): of those that have them, the search
        starts from the graph on which ``X`` is smoothest.  Where two nodes have the same
        neighbours, the edge between them alone has the eigenvectors, and may be what is found.
    n_edges : int, optional
        Keep this many edges in ``graph_``.  With an "auto" parameter, it is the sparsest value
        that gives as many.
    candidates : optional
        The pairs that may be edges: None for all, a number of nearest neighbours, an edge list,
        a mask, a Graph.
    n_reweights : int
        Convex programs solved.
    delta : float
        Weights well below it count as none.
    verbose : int
        1 shows a progress bar.

    Attributes
    ----------
    graph_ : Graph
        The learned graph, cut, with the node names of ``X``.
    weights_ : Graph
        Every edge that was learned, before the cut.
    laplacian_ : ndarray (n_nodes, n_nodes)
        The learned Laplacian before the cut; its trace is ``n_nodes``.
    eigenvectors_ : ndarray (n_nodes, n_nodes)
        The templates.
    objective_ : ndarray
        Its history, one value for the start and one a reweighting.
    status_ : str
        "converged" or "stalled".
    residual_ : float
        The violation of the optimality conditions of the last convex program.
    n_iter_ : int
        Linear systems solved.
    penalty_, eps_ : float
        The weight of sparsity, and the distance to the templates reached.

    Examples
    --------
    >>> from heatgraph.datasets import make_graph, make_heat_signals
    >>> graph = make_graph("er", 12, random_state=0)
    >>> X, _ = make_heat_signals(graph, (2.5, 4), 200, random_state=0)
    >>> model = SpectralTemplates().fit(X)
    >>> str(model.status_), model.graph_.n_nodes
    ('converged', 12)
    """

    def __init__(
        self,
        form: str = "penalised",
        penalty: float | str = "auto",
        eps: float | str = "auto",
        eigenvectors: Any = None,
        n_edges: int | None = None,
        candidates: Any = None,
        n_reweights: int = 3,
        delta: float = 1e-3,
        verbose: int = 0,
    ) -> None:
        self.form = form
        self.penalty = penalty
        self.eps = eps
        self.eigenvectors = eigenvectors
        self.n_edges = n_edges
        self.candidates = candidates
        self.n_reweights = n_reweights
        self.delta = delta
        self.verbose = verbose

    def _learn(self, given: FitInput, monitor: Monitor | None) -> TemplatesSolution:
        signals = np.ascontiguousarray(given.scaled()[0].T)
        varying = self._varying(signals)
        candidates, among = _restricted(given.candidates, varying)
        signals = signals[varying]
        templates = self._templates(signals)
        search = _Search(self, templates, signals, candidates, monitor)
        n_edges = given.n_edges
        solution = search.run(None if n_edges is None else min(n_edges, candidates.n_edges))
        self.eigenvectors_ = _embedded(templates.V, varying)
        self.penalty_, self.eps_ = solution.penalty, solution.eps
        w = np.zeros(given.candidates.n_edges)
        w[among] = solution.w
        return replace(solution, w=w)

    def _varying(self, signals: Array) -> Mask:
        """Which nodes (N,) say something of the covariance; the others are warned of."""
        n, m = signals.shape
        if self.eigenvectors is not None or m < 2:
            return np.ones(n, dtype=bool)
        varying: Mask = np.ptp(signals, axis=1) > STILL * np.abs(signals).max(axis=1)
        count = n - int(varying.sum())
        if count == 0 or count == n:  # of the latter the error tells more
            return np.ones(n, dtype=bool)
        if count == n - 1:
            raise ValueError(
                f"X varies in column {int(np.argmax(varying))} only; a graph can only be learned "
                "from two nodes or more that vary."
            )
        warnings.warn(
            f"SpectralTemplates: {count} column(s) of X are constant, the first of them column "
            f"{int(np.argmin(varying))}; such nodes are left without an edge.",
            UserWarning,
            stacklevel=4,
        )
        return varying

    def _templates(self, signals: Array) -> Templates:
        n, m = signals.shape
        if self.eigenvectors is not None:
            return Templates.from_eigenvectors(known_eigenvectors(self.eigenvectors, n))
        if not np.abs(signals).max() > 0.0:
            raise ValueError(
                "X holds no signal: every entry is zero. A graph can only be learned from signals "
                "that vary."
            )
        if m < n:
            warnings.warn(
                f"SpectralTemplates: {m} signals have a covariance of rank {m} at most, so that "
                f"some of its {n} eigenvectors are unknown; give at least as many signals as "
                "nodes, or eigenvectors=..., or use LearnHeat or SmoothGraph.",
                UserWarning,
                stacklevel=4,
            )
        return Templates.from_signals(signals)


class _Search:
    """The fits on the way to the sparsity that was asked for."""

    def __init__(
        self,
        model: SpectralTemplates,
        templates: Templates,
        signals: Array,
        candidates: CandidateEdges,
        monitor: Monitor | None,
    ) -> None:
        self.templates, self.candidates, self.monitor = templates, candidates, monitor
        self.within = check_choice("form", model.form, FORMS) == "epsilon"
        self.form, self.known = model.form, model.eigenvectors is not None
        name = "eps" if self.within else "penalty"
        self.given = number_or_auto(name, model.eps if self.within else model.penalty)
        self.options: dict[str, Any] = {
            "candidates": candidates,
            "n_reweights": int(
                check_number("n_reweights", model.n_reweights, minimum=1, integer=True)
            ),
            "delta": check_number("delta", model.delta, strict=True),
            "start": self._start(signals),
        }
        self.done, self.planned = 0, 1

    def _start(self, signals: Array) -> Array | None:
        """The smoothest of the graphs that have known eigenvectors."""
        z = self.candidates.squared_distances(signals)
        if not self.known or not z.any():
            return None
        program = self.templates.program(self.candidates, 0.5 * self.candidates.n_nodes)
        return program.solve(TIE * z / z.mean()).w

    def run(self, n_edges: int | None) -> TemplatesSolution:
        if self.given is not None:
            return self.fit(self.given)
        # Of which eps is a multiple, and the penalty is not.
        unit = self._least_eps() if self.within else 1.0
        if n_edges is None:
            usual = MARGIN if self.within else PENALTY["known" if self.known else "estimated"]
            return self.fit(usual * unit)
        low, high = STRENGTHS[self.form]
        self.planned = 2 + int(np.log2(np.log(high / low) / RESOLUTION))
        _, solution = fit_for_edges(
            lambda density: self.fit(unit / density),
            lambda fitted: int((fitted.w >= CUT).sum()),
            n_edges,
            1.0 / high,
            1.0 / low,
        )
        return solution

    def _least_eps(self) -> float:
        least = smallest_residual(self.templates, candidates=self.candidates).eps
        return max(least, LEAST_EPS / MARGIN) if self.known else least

    def fit(self, strength: float) -> TemplatesSolution:
        learn = learn_templates_within if self.within else learn_templates
        solution = learn(self.templates, strength, **self.options)
        self.done += 1
        value = float(solution.objective[-1])
        tell(self.monitor, self.done, self.planned, value, solution.w, solution.residual)
        return solution


def _restricted(whole: CandidateEdges, varying: Mask) -> tuple[CandidateEdges, Mask]:
    """The candidates between nodes that vary, these numbered anew, and which of all they are."""
    among = varying[whole.i] & varying[whole.j]
    if not among.any():
        raise ValueError("candidates: no pair is between two nodes that vary.")
    if among.all() and varying.all():
        return whole, among
    number = np.cumsum(varying) - 1
    i, j = number[whole.i[among]], number[whole.j[among]]
    return CandidateEdges(int(varying.sum()), i, j), among


def _embedded(V: Array, varying: Mask) -> Array:
    """Eigenvectors on all nodes: those that do not vary are one each, and come last."""
    n, k = varying.size, len(V)
    whole = np.zeros((n, n))
    whole[np.ix_(varying, np.arange(k))] = V
    whole[np.flatnonzero(~varying), np.arange(k, n)] = 1.0
    return whole
