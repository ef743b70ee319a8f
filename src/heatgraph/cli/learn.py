"""``heatgraph learn``: a graph from a table of signals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from heatgraph.cli.console import (
    INTERRUPTED,
    DebugFlag,
    JsonFlag,
    QuietFlag,
    Voice,
    errors_reported,
)
from heatgraph.cli.results import (
    edge_table,
    listed,
    result_folder,
    strongest,
    write_fit,
    write_summary,
)
from heatgraph.cli.tables import SignalTable, TableOptions, read_pairs, read_signals
from heatgraph.learners import LearnHeat
from heatgraph.solvers.result import Status

__all__ = ["fit", "learn", "summary_of"]

SIGNALS = "Signals as CSV, Parquet or NPY: a row a signal, a column a node."


def learn(
    signals: Annotated[Path, typer.Argument(help=SIGNALS)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")],
    alpha: Annotated[str, typer.Option(help="Price of a source: a number or auto.")] = "auto",
    beta: Annotated[str, typer.Option(help="Price of uneven weights: a number or auto.")] = "auto",
    scales: Annotated[
        str | None, typer.Option(help="Diffusion times to start from, such as 2.5,4.")
    ] = None,
    hold_scales: Annotated[
        bool, typer.Option("--hold-scales", help="Keep the times of --scales.")
    ] = False,
    n_scales: Annotated[
        int | None, typer.Option(help="Number of diffusion times; 2 unless --scales says.")
    ] = None,
    atoms: Annotated[str, typer.Option(help="What a source costs: unit or raw.")] = "unit",
    solver: Annotated[str, typer.Option(help="auto, dense or paper.")] = "auto",
    candidates: Annotated[
        str | None,
        typer.Option(
            help="Pairs that may be edges: a CSV file with two columns of nodes, or the number "
            "of nearest neighbours of each node."
        ),
    ] = None,
    n_edges: Annotated[int | None, typer.Option(help="Keep only so many edges.")] = None,
    max_iter: Annotated[int | None, typer.Option(help="Limit on the iterations.")] = None,
    tol: Annotated[float | None, typer.Option(help="Residual to stop at.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of what is drawn at random.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads; -1 for all.")] = None,
    index_column: Annotated[
        str | None, typer.Option(help="Column that labels the signals, or none.")
    ] = None,
    transpose: Annotated[
        bool, typer.Option("--transpose", help="Nodes are rows and signals columns.")
    ] = False,
    header: Annotated[
        bool | None, typer.Option(help="Whether the first line of a CSV has names.")
    ] = None,
    decimal: Annotated[str, typer.Option(help="Decimal mark of a CSV.")] = ".",
    force: Annotated[bool, typer.Option("--force", help="Replace earlier results.")] = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Learn the graph on which signals diffused.

    Ctrl-C ends the fit early and keeps the best graph so far.
    """
    voice = Voice(json, quiet)
    with errors_reported(debug):
        times = _scales(scales)
        limits: dict[str, Any] = {"max_iter": max_iter, "tol": tol}
        model = LearnHeat(
            n_scales=_n_scales(times, n_scales),
            alpha=_penalty("--alpha", alpha),
            beta=_penalty("--beta", beta),
            scales=times,
            learn_scales=not hold_scales,
            atoms=atoms,
            solver=solver,
            n_edges=n_edges,
            n_jobs=jobs,
            random_state=seed,
            **{key: value for key, value in limits.items() if value is not None},
        )
        with result_folder(output, force) as folder:
            table = read_signals(signals, TableOptions(index_column, transpose, header, decimal))
            voice.note("; ".join(table.notes) + ".")
            model.candidates = _candidates(candidates, table)
            fit(model, table, voice)
            write_fit(folder, model, table, voice)
            summary = {"command": "learn", "signals_file": str(signals), **summary_of(model)}
            summary["files"] = [*listed(folder, output), str(output / "summary.json")]
            write_summary(folder, summary)
        voice.show(summary, [*human(model), f"Results are in {output}"])
    if model.status_ == Status.INTERRUPTED:
        raise typer.Exit(INTERRUPTED)


def fit(model: LearnHeat, table: SignalTable, voice: Voice) -> None:
    """Fit with a bar; Ctrl-C ends it with the best so far."""
    with voice.warnings_told(), voice.progress() as bar:
        model.fit(table.frame, monitor=bar)


def summary_of(model: LearnHeat) -> dict[str, Any]:
    """A fit, for a machine."""
    return {
        "n_signals": len(model.sources_),
        "n_nodes": model.graph_.n_nodes,
        "n_edges": model.graph_.n_edges,
        "n_components": model.graph_.n_components(),
        "scales": model.scales_.tolist(),
        "alpha": model.alpha_,
        "beta": model.beta_,
        "sources_per_signal": float(np.count_nonzero(model.sources_) / len(model.sources_)),
        "objective": float(model.objective_[-1]),
        "status": str(model.status_),
        "advice": model.status_.advice,
        "residual": model.residual_,
        "n_iter": model.n_iter_,
        "strongest_edges": strongest(model.graph_),
    }


def human(model: LearnHeat) -> list[Any]:
    """A fit, for a reader."""
    facts = summary_of(model)
    times = ", ".join(f"{tau:.3g}" for tau in facts["scales"])
    return [
        f"Learned a graph of {facts['n_nodes']} nodes and {facts['n_edges']} edges from "
        f"{facts['n_signals']} signals, {facts['sources_per_signal']:.2g} sources each.",
        f"Scales {times}; alpha {facts['alpha']:.3g}, beta {facts['beta']:.3g}.",
        f"Status: {facts['status']} after {facts['n_iter']} iterations, residual "
        f"{facts['residual']:.1e}. {_advice(facts['advice'])}",
        edge_table(facts["strongest_edges"][:5]),
    ]


def _advice(text: str) -> str:
    """In the words of the command line."""
    for parameter in ("max_iter", "tol"):
        text = text.replace(f"`{parameter}`", f"--{parameter.replace('_', '-')}")
    return text


def _penalty(option: str, text: str) -> float | str:
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{option} must be a number or auto, got {text!r}") from None


def _scales(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(
            f"--scales must be numbers separated by commas, such as 2.5,4; got {text!r}"
        ) from None


def _n_scales(scales: tuple[float, ...] | None, n_scales: int | None) -> int:
    if scales is None:
        return 2 if n_scales is None else n_scales
    if n_scales not in (None, len(scales)):
        raise ValueError(f"--scales has {len(scales)} values, --n-scales says {n_scales}")
    return len(scales)


def _candidates(text: str | None, table: SignalTable) -> Any:
    if text is None:
        return None
    if text.isdecimal() and not Path(text).exists():
        return int(text)
    names = table.names or tuple(map(str, range(table.values.shape[1])))
    pairs = read_pairs(Path(text), names)
    if table.names is None:
        return [(int(one), int(other)) for one, other in pairs]
    return pairs
