"""The house in figures: how much code there is, how deep a fit goes, what starting it costs.

    python -m benchmarks.bench_house
    python -m benchmarks.bench_house before --source ../before
    python -m benchmarks.bench_house after --suite

Measures a checkout (this one, or that of ``--source``, such as a git worktree of an earlier commit,
run from its source by this Python) under a name, and writes ``docs/results/house.json`` and the
table of all names, ``house.txt``.  Times are processor seconds, the least of some new processes;
``--suite`` times ``make test`` by the clock, which takes minutes and wants the machine for itself.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tokenize
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from benchmarks.bench_covariance import write

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "house.json"
MATHEMATICS = ("kernels", "models", "objective", "solvers", "selection")
PROCESSES = 3  # new ones, of which the least counts: others may be using the machine
MEGABYTE = 1e6

IMPORTS = {
    "heatgraph": "import heatgraph",
    "LearnHeat": "from heatgraph import LearnHeat",
    "sklearn": "import sklearn.linear_model",
}
# Fits whose times are compared, by public names that every checkout has; the penalties are about
# those that LearnHeat() chooses at 50 nodes.
TIMED = {
    "LearnHeat(), 20 nodes": "LearnHeat().fit(signals(20))",
    "LearnHeat(), 50 nodes": "LearnHeat().fit(signals(50))",
    "LearnHeat(alpha, beta), 50 nodes": "LearnHeat(alpha=0.1, beta=0.004).fit(signals(50))",
    "LearnHeat(alpha, beta), 100 nodes": "LearnHeat(alpha=0.1, beta=0.004).fit(signals(100))",
    "LearnHeat(scales), 50 nodes": (
        "LearnHeat(scales=(1.0, 3.0), alpha=0.1, beta=0.004).fit(signals(50))"
    ),
    "sources of LearnHeat, 50 nodes": "coded.transform(signals(50))",
    "SmoothGraph(), 50 nodes": "SmoothGraph().fit(signals(50))",
    "SpectralTemplates(), 20 nodes": "SpectralTemplates().fit(signals(20))",
    "GraphicalLassoGraph(), 20 nodes": "GraphicalLassoGraph().fit(signals(20))",
}
TIMES = """
import functools, json, time, warnings
from heatgraph import GraphicalLassoGraph, LearnHeat, SmoothGraph, SpectralTemplates
from heatgraph.datasets import make_graph, make_heat_signals
warnings.simplefilter("ignore")

@functools.cache
def signals(n):
    graph = make_graph("er", n, 0, p=4.0 / n)
    return make_heat_signals(graph, [1.0, 3.0], 5 * n, 3, 0.01, random_state=0)[0]

coded = LearnHeat(alpha=0.1, beta=0.004).fit(signals(50))
found = {{}}
for name, fit in {timed!r}.items():
    times = []
    for _ in range(3):  # what is compiled or loaded once is in the first
        start = time.process_time()
        eval(fit)
        times.append(time.process_time() - start)
    found[name] = min(times)
print(json.dumps(found))
"""
# A checkout other than the one that is installed: its source first, and no redirection to ours.
ELSEWHERE = """
import sys
sys.meta_path[:] = [f for f in sys.meta_path if "ScikitBuild" not in type(f).__name__]
sys.path.insert(0, {source!r})
"""
SIGNALS = """
from heatgraph.datasets import make_graph, make_heat_signals
X, _ = make_heat_signals(make_graph("er", 20, 0), [1.0, 3.0], 100, 2, 0.01, random_state=0)
"""
FITS = (
    SIGNALS
    + """
import json, resource, time, warnings
from heatgraph import LearnHeat
warnings.simplefilter("ignore")
seconds = []
for _ in range(2):
    start = time.process_time()
    LearnHeat(n_jobs=1).fit(X)
    seconds.append(time.process_time() - start)
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"first": seconds[0], "second": seconds[1], "memory": memory}))
"""
)
FRAMES = (
    SIGNALS
    + """
import json, os, sys, warnings
import heatgraph
warnings.simplefilter("ignore")
model = heatgraph.LearnHeat(alpha=0.05, beta=0.01, n_jobs=1)
model.fit(X)
own = os.path.dirname(heatgraph.__file__)
depth, deepest, files = 0, 0, set()
def profile(frame, event, arg):
    global depth, deepest
    if event in ("call", "return") and frame.f_code.co_filename.startswith(own):
        depth += 1 if event == "call" else -1
        deepest = max(deepest, depth)
        files.add(frame.f_code.co_filename)
sys.setprofile(profile)
model.fit(X)
sys.setprofile(None)
lines = sum(sum(1 for _ in open(path, encoding="utf-8")) for path in files)
print(json.dumps({"frames": deepest, "modules": len(files), "lines": lines}))
"""
)


def run(source: Path, code: str, **environment: str) -> tuple[str, float]:
    """What code prints in a new process on a checkout, and the processor seconds it took."""
    if source != ROOT:
        code = ELSEWHERE.format(source=str(source / "src")) + code
    before = os.times()
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        cwd=tempfile.gettempdir(),
        check=True,
        capture_output=True,
        text=True,
    )
    after = os.times()
    used = after.children_user + after.children_system
    return found.stdout, used - before.children_user - before.children_system


def least(source: Path, code: str) -> float:
    return min(run(source, code)[1] for _ in range(PROCESSES))


def code_of(source: Path) -> dict[str, Any]:
    """How much there is to read."""
    package = source / "src" / "heatgraph"
    files = list(package.rglob("*.py"))
    native = [path for path in (source / "src" / "native").glob("*") if path.suffix != ".txt"]
    mathematics = [path for room in MATHEMATICS for path in (package / room).glob("*.py")]
    constants = [reason for path in mathematics for reason in constants_of(path)]
    return {
        "lines": sum(map(n_lines, files)),
        "lines_of_code": sum(map(n_lines_of_code, files)),
        "modules": sum(path.name != "__init__.py" for path in files),
        "lines_of_mathematics": sum(map(n_lines, mathematics)),
        "native_lines": sum(map(n_lines, native)),
        "constants": len(constants),
        "constants_without_reason": constants.count(False),
    }


def n_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def n_lines_of_code(path: Path) -> int:
    """Without docstrings, comments and empty lines."""
    text = path.read_text(encoding="utf-8")
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.string.strip() and token.type != tokenize.COMMENT:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if documented and ast.get_docstring(node):
            code -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(code)


def constants_of(path: Path) -> Iterator[bool]:
    """Of each number that a module names in capitals, whether a comment says why it is that."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for statement in ast.parse(text).body:
        if not isinstance(statement, ast.Assign) or not _is_number(statement.value):
            continue
        names = [n.id for n in ast.walk(statement.targets[0]) if isinstance(n, ast.Name)]
        here = range(statement.lineno - 1, statement.end_lineno or statement.lineno)
        above = lines[statement.lineno - 2].startswith("#") if statement.lineno > 1 else False
        for name in names:
            if re.fullmatch("[A-Z][A-Z0-9_]*", name):
                yield above or any("#" in lines[k] for k in here)


def _is_number(value: ast.expr) -> bool:
    """A number, several of them, or arithmetic on numbers."""
    inner = [node for node in ast.walk(value) if isinstance(node, ast.Constant)]
    plain = (ast.Constant, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.Load)
    return (
        bool(inner)
        and all(isinstance(node, plain) for node in ast.walk(value))
        and all(type(node.value) in (int, float) for node in inner)
    )


def environment_of(source: Path) -> dict[str, Any]:
    """The size of what ``pip install heatgraph`` brings, by the files of this environment."""
    content = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))
    names, left = set(), [_name(text) for text in content["project"]["dependencies"]]
    size = 0
    while left:
        name = left.pop()
        if name in names:
            continue
        try:
            found = distribution(name)
        except PackageNotFoundError:  # of another system, or of an older Python
            continue
        names.add(name)
        paths = [Path(str(found.locate_file(file))) for file in found.files or ()]
        size += sum(path.stat().st_size for path in paths if path.is_file())
        left += [_name(text) for text in found.requires or () if "extra ==" not in text]
    return {"packages": len(names), "megabytes": round(size / MEGABYTE, 1)}


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def starting(source: Path) -> dict[str, Any]:
    """What a new process pays before and at its first fit."""
    nothing = least(source, "pass")
    imports = {
        name: round(least(source, statement) - nothing, 3) for name, statement in IMPORTS.items()
    }
    with tempfile.TemporaryDirectory() as empty:
        new = json.loads(run(source, FITS, NUMBA_CACHE_DIR=empty)[0])
        fits = [json.loads(run(source, FITS, NUMBA_CACHE_DIR=empty)[0]) for _ in range(PROCESSES)]
    return {
        "import": imports,
        "first_fit_new_installation": round(new["first"], 3),
        "memory_new_installation": round(new["memory"] / MEGABYTE, 1),
        "first_fit": round(min(fit["first"] for fit in fits), 3),
        "second_fit": round(min(fit["second"] for fit in fits), 3),
        "memory": round(min(fit["memory"] for fit in fits) / MEGABYTE, 1),
    }


def timed(source: Path) -> dict[str, float]:
    """Processor seconds of fits, the least of three in a row."""
    output, _ = run(source, TIMES.format(timed=TIMED), OMP_NUM_THREADS="1")
    return {name: round(seconds, 3) for name, seconds in json.loads(output).items()}


def suite_of(source: Path) -> float:
    start = time.perf_counter()
    subprocess.run(["make", "test"], cwd=source, check=True)
    return round(time.perf_counter() - start, 1)


ROWS = {
    "lines of Python in the package": "{code[lines]:,}",
    "... without docstrings, comments and empty lines": "{code[lines_of_code]:,}",
    "modules": "{code[modules]}",
    "lines of mathematics: kernels, models, solvers, selection": "{code[lines_of_mathematics]:,}",
    "lines of C++": "{code[native_lines]:,}",
    "named numbers in the mathematics": "{code[constants]}",
    "... without a comment that says why": "{code[constants_without_reason]}",
    "Python frames of the package in a fit, at the deepest": "{fit[frames]}",
    "modules that a fit enters (their lines)": "{fit[modules]} ({fit[lines]:,})",
    "packages that an installation brings": "{environment[packages]}",
    "... their size": "{environment[megabytes]:.0f} MB",
    "`import heatgraph`": "{start[import][heatgraph]:.2f} s",
    "`from heatgraph import LearnHeat`": "{start[import][LearnHeat]:.2f} s",
    "`import sklearn.linear_model`": "{start[import][sklearn]:.2f} s",
    "first fit of a new installation": "{start[first_fit_new_installation]:.2f} s",
    "first fit of a new process": "{start[first_fit]:.2f} s",
    "second fit of the process": "{start[second_fit]:.2f} s",
    "memory of a new installation's first process": "{start[memory_new_installation]:.0f} MB",
    "memory of a process that has fitted": "{start[memory]:.0f} MB",
    **{f"`{fit}`": f"{{fits[{fit}]:.2f}} s" for fit in TIMED},
    "`make test`, by the clock": "{suite:.0f} s",
}


def table(results: dict[str, Any]) -> str:
    """All that were measured, side by side."""
    unmeasured = {"suite": float("nan"), "fits": dict.fromkeys(TIMED, float("nan"))}
    heads = [f"{name}, {found['commit'][:9]}" for name, found in results.items()]
    lines = [f"| | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for title, form in ROWS.items():
        known = [form.format(**{**unmeasured, **found}) for found in results.values()]
        cells = ["not measured" if cell == "nan s" else cell for cell in known]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", default="after")
    parser.add_argument("--source", type=Path, default=ROOT)
    parser.add_argument("--suite", action="store_true")
    given = parser.parse_args()
    source = given.source.resolve()
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=source, text=True).strip()
    found = {
        "commit": commit,
        "date": str(datetime.date.today()),
        "code": code_of(source),
        "fit": json.loads(run(source, FRAMES)[0]),
        "environment": environment_of(source),
        "start": starting(source),
        "fits": timed(source),
    }
    if given.suite:
        found["suite"] = suite_of(source)
    elif kept.get(given.name, {}).get("commit") == commit and "suite" in kept[given.name]:
        found["suite"] = kept[given.name]["suite"]
    results = {**kept, given.name: found}
    write(RESULTS, json.dumps(results, indent=1) + "\n")
    write(RESULTS.with_suffix(".txt"), table(results))
    print(table(results))


if __name__ == "__main__":
    main()
