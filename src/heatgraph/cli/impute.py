"""``heatgraph impute``: fill in what was not observed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
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
from heatgraph.cli.origin import check_output
from heatgraph.cli.results import parents_made
from heatgraph.cli.sources import heat_model, signals_for
from heatgraph.cli.tables import TableOptions
from heatgraph.cli.wording import counted

__all__ = ["impute"]


def impute(
    model_file: ModelFile,
    signals: Annotated[Path, typer.Argument(help="Signals, with empty cells where unobserved.")],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="File for the completed table: .csv, .tsv, .csv.gz, .parquet or .npy.",
        ),
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

    Observed values are kept, and so is the shape of the table: labels, the order of its columns,
    and which way round it is.  A signal with nothing observed stays empty.
    """
    voice = Voice(json, quiet)
    with errors_reported(debug):
        check_output(output, force)
        model = heat_model(model_file)
        table = signals_for(model, signals, TableOptions(index_column, transpose, header, decimal))
        voice.note("; ".join(table.notes) + ".")
        frame = table.frame if hasattr(model, "feature_names_in_") else table.values
        seen = ~np.isnan(table.values).all(axis=1)
        if not seen.any():
            raise ValueError(
                f"{signals} has no value that was observed, so there is nothing to go by"
            )
        with voice.warnings_told():
            filled = np.full_like(table.values, np.nan)
            filled[seen] = model.impute(frame[seen])
            predicted = model.score(frame[seen])
        with parents_made(output):
            table.give_back(output, filled)
        summary = {
            "command": "impute",
            "n_signals": len(filled),
            "n_nodes": filled.shape[1],
            "n_filled": int((np.isnan(table.values) & ~np.isnan(filled)).sum()),
            "n_empty": int((~seen).sum()),
            "predicted": predicted,
            "files": [str(output)],
        }
        voice.show(summary, _human(summary, output))


def _human(summary: dict[str, Any], output: Path) -> list[str]:
    lines = [
        f"Filled {counted(summary['n_filled'], 'value')} of "
        f"{counted(summary['n_signals'], 'signal')} on {counted(summary['n_nodes'], 'node')}. On "
        "observed values hidden for a trial, the model predicts "
        f"{summary['predicted']:.0%} of the energy."
    ]
    if summary["n_empty"]:
        stay = "stays" if summary["n_empty"] == 1 else "stay"
        lines.append(
            f"{counted(summary['n_empty'], 'signal')} had nothing observed and {stay} empty."
        )
    return [*lines, f"The completed signals are in {output}"]
