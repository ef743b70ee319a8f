"""``heatgraph impute``: fill in what was not observed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from heatgraph.arrays import Array, Mask
from heatgraph.cli.console import Output, counted
from heatgraph.cli.options import ForceFlag, ModelFile, TableOptions, with_shared_options
from heatgraph.cli.result_folder import model_path, parents_made
from heatgraph.cli.sources import signals_for
from heatgraph.cli.table_files import check_output
from heatgraph.cli.task import IMPUTE
from heatgraph.estimators import HeatCovariance
from heatgraph.storage import load_model


@with_shared_options
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
    std: Annotated[
        Path | None,
        typer.Option(
            help="File for the standard deviation of every filled value, and 0 for observed ones; "
            "with a Gaussian model only."
        ),
    ] = None,
    *,
    options: TableOptions,
    force: ForceFlag = False,
    out: Output,
) -> None:
    """Fill in the missing values of signals by a learned model.

    A sparse model fills in what the sources of the observed values diffuse into; every other one
    fills in the mean, given what was observed of the same signal.  Observed values are kept, and
    so is the shape of the table: labels, the order of its columns, and which way round it is.  A
    signal with nothing observed stays empty.
    """
    with out.errors_told():
        check_output(output, force)
        model = load_model(model_path(model_file))
        if not hasattr(model, "impute"):
            raise ValueError(
                f"{model_file} holds a {type(model).__name__}, which predicts no values; learn a "
                f"model with --method {', '.join(IMPUTE[:-1])} or {IMPUTE[-1]}"
            )
        if std is not None:
            _check_std(std, output, force, model)
        table, X = signals_for(model, signals, options, out)
        seen = np.asarray(~np.isnan(table.values).all(axis=1))
        if not seen.any():
            raise ValueError(
                f"{signals} has no observed value, so there is nothing to predict from"
            )
        with out.warnings_told():
            filled, spread = _impute(model, X, seen)
            predicted = model.score_hidden(X[seen])
        if predicted <= 0.0:
            out.warning("the model predicts hidden values no better than the mean of each node")
        with parents_made(output):
            table.give_back(output, filled)
        if std is not None:
            with parents_made(std):
                table.give_back(std, spread)
        summary = {
            "command": "impute",
            "n_signals": len(filled),
            "n_nodes": filled.shape[1],
            "n_filled": int((np.isnan(table.values) & ~np.isnan(filled)).sum()),
            "n_empty": int((~seen).sum()),
            "predicted": predicted,
            "warnings": out.warnings,
            "files": [str(output), *([] if std is None else [str(std)])],
        }
        out.show(summary, _human(summary, output, std))


def _check_std(std: Path, output: Path, force: bool, model: Any) -> None:
    if not isinstance(model, HeatCovariance):
        raise ValueError(
            f"--std needs a Gaussian model of heat, and {type(model).__name__} has no standard "
            "deviations; learn one with --model gaussian"
        )
    if std.absolute() == output.absolute():
        raise ValueError(f"--std and --output both name {std}; give them a file each")
    check_output(std, force)


def _impute(model: Any, X: Any, seen: Mask) -> tuple[Array, Array]:
    """The signals with their gaps filled, and standard deviations where the model has them."""
    filled, spread = np.full((2, *X.shape), np.nan)
    if isinstance(model, HeatCovariance):
        filled[seen], spread[seen] = model.impute(X[seen], return_std=True)
    else:
        filled[seen] = model.impute(X[seen])
    return filled, spread


def _human(summary: dict[str, Any], output: Path, std: Path | None) -> list[str]:
    lines = [
        f"Filled {counted(summary['n_filled'], 'value')} of "
        f"{counted(summary['n_signals'], 'signal')} on {counted(summary['n_nodes'], 'node')}. On "
        "observed values hidden for a trial, the model predicts "
        f"{max(summary['predicted'], 0.0):.0%} of their variance."
    ]
    if summary["n_empty"]:
        stay = "stays" if summary["n_empty"] == 1 else "stay"
        lines.append(
            f"{counted(summary['n_empty'], 'signal')} had nothing observed and {stay} empty."
        )
    if std is not None:
        lines.append(f"The standard deviations of the filled values are in {std}")
    return [*lines, f"The completed signals are in {output}"]
