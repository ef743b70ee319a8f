"""Data sets that were measured, read by the library's loaders.

The environment variable ``HEATGRAPH_DATA`` names a folder to read them from.
"""

from __future__ import annotations

import numpy as np

from benchmarks.real_data import DESIGN_SEEDS, RealData

HOURS = 24
LEAST_SEEN = 3  # measurements in the training that a station must have


def make_molene(seed: int, n_signals: int) -> RealData:
    """Hourly temperatures at 37 stations around Brittany, less the daily cycle.

    The cycle is each station's mean at each hour of the day over the training days.  The design
    learns from days 1 to 10 and is tested on days 11 to 15; the judgement learns from days 1 to 21
    and is tested on days 22 to 31.
    """
    from heatgraph.datasets import load_molene

    placed = load_molene()
    T = placed.signals.to_numpy(dtype=np.float64)
    first, last = (10, 15) if seed in DESIGN_SEEDS else (21, 31)
    hour = np.arange(len(T)) % HOURS
    split, end = first * HOURS, last * HOURS
    cycle = np.stack([T[:split][hour[:split] == k].mean(axis=0) for k in range(HOURS)])
    X = T - cycle[hour]
    told = "hourly temperatures of January 2014 around Brittany, Meteo-France, less the daily cycle"
    return RealData(
        "molene", X[:split][-n_signals:], X[split:end], tuple(placed.signals.columns), told,
        coordinates=placed.coordinates, unit=HOURS,
    )  # fmt: skip


def make_etex(seed: int, n_signals: int) -> RealData:
    """Square roots of the concentrations of a tracer over Europe, with what was not measured.

    Every fifth of 30 intervals is the test, the first of them given by the seed.  Stations with
    fewer than three measurements in the training are left out.
    """
    from heatgraph.datasets import load_etex

    placed = load_etex()
    X = np.sqrt(placed.signals.to_numpy(dtype=np.float64))
    test = np.arange(len(X)) % 5 == seed % 5
    known = np.isfinite(X[~test]).sum(axis=0) >= LEAST_SEEN
    names = tuple(np.asarray(placed.signals.columns)[known])
    told = "the European Tracer Experiment (JRC, from DATEM of NOAA), roots of concentrations"
    return RealData(
        "etex", X[~test][:n_signals][:, known], X[test][:, known], names, told,
        coordinates=placed.coordinates[known],
    )  # fmt: skip
