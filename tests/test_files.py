"""A file is replaced whole or not at all."""

import ctypes
import os
import stat
import threading
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from heatgraph.files import read_array, write_atomically, write_folder


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


def write_result(path, text="new", **options):
    with write_folder(path, **options) as folder:
        (folder / "a.txt").write_text(text)


def content(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.parametrize("exists", [False, True])
def test_folder_is_made_whole(tmp_path, exists):
    target = tmp_path / "result"
    if exists:
        target.mkdir()
    with write_folder(target) as folder:
        assert folder.is_relative_to(tmp_path)
        (folder / "a.txt").write_text("new")
        assert target.exists() is exists
    assert content(target) == {"a.txt": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_failure_leaves_the_old_folder_and_nothing_else(tmp_path, error):
    target = tmp_path / "result"
    write_result(target, "old")
    with pytest.raises(error), write_folder(target, replace=True) as folder:
        (folder / "a.txt").write_text("half")
        raise error
    assert content(target) == {"a.txt": "old"}
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


def test_folder_is_replaced_only_when_asked_and_keeps_what_is_not_ours(tmp_path):
    target = tmp_path / "result"
    write_result(target, "old")
    (target / "stale.txt").write_text("old")
    (target / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty"):
        write_result(target)
    write_result(target, replace=True, ours=["a.txt", "stale.txt"])
    assert content(target) == {"a.txt": "new", "notes.txt": "mine"}
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


def without_exchange(monkeypatch):
    """As on a system whose C library cannot let two folders change places."""
    monkeypatch.setattr(ctypes, "CDLL", lambda *given, **options: object())


@pytest.mark.parametrize("at_one_stroke", [True, False])
def test_entries_that_are_not_ours_come_along(tmp_path, monkeypatch, at_one_stroke):
    if not at_one_stroke:
        without_exchange(monkeypatch)
    target = tmp_path / "result"
    write_result(target, "old")
    (target / "mine").mkdir()
    (target / "mine" / "deep.txt").write_text("mine")
    (target / "link").symlink_to("nowhere")
    write_result(target, replace=True, ours=["a.txt"])
    assert (target / "a.txt").read_text() == "new"
    assert (target / "mine" / "deep.txt").read_text() == "mine"
    assert (target / "link").is_symlink()
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


def test_folder_whose_rename_fails_is_put_back(tmp_path, monkeypatch):
    without_exchange(monkeypatch)
    target = tmp_path / "result"
    write_result(target, "old")
    rename, refused = Path.rename, []

    def refuse_new(self, other):
        if other == target and not refused:
            refused.append(self)
            raise OSError("disk on fire")
        return rename(self, other)

    monkeypatch.setattr(Path, "rename", refuse_new)
    with pytest.raises(OSError, match="on fire"):
        write_result(target, replace=True)
    assert content(target) == {"a.txt": "old"}
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


def test_a_folder_that_could_not_be_put_back_is_by_the_next(tmp_path, monkeypatch):
    without_exchange(monkeypatch)
    target = tmp_path / "result"
    write_result(target, "old")
    rename = Path.rename

    def refuse(self, other):
        if other == target:
            raise OSError("disk on fire")
        return rename(self, other)

    with monkeypatch.context() as broken:
        broken.setattr(Path, "rename", refuse)
        with pytest.raises(OSError, match="on fire"):
            write_result(target, replace=True)
    assert not target.exists()
    with pytest.raises(FileExistsError, match="not empty"):
        write_result(target)
    assert content(target) == {"a.txt": "old"}
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


@pytest.mark.skipif(os.name != "posix", reason="POSIX locks")
def test_a_folder_is_written_by_one_at_a_time(tmp_path):
    target = tmp_path / "result"
    with write_folder(target) as folder:
        with pytest.raises(OSError, match="another process is writing it"):
            write_result(target)
        (folder / "a.txt").write_text("first")
    assert content(target) == {"a.txt": "first"}
    write_result(tmp_path / "other")


@pytest.mark.skipif(os.name != "posix", reason="POSIX locks")
def test_a_file_is_written_by_two_and_the_last_prevails(tmp_path):
    path = tmp_path / "a.txt"
    with write_atomically(path, "w") as one:
        one.write("one" * 1000)
        with write_atomically(path, "w") as other:
            other.write("other")
        assert path.read_text() == "other"
    assert path.read_text() == "one" * 1000
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.skipif(os.name != "posix", reason="POSIX links")
@pytest.mark.parametrize("there", [True, False])
def test_a_link_out_of_the_folder_is_refused(tmp_path, there):
    inside, outside = tmp_path / "inside", tmp_path / "precious"
    inside.mkdir()
    if there:
        outside.write_text("precious")
    (inside / "a.txt").symlink_to(outside)
    with pytest.raises(OSError, match="is a symbolic link to"), write_atomically(inside / "a.txt"):
        pytest.fail("the block ran")
    assert outside.exists() is there
    assert [entry.name for entry in inside.iterdir()] == ["a.txt"]


@pytest.mark.skipif(os.name != "posix", reason="POSIX pipes")
def test_a_pipe_that_is_called_as_a_temporary_file_is_not_waited_for(tmp_path):
    path = tmp_path / "a.txt"
    with write_atomically(path) as file:
        os.mkfifo(tmp_path / f"{Path(file.name).name[:13]}-left.tmp")

    def write():
        with write_atomically(path, "w") as file:
            file.write("new")

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    writer.join(20.0)
    assert not writer.is_alive()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.skipif(os.name != "posix", reason="POSIX links")
def test_a_link_in_the_place_of_a_result_is_replaced_with_its_folder(tmp_path):
    target, outside = tmp_path / "result", tmp_path / "precious"
    outside.write_text("precious")
    target.mkdir()
    (target / "a.txt").symlink_to(outside)
    write_result(target, replace=True, ours=["a.txt"])
    assert outside.read_text() == "precious"
    assert not (target / "a.txt").is_symlink()
    assert content(target) == {"a.txt": "new"}


def test_folder_errors_come_before_the_block(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    cases = [
        (tmp_path / "file", NotADirectoryError, "a file has that name"),
        (tmp_path / "no" / "result", FileNotFoundError, "there is no folder"),
        (tmp_path / "file" / "result", FileNotFoundError, "there is no folder"),
        (tmp_path, OSError, "as a whole"),
    ]
    monkeypatch.chdir(tmp_path)
    for path, kind, message in cases:
        with pytest.raises(kind, match=message), write_folder(path, replace=True):
            pytest.fail("the block ran")


@pytest.mark.parametrize(
    "broken", [b"{'descr': ('<f8', 'shape': (3,), }", b"{'descr' '<f8' (}", b""]
)
def test_an_array_whose_header_is_damaged_is_refused(broken):
    whole = BytesIO()
    np.save(whole, np.arange(3.0))
    content = whole.getvalue()
    damaged = content[:10] + broken.ljust(117) + b"\n" + content[128:]
    with pytest.raises(ValueError, match=r"the signal is not in the \.npy format"):
        read_array(BytesIO(damaged), len(damaged), "the signal")
