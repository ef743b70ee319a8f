"""Measured numbers: where they are kept, whether they are those of this code, who quotes them.

A file ``docs/results/NAME.json`` holds what one command measured, with the command, the version,
the commit, the date, the cores, and a digest of each module that the numbers come from.  A page
names the files that it quotes in a comment, ``<!-- results: NAME NAME; constants: 0.35 -->``: every
decimal number of its text has to be in one of them, to the digits shown, or among the constants,
which are settings and not measurements.  While the documentation is built,
``docs/generated/results`` gets two texts for each file: ``NAME.md``, the text that the command
wrote, and ``NAME-when.md``, which says when it was measured and whether the code has changed since.

``make results`` renews the files (`benchmarks.make_results`).
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
RESULTS = DOCS / "results"
QUOTES = re.compile(
    r"<!-- results:(?P<names>[^;]*?)(?:; constants:(?P<constants>.*?))?-->", re.DOTALL
)
# What is no prose: fenced blocks but for admonitions, code, formulas, links, comments.
NO_PROSE = re.compile(
    r"^```.*?^```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\]\([^)]*\)|<!--.*?-->", re.DOTALL | re.MULTILINE
)
CPP_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]*\d)")


def read(name: str) -> dict[str, Any]:
    """The content of a results file."""
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return content


def measured(command: str, modules: Iterable[str]) -> dict[str, Any]:
    """What a results file says of itself: by what, when, where and with which code."""
    git = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    return {
        "command": command,
        "version": version("heatgraph"),
        "commit": subprocess.run(git, capture_output=True, text=True).stdout.strip() or "unknown",
        "date": str(date.today()),
        "cores": os.cpu_count(),
        "modules": digests(modules),
    }


def digests(modules: Iterable[str]) -> dict[str, str]:
    """A digest of the code of each module; comments, docstrings and layout do not count.

    A name with a slash is a folder of C++.
    """
    return {module: _digest(module) for module in sorted(set(modules))}


def _path(module: str) -> Path:
    if "/" in module:
        return ROOT / module
    folder = ROOT / "src" if module.startswith("heatgraph") else ROOT
    path = folder.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _digest(module: str) -> str:
    path = _path(module)
    code = _cpp(path) if path.is_dir() else _python(path.read_text("utf-8"))
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def _cpp(folder: Path) -> str:
    text = "".join(path.read_text("utf-8") for path in sorted(folder.iterdir()))
    return " ".join(CPP_COMMENT.sub(" ", text).split())


@cache  # most modules are listed by many results
def _python(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        value = first.value if isinstance(first, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            node.body = body[1:]
    return ast.dump(tree)


def changed(content: Mapping[str, Any]) -> list[str]:
    """The modules that the numbers come from and that are not what they were."""
    kept = content.get("modules", {})
    there = [module for module in kept if _path(module).exists()]
    now = digests(there)
    return [module for module in kept if now.get(module) != kept[module]]


def when(content: Mapping[str, Any]) -> str:
    """A line on when, where and by what the numbers were measured."""
    version = f"version {content['version']}, " if "version" in content else ""
    line = (
        f"*Measured by `{content['command']}` on {content['date'][:10]} "
        f"({version}commit {content['commit'][:9]}, {content['cores']} cores)."
    )
    if content.get("copied"):
        line += " These figures were copied from the page that the command wrote then."
    modules = changed(content)
    if modules:
        names = ", ".join(f"`{m}`" for m in modules[:4]) + (" and others" if modules[4:] else "")
        line += f" The code has changed since, in {names}: `make results` measures anew."
    return line + "*\n"


def quoted(text: str) -> tuple[list[str], set[str]]:
    """The results files that a page quotes and its constants; none of either without a comment."""
    found = QUOTES.search(text)
    if found is None:
        return [], set()
    return found["names"].split(), set((found["constants"] or "").split())


def decimals(text: str) -> list[str]:
    """The decimal numbers of the prose and tables of a page, as they are written."""
    return DECIMAL.findall(NO_PROSE.sub(" ", text))


def unfounded(text: str) -> list[str]:
    """The decimal numbers that a page quotes and that none of its results files has."""
    names, constants = quoted(text)
    contents = [read(name) for name in names]
    numbers = sorted({number for content in contents for number in _numbers(content)})
    return [
        number
        for number in dict.fromkeys(decimals(text))
        if number not in constants and not _is_among(number, numbers)
    ]


def _numbers(value: Any) -> Iterator[float]:
    """Every number of a results file, those in its text among them."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield abs(float(value))
    elif isinstance(value, str):
        yield from map(float, DECIMAL.findall(value))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item)


def _is_among(written: str, numbers: Iterable[float]) -> bool:
    """Whether a number, or a hundredth of it for a percentage, is one of these to its digits."""
    value = float(written)
    half = 0.5001 * 10.0 ** -len(written.partition(".")[2])
    return any(
        math.isclose(value, scale * number, rel_tol=0.0, abs_tol=half)
        for number in numbers
        for scale in (1.0, 100.0)
    )


def pages() -> list[Path]:
    """The README and the pages of the documentation."""
    folders = (DOCS, DOCS / "guide", DOCS / "methods")
    written = sorted(page for folder in folders for page in folder.glob("*.md"))
    return [ROOT / "README.md", *written]


def write_texts(folder: Path) -> None:
    """Write what the pages include."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in RESULTS.glob("*.json"):
        content = read(path.stem)
        if "command" not in content:  # of a benchmark that has a format of its own
            continue
        (folder / f"{path.stem}-when.md").write_text(when(content), "utf-8")
        (folder / f"{path.stem}.md").write_text(content.get("page", ""), "utf-8")


def complaints() -> list[str]:
    """The pages that name results files or quote numbers of them which are not there."""
    texts = {page: page.read_text("utf-8") for page in pages()}
    return [
        f"{page.relative_to(ROOT)} {complaint}"
        for page, text in texts.items()
        for complaint in _complaints(text)
    ]


def _complaints(text: str) -> list[str]:
    names, _ = quoted(text)
    missing = [name for name in names if not (RESULTS / f"{name}.json").is_file()]
    if missing:
        return [f"names the results files {', '.join(missing)}, which are not there"]
    numbers = unfounded(text)
    if numbers:
        return [f"quotes {', '.join(numbers)}, which its results files do not have"]
    return []
