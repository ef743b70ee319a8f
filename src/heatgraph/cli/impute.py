"""``heatgraph impute``: fill in what was not observed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from heatgraph.cli.console import Voice, errors_reported
from heatgraph.cli.options import (
    DebugFlag,
    Decimal,
    ForceFlag,
    Header,
    IndexColumn,
    JsonFlag,
    ModelFile,
    QuietFlag,
    Transpose,
)
from heatgraph.cli.sources import heat_model, signals_for
from heatgraph.cli.tables import SignalTable, TableOptions
from heatgraph.files import write_atomically
from heatgraph.learners import LearnHeat

__all__ = ["impute"]


def impute(
    model_file: ModelFile,
    signals: Annotated[Path, typer.Argument(help="Signals, with empty cells where unobserved.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The .csv file for the completed signals.")
    ],
    index_column: IndexColumn = None,
    transpose: Transpose = False,
    header: Header = None,
    decimal: Decimal = ".",
    force: ForceFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Fill the missing values of signals by what their sources diffuse into.

    Observed values are kept as they are.
    """
    voice = Voice(json, quiet)
    with errors_reported(debug):
        if output.exists() and not force:
            raise FileExistsError(f"{output} is there already; --force replaces it")
        model = heat_model(model_file)
        table = signals_for(model, signals, TableOptions(index_column, transpose, header, decimal))
        voice.note("; ".join(table.notes) + ".")
        frame = table.frame if hasattr(model, "feature_names_in_") else table.values
        with voice.warnings_told():
            filled = model.impute(frame)
        _write(output, filled, table)
        summary = _summary(model, table, frame, filled, output)
        voice.show(summary, _human(summary, output))


def _write(path: Path, filled: Any, table: SignalTable) -> None:
    names = table.names or tuple(f"node {k + 1}" for k in range(filled.shape[1]))
    frame = pd.DataFrame(filled, columns=list(names))
    frame.insert(0, "signal", [table.label(k) for k in range(len(frame))], allow_duplicates=True)
    with write_atomically(path, "w", newline="") as file:
        frame.to_csv(file, index=False)


def _summary(
    model: LearnHeat, table: SignalTable, frame: Any, filled: Any, output: Path
) -> dict[str, Any]:
    missing = np.isnan(table.values)
    return {
        "command": "impute",
        "n_signals": len(filled),
        "n_nodes": filled.shape[1],
        "n_filled": int(missing.sum()),
        "predicted": model.score(frame),
        "files": [str(output)],
    }


def _human(summary: dict[str, Any], output: Path) -> list[str]:
    return [
        f"Filled {summary['n_filled']} values of {summary['n_signals']} signals on "
        f"{summary['n_nodes']} nodes. On observed values hidden for a trial, the model predicts "
        f"{summary['predicted']:.0%} of the energy.",
        f"The completed signals are in {output}",
    ]
