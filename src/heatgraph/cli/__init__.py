"""The command line."""

from __future__ import annotations

import sys

__all__ = ["main"]

INTERRUPTED = 130


def main() -> None:
    """Run the command line.  Ctrl-C while it still loads ends it in a line, too."""
    try:
        from heatgraph.cli.app import app

        app(prog_name="heatgraph")
    except KeyboardInterrupt:
        sys.stderr.write("heatgraph: stopped; nothing was written\n")
        sys.exit(INTERRUPTED)
