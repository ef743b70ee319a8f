"""The sources of signals on a learned graph, as they are handed out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["SourceCodes"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SourceCodes:
    """Sources (n_signals, n_scales, n_nodes) and the duality gap of each, over its energy.

    ``signals`` and ``nodes`` are their names, ``scales`` the diffusion times.
    """

    sources: Array
    gap: Array
    signals: Sequence[Any] = ()
    nodes: Sequence[Any] = ()
    scales: Sequence[float] = ()

    def __repr__(self) -> str:
        M, S, N = self.sources.shape
        found = np.count_nonzero(self.sources)
        return f"SourceCodes({found} sources of {M} signals, at {N} nodes and {S} scales)"

    def to_pandas(self) -> pd.DataFrame:
        """A row a source that is not zero: its signal, node, scale and strength.

        The strongest of each signal comes first.
        """
        signal, scale, node = np.nonzero(self.sources)
        strength = self.sources[signal, scale, node]
        order = np.lexsort((-np.abs(strength), signal))
        return pd.DataFrame(
            {
                "signal": _named(self.signals, signal[order]),
                "node": _named(self.nodes, node[order]),
                "scale": _named(self.scales, scale[order]),
                "strength": strength[order],
            }
        )


def _named(names: Sequence[Any], which: NDArray[np.intp]) -> list[Any]:
    return [names[k] for k in which] if len(names) else which.tolist()
