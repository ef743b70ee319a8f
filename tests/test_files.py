"""A file is replaced whole or not at all."""

import os
import stat

import pytest

from heatgraph.files import write_atomically


def test_writes_bytes_and_text(tmp_path):
    with write_atomically(tmp_path / "a.bin") as file:
        file.write(b"\x00\xff")
    with write_atomically(tmp_path / "a.txt", "w", newline="\n") as file:
        file.write("é\n")
    assert (tmp_path / "a.bin").read_bytes() == b"\x00\xff"
    assert (tmp_path / "a.txt").read_bytes() == "é\n".encode()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("existing", [True, False])
def test_failure_leaves_the_old_file_and_nothing_else(tmp_path, error, existing):
    path = tmp_path / "a.txt"
    if existing:
        path.write_text("old")
    with pytest.raises(error), write_atomically(path, "w") as file:
        file.write("half")
        raise error
    assert [p.name for p in tmp_path.iterdir()] == (["a.txt"] if existing else [])
    if existing:
        assert path.read_text() == "old"


def test_old_content_is_there_until_the_end(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with write_atomically(path, "w") as file:
        file.write("new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_failing_rename_cleans_up(tmp_path, monkeypatch):
    def refuse(source, target):
        raise OSError("disk on fire")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="on fire"), write_atomically(tmp_path / "a") as file:
        file.write(b"x")
    assert list(tmp_path.iterdir()) == []


def test_syncs_before_it_renames(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append("fsync"), fsync(fd))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append("replace"), replace(a, b))[1])
    with write_atomically(tmp_path / "a") as file:
        file.write(b"x")
    assert calls[:2] == ["fsync", "replace"]


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions and links")
def test_keeps_permissions_and_links(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    with write_atomically(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path):
    with write_atomically(tmp_path / "a") as file:
        file.write(b"")
    (tmp_path / "b").write_bytes(b"")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="no /dev/null")
def test_a_device_is_written_and_not_replaced():
    with write_atomically("/dev/null") as file:
        file.write(b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_long_names(tmp_path):
    with write_atomically(tmp_path / ("n" * 255)) as file:
        file.write(b"x")
    assert (tmp_path / ("n" * 255)).read_bytes() == b"x"


def test_clear_errors(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a directory"), write_atomically(tmp_path):
        pass
    with (
        pytest.raises(FileNotFoundError, match="no directory"),
        write_atomically(tmp_path / "no" / "a"),
    ):
        pass
    with pytest.raises(ValueError, match="mode must be"), write_atomically(tmp_path / "a", "a"):
        pass
