"""Measured numbers: where they are kept, whether they are still those of this code, who quotes them.

A file ``docs/results/NAME.json`` holds what one command measured, with the command, the version, the
commit, the date, the cores, and a digest of each module that the numbers come from.  A page names
the files that it quotes in a comment, ``<!-- results: NAME NAME; constants: 0.35 -->``: every
decimal number of its text has to be in one of them, to the digits shown, or among the constants,
which are settings and not measurements.  While the documentation is built, ``generated/results``
gets two texts for each file: ``NAME.md``, the text that the command wrote, and ``NAME-when.md``,
which says when it was measured and whether the code has changed since.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
RESULTS = DOCS / "results"
QUOTES = re.compile(r"<!-- results:(?P<names>[^;]*?)(?:; constants:(?P<constants>.*?))?-->", re.DOTALL)
# What is no prose: fenced blocks but for admonitions, code, formulas, links, comments.
NO_PROSE = re.compile(
    r"^```.*?^```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\]\([^)]*\)|<!--.*?-->", re.DOTALL | re.MULTILINE
)
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]*\d)")


def read(name: str) -> dict[str, Any]:
    """The content of a results file."""
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return content


def digests(modules: Iterable[str]) -> dict[str, str]:
    """A digest of the code of each module; comments, docstrings and layout do not count."""
    return {module: _digest(_path(module).read_text("utf-8")) for module in sorted(modules)}


def _path(module: str) -> Path:
    folder = ROOT / "src" if module.startswith("heatgraph") else ROOT
    path = folder.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _digest(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            if isinstance(first.value.value, str):
                node.body = node.body[1:]  # type: ignore[attr-defined]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16]


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
        f"*Measured by `{content['command']}` on {content['date'][:10]} ({version}commit "
        f"{content['commit'][:9]}, {content['cores']} cores)."
    )
    modules = changed(content)
    if not content.get("modules"):
        line += " Whether the code has changed since is not recorded."
    elif modules:
        names = ", ".join(f"`{m}`" for m in modules[:4]) + (" and others" if modules[4:] else "")
        line += f" The code has changed since, in {names}: `make results` measures anew."
    return line + "*\n"


def quoted(text: str) -> tuple[list[str], set[str]] | None:
    """The results files that a page quotes and its constants; None if it says nothing of them."""
    found = QUOTES.search(text)
    if found is None:
        return None
    return found["names"].split(), set((found["constants"] or "").split())


def decimals(text: str) -> list[str]:
    """The decimal numbers of the prose and tables of a page, as they are written."""
    return DECIMAL.findall(NO_PROSE.sub(" ", text))


def unfounded(text: str) -> list[str]:
    """The decimal numbers that a page quotes and that none of its results files has."""
    names, constants = quoted(text) or ([], set())
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
    written = sorted([*DOCS.glob("*.md"), *DOCS.glob("guide/*.md")])
    return [ROOT / "README.md", *written]


def write_texts(app: Any = None) -> None:
    """Write what the pages include, and warn of numbers that no results file has."""
    from sphinx.util import logging

    folder = DOCS / "generated" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    for path in RESULTS.glob("*.json"):
        content = read(path.stem)
        if "command" in content:
            (folder / f"{path.stem}-when.md").write_text(when(content), "utf-8")
            (folder / f"{path.stem}.md").write_text(content.get("page", ""), "utf-8")
    for page in pages():
        text = page.read_text("utf-8")
        if quoted(text) is not None and (numbers := unfounded(text)):
            logging.getLogger(__name__).warning(
                "%s quotes %s, which its results files do not have", page.name, ", ".join(numbers)
            )


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", write_texts)
    return {"parallel_read_safe": True}
