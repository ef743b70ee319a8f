"""Models on disk: one file of arrays with a header of JSON, never a pickle.

A reader trusts nothing: :func:`heatgraph.files.read_arrays` bounds what is read by the size of the
file, and every shape, number and parameter is checked before a model is made of them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from heatgraph.baselines import (
    DiffusionPolytope,
    GeneralizedLaplacian,
    GraphicalLassoGraph,
    HeatFilter,
    LakeTenenbaum,
    SmoothGraph,
    SpectralTemplates,
)
from heatgraph.estimators import HeatCovariance, LearnHeat, ModelComparison
from heatgraph.estimators.large_covariance import set_operators
from heatgraph.files import read_arrays, write_arrays
from heatgraph.graph import Graph
from heatgraph.graph.storage import is_plain, names_from_json
from heatgraph.kernels.spectral import KERNELS, Power, kernel_of
from heatgraph.models.atoms import ATOMS
from heatgraph.selection.scores import HeldOutScore
from heatgraph.solvers.log_penalty import PENALTIES
from heatgraph.solvers.result import Status

__all__ = ["load_model", "save_model"]

FORMAT = "heatgraph.model"
FORMAT_VERSION = 1
GRAPH_FIELDS = {
    "edges": ("<i8", 2),
    "weights": ("<f8", 1),
    "confidence": ("<f8", 1),
    "coordinates": ("<f8", 2),
}
# What an array given as a parameter may hold.
PARAMETER_DTYPES = "<f8 <f4 <i8 <i4 |b1"


@dataclass(frozen=True)
class Kind:
    """How the fitted attributes of an estimator are stored.

    ``arrays`` gives each a letter a dimension: the same letter is the same size throughout, ``N``
    the number of nodes.  ``graphs`` are on these nodes; ``numbers`` are of the type given;
    ``tables`` are data frames of numbers, or None.  ``added`` are arrays (N,) that older files do
    not have, each with the array that takes its place there, or "" for zeros.  ``compared`` if
    :func:`heatgraph.learn` may have compared the model with another.
    """

    estimator: type[Any]
    graphs: tuple[str, ...]
    arrays: Mapping[str, str]
    numbers: Mapping[str, type]
    check: Callable[[Any], None]
    compared: bool = False
    tables: tuple[str, ...] = ()
    added: Mapping[str, str] = field(default_factory=dict)


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
    f = model.source_variances_ @ Power(kernel_of(model.kernel)).values(lam, model.scales_)
    C = (U * (f + model.noise_variance_)) @ U.T
    if not np.allclose(model.covariance_, C, atol=1e-6 * np.abs(C).max()):
        raise ValueError("its covariance is not that of its graph")


# The kernels that a file may name, by class: an object of a user's own class is not stored.
KERNEL_CLASSES = {type(kernel).__name__: type(kernel) for kernel in KERNELS.values()}

GAUSSIAN = {
    "laplacian_": "NN",
    "precision_": "NN",
    "location_": "N",
    "node_means_": "N",
    "objective_": "T",
}
KINDS = {
    "HeatCovariance": Kind(
        HeatCovariance,
        graphs=("graph_", "weights_"),
        arrays={
            "laplacian_": "NN",
            "covariance_": "NN",
            "precision_": "NN",
            "second_moment_": "NN",
            "location_": "N",
            "node_means_": "N",
            "scales_": "S",
            "source_variances_": "S",
            "objective_": "T",
        },
        numbers={
            "residual_": float,
            "n_iter_": int,
            "noise_variance_": float,
            "shrinkage_": float,
            "penalty_": float,
            "relaxed_": bool,
            "cut_": float,
            "n_signals_": float,
            "n_effective_": float,
        },
        check=_check_heat_covariance,
        compared=True,
        tables=("selection_",),
    ),
    "LearnHeat": Kind(
        LearnHeat,
        graphs=("graph_", "weights_"),
        arrays={
            "laplacian_": "NN",
            "scales_": "S",
            "sources_": "MSN",
            "location_": "N",
            "node_means_": "N",
            "objective_": "T",
        },
        numbers={
            "residual_": float,
            "n_iter_": int,
            "alpha_": float,
            "beta_": float,
            "predicting_alpha_": float,
            "cut_": float,
        },
        check=_check_learn_heat,
        compared=True,
        tables=("selection_", "stretches_"),
        added={"location_": "", "node_means_": "location_"},
    ),
    "SmoothGraph": Kind(
        SmoothGraph,
        graphs=("graph_", "weights_"),
        arrays={"laplacian_": "NN", "node_means_": "N", "objective_": "T"},
        numbers={"residual_": float, "n_iter_": int, "beta_": float},
        check=_check_smooth_graph,
        added={"node_means_": ""},
    ),
    "SpectralTemplates": Kind(
        SpectralTemplates,
        graphs=("graph_", "weights_"),
        arrays={"laplacian_": "NN", "eigenvectors_": "NN", "objective_": "T"},
        numbers={"residual_": float, "n_iter_": int, "penalty_": float, "eps_": float},
        check=_check_laplacian,
    ),
    "GraphicalLassoGraph": Kind(
        GraphicalLassoGraph,
        graphs=("graph_", "weights_"),
        arrays=GAUSSIAN,
        numbers={"residual_": float, "n_iter_": int, "alpha_": float},
        check=_check_laplacian,
        added={"node_means_": "location_"},
    ),
    "GeneralizedLaplacian": Kind(
        GeneralizedLaplacian,
        graphs=("graph_", "weights_"),
        arrays=GAUSSIAN,
        numbers={"residual_": float, "n_iter_": int},
        check=_check_laplacian,
    ),
    "LakeTenenbaum": Kind(
        LakeTenenbaum,
        graphs=("graph_", "weights_"),
        arrays=GAUSSIAN,
        numbers={"residual_": float, "n_iter_": int, "beta_": float, "variance_": float},
        check=_check_laplacian,
    ),
    "HeatFilter": Kind(
        HeatFilter,
        graphs=("graph_", "weights_"),
        arrays={**GAUSSIAN, "scales_": "S"},
        numbers={"residual_": float, "n_iter_": int, "variance_": float, "cut_": float},
        check=_check_laplacian,
    ),
    "DiffusionPolytope": Kind(
        DiffusionPolytope,
        graphs=("graph_", "weights_"),
        arrays={
            "laplacian_": "NN",
            "diffusion_": "NN",
            "eigenvectors_": "NN",
            "eigenvalues_": "N",
            "objective_": "T",
        },
        numbers={"residual_": float, "n_iter_": int},
        check=_check_laplacian,
    ),
}


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, whole or not at all.

    Parameters
    ----------
    model : estimator
        A fitted estimator of :mod:`heatgraph.estimators` or :mod:`heatgraph.baselines`, other than
        ``CausalGraphProcess``.
    path : str or path-like
        The file; by custom it ends in ``.npz``.

    Raises
    ------
    ValueError
        If the model is not fitted, of a kind that is not stored, or has a parameter or node names
        that cannot be stored.

    Notes
    -----
    A ``random_state`` that is a generator is not stored and comes back as None: it has no part in
    what a fitted model computes.  Sources that are not a whole array in memory
    are left out.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from heatgraph.datasets import make_graph, make_heat_signals
    >>> X, _ = make_heat_signals(make_graph("ring", 6, 0), [2.0], 20, random_state=0)
    >>> model = LearnHeat(n_scales=1).fit(X)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.npz"
    >>> save_model(model, path)
    >>> bool((load_model(path).transform(X) == model.transform(X)).all())
    True
    """
    name = type(model).__name__
    kind = KINDS.get(name)
    if kind is None or type(model) is not kind.estimator:
        raise ValueError(f"model must be one of {', '.join(KINDS)}, got {name}")
    if not hasattr(model, "graph_"):
        raise ValueError(f"model must be fitted to be saved, this {name} is not")
    arrays: dict[str, NDArray[Any]] = {}
    for attribute in kind.graphs:
        _put_graph(arrays, attribute, getattr(model, attribute))
    for attribute in kind.arrays:
        value = getattr(model, attribute)
        if attribute == "laplacian_" and sp.issparse(value):  # the weights say it all
            value = np.empty((0, 0))
        if isinstance(value, LinearOperator):
            value = np.empty((0, 0))
        if not isinstance(value, np.ndarray):  # sources that are not in memory, or too many
            value = np.empty((0, *value.shape[1:]))
        arrays[attribute] = np.asarray(value, dtype="<f8")
    parameters = {
        key: _encode(key, value, arrays)
        for key, value in model.get_params(deep=False).items()
        if key != "checkpoint"  # a file of the fit's, which has no part in what it computes
    }
    feature_names = getattr(model, "feature_names_in_", None)
    header = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "estimator": name,
        "heatgraph": version("heatgraph"),
        "parameters": parameters,
        "status": str(model.status_),
        "numbers": {
            key: _number(type_(getattr(model, key))) for key, type_ in kind.numbers.items()
        },
        "tables": {key: _encode_table(getattr(model, key)) for key in kind.tables},
        "comparison": _encode_scores(getattr(model, "comparison_", None)),
        "held_out": _encode_scores(getattr(model, "held_out_", None)),
        "chosen_at_end": list(getattr(model, "chosen_at_end_", ())),
        "n_nodes": model.graph_.n_nodes,
        "names": _plain_names(model.graph_.names),
        "feature_names": None if feature_names is None else list(map(str, feature_names)),
    }
    write_arrays(path, header, arrays)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read a model that :func:`save_model` wrote.

    Nothing is unpickled and nothing larger than the file is allocated, so a file from a stranger
    is safe to try.  The model computes what the saved one did, bit for bit.

    Parameters
    ----------
    path : str or path-like
        The file, or the folder that ``heatgraph learn`` wrote.

    Returns
    -------
    estimator
        Fitted, of the class that was saved.

    Raises
    ------
    ValueError
        If the file is damaged, holds something else, or its parts do not fit together.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.npz"
    >>> _ = path.write_bytes(b"not a model")
    >>> load_model(path)
    Traceback (most recent call last):
    ...
    ValueError: cannot load the model ...: not a whole .npz file (File is not a zip file). ...
    """
    if os.path.isdir(path):
        path = os.path.join(path, "model.npz")
    with open(path, "rb") as file:
        try:
            return _assemble(*read_arrays(file, FORMAT, FORMAT_VERSION, _expected))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise ValueError(
                f"cannot load the model {os.fspath(path)}: {error}. Copy the file again, or learn "
                "the model anew with this version of heatgraph"
            ) from error


def _put_graph(arrays: dict[str, NDArray[Any]], name: str, graph: Graph) -> None:
    for part, (dtype, _) in GRAPH_FIELDS.items():
        value = getattr(graph, part)
        if value is not None:
            arrays[f"{name}.{part}"] = np.asarray(value, dtype=dtype)


def _get_graph(arrays: Mapping[str, NDArray[Any]], name: str, n_nodes: int, names: Any) -> Graph:
    parts: dict[str, Any] = {part: arrays.get(f"{name}.{part}") for part in GRAPH_FIELDS}
    if parts["edges"] is None or parts["weights"] is None:
        raise ValueError(f"it lacks the edges or the weights of {name}")
    return Graph(n_nodes=n_nodes, names=names, **parts)


def _plain_names(names: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    for name in names or ():
        if not is_plain(name):
            raise ValueError(
                f"names must be text, numbers or tuples of them to be saved, got {name!r}"
            )
    return names


def _is_real(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def _number(value: float) -> float | str:
    """JSON has no infinity and no NaN."""
    return value if math.isfinite(value) else repr(value)


def _encode(key: str, value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """A parameter as JSON, where what JSON has no word for is an object with its kind."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (bool, int, str) or _is_real(value):
        return value
    if isinstance(value, float):
        return {"kind": "float", "value": repr(float(value))}
    if isinstance(value, tuple):
        return {"kind": "tuple", "items": [_encode(key, item, arrays) for item in value]}
    if isinstance(value, list):
        return [_encode(key, item, arrays) for item in value]
    if isinstance(value, Graph):
        _put_graph(arrays, f"parameter.{key}", value)
        return {"kind": "graph", "n_nodes": value.n_nodes, "names": _plain_names(value.names)}
    if isinstance(value, np.ndarray) and value.dtype in map(np.dtype, PARAMETER_DTYPES.split()):
        arrays[f"parameter.{key}"] = value
        return {"kind": "array", "ndim": value.ndim}
    if type(value) in KERNEL_CLASSES.values():
        numbers = {name: _number(number) for name, number in asdict(value).items()}
        return {"kind": "kernel", "name": type(value).__name__, "numbers": numbers}
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        return {"kind": "generator"}
    if sp.issparse(value):
        return np.argwhere(value.toarray()).tolist()
    if hasattr(value, "to_numpy") or isinstance(value, np.ndarray):
        return _encode(key, np.asarray(value).tolist(), arrays)
    raise ValueError(
        f"the parameter {key} must be numbers, text, lists, an array, a Graph or a kernel of "
        f"heatgraph to be saved, got {type(value).__name__}"
    )


def _decode(key: str, value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if isinstance(value, list):
        return [_decode(key, item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"kind": "float", "value": str(text)}:
            return float(text)
        case {"kind": "tuple", "items": list(items)}:
            return tuple(_decode(key, item, arrays) for item in items)
        case {"kind": "array"} if f"parameter.{key}" in arrays:
            return arrays[f"parameter.{key}"].copy()
        case {"kind": "graph", "n_nodes": n_nodes, "names": names}:
            return _get_graph(arrays, f"parameter.{key}", n_nodes, names_from_json(names))
        case {"kind": "kernel", "name": str(name), "numbers": dict(numbers)}:
            return _kernel(name, numbers)
        case {"kind": "generator"}:
            return None
    raise ValueError(f"its parameter {key} is not one that heatgraph writes")


def _kernel(name: str, numbers: dict[str, Any]) -> Any:
    kind: Any = KERNEL_CLASSES.get(name)
    if kind is None or {part.name for part in fields(kind)} != set(numbers):
        raise ValueError(f"its kernel {name} is not one that heatgraph writes")
    return kind(**{key: _read_number(key, value, float) for key, value in numbers.items()})


def _encode_table(table: pd.DataFrame | None) -> Any:
    """Columns of numbers, where JSON has null for NaN: a cell that does not apply."""
    if table is None:
        return None
    columns = {}
    for name in table.columns:
        values = table[name].tolist()
        columns[str(name)] = [None if math.isnan(value) else value for value in values]
    return columns


def _decode_table(name: str, columns: Any) -> pd.DataFrame | None:
    if columns is None:
        return None
    if not isinstance(columns, dict) or not all(isinstance(c, list) for c in columns.values()):
        raise ValueError(f"its {name} is not a table")
    cells = [cell for column in columns.values() for cell in column]
    if not all(cell is None or type(cell) in (int, float) for cell in cells):
        raise ValueError(f"its {name} holds something else than numbers")
    frame = pd.DataFrame(columns)
    return frame.astype({key: float for key in frame.columns if frame[key].isna().any()})


def _encode_scores(scores: Any) -> dict[str, float | str] | None:
    """A dataclass of numbers, or None."""
    if scores is None:
        return None
    return {key: _number(value) for key, value in asdict(scores).items()}


def _decode_scores(name: str, kind: type[Any], numbers: Any) -> Any:
    if numbers is None:
        return None
    known = {part.name for part in fields(kind)}
    needed = [part.name for part in fields(kind) if part.default is MISSING]
    if not isinstance(numbers, dict) or not set(needed) <= set(numbers) <= known:
        raise ValueError(f"its {name} does not hold {', '.join(needed)}")
    return kind(**{key: _read_number(f"{name}_", numbers[key], float) for key in numbers})


def _decode_ends(ends: Any) -> tuple[str, ...]:
    if not isinstance(ends, list) or not all(isinstance(end, str) for end in ends):
        raise ValueError("its chosen_at_end is not a list of names")
    return tuple(ends)


def _expected(header: dict[str, Any]) -> dict[str, tuple[str, int]]:
    """The fields that a model with this header may have."""
    types = {"parameters": dict, "numbers": dict, "n_nodes": int, "status": str, "estimator": str}
    for key, type_ in types.items():
        if not isinstance(header.get(key), type_):
            raise ValueError(f"its header lacks {key}, or it is not of type {type_.__name__}")
    kind = KINDS.get(header["estimator"])
    if kind is None:
        raise ValueError(
            f"it holds a {header['estimator']!r}, this version reads {', '.join(KINDS)}"
        )
    graphs = list(kind.graphs)
    expected = {name: ("<f8", len(letters)) for name, letters in kind.arrays.items()}
    for key, value in header["parameters"].items():
        if isinstance(value, dict) and value.get("kind") == "graph":
            graphs.append(f"parameter.{key}")
        if isinstance(value, dict) and value.get("kind") == "array":
            expected[f"parameter.{key}"] = (PARAMETER_DTYPES, value.get("ndim", 1))
    for name in graphs:
        expected |= {f"{name}.{part}": shape for part, shape in GRAPH_FIELDS.items()}
    missing = set(kind.arrays) - set(kind.added) - set(header["fields"])
    if missing:
        raise ValueError(f"it lacks the fields {sorted(missing)}")
    return expected


def _assemble(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    kind = KINDS[header["estimator"]]
    n_nodes = header["n_nodes"]
    # Shapes first: they bind the number of nodes to what the file really holds.
    _check_shapes(kind, arrays, n_nodes)
    for name, other in kind.added.items():
        arrays.setdefault(name, arrays[other] if other else np.zeros(n_nodes))
    names = names_from_json(header.get("names"))
    known = kind.estimator().get_params(deep=False)
    unknown = set(header["parameters"]) - set(known)
    if unknown:
        raise ValueError(f"its parameters {sorted(unknown)} are not known")
    model = kind.estimator(
        **{key: _decode(key, value, arrays) for key, value in header["parameters"].items()}
    )
    for name in kind.graphs:
        setattr(model, name, _get_graph(arrays, name, n_nodes, names))
    for name in kind.arrays:
        setattr(model, name, arrays[name].copy())
    if not model.laplacian_.size:
        model.laplacian_ = sp.csr_array(model.weights_.laplacian())
    # Models of before there was a choice predict with the alpha that they were fitted with.
    numbers = {"predicting_alpha_": header["numbers"].get("alpha_"), **header["numbers"]}
    for name, type_ in kind.numbers.items():
        setattr(model, name, _read_number(name, numbers.get(name), type_))
    for name in kind.tables:
        setattr(model, name, _decode_table(name, header.get("tables", {}).get(name)))
    if kind.compared:
        comparison = header.get("comparison")
        model.comparison_ = _decode_scores("comparison", ModelComparison, comparison)
    if isinstance(model, LearnHeat):
        model.held_out_ = _decode_scores("held_out", HeldOutScore, header.get("held_out"))
        model.chosen_at_end_ = _decode_ends(header.get("chosen_at_end", []))
    model.status_ = _read_status(header["status"])
    model.n_features_in_ = n_nodes
    _set_feature_names(model, header.get("feature_names"), n_nodes)
    kind.check(model)
    return model


def _check_shapes(kind: Kind, arrays: Mapping[str, NDArray[Any]], n_nodes: int) -> None:
    sizes = {"N": n_nodes}
    for name, letters in kind.arrays.items():
        if name in kind.added and name not in arrays:
            continue
        array = arrays[name]
        if letters == "NN" and array.shape == (0, 0):  # made from the weights
            continue
        for letter, size in zip(letters, array.shape, strict=True):
            # No sources: the signals were not in memory.
            if (size < 1 and letter != "M") or sizes.setdefault(letter, size) != size:
                raise ValueError(
                    f"the field {name!r} has the shape {array.shape}, which does not go with the "
                    f"{n_nodes} nodes and the other fields"
                )
        # An objective is a sum of squares, which may be out of range where the signals are not.
        if np.isnan(array).any() or (name != "objective_" and np.isinf(array).any()):
            raise ValueError(f"the field {name!r} holds NaN or infinity")


def _read_number(name: str, value: Any, type_: type) -> Any:
    if type_ is float and isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    if type_ is bool and isinstance(value, bool):
        return value
    if isinstance(value, bool) or not isinstance(value, int if type_ is int else (int, float)):
        raise ValueError(f"its {name} is {value!r}, not a number")
    return type_(value)


def _read_status(value: str) -> Status:
    if value not in list(Status):
        raise ValueError(f"its status is {value!r}, not one of {', '.join(Status)}")
    return Status(value)


def _set_feature_names(model: Any, names: Any, n_nodes: int) -> None:
    if names is None:
        return
    if not isinstance(names, list) or len(names) != n_nodes or {type(n) for n in names} != {str}:
        raise ValueError(f"its feature names are not a list of {n_nodes} texts")
    model.feature_names_in_ = np.array(names, dtype=object)
