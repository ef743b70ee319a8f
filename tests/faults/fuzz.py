"""Feed every reader with files that nobody would write.

    python tests/faults/fuzz.py [--seconds 20] [--only NAME]

Each reader gets damaged copies of right files: by atheris, which looks for inputs that reach new
code, or by plain mutation where it is not installed.  A file is read, or refused by a ValueError
that names it.  Anything else is a finding: another error, a pickle, more than SLOW seconds, more
than MEMORY bytes beside what the process had.  The file that did it is kept in
tests/faults/corpus, whose files are read in the usual tests.  Files that reached new code are kept
in build/fuzz, from which the next run goes on.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.machinery
import importlib.util
import io
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parent / "corpus"
REACHED = Path(__file__).parents[2] / "build" / "fuzz"  # what reached new code, for the next run
SLOW = 1.0  # seconds of the processor, for a file of some kilobytes
STUCK = 20  # seconds by the clock, on a machine that does other things
MEMORY = 2**29  # more than the process had before the first damaged file
LARGEST = 2**15  # bytes of a file
IN_MEMORY = "/dev/shm"  # a disk would take longer than most readers


def target(name: str) -> tuple[str, Callable[[Path], Any]]:
    """The suffix of a file and its reader."""
    from heatgraph import Graph
    from heatgraph.cli.tables import TableOptions, read_signals
    from heatgraph.datasets.geography import read_rings
    from heatgraph.experiments.base import Settings
    from heatgraph.experiments.writing import RESULTS, same_request
    from heatgraph.storage import load_model

    def signals(path: Path) -> Any:
        return read_signals(path, TableOptions())

    def results(path: Path) -> Any:
        path.replace(path.with_name(RESULTS))
        return same_request(path.parent, "figure1", Settings())

    readers: dict[str, tuple[str, Callable[[Path], Any]]] = {
        "model": (".npz", load_model),
        "graph": (".npz", Graph.load),
        "checkpoint": (".checkpoint", read_checkpoint),
        "csv": (".csv", signals),
        "csv.gz": (".csv.gz", signals),
        "parquet": (".parquet", signals),
        "npy": (".npy", signals),
        "graphml": (".graphml", Graph.load),
        "edges": (".csv", Graph.load),
        "geojson": (".geojson", lambda path: list(read_rings(path))),
        "results": (".json", results),
    }
    return readers[name]


TARGETS = [
    "model",
    "graph",
    "checkpoint",
    "csv",
    "csv.gz",
    "parquet",
    "npy",
    "graphml",
    "edges",
    "geojson",
    "results",
]


def read_checkpoint(path: Path) -> None:
    from heatgraph.estimators.checkpoint import Checkpoint

    Checkpoint(path, {"X": "warm"}).close()


def seeds(name: str, folder: Path) -> list[bytes]:
    """Right files of a kind, small."""
    import numpy as np
    import pandas as pd

    from heatgraph import Graph, HeatCovariance, LearnHeat
    from heatgraph.estimators.checkpoint import Checkpoint
    from heatgraph.solvers.driver import Record
    from heatgraph.storage import save_model

    X = pd.DataFrame(np.random.default_rng(0).normal(size=(12, 4)), columns=list("abcd"))
    graph = Graph([(0, 1), (1, 2)], [1.0, 2.0], names=["a", "b", "c"], coordinates=np.eye(3)[:, :2])
    path = folder / "seed"
    made: list[bytes] = []
    if name == "model":
        for model in (
            LearnHeat(n_scales=1, alpha=0.5, beta=10.0, tol=1e-2),
            HeatCovariance(penalty=0.1, shrinkage=0.1, max_iter=20),
        ):
            save_model(model.fit(X), path)
            made.append(path.read_bytes())
    elif name in ("graph", "graphml", "edges"):
        suffix = {"graph": ".npz", "graphml": ".graphml", "edges": ".csv"}[name]
        graph.save(path.with_suffix(suffix))
        made.append(path.with_suffix(suffix).read_bytes())
    elif name == "checkpoint":
        one = Checkpoint(path, {"X": "warm"})
        one.keeper.within("first").put(Record({"n": 1}, {"x": np.eye(2), "k": np.arange(3)}))
        one.close()
        made.append(path.read_bytes())
    elif name in ("csv", "csv.gz"):
        texts = [
            X.to_csv(),
            X.to_csv(sep=";", index=False),
            "1,2\n3,4\n",
            "day,a,b\n2020-01-01,1,\n",
        ]
        made = [text.encode() for text in texts]
        made = [gzip.compress(text) for text in made] if name == "csv.gz" else made
    elif name == "parquet":
        for frame in (X, X.astype({"a": str}).set_index("a")):
            frame.to_parquet(path)
            made.append(path.read_bytes())
    elif name == "npy":
        buffer = io.BytesIO()
        np.save(buffer, X.to_numpy())
        made.append(buffer.getvalue())
    elif name == "geojson":
        ring = [[[0, 0], [1, 0], [1, 1], [0, 0]]]
        shapes = [
            {"type": "Polygon", "coordinates": ring},
            {"type": "MultiPolygon", "coordinates": [ring]},
        ]
        features = [{"type": "Feature", "properties": {"a": 1}, "geometry": g} for g in shapes]
        made.append(json.dumps({"type": "FeatureCollection", "features": features}).encode())
    else:
        content = {"format": "heatgraph experiment", "experiment": "figure1", "asked": {"seed": 0}}
        made.append(json.dumps({**content, "files": ["a"], "numbers": {"a": 1.5}}).encode())
    return made


class Reader:
    """Reads one damaged file after the other, and says what is wrong with how it ends."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.suffix, self.read = target(name)
        self.count = self.refused = 0
        self.longest = 0.0

    def __call__(self, content: bytes) -> None:
        path = self.folder / f"input{self.suffix}"
        path.write_bytes(content)
        self.count += 1
        began = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.read(path)
        except ValueError as error:
            self.refused += 1
            if "input" not in str(error) or len(str(error)) > 20_000:
                raise AssertionError(
                    f"the refusal does not name the file: {error!r:.300}"
                ) from error
        seconds = time.process_time() - began
        self.longest = max(self.longest, seconds)
        if seconds > SLOW:
            raise AssertionError(f"took {seconds:.1f} s")


def no_pickle(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "pickle.find_class":
        raise AssertionError(f"a pickle was loaded: {arguments}")


def damaged(content: bytes, rng: random.Random) -> bytes:
    """A copy of a file with a few changes; those in an archive leave its sums right."""
    if content[:4] == b"PK\x03\x04" and rng.random() < 0.8:
        try:
            return in_archive(content, rng)
        except (zipfile.BadZipFile, ValueError, OSError, EOFError, RuntimeError, zlib.error):
            pass
    if content[:2] == b"\x1f\x8b" and rng.random() < 0.7:
        try:
            return gzip.compress(changed(gzip.decompress(content), rng), 1)
        except (OSError, EOFError, ValueError, zlib.error):
            pass
    return changed(content, rng)


def in_archive(content: bytes, rng: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    k = rng.randrange(len(members))
    if rng.random() < 0.3:  # the header, which has most to say
        k = len(members) - 1
    name, data = members[k]
    members[k] = (
        name,
        data[:10] + changed(data[10:], rng) if rng.random() < 0.5 else changed(data, rng),
    )
    if rng.random() < 0.1:
        members.append(rng.choice(members))
    buffer = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if rng.random() < 0.02 else zipfile.ZIP_STORED
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", kind) as archive:
        warnings.simplefilter("ignore")
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


WORDS = [
    b"null", b"NaN", b"Infinity", b"-1", b"0", b"1e999", b"1e308", b"9" * 30, b"true", b"[]", b"{}",
    b'""', b"[" * 3000, b"<f8", b"|O", b"<U9", b",", b"\n", b'"', b";", b"\x00", b"\xff",
    b"\xef\xbb\xbf", b"&lol;", b"<!DOCTYPE x [<!ENTITY lol 'lol'>]>", b"inf", b"\xed\xa0\x80",
    b"400000000",
]  # fmt: skip


def changed(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    if rng.random() < 0.005:  # a table of many columns, which take longer
        cell = rng.choice((b",x", b";1", b",1", b",2020-01-01"))
        data = bytearray(b"\n".join(line + cell * 500 for line in content.split(b"\n")))
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 1, 2, 4, 8, 64)))
        match rng.randrange(6):
            case 0:
                data[at:end] = rng.randbytes(end - at)
            case 1:
                del data[at:end]
            case 2:
                data[at:at] = data[at:end] * rng.choice((1, 2, 50))
            case 3:
                data[at:end] = rng.choice(WORDS)
            case 4:
                numbers = [m.span() for m in re.finditer(rb"-?\d+(\.\d+)?", data)]
                start, stop = rng.choice(numbers) if numbers else (at, end)
                data[start:stop] = rng.choice(WORDS)
            case _:
                if at < len(data):
                    data[at] ^= 1 << rng.randrange(8)
    return bytes(data[:LARGEST])


def import_from_source() -> None:
    """Let Python itself find the package: atheris cannot look into the modules of other finders."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
    sys.meta_path.insert(0, importlib.machinery.PathFinder)


def fuzz(name: str, seconds: float) -> None:
    """Run one target in this process until its time is up, or a finding."""
    rng = random.Random(name)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        guided = importlib.util.find_spec("atheris") is not None
        if guided:
            import atheris

            import_from_source()
            with atheris.instrument_imports(include=["heatgraph"]):
                target(name)
        pool = seeds(name, folder)
        reader = Reader(name, folder)
        for content in pool:  # the right files are read, or the reader is no reader
            reader(content)
        assert reader.refused == 0, "a right file was refused"
        with open("/proc/self/statm", encoding="ascii") as file:
            size = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.RLIM_INFINITY))
        sys.addaudithook(no_pickle)
        corpus = REACHED / name
        corpus.mkdir(parents=True, exist_ok=True)
        for k, content in enumerate(pool):
            (corpus / str(k)).write_bytes(content)
        before = len(list(corpus.iterdir()))
        began = time.monotonic()

        def one(content: bytes) -> None:
            try:
                reader(content)
            except BaseException:
                CORPUS.mkdir(exist_ok=True)
                kept = CORPUS / f"{name}-{sha256(content).hexdigest()[:12]}"
                kept.write_bytes(content)
                print(f"{name}: finding kept in {kept}", flush=True)
                raise
            if time.monotonic() - began > seconds:
                numbers = {"executions": reader.count, "refused": reader.refused}
                numbers |= {"seconds": round(seconds), "slowest": round(reader.longest, 3)}
                if guided:
                    now = len(list(corpus.iterdir()))
                    assert now > len(pool), "atheris sees no code"
                    numbers["new_code"] = now - before
                print("DONE " + json.dumps({**numbers, "guided": guided}), flush=True)
                os._exit(0)

        if not guided:
            while True:
                one(damaged(rng.choice(pool), rng))

        def mutated(content: bytes, largest: int, seed: int) -> bytes:
            chance = random.Random(seed)
            # What led to new code, or a right file: damage to damage alone is soon all noise.
            base = content if len(content) > 20 and chance.random() < 0.5 else chance.choice(pool)
            return damaged(base, chance)[:largest]

        arguments = [sys.argv[0], str(corpus), f"-max_len={LARGEST}", f"-timeout={STUCK}"]
        arguments += ["-rss_limit_mb=0", "-verbosity=0", f"-artifact_prefix={place}/"]
        atheris.Setup(arguments, one, custom_mutator=mutated)
        atheris.Fuzz()


def in_process(name: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run one target in a process of its own, whose files go with it however it ends."""
    command = [sys.executable, __file__, "--here", name, "--seconds", str(seconds)]
    memory = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as place:
        environment = {**os.environ, "TMPDIR": place}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0, help="for each reader")
    parser.add_argument("--only", choices=TARGETS)
    parser.add_argument("--here", choices=TARGETS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.here is not None:
        fuzz(asked.here, asked.seconds)
    failed = []
    for name in [asked.only] if asked.only else TARGETS:
        done = in_process(name, asked.seconds)
        told = re.search(r"^DONE (.*)$", done.stdout, re.MULTILINE)
        if done.returncode or told is None:
            failed.append(name)
            print(f"{name}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}", flush=True)
            continue
        numbers = json.loads(told[1])
        print(f"{name:12} {numbers}", flush=True)
        from results import add_run

        add_run("fuzz", name, numbers)
    if failed:
        sys.exit(f"findings in {', '.join(failed)}")


if __name__ == "__main__":
    main()
