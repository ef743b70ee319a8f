"""What the fits of every method leave behind: the graph before and after the cut, and its page."""

from __future__ import annotations

import os
import warnings
from typing import Any

from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from heatgraph.arrays import Array
from heatgraph.errors import ParameterError
from heatgraph.estimators.validation import Names, check_number
from heatgraph.graph import CandidateEdges, Graph
from heatgraph.solvers.result import Monitor, Progress, Status


class ReportMixin:
    """Gives an estimator :meth:`report`."""

    def report(
        self,
        path: str | os.PathLike[str],
        signals: Any = None,
        *,
        coordinates: Any = None,
        title: str = "A learned graph",
        comparison: Any = None,
    ) -> None:
        """Write a page that shows the model: one file of HTML, which needs no network to open.

        Parameters
        ----------
        path : str or path-like
            The file, by custom ending in ``.html``.
        signals : array-like or data frame (n_signals, n_nodes), optional
            What to show on the nodes, with the sources and the fit that the model finds.
        coordinates : optional
            Where the nodes are: an array (n_nodes, 2), a mapping from names to pairs, or a data
            frame with the columns longitude and latitude, or x and y.
        title : str
            The heading.
        comparison : Comparison, optional
            What :func:`heatgraph.compare` found on the same nodes, to be shown on the page.

        Notes
        -----
        Needs Bokeh: ``pip install "heatgraph[report]"``.
        """
        # The one import upwards, when asked for: the page draws models, models do not need it.
        from heatgraph.report import write_report

        shown = {"coordinates": coordinates, "title": title, "comparison": comparison}
        write_report(self, path, signals, **shown)


DENSE_NODES = 1000  # up to which the Laplacian is an array of all pairs
CUT = 1e-4  # weights below this, in a graph of trace N, are not edges; the paper's cut


def check_n_edges(n_edges: Any, candidates: CandidateEdges) -> int | None:
    """``n_edges`` as an integer that the candidates can hold."""
    if n_edges is None:
        return None
    wanted = int(check_number("n_edges", n_edges, minimum=1, integer=True))
    if wanted > candidates.n_edges:
        raise ParameterError(
            "n_edges",
            f"must be at most the {candidates.n_edges} pairs that may be edges, got {wanted}.",
        )
    return wanted


def store_graph(
    estimator: Any, candidates: CandidateEdges, w: Array, names: Names, n_edges: int | None
) -> None:
    """Set ``weights_``, ``graph_`` and ``laplacian_`` from weights of sum N/2."""
    estimator.weights_ = candidates.graph(w, names)
    cut = estimator.weights_.cut(weight=CUT)
    estimator.graph_ = cut if n_edges is None else cut.cut(n_edges=n_edges)
    # Past some thousand nodes an array of all pairs would be most of the memory.
    large = candidates.n_nodes > DENSE_NODES and not candidates.is_complete
    estimator.laplacian_ = (
        sparse.csr_array(estimator.weights_.laplacian()) if large else candidates.laplacian(w)
    )


def store_weights(estimator: Any, weights: Graph) -> None:
    """Set ``weights_`` and ``laplacian_`` from a graph of trace N."""
    estimator.weights_ = weights
    L = sparse.csr_array(weights.laplacian())
    estimator.laplacian_ = L if weights.n_nodes > DENSE_NODES else L.toarray()


def warn_of_status(estimator: Any) -> None:
    """A fit that did not converge says so."""
    if estimator.status_ in (Status.MAX_ITER, Status.STALLED):
        warnings.warn(
            f"{type(estimator).__name__}: {estimator.status_.advice}",
            ConvergenceWarning,
            stacklevel=3,
        )


def tell(monitor: Monitor | None, k: int, of: int, value: float, w: Array, residual: float) -> None:
    """Report the ``k``-th graph of a search."""
    if monitor is not None:
        monitor(Progress(k, of, value, int((w >= CUT).sum()), residual))
