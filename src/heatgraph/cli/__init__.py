"""The command line."""

from heatgraph.cli.app import app, main

__all__ = ["app", "main"]
