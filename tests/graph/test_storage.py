"""Files: a graph comes back as it was, and a bad file is refused before it costs anything."""

import io
import json
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heatgraph.graph import Graph

SCALAR = st.one_of(st.integers(), st.text(), st.floats(allow_nan=False), st.booleans())
PLAIN = st.one_of(SCALAR, st.tuples(SCALAR, SCALAR))
same_folder = settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])


@same_folder
@given(data=st.data())
def test_npz_round_trip(graphs, data, tmp_path):
    graph = data.draw(graphs(names=PLAIN))
    graph.save(tmp_path / "graph.npz")
    again = Graph.load(tmp_path / "graph.npz")
    assert again == graph
    if graph.names is not None:
        assert [type(n) for n in again.names] == [type(n) for n in graph.names]


@same_folder
@given(data=st.data())
def test_graphml_round_trip(graphs, data, tmp_path):
    texts = st.text(
        st.characters(min_codepoint=32, exclude_categories=("Cs", "Cc", "Cn")), min_size=1
    )
    names = st.one_of(st.integers(-(2**63), 2**63 - 1), texts, st.floats(allow_nan=False))
    graph = data.draw(graphs(names=names, min_edges=1))
    graph.save(tmp_path / "graph.graphml")
    again = Graph.load(tmp_path / "graph.graphml")
    assert again == graph
    if graph.names is not None:
        assert [type(n) for n in again.names] == [type(n) for n in graph.names]


@same_folder
@given(data=st.data())
def test_csv_round_trip(graphs, data, tmp_path):
    texts = st.text(st.characters(exclude_categories=("Cs",))).map(lambda t: t + "x")
    graph = data.draw(graphs(names=texts, min_edges=1))
    graph.save(tmp_path / "graph.csv")
    again = Graph.load(tmp_path / "graph.csv")
    np.testing.assert_array_equal(np.sort(again.weights), np.sort(graph.weights))
    if graph.names is not None:
        again = Graph.from_pandas(again.to_pandas(), names=graph.names)
        assert again == Graph(
            graph.edges, graph.weights, graph.n_nodes, graph.names, graph.confidence
        )


def test_csv_is_the_edge_list(tmp_path):
    path = tmp_path / "graph.csv"
    Graph([(0, 1)], [0.1], names=["Örebro, SE", 'the "hub"'], confidence=[1.0]).save(path)
    assert path.read_bytes().decode() == (
        'source,target,weight,confidence\r\n"Örebro, SE","the ""hub""",0.1,1.0\r\n'
    )


def test_csv_numbers(tmp_path):
    path = tmp_path / "graph.csv"
    graph = Graph([(0, 1), (1, 2)], [1.0, 2.0])
    graph.save(path)
    assert Graph.load(path) == graph
    path.write_text("source,target,weight\n101,102,1\n", encoding="utf-8-sig")
    assert Graph.load(path).names == (101, 102)
    path.write_text("source,target,weight\n007,8,1\n\n")
    assert Graph.load(path).names == ("007", "8")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "columns source, target, weight"),
        (b"a,b,c\n1,2,3\n", "columns source, target, weight"),
        (b"source,target,weight\n", "at least one edge"),
        (b"source,target,weight\na,b\n", "row 1 has 2 fields, not 3"),
        (b"source,target,weight\na,b,heavy\n", "could not convert"),
        (b"source,target,weight\na,b,-1\n", "weights must be positive"),
        (b"source,target,weight\na,a,1\n", "self loop"),
        (b'source,target,weight\n"a,b,1\n', "not a CSV file"),
        (b"\xff\xfe\x00", "decode"),
    ],
)
def test_csv_refuses(tmp_path, content, message):
    path = tmp_path / "graph.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        Graph.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not xml",
        b"<html/>",
        b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns"/>',
        b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">'
        b'<node id="a"/><edge source="a" target="a"/></graph></graphml>',
        b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">'
        b'<node id="a"><data key="nokey">1</data></node></graph></graphml>',
    ],
)
def test_graphml_refuses(tmp_path, content):
    path = tmp_path / "graph.graphml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="cannot load"):
        Graph.load(path)


def test_graphml_of_others_keeps_the_nodes_as_names(tmp_path):
    path = tmp_path / "graph.graphml"
    path.write_text(
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">'
        '<node id="b"/><node id="a"/><edge source="a" target="b"/></graph></graphml>'
    )
    assert Graph.load(path) == Graph([(0, 1)], [1.0], names=["b", "a"])


@pytest.mark.parametrize(
    ("suffix", "names"),
    [
        (".npz", [frozenset(), 1]),
        (".graphml", ["a\x00", "b"]),
        (".graphml", ["", "b"]),
        (".graphml", [(0, 1), "b"]),
        (".graphml", [2**70, 1]),
        (".csv", [1, "1"]),
        (".csv", [(0, 1), "b"]),
    ],
)
def test_names_that_would_not_come_back_are_refused(tmp_path, suffix, names):
    with pytest.raises(ValueError, match="names must be"):
        Graph([(0, 1)], [1.0], names=names).save(tmp_path / f"graph{suffix}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", [Graph([(0, 1)], [1.0]).save, Graph.load])
def test_unknown_suffix(call):
    with pytest.raises(ValueError, match=r"path must end in one of \.npz, \.graphml, \.csv"):
        call("graph.pkl")


def test_missing_file_is_not_a_bad_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        Graph.load(tmp_path / "graph.npz")


@pytest.fixture
def whole(tmp_path):
    """A good file, and the members it is made of."""
    path = tmp_path / "graph.npz"
    Graph([(0, 1), (1, 2)], [1.0, 2.0], names=["a", "b", "c"]).save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return path, members


def rewrite(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def npy(array, allow_pickle=False):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def header(**changes):
    content = {
        "format": "heatgraph.Graph",
        "version": 1,
        "n_nodes": 3,
        "names": ["a", "b", "c"],
        "fields": ["edges", "weights"],
    }
    text = json.dumps(content | changes).encode()
    return npy(np.frombuffer(text, np.uint8))


def test_the_members_are_what_makes_the_file(whole):
    path, members = whole
    before = Graph.load(path)
    rewrite(path, members | {"header.npy": header()})
    assert Graph.load(path) == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights.npy": None}, "promises the fields"),
        ({"code.npy": npy(np.ones(1))}, "promises the fields"),
        ({"header.npy": None}, "needs a header"),
        ({"header.npy": header(version=2)}, "its version is 2, the one known is 1"),
        ({"header.npy": header(format="other")}, "does not say 'heatgraph.Graph'"),
        ({"header.npy": header(n_nodes=None)}, "lacks"),
        ({"header.npy": header(n_nodes="3")}, "n_nodes must be an integer"),
        ({"header.npy": header(fields=["edges", "weights", "confidence"])}, "promises the fields"),
        ({"header.npy": header(names={"a": 1})}, "names must be a list"),
        ({"header.npy": header(names=["a", {}, "b"])}, "names must be"),
        ({"header.npy": npy(np.frombuffer(b"[]", np.uint8))}, "does not say"),
        ({"header.npy": npy(np.frombuffer(b"[", np.uint8))}, "not JSON text"),
        ({"header.npy": npy(np.frombuffer(b"[" * 100_000, np.uint8))}, "not JSON text"),
        ({"weights.npy": npy(np.array([1, 2]))}, "must be 1-dimensional of dtype <f8"),
        ({"weights.npy": npy(np.ones((2, 1)))}, "must be 1-dimensional"),
        ({"weights.npy": npy(np.ones(3))}, "weights must have shape"),
        ({"weights.npy": npy(np.array([{}, {}]), allow_pickle=True)}, "pickled objects"),
        ({"weights.npy": b"nothing"}, "magic string"),
        ({"edges.npy": npy(np.array([[0, 1], [1, 9]]))}, "below n_nodes = 3"),
    ],
)
def test_npz_refuses_fields(whole, changes, message):
    path, members = whole
    members.update(changes)
    rewrite(path, {name: content for name, content in members.items() if content is not None})
    with pytest.raises(ValueError, match=message):
        Graph.load(path)


@pytest.mark.parametrize("shape", [(10**15,), (3,), (1,), (-2,)])
def test_npz_refuses_a_declared_shape_that_is_not_there(whole, shape):
    path, members = whole
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    members["weights.npy"] = header.getvalue() + np.ones(2).tobytes()
    rewrite(path, members)
    with pytest.raises(ValueError, match="does not match its size"):
        Graph.load(path)


def test_npz_refuses_compressed_bombs(whole):
    path, members = whole
    members["weights.npy"] = npy(np.zeros(10**6))
    rewrite(path, members, zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match="are compressed"):
        Graph.load(path)


def test_npz_refuses_sizes_beyond_the_file(whole):
    path, _ = whole
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("weights.npy").file_size
    # The central directory holds the size twice, compressed and not.
    old = size.to_bytes(4, "little") * 2
    assert old in content
    path.write_bytes(content.replace(old, (2**31).to_bytes(4, "little") * 2))
    with pytest.raises(ValueError, match="declare more than"):
        Graph.load(path)


def test_npz_refuses_a_pickle(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    path = tmp_path / "graph.npz"
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ValueError, match="not a whole"):
        Graph.load(path)
    np.save(tmp_path / "weights.npy", np.ones(2))
    path.write_bytes((tmp_path / "weights.npy").read_bytes())
    with pytest.raises(ValueError, match="not a whole"):
        Graph.load(path)


def test_npz_refuses_every_truncation(whole):
    path, _ = whole
    content = path.read_bytes()
    for end in range(0, len(content), 7):
        path.write_bytes(content[:end])
        with pytest.raises(ValueError, match="cannot load"):
            Graph.load(path)


def test_npz_with_a_flipped_byte_is_refused_or_harmless(whole):
    path, _ = whole
    before = Graph.load(path)
    content = bytearray(path.read_bytes())
    refused = 0
    for k in range(0, len(content), 2):
        content[k] ^= 0xFF
        path.write_bytes(content)
        content[k] ^= 0xFF
        try:
            # Bytes of the zip that carry nothing (dates, attributes) change nothing.
            assert Graph.load(path) == before
        except ValueError:
            refused += 1
    assert refused > len(content) // 4


def test_failed_save_leaves_the_old_file(whole, monkeypatch):
    path, _ = whole
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(OSError, match="disk full"):
        Graph([(0, 1)], [1.0]).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]
