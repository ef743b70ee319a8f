"""HeatFilter: undo the exponential filter of the covariance, then learn a Laplacian."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from heatgraph.arrays import Array
from heatgraph.baselines.base import FitInput, GraphMethod, check_limits
from heatgraph.baselines.precision_solver import PrecisionFit, fit_precision, penalised_moment
from heatgraph.estimators.hidden import PrecisionMixin
from heatgraph.estimators.validation import check_number, check_number_or, over_square, per_square
from heatgraph.selection.cut import CUTS
from heatgraph.solvers.result import Monitor

# A variance below this share of the largest is taken for none, as in the authors' own program.
FLOOR = 1e-10
TIMES = (1e-3, 1e3)  # between which the time of the filter is sought, in units of 1 / L


class HeatFilter(PrecisionMixin, GraphMethod):
    r"""Learn the Laplacian whose heat kernel is the covariance, by inverting the kernel first.

    .. math::
        S \approx v \, e^{-t L}: \qquad
        \min_{L} \; \mathrm{tr}(L \, S_{\mathrm{in}}) - \log \det\nolimits^* L
        + \lambda \sum_{i \ne j} |L_{ij}|,
        \qquad S_{\mathrm{in}} = \big(-\log(S / v)\big)^{\dagger}

    over combinatorial Laplacians: the method of Egilmez, Pavez and Ortega, "Graph learning from
    filtered signals: graph system and diffusion kernel identification" (2018), for the exponential
    filter.  ``S`` is the sample covariance and ``v`` its largest eigenvalue.  The method alternates
    three steps: the inverse of the filter, which makes of ``S`` the covariance
    :math:`S_{\mathrm{in}}` that unfiltered signals would have; the Laplacian that is likeliest for
    it (:class:`GeneralizedLaplacian` with "combinatorial"); the time ``t`` of the filter that
    brings :math:`e^{-tL}` nearest to :math:`S / v`.  For this filter, another ``t`` only scales
    ``L``: one round is the end of the alternation.

    It is the nearest relative of :class:`HeatCovariance`, which maximises the likelihood of the
    filtered signals themselves and has noise.  This one has none: noise is taken for heat at high
    frequencies, and gives most pairs a little weight.

    Differs from the paper: light edges are cut off.

    Parameters
    ----------
    lam : float
        Weight of sparsity of the Laplacian.  It has no unit: the input of the second step is
        divided by its mean variance.
    n_edges : int, optional
        Keep this many edges in ``graph_``, fewer where fewer were learned.
    candidates : optional
        The pairs that may be edges: None for all, a number of nearest neighbours, an edge list,
        a mask, a Graph.  They have to connect all nodes.
    max_iter : int
        Limit on the Newton steps of the second step.
    tol : float
        Stop when a step promises no larger a fall of the objective, per node.
    cut : {"typical", "valley", "mixture", "otsu"} or float
        Which weights are no edges of ``graph_``: a rule, as of :class:`LearnHeat`, or the smallest
        weight of an edge in a graph of trace ``n_nodes``.
    verbose : int
        1 shows a progress bar.

    Attributes
    ----------
    graph_ : Graph
        The learned graph, cut, with the node names of ``X``.
    cut_ : float
        The weight that edges of ``graph_`` are above, or at if it was given.
    weights_ : Graph
        Every edge that was learned, before the cut.
    laplacian_ : ndarray (n_nodes, n_nodes)
        Of trace ``n_nodes``.
    scales_ : ndarray (1,)
        The diffusion time of the signals on ``laplacian_``: half of that of their covariance.
    variance_ : float
        ``v``, in the squared units of ``X``.
    precision_ : ndarray (n_nodes, n_nodes)
        The inverse of :math:`v \, e^{-tL}`, its eigenvalues at most 1e10 / v.
    rank_ : int
        The number of directions in which the signals of the fit vary.  With less than ``n_nodes``,
        as with fewer signals than nodes or with columns that others determine, the inverse of the
        filter is not known, and ``impute`` refuses.
    location_, node_means_ : ndarray (n_nodes,)
        The mean signal.
    objective_ : ndarray
        Of the second step, at the start and after each Newton step.
    status_ : str
        "converged", "max_iter", "stalled" or "interrupted".
    residual_ : float
        The fall of the objective that a scaled gradient step promises, per node.
    n_iter_ : int

    Examples
    --------
    >>> from heatgraph.datasets import make_graph, make_heat_signals
    >>> graph = make_graph("er", 12, random_state=0)
    >>> X, _ = make_heat_signals(graph, (1.0,), 400, 12, random_state=0)
    >>> model = HeatFilter(n_edges=graph.n_edges).fit(X)
    >>> bool((model.graph_.edges == graph.edges).all()), round(float(model.scales_[0]), 1)
    (True, 1.0)
    """

    _fewest = 3

    def __init__(
        self,
        lam: float = 0.0,
        n_edges: int | None = None,
        candidates: Any = None,
        max_iter: int = 200,
        tol: float = 1e-8,
        cut: float | str = "typical",
        verbose: int = 0,
    ) -> None:
        self.lam = lam
        self.n_edges = n_edges
        self.candidates = candidates
        self.max_iter = max_iter
        self.tol = tol
        self.cut = cut
        self.verbose = verbose

    def _learn(self, given: FitInput, monitor: Monitor | None) -> PrecisionFit:
        lam = check_number("lam", self.lam)
        check_number_or("cut", self.cut, tuple(CUTS))
        limits = check_limits(self)
        X, unit = given.around_means()
        S = X.T @ X / len(X)
        v, S_in = unfiltered_moment(S)
        moment = penalised_moment(S_in, lam)
        fit = fit_precision(moment, "combinatorial", given.candidates, monitor=monitor, **limits)
        t = filter_time(fit.T, S / v)
        lam_L, U = np.linalg.eigh(t * fit.T)
        inverse = np.exp(np.minimum(np.maximum(lam_L, 0.0), -np.log(FLOOR)))
        self.scales_ = np.array([0.5 * t * float(np.trace(fit.T)) / len(S)])
        self.variance_ = float(per_square(v, unit))
        self.rank_ = int(np.count_nonzero(np.linalg.eigvalsh(S) > FLOOR * v))
        self.precision_ = over_square((U * inverse) @ U.T / v, unit)
        self.location_ = self.node_means_ = given.means
        return fit

    def _level_and_form(self) -> tuple[Array, Array]:
        """Refuses where the inverse of the filter is not known; the graph may still be right."""
        n_nodes = len(self.precision_)
        if self.rank_ < n_nodes:
            raise ValueError(
                f"the signals of the fit vary in {self.rank_} directions on {n_nodes} nodes, which "
                "leaves the inverse of the filter unknown.  To predict, fit more signals than "
                "nodes, drop columns that are constant or that others determine, or use "
                "HeatCovariance, whose model has noise."
            )
        return super()._level_and_form()

    def _finish(self, given: FitInput) -> None:
        """Set ``graph_`` and ``cut_``; a number of edges takes the heaviest ones."""
        weights, n_edges = self.weights_, given.n_edges
        if isinstance(self.cut, str):  # a rule gives the largest weight that is no edge
            self.cut_ = CUTS[self.cut](weights.weights)
            least = float(np.nextafter(self.cut_, np.inf))
        else:
            self.cut_ = least = float(self.cut)
        self.graph_ = weights.cut(weight=least) if n_edges is None else weights.cut(n_edges=n_edges)


def unfiltered_moment(S: Array) -> tuple[float, Array]:
    """``v`` and the moment of signals before the filter, of mean variance 1.

    The first step: the eigenvalues ``s`` of ``S / v`` are those of ``e^-L``, so that ``-log s`` are
    those of ``L`` and its inverse is the moment.  Variance that is 0 comes from infinite
    frequencies, whose inverse is 0; the direction of the largest has none.
    """
    s, U = np.linalg.eigh(S)
    v = float(s[-1])
    if not v > 0.0:
        raise ValueError("X holds no signal: every column is constant.")
    frequency = -np.log(np.maximum(s / v, FLOOR))
    known = (s / v > FLOOR) & (frequency > FLOOR)
    inverse = np.divide(1.0, frequency, out=np.zeros_like(s), where=known)
    if not known.any():
        raise ValueError(
            "X: the signals vary in one direction only, which no filter tells from a level; give "
            "signals that differ in more than size."
        )
    return v, (U * (inverse / inverse.mean())) @ U.T


def filter_time(L: Array, S: Array) -> float:
    """The third step: the ``t`` with the least ``||e^(-tL) - S||_F``."""
    lam, U = np.linalg.eigh(L)
    lam = np.maximum(lam, 0.0)
    own = np.einsum(
        "ni,nm,mi->i", U, S, U
    )  # of S in the basis of L; the rest is the same for all t
    unit = float(lam.mean())

    def misfit(log_t: float) -> float:
        return float(np.sum(np.square(np.exp(-np.exp(log_t) * lam / unit) - own)))

    found = minimize_scalar(misfit, bounds=np.log(TIMES), method="bounded")
    return float(np.exp(found.x)) / unit
