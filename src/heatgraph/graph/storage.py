"""A graph in a file: ``.npz`` for all of it, ``.graphml`` and ``.csv`` for other tools.

The native file is a zip of uncompressed ``.npy`` members.  A reader trusts nothing: the members,
their dtypes and the sizes they declare are compared with the file before any array is made, so a
file can neither run code nor ask for more memory than it takes on the disk.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from xml.etree.ElementTree import ParseError

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from heatgraph.files import write_atomically
from heatgraph.graph import convert
from heatgraph.graph.checks import Parts

if TYPE_CHECKING:
    from heatgraph.graph.graph import Graph

__all__ = ["load", "save"]

FORMAT = "heatgraph.Graph"
FORMAT_VERSION = 1

# The dtype and the number of dimensions of each field.  The header is JSON text: the format, its
# version, the number of nodes, their names, and which of the other fields are there.
FIELDS: dict[str, tuple[str, int]] = {
    "header": ("|u1", 1),
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
    for name in graph.names or ():
        if not _is_plain(name):
            raise ValueError(
                f"names must be text, numbers or tuples of them to be saved, got {name!r}"
            )
    values = {field: getattr(graph, field) for field in FIELDS if field != "header"}
    arrays = {
        field: np.asarray(value, dtype=FIELDS[field][0])
        for field, value in values.items()
        if value is not None
    }
    header = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "n_nodes": graph.n_nodes,
        "names": graph.names,
        "fields": list(arrays),
    }
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with write_atomically(path) as file:
        np.savez(file, allow_pickle=False, **arrays)


def _is_plain(name: Hashable) -> bool:
    if isinstance(name, tuple):
        return all(map(_is_plain, name))
    return type(name) in (str, int, float, bool)


def _load_npz(file: IO[bytes]) -> Parts:
    try:
        with zipfile.ZipFile(file) as archive:
            _check_members(archive, os.fstat(file.fileno()).st_size)
            found = {info.filename[:-4]: _read_member(archive, info) for info in archive.infolist()}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise ValueError(f"not a whole .npz file ({error})") from error
    header = _read_header(found.pop("header").tobytes())
    # Without this, a damaged list of members could hide a field that may be absent.
    if header["fields"] != list(found):
        raise ValueError(f"its header promises the fields {header['fields']}, got {list(found)}")
    return Parts(
        edges=found["edges"],
        weights=found["weights"],
        n_nodes=header["n_nodes"],
        names=_names_from_json(header["names"]),
        confidence=found.get("confidence"),
        coordinates=found.get("coordinates"),
    )


def _check_members(archive: zipfile.ZipFile, size: int) -> None:
    """The fields we know, each once, uncompressed, together no larger than the file."""
    members = archive.infolist()
    names = [info.filename for info in members]
    required = {f"{field}.npy" for field in ("header", "edges", "weights")}
    known = {f"{field}.npy" for field in FIELDS}
    if len(set(names)) != len(names) or not required <= set(names) <= known:
        raise ValueError(f"a graph file has the fields {sorted(required)}, got {sorted(names)}")
    if any(info.compress_type != zipfile.ZIP_STORED for info in members):
        raise ValueError("the fields of a graph file are not compressed, these are")
    if sum(info.file_size for info in members) > size:
        raise ValueError(f"its fields declare more than the {size} bytes of the file")


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """One array, once its header agrees with its field and with the size of the member."""
    field = info.filename[:-4]
    expected, ndim = FIELDS[field]
    with archive.open(info) as member:
        if npy.read_magic(member) != (1, 0):
            raise ValueError(f"the field {field!r} is not in version 1.0 of the .npy format")
        shape, fortran, dtype = npy.read_array_header_1_0(member)
        if dtype.hasobject:
            raise ValueError(f"the field {field!r} holds pickled objects, which are never read")
        if dtype != np.dtype(expected) or len(shape) != ndim:
            raise ValueError(
                f"the field {field!r} must be {ndim}-dimensional of dtype {expected}, "
                f"got {dtype.str} of shape {shape}"
            )
        declared = math.prod(shape) * dtype.itemsize
        if min(shape) < 0 or member.tell() + declared != info.file_size:
            raise ValueError(
                f"the field {field!r} declares the shape {shape}, which does not match its "
                f"size of {info.file_size} bytes"
            )
        data = member.read()
    return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")


def _read_header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its header is not JSON text ({error})") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"its header does not say {FORMAT!r}")
    if header.get("version") != FORMAT_VERSION:
        raise ValueError(
            f"its version is {header.get('version')!r}, the one known is {FORMAT_VERSION}"
        )
    missing = {"n_nodes", "names", "fields"} - set(header)
    if missing or header["n_nodes"] is None:
        raise ValueError(f"its header lacks {sorted(missing) or ['n_nodes']}")
    return header


def _names_from_json(names: Any) -> list[Hashable] | None:
    if names is not None and not isinstance(names, list):
        raise ValueError(f"its names must be a list, got {type(names).__name__}")
    return None if names is None else [_tuples(name) for name in names]


def _tuples(value: Any) -> Any:
    """JSON writes a tuple as a list."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


# What XML 1.0 cannot hold, or a reader may change: control characters and lone surrogates.
NOT_XML = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def _save_graphml(graph: Graph, path: Path) -> None:
    import networkx as nx

    other = nx.Graph()
    # GraphML makes text of every node: the names go into an attribute, which has a type.
    for k in range(graph.n_nodes):
        attributes: dict[str, Any] = {}
        if graph.names is not None:
            attributes["name"] = _check_xml(graph.names[k])
        if graph.coordinates is not None:
            attributes["x"], attributes["y"] = graph.coordinates[k].tolist()
        other.add_node(f"n{k}", **attributes)
    for k, (i, j) in enumerate(graph.edges.tolist()):
        attributes = {"weight": float(graph.weights[k])}
        if graph.confidence is not None:
            attributes["confidence"] = float(graph.confidence[k])
        other.add_edge(f"n{i}", f"n{j}", **attributes)
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
    except (ParseError, nx.NetworkXError, KeyError, TypeError, AttributeError) as error:
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
    columns: list[Iterable[Any]] = [
        [texts[k] for k in graph.edges[:, 0].tolist()],
        [texts[k] for k in graph.edges[:, 1].tolist()],
        graph.weights.tolist(),
    ]
    header = ["source", "target", "weight"]
    if graph.confidence is not None:
        header.append("confidence")
        columns.append(graph.confidence.tolist())
    with write_atomically(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(zip(*columns, strict=True))


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
