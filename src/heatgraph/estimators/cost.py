"""How long a fit of LearnHeat will take, from a step that is measured before it starts."""

from __future__ import annotations

import time

import numpy as np

from heatgraph.estimators.fitting import chosen_by
from heatgraph.estimators.parameters import HeatParameters
from heatgraph.models.heat import Signals
from heatgraph.solvers.signal_model import engine_of

__all__ = ["duration", "expected_seconds"]

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
