"""A learned graph and its scales at work on further signals, and the sources found there.

Also where heat was released, if all of it was released at one unknown moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from heatgraph.arrays import Array, Ints
from heatgraph.estimators.parameters import n_threads, other_kernel
from heatgraph.estimators.validation import check_number, check_scales, check_signals, unit_of
from heatgraph.graph import CandidateEdges, Graph
from heatgraph.kernels.spectral import Kernel, kernel_of
from heatgraph.models.heat import ATOMS, PENALTIES, Dictionary, HeatObjective, Signals
from heatgraph.models.sparse_heat import SparseDictionary
from heatgraph.solvers.engine import Coding, code_signals
from heatgraph.solvers.lasso import LargeLasso
from heatgraph.solvers.threads import bounded_blas


@dataclass(frozen=True, eq=False)
class SourceCodes:
    """The sources of signals, and how exactly they were found.

    Attributes
    ----------
    sources : ndarray (n_signals, n_scales, n_nodes)
        How much heat was released where; most entries are zero.
    gap : ndarray (n_signals,)
        The duality gap of each signal, over its energy: 0 is an exact solution.
    signals : sequence
        Names of the signals; empty for numbers.
    nodes : sequence
        Names of the nodes; empty for numbers.
    scales : sequence of float
        The diffusion times.
    """

    sources: Array
    gap: Array
    signals: Sequence[Any] = ()
    nodes: Sequence[Any] = ()
    scales: Sequence[float] = ()

    def __repr__(self) -> str:
        M, S, N = self.sources.shape
        found = np.count_nonzero(self.sources)
        return f"SourceCodes({found} sources of {M} signals, at {N} nodes and {S} scales)"

    def to_pandas(self) -> pd.DataFrame:
        """A table of the sources that are not zero, the strongest of each signal first.

        Returns
        -------
        DataFrame
            One row per source: its signal, node, scale and strength.
        """
        signal, scale, node = np.nonzero(self.sources)
        strength = self.sources[signal, scale, node]
        order = np.lexsort((-np.abs(strength), signal))
        return pd.DataFrame(
            {
                "signal": _named(self.signals, signal[order]),
                "node": _named(self.nodes, node[order]),
                "scale": _named(self.scales, scale[order]),
                "strength": strength[order],
            }
        )


def _named(names: Sequence[Any], which: Ints) -> list[Any]:
    return [names[k] for k in which] if len(names) else which.tolist()


CODING_TOL = 1e-6  # duality gap of the sources, over the energy of a signal


@dataclass(frozen=True, eq=False)
class LargeModel:
    """A graph, scales, and how sources are penalised; ``positive`` ones are >= 0."""

    graph: Graph
    tau: Array
    unit_atoms: bool
    penalty: str
    n_threads: int
    positive: bool
    kernel: Kernel

    @cached_property
    def _dictionary(self) -> SparseDictionary:
        return dictionary_on(self.graph, self.tau, self.unit_atoms, self.n_threads, self.kernel)

    def _lasso(self, alpha: float) -> LargeLasso:
        return LargeLasso(self._dictionary, alpha, self.penalty, self.positive, CODING_TOL)

    def code(self, signals: Signals, alpha: float) -> Coding:
        """The sources of signals, a row (S N,) each, with the duality gap that each reached."""
        coding = self._lasso(alpha).code(signals)
        return Coding(coding.h.toarray(), coding.value, coding.gap)

    def predict(self, signals: Signals, alpha: float) -> Array:
        """What the sources of signals diffuse into, (N, M)."""
        parts = [
            self._dictionary.synthesis(some.h.toarray())
            for some in self._lasso(alpha).batches(signals)
        ]
        return np.concatenate(parts).T

    def synthesis(self, h: Array) -> Array:
        """What sources (M, S N) diffuse into, (M, N)."""
        return self._dictionary.synthesis(h)


def dictionary_on(
    graph: Graph, tau: Array, unit_atoms: bool, n_threads: int, kernel: Kernel
) -> SparseDictionary:
    """The atoms at scales ``tau`` on a graph."""
    pairs = CandidateEdges.of(graph.n_nodes, graph.edges)
    return SparseDictionary(pairs, np.asarray(graph.weights), tau, unit_atoms, n_threads, kernel)


@dataclass(frozen=True, eq=False)
class DenseModel:
    """A Laplacian (N, N), scales, and how sources are penalised; ``positive`` ones are >= 0."""

    laplacian: Array
    tau: Array
    atoms: str
    penalty: str
    n_threads: int
    positive: bool = False
    kernel: Kernel | None = None

    @cached_property
    def _dictionary(self) -> Dictionary:
        candidates = CandidateEdges.complete(len(self.laplacian))
        objective = HeatObjective(candidates, 0.0, 0.0, ATOMS[self.atoms], self.kernel)
        return objective.dictionary(candidates.weights(self.laplacian), self.tau)

    def code(self, signals: Signals, alpha: float, start: Array | None = None) -> Coding:
        """The sources of signals, a row (S N,) each, with the duality gap each reached.

        ``start`` are sources to go on from in place of none at all.
        """
        with bounded_blas(len(self.laplacian), self.n_threads):
            return code_signals(
                self._dictionary,
                signals,
                alpha,
                PENALTIES[self.penalty],
                start=start,
                n_threads=self.n_threads,
                positive=self.positive,
            )

    def predict(self, signals: Signals, alpha: float) -> Array:
        """What the sources of signals diffuse into, (N, M)."""
        return self._dictionary.synthesis(self.code(signals, alpha).h).T

    def synthesis(self, h: Array) -> Array:
        """What sources (M, S N) diffuse into, (M, N)."""
        return self._dictionary.synthesis(h)


BEYOND = 8.0  # times the learned scales: how far the scales that are tried reach
PER_DOUBLING = 4  # scales that are tried
MOST_DENSE = 2000  # nodes on which an array of all pairs is made


class SourcesMixin:
    """What models with ``graph_``, ``scales_`` and ``location_`` have in common, ``locate`` too."""

    graph_: Graph
    n_features_in_: int
    location_: Array
    scales_: Array

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the columns of :meth:`transform`: ``"node@scale1"`` and so on.

        Parameters
        ----------
        input_features : ignored
            Names come from the fit.

        Returns
        -------
        ndarray of str (n_scales * n_nodes,)
            All nodes at the first scale, then all nodes at the second.
        """
        check_is_fitted(self)
        names = self.graph_.names or tuple(f"x{k}" for k in range(self.n_features_in_))
        scales = range(1, self.scales_.size + 1)
        return np.array([f"{name}@scale{s}" for s in scales for name in names], dtype=object)

    def inverse_transform(self, H: Any) -> Array:
        """The signals that sources diffuse into, around ``location_``.

        Parameters
        ----------
        H : array-like (n_signals, n_scales, n_nodes) or (n_signals, n_scales * n_nodes)
            Sources; the second form is that of :meth:`transform`.

        Returns
        -------
        ndarray (n_signals, n_nodes)
            Without noise.
        """
        check_is_fitted(self)
        return self._diffused(self._as_sources(H)) + self.location_

    def _diffused(self, sources: Array) -> Array:
        """The same of sources (n_signals, n_scales, n_nodes), around zero."""
        raise NotImplementedError

    def _as_sources(self, H: Any) -> Array:
        """Sources in either layout as (n_signals, n_scales, n_nodes)."""
        S, N = self.scales_.size, self.n_features_in_
        sources = np.asarray(H, dtype=np.float64)
        if sources.shape[1:] not in ((S, N), (S * N,)):
            raise ValueError(
                f"H must be (n_signals, {S}, {N}) or (n_signals, {S * N}), got {sources.shape}."
            )
        return sources.reshape(-1, S, N)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = True
        return tags

    def locate(
        self, X: Any, *, scales: Any = None, alpha: float = 0.2, positive: bool = True
    ) -> pd.DataFrame:
        r"""Where the heat of each signal was released, all of it at one unknown moment.

        For each scale :math:`\tau` that is tried and each signal ``x`` around ``location_``

        .. math::
            \min_{h \ge 0} \; \| x - e^{-\tau L} h \|^2
            + \alpha \|x\| \sum_i \| e^{-\tau L} \delta_i \| \, |h_i|

        is solved on ``graph_``, and the scale with the smallest minimum is kept.  The scales that
        a model has learned are those at which its signals were typically seen; a further signal
        may be seen earlier or later, and is located best at a scale of its own.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            NaN marks an entry that was not observed.
        scales : sequence of float, optional
            The scales to try.  Unless given, four for each doubling, from an eighth of the
            shortest learned scale to eight times the longest.
        alpha : float
            Weight of the sparsity of the sources, in units of the norm of each signal.  From 2 on
            no source is found.
        positive : bool
            True takes heat to be only ever added, so that every strength is positive; False lets
            heat be taken away as well.

        Returns
        -------
        DataFrame
            One row per source: ``signal``, ``node``, ``scale``, ``strength`` in the units of
            ``X`` (the penalty makes it too small, that of a lone source by the share
            ``alpha / 2``), and ``explained``, the share of the signal's energy that all of its
            sources explain.  The strongest source of each signal comes first.  A signal that is
            zero, or of which nothing was observed, has no row.
        """
        check_is_fitted(self)
        model: Any = self
        alpha = check_number("alpha", alpha, strict=True)
        tau = _scales_to_try(model.scales_) if scales is None else check_scales(scales)
        around = check_signals(self, X, reset=False) - model.location_
        unit = unit_of(around)
        size = np.sqrt(np.nansum(np.square(around / unit), axis=1)) * unit
        heard = np.flatnonzero(size)
        signals = Signals.from_missing((around[heard] / size[heard, None]).T)
        explained, found, scale = _best_scales(model, signals, tau, alpha, positive)
        return _as_rows(model, X, heard, found * size[heard, None], scale, explained)


def _best_scales(
    model: Any, signals: Signals, tau: Array, alpha: float, positive: bool
) -> tuple[Array, Array, Array]:
    """Of each signal at its best scale: the share explained (M,), sources (M, N), scale (M,)."""
    M, N = signals.n_signals, signals.n_nodes
    least, explained = np.full(M, np.inf), np.zeros(M)
    found, scale = np.zeros((M, N)), np.zeros(M)
    for t in tau:
        kernel = _kernel(model, t, positive)
        coding = kernel.code(signals, alpha)
        better = np.flatnonzero(coding.value < least)
        if not better.size:
            continue
        some = signals.take(better)
        left = some.X - kernel.synthesis(coding.h[better]).T
        if some.observed is not None:
            left = np.where(some.observed, left, 0.0)
        least[better], scale[better] = coding.value[better], t
        found[better] = coding.h[better]
        explained[better] = 1.0 - np.square(left).sum(axis=0)
    return explained, found, scale


def _kernel(model: Any, t: float, positive: bool) -> DenseModel | LargeModel:
    """Heat at one scale on the learned graph."""
    tau, how = np.array([t]), ("l1", n_threads(model.n_jobs), bool(positive))
    kernel = getattr(model, "kernel_", model.kernel)
    if model.graph_.n_nodes > MOST_DENSE:
        return LargeModel(model.graph_, tau, True, *how, kernel_of(kernel))
    L = model.graph_.laplacian().toarray()
    return DenseModel(L, tau, "unit", *how, other_kernel(kernel))


def _scales_to_try(learned: Array) -> Array:
    low, high = float(learned.min()) / BEYOND, BEYOND * float(learned.max())
    return np.geomspace(low, high, 1 + int(np.ceil(PER_DOUBLING * np.log2(high / low))))


def _as_rows(
    model: Any, X: Any, heard: Ints, found: Array, scale: Array, explained: Array
) -> pd.DataFrame:
    """One row per source, the strongest of each signal first."""
    signal, node = np.nonzero(found)
    strength = found[signal, node]
    order = np.lexsort((-np.abs(strength), signal))
    signal, node = signal[order], node[order]
    names = model.graph_.names
    rows = heard[signal]
    return pd.DataFrame(
        {
            "signal": X.index[rows] if isinstance(X, pd.DataFrame) else rows,
            "node": node if names is None else [names[k] for k in node],
            "scale": scale[signal],
            "strength": strength[order],
            "explained": explained[signal],
        }
    )
