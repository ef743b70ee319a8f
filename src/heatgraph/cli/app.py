"""The commands, under one name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version as installed_version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from heatgraph.cli import INTERRUPTED

# A command is imported when it is called: the numerical libraries take seconds, which neither
# --help nor --version should cost.  The help of each is the first line of its docstring.
COMMANDS = {
    "learn": "Learn the graph on which signals diffused.",
    "sources": "Find the sources of signals on a learned graph.",
    "impute": "Fill in the missing values of signals by a learned model.",
    "compare": "Compare methods by how well they predict signals that they have not seen.",
    "report": "Write a page that shows a model: one file that needs no network.",
    "reproduce": "Compute tables and figures of the paper and compare them with the paper's.",
    "demo": "Learn a graph of twenty towns from simulated signals.",
}
STYLE: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}


@contextmanager
def _told_of_loading() -> Iterator[None]:
    """A word for who waits at a terminal: the numerical libraries take seconds to load."""
    said = "heatgraph: loading ..."
    if sys.stderr.isatty():
        print(said, end="\r", file=sys.stderr, flush=True)
    yield
    if sys.stderr.isatty():
        print(" " * len(said), end="\r", file=sys.stderr, flush=True)


class _Commands(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        try:
            with _told_of_loading():
                module = import_module(f"heatgraph.cli.{cmd_name}")
        except KeyboardInterrupt:
            typer.echo("heatgraph: stopped; nothing was written", err=True)
            raise typer.Exit(INTERRUPTED) from None
        single = typer.Typer(**STYLE)
        single.command(cmd_name)(getattr(module, cmd_name))
        return typer.main.get_command(single)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    help="Learn the weighted graph on which heat diffused, from signals on its nodes.",
    no_args_is_help=True,
    cls=_Commands,
    **STYLE,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"heatgraph {installed_version('heatgraph')}")
        raise typer.Exit


@app.callback()
def _heatgraph(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass
