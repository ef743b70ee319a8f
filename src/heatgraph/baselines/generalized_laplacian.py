"""GeneralizedLaplacian: the likeliest precision matrix whose off-diagonals are not positive."""

from __future__ import annotations

from typing import Any

from heatgraph.baselines.base import (
    FitInput,
    GaussianMethod,
    PrecisionProblem,
    check_limits,
    fit_gaussian,
)
from heatgraph.baselines.precision_solver import PrecisionFit
from heatgraph.estimators.validation import check_choice, check_number, over_square
from heatgraph.solvers.result import Monitor

CONSTRAINTS = ("generalized", "dominant", "combinatorial")


class GeneralizedLaplacian(GaussianMethod):
    r"""Learn the likeliest Gaussian model whose precision matrix is a generalised Laplacian.

    .. math::
        \min_{T \succ 0} \; -\log \det T + \mathrm{tr}(T S)
        + \lambda \sum_{i \ne j} |T_{ij}|
        \quad \text{subject to} \quad T_{ij} \le 0 \; (i \ne j)

    with ``S`` the sample covariance.  Three kinds of matrices, by ``constraint``: "generalized"
    asks for no more than that (GGL; Pavez and Ortega 2016), "dominant" also for rows with a sum of
    at least 0 (DDGL), and "combinatorial" for rows that sum to 0 (CGL), a Laplacian, whose
    determinant is that of :math:`T + \mathbf{1}\mathbf{1}^\top / N`; the three of Egilmez, Pavez
    and Ortega, "Graph learning from data under Laplacian and structural constraints" (2017).  With
    ``lam=0`` there is nothing to tune: the sign of the off-diagonals alone makes ``T`` sparse.

    Parameters
    ----------
    constraint : {"generalized", "dominant", "combinatorial"}
        Which matrices are allowed.
    lam : float
        Weight of sparsity, in the squared units of ``X``; each pair counts twice.
    n_edges : int, optional
        Keep this many edges in ``graph_``, fewer where fewer were learned.
    candidates : optional
        The pairs that may be edges: None for all, a number of nearest neighbours, an edge list,
        a mask, a Graph.
    max_iter : int
        Limit on the Newton steps.
    tol : float
        Stop when a step promises no larger a fall of the objective, per node.
    verbose : int
        1 shows a progress bar.

    Attributes
    ----------
    graph_ : Graph
        The learned graph, cut, with the node names of ``X``.
    weights_ : Graph
        Every edge that was learned, ``-T_ij`` scaled to trace ``n_nodes``, before the cut.
    laplacian_ : ndarray (n_nodes, n_nodes)
        Of ``weights_``.
    precision_ : ndarray (n_nodes, n_nodes)
        ``T``, in the inverse squared units of ``X``.
    location_ : ndarray (n_nodes,)
        The mean signal.
    node_means_ : ndarray (n_nodes,)
        The mean of what was observed of each node.
    objective_ : ndarray
        Its value at the start and after each step.
    status_ : str
        "converged", "max_iter", "stalled" or "interrupted".
    residual_ : float
        The fall of the objective that a scaled gradient step promises, per node.
    n_iter_ : int

    Notes
    -----
    NaN is an entry that was not observed: the likelihood is that of the others, by expectation and
    maximisation.  ``graph_`` drops weights below 1e-4 after the scaling.

    Examples
    --------
    >>> from heatgraph.datasets import make_graph, make_heat_signals
    >>> graph = make_graph("er", 12, random_state=0)
    >>> X, _ = make_heat_signals(graph, (1.0,), 400, 12, noise_std=0.02, random_state=0)
    >>> model = GeneralizedLaplacian().fit(X)
    >>> from heatgraph.metrics import edge_scores
    >>> str(model.status_), edge_scores(graph, model.graph_).f_measure > 0.9
    ('converged', True)
    """

    def __init__(
        self,
        constraint: str = "generalized",
        lam: float = 0.0,
        n_edges: int | None = None,
        candidates: Any = None,
        max_iter: int = 200,
        tol: float = 1e-8,
        verbose: int = 0,
    ) -> None:
        self.constraint = constraint
        self.lam = lam
        self.n_edges = n_edges
        self.candidates = candidates
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def _learn(self, given: FitInput, monitor: Monitor | None) -> PrecisionFit:
        form = check_choice("constraint", self.constraint, CONSTRAINTS)
        X, unit = given.around_means()
        lam = float(over_square(check_number("lam", self.lam), unit))
        limits = check_limits(self)
        problem = PrecisionProblem(form, lam, given.candidates, monitor=monitor, **limits)
        return self._store_model(given, fit_gaussian(X, problem), unit)
