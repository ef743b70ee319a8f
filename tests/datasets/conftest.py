"""Where the real data is, if it is, and a server on localhost that can misbehave."""

from __future__ import annotations

import hashlib
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from heatgraph.datasets import fetch
from heatgraph.datasets.fetch import HOME_VARIABLE

# Read before a test clears it: the folder that the environment names, or one beside the project.
REAL = Path(
    os.environ.get(HOME_VARIABLE) or Path(__file__).resolve().parents[3] / "shared" / "data"
)


@pytest.fixture
def data_home() -> Path:
    """The real data; what it holds is tested on made tables too, which are always there."""
    if not REAL.is_dir():
        pytest.skip(f"needs the real data: name its folder in {HOME_VARIABLE}")
    return REAL


@pytest.fixture(autouse=True)
def _no_home_by_accident(monkeypatch):
    """A test that names no folder of data must not find one in the environment."""
    monkeypatch.delenv(HOME_VARIABLE, raising=False)


class Server:
    """One file on localhost, and what was asked of it."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.cut_after: list[int | None] = []  # bytes to send before hanging up, an answer each
        self.status = 200
        self.n_requests = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:  # the name that http.server calls
                server.answer(self)

            def log_message(self, *args) -> None:
                """Keep quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/file.txt"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def answer(self, request) -> None:
        self.n_requests += 1
        body = self.content if self.status == 200 else b""
        request.send_response(self.status)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        stop = self.cut_after.pop(0) if self.cut_after else None
        request.wfile.write(body[:stop])
        if stop is not None:
            request.close_connection = True


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(fetch, "TIMEOUT", 5.0)
    made = Server(b"".join(b"row %06d\n" % k for k in range(30_000)))
    yield made
    made.http.shutdown()
    made.http.server_close()
