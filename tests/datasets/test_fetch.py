"""A file comes whole and checked, or not at all, whatever the connection does."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from heatgraph.datasets.etex import MEASURED
from heatgraph.datasets.fetch import HOME_VARIABLE, PublicFile, find_file
from heatgraph.datasets.molene import DEPARTMENTS
from heatgraph.datasets.new_york import UBER, YELLOW, ZONES_ZIP


def rows(path):
    """Refuse what is not the file of the server."""
    if not path.read_bytes().startswith(b"row 000000"):
        raise ValueError("it has no rows")


@pytest.fixture
def file(server):
    return PublicFile("set/file.txt", server.url, server.sha256)


@pytest.fixture
def unsummed(server):
    return PublicFile("set/file.txt", server.url, check=rows)


def entries(cache):
    """Everything in the cache, hidden files too."""
    return sorted(path.name for path in cache.rglob("*") if path.is_file())


def test_downloads_once_and_keeps(file, server, tmp_path):
    path = find_file(file, cache=tmp_path)
    assert path == tmp_path / "set" / "file.txt"
    assert path.read_bytes() == server.content
    assert find_file(file, cache=tmp_path) == path
    assert server.n_requests == 1
    assert entries(tmp_path) == ["file.txt"]


@pytest.mark.parametrize("kind", ["file", "unsummed"])
def test_a_connection_that_is_cut_leaves_nothing(kind, server, tmp_path, request):
    file = request.getfixturevalue(kind)
    server.cut_after = [1000]
    with pytest.raises(OSError, match=r"cannot download .* try again"):
        find_file(file, cache=tmp_path)
    assert entries(tmp_path) == []
    assert find_file(file, cache=tmp_path).read_bytes() == server.content


def test_a_file_that_changed_is_told_and_leaves_nothing(file, server, tmp_path):
    server.content = b"another version\n" * 5000
    with pytest.raises(ValueError, match=r"not the set/file\.txt expected, and was discarded"):
        find_file(file, cache=tmp_path)
    assert entries(tmp_path) == []


def test_wrong_checksum_leaves_nothing(server, tmp_path):
    file = PublicFile("set/file.txt", server.url, "0" * 64)
    with pytest.raises(ValueError, match=r"not the set/file\.txt expected"):
        find_file(file, cache=tmp_path)
    assert entries(tmp_path) == []


def test_a_page_that_is_no_data_leaves_nothing(unsummed, server, tmp_path):
    server.content = b"<html>moved</html>"
    with pytest.raises(ValueError, match="it has no rows"):
        find_file(unsummed, cache=tmp_path)
    assert entries(tmp_path) == []


def test_damage_in_the_cache_is_repaired(file, server, tmp_path):
    path = find_file(file, cache=tmp_path)
    path.write_bytes(b"damaged")
    assert find_file(file, cache=tmp_path).read_bytes() == server.content


def test_failed_repair_leaves_no_half(file, server, tmp_path):
    path = find_file(file, cache=tmp_path)
    path.write_bytes(b"damaged")
    server.cut_after = [1000]
    with pytest.raises(OSError, match="cannot download"):
        find_file(file, cache=tmp_path)
    assert path.read_bytes() == b"damaged"


def test_an_error_of_the_server_is_told(file, server, tmp_path):
    server.status = 404
    with pytest.raises(OSError, match=r"cannot download .*404.*data_home"):
        find_file(file, cache=tmp_path)
    assert entries(tmp_path) == []


def test_no_server_at_all(tmp_path):
    file = PublicFile("a.txt", "http://127.0.0.1:9/a.txt", "0" * 64)
    with pytest.raises(OSError, match="cannot download"):
        find_file(file, cache=tmp_path)


def test_ctrl_c_leaves_nothing(file, server, tmp_path, monkeypatch):
    import requests

    whole = requests.Response.iter_content

    def interrupted(self, *size, **sizes):
        yield next(iter(whole(self, *size, **sizes)))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(requests.Response, "iter_content", interrupted)
        with pytest.raises(KeyboardInterrupt):
            find_file(file, cache=tmp_path)
    assert entries(tmp_path) == []
    assert find_file(file, cache=tmp_path).read_bytes() == server.content


def test_a_named_folder_is_read_and_never_completed(file, server, tmp_path, monkeypatch):
    (tmp_path / "set").mkdir()
    with pytest.raises(FileNotFoundError, match=r"file\.txt does not exist; download it from"):
        find_file(file, tmp_path)
    (tmp_path / "set" / "file.txt").write_bytes(b"mine")
    assert find_file(file, tmp_path).read_bytes() == b"mine"
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    assert find_file(file).read_bytes() == b"mine"
    assert server.n_requests == 0


@pytest.mark.parametrize("by", ["data_home", HOME_VARIABLE])
def test_a_folder_that_is_none_is_refused(file, tmp_path, monkeypatch, by):
    missing = str(tmp_path / "missing")
    if by == HOME_VARIABLE:
        monkeypatch.setenv(HOME_VARIABLE, missing)
    with pytest.raises(FileNotFoundError, match=f"{by} must be a folder"):
        find_file(file, missing if by == "data_home" else None)


@pytest.mark.parametrize("public", [MEASURED, ZONES_ZIP, UBER, YELLOW, *DEPARTMENTS])
def test_a_file_has_a_checksum_or_a_check(public):
    assert public.sha256 or public.check


def test_two_at_once_do_not_disturb_each_other(file, server, tmp_path):
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: find_file(file, cache=tmp_path), range(2)))
    assert [path.read_bytes() for path in found] == [server.content] * 2
    assert (tmp_path / "set" / "file.txt").read_bytes() == server.content
