"""The numbers of the last run of every check, in a file that the documentation shows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

__all__ = ["RESULTS", "record_section"]

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "trust.json"


def record_section(name: str, numbers: dict[str, Any]) -> None:
    """Put the numbers of one check in the place of its earlier ones."""
    whole = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    whole[name] = {"date": datetime.now(UTC).date().isoformat(), **numbers}
    text = json.dumps(dict(sorted(whole.items())), indent=2, ensure_ascii=False)
    RESULTS.write_text(text + "\n", encoding="utf-8")
