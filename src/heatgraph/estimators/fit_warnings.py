"""What LearnHeat tells about a fit: how long it will take, and what to be careful with."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from heatgraph.estimators.fitting import Fit, chosen_by
from heatgraph.estimators.parameters import HeatParameters
from heatgraph.estimators.validation import Names, warn_of_copies
from heatgraph.models.heat import Signals
from heatgraph.selection.masked_prediction import HIDDEN_SHARE, missed_by_level
from heatgraph.solvers.signal_model import codes_of, engine_of, level_of, subtract_level

# Steps as long as the one that is measured, counted on graphs of 50 nodes: those of a choice of
# parameters by three folds, and those of a fit with parameters that are given.  On 100 nodes a fit
# with a level of the nodes was seen to take more than twice as long as that.
STEPS_OF_CHOICE, STEPS_OF_FIT = 530.0, 70.0
USUAL_FOLDS = 3


def expected_seconds(p: HeatParameters, n_bootstrap: int = 0) -> float | None:
    """About how long the fit takes in one process; None where no step can be measured here."""
    if not isinstance(p.signals, Signals) or p.solver == "paper":
        return None
    some = chosen_by(p.signals.n_signals)
    step = _measured_step(p, p.signals.sample(some))
    seconds = STEPS_OF_FIT * step * p.signals.n_signals / some.size * (1 + n_bootstrap)
    if p.grid is not None:
        n_folds = p.cv if isinstance(p.cv, int) else USUAL_FOLDS
        seconds += STEPS_OF_CHOICE * step * len(p.starts) * (n_folds - 1) / (USUAL_FOLDS - 1)
    return seconds


def _measured_step(p: HeatParameters, signals: Signals) -> float:
    """The seconds of an evaluation from sources that are nearly right, as most are in a fit."""
    engine = engine_of(signals, p.objective(p.alphas[-1], p.betas[0]), p.model, p.n_jobs)
    w, tau = p.w, p.starts[0]
    codes = engine.evaluate(w, tau, engine.zero_codes(tau.size * p.candidates.n_nodes)).aux
    start = time.perf_counter()
    engine.evaluate(w, tau, codes)
    return time.perf_counter() - start


def duration(seconds: float) -> str:
    """With as many digits as an estimate is worth.

    Examples
    --------
    >>> duration(37.4), duration(400.0), duration(20_000.0)
    ('40 s', '7 min', '6 h')
    """
    if seconds < 95.0:
        return f"{round(seconds, -1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5700.0 else f"{np.round(seconds / 3600):.0f} h"


COLLAPSED = 1e-2  # a scale below this moves no heat
LEVEL = 0.5  # of the hidden energy: a level that explains less is not worth a warning
UNSETTLED = 1e-4  # of the size of the signals: a mean residual of a node that is worth a warning
# Of the energy, the share of node means beyond chance that costs edges (on ER graphs of 20 nodes a
# share of 0.08 took a fifth of F), and how much of it chance may give in one signal's worth.
OF_MEANS, BY_CHANCE = 0.05, 6.0
ONE_SIGN = 0.1  # of the energy in entries of the rarer sign: less of it is heat of one sign
NEARLY_ALL = 0.1  # of it missed: a level that explains more is worth one whatever the model does


def warn_of_fit(estimator: Any, p: HeatParameters, fit: Fit, names: Names) -> None:
    """What a user has to know before trusting a fit."""
    if not isinstance(estimator.alpha, str) and estimator.alpha == 0:
        warnings.warn(
            "LearnHeat: with alpha=0 sources are not penalised, and any graph fits any signals; "
            'pass alpha > 0, or "auto".',
            stacklevel=3,
        )
    elif fit.choice is not None and not fit.choice.predicts:
        nothing = "the mean of their node" if p.model.fit_intercept else "zero or node means"
        warnings.warn(
            f"LearnHeat: no parameters predict hidden entries better than {nothing} does, so these "
            "signals show no diffusion on a graph; do not trust graph_.",
            stacklevel=3,
        )
    if fit.choice is not None and fit.choice.predicts:
        far = [end for end in fit.choice.ends if end.startswith("largest")]
        if far:
            warnings.warn(
                "LearnHeat: the values chosen are the last ones that were tried: "
                f"{', '.join(far)}.  Values beyond them may predict "
                "better; pass a number, or other scales.",
                stacklevel=3,
            )
    if isinstance(p.signals, Signals):
        seen = p.signals.observed
        X = p.signals.X if seen is None else np.where(seen, p.signals.X, np.nan)
        warn_of_copies(estimator, X, names)
        (_warn_of_location if p.model.fit_intercept else _warn_of_level)(p.signals, fit)
    silent = np.flatnonzero(p.signals.n_observed == 0)
    if silent.size:
        listed = [int(k) if names is None else names[k] for k in silent]
        warnings.warn(
            f"LearnHeat: these nodes were never observed, so that nothing is known of their edges: "
            f"{listed}.  In graph_ they are without edges; drop their columns from X to leave them "
            "out.",
            stacklevel=3,
        )
    if p.learn_scales and estimator.atoms == "raw" and estimator.scales_.min() < COLLAPSED:
        warnings.warn(
            "LearnHeat: a scale fell to zero, where an atom is a single node and explains any "
            'signal without a graph.  The penalty of atoms="raw" favours that; use '
            'atoms="unit", or hold the scales with learn_scales=False and scales=....',
            stacklevel=3,
        )


def _warn_of_level(signals: Signals, fit: Fit) -> None:
    """Where means predict as well as the model, or nearly all, they may be all it learned."""
    by_signal, by_node = missed_by_level(signals, HIDDEN_SHARE, np.random.default_rng(0))
    level = min(by_signal, by_node)
    enough = NEARLY_ALL
    if fit.choice is not None:
        as_well = fit.choice.missed + 2.0 * fit.choice.standard_error
        enough = max(enough, min(LEVEL, as_well))
    if level < enough:
        which = "node" if by_node < by_signal else "signal"
        warnings.warn(
            f"LearnHeat: the mean of each {which} alone predicts {1.0 - level:.0%} of the "
            "energy of hidden entries, so what was learned may be a level that the nodes have "
            "in common.  Pass fit_intercept=True, which learns the level of each node along with "
            "the graph, or subtract the mean of each node; where the level changes from signal to "
            "signal, subtract the mean of each signal too.",
            stacklevel=4,
        )
    else:
        _warn_of_means(signals)


def _warn_of_means(signals: Signals) -> None:
    """Heat that starts from zero, of either sign, has means of zero; heat of one sign has not."""
    up, down = (float(np.square(np.maximum(X, 0.0)).sum()) for X in (signals.X, -signals.X))
    n = np.maximum(signals.n_observed, 1)
    mean, square = signals.X.sum(axis=1) / n, np.square(signals.X).sum(axis=1) / n
    excess = np.square(mean) - (square - np.square(mean)) / n
    share = float(excess.sum() / square.sum()) if square.any() else 0.0
    enough = max(OF_MEANS, BY_CHANCE / signals.n_signals)
    if share > enough and min(up, down) > ONE_SIGN * (up + down):
        warnings.warn(
            f"LearnHeat: {share:.0%} of the energy lies in the means of the nodes, and the model "
            "takes heat to start from zero: graph_ and scales_ may be wrong.  Pass "
            "fit_intercept=True if the nodes have levels of their own.",
            stacklevel=5,
        )


def _warn_of_location(signals: Signals, fit: Fit) -> None:
    """At the best level, the residuals of each node have the mean 0."""
    solution, n = fit.solution, np.maximum(signals.n_observed, 1)
    D = fit.objective.dictionary(solution.w, solution.tau)
    around = subtract_level(signals, level_of(solution, len(signals.X)))
    residual = around.X - D.synthesis(codes_of(solution)).T
    if signals.observed is not None:
        residual = np.where(signals.observed, residual, 0.0)
    size = np.sqrt(signals.energy.sum() / n.sum())
    mean = float(np.max(np.abs(residual.sum(axis=1) / n)) / size)
    if mean > UNSETTLED:
        warnings.warn(
            f"LearnHeat: location_ has not settled: the mean residual of a node is {mean:.0e} of "
            "the size of the signals.  With so small an alpha, sources explain any level; raise "
            "alpha, or pass fit_intercept=False.",
            ConvergenceWarning,
            stacklevel=4,
        )
