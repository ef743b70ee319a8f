"""What an experiment is given, what it gives back, and what its pictures have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from heatgraph.arrays import Array
from heatgraph.errors import ParameterError
from heatgraph.plotting.style import VERMILION, bare

# Okabe and Ito's colours in an order of their own; a line has a marker of its own besides.
COLOURS = ("#0072B2", "#E69F00", "#009E73", VERMILION, "#CC79A7", "#56B4E9")
MARKERS = "osD^vP"


# Of a legend below all axes of a figure.
BELOW: dict[str, Any] = {"loc": "outside lower center", "frameon": False}


def within(mean: Array, std: Array, most: float = 1.0) -> Array:
    """Bars of a standard deviation below and above the mean, as far as a measure can go, (2, n)."""
    return np.array([np.minimum(std, mean), np.minimum(std, most - mean)])


def plain(ax: Axes) -> None:
    """A faint grid and no box."""
    ax.grid(alpha=0.3)
    bare(ax)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


INSTANCES = ("instances", "no_truth_instances")
# Called with what is done, of how much, and what it is.
Report = Callable[[int, int, str], None]


def silent(done: int, total: int, text: str) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Readings:
    """How the places are read where the paper is ambiguous.

    Parameters
    ----------
    rbf : {"weight", "distance"}
        Whether an edge of an RBF graph is kept where its weight is at least 0.75, or where its
        length is at most 0.75.
    noise : {"std", "13dB", "variance"}
        Whether 0.02 is the standard deviation of the noise or its variance; or whether the noise is
        13 dB below the signals of each graph.
    ba : {2, 1}
        To how many nodes each new node of a Barabási-Albert graph attaches.
    """

    rbf: str = "weight"
    noise: str = "std"
    ba: int = 2

    def __post_init__(self) -> None:
        choices = {
            "rbf": ("weight", "distance"),
            "noise": ("std", "13dB", "variance"),
            "ba": (2, 1),
        }
        for name, allowed in choices.items():
            value = getattr(self, name)
            if value not in allowed:
                choices_shown = " or ".join(map(repr, allowed))
                raise ParameterError(name, f"must be {choices_shown}, got {value!r}")


@dataclass(frozen=True)
class Settings:
    """What a user may ask of any experiment.

    Parameters
    ----------
    seed : int
        Same seed, same numbers, whatever the number of jobs.
    quick : bool
        Whether to run at a toy size, for a look.
    instances : int, optional
        Random graphs a model, in place of the number of the paper.
    no_truth_instances : int, optional
        On how many of them LearnHeat runs as it comes; on all by default.
    readings : Readings
        How the paper is read where it is ambiguous.
    n_jobs : int
        Cells computed at once; -1 for as many as there are processors.
    backend : str
        Of joblib: ``"loky"``, ``"threading"``, ``"dask"`` or any other registered one.
    scheduler : str, optional
        The address of the scheduler of a cluster, for ``"dask"``.
    data_home : pathlib.Path, optional
        Where data sets are kept.
    cache : pathlib.Path, optional
        Where finished cells are kept, so that a run goes on where one stopped; nowhere if None.
    report : callable
        Called with ``(done, total, text)``.
    """

    seed: int = 0
    quick: bool = False
    instances: int | None = None
    no_truth_instances: int | None = None
    readings: Readings = field(default_factory=Readings)
    n_jobs: int = 1
    backend: str = "loky"
    scheduler: str | None = None
    data_home: Path | None = None
    cache: Path | None = None
    report: Report = silent

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ParameterError("seed", f"must be 0 or more, got {self.seed}")
        for name in INSTANCES:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ParameterError(name, f"must be at least 1, got {value}")
        if self.n_jobs == 0 or self.n_jobs < -1:
            raise ParameterError(
                "n_jobs", f"must be 1 or more, or -1 for all processors, got {self.n_jobs}"
            )
        if self.scheduler is not None and self.backend != "dask":
            raise ValueError(f"a scheduler needs the backend 'dask', got {self.backend!r}")

    def asked(self) -> dict[str, Any]:
        """What the numbers depend on, for a file of results."""
        readings = {name: getattr(self.readings, name) for name in ("rbf", "noise", "ba")}
        return {
            "seed": self.seed,
            "quick": self.quick,
            **{name: getattr(self, name) for name in INSTANCES},
            "readings": readings,
        }


@dataclass(frozen=True, eq=False)
class Outcome:
    """What an experiment found.

    Parameters
    ----------
    name, title : str
        The name that the experiment is called by, and a line that says what it is.
    tables : mapping of str to DataFrame
        Written as CSV, a file a table.
    numbers : mapping
        What JSON can hold: the main numbers, for a machine.
    figures : mapping of str to matplotlib Figure
        Written as PNG and SVG, named by their keys.
    page : str
        The result for a reader, in Markdown.  It may show a figure as ``![text](key.png)``.
    """

    name: str
    title: str
    tables: Mapping[str, pd.DataFrame]
    numbers: Mapping[str, Any]
    figures: Mapping[str, Figure]
    page: str


@dataclass(frozen=True)
class Experiment:
    """An experiment by its name, with a line for a list; its module is imported when it is run.

    The module has a function ``run(settings) -> Outcome``, which is called with the name too where
    it holds several experiments, ``by_name``.
    """

    name: str
    description: str
    module: str
    by_name: bool = False

    def run(self, settings: Settings) -> Outcome:
        """Run it."""
        module = import_module(f"heatgraph.experiments.{self.module}")
        run: Callable[..., Outcome] = module.run
        return run(self.name, settings) if self.by_name else run(settings)
