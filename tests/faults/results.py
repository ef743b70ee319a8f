"""The numbers of the last run of every check, in files that the documentation shows."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

__all__ = ["RESULTS", "record_section", "record_within"]

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "trust.json"


def record_section(name: str, numbers: dict[str, Any]) -> None:
    """Put the numbers of one check in the place of its earlier ones."""
    whole = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    whole[name] = {"date": datetime.now(UTC).date().isoformat(), **numbers}
    text = json.dumps(dict(sorted(whole.items())), indent=2, ensure_ascii=False)
    RESULTS.write_text(text + "\n", encoding="utf-8")
    RESULTS.with_suffix(".txt").write_text(as_table(whole), encoding="utf-8")


def record_within(name: str, part: str, numbers: dict[str, Any]) -> None:
    """Put the numbers of one part of a check in the place of its earlier ones."""
    whole = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    parts = whole.get(name, {}).get("parts", {})
    record_section(name, {"parts": dict(sorted({**parts, part: numbers}.items()))})


def as_table(whole: dict[str, Any]) -> str:
    """The sections as rows of a table in Markdown."""
    lines = ["| Check | Last run | What was tried |", "| --- | --- | --- |"]
    for name, section in sorted(whole.items()):
        lines.append(f"| `{COMMANDS[name]}` | {section['date']} | {TOLD[name](section)} |")
    return "\n".join(lines) + "\n"


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
    for counts in section["parts"].values():
        kinds.update(counts)
    each = ", ".join(f"{kind}: {count}" for kind, count in kinds.items())
    return f"{kinds.total()} faults in {len(section['parts'])} operations ({each}); all held"


def _fuzz(section: dict[str, Any]) -> str:
    readers = section["parts"]
    each = ", ".join(f"{name} {found['executions']}" for name, found in readers.items())
    total = sum(found["executions"] for found in readers.values())
    seconds = [found["seconds"] for found in readers.values()]
    slowest = max(found["slowest"] for found in readers.values())
    new = sum(found.get("new_code", 0) for found in readers.values())
    return (
        f"{total} files, {min(seconds)} to {max(seconds)} s for each reader ({each}), of which "
        f"{new} were kept as they reached new code; the slowest file took {slowest} s"
    )


def _numbers(section: dict[str, Any]) -> str:
    fitted = sum(n for how, n in section["ends"].items() if how.endswith("fitted fitted"))
    return (
        f"{section['examples']} examples from seed {section['seed']}, {section.get('on_dask', 0)} "
        f"of them on Dask too, each by two estimators; {fitted} times both fitted, the other times "
        "one or both refused with an error that names the reason"
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
