"""The folder that an experiment leaves behind."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import heatgraph
from heatgraph.experiments.base import Outcome, Settings
from heatgraph.files import to_json, write_folder

RESULTS, PAGE = "results.json", "page.md"
FORMAT = "heatgraph experiment"
DPI = 150
REHEARSAL = (
    "This is a rehearsal: the quick size takes a few small problems to show that everything runs. "
    "Its numbers are not comparable with those of the paper."
)
# Without the date and random identifiers, the same picture is the same file.
SVG = {"metadata": {"Date": None}}


def write_outcome(
    outcome: Outcome,
    folder: str | os.PathLike[str],
    *,
    settings: Settings | None = None,
    replace: bool = False,
) -> list[Path]:
    """Write what an experiment found into a folder, all of it or nothing.

    Parameters
    ----------
    outcome : Outcome
        What was found.
    folder : str or path-like
        The folder to make.  Its parent has to exist.
    settings : Settings, optional
        What was asked, to be written beside the numbers.
    replace : bool, default=False
        Whether an earlier result there may be replaced.  Other files in the folder are kept.

    Returns
    -------
    list of pathlib.Path
        The files: ``results.json``, ``page.md``, a CSV a table, a PNG and an SVG a figure.

    Examples
    --------
    >>> import tempfile
    >>> outcome = Outcome("one", "One is one", {}, {"one": 1}, {}, "One is 1.")
    >>> files = write_outcome(outcome, Path(tempfile.mkdtemp()) / "one")
    >>> [path.name for path in files]
    ['page.md', 'results.json']
    """
    target = Path(folder)
    ours = _earlier_files(target)
    with write_folder(target, replace=replace, ours=ours) as new:
        for name, table in outcome.tables.items():
            table.to_csv(new / f"{name}.csv", index=False)
        for name, figure in outcome.figures.items():
            _draw(figure, new, name)
        page = _rehearsed(outcome.page) if settings is not None and settings.quick else outcome.page
        (new / PAGE).write_text(page.rstrip() + "\n", encoding="utf-8")
        names = sorted([*(entry.name for entry in new.iterdir()), RESULTS])
        content = {
            "format": FORMAT,
            "experiment": outcome.name,
            "title": outcome.title,
            "asked": None if settings is None else settings.asked(),
            "version": heatgraph.__version__,
            "numbers": outcome.numbers,
            "files": names,
        }
        (new / RESULTS).write_text(to_json(content) + "\n", encoding="utf-8")
    return [target / name for name in names]


def _rehearsed(page: str) -> str:
    """A page with a word, below its title, on what it is not."""
    title, _, rest = page.partition("\n") if page.startswith("#") else ("", "", page)
    return "\n\n".join(part for part in (title, f"**{REHEARSAL}**", rest.strip()) if part)


def collect_pages(folder: Path, names: Iterable[str], title: str, pictures: str = "{name}/") -> str:
    """One page of the pages of several results in a folder; those that are not there are left out.

    ``pictures`` is put before the name of a picture, with ``{name}`` the name of the experiment.
    """
    parts = [f"# {title}"]
    for name in names:
        path = folder / name / PAGE
        if path.exists():
            text = path.read_text(encoding="utf-8").strip()
            text = re.sub(r"^#", "##", text, flags=re.MULTILINE)
            parts.append(
                re.sub(r"\]\(([\w.-]+\.png)\)", rf"]({pictures.format(name=name)}\1)", text)
            )
    return "\n\n".join(parts) + "\n"


def same_request(folder: Path, name: str, settings: Settings) -> bool:
    """Whether a folder holds the result of this experiment under these settings."""
    content = _earlier(folder)
    return content.get("experiment") == name and content.get("asked") == json.loads(
        to_json(settings.asked())
    )


def _draw(figure: Any, folder: Path, name: str) -> None:
    import matplotlib as mpl

    figure.savefig(folder / f"{name}.png", dpi=DPI)
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(folder / f"{name}.svg", **SVG)


def _earlier(folder: Path) -> dict[str, Any]:
    """The results of an earlier run in a folder; empty if there are none to be read."""
    try:
        content = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        return {}
    return content


def _earlier_files(folder: Path) -> list[str]:
    """The entries of a folder that an earlier run wrote, and that a new one may do away with."""
    names = _earlier(folder).get("files", [])
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
