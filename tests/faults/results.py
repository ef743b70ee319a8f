"""The numbers of the runs of every check, in files that the documentation shows.

Every run has its date and the commit that changed the sources (``src``) last before it.
"""

from __future__ import annotations

import fcntl
import functools
import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

__all__ = ["RESULTS", "add_run", "record_part", "record_section"]

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "trust.json"


def record_section(name: str, numbers: dict[str, Any]) -> None:
    """Put the numbers of one check in the place of its earlier ones."""
    with changed() as whole:
        whole[name] = {**stamp(), **numbers}


def record_part(name: str, part: str, numbers: dict[str, Any]) -> None:
    """Put the numbers of one part of a check in the place of its earlier ones."""
    with changed() as whole:
        whole.setdefault(name, {"parts": {}})["parts"][part] = {**stamp(), **numbers}


def add_run(name: str, part: str, numbers: dict[str, Any]) -> None:
    """Put the numbers of one run of a part of a check beside its earlier ones."""
    with changed() as whole:
        runs = whole.setdefault(name, {"parts": {}})["parts"].setdefault(part, [])
        runs.append({**stamp(), **numbers})


@contextmanager
def changed() -> Iterator[dict[str, Any]]:
    """The file's content, to be changed; two checks that run at once wait for each other."""
    with open(RESULTS, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        whole = json.loads(file.read() or "{}")
        yield whole
        text = json.dumps(whole, indent=2, ensure_ascii=False, sort_keys=True)
        file.truncate(0)
        file.write(text + "\n")
        RESULTS.with_suffix(".txt").write_text(as_table(whole), encoding="utf-8")


@functools.cache
def commit() -> str:
    """The last commit that changed the sources, and whether they differ from it."""

    def git(*words: str) -> str:
        words = ("git", *words, "--", "src")
        return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    name = git("log", "-1", "--format=%h", "--abbrev=10").strip()
    return f"{name}, changed" if git("status", "--porcelain").strip() else name


def stamp() -> dict[str, str]:
    return {"date": datetime.now(UTC).date().isoformat(), "commit": commit()}


def as_table(whole: dict[str, Any]) -> str:
    """The sections as rows of a table in Markdown."""
    lines = ["| Check | Last run | Commit | What was tried |", "| --- | --- | --- | --- |"]
    for name, section in sorted(whole.items()):
        stamps = [section] if "date" in section else list(latest(section["parts"]).values())
        dates, commits = (
            ", ".join(sorted({one[key] for one in stamps})) for key in ("date", "commit")
        )
        lines.append(f"| `{COMMANDS[name]}` | {dates} | {commits} | {TOLD[name](section)} |")
    return "\n".join(lines) + "\n"


def latest(parts: dict[str, Any]) -> dict[str, Any]:
    """Of every part, the last run; runs of one commit are one."""
    return {
        part: in_all([one for one in found if one["commit"] == found[-1]["commit"]])
        if isinstance(found, list)
        else found
        for part, found in parts.items()
    }


def in_all(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Several runs of one reader as one."""
    whole = dict(runs[-1])
    for key in ("executions", "refused", "seconds", "new_code"):
        whole[key] = sum(one.get(key, 0) for one in runs)
    whole["slowest"] = max(one["slowest"] for one in runs)
    return whole


COMMANDS = {
    "clusters": "make test-clusters",
    "faults": "make test-faults",
    "fuzz": "make fuzz",
    "memory": "make test-memory",
    "numbers": "make hard-numbers",
    "soak": "make soak",
}


def _faults(section: dict[str, Any]) -> str:
    kinds: Counter[str] = Counter()
    for part in section["parts"].values():
        kinds.update(part["faults"])
    each = ", ".join(f"{kind}: {count}" for kind, count in kinds.items())
    return f"{kinds.total()} faults in {len(section['parts'])} operations ({each}); all held"


def _fuzz(section: dict[str, Any]) -> str:
    readers = latest(section["parts"])
    each = ", ".join(
        f"{name} {found['executions']} in {found['seconds']} s" for name, found in readers.items()
    )
    now = in_all(list(readers.values()))
    ever = in_all([run for runs in section["parts"].values() for run in runs])
    return (
        f"{now['executions']} files ({each}), of which {now['new_code']} were kept as they reached "
        f"new code; the slowest file took {now['slowest']} s. With the runs of earlier commits: "
        f"{ever['executions']} files in {ever['seconds'] / 3600:.1f} h"
    )


def _numbers(section: dict[str, Any]) -> str:
    fitted = sum(n for how, n in section["ends"].items() if how.endswith("fitted fitted"))
    return (
        f"{section['examples']} examples from seed {section['seed']}, {section.get('on_dask', 0)} "
        f"of them on Dask too, each by two estimators; {fitted} times both fitted, the other times "
        "one or both refused with an error that names the reason"
        + "".join(f"; finding: {found}" for found in section.get("findings", []))
    )


def _soak(section: dict[str, Any]) -> str:
    settled, end = section["settled"], section["end"]
    return (
        f"{section['rounds']} rounds; {settled['megabytes']} MB after the first 50, "
        f"{end['megabytes']} MB at the end; {end['files']} open files, {end['threads']} threads, "
        "as many as then"
    )


def _clusters(section: dict[str, Any]) -> str:
    each = "; ".join(
        f"{name}: {' and '.join(f'{n} {how}' for how, n in told['ends'].items())}"
        for name, told in section["parts"].items()
    )
    farthest = max(told["farthest"] for told in section["parts"].values())
    longest = max(told["longest"] for told in section["parts"].values())
    return (
        f"{each}. No model was more than {farthest:.0e} from that of the same signals in memory; "
        f"the longest run took {longest:.0f} s"
    )


def _memory(section: dict[str, Any]) -> str:
    each = "; ".join(
        f"{name}: {', '.join(f'{n} {how}' for how, n in told['ends'].items())}"
        for name, told in section["fits"].items()
    )
    return f"{each}. No checkpoint was lost"


TOLD = {
    "clusters": _clusters,
    "faults": _faults,
    "fuzz": _fuzz,
    "memory": _memory,
    "numbers": _numbers,
    "soak": _soak,
}
