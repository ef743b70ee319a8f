"""Fail every call that writes, one after the other, and see what is left.

    python tests/faults/inject.py [--quick | --writes] [--only NAME]

Every operation of ``operations.py`` runs with its 1st, 2nd, 3rd ... writing call made to fail, or
the process killed there, until it runs through.  After each fault the files are the old ones or
the new ones, whole; at most one temporary file is beside them; and the same operation, run again,
succeeds and removes that.  A library of C loaded before all others makes the calls fail, so that
what NumPy, Matplotlib and the rest write is failed too.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
VARIABLE = "HEATGRAPH_FAULTS"
PATIENCE = 120.0  # seconds that an operation may take
# How a call fails: the error, and whether all later calls fail too; None for a kill.
KINDS: dict[str, tuple[int, bool]] = {
    "kill": (0, False),
    "ENOSPC": (errno.ENOSPC, False),
    "ENOSPC from then on": (errno.ENOSPC, True),
    "EIO": (errno.EIO, False),
    "EACCES": (errno.EACCES, False),
}
PASSED, SURVIVED, REFUSED, SURPRISED = 0, 10, 11, 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="kills and a full disk, a few writes")
    parser.add_argument("--writes", action="store_true", help="no faults, every operation once")
    parser.add_argument("--only", help="operations whose name contains this")
    asked = parser.parse_args()
    if VARIABLE not in os.environ:
        run_with_shim()
    from operations import all_operations

    # That of the server waits; nothing else runs beside a fork.
    warnings.filterwarnings("ignore", "This process", DeprecationWarning)
    chosen = [o for o in all_operations() if asked.only is None or asked.only in o.name]
    kinds = list(KINDS)
    if asked.writes:
        for operation in chosen:
            with tempfile.TemporaryDirectory() as place:
                old_and_new(operation, Path(place))
        print(f"{len(chosen)} operations without faults")
        return
    if asked.quick:
        chosen = [o for o in chosen if o.name in ("graph.csv", "comparison")]
        kinds = kinds[:2]
    inject_all(chosen, kinds, record=not asked.quick)


def run_with_shim() -> None:
    """Compile the library that makes calls fail, and start this program anew with it."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None or not sys.platform.startswith("linux"):
        sys.exit("faults are injected on Linux, by a library that needs a C compiler (cc, or CC)")
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "shim.so")
        source = str(HERE / "shim.c")
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True
        )
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        environment = {**os.environ, **one_thread, "LD_PRELOAD": library, VARIABLE: library}
        environment.pop("HEATGRAPH_DATA", None)  # with a folder of data nothing is downloaded
        sys.exit(subprocess.run([sys.executable, *sys.argv], env=environment).returncode)


def shim() -> Any:
    library = ctypes.CDLL(os.environ[VARIABLE])
    library.faults_arm.argtypes = (ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int)
    library.faults_failed.restype = ctypes.c_char_p
    return library


def inject_all(operations: list[Any], kinds: list[str], record: bool) -> None:
    total = 0
    for operation in operations:
        began = time.monotonic()
        counts = {kind: inject(operation, kind) for kind in kinds}
        total += sum(counts.values())
        seconds = time.monotonic() - began
        print(f"{operation.name:30} {sum(counts.values()):6} points {seconds:6.0f} s", flush=True)
        if record:
            from results import record_part

            record_part("faults", operation.name, {"faults": counts})
    print(f"{total} faults injected in {len(operations)} operations; nothing lost, nothing mixed")


def inject(operation: Any, kind: str) -> int:
    """Fail call after call; the number of calls that were failed."""
    with tempfile.TemporaryDirectory() as place:
        old, new = old_and_new(operation, Path(place))
        states = snapshot(old), snapshot(new)
        for n in range(1, 100_000):
            folder = Path(place, "work")
            shutil.copytree(old, folder)
            ended, said = in_child(lambda folder=folder: operation.write(folder), folder, n, kind)
            told = f"{operation.name}, {kind} at call {n} ({said})"
            if ended == PASSED:
                return n - 1
            check(operation, folder, states, ended, told)
            again(operation, folder, states, told)
            shutil.rmtree(folder)
    raise AssertionError("unreachable: every operation ends")


def old_and_new(operation: Any, place: Path) -> tuple[Path, Path]:
    """A folder as it is before a write, and one as it is after a write without faults."""
    old, new = place / "old", place / "new"
    for folder in (old, new):
        folder.mkdir()
        operation.prepare(folder)
    operation.write(new)
    assert litter(old) == litter(new) == [], "a write without faults leaves litter"
    return old, new


def in_child(write: Callable[[], Any], folder: Path, n: int, kind: str) -> tuple[int, str]:
    """How a process ends whose n-th call fails, and what failed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code, said = attempt(write, folder, n, kind)
        os.write(writer, said.encode()[:4000])
        os._exit(code)
    os.close(writer)
    deadline = time.monotonic() + PATIENCE
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError(f"call {n} failed with {kind}: hung for {PATIENCE} s")
        time.sleep(0.002)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    return os.waitstatus_to_exitcode(status), said


def attempt(write: Callable[[], Any], folder: Path, n: int, kind: str) -> tuple[int, str]:
    library = shim()
    code, onwards = KINDS[kind]
    library.faults_arm(os.fsencode(folder), n, code, onwards)
    try:
        write()
        ended, said = SURVIVED, ""
    except OSError as error:
        ended, said = REFUSED, repr(error)
    except BaseException:
        ended, said = SURPRISED, traceback.format_exc()
    library.faults_disarm()
    failed = library.faults_failed().decode()
    return (ended if failed else PASSED), f"{failed} {said}"


def check(operation: Any, folder: Path, states: Any, ended: int, told: str) -> None:
    """The old or the new, whole, and at most one temporary file."""
    assert ended in (SURVIVED, REFUSED, -signal.SIGKILL), f"{told}: ended with {ended}"
    left = litter(folder)
    assert len(left) <= 1, f"{told}: left {left}"
    found = snapshot(folder)
    if operation.judge is not None:
        assert operation.judge(folder), f"{told}: what is left is not right"
    elif operation.each_file:
        for name, content in found.items():
            assert content in [state.get(name) for state in states], f"{told}: {name} is mixed"
    else:
        assert found in states, f"{told}: neither the old nor the new: {sorted(found)}"
    if ended == SURVIVED and operation.judge is None:
        assert found == states[1], f"{told}: returned without the new"


def again(operation: Any, folder: Path, states: Any, told: str) -> None:
    """The next run succeeds and tidies up."""
    operation.write(folder)
    left = litter(folder)
    assert not left, f"{told}: the next run left {left}"
    if operation.judge is None:
        assert snapshot(folder) == states[1], f"{told}: the next run did not give the new"


def is_temporary(path: Path) -> bool:
    return path.name.startswith(".")


def litter(folder: Path) -> list[str]:
    """Temporary files and folders, each once."""
    found = [path for path in folder.rglob("*") if is_temporary(path)]
    return [str(p) for p in found if not any(map(is_temporary, p.relative_to(folder).parents))]


def snapshot(folder: Path) -> dict[str, str]:
    found = {path.relative_to(folder): path for path in sorted(folder.rglob("*"))}
    return {
        str(name): sha256(path.read_bytes()).hexdigest()
        for name, path in found.items()
        if path.is_file() and not any(map(is_temporary, [name, *name.parents]))
    }


if __name__ == "__main__":
    main()
