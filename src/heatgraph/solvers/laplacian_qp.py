"""The paper's quadratic program in L, solved by SCS as the paper does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from heatgraph.graph.candidates import CandidateEdges

__all__ = ["LaplacianQP"]

_USABLE = (1, 2)  # SCS: solved, solved inaccurately
_SIGINT = -5
# The quadratic part and the constraints never change, so that SCS need not look for its scale anew
# in every program, nor accelerate: 28 ADMM iterations a program in place of 85, at 20 nodes as at
# 60.  The minimiser is the same.
TUNED = {"adaptive_scale": False, "scale": 1.5, "acceleration_lookback": 0, "verbose": False}


class LaplacianQP:
    """The proximal step on the Laplacian, the paper's problem (updateLQP).

    Minimise ``<L - L_t, G> + d/2 ||L - L_t||_F^2 + beta ||L||_F^2`` over symmetric ``L`` with
    ``tr L = N``, ``L 1 = 0``, ``L_ij <= 0`` off the diagonal.

    The variable handed to SCS is ``vech(L)``: the N diagonal entries, then one entry a candidate
    edge; an entry that is no candidate is 0 and left out.  The three constraints are stated as
    the paper states them: N + 1 equalities and one inequality a candidate.

    Parameters
    ----------
    candidates : CandidateEdges
        The off-diagonal entries that may be non-zero.
    eps : float
        SCS's absolute and relative tolerance.  A late step lowers the model by little, and an
        error longer than the step makes it an ascent: over 3000 iterations that befell a sixth
        of the steps at SCS's default 1e-4, a few at 1e-5, none from 1e-6 on.  1e-7 leaves a
        margin for about a tenth more ADMM iterations than 1e-6.
    max_iters : int
        SCS's own limit.
    """

    def __init__(
        self, candidates: CandidateEdges, *, eps: float = 1e-7, max_iters: int = 20_000
    ) -> None:
        scs = _import_scs()
        n, n_edges = candidates.n_nodes, candidates.n_edges
        self.candidates = candidates
        # ||L||_F^2 counts an off-diagonal entry of vech(L) twice.
        self._count = np.concatenate([np.ones(n), np.full(n_edges, 2.0)])
        data = {
            # The objective is divided by d + 2 beta: the same minimiser, and a quadratic part
            # that d does not touch, so that SCS factorises once and only `c` is updated.
            "P": sparse.diags_array(self._count, format="csc"),
            "A": _constraints(candidates),
            "b": np.concatenate([[float(n)], np.zeros(n + n_edges)]),
            "c": np.zeros(n + n_edges),
        }
        cone = {"z": n + 1, "l": n_edges}
        self._scs: Any = scs.SCS(data, cone, eps_abs=eps, eps_rel=eps, max_iters=max_iters, **TUNED)
        self._warm: dict[str, NDArray[np.float64]] = {}

    def solve(
        self, L: NDArray[np.float64], G: NDArray[np.float64], d: float, beta: float
    ) -> NDArray[np.float64]:
        """The minimiser for the linearisation ``G`` at ``L`` and the constant ``d``, both (N, N).

        The result is a valid Laplacian to rounding: see `_repair`.
        """
        self._scs.update(c=self._count * self._vech((G - d * L) / (d + 2.0 * beta)))
        answer = self._scs.solve(warm_start=bool(self._warm), **self._warm)
        status = answer["info"]["status_val"]
        if status == _SIGINT:
            # SCS catches the signal for itself and returns; the user meant the whole fit.
            raise KeyboardInterrupt
        if status not in _USABLE:
            raise RuntimeError(f"SCS failed on the step in L: {answer['info']['status']!r}")
        self._warm = {key: answer[key] for key in ("x", "y", "s")}
        return self._repair(answer["x"])

    def _vech(self, A: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate([np.diagonal(A), A[self.candidates.i, self.candidates.j]])

    def _repair(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """A valid Laplacian from SCS's answer, which meets the constraints only to ``eps``.

        Differs from the paper, which takes SCS's answer as it is: positive off-diagonal entries are
        set to 0, the rest is scaled to the trace, the diagonal is the row sums.
        """
        n = self.candidates.n_nodes
        w = np.maximum(-x[n:], 0.0)
        return self.candidates.laplacian(w * (0.5 * n / w.sum()))


def _constraints(candidates: CandidateEdges) -> sparse.csc_array:
    """``A`` of ``A vech(L) + s = b``: the trace, the N row sums (s = 0), the signs (s >= 0)."""
    n, n_edges = candidates.n_nodes, candidates.n_edges
    edges, nodes = np.arange(n_edges), np.arange(n)
    incidence = sparse.csc_array(
        (np.ones(2 * n_edges), (np.r_[candidates.i, candidates.j], np.r_[edges, edges])),
        shape=(n, n_edges),
    )
    diagonal = sparse.csc_array((np.ones(n), (nodes, nodes)), shape=(n, n))
    signs = sparse.diags_array(np.ones(n_edges), format="csc")
    trace = sparse.csc_array(np.ones((1, n)))
    return sparse.csc_array(
        sparse.block_array([[trace, None], [diagonal, incidence], [None, signs]], format="csc")
    )


def _import_scs() -> Any:
    try:
        import scs
    except ImportError as error:
        raise ImportError(
            "the paper's solver needs SCS for its step in L; install it with "
            "`pip install heatgraph[paper]`"
        ) from error
    return scs
