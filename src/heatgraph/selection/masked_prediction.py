"""Masked prediction: how well a dictionary foretells entries that it was not shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heatgraph.models.heat import Dictionary, Signals
from heatgraph.models.penalties import Penalty
from heatgraph.solvers.engine import CODING_ROUNDS, code_signals
from heatgraph.solvers.signal_model import subtract_level

__all__ = [
    "HiddenPart",
    "hide_by",
    "hide_entries",
    "missed_by_level",
    "prediction_errors",
    "turns_for",
]

Array = NDArray[np.float64]

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
    hidden: NDArray[np.bool_]
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
        sums: Array = np.einsum("nm,nm->m", entries, entries).reshape(self.n_turns, -1).sum(axis=0)
        return sums


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
