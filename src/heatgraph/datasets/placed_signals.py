"""Signals measured at places, as the loaders return them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heatgraph.datasets.fetch import HOME_VARIABLE
from heatgraph.graph import Graph

__all__ = ["PlacedSignals", "check_choice", "first_form", "read_table"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PlacedSignals:
    """Signals on nodes that are places.

    Parameters
    ----------
    signals : DataFrame
        One row per time, one column per node; NaN where nothing was measured.
    places : DataFrame
        One row per node, in the order of the columns of ``signals``: ``lon``, ``lat`` in degrees,
        and ``title``, the name in full.
    provenance : str
        Where the numbers come from and what was done to them.
    outlines : mapping of str to tuple of ndarray (n_points, 2)
        The rings of longitude and latitude around each zone, where nodes are zones.
    adjacency : Graph, optional
        Which zones touch, with weights 1.

    Examples
    --------
    >>> signals = pd.DataFrame({"a": [1.0], "b": [np.nan]})
    >>> places = pd.DataFrame({"lon": [2.0, 3.0], "lat": 50.0, "title": ["A", "B"]}, ["a", "b"])
    >>> PlacedSignals(signals, places, "made up").coordinates.tolist()
    [[2.0, 50.0], [3.0, 50.0]]
    """

    signals: pd.DataFrame
    places: pd.DataFrame
    provenance: str
    outlines: Mapping[str, tuple[Array, ...]] = field(default_factory=dict)
    adjacency: Graph | None = None

    def __post_init__(self) -> None:
        if list(self.signals.columns) != list(self.places.index):
            raise ValueError("places must have the nodes of signals, in the same order")

    @property
    def coordinates(self) -> Array:
        """Longitude and latitude, (n_nodes, 2)."""
        return self.places[["lon", "lat"]].to_numpy(dtype=np.float64)

    def placed(self) -> PlacedSignals:
        """The same without the nodes whose coordinates are not known."""
        known = self.places.index[self.places[["lon", "lat"]].notna().all(axis=1)]
        return PlacedSignals(
            self.signals[known], self.places.loc[known], self.provenance, self.outlines
        )

    @property
    def rings(self) -> list[Array]:
        """Every ring around a zone."""
        return [ring for rings in self.outlines.values() for ring in rings]


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    """Refuse a word that is not among the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def first_form(
    home: Path, forms: Mapping[str, tuple[str, ...]], source: str, alternative: str
) -> str:
    """Which form of a data set a folder holds: the one asked for, or the first that is there."""
    wanted = forms if source == "auto" else {source: forms[source]}
    for form, names in wanted.items():
        if all((home / name).is_file() for name in names):
            return form
    needed = " or ".join(" and ".join(names) for names in wanted.values())
    raise FileNotFoundError(
        f"the folder of data {home} lacks {needed}; name another by data_home or {HOME_VARIABLE}, "
        f"{alternative}"
    )


def read_table(path: Path, read: Callable[[Path], pd.DataFrame]) -> pd.DataFrame:
    """Read a table, and say which file it was if it is not as it should be."""
    try:
        return read(path)
    except (ValueError, KeyError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not as expected: {error}") from error
