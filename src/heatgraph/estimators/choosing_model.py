"""``heatgraph.learn``: of the two heat models, the one that predicts better."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.base import clone

from heatgraph.arrays import Array
from heatgraph.distributed.from_dask import as_array
from heatgraph.errors import ParameterError, did_you_mean
from heatgraph.estimators.heat_covariance import HeatCovariance
from heatgraph.estimators.hidden import (
    ESTIMATOR_OF,
    HeldOut,
    ModelComparison,
    Predicted,
    ShrunkCovariance,
    hidden_errors,
    log_ratios,
)
from heatgraph.estimators.large_covariance import LARGE, fixed_kernel
from heatgraph.estimators.learn_heat import LearnHeat
from heatgraph.estimators.parameters import MANY_NODES
from heatgraph.estimators.progress import stage
from heatgraph.estimators.time_series import with_epochs
from heatgraph.estimators.validation import (
    check_choice,
    check_number,
    check_signals,
    counts_of,
    is_dask,
    node_names,
    unit_of,
)
from heatgraph.selection.folds import still_columns
from heatgraph.solvers.driver import attempt
from heatgraph.solvers.result import Status

MODELS: dict[str, type[Any]] = {"gaussian": HeatCovariance, "sparse": LearnHeat}
# What both models understand; the penalty of one is not that of the other.
SHARED = (
    *("n_scales", "fit_intercept", "candidates", "n_edges", "cut", "checkpoint", "kernel"),
    *("n_jobs", "max_iter", "tol", "solver", "random_state", "verbose"),
)
OWN = ("model", "cv", "groups", "lag")  # parameters of learn itself
FEWEST = 6  # signals: with fewer, a fold has too few to compare by
HOPELESS = 3.0  # standard errors by which a model is worse that need not be fitted on more folds
UNLIKE = 100.0  # times the spread of another node: the two may be in different units
FEWEST_VALUES = 10  # of a node, for its spread to be known
SAMPLE = 2000  # consecutive signals of a Dask collection that the models are compared on


def learn(
    X: Any,
    *,
    model: str = "auto",
    cv: Any = None,
    groups: Any = None,
    lag: Any = 0,
    random_state: int | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    **parameters: Any,
) -> Any:
    """Learn the graph on which heat diffused, by the model that predicts the signals better.

    :class:`LearnHeat` takes heat to be released at a few nodes ("sparse"), and
    :class:`HeatCovariance` everywhere ("gaussian").  "auto" fits both on the same folds of the
    signals, hides the same fifth of the entries of the signals held out, keeps the model that
    predicts them better in a typical signal, and fits that one on all signals.  The sparse model,
    which takes far longer, is left after a fold on which it is worse by three standard errors.

    Parameters
    ----------
    X : array-like or data frame (n_signals, n_nodes), of NumPy, pandas or Dask
        NaN marks an entry that was not observed.  The columns of a data frame name the nodes.
        Signals that follow each other in time should be in order: what is held out are contiguous
        blocks.  Of a Dask collection, the first 2000 signals are compared on.  Time series in
        epochs, (n_epochs, n_times, n_nodes) or an xarray.DataArray, are read by
        :func:`time_series`.
    model : {"auto", "sparse", "gaussian"}
        "sparse" or "gaussian" fits that model, without a comparison.
    cv : int or splitter, optional
        Number of folds, 3 unless given, contiguous and with a gap where consecutive signals are
        correlated; or a splitter of scikit-learn.  By these the models are compared; where one
        model is fitted without a comparison, by these its parameters are chosen.
    groups : array-like (n_signals,), optional
        Signals of one group are held out together; epochs are groups unless others are given.
    lag : int or sequence of int
        Put the values of so many steps before beside the present ones: see :func:`time_series`.
    random_state : int, optional
        Seed of the hidden entries, and of ``LearnHeat``.  None repeats, too.
    n_jobs : int, optional
        See :class:`LearnHeat`.
    verbose : int
        1 shows progress bars, how well the model predicts, and which one was kept.
    **parameters
        Further parameters of the model; with "auto" those that both have: ``n_scales``,
        ``fit_intercept`` (True unless given), ``candidates``, ``n_edges``, ``cut``, ``kernel``,
        ``max_iter``, ``tol`` and ``checkpoint``, to whose name every fit adds an ending of its own.

    Returns
    -------
    LearnHeat or HeatCovariance
        Fitted.  ``comparison_`` is a ``ModelComparison``, or None where
        nothing was compared.  Ctrl-C during the comparison leaves the Gaussian model of all
        signals, with the status "interrupted".

    Examples
    --------
    >>> import heatgraph
    >>> from heatgraph.datasets import make_graph, make_heat_signals
    >>> X, _ = make_heat_signals(make_graph("er", 8, 0), [2.0], 40, 8, 0.1, random_state=0)
    >>> model = heatgraph.learn(X, model="gaussian")
    >>> type(model).__name__, model.graph_.n_nodes
    ('HeatCovariance', 8)
    """
    given = {"random_state": random_state, "n_jobs": n_jobs, "verbose": verbose, **parameters}
    X, groups = with_epochs(X, groups, lag)
    found = choose_model(X, model, cv, given, groups)
    if verbose and found.comparison_ is not None:
        told = f"The graph {Predicted.of(found)}.\n{found.comparison_}"
        Console(stderr=True).print(told, highlight=False, soft_wrap=True)
    return found


def choose_model(
    X: Any, model: str, cv: Any, parameters: dict[str, Any], groups: Any = None
) -> Any:
    """:func:`learn`, without a word."""
    check_choice("model", model, ("auto", *MODELS))
    if cv is not None and not hasattr(cv, "get_n_splits"):
        check_number("cv", cv, minimum=2, integer=True)
    if model == "auto":
        foreign = sorted(set(parameters) - set(SHARED))
        if foreign:
            owners = [name for name, kind in MODELS.items() if foreign[0] in kind().get_params()]
            if not owners:
                raise _unknown(foreign[0], "either model", MODELS)
            which = f'; pass model="{owners[0]}"' if len(owners) == 1 else ""
            raise ParameterError(foreign[0], f"is no parameter that both models have{which}.")
        model = _only_model(X)
    _warn_of_units(X, MODELS["gaussian" if model == "auto" else model]())
    if model != "auto":
        given = parameters if cv is None else {**parameters, "cv": cv}
        return estimator_of(model, X, given).fit(X, groups=groups)
    return _Comparing(X, cv, groups, parameters).run()


def estimator_of(model: str, X: Any, parameters: dict[str, Any]) -> Any:
    """The estimator, not fitted; its level is learned unless the parameters or ``X`` forbid it."""
    M, N = _shape(X)
    if model == "sparse" and "kernel" in parameters:
        parameters = {**parameters, "kernel": fixed_kernel(parameters["kernel"])}
    known = MODELS[model]().get_params()
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise _unknown(unknown[0], ESTIMATOR_OF[model], [model])
    if "fit_intercept" in parameters:
        return MODELS[model](**parameters)
    level = M > 1
    if level and model == "sparse":
        solver = parameters.get("solver", "auto")
        if is_dask(X):
            level = False
            warnings.warn(
                "LearnHeat learns no level of the nodes from a Dask collection: "
                "fit_intercept=False was used; subtract the mean of each node if they have one.",
                stacklevel=4,
            )
        level &= solver == "dense" or (solver == "auto" and N < MANY_NODES)
    return MODELS[model](fit_intercept=level, **parameters)


def _unknown(name: str, whose: str, models: Iterable[str]) -> ParameterError:
    """An error on a parameter that nobody has, with the one that may have been meant."""
    known = {key for model in models for key in MODELS[model]().get_params()}
    like = did_you_mean(name, sorted(known | set(OWN)))
    return ParameterError(name, f"is no parameter of {whose}{like or '.'}")


def stage_files(checkpoint: str | os.PathLike[str], cv: int = 3) -> list[Path]:
    """The files that :func:`learn` keeps its fits in, by the checkpoint it is given."""
    ends = ["", *(f"-fold{k + 1}" for k in range(cv))]
    return [Path(f"{os.fspath(checkpoint)}.{model}{end}") for model in MODELS for end in ends]


def _shape(X: Any) -> tuple[int, int]:
    """How many signals and nodes; an input that has no such shape is refused by the fit."""
    if is_dask(X):
        return as_array(X).shape
    sizes = tuple(getattr(X, "shape", None) or np.shape(X))
    return (int(sizes[0]), int(sizes[1])) if len(sizes) == 2 else (0, 0)


def _only_model(X: Any) -> str:
    """The model that has to do, or "auto" where the two can be compared."""
    M, N = _shape(X)
    if N >= LARGE and not is_dask(X):
        _say(
            f"{N} nodes are too many to compare the models on: HeatCovariance was fitted, by its "
            "sparse engine; LearnHeat takes far longer."
        )
        return "gaussian"
    if N >= MANY_NODES:
        _say(
            f"{N} nodes of a Dask collection are too many for HeatCovariance, which sums up an "
            "array of all pairs: LearnHeat was fitted, without a comparison."
        )
        return "sparse"
    if M == 0:  # no table of signals: the fit says what it is
        return "gaussian"
    if M < FEWEST:
        _say(
            f"{M} signals are too few to hold some out: HeatCovariance was fitted, without a "
            f"comparison, which takes at least {FEWEST}."
        )
        return "gaussian"
    if is_dask(X) and np.isnan(_first_signals(X)).any():
        _say(
            "HeatCovariance takes missing values in memory only, and this Dask collection has "
            "some: LearnHeat was fitted, without a comparison."
        )
        return "sparse"
    return "auto"


def _warn_of_units(X: Any, estimator: Any) -> None:
    """Warn of nodes that vary so much more than others that their units may differ.

    One variance of heat and one of noise stand for all nodes: in mixed units hidden values are
    predicted worse, the more the units differ.
    """
    if is_dask(X):
        return
    names = node_names(X)
    rows = check_signals(estimator, X, reset=True)
    known = np.flatnonzero((counts_of(rows) >= FEWEST_VALUES) & ~still_columns(rows))
    spread = np.nanstd(rows[:, known] / unit_of(rows), axis=0)
    known, spread = known[spread > 0.0], spread[spread > 0.0]
    if known.size < 2 or spread.max() <= UNLIKE * spread.min():
        return
    times = float(f"{spread.max() / spread.min():.2g}")
    most, least = (
        k if names is None else repr(names[k])
        for k in (known[spread.argmax()], known[spread.argmin()])
    )
    _say(
        f"node {most} varies {times:,.0f} times as much as node {least}. Both models take all "
        "nodes to be in the same unit: if theirs differ, divide each column by its standard "
        "deviation, as X / X.std() of pandas does."
    )


def _first_signals(X: Any) -> Array:
    return np.asarray(as_array(X)[:SAMPLE].compute(), dtype=np.float64)


def _say(text: str) -> None:
    warnings.warn(f"heatgraph.learn: {text}", stacklevel=5)


@dataclass(frozen=True, eq=False)
class _Comparing:
    """Both models on the same folds, and the better one on all signals."""

    X: Any
    cv: Any
    groups: Any
    parameters: dict[str, Any]

    def run(self) -> Any:
        fallback = self._whole("gaussian")  # seconds, where the sparse model takes minutes
        if fallback.status_ is Status.INTERRUPTED:
            return fallback
        X, seed = self.X, self.parameters.get("random_state") or 0
        rows = _first_signals(X) if is_dask(X) else check_signals(HeatCovariance(), X, reset=True)
        held_out = HeldOut.of(rows, node_names(X), self.cv, self.groups, seed)
        no_graph = gaussian = total = sparse = None
        try:
            no_graph, _ = held_out.errors(ShrunkCovariance())
            gaussian, total = _errors(held_out, "gaussian", self._estimator("gaussian"))
            sparse, _ = _errors(held_out, "sparse", self._estimator("sparse"), against=gaussian)
        except KeyboardInterrupt:
            _say("stopped before the models were compared, so that the Gaussian one is kept.")
        if no_graph is None or gaussian is None or total is None:
            return _stopped(fallback)
        if sparse is not None:  # the signals that both have predicted
            judged = ~np.isnan(sparse)
            gaussian, sparse, total = gaussian[judged], sparse[judged], total[judged]
            no_graph = no_graph[judged]
        comparison = ModelComparison.of(gaussian, sparse, no_graph, total)
        fallback.comparison_ = comparison
        if not comparison.is_complete:
            return _stopped(fallback)
        if comparison.kept == "gaussian":
            return fallback
        return self._sparse(comparison, fallback)

    def _sparse(self, comparison: ModelComparison, fallback: Any) -> Any:
        better = attempt(partial(self._whole, "sparse"))
        if better is None or (better.status_ is Status.INTERRUPTED and not better.n_iter_):
            _say(
                "stopped before the sparse model, which predicts better, was learned from all "
                "signals; this is the Gaussian one."
            )
            return _stopped(fallback)
        better.comparison_ = comparison
        return better

    def _estimator(self, model: str) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said when the model is fitted on all signals
            return estimator_of(model, self.X, self.parameters)

    def _whole(self, model: str) -> Any:
        estimator = estimator_of(model, self.X, self.parameters)
        with stage(f"{model} model, all signals"):
            return _keeping(estimator, model).fit(self.X, groups=self.groups)


def _errors(
    held_out: HeldOut, name: str, estimator: Any, against: Array | None = None
) -> tuple[Array, Array]:
    """As :meth:`HeldOut.errors`, with a bar and a checkpoint for each fold.

    Folds that cannot change the verdict are left out, and their signals NaN: once the model is
    clearly worse than what another misses, ``against``.
    """
    error, total = np.full((2, len(held_out.rows)), np.nan)
    n_folds = len(held_out.folds)
    for k, split in enumerate(held_out.folds, 1):
        fold = _keeping(clone(estimator), f"{name}-fold{k}")
        with warnings.catch_warnings(), stage(f"{name} model, fold {k}/{n_folds}"):
            warnings.simplefilter("ignore")
            fold.fit(held_out.signals(split.train))
        if fold.status_ is Status.INTERRUPTED:
            raise KeyboardInterrupt
        error[split.test], total[split.test] = hidden_errors(fold, *held_out.part(split.test))
        if against is not None and _is_hopeless(log_ratios(error, against, total)):
            break
    return error, total


def _is_hopeless(ratios: Array) -> bool:
    """Whether errors exceed those of another model by more than chance would."""
    known = ratios[~np.isnan(ratios)]
    if known.size < FEWEST:
        return False
    return bool(known.mean() > HOPELESS * known.std(ddof=1) / np.sqrt(known.size))


def _keeping(estimator: Any, ending: str) -> Any:
    """The estimator with a checkpoint of its own, where it has one."""
    if estimator.checkpoint is None:
        return estimator
    return estimator.set_params(checkpoint=f"{os.fspath(estimator.checkpoint)}.{ending}")


def _stopped(model: Any) -> Any:
    model.status_ = Status.INTERRUPTED
    return model
