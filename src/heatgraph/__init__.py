"""Learn the weighted graph on which heat diffused, from signals observed on its nodes."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heatgraph.baselines import (
        CausalGraphProcess,
        DiffusionPolytope,
        GeneralizedLaplacian,
        GraphicalLassoGraph,
        HeatFilter,
        LakeTenenbaum,
        SmoothGraph,
        SpectralTemplates,
        neighbour_graph,
    )
    from heatgraph.comparison import compare, difference
    from heatgraph.estimators import (
        HeatCovariance,
        LearnHeat,
        PaperOptions,
        learn,
        sliding_graphs,
        time_series,
    )
    from heatgraph.graph import Graph
    from heatgraph.storage import load_model, save_model

__version__ = version("heatgraph")
__all__ = [
    "CausalGraphProcess",
    "DiffusionPolytope",
    "GeneralizedLaplacian",
    "Graph",
    "GraphicalLassoGraph",
    "HeatCovariance",
    "HeatFilter",
    "LakeTenenbaum",
    "LearnHeat",
    "PaperOptions",
    "SmoothGraph",
    "SpectralTemplates",
    "__version__",
    "compare",
    "difference",
    "learn",
    "load_model",
    "neighbour_graph",
    "save_model",
    "sliding_graphs",
    "time_series",
]
# The rooms of the names that are not in `baselines`.
_ROOMS = {
    "comparison": ("compare", "difference"),
    "estimators": (
        *("HeatCovariance", "LearnHeat", "PaperOptions"),
        *("learn", "sliding_graphs", "time_series"),
    ),
    "graph": ("Graph",),
    "storage": ("load_model", "save_model"),
}


def __getattr__(name: str) -> Any:
    # Loaded when first asked for: the numerical libraries take seconds to import.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = next((room for room, names in _ROOMS.items() if name in names), "baselines")
    return getattr(import_module(f"heatgraph.{room}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
