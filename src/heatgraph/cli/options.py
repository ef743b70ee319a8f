"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "DebugFlag",
    "Decimal",
    "ForceFlag",
    "Header",
    "IndexColumn",
    "JsonFlag",
    "ModelFile",
    "QuietFlag",
    "Transpose",
]

IndexColumn = Annotated[str | None, typer.Option(help="Column that labels the signals, or none.")]
Transpose = Annotated[bool, typer.Option("--transpose", help="Nodes are rows and signals columns.")]
Header = Annotated[bool | None, typer.Option(help="Whether the first line of a CSV has names.")]
Decimal = Annotated[str, typer.Option(help="Decimal mark of a CSV.")]
ForceFlag = Annotated[bool, typer.Option("--force", help="Replace earlier results.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", "-q", help="Show no notes and no progress.")]
DebugFlag = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model file, or the folder of `learn`.")
]
