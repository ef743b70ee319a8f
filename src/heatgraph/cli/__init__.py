"""The command line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heatgraph.cli.app import app

__all__ = ["app", "main"]

INTERRUPTED = 130


def main() -> None:
    """Run the command line.  Ctrl-C while it still loads ends it in a line, too."""
    try:
        from heatgraph.cli.app import app

        app(prog_name="heatgraph")
    except KeyboardInterrupt:
        sys.stderr.write("heatgraph: stopped; nothing was written\n")
        sys.exit(INTERRUPTED)


def __getattr__(name: str) -> Any:
    # Loaded when asked for, so that `main` is there at once to catch an interruption.
    if name == "app":
        from heatgraph.cli.app import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
