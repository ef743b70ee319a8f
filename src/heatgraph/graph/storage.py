"""A graph in a file: ``.npz`` for all of it, ``.graphml`` and ``.csv`` for other tools.

The native file is a zip of uncompressed ``.npy`` members, read with mistrust by
:func:`heatgraph.files.read_arrays`.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from xml.etree.ElementTree import ParseError

import numpy as np
from numpy.typing import NDArray

from heatgraph.files import read_arrays, write_arrays, write_atomically
from heatgraph.graph import convert
from heatgraph.graph.checks import Parts

if TYPE_CHECKING:
    from heatgraph.graph.graph import Graph

FORMAT = "heatgraph.Graph"
FORMAT_VERSION = 1

# The dtype and the number of dimensions of each field.  The header has the number of nodes, their
# names, and which of the fields are there.
FIELDS: dict[str, tuple[str, int]] = {
    "edges": ("<i8", 2),
    "weights": ("<f8", 1),
    "confidence": ("<f8", 1),
    "coordinates": ("<f8", 2),
}


def save(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write the graph in the format of the suffix."""
    write, _ = _format(path)
    write(graph, Path(path))


def load(path: str | os.PathLike[str]) -> Parts:
    """Read the arguments of ``Graph`` in the format of the suffix."""
    _, read = _format(path)
    with open(path, "rb") as file:
        return read(file)


def _save_npz(graph: Graph, path: Path) -> None:
    header = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "n_nodes": graph.n_nodes,
        "names": plain_names(graph.names),
        "directed": graph.directed,
    }
    write_arrays(path, header, to_arrays(graph))


def to_arrays(graph: Graph, prefix: str = "") -> dict[str, NDArray[Any]]:
    """The parts of a graph as files hold them, under their names after a prefix."""
    return {
        f"{prefix}{field}": np.asarray(value, dtype=dtype)
        for field, (dtype, _) in FIELDS.items()
        if (value := getattr(graph, field)) is not None
    }


def from_arrays(
    arrays: Mapping[str, NDArray[Any]], n_nodes: int, names: Any, prefix: str = ""
) -> Parts:
    """The arguments of ``Graph`` that :func:`to_arrays` took apart."""
    edges, weights, confidence, coordinates = (arrays.get(f"{prefix}{field}") for field in FIELDS)
    if edges is None or weights is None:
        raise ValueError(f"it lacks the fields {prefix}edges or {prefix}weights")
    return Parts(
        edges=edges,
        weights=weights,
        n_nodes=n_nodes,
        names=names,
        confidence=confidence,
        coordinates=coordinates,
    )


def plain_names(names: tuple[Hashable, ...] | None) -> tuple[Hashable, ...] | None:
    """The names of nodes, if JSON can hold them."""
    for name in names or ():
        if not _is_plain(name):
            raise ValueError(
                f"names must be text, numbers or tuples of them to be saved, got {name!r}"
            )
    return names


def _is_plain(name: Hashable) -> bool:
    if isinstance(name, tuple):
        return all(map(_is_plain, name))
    return type(name) in (str, int, float, bool)


def _load_npz(file: IO[bytes]) -> Parts:
    def expected(header: dict[str, Any]) -> dict[str, tuple[str, int]]:
        missing = {"n_nodes", "names"} - set(header)
        if missing or header["n_nodes"] is None:
            raise ValueError(f"its header lacks {sorted(missing) or ['n_nodes']}")
        return FIELDS

    header, found = read_arrays(file, FORMAT, FORMAT_VERSION, expected)
    parts = from_arrays(found, header["n_nodes"], names_from_json(header["names"]))
    return {**parts, "directed": header.get("directed", False)}


def names_from_json(names: Any) -> list[Hashable] | None:
    """The names in a header, where a tuple was written as a list."""
    if names is not None and not isinstance(names, list):
        raise ValueError(f"its names must be a list, got {type(names).__name__}")
    return None if names is None else [_tuples(name) for name in names]


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


# What XML 1.0 cannot hold, or a reader may change: control characters and lone surrogates.
NOT_XML = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def _save_graphml(graph: Graph, path: Path) -> None:
    import networkx as nx

    # GraphML makes text of every node: the names go into an attribute, which has a type.
    other = replace(graph, names=tuple(f"n{k}" for k in range(graph.n_nodes))).to_networkx()
    for k, attributes in enumerate(other.nodes.values()):
        if graph.names is not None:
            attributes["name"] = _check_xml(graph.names[k])
        if graph.coordinates is not None:
            attributes["x"], attributes["y"] = attributes.pop("pos")
    with write_atomically(path) as file:
        nx.write_graphml(other, file)


def _check_xml(name: Hashable) -> Hashable:
    kind = type(name)
    in_range = kind is not int or -(2**63) <= name < 2**63  # type: ignore[operator]
    printable = kind is not str or (name != "" and not NOT_XML.search(str(name)))
    if kind not in (str, int, float, bool) or not in_range or not printable:
        raise ValueError(
            f"names must be printable text or numbers to be saved as GraphML, got {name!r}; "
            "save as .npz instead"
        )
    return name


def _load_graphml(file: IO[bytes]) -> Parts:
    import networkx as nx

    try:
        other = nx.read_graphml(file)
    except (ParseError, nx.NetworkXError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"not a GraphML file ({error})") from error
    parts = convert.from_networkx(other, "weight")
    nodes = list(other.nodes)
    names = [other.nodes[n].get("name") for n in nodes]
    if names and all(name is not None for name in names):
        parts["names"] = names
    elif nodes == [f"n{k}" for k in range(len(nodes))]:
        parts["names"] = None
    places = [(other.nodes[n].get("x"), other.nodes[n].get("y")) for n in nodes]
    if places and all(x is not None and y is not None for x, y in places):
        parts["coordinates"] = places
    return parts


WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")


def _save_csv(graph: Graph, path: Path) -> None:
    nodes = convert.labels(graph)
    texts = [str(node) for node in nodes]
    if any(type(node) not in (str, int) for node in nodes) or len(set(texts)) != len(texts):
        raise ValueError(
            "names must be text or whole numbers, distinct as text, to be saved as CSV; "
            "save as .npz instead"
        )
    frame = graph.to_pandas()
    if graph.directed:
        frame["directed"] = "true"
    with write_atomically(path, "w", newline="") as file:
        frame.to_csv(file, index=False, lineterminator="\r\n")


def _load_csv(file: IO[bytes]) -> Parts:
    # utf-8-sig, because spreadsheets put a byte-order mark first.
    text = file.read().decode("utf-8-sig")
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise ValueError(f"not a CSV file ({error})") from error
    header, rows = (rows[0], [row for row in rows[1:] if row]) if rows else ([], [])
    if not {"source", "target", "weight"} <= set(header):
        raise ValueError(f"a CSV graph has the columns source, target, weight; got {header[:10]}")
    uneven = next((k for k, row in enumerate(rows) if len(row) != len(header)), None)
    if uneven is not None:
        raise ValueError(f"row {uneven + 1} has {len(rows[uneven])} fields, not {len(header)}")
    if not rows:
        raise ValueError("a CSV graph must have at least one edge")
    columns: dict[str, Any] = dict(zip(header, zip(*rows, strict=True), strict=True))
    ends = columns["source"] + columns["target"]
    kind: type = int if all(map(WHOLE_NUMBER.fullmatch, ends)) else str
    source, target = (list(map(kind, columns[end])) for end in ("source", "target"))
    parts = convert.from_labels(source, target)
    parts["weights"] = [float(weight) for weight in columns["weight"]]
    if "confidence" in columns:
        parts["confidence"] = [float(value) for value in columns["confidence"]]
    values = {value.strip().lower() for value in columns.get("directed", ("false",))}
    if values not in ({"true"}, {"false"}):
        raise ValueError(
            f"the column directed must be true throughout, or false; got {sorted(values)[:3]}"
        )
    parts["directed"] = values == {"true"}
    return parts


FORMATS: dict[str, tuple[Callable[[Graph, Path], None], Callable[[IO[bytes]], Parts]]] = {
    ".npz": (_save_npz, _load_npz),
    ".graphml": (_save_graphml, _load_graphml),
    ".csv": (_save_csv, _load_csv),
}


def _format(
    path: str | os.PathLike[str],
) -> tuple[Callable[[Graph, Path], None], Callable[[IO[bytes]], Parts]]:
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"path must end in one of {', '.join(FORMATS)}, got {os.fspath(path)!r}")
    return FORMATS[suffix]
