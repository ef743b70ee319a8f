"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Coordinates",
    "DebugFlag",
    "Decimal",
    "ForceFlag",
    "Header",
    "IndexColumn",
    "JsonFlag",
    "MissingValues",
    "ModelFile",
    "QuietFlag",
    "Thousands",
    "Transpose",
    "option_of",
]

# Where an option is not called like the parameter that it sets.
OPTIONS = {
    "X": "the table",
    "fit_intercept": "--intercept",
    "learn_scales": "--hold-scales",
    "n_bootstrap": "--bootstrap",
    "n_jobs": "--jobs",
    "random_state": "--seed",
}

IndexColumn = Annotated[
    list[str] | None,
    typer.Option(
        "--index-column",
        "--labels",
        help="Column that labels the signals, or none; may be given several times.",
    ),
]
Transpose = Annotated[
    bool | None, typer.Option(help="Whether nodes are rows, and signals columns.")
]
Header = Annotated[bool | None, typer.Option(help="Whether the first line of a CSV has names.")]
Decimal = Annotated[str | None, typer.Option(help="Decimal mark of a CSV: . or ,")]
Thousands = Annotated[str | None, typer.Option(help="What separates thousands in a CSV.")]
MissingValues = Annotated[
    list[str] | None,
    typer.Option(
        "--missing", help="Value that stands for a gap, such as -999; may be given several times."
    ),
]
Coordinates = Annotated[
    Path | None,
    typer.Option(
        help="CSV file with one row per node: its name, and longitude and latitude, or x and y."
    ),
]
ForceFlag = Annotated[bool, typer.Option("--force", help="Replace earlier results.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", "-q", help="Show no notes and no progress.")]
DebugFlag = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model file, or the folder of `learn`.")
]


def option_of(parameter: str) -> str:
    """The option that sets a parameter."""
    return OPTIONS.get(parameter, f"--{parameter.replace('_', '-')}")
