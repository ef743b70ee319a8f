"""Everything that heatgraph writes, each as an old state, a write, and the state after it.

``prepare(folder)`` leaves the old state; ``write(folder)`` is what is made to fail.  Where
``each_file`` is True, the files are written one by one and each is old or new by itself; else all
are.  ``judge(folder)`` replaces the comparison of bytes where a file may have several right states.
"""

from __future__ import annotations

import copy
import functools
import http.server
import re
import tempfile
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from heatgraph import LearnHeat
from heatgraph.cli import result_folder as results
from heatgraph.cli.console import Output
from heatgraph.cli.tables import SignalTable
from heatgraph.comparison import table as comparisons
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.datasets.fetch import PublicFile, find_file
from heatgraph.estimators import checkpoint as checkpoints
from heatgraph.experiments.base import Outcome
from heatgraph.experiments.writing import write_outcome
from heatgraph.files import write_atomically
from heatgraph.report import write_report
from heatgraph.storage import load_model, save_model

__all__ = ["Operation", "all_operations"]


@dataclass(frozen=True)
class Operation:
    """One thing that is written; see the top of the file."""

    name: str
    write: Callable[[Path], Any]
    prepare: Callable[[Path], Any]
    each_file: bool = False
    judge: Callable[[Path], bool] | None = None


@functools.cache
def model(seed: int) -> LearnHeat:
    X, _ = make_heat_signals(make_graph("er", 6, seed), [2.0], 20, random_state=seed)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    return LearnHeat(n_scales=1, alpha=0.1, beta=1.0, tol=1e-2).fit(frame)


def twice(name: str, write: Callable[[Path, int], Any], **options: Any) -> Operation:
    """The old state is what another seed writes."""
    return Operation(
        name, lambda folder: write(folder, 1), lambda folder: write(folder, 0), **options
    )


def first(name: str, write: Callable[[Path, int], Any], **options: Any) -> Operation:
    """There is no old state."""
    return Operation(f"{name}, first", lambda folder: write(folder, 1), lambda _: None, **options)


def write_model(folder: Path, seed: int) -> None:
    save_model(model(seed), folder / "model.npz")


def write_graph(suffix: str) -> Callable[[Path, int], None]:
    return lambda folder, seed: model(seed).graph_.save(folder / f"graph{suffix}")


def write_page(folder: Path, seed: int) -> None:
    write_report(model(seed).graph_, folder / "report.html")


def page(folder: Path) -> str:
    """A report without the numbers that Bokeh gives its objects, which differ from time to time."""
    text = (folder / "report.html").read_text("utf-8")
    return re.sub(r"\bp\d{4,}\b|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "", text)


@functools.cache
def pages() -> set[str]:
    with tempfile.TemporaryDirectory() as place:
        return {write_page(Path(place), seed) or page(Path(place)) for seed in (0, 1)}


def judge_page(folder: Path) -> bool:
    return page(folder) in pages()


def write_text(folder: Path, seed: int) -> None:
    with write_atomically(folder / "summary.json", "w") as file:
        for k in range(6_000):
            file.write(f"{seed} {k}\n")


def picture() -> Figure:
    figure = Figure(figsize=(2, 2))
    figure.subplots().plot([1, 2], [2, 1])
    return figure


def write_results(folder: Path, seed: int) -> None:
    """The folder of an experiment: tables, pictures, a page and numbers."""
    outcome = Outcome(
        "one",
        "One is one",
        {"rows": pd.DataFrame({"a": [seed, 2]})},
        {"one": seed},
        {"picture": picture()},
        f"One is {seed}.",
    )
    write_outcome(outcome, folder / "one", replace=True)


def without_sources(fitted: LearnHeat) -> LearnHeat:
    """A copy that has no signals to name."""
    bare = copy.copy(fitted)
    bare.sources_ = np.empty((0, *fitted.sources_.shape[1:]))
    return bare


@functools.cache
def page_text(seed: int) -> str:
    with tempfile.TemporaryDirectory() as place:
        write_page(Path(place), seed)
        return Path(place, "report.html").read_text("utf-8")


def empty_picture(*_: Any, ax: Any, **__: Any) -> None:
    ax.axis("off")


def write_output(folder: Path, seed: int) -> None:
    """What `heatgraph learn --force` leaves.

    Its pictures are empty and small and its page is made beforehand: drawing writes nothing, and
    takes twenty times as long as all writes.
    """
    results.plot_graph = results.plot_convergence = empty_picture
    results.DPI = 20
    out, table = Output(quiet=True), SignalTable(np.empty((0, 6)), None, None, ())
    with results.result_folder(folder / "result", True) as made:
        results.write_fit(made, without_sources(model(seed)), table, out)
        with results.page_written(out), write_atomically(made / "report.html", "w") as file:
            file.write(page_text(seed))
        results.write_summary(made, Path("result"), {"seed": seed}, out)


def old_output(folder: Path) -> None:
    """What an earlier run left, and a note of the user's beside it."""
    write_output(folder, 0)
    (folder / "result" / "note.txt").write_text("mine", "utf-8")


def write_comparison(folder: Path, seed: int) -> None:
    """The files of a comparison of methods, one by one."""
    comparisons.Comparison(results=(), n_signals=2 + seed, n_nodes=3).save(folder)


SIGNALS, _ = make_heat_signals(make_graph("er", 5, 0), [2.0], 10, random_state=0)


def fit(path: Path) -> LearnHeat:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"n_scales": 1, "alpha": 0.1, "beta": 1.0, "tol": 1e-2, "max_iter": 1}
        return LearnHeat(**settings, checkpoint=path).fit(SIGNALS)


@functools.cache
def whole_fit() -> bytes:
    return fit(None).laplacian_.tobytes()  # type: ignore[arg-type]


def write_checkpoint(folder: Path) -> None:
    """A fit that writes at every step; what comes of it is right, whatever the disk says."""
    checkpoints.EVERY = 0.0
    assert fit(folder / "fit.checkpoint").laplacian_.tobytes() == whole_fit()


def judge_checkpoint(folder: Path) -> bool:
    """A fit goes on from the file that is there and ends with the same bits."""
    return fit(folder / "fit.checkpoint").laplacian_.tobytes() == whole_fit()


CONTENT = [bytes(range(256)) * 400, b"another version " * 5000]


class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT[1])))
        self.send_header("ETag", '"one"')
        self.end_headers()
        self.wfile.write(CONTENT[1])

    def log_message(self, *_: Any) -> None:
        pass


@functools.cache
def address() -> str:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/file.bin"


def old_download(folder: Path) -> None:
    """A damaged file in the cache, which the checksum finds."""
    (folder / "data").mkdir()
    (folder / "data" / "file.bin").write_bytes(CONTENT[0])


def download(folder: Path) -> None:
    public = PublicFile("data/file.bin", address(), sha256(CONTENT[1]).hexdigest())
    find_file(public, cache=folder)


def load_every_model(folder: Path) -> bool:
    found = load_model(folder / "model.npz").laplacian_.tobytes()
    return found in {model(seed).laplacian_.tobytes() for seed in (0, 1)}


def all_operations() -> list[Operation]:
    address()
    whole_fit()
    pages()
    page_text(1)
    return [
        twice("model", write_model, judge=load_every_model),
        first("model", write_model),
        twice("graph.npz", write_graph(".npz")),
        twice("graph.graphml", write_graph(".graphml")),
        twice("graph.csv", write_graph(".csv")),
        twice("text in several writes", write_text),
        Operation("checkpoint", write_checkpoint, lambda _: None, judge=judge_checkpoint),
        twice("results of an experiment", write_results),
        first("results of an experiment", write_results),
        twice("comparison", write_comparison, each_file=True),
        twice("report", write_page, judge=judge_page),
        Operation("download", download, old_download),
        Operation("download, first", download, lambda _: None),
        Operation("output folder", lambda folder: write_output(folder, 1), old_output),
        first("output folder", write_output),
    ]
