"""Put measured numbers in the pages, and complain of those that no results file has."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sphinx.util import logging

DOCS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(DOCS.parent))

from benchmarks import results  # noqa: E402  # the repository is no installed package


def prepare(app: Any) -> None:
    """Before the pages are read: a complaint is a warning, and so an error of `make docs`."""
    results.write_texts(DOCS / "generated" / "results")
    for complaint in results.complaints():
        logging.getLogger(__name__).warning(complaint)


def setup(app: Any) -> dict[str, bool]:
    """Connect it to the build."""
    app.connect("builder-inited", prepare)
    return {"parallel_read_safe": True}
