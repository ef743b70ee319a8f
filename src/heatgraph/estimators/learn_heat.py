"""LearnHeat: the graph, the scales and the sources of signals that diffused."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from heatgraph.arrays import Array, Ints
from heatgraph.distributed.signals import DaskSignals
from heatgraph.errors import ParameterError
from heatgraph.estimators.checkpoint import fingerprint, kept_in
from heatgraph.estimators.fit_warnings import duration, expected_seconds, warn_of_fit
from heatgraph.estimators.fitted_graph import CUT, ReportMixin, store_graph, warn_of_status
from heatgraph.estimators.fitting import Fit, fit_heat, mean_around, refit_resamples
from heatgraph.estimators.hidden import HiddenScoreMixin, as_given, warn_of_guesses
from heatgraph.estimators.input_signals import Intake, filled_signals, take_in
from heatgraph.estimators.large import fit_large
from heatgraph.estimators.model import DenseModel, LargeModel, SourceCodes, SourcesMixin
from heatgraph.estimators.parameters import (
    PENALTY_OF,
    HeatParameters,
    is_large,
    n_threads,
    other_kernel,
    resolve,
)
from heatgraph.estimators.progress import watch_fit
from heatgraph.estimators.time_series import with_epochs
from heatgraph.estimators.validation import (
    check_number,
    check_number_or,
    check_signals,
    per_square,
    unit_of,
    warn_of_twins,
)
from heatgraph.kernels.spectral import kernel_of
from heatgraph.models.heat import Signals
from heatgraph.selection.cut import CUTS, valley_cut
from heatgraph.selection.masked_prediction import HIDDEN_SHARE, hide_entries
from heatgraph.solvers.driver import Keeper
from heatgraph.solvers.result import Monitor, Status
from heatgraph.solvers.signal_model import level_of
from heatgraph.solvers.threads import bounded_blas

LONG = 10.0  # seconds: a fit that takes longer is announced with verbose=1
MERGED = 1e-2  # two scales this near, relatively, are one


class LearnHeat(HiddenScoreMixin, SourcesMixin, ReportMixin, TransformerMixin, BaseEstimator):
    r"""Learn the graph on which a few sources diffused into the signals.

    .. math::
        \min_{L, H, \tau, u} \; \Big\| X - u 1^T - \sum_s e^{-\tau_s L} H_s \Big\|_F^2
        + \sum_{s, i, m} p(\omega_{si} |H_{sim}|) + \beta \|L\|_F^2

    over valid Laplacians of trace ``n_nodes`` and scales ``tau >= 0``, with ``H >= 0`` if
    ``positive``, and with the level ``u`` of the nodes held at 0 unless ``fit_intercept``.
    ``LearnHeat()`` chooses everything from the signals.  With ``atoms="raw"`` (``omega = 1``,
    ``p(c) = alpha c``) this is the problem of Thanou, Dong, Kressner and Frossard, "Learning heat
    diffusion graphs" (2017).  With ``atoms="unit"`` an atom costs its norm,
    ``omega_si = ||exp(-tau_s L) delta_i||``, without which the scales are not identified, and
    ``p(c) = alpha^2 log(1 + c / alpha)``, which finds the sources without shrinking them.

    Parameters
    ----------
    n_scales : int or "auto"
        Number of diffusion scales; "auto" chooses among 1, 2 and 3.
    alpha : float or "auto"
        The penalty on sources, in the units of ``X``.  "auto" chooses alpha and beta by signals
        that are held out: it keeps the values that make them most likely, under the covariance
        that a graph and its scales imply, and among those within one standard error the sparsest
        sources.  If signals are fitted with gaps, it keeps what predicts hidden entries best.
    beta : float or "auto"
        The penalty on uneven edge weights, in the squared units of ``X``.
    scales : sequence of float, optional
        The scales to use, with ``learn_scales=False``; otherwise a further start for learning
        them.  (If a penalty is chosen too, the start has no influence.)
    learn_scales : bool
        Whether the scales are learned too.
    atoms : {"unit", "raw"}
        The weight of an atom in the penalty on sources: its norm, or 1 as in the paper.
    solver : {"auto", "dense", "sparse", "paper"} or PaperOptions
        "dense" learns the graph and the sources together, on an array of all pairs.  "sparse" is
        for large graphs and needs no such array: it learns the graph first, as
        :class:`HeatCovariance` does, on candidate edges; then it chooses the scales and alpha by
        masked prediction of some signals, and finds the sources of all of them.  "auto" is
        "sparse" from 2000 nodes on, else "dense".  "paper" runs the paper's two algorithms as
        published, with a conic solver (``pip install "heatgraph[paper]"``); so does a
        :class:`~heatgraph.PaperOptions`, which sets what the paper leaves open.
    candidates : optional
        The pairs that may be edges: None or "all", a number of nearest neighbours, an edge list,
        a mask, a Graph.  For ``solver="sparse"`` they mean what they mean for
        :class:`HeatCovariance`.
    n_edges : int or str, optional
        Keep this many edges in ``graph_``, or a multiple of the nodes such as "4N"; beta, where
        it is "auto", is chosen to give about as many.
    checkpoint : str or path-like, optional
        A file to which the fit writes its state, every half minute and when it ends.  If the file
        exists, the fit continues from it, and its result has the same bits as without a stop; a
        file of other signals or parameters is refused.  The file stays when the fit is done
        (fitting again then returns at once): delete it when the model is saved.  With
        ``solver="paper"`` it holds whole fits only.
    n_jobs : int, optional
        Number of processes for the choice of parameters and the resamples, and of threads for
        finding sources.  Any number gives the same result.  Meanwhile BLAS has one thread (from
        500 nodes on, ``n_jobs`` in the fit itself, whose last bits may then differ).
    max_iter : int, optional
        Largest number of iterations of the fit.  By default 2000; with ``solver="sparse"`` 500 for
        the graph; with ``solver="paper"`` 1000, as in the paper.
    tol : float
        Stop when the gradient promises no larger relative fall of the objective.  (For
        ``solver="paper"``: the paper's own rule, an absolute change of the objective.  For
        ``solver="sparse"``: the duality gap of the sources of a signal, over its energy.)
    random_state : int, Generator or None
        Seed of the folds, the hidden entries and the random start.  None is a fixed seed, too.
    verbose : int
        1 shows a progress bar, and before a fit of more than about ten seconds an estimate of its
        time, from a step that is measured.
    init : {"uniform", "random"} or Graph
        The graph to start from.  Differs from the paper: there the start is random.
    penalty : {"auto", "log", "l1"}
        ``p`` above; "auto" is "log" for unit atoms and "l1", the paper's, for raw ones.
    cut : {"auto", "typical", "valley", "mixture", "otsu"} or float
        The smallest weight that ``graph_`` keeps, or the rule that finds it: a share of the
        typical weight, where weights are rarest near that, where noise and edges separate in a
        mixture, or Otsu's.  "auto" is "valley" for ``penalty="log"``, but nearer to "typical" where
        few weights say where they are rare, and the paper's 1e-4 for "l1"; on large graphs it is
        that of :class:`HeatCovariance`.  If alpha is chosen too, a rule cuts the mean of several
        fits: with ``alpha_``, half and twice of it, and with some of the signals held out.
    n_bootstrap : int
        Refit this many resamples of the signals; ``graph_.confidence`` is then the share of them
        in which each edge was found.
    fit_intercept : bool
        Whether each node has an unknown level ``u``, the same in all signals, around which heat
        diffuses.  It is learned together with the graph, the scales and the sources, as a part of
        the same objective, and is not penalised.  Adding a constant to a column of ``X`` then
        changes ``location_`` only.  Needs ``solver="dense"`` and signals in memory.
    positive : bool
        Whether sources cannot be negative, as for a tracer that is released or heat that is only
        ever added.  Needs signals in memory.
    cv : int or splitter, optional
        How signals are held out where parameters are chosen: the number of folds, by default 3,
        or a splitter of scikit-learn.  Folds are drawn at random; if consecutive rows are
        correlated, as in a time series, they are contiguous blocks with a gap.
    warm_start : bool
        Whether a further ``fit`` of the same signals continues the last one, with the parameters
        that it chose: after ``max_iter`` was reached and raised, or after Ctrl-C.  A
        ``checkpoint`` works in the same way.
    kernel : {"heat", "diffusion-plus-identity", "tikhonov", "matern", "steady", "wave"} or object
        The kernel in place of :math:`e^{-\tau\lambda}`, as for :class:`HeatCovariance`.  Not with
        ``solver="paper"`` or Dask collections.  With "wave" the objective has many minima, and the
        fit may end in a poor one: give ``scales`` to start from.
    missing : {"auto", "expected", "observed"}
        The treatment of NaN in the fit.  "observed" fits the observed entries alone: the squared
        norm above is a sum over these.  "expected" first replaces the others by their means given
        the observed ones, under a :class:`HeatCovariance` of the same signals; entries that are
        held out to be predicted are observed ones.  "auto" is "expected" where alpha or beta is
        chosen and where at most a third of the variance of the missing entries is unknown given the
        others, and "observed" elsewhere.  Not with Dask collections or ``solver="sparse"``.

    Attributes
    ----------
    graph_ : Graph
        The learned graph, cut, with the node names of ``X``.  If alpha is chosen too, the mean of
        several fits is cut, see ``cut``.
    weights_ : Graph
        Every edge that was learned with ``alpha_``, before the cut.
    laplacian_ : ndarray or sparse array (n_nodes, n_nodes)
        The learned Laplacian before the cut; its trace is ``n_nodes``.  Sparse past 1000 nodes,
        where not every pair was a candidate.
    scales_ : ndarray (n_scales,)
        Ascending; two that met are reported as one.
    sources_ : ndarray (n_signals, n_scales, n_nodes)
        The sources of each signal, stationary together with the graph.  :meth:`transform` of the
        same signals may differ with ``penalty="log"``, see there.  For a Dask collection, a Dask
        array that finds them, one chunk at a time, when it is computed.
    location_ : ndarray (n_nodes,)
        The level of each node; zeros unless ``fit_intercept``, and zero for a node that was never
        observed.  The residuals at each node have the mean 0, to 1e-6 or so of the size of the
        signals (with a warning where it is more than 1e-4).
    node_means_ : ndarray (n_nodes,)
        The mean of what was observed of each node, whether or not a level is learned: what
        :meth:`score_hidden` compares with.
    n_observed_ : ndarray (n_nodes,)
        How many values of each node were observed.
    objective_ : ndarray
        Its history, the start first and the final value last.  In the rounds of
        ``penalty="log"`` it is that of the round's tangent, which lies above.  The last value is
        the objective's own.  With ``solver="sparse"`` two values, on the graph found: without
        sources, and with them.
    status_ : str
        "converged", "max_iter", "stalled" or "interrupted".
    residual_ : float
        Relative fall of the objective that the gradient still promises, with the logarithmic
        penalty itself where that is minimised and not that of a tangent.
    n_iter_ : int
        Iterations of the fit.
    alpha_, beta_ : float
        The penalties used.
    selection_ : DataFrame or None
        All parameters that were tried.  ``log_likelihood``, by which they are chosen, is the mean
        over the held-out signals, up to a constant; ``missed`` is the share of the energy of
        hidden entries that was not predicted, with ``fit_intercept`` around the mean of each node.
    stretches_ : DataFrame or None
        The factors of the scales that were tried after that, the betas tried with these, and, for
        the final choice, the multiples ``coding`` of alpha with which hidden entries were
        predicted.
    held_out_ : HeldOutScore or None
        The share of the variance of hidden entries, around the node means, that what was chosen
        predicts of held-out signals, beside that of ``LedoitWolf``, a Gaussian without a graph.
    chosen_at_end_ : tuple of str
        Names the parameters for which the smallest or largest value tried was chosen.  The smallest
        alpha or beta is natural if there is little noise; for the largest the fit warns.
    predicting_alpha_ : float
        The penalty with which :meth:`impute` and :meth:`score` find sources: ``alpha_``, or
        less where that was seen to predict better.
    cut_ : float
        The weight at which ``graph_`` was cut.
    comparison_ : ModelComparison or None
        Why :func:`heatgraph.learn` kept this model.

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
        n_scales: int | str = 2,
        alpha: float | str = "auto",
        beta: float | str = "auto",
        scales: Any = None,
        learn_scales: bool = True,
        atoms: str = "unit",
        solver: str = "auto",
        candidates: Any = None,
        n_edges: int | str | None = None,
        checkpoint: Any = None,
        n_jobs: int | None = None,
        max_iter: int | None = None,
        tol: float = 1e-4,
        random_state: Any = None,
        verbose: int = 0,
        init: Any = "uniform",
        penalty: str = "auto",
        cut: float | str = "auto",
        n_bootstrap: int = 0,
        fit_intercept: bool = False,
        positive: bool = False,
        cv: Any = None,
        warm_start: bool = False,
        kernel: Any = "heat",
        missing: str = "auto",
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
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.init = init
        self.penalty = penalty
        self.cut = cut
        self.n_bootstrap = n_bootstrap
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.cv = cv
        self.warm_start = warm_start
        self.kernel = kernel
        self.missing = missing

    def fit(
        self, X: Any, y: Any = None, groups: Any = None, *, monitor: Monitor | None = None
    ) -> Self:
        """Learn the graph, the scales and the sources.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes), of NumPy, pandas or Dask
            NaN marks an entry that was not observed.  The columns of a data frame name the nodes.
            Signals of a Dask collection stay in their chunks, with the workers of the client that
            is there; the result is that of the same signals in memory.  Time series in epochs,
            (n_epochs, n_times, n_nodes), are read by :func:`time_series`.
        y : ignored
        groups : array-like (n_signals,), optional
            Signals of one group are held out together where parameters are chosen; epochs are
            groups unless others are given.
        monitor : callable, optional
            Called with a :class:`~heatgraph.solvers.result.Progress` after every iteration; a
            KeyboardInterrupt from it, or Ctrl-C, ends the fit with the best so far.  While the
            parameters are still being chosen, that is the best choice so far, with the graph that
            its folds have in the mean; before anything was tried, it is raised.

        Returns
        -------
        Self
            The estimator, fitted.
        """
        X, groups = with_epochs(X, groups)
        with take_in(self, X) as given:
            n_bootstrap = int(check_number("n_bootstrap", self.n_bootstrap, integer=True))
            check_number_or("cut", self.cut, ("auto", *CUTS))
            if is_large(self, given.signals):
                fit_large(self, given, groups, monitor)
                return self
            belongs = {}
            if self.checkpoint is not None:
                belongs = fingerprint(self, given.content, given.names)
            if isinstance(given.signals, DaskSignals):
                warn_of_twins(self, given.signals.gram, given.names)
            parameters = resolve(self, given.signals, given.unit, given.names, groups)
            filled = filled_signals(self, given.signals)
            if filled is not None:
                gaps = parameters.signals
                assert isinstance(gaps, Signals)  # for the type checker: others are not filled
                parameters = resolve(self, filled, given.unit, given.names, groups)
                parameters = replace(parameters, gaps=gaps)
            free = isinstance(self.beta, str)
            going_on = self.warm_start or bool(belongs and os.path.exists(self.checkpoint))
            threads = bounded_blas(self.n_features_in_, parameters.n_jobs)
            with kept_in(self.checkpoint, belongs) as keeper, threads:
                with watch_fit(self.verbose, monitor, given.unit * given.unit, self.tol) as watch:
                    if watch.say is not None and not going_on:
                        _tell_cost(parameters, n_bootstrap, watch.say)
                    fit = fit_heat(
                        parameters,
                        watch.step,
                        watch.tried,
                        beta_is_free=free,
                        keeper=keeper,
                        earlier=self._earlier(given),
                    )
                    watch.begin("fitting twice more, to see which edges stay")
                    fit, steady = self._steady(parameters, fit, keeper)
                self._store(parameters, fit, given, steady)
                if self.warm_start:
                    self._last = fit, given.signals
                if n_bootstrap and self.status_ is not Status.INTERRUPTED:
                    self._measure_confidence(parameters, fit, n_bootstrap, keeper)
        warn_of_status(self)
        warn_of_fit(self, parameters, fit, given.names)
        return self

    def _earlier(self, given: Intake) -> Fit | None:
        """The last fit, if it is to be gone on from and was of the same signals."""
        fit, signals = getattr(self, "_last", (None, None))
        if not self.warm_start or fit is None:
            return None
        here = given.signals
        if not isinstance(signals, np.ndarray) or not isinstance(here, np.ndarray):
            return None
        same: Fit | None = fit if np.array_equal(signals, here, equal_nan=True) else None
        return same

    def _steady(self, p: HeatParameters, fit: Fit, keeper: Keeper) -> tuple[Fit, Array]:
        """The weights that say which pairs are edges: the mean of a few fits, where it can be.

        Stopped by the user while those are made, the fit's own have to do.
        """
        own, chosen = fit.solution.w, len(p.alphas) > 1 and fit.choice is not None
        ruled = p.penalty == "log" and p.n_edges is None and isinstance(self.cut, str)
        if not chosen or not ruled or fit.solution.status is Status.INTERRUPTED:
            return fit, own
        try:
            return fit, mean_around(p, fit, keeper)
        except KeyboardInterrupt:
            return replace(fit, solution=replace(fit.solution, status=Status.INTERRUPTED)), own

    def _store(self, p: HeatParameters, fit: Fit, given: Intake, steady: Array) -> None:
        solution, unit = fit.solution, given.unit
        store_graph(self, fit.objective.candidates, solution.w, given.names, None)
        pairs = fit.objective.candidates
        silent = given.n_observed == 0  # nothing is known of these nodes' edges
        steady = np.where(silent[pairs.i] | silent[pairs.j], 0.0, steady)
        self.cut_ = self._cut_at(p, steady)
        self.graph_ = pairs.graph(steady, given.names).cut(weight=self.cut_)
        if p.n_edges is not None:  # no more of them, where weights tie
            self.graph_ = self.weights_.cut(n_edges=p.n_edges)
        self.scales_, scale_of = _merge_scales(solution.tau)
        self.sources_ = given.sources(solution, scale_of)
        self.location_ = given.level + unit * level_of(solution, pairs.n_nodes)
        self.node_means_, self.n_observed_ = given.node_means, given.n_observed
        self.comparison_ = None
        self.objective_ = per_square(solution.objective, unit)
        self.status_ = solution.status
        self.residual_ = solution.residual
        self.n_iter_ = solution.n_iter
        self.alpha_ = fit.objective.alpha * unit
        self.beta_ = per_square(fit.objective.beta, unit)
        self.selection_ = self.stretches_ = self.held_out_ = None
        self.chosen_at_end_: tuple[str, ...] = ()
        self.predicting_alpha_ = self.alpha_
        if fit.choice is not None:
            self.selection_ = _in_units(fit.choice.table, unit)
            self.predicting_alpha_ = fit.choice.coding * self.alpha_
            self.held_out_ = fit.choice.held_out
            self.chosen_at_end_ = fit.choice.ends
            if fit.choice.stretches is not None:
                self.stretches_ = _in_units(fit.choice.stretches, unit)

    def _cut_at(self, p: HeatParameters, w: Array) -> float:
        """The weight at which to cut; just above the heaviest that counts as noise."""
        if p.n_edges is not None:
            return float(np.sort(w[w > 0.0])[-p.n_edges :].min())
        if not isinstance(self.cut, str):
            return float(self.cut)
        if self.cut == "auto" and p.penalty == "l1":
            return CUT
        rule = _usual_cut if self.cut == "auto" else CUTS[self.cut]
        return max(float(np.nextafter(rule(w), np.inf)), CUT)

    def _measure_confidence(self, p: HeatParameters, fit: Fit, n: int, keeper: Keeper) -> None:
        """The share of resampled fits in which each edge of the graph is above the cut.

        Stopped by the user, those that were made have to do.
        """
        weights: list[Array] = []
        try:
            for w in refit_resamples(p, fit, n, keeper):
                weights.append(w)
        except KeyboardInterrupt:
            self.status_ = Status.INTERRUPTED
            left = "is the share of these" if weights else "is not known"
            warnings.warn(
                f"LearnHeat: stopped after {len(weights)} of {n} resamples: the confidence of the "
                f"edges {left}.",
                stacklevel=3,
            )
        if not weights:
            return
        found = np.mean([w >= self._cut_at(p, w) for w in weights], axis=0)
        index = {pair: k for k, pair in enumerate(zip(p.candidates.i, p.candidates.j, strict=True))}
        self.graph_ = replace(
            self.graph_, confidence=found[[index[i, j] for i, j in self.graph_.edges]]
        )

    def code(self, X: Any, *, start: Any = None) -> SourceCodes:
        """The sources of signals on the learned graph, with the duality gap that each reached.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            NaN marks an entry that was not observed.
        start : ndarray (n_signals, n_scales, n_nodes), optional
            Sources to go on from.  The logarithmic penalty is not convex: a signal may have
            several sets of sources that are stationary.  ``code(X, start=sources_)`` of the
            signals of the fit gives ``sources_`` again; without a start, and in
            :meth:`transform`, sources are found from none at all, and some signals end at another
            set.  Needs the array of all pairs, as ``solver="dense"`` has it.

        Returns
        -------
        SourceCodes
            The sources, their duality gaps, and a table of them by ``to_pandas()``.
        """
        check_is_fitted(self)
        around = check_signals(self, X, reset=False) - self.location_
        unit = unit_of(around)
        signals = Signals.from_missing(around.T / unit)
        model = self._model()
        if start is None:
            coding = model.code(signals, self.alpha_ / unit)
        else:
            if not isinstance(model, DenseModel):
                raise ValueError(
                    "start must be None for a graph learned by the sparse solver, which "
                    "finds sources without one."
                )
            given = self._as_sources(start).reshape(len(around), -1) / unit
            coding = model.code(signals, self.alpha_ / unit, given)
        energy = signals.energy
        gap = np.divide(coding.gap, energy, out=np.zeros_like(energy), where=energy > 0.0)
        shape = (len(around), self.scales_.size, self.n_features_in_)
        rows = X.index.tolist() if isinstance(X, pd.DataFrame) else ()
        return SourceCodes(
            coding.h.reshape(shape) * unit,
            gap,
            signals=rows,
            nodes=self.graph_.names or (),
            scales=self.scales_.tolist(),
        )

    def transform(self, X: Any) -> Array:
        """The sources of signals on the learned graph, one row per signal.

        They are stationary for the penalty of the fit.  Under ``penalty="l1"`` that makes them the
        minimum, to a duality gap of 1e-11 of the signal's energy.  The logarithmic penalty has
        several stationary points for some signals: those of the fit are in ``sources_``, and
        ``code(X, start=sources_)`` stays with them; this method starts from no sources, as it
        must for new signals, and may end at others.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            NaN marks an entry that was not observed.

        Returns
        -------
        ndarray (n_signals, n_scales * n_nodes)
            ``.reshape(-1, n_scales, n_nodes)`` has the layout of ``sources_``.
        """
        sources = self.code(X).sources
        return sources.reshape(len(sources), -1)

    def impute(self, X: Any) -> Any:
        """``X`` with its NaN replaced by what the sources of the observed entries diffuse into.

        A data frame comes back as one.  A signal of which nothing was observed stays as it is,
        with a warning.  Of a node that was never observed in the fit nothing is known: what is
        filled in there is a guess, which a warning tells of.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            NaN marks an entry that was not observed.

        Returns
        -------
        ndarray or data frame (n_signals, n_nodes)
            A data frame where ``X`` is one.
        """
        check_is_fitted(self)
        observations = check_signals(self, X, reset=False)
        missing = np.isnan(observations)
        around = observations - self.location_
        unit = unit_of(around)
        signals = Signals.from_missing(np.ascontiguousarray(around.T / unit))
        expected = self._model().predict(signals, self.predicting_alpha_ / unit).T * unit
        filled = np.where(missing, expected + self.location_, observations)
        warn_of_guesses(self, observations)
        empty = np.flatnonzero(missing.all(axis=1))
        if empty.size:
            filled[empty] = np.nan
            listed = X.index[empty] if isinstance(X, pd.DataFrame) else empty
            warnings.warn(
                "LearnHeat: nothing was observed of these signals of X, so that they stay missing: "
                f"{', '.join(map(str, listed.tolist()))}.",
                stacklevel=2,
            )
        return as_given(filled, X)

    def score(self, X: Any, y: Any = None) -> float:
        """The share of hidden entries' energy that the model predicts; 0 is predicting zero.

        The energy is that of the signals around ``location_``: with ``fit_intercept``, 0 is
        predicting the level of each node.  A quarter of each signal's entries is hidden, always
        the same ones for the same shape; the sources are found from the rest.

        Parameters
        ----------
        X : array-like or data frame (n_signals, n_nodes)
            NaN marks an entry that was not observed.
        y : ignored

        Returns
        -------
        float
            Between minus infinity and 1; 1 is a perfect prediction.
        """
        check_is_fitted(self)
        around = check_signals(self, X, reset=False) - self.location_
        if np.isnan(around).all():
            raise ParameterError("X", ": no entry was observed, so there is nothing to predict.")
        unit = unit_of(around)
        part = hide_entries(
            Signals.from_missing(around.T / unit), HIDDEN_SHARE, np.random.default_rng(0)
        )
        model = self._model()
        predicted = model.predict(part.visible, self.predicting_alpha_ / unit)
        error, energy = part.errors(predicted), part.energy
        total = float(energy.sum())
        share = 1.0 - float(error.sum()) / total if total > 0.0 else 0.0
        if share <= 0.0:
            nothing = "location_" if self.fit_intercept else "zero"
            warnings.warn(
                f"LearnHeat: the model predicts these signals no better than {nothing} does.",
                stacklevel=2,
            )
        return share

    def _diffused(self, sources: Array) -> Array:
        return self._model().synthesis(
            sources.reshape(len(sources), self.scales_.size * sources.shape[2])
        )

    def _model(self) -> DenseModel | LargeModel:
        """What codes and diffuses further signals: by all pairs, or without."""
        penalty = PENALTY_OF[self.atoms] if self.penalty == "auto" else self.penalty
        workers = n_threads(self.n_jobs)
        how = penalty, workers, bool(self.positive)
        if issparse(self.laplacian_):
            unit, kernel = self.atoms == "unit", kernel_of(self.kernel)
            return LargeModel(self.weights_, self.scales_, unit, *how, kernel)
        dense = self.laplacian_, self.scales_, self.atoms
        return DenseModel(*dense, *how, other_kernel(self.kernel))


def _usual_cut(w: Array) -> float:
    """On graphs of this size there are few weights to say where they are rarest."""
    return valley_cut(w, deviations=2.0)


def _tell_cost(p: HeatParameters, n_bootstrap: int, say: Callable[[str], None]) -> None:
    """One line on how long a fit will take, where that is long."""
    seconds = expected_seconds(p, n_bootstrap)
    if seconds is not None and seconds > LONG:
        say(
            f"{p.signals.n_signals} signals on {p.candidates.n_nodes} nodes take LearnHeat "
            f"about {duration(seconds)}{' or more' if p.n_jobs == 1 else ''}."
        )


def _in_units(table: pd.DataFrame, unit: float) -> pd.DataFrame:
    return table.assign(alpha=table["alpha"] * unit, beta=per_square(table["beta"], unit))


def _merge_scales(tau: Array) -> tuple[Array, Ints]:
    """Scales in ascending order, those that met as one, and which of them each became.

    Where kernels are equal, their sources add.
    """
    order = np.argsort(tau, kind="stable")
    apart = np.diff(tau[order]) > MERGED * tau[order][1:]
    first = np.append(True, apart)
    scale_of = np.empty(tau.size, dtype=np.intp)
    scale_of[order] = np.cumsum(first) - 1
    return tau[order][first], scale_of
