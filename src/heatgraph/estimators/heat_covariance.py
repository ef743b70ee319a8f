"""HeatCovariance: the covariance, and the graph, of heat that is released everywhere."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np
from sklearn.covariance import EmpiricalCovariance

from heatgraph.arrays import Array, Ints
from heatgraph.distributed.chunked_signals import fold_moments
from heatgraph.distributed.from_dask import as_array
from heatgraph.errors import ParameterError
from heatgraph.estimators.checkpoint import fingerprint, kept_in
from heatgraph.estimators.fitted_graph import (
    ReportMixin,
    check_n_edges,
    store_graph,
    warn_of_status,
)
from heatgraph.estimators.gaussian_fitting import (
    CovarianceFit,
    CovarianceSettings,
    Measured,
    counting,
)
from heatgraph.estimators.gaussian_model import GaussianModelMixin, significant_edges, tests_of
from heatgraph.estimators.hidden import HiddenScoreMixin
from heatgraph.estimators.large_covariance import fit_large, fit_large_chunks, is_large
from heatgraph.estimators.parameters import edge_count, n_threads
from heatgraph.estimators.progress import Watch, watch_fit
from heatgraph.estimators.time_series import with_epochs
from heatgraph.estimators.validation import (
    Names,
    centre_nodes,
    check_choice,
    check_number,
    check_number_or,
    check_range,
    check_signals,
    counts_of,
    is_dask,
    node_names,
    over_square,
    per_square,
    resolve_candidates,
    set_features,
    warn_of_copies,
    warn_of_twins,
)
from heatgraph.graph import CandidateEdges, Graph
from heatgraph.kernels.spectral import KERNEL_CHOICE, is_auto, kernel_of
from heatgraph.models.moments import Moments, expected_moments
from heatgraph.selection.cut import CUTS, just_above
from heatgraph.selection.folds import FEWEST_ROWS, N_FOLDS, is_ordered
from heatgraph.selection.likelihood import PENALTIES, SHRINKAGES, Strength
from heatgraph.solvers.driver import Keeper
from heatgraph.solvers.gaussian import GaussianFitter
from heatgraph.solvers.projected_newton import NewtonState
from heatgraph.solvers.result import Monitor, Progress, Status
from heatgraph.solvers.threads import bounded_blas

NO_NODES: Ints = np.empty(0, dtype=np.intp)
# That cut="auto" stands for.  The penalty of edges counts all rows as independent; where they are
# not, many noisy weights survive it, and the cut is where weights are rarest.
CUT_RULE, CUT_RULE_ORDERED = "typical", "valley"
SAME_SCALE = 1e-2  # relative: scales closer than this are one


class HeatCovariance(GaussianModelMixin, HiddenScoreMixin, ReportMixin, EmpiricalCovariance):
    r"""Learn a covariance whose structure is heat on a graph, by maximum likelihood.

    Signals are ``x = u + sum_s exp(-tau_s L) h_s + eps`` with heat ``h_s ~ N(0, v_s I)`` that is
    released everywhere and white noise ``eps``.  The sources integrate out:

    .. math::
        \min_{w \ge 0,\, v,\, \tau,\, \sigma^2} \; \log\det C + \mathrm{tr}(C^{-1} S_\rho)
        + \frac{2 c^2}{M} \sum_e \log\Big(1 + \frac{w_e}{c\, \mathrm{se}_e}\Big),
        \qquad C = \sum_s v_s e^{-2 \tau_s L(w)} + \sigma^2 I

    with ``S_rho = (1 - rho) S + rho tr(S)/N I`` the second moment of the ``M`` signals, a little
    shrunk, and ``se`` the standard errors of the weights.  ``HeatCovariance()`` chooses ``rho``
    and ``c`` by the likelihood of held-out signals, whatever their common size.

    Parameters
    ----------
    n_scales : int
        Number of diffusion scales.
    shrinkage : float in [0, 1) or "auto"
        ``rho`` above.
    penalty : float or "auto"
        ``c`` above: how many standard errors a weight has to be above zero.  With 0 the
        likelihood is maximised.
    fit_intercept : bool
        Whether the level ``u`` of each node is learned; otherwise it is 0.
    candidates : optional
        The pairs that may be edges: None or "all", a number of nearest neighbours, an edge list,
        a mask, a Graph.  With the sparse engine, None means 25 nearest neighbours, and "all" adds
        pairs to these until no other would become an edge (at most 30,000 nodes).
    n_edges : int or str, optional
        Keep this many edges in ``graph_``, or a multiple of the nodes such as "4N"; fewer where
        fewer were learned.
    cut : {"auto", "typical", "valley", "mixture", "otsu", "significance"} or float
        The smallest weight that ``graph_`` keeps, or the rule that finds it (see
        :class:`LearnHeat`); "auto" is "typical", and "valley" for the sparse engine or if each row
        of ``X`` resembles the one before, as in a time series (in memory only).
        "significance" keeps the edges whose p-value is at most 0.05 after Holm's correction for
        the number of pairs.
    decay : float in (0, 1]
        Factor by which the weight of earlier signals falls at each call of :meth:`partial_fit`.
    checkpoint : str or path-like, optional
        A file to which the fit writes its state; if it exists, the fit continues from it.  A file
        of other signals or parameters is refused.
    n_jobs : int, optional
        Number of threads for the choice of shrinkage and penalty.  Any number gives the same
        result.
    max_iter : int
        Largest number of iterations of one stage of the fit.
    tol : float
        Stop when a step promises a fall of the objective of no more than this, per node.
    solver : {"auto", "dense", "sparse"}
        "dense" works on arrays of all pairs of nodes.  "sparse", for large graphs, learns on
        candidate edges without such arrays.  It chooses the noise by the likelihood of the last
        fifth of the signals, with ``shrinkage`` 0.001 and a penalty of one standard error, and a
        prior keeps weights near those of a graph of nearest neighbours.  "auto" is "sparse" from
        400 nodes on.
    random_state : ignored
        There is nothing random in a fit; :meth:`sample` takes a seed of its own.
    verbose : int
        1 shows a progress bar.
    kernel : str or object
        "heat", :math:`e^{-\tau\lambda}`, or in its place "diffusion-plus-identity",
        ``(1 + exp(-tau lam)) / 2``, "tikhonov", ``1 / (1 + tau lam)``, "matern",
        ``(1 + tau lam)^-2``, "steady", ``(1 + tau lam)^(-1/2)``, "wave", ``cos(sqrt(tau lam))``,
        or any object with ``value`` and ``slope`` of ``(lam, tau)`` (see
        :mod:`heatgraph.kernels.spectral`).  "auto" takes "heat" unless held-out signals are more
        likely, by more than a standard error, with "tikhonov" or "steady": if heat is released all
        the time and lost, these predict better.  Scales of different kernels cannot be compared.
        With the sparse engine "auto" is "heat".  Waves can be learned from a covariance as long
        as ``tau lam`` is below ``(pi / 2)^2``, where the cosine changes its sign.
    cv : int or splitter, optional
        How signals are held out where shrinkage and penalty are chosen: the number of folds, by
        default 3, contiguous, with a gap if consecutive rows are correlated; or a splitter
        of scikit-learn.  Signals in memory only.

    Attributes
    ----------
    covariance_, precision_ : ndarray (n_nodes, n_nodes)
        ``C`` and its inverse; with the sparse engine scipy's LinearOperator.
    solver_ : str
        The engine that was used, "dense" or "sparse".
    location_ : ndarray (n_nodes,)
        ``u``.
    noise_variance_ : float
        ``sigma^2``.
    source_variances_ : ndarray (n_scales,)
        ``v``.
    scales_ : ndarray (n_scales,)
        ``tau``, ascending.
    weights_ : Graph
        Every edge of the model, as in ``covariance_``.
    laplacian_ : ndarray (n_nodes, n_nodes)
        Of ``weights_``; its trace is ``n_nodes``.
    graph_ : Graph
        The edges that stand out, with the node names of ``X``.  They come from a fit with a
        penalty of three standard errors, or ``penalty`` if that is larger, and almost no
        shrinkage, whatever ``shrinkage`` is.  ``graph_.confidence``
        is one minus the p-value of each edge.
    cut_ : float
        The weight at which ``graph_`` was cut; NaN for "significance".
    shrinkage_, penalty_ : float
        The values used.
    relaxed_ : bool
        Whether the penalty only chose the edges and was then left out.
    selection_ : DataFrame or None
        All parameters that were tried: the held-out log-likelihood per signal, with the covariance
        multiplied by the factor that fits the held-out signals best.
    objective_ : ndarray
        Its history in the last stage of the fit, the start first, for the signals in units of
        their root mean square.  Without the penalty if ``relaxed_``.  If entries are missing,
        with the likelihood of what was observed.
    status_ : str
        "converged", "max_iter", "stalled" or "interrupted": how the fit of ``weights_`` ended.
        "certified": converged, and no pair outside the candidates would become an edge.
    residual_ : float
        Fall of the objective, per node, that a step scaled by the information of each parameter
        still promises.  If entries are missing, with the likelihood of what was observed.
    n_iter_ : int
        Iterations of the last stage of the fit.
    n_signals_ : float
        The number of signals; with ``decay``, the sum of their weights.
    n_effective_ : float
        As how many signals they count in tests of edges: fewer than ``n_signals_`` if entries are
        missing (by the share of signals in which a pair of nodes was observed together), and if
        signals are correlated in time (by Bartlett's formula).
    second_moment_ : ndarray (n_nodes, n_nodes)
        ``S``; the model keeps nothing else of the signals.
    node_means_ : ndarray (n_nodes,)
        The mean of what was observed of each node.
    n_observed_ : ndarray (n_nodes,)
        How many values of each node were observed.
    edge_table_ : DataFrame or None
        With the sparse engine: the tests that :meth:`edge_statistics` gives, without names.
    kernel_ : str or object
        The kernel of the fit; what "auto" chose.
    comparison_ : ModelComparison or None
        Why :func:`heatgraph.learn` kept this model.

    Examples
    --------
    >>> from heatgraph.datasets import make_graph, make_heat_signals
    >>> graph = make_graph("er", 12, random_state=0)
    >>> X, _ = make_heat_signals(graph, [2.0], 300, n_sources=12, noise_std=0.05, random_state=0)
    >>> model = HeatCovariance().fit(X[:200])
    >>> str(model.status_), model.covariance_.shape
    ('converged', (12, 12))
    >>> model.score_hidden(X[200:]) > 0.5
    True
    """

    _ordered = False  # whether each signal resembled the one before; a file does not tell

    def __init__(
        self,
        n_scales: int = 1,
        shrinkage: float | str = "auto",
        penalty: float | str = "auto",
        fit_intercept: bool = True,
        candidates: Any = None,
        n_edges: int | str | None = None,
        cut: float | str = "auto",
        decay: float = 1.0,
        checkpoint: Any = None,
        n_jobs: int | None = None,
        max_iter: int = 500,
        tol: float = 1e-5,
        solver: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
        kernel: Any = "heat",
        cv: Any = None,
    ) -> None:
        self.n_scales = n_scales
        self.shrinkage = shrinkage
        self.penalty = penalty
        self.fit_intercept = fit_intercept
        self.candidates = candidates
        self.n_edges = n_edges
        self.cut = cut
        self.decay = decay
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.max_iter = max_iter
        self.tol = tol
        self.solver = solver
        self.random_state = random_state
        self.verbose = verbose
        self.kernel = kernel
        self.cv = cv

    def fit(
        self, X: Any, y: Any = None, groups: Any = None, *, monitor: Monitor | None = None
    ) -> Self:
        """Learn the covariance and the graph.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes), of NumPy, pandas or Dask
            NaN marks an entry that was not observed (in memory only; the sparse engine draws
            these entries from its model and fits anew, three times).  The columns of a data frame
            name the nodes.  Signals that follow each other in time should be in order: what is
            held out are contiguous blocks.  Time series in epochs, (n_epochs, n_times, n_nodes),
            are read by :func:`time_series`.
        y : ignored
        groups : array-like (n_signals,), optional
            Signals of one group are held out together; epochs are groups unless others are given.
            Signals in memory only.
        monitor : callable, optional
            Called with a :class:`~heatgraph.solvers.result.Progress` after every iteration; a
            KeyboardInterrupt from it, or Ctrl-C, ends the fit with the best so far.

        Returns
        -------
        Self
            The estimator, fitted.
        """
        X, groups = with_epochs(X, groups)
        names = node_names(X)
        check_choice("solver", self.solver, ("auto", "dense", "sparse"))
        if is_dask(X):
            if groups is not None:
                raise ValueError("groups needs signals in memory, got a Dask collection.")
            n_nodes = int(as_array(X).shape[1])
            if is_large(self.solver, n_nodes):
                set_features(self, n_nodes, names)
                fit_large_chunks(self, X, names, monitor)
                self.n_observed_ = np.full(n_nodes, self.n_signals_)
                self._warn_of_graph()
                return self
            parts = fold_moments(X, N_FOLDS)
            set_features(self, len(parts[0].mean), names)
            total = reduce(add, parts)
            if self.fit_intercept and not np.diag(total.scatter).any():
                raise ValueError(
                    f"X holds no signal: no node varies in its {total.count:.0f} signals (samples)."
                )
            warn_of_twins(self, total.scatter, names)
            content = np.stack([part.scatter for part in parts])
            measured = Measured.moments(parts, bool(self.fit_intercept))
            self._run(measured, names, monitor, content)
            self.n_observed_ = np.full(n_nodes, self.n_signals_)
            return self
        observations = check_signals(self, X, reset=True)
        silent, still = self._check_observed(observations, names)
        self.n_observed_ = counts_of(observations)
        warn_of_copies(self, observations.T, names)
        if is_large(self.solver, observations.shape[1]):
            fit_large(self, observations, names, monitor, groups)
            self._warn_of_graph()
            return self
        measured = Measured.signals(observations, bool(self.fit_intercept))
        return self._run(
            measured, names, monitor, observations, groups=groups, silent=silent, still=still
        )

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from further signals; earlier ones count ``decay`` times as much as before.

        Shrinkage and penalty are those that the first call chose.  A shrinkage that was chosen then
        falls as the number of signals grows, in inverse proportion to it.  In tests of edges, fewer
        than twelve signals count as those before them.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            Further signals, on the same nodes as those of the earlier calls.
        y : ignored

        Returns
        -------
        Self
            The estimator, fitted.
        """
        decay = check_number("decay", self.decay, strict=True)
        if decay > 1.0:
            raise ValueError(f"decay must be at most 1, got {self.decay!r}.")
        if not hasattr(self, "second_moment_"):
            return self.fit(X)
        if self.solver_ == "sparse":
            raise ValueError(
                "partial_fit needs the second moment of all pairs, which solver='sparse' does not "
                "keep; fit all signals at once, or pass solver='dense'."
            )
        names = self.weights_.names
        if is_dask(X):
            further, share, ordered = fold_moments(X, 1)[0], 1.0, False
            self.n_observed_ = self.n_observed_ + further.count
        else:
            observations = check_signals(self, X, reset=False)
            further = expected_moments(observations, self.location_, self.covariance_)
            share, ordered = counting(observations), is_ordered(observations)
            if len(observations) < FEWEST_ROWS:  # which cannot say how they hang together
                share, ordered = self.n_effective_ / self.n_signals_, self._ordered
            self.n_observed_ = self.n_observed_ + counts_of(observations)
        mean = self.location_ if self.fit_intercept else self.node_means_
        apart = mean - self.location_
        scatter = self.n_signals_ * (self.second_moment_ - np.outer(apart, apart))
        seen = Moments(self.n_signals_, mean, scatter)
        both = seen.decayed(decay) + further
        rho = self.shrinkage_
        if isinstance(self.shrinkage, str):
            rho *= min(1.0, self.n_signals_ / both.count)
        effective = decay * self.n_effective_ + share * further.count
        chosen_kernel = self.kernel_ if is_auto(self.kernel) else ""
        strength = Strength(rho, self.penalty_, self.relaxed_, chosen_kernel)
        chosen = self.selection_
        measured = replace(
            Measured.moments([both], bool(self.fit_intercept)),
            counting=effective / both.count,
            ordered=ordered,
        )
        self._run(measured, names, None, None, strength=strength)
        self.selection_ = chosen
        return self

    def _run(
        self,
        signals: Measured,
        names: Names,
        monitor: Monitor | None,
        content: Any,
        strength: Strength | None = None,
        groups: Any = None,
        silent: Ints = NO_NODES,
        still: Ints = NO_NODES,
    ) -> Self:
        """Fit; nodes that were never observed or constant get no edges in ``graph_``.

        The model ties constant nodes to others all the same: a tracer that has not arrived at a
        station so far may arrive there, and then it comes from the stations around.
        """
        belongs = {}
        if self.checkpoint is not None and content is not None:
            belongs = fingerprint(self, content, names)
        path = None if content is None else self.checkpoint
        n_jobs = n_threads(self.n_jobs)
        watched = watch_fit(self.verbose, monitor, tol=self.tol)
        with kept_in(path, belongs) as keeper, watched as watch, bounded_blas(self.n_features_in_):
            check_range(signals.unit)
            candidates = resolve_candidates(self.candidates, signals.rows, names).without(silent)
            n_edges = check_n_edges(edge_count(self.n_edges, candidates.n_nodes), candidates)
            settings = replace(
                self._settings(candidates, watch, keeper), n_jobs=n_jobs, cv=self.cv, groups=groups
            )
            fit = signals.fit(settings, strength)
            self.node_means_ = signals.node_means
            self.n_effective_ = float(fit.moments.count * signals.counting)
            self._ordered = signals.ordered
            usual = CUT_RULE_ORDERED if signals.ordered else CUT_RULE
            rule = usual if self.cut == "auto" else self.cut
            self._store(settings, fit, signals.unit, names, n_edges, still, rule)
        warn_of_status(self)
        self._warn_of_graph()
        self._warn_of_scales()
        return self

    def _settings(
        self, candidates: CandidateEdges, watch: Watch, keeper: Keeper
    ) -> CovarianceSettings:
        rho = _strengths("shrinkage", self.shrinkage, SHRINKAGES)
        if max(rho) >= 1.0:
            raise ParameterError("shrinkage", f"must be below 1, got {self.shrinkage!r}.")
        check_number_or("cut", self.cut, ("auto", *CUTS, "significance"))
        max_iter = int(check_number("max_iter", self.max_iter, minimum=1, integer=True))

        def report(state: NewtonState[Any]) -> None:
            if watch.step is not None:
                n = int((state.point.x[: candidates.n_edges] > 0.0).sum())
                value = state.history[-1]
                watch.step(Progress(state.n_iter, max_iter, value, n, state.residual))

        kernels = KERNEL_CHOICE if is_auto(self.kernel) else ("",)
        fitter = GaussianFitter(
            candidates,
            int(check_number("n_scales", self.n_scales, minimum=1, integer=True)),
            check_number("tol", self.tol, strict=True),
            max_iter,
            report,
            kernel_of(kernels[0] or self.kernel),
        )
        return CovarianceSettings(
            fitter,
            rho,
            _strengths("penalty", self.penalty, PENALTIES),
            bool(self.fit_intercept),
            tried=watch.tried,
            keeper=keeper,
            kernels=kernels,
        )

    def _store(
        self,
        settings: CovarianceSettings,
        found: CovarianceFit,
        unit: float,
        names: Names,
        n_edges: int | None,
        still: Ints,
        rule: float | str,
    ) -> None:
        point, N = found.fit.point, settings.fitter.candidates.n_nodes
        total = float(point.w.sum())
        stretch = 2.0 * total / N  # what brings the trace of L to N, and the scales back
        w = point.w / stretch if total > 0.0 else point.w
        store_graph(self, point.problem.candidates, w, names, None)
        order = np.argsort(point.spectrum.tau, kind="stable")
        self.scales_ = point.spectrum.tau[order] * stretch
        self.source_variances_ = per_square(point.spectrum.v[order], unit)
        self.noise_variance_ = float(per_square(point.spectrum.sigma2, unit))
        self.solver_ = "dense"
        self.covariance_ = per_square(point.covariance, unit)
        self.precision_ = over_square(point.precision, unit)
        self.location_ = found.location * unit
        self.n_signals_ = float(found.moments.count)
        second = found.moments.around(found.location)
        self.second_moment_ = per_square(second, unit)
        self.shrinkage_, self.penalty_ = float(found.strength.rho), float(found.strength.c)
        self.relaxed_ = bool(found.strength.relaxed)
        self.kernel_ = found.strength.kernel or self.kernel
        self.selection_ = found.selection
        self.comparison_, self.edge_table_ = None, None
        self.objective_ = np.array(found.fit.history)
        self.status_, self.residual_ = found.status, float(found.fit.residual)
        self.n_iter_ = found.fit.n_iter
        self._store_edges(settings, found, second, names, n_edges, still, rule)

    def _store_edges(
        self,
        settings: CovarianceSettings,
        found: CovarianceFit,
        second: Array,
        names: Names,
        n_edges: int | None,
        still: Ints,
        rule: float | str,
    ) -> None:
        """``graph_``: the edges that stand out, with the confidence in each."""
        point = found.edges.point
        if n_edges is not None and np.count_nonzero(point.w) < n_edges:
            point = found.fit.point  # which has more of them, most often
        pairs = point.problem.candidates
        w = np.where(pairs.includes(still), 0.0, point.w)
        total = float(w.sum())
        w = w * (0.5 * pairs.n_nodes / total) if total > 0.0 else w
        graph = pairs.graph(w, names)
        self.cut_ = float("nan")
        if n_edges is not None:
            graph = graph.cut(n_edges=n_edges)
            self.cut_ = float(graph.weights.min(initial=np.inf)) if graph.n_edges else 0.0
        elif rule != "significance":
            # A rule gives the largest weight that is no edge.
            self.cut_ = just_above(CUTS[rule](w)) if isinstance(rule, str) else float(rule)
            graph = graph.cut(weight=self.cut_)
        elif graph.n_edges:
            graph = significant_edges(settings.fitter, second, self.n_effective_, graph)
        self.graph_ = graph
        if graph.n_edges and found.status is not Status.INTERRUPTED:
            tests = tests_of(settings.fitter, second, self.n_effective_, graph, graph.edges)
            p = tests["p_value"].to_numpy()
            confidence = None if np.isnan(p).any() else 1.0 - p
            self.graph_ = Graph(graph.edges, graph.weights, graph.n_nodes, names, confidence)

    def _check_observed(self, X: Array, names: Names) -> tuple[Ints, Ints]:
        """Nodes never observed and nodes that are constant, which are warned of.

        No signal is an error.
        """
        observed = ~np.isnan(X)
        around = centre_nodes(X)[1] if self.fit_intercept else X
        if not np.nanmax(np.abs(around), initial=0.0) > 0.0:
            seen = "no entry was observed" if not observed.any() else "no node varies"
            hint = (
                " X is one sample, its own mean: pass fit_intercept=False." if len(X) == 1 else ""
            )
            raise ValueError(
                f"X holds no signal: {seen}. A graph can only be learned from signals that "
                f"vary.{hint}"
            )
        silent = np.flatnonzero(~observed.any(axis=0))
        still = np.flatnonzero(
            observed.any(axis=0)
            & (np.nanmax(np.abs(np.where(observed, around, 0.0)), axis=0) == 0.0)
        )
        for nodes, what in ((silent, "never observed"), (still, "constant")):
            if nodes.size:
                listed = [int(k) if names is None else names[k] for k in nodes]
                warnings.warn(
                    f"HeatCovariance: {what}, so that nothing is known of their edges: {listed}. "
                    "The graph keeps these nodes, without edges.",
                    stacklevel=3,
                )
        return silent, still

    def _warn_of_scales(self) -> None:
        if np.any(np.diff(self.scales_) <= SAME_SCALE * self.scales_[1:]):
            warnings.warn(
                f"HeatCovariance: n_scales={self.scales_.size}, but scales of the fit are equal: "
                "these signals do not tell them apart. Give more signals or fewer candidates, or "
                "lower n_scales.",
                stacklevel=3,
            )

    def _warn_of_graph(self) -> None:
        if self.graph_.n_edges == 0 and self.status_ is not Status.INTERRUPTED:
            warnings.warn(
                "HeatCovariance: no edge stands out from the noise, so that these signals show no "
                "graph; give more signals, or lower penalty.",
                stacklevel=3,
            )


def _strengths(name: str, value: Any, choices: tuple[float, ...]) -> tuple[float, ...]:
    """The one that is given, or those to choose from."""
    given = check_number_or(name, value, ("auto",))
    return choices if isinstance(given, str) else (given,)
