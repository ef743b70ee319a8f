"""The commands, under one name."""

from __future__ import annotations

from typing import Annotated

import typer

from heatgraph import __version__
from heatgraph.cli.demo import demo
from heatgraph.cli.impute import impute
from heatgraph.cli.learn import learn
from heatgraph.cli.reproduce import reproduce
from heatgraph.cli.sources import sources

__all__ = ["app", "main"]

app = typer.Typer(
    help="Learn the weighted graph on which heat diffused, from signals on its nodes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"heatgraph {__version__}")
        raise typer.Exit


@app.callback()
def _heatgraph(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


app.command()(learn)
app.command()(sources)
app.command()(impute)
app.command()(demo)
app.command()(reproduce)


def main() -> None:
    """Run the command line."""
    app(prog_name="heatgraph")
