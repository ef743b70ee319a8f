"""A server that sends the download elsewhere, or takes its time."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from heatgraph.datasets import fetch
from heatgraph.datasets.fetch import PublicFile, find_file

CONTENT = b"the file " * 1000


@pytest.fixture
def serve():
    """Servers on localhost, each with one answer."""
    running = []

    def started(answer):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                answer(self)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
        return f"http://127.0.0.1:{server.server_port}/file.bin"

    yield started
    for server in running:
        server.shutdown()
        server.server_close()


def send(content):
    def answer(request):
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    return answer


def to(address):
    def answer(request):
        request.send_response(302)
        request.send_header("Location", address)
        request.send_header("Content-Length", "0")
        request.end_headers()

    return answer


def public(address):
    return PublicFile("data/file.bin", address, hashlib.sha256(CONTENT).hexdigest())


def test_the_right_file_from_another_server_is_taken(serve, tmp_path):
    found = find_file(public(serve(to(serve(send(CONTENT))))), cache=tmp_path)
    assert found.read_bytes() == CONTENT


def test_another_file_from_another_server_is_told_and_not_kept(serve, tmp_path):
    address = serve(to(serve(send(b"something else"))))
    with pytest.raises(ValueError, match=r"is not the data/file\.bin expected"):
        find_file(public(address), cache=tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_good_file_in_the_cache_asks_no_server(serve, tmp_path):
    find_file(public(serve(send(CONTENT))), cache=tmp_path)
    found = find_file(public("http://127.0.0.1:9/gone"), cache=tmp_path)
    assert found.read_bytes() == CONTENT


def test_a_server_that_sends_itself_round_in_circles_is_told(serve, tmp_path):
    def circle(request):
        to(request.path)(request)

    with pytest.raises(OSError, match="cannot download"):
        find_file(public(serve(circle)), cache=tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_server_that_stops_sending_is_told(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "TIMEOUT", 0.2)
    over = threading.Event()

    def stall(request):
        request.send_response(200)
        request.send_header("Content-Length", str(len(CONTENT)))
        request.end_headers()
        request.wfile.write(CONTENT[:100])
        over.wait(10.0)

    path = tmp_path / "data" / "file.bin"
    path.parent.mkdir()
    path.write_bytes(b"damaged")
    try:
        with pytest.raises(OSError, match=r"cannot download .*timed out"):
            find_file(public(serve(stall)), cache=tmp_path)
    finally:
        over.set()
    assert [found.name for found in path.parent.iterdir()] == ["file.bin"]
    assert find_file(public(serve(send(CONTENT))), cache=tmp_path).read_bytes() == CONTENT
