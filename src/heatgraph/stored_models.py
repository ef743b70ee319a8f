"""What each estimator stores in the header of its file, as JSON and back.

A reader trusts nothing: whatever is not of the form that heatgraph writes is a ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from heatgraph.baselines import (
    DiffusionPolytope,
    GeneralizedLaplacian,
    GraphicalLassoGraph,
    HeatFilter,
    LakeTenenbaum,
    SmoothGraph,
    SpectralTemplates,
)
from heatgraph.estimators import HeatCovariance, LearnHeat
from heatgraph.estimators.large_covariance import set_operators
from heatgraph.graph import Graph
from heatgraph.graph.storage import from_arrays, names_from_json, plain_names, to_arrays
from heatgraph.kernels.spectral import KERNELS, Power, kernel_of
from heatgraph.models.heat import ATOMS, PENALTIES

# What an array given as a parameter may hold.
PARAMETER_DTYPES = "<f8 <f4 <i8 <i4 |b1"
KERNEL_CLASSES = {type(kernel).__name__: type(kernel) for kernel in KERNELS.values()}


def number(value: float) -> float | str:
    """JSON has no infinity and no NaN."""
    return value if math.isfinite(value) else repr(value)


def encode(key: str, value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """A parameter as JSON, where what JSON has no word for is an object with its kind."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, float):
        return {"kind": "float", "value": repr(float(value))}
    if isinstance(value, tuple):
        return {"kind": "tuple", "items": [encode(key, item, arrays) for item in value]}
    if isinstance(value, list):
        return [encode(key, item, arrays) for item in value]
    if isinstance(value, Graph):
        arrays |= to_arrays(value, f"parameter.{key}.")
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
            names = names_from_json(names)
            return Graph(**from_arrays(arrays, n_nodes, names, f"parameter.{key}."))
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
    known = [part.name for part in fields(kind)]
    if not isinstance(numbers, dict) or set(numbers) != set(known):
        raise ValueError(f"its {name} does not hold {', '.join(known)}")
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


@dataclass(frozen=True)
class Kind:
    """How the fitted attributes of an estimator are stored.

    ``arrays`` gives each one letter per dimension: the same letter is the same size throughout,
    ``N`` the number of nodes.  ``graphs`` are on these nodes; ``numbers`` are of the type given;
    ``tables`` are data frames of numbers, or None.  ``compared`` if :func:`heatgraph.learn` may
    have compared the model with another.
    """

    estimator: type[Any]
    graphs: tuple[str, ...]
    arrays: Mapping[str, str]
    numbers: Mapping[str, type]
    check: Callable[[Any], None]
    compared: bool = False
    tables: tuple[str, ...] = ()


def _check_learn_heat(model: Any) -> None:
    if model.atoms not in ATOMS:
        raise ValueError(f"its atoms are {model.atoms!r}, not one of {', '.join(ATOMS)}")
    if model.penalty not in ("auto", *PENALTIES):
        raise ValueError(f"its penalty is {model.penalty!r}, not one of {', '.join(PENALTIES)}")
    penalties = model.alpha_, model.beta_, model.predicting_alpha_
    if (model.scales_ < 0).any() or not all(penalty >= 0 for penalty in penalties):
        raise ValueError("its scales or penalties are negative")
    if not isinstance(model.n_jobs, int | None):
        raise ValueError(f"its n_jobs is {model.n_jobs!r}, not a number")
    if not isinstance(model.positive, bool) or not isinstance(model.fit_intercept, bool):
        raise ValueError("its parameters positive and fit_intercept are not both true or false")
    _check_laplacian(model)


def _check_smooth_graph(model: Any) -> None:
    if not isinstance(model.alpha, int | float) or not model.alpha > 0:
        raise ValueError(f"its alpha is {model.alpha!r}, not a number > 0")
    _check_laplacian(model)


def _check_laplacian(model: Any) -> None:
    L = model.laplacian_
    if sp.issparse(L):  # made from the weights as the file was read
        return
    if not np.allclose(L, model.weights_.laplacian().toarray(), atol=1e-9 * np.abs(L).max()):
        raise ValueError("its Laplacian is not that of its weights")


def _check_heat_covariance(model: Any) -> None:
    _check_laplacian(model)
    if (model.scales_ < 0).any() or (model.source_variances_ < 0).any():
        raise ValueError("its scales or variances are negative")
    if not model.noise_variance_ >= 0 or not 0 <= model.shrinkage_ < 1 or not model.penalty_ >= 0:
        raise ValueError("its noise, shrinkage or penalty is out of range")
    if not model.covariance_.size:  # of the sparse engine: operators, made from the rest
        model.solver_ = "sparse"
        set_operators(model)
        return
    model.solver_ = "dense"
    lam, U = np.linalg.eigh(model.laplacian_)
    f = model.source_variances_ @ Power(kernel_of(model.kernel_)).values(lam, model.scales_)
    C = (U * (f + model.noise_variance_)) @ U.T
    if not np.allclose(model.covariance_, C, atol=1e-6 * np.abs(C).max()):
        raise ValueError("its covariance is not that of its graph")


# What every estimator has: a Laplacian, its graphs, and how the fit ended.
ARRAYS = {"laplacian_": "NN", "objective_": "T"}
NUMBERS = {"residual_": float, "n_iter_": int}
GAUSSIAN = {"precision_": "NN", "location_": "N", "node_means_": "N"}


def _kind(
    estimator: type[Any],
    arrays: Mapping[str, str],
    numbers: tuple[str, ...] = (),
    check: Callable[[Any], None] = _check_laplacian,
    **more: Any,
) -> Kind:
    """What an estimator has besides that; ``numbers`` are the names of its floats."""
    return Kind(
        estimator,
        ("graph_", "weights_"),
        {**ARRAYS, **arrays},
        {**NUMBERS, **dict.fromkeys(numbers, float), **more.pop("others", {})},
        check,
        **more,
    )


KINDS = {
    kind.estimator.__name__: kind
    for kind in (
        _kind(
            HeatCovariance,
            {
                **GAUSSIAN,
                "covariance_": "NN",
                "n_observed_": "N",
                "second_moment_": "NN",
                "scales_": "S",
                "source_variances_": "S",
            },
            ("noise_variance_", "shrinkage_", "penalty_", "cut_", "n_signals_", "n_effective_"),
            _check_heat_covariance,
            others={"relaxed_": bool},
            compared=True,
            tables=("selection_", "edge_table_"),
        ),
        _kind(
            LearnHeat,
            {
                "scales_": "S",
                "sources_": "MSN",
                "location_": "N",
                "node_means_": "N",
                "n_observed_": "N",
            },
            ("alpha_", "beta_", "predicting_alpha_", "cut_"),
            _check_learn_heat,
            compared=True,
            tables=("selection_", "stretches_"),
        ),
        _kind(SmoothGraph, {"node_means_": "N"}, ("beta_",), _check_smooth_graph),
        _kind(SpectralTemplates, {"eigenvectors_": "NN"}, ("penalty_", "eps_")),
        _kind(GraphicalLassoGraph, GAUSSIAN, ("alpha_",)),
        _kind(GeneralizedLaplacian, GAUSSIAN),
        _kind(LakeTenenbaum, GAUSSIAN, ("beta_", "variance_")),
        _kind(
            HeatFilter,
            {**GAUSSIAN, "scales_": "S"},
            ("variance_", "cut_"),
            others={"rank_": int},
        ),
        _kind(
            DiffusionPolytope,
            {"diffusion_": "NN", "eigenvectors_": "NN", "eigenvalues_": "N"},
        ),
    )
}
