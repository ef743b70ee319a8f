"""Models on disk: one file of arrays with a header of JSON, never a pickle.

A reader trusts nothing: :func:`heatgraph.files.read_arrays` bounds what is read by the size of the
file, and every shape, number and parameter is checked before a model is made of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from heatgraph.estimators import HeatCovariance, LearnHeat, ModelComparison
from heatgraph.files import read_arrays, write_arrays
from heatgraph.graph import Graph
from heatgraph.graph.storage import FIELDS, from_arrays, names_from_json, plain_names, to_arrays
from heatgraph.selection.masked_prediction import HeldOutScore
from heatgraph.solvers.result import Status
from heatgraph.stored_models import (
    KINDS,
    PARAMETER_DTYPES,
    Kind,
    decode,
    decode_ends,
    decode_scores,
    decode_table,
    encode,
    encode_scores,
    encode_table,
    number,
    read_number,
)

__all__ = ["load_model", "save_model"]

FORMAT = "heatgraph.model"
FORMAT_VERSION = 2


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
        arrays |= to_arrays(getattr(model, attribute), f"{attribute}.")
    for attribute in kind.arrays:
        value = getattr(model, attribute)
        if sp.issparse(value) or isinstance(value, LinearOperator):  # the weights say it all
            value = np.empty((0, 0))
        if not isinstance(value, np.ndarray):  # sources that are not in memory, or too many
            value = np.empty((0, *value.shape[1:]))
        arrays[attribute] = np.asarray(value, dtype="<f8")
    parameters = {
        key: encode(key, value, arrays)
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
        "numbers": {key: number(type_(getattr(model, key))) for key, type_ in kind.numbers.items()},
        "tables": {key: encode_table(getattr(model, key)) for key in kind.tables},
        "comparison": encode_scores(getattr(model, "comparison_", None)),
        "held_out": encode_scores(getattr(model, "held_out_", None)),
        "kernel": encode("kernel", getattr(model, "kernel_", None), arrays),
        "chosen_at_end": list(getattr(model, "chosen_at_end_", ())),
        "n_nodes": model.graph_.n_nodes,
        "names": plain_names(model.graph_.names),
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
        expected |= {f"{name}.{part}": shape for part, shape in FIELDS.items()}
    missing = set(kind.arrays) - set(header["fields"])
    if missing:
        raise ValueError(f"it lacks the fields {sorted(missing)}")
    return expected


def _assemble(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    kind = KINDS[header["estimator"]]
    n_nodes = header["n_nodes"]
    # Shapes first: they bind the number of nodes to what the file really holds.
    _check_shapes(kind, arrays, n_nodes)
    names = names_from_json(header.get("names"))
    known = kind.estimator().get_params(deep=False)
    unknown = set(header["parameters"]) - set(known)
    if unknown:
        raise ValueError(f"its parameters {sorted(unknown)} are not known")
    model = kind.estimator(
        **{key: decode(key, value, arrays) for key, value in header["parameters"].items()}
    )
    for name in kind.graphs:
        setattr(model, name, Graph(**from_arrays(arrays, n_nodes, names, f"{name}.")))
    for name in kind.arrays:
        setattr(model, name, arrays[name].copy())
    if not model.laplacian_.size:
        model.laplacian_ = sp.csr_array(model.weights_.laplacian())
    for name, type_ in kind.numbers.items():
        setattr(model, name, read_number(name, header["numbers"].get(name), type_))
    for name in kind.tables:
        setattr(model, name, decode_table(name, header.get("tables", {}).get(name)))
    if kind.compared:
        comparison = header.get("comparison")
        model.comparison_ = decode_scores("comparison", ModelComparison, comparison)
    if isinstance(model, HeatCovariance):
        model.kernel_ = decode("kernel", header.get("kernel"), arrays)
    if isinstance(model, LearnHeat):
        model.held_out_ = decode_scores("held_out", HeldOutScore, header.get("held_out"))
        model.chosen_at_end_ = decode_ends(header.get("chosen_at_end", []))
    model.status_ = Status(header["status"])
    model.n_features_in_ = n_nodes
    _set_feature_names(model, header.get("feature_names"), n_nodes)
    kind.check(model)
    return model


def _check_shapes(kind: Kind, arrays: Mapping[str, NDArray[Any]], n_nodes: int) -> None:
    sizes = {"N": n_nodes}
    for name, letters in kind.arrays.items():
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
    # Else a file of a kilobyte could ask for arrays of any size.
    if not any("N" in kind.arrays.get(name, "") and array.size for name, array in arrays.items()):
        raise ValueError(f"none of its fields has a value for each of the {n_nodes} nodes")


def _set_feature_names(model: Any, names: Any, n_nodes: int) -> None:
    if names is None:
        return
    if not isinstance(names, list) or len(names) != n_nodes or {type(n) for n in names} != {str}:
        raise ValueError(f"its feature names are not a list of {n_nodes} texts")
    model.feature_names_in_ = np.array(names, dtype=object)
