"""Two processes on one output folder, one checkpoint, one cache: one writes, or both are whole."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytestmark = pytest.mark.slow

FOLDER = """
import sys, time
from pathlib import Path
from heatgraph.files import write_folder
with write_folder(sys.argv[1], replace=True) as folder:
    (folder / "one").write_text(sys.argv[2] * 1000)
    print("writing", flush=True)
    sys.stdin.readline()
    (folder / "two").write_text(sys.argv[2] * 1000)
"""

CHECKPOINT = """
import sys, warnings
import numpy as np
from heatgraph import LearnHeat
warnings.simplefilter("ignore")
def watch(step):
    if step.iteration == 1:
        print("fitting", flush=True)
        sys.stdin.readline()
X = np.random.default_rng(0).normal(size=(30, 5))
LearnHeat(n_scales=1, alpha=0.1, beta=1.0, max_iter=5, checkpoint=sys.argv[1]).fit(X, monitor=watch)
"""

DOWNLOAD = """
import sys
from heatgraph.datasets.fetch import PublicFile, find_file
print("asking", flush=True)
sys.stdin.readline()
print(find_file(PublicFile("set/file.bin", sys.argv[2], sys.argv[3]), cache=sys.argv[1]))
"""


@pytest.fixture
def start():
    """Processes that say a line, wait for one, and go on."""
    running = []

    def started(program, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        running.append(process)
        return process

    yield started
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("program", "message"),
    [(FOLDER, "another process is writing it"), (CHECKPOINT, "is in use by another fit")],
)
def test_the_second_is_refused_and_the_first_ends_whole(start, tmp_path, program, message):
    place = tmp_path / "place"
    first = start(program, place, "a")
    assert first.stdout.readline()  # it has begun
    _, told = start(program, place, "b").communicate("\n")
    assert message in told
    _, told = first.communicate("\n")
    assert first.returncode == 0, told
    assert [path.name for path in tmp_path.iterdir()] == ["place"]
    if program == FOLDER:
        assert {path.read_text() for path in place.iterdir()} == {"a" * 1000}


def test_after_a_kill_the_next_may_write(start, tmp_path):
    first = start(FOLDER, tmp_path / "place", "a")
    assert first.stdout.readline()
    first.kill()
    first.wait()
    second = start(FOLDER, tmp_path / "place", "b")
    _, told = second.communicate("\n")
    assert second.returncode == 0, told
    assert [path.name for path in tmp_path.iterdir()] == ["place"]
    assert {path.read_text() for path in (tmp_path / "place").iterdir()} == {"b" * 1000}


def test_two_downloads_into_one_cache_are_whole(start, tmp_path, monkeypatch):
    monkeypatch.delenv("HEATGRAPH_DATA", raising=False)
    content = b"the file " * 100_000

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/file.bin"
    try:
        asked = (tmp_path, address, hashlib.sha256(content).hexdigest())
        both = [start(DOWNLOAD, *asked) for _ in range(2)]
        for process in both:
            assert process.stdout.readline()
        for process in both:
            process.stdin.write("\n")
            process.stdin.flush()
        for process in both:
            _, told = process.communicate()
            assert process.returncode == 0, told
    finally:
        server.shutdown()
        server.server_close()
    assert [path.name for path in (tmp_path / "set").iterdir()] == ["file.bin"]
    assert (tmp_path / "set" / "file.bin").read_bytes() == content
