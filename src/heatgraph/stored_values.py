"""What the header of a model file holds, as JSON and back: parameters, graphs, tables, scores.

A reader trusts nothing: whatever is not of the form that heatgraph writes is a ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from heatgraph.graph import Graph
from heatgraph.graph.storage import is_plain, names_from_json
from heatgraph.kernels.spectral import KERNELS

__all__ = [
    "GRAPH_FIELDS",
    "PARAMETER_DTYPES",
    "decode",
    "decode_ends",
    "decode_scores",
    "decode_table",
    "encode",
    "encode_scores",
    "encode_table",
    "get_graph",
    "number",
    "plain_names",
    "put_graph",
    "read_number",
]

GRAPH_FIELDS = {
    "edges": ("<i8", 2),
    "weights": ("<f8", 1),
    "confidence": ("<f8", 1),
    "coordinates": ("<f8", 2),
}
# What an array given as a parameter may hold.
PARAMETER_DTYPES = "<f8 <f4 <i8 <i4 |b1"
KERNEL_CLASSES = {type(kernel).__name__: type(kernel) for kernel in KERNELS.values()}


def put_graph(arrays: dict[str, NDArray[Any]], name: str, graph: Graph) -> None:
    """Put the parts of a graph among the arrays, under its name."""
    for part, (dtype, _) in GRAPH_FIELDS.items():
        value = getattr(graph, part)
        if value is not None:
            arrays[f"{name}.{part}"] = np.asarray(value, dtype=dtype)


def get_graph(arrays: Mapping[str, NDArray[Any]], name: str, n_nodes: int, names: Any) -> Graph:
    """The graph whose parts :func:`put_graph` put under a name."""
    parts: dict[str, Any] = {part: arrays.get(f"{name}.{part}") for part in GRAPH_FIELDS}
    if parts["edges"] is None or parts["weights"] is None:
        raise ValueError(f"it lacks the edges or the weights of {name}")
    return Graph(n_nodes=n_nodes, names=names, **parts)


def plain_names(names: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """The names of nodes, if JSON can hold them."""
    for name in names or ():
        if not is_plain(name):
            raise ValueError(
                f"names must be text, numbers or tuples of them to be saved, got {name!r}"
            )
    return names


def _is_real(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def number(value: float) -> float | str:
    """JSON has no infinity and no NaN."""
    return value if math.isfinite(value) else repr(value)


def encode(key: str, value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """A parameter as JSON, where what JSON has no word for is an object with its kind."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (bool, int, str) or _is_real(value):
        return value
    if isinstance(value, float):
        return {"kind": "float", "value": repr(float(value))}
    if isinstance(value, tuple):
        return {"kind": "tuple", "items": [encode(key, item, arrays) for item in value]}
    if isinstance(value, list):
        return [encode(key, item, arrays) for item in value]
    if isinstance(value, Graph):
        put_graph(arrays, f"parameter.{key}", value)
        return {"kind": "graph", "n_nodes": value.n_nodes, "names": plain_names(value.names)}
    if isinstance(value, np.ndarray) and value.dtype in map(np.dtype, PARAMETER_DTYPES.split()):
        arrays[f"parameter.{key}"] = value
        return {"kind": "array", "ndim": value.ndim}
    if type(value) in KERNEL_CLASSES.values():
        numbers = {name: number(part) for name, part in asdict(value).items()}
        return {"kind": "kernel", "name": type(value).__name__, "numbers": numbers}
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        return {"kind": "generator"}
    if sp.issparse(value):
        return np.argwhere(value.toarray()).tolist()
    if hasattr(value, "to_numpy") or isinstance(value, np.ndarray):
        return encode(key, np.asarray(value).tolist(), arrays)
    raise ValueError(
        f"the parameter {key} must be numbers, text, lists, an array, a Graph or a kernel of "
        f"heatgraph to be saved, got {type(value).__name__}"
    )


def decode(key: str, value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """The parameter that :func:`encode` made JSON of."""
    if isinstance(value, list):
        return [decode(key, item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"kind": "float", "value": str(text)}:
            return float(text)
        case {"kind": "tuple", "items": list(items)}:
            return tuple(decode(key, item, arrays) for item in items)
        case {"kind": "array"} if f"parameter.{key}" in arrays:
            return arrays[f"parameter.{key}"].copy()
        case {"kind": "graph", "n_nodes": n_nodes, "names": names}:
            return get_graph(arrays, f"parameter.{key}", n_nodes, names_from_json(names))
        case {"kind": "kernel", "name": str(name), "numbers": dict(numbers)}:
            return _kernel(name, numbers)
        case {"kind": "generator"}:
            return None
    raise ValueError(f"its parameter {key} is not one that heatgraph writes")


def _kernel(name: str, numbers: dict[str, Any]) -> Any:
    kind: Any = KERNEL_CLASSES.get(name)
    if kind is None or {part.name for part in fields(kind)} != set(numbers):
        raise ValueError(f"its kernel {name} is not one that heatgraph writes")
    return kind(**{key: read_number(key, value, float) for key, value in numbers.items()})


def encode_table(table: pd.DataFrame | None) -> Any:
    """Columns of numbers, where JSON has null for NaN: a cell that does not apply."""
    if table is None:
        return None
    columns = {}
    for name in table.columns:
        values = table[name].tolist()
        columns[str(name)] = [None if math.isnan(value) else value for value in values]
    return columns


def decode_table(name: str, columns: Any) -> pd.DataFrame | None:
    """The table that :func:`encode_table` made JSON of."""
    if columns is None:
        return None
    if not isinstance(columns, dict) or not all(isinstance(c, list) for c in columns.values()):
        raise ValueError(f"its {name} is not a table")
    cells = [cell for column in columns.values() for cell in column]
    if not all(cell is None or type(cell) in (int, float) for cell in cells):
        raise ValueError(f"its {name} holds something else than numbers")
    frame = pd.DataFrame(columns)
    return frame.astype({key: float for key in frame.columns if frame[key].isna().any()})


def encode_scores(scores: Any) -> dict[str, float | str] | None:
    """A dataclass of numbers, or None."""
    if scores is None:
        return None
    return {key: number(value) for key, value in asdict(scores).items()}


def decode_scores(name: str, kind: type[Any], numbers: Any) -> Any:
    """The dataclass of numbers that :func:`encode_scores` made JSON of."""
    if numbers is None:
        return None
    known = {part.name for part in fields(kind)}
    needed = [part.name for part in fields(kind) if part.default is MISSING]
    if not isinstance(numbers, dict) or not set(needed) <= set(numbers) <= known:
        raise ValueError(f"its {name} does not hold {', '.join(needed)}")
    return kind(**{key: read_number(f"{name}_", numbers[key], float) for key in numbers})


def decode_ends(ends: Any) -> tuple[str, ...]:
    """The names of parameters that were chosen at an end of their grid."""
    if not isinstance(ends, list) or not all(isinstance(end, str) for end in ends):
        raise ValueError("its chosen_at_end is not a list of names")
    return tuple(ends)


def read_number(name: str, value: Any, type_: type) -> Any:
    """A number of a type, as :func:`number` wrote it."""
    if type_ is float and isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    if type_ is bool and isinstance(value, bool):
        return value
    if isinstance(value, bool) or not isinstance(value, int if type_ is int else (int, float)):
        raise ValueError(f"its {name} is {value!r}, not a number")
    return type_(value)
