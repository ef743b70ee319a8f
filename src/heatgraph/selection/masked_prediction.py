"""Masked prediction: how well a model foretells entries that it was not shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from sklearn.covariance import LedoitWolf

from heatgraph.arrays import Array, Mask
from heatgraph.models.heat import Dictionary, Penalty, Signals
from heatgraph.selection.folds import N_FOLDS
from heatgraph.solvers.engine import CODING_ROUNDS, code_signals
from heatgraph.solvers.signal_model import subtract_level

PREDICTION_TOL = 1e-8  # duality gap of the sources: a prediction does not need that of a fit
FEW_ENTRIES = 20_000  # of all signals: so few that a quarter of them tells too little


@dataclass(frozen=True, eq=False)
class HiddenPart:
    """Signals of which some observed entries are hidden: what is left, and the hidden ones.

    In several turns, other entries are hidden in each: the columns are those of the first turn,
    then those of the second, and so on.  What is summed over entries is summed over the turns.
    """

    visible: Signals
    truth: Array
    hidden: Mask
    n_turns: int = 1

    @property
    def n_signals(self) -> int:
        return int(self.truth.shape[1]) // self.n_turns

    @property
    def energy(self) -> Array:
        """The squared norm of each signal's hidden entries, (M,)."""
        return self._sum_squares(self.truth)

    def errors(self, predicted: Array) -> Array:
        """The squared error of a prediction of every column on each signal's hidden entries."""
        return self._sum_squares(np.where(self.hidden, self.truth - predicted, 0.0))

    def _sum_squares(self, entries: Array) -> Array:
        return np.einsum("nm,nm->m", entries, entries).reshape(self.n_turns, -1).sum(axis=0)


def missed_by_level(
    signals: Signals, share: float, rng: np.random.Generator
) -> tuple[float, float]:
    """The shares of hidden energy that means of the other entries miss: of a signal, of a node.

    Near 1 for heat that starts at a few nodes.  Near 0 where the nodes, or the signals, have a
    level in common, which a graph that joins every node to every other predicts just as well.
    """
    part = hide_entries(signals, share, rng)
    seen = np.ones_like(part.hidden) if part.visible.observed is None else part.visible.observed
    total = float(part.energy.sum())
    missed = []
    for axis in (0, 1):
        sums = part.visible.X.sum(axis=axis, keepdims=True)
        level = sums / np.maximum(seen.sum(axis=axis, keepdims=True), 1)
        missed.append(float(part.errors(np.broadcast_to(level, part.truth.shape)).sum()))
    by_signal, by_node = (m / total if total > 0.0 else 1.0 for m in missed)
    return by_signal, by_node


def hide_entries(signals: Signals, share: float, rng: np.random.Generator) -> HiddenPart:
    """Hide about ``share`` of each signal's observed entries, at least one and never all.

    Every signal hides the same number, so that no signal's score is luck of the draw.
    """
    return hide_by(signals, share, rng.random(signals.X.shape))


def hide_by(signals: Signals, share: float, draws: Array, n_turns: int = 1) -> HiddenPart:
    """Hide the entries of each signal whose draws (N, M) are the smallest.

    In several turns, those whose draws come next, until each was hidden once; ``share`` then is
    one over their number.
    """
    N, M = signals.X.shape
    observed = np.ones((N, M), dtype=bool) if signals.observed is None else signals.observed
    counts = observed.sum(axis=0)
    n_hidden = np.minimum(np.maximum(np.rint(share * counts), 1), np.maximum(counts - 1, 0))
    # The observed entries of each signal in a random order; the first few of it are hidden.
    order = np.where(observed, draws, np.inf).argsort(axis=0)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(N)[:, None], axis=0)
    turn = rank * n_turns // np.maximum(counts, 1) if n_turns > 1 else rank >= n_hidden
    hidden = np.hstack([(turn == k) & observed & (counts > 1) for k in range(n_turns)])
    X, seen = np.tile(signals.X, n_turns), np.tile(observed, n_turns) & ~hidden
    visible = Signals(np.where(seen, X, 0.0), seen)
    return HiddenPart(visible, np.where(hidden, X, 0.0), hidden, n_turns)


def turns_for(n_nodes: int, n_signals: int, share: float) -> int:
    """How many turns it takes to hide every entry once, or 1 where there are many anyway."""
    return round(1.0 / share) if n_nodes * n_signals <= FEW_ENTRIES else 1


def prediction_errors(
    D: Dictionary,
    part: HiddenPart,
    alpha: float,
    *,
    penalty: Penalty | None = None,
    positive: bool = False,
    n_rounds: int = CODING_ROUNDS,
    level: Array | None = None,
) -> tuple[Array, Array]:
    """Squared error and energy of each signal's hidden entries, (M,) each.

    The sources are found from the visible entries alone, with the dictionary and the penalty of
    the fit; they are those of the signals around ``level`` (N,), where the fit has one.  The
    identity dictionary predicts zero: its error is the energy.
    """
    visible = part.visible if level is None else subtract_level(part.visible, level)
    coding = code_signals(
        D, visible, alpha, penalty, tol=PREDICTION_TOL, positive=positive, n_rounds=n_rounds
    )
    predicted = D.synthesis(coding.h).T
    if level is not None:
        predicted += level[:, None]
    return part.errors(predicted), part.energy


RIDGE = 1e-10  # of the largest entry: a part of the graph that is wholly hidden is predicted as 0


def smoothing_form(L: Array, a: float) -> Array:
    """The quadratic form ``I - (I + a L)^-1``.

    It is what is left of ``||x - y||^2 + a y^T L y`` when the best ``y`` is put in.  Its minimiser
    in the hidden entries of ``x`` is there the Tikhonov interpolation of the visible ones: the fit
    is perfect where ``x`` is free.
    """
    n = L.shape[0]
    return np.asarray(np.eye(n) - np.linalg.inv(np.eye(n) + a * L))


def predict_hidden(Q: Array, part: HiddenPart) -> Array:
    """The hidden entries that minimise ``x^T Q x`` given the visible ones; (N, M), 0 elsewhere.

    ``x_h = -Q_hh^-1 (Q x_v)_h``: a system of the size of what is hidden, a signal.  With the
    precision matrix of a Gaussian this is its conditional mean.  Every signal has to hide the same
    number of entries, as complete signals do.
    """
    N, M = part.hidden.shape
    rows = np.nonzero(part.hidden.T)[1].reshape(M, -1)
    pull = np.take_along_axis((Q @ part.visible.X).T, rows, axis=1)
    blocks = Q[rows[:, :, None], rows[:, None, :]]
    blocks += RIDGE * (np.abs(Q).max() or 1.0) * np.eye(rows.shape[1])
    predicted = np.zeros((M, N))
    np.put_along_axis(predicted, rows, np.linalg.solve(blocks, -pull[:, :, None])[:, :, 0], axis=1)
    return predicted.T


def interpolation_errors(Q: Array, part: HiddenPart) -> tuple[Array, Array]:
    """Squared error and energy of each signal's hidden entries, (M,) each."""
    error = part.truth - predict_hidden(Q, part)
    return np.einsum("nm,nm->m", error, error), np.einsum("nm,nm->m", part.truth, part.truth)


def sparsest_within_error(errors: Array) -> int:
    """The first row of ``errors`` (P, M) no worse than the best by more than a standard error.

    Rows are choices, the sparsest graph first; columns the signals, over which the differences are
    paired.  Prediction forgives edges too many, so the very best choice has more than it needs.
    """
    excess = errors - errors[errors.sum(axis=1).argmin()]
    spread = excess.std(axis=1) * np.sqrt(errors.shape[1])
    return int(np.flatnonzero(excess.sum(axis=1) <= spread)[0])


T = TypeVar("T")

HIDDEN_SHARE = 0.25  # of the entries of a signal
RESOLUTION = 1e-3  # of the logarithm of the parameter


def fit_for_edges(
    fit: Callable[[float], T], count: Callable[[T], int], n_edges: int, low: float, high: float
) -> tuple[float, T]:
    """The sparsest fit with at least ``n_edges`` edges, and its parameter.

    ``count(fit(t))`` should grow with ``t``; the logarithm of ``t`` is bisected between ``low``
    and ``high`` until the number is met or ``t`` is known to `RESOLUTION`.  Where even ``high``
    gives fewer edges, that is the fit.
    """
    best = high, fit(high)
    ends = np.log(low), np.log(high)
    while count(best[1]) > n_edges and ends[1] - ends[0] > RESOLUTION:
        middle = 0.5 * (ends[0] + ends[1])
        t = float(np.exp(middle))
        trial = fit(t)
        if count(trial) >= n_edges:
            best, ends = (t, trial), (ends[0], middle)
        else:
            ends = middle, ends[1]
    return best


def predicted_choice(
    X: Array, choices: Iterable[T], form: Callable[[Array, T], Array], n_folds: int = N_FOLDS
) -> T:
    """The choice that predicts hidden entries, sparsest first, within a standard error of the best.

    ``form(X, choice)`` learns from the signals ``X`` (N, M) a quadratic form that is small for
    signals like them.  Each fold of the signals is predicted by what the others taught.
    """
    part = hide_entries(Signals(X, None), HIDDEN_SHARE, np.random.default_rng(0))
    fold = np.arange(X.shape[1]) % n_folds
    listed = list(choices)
    errors = np.empty((len(listed), X.shape[1]))
    for row, choice in zip(errors, listed, strict=True):
        for k in range(n_folds):
            Q = form(X[:, fold != k], choice)
            row[fold == k] = interpolation_errors(Q, part)[0][fold == k]
    return listed[sparsest_within_error(errors)]


@dataclass(frozen=True)
class HeldOutScore:
    """Shares of the variance of hidden entries of held-out signals, around the node means.

    Attributes
    ----------
    predicted : float
        The share that the model predicts; 0 is what the means of the nodes predict, 1 everything.
    standard_error : float
        Of that share, over the signals.
    ledoit_wolf : float
        The share that a Gaussian without a graph predicts, of the covariance of scikit-learn's
        ``LedoitWolf``, from the same entries.
    n_signals : float
        How many signals were held out.
    ledoit_wolf_error : float
        Standard error of the difference of the two shares, paired by signal.
    """

    predicted: float
    standard_error: float
    ledoit_wolf: float
    n_signals: float
    ledoit_wolf_error: float = np.nan

    def __str__(self) -> str:
        return (
            f"predicts {self.predicted:.1%} ± {self.standard_error:.1%} of the variance of hidden "
            f"entries of {self.n_signals:.0f} held-out signals; LedoitWolf, without a graph, "
            f"{self.ledoit_wolf:.1%}"
        )


def means_of(signals: Signals) -> Array:
    """The mean of what was observed of each node (N,); 0 where nothing was."""
    return signals.X.sum(axis=1) / np.maximum(signals.n_observed, 1)


def gaussian_prediction(training: Signals, part: HiddenPart) -> Array:
    """The conditional means (N, M) of hidden entries, 0 elsewhere, by a covariance without a graph.

    ``u_h + C_ho C_oo^-1 (x_o - u_o)``, with the covariance of LedoitWolf.  Entries that were
    missing in training are taken for the mean of their node.
    """
    u = means_of(training)
    around = training.X - u[:, None]
    if training.observed is not None:
        around = np.where(training.observed, around, 0.0)
    predicted = np.zeros(part.truth.shape)
    if around.shape[1] < 2 or not around.any():  # no covariance to speak of
        return np.where(part.hidden, u[:, None], 0.0)
    fitted = LedoitWolf(assume_centered=True).fit(around.T)
    C = fitted.covariance_
    seen = part.visible.observed
    assert seen is not None  # for the type checker: hiding makes a mask
    for m in np.flatnonzero(part.hidden.any(axis=0)):
        hidden, o = part.hidden[:, m], seen[:, m]
        C_oo, left = C[np.ix_(o, o)], part.visible.X[o, m] - u[o]
        if fitted.shrinkage_ > 0.0:
            pull = np.linalg.solve(C_oo, left)
        else:  # singular, where signals are few
            pull = np.linalg.lstsq(C_oo, left, rcond=None)[0]
        predicted[hidden, m] = u[hidden] + C[np.ix_(hidden, o)] @ pull
    return predicted


def score_held_out(
    parts: Sequence[tuple[Signals, HiddenPart]], errors: Sequence[Array]
) -> tuple[HeldOutScore, list[Array]]:
    """The score of a model with these squared errors, one array (signals,) per fold.

    ``parts`` are the signals that were fitted and those held out.  The second value is what the
    means of the nodes miss of each signal, one array per fold.
    """
    by_means, by_gaussian = [], []
    for training, part in parts:
        u = np.broadcast_to(means_of(training)[:, None], part.truth.shape)
        by_means.append(part.errors(u))
        by_gaussian.append(part.errors(gaussian_prediction(training, part)))
    missed, without, total = map(np.concatenate, (errors, by_gaussian, by_means))
    share, spread = share_missed(missed, total)
    _, paired = share_missed(missed - without, total)
    other, _ = share_missed(without, total)
    return HeldOutScore(1.0 - share, spread, 1.0 - other, float(total.size), paired), by_means


def share_missed(errors: Array, total: Array) -> tuple[float, float]:
    """The ratio of the sums, and its standard error: that of the mean of what is left of it."""
    whole = float(total.sum()) or 1.0
    ratio = float(errors.sum()) / whole
    spread = float((errors - ratio * total).std())
    return ratio, spread * float(np.sqrt(total.size)) / whole
