"""``heatgraph learn``: a graph from a table of signals."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from joblib import effective_n_jobs
from rich.table import Table

from heatgraph.arrays import Array
from heatgraph.cli import INTERRUPTED
from heatgraph.cli.cluster import ClusterTable, asks_for_cluster, cluster, read_parts
from heatgraph.cli.console import Output, counted
from heatgraph.cli.options import (
    Coordinates,
    FitOptions,
    ForceFlag,
    TableOptions,
    with_shared_options,
)
from heatgraph.cli.report import read_coordinates
from heatgraph.cli.result_folder import (
    REPORT,
    address_of,
    edge_table,
    result_folder,
    strongest,
    write_fit,
    write_page,
    write_summary,
)
from heatgraph.cli.table_layout import CONSTANT
from heatgraph.cli.tables import SignalTable, read_pairs, read_signals
from heatgraph.cli.task import (
    METHODS,
    Task,
    asked,
    method_of,
    model_of,
    read_scales,
    value,
)
from heatgraph.errors import needed
from heatgraph.estimators import HeatCovariance, LearnHeat, ModelComparison
from heatgraph.estimators.choosing_model import MODELS
from heatgraph.estimators.hidden import Predicted
from heatgraph.graph import Graph
from heatgraph.kernels.spectral import KERNELS
from heatgraph.report.page_data import place
from heatgraph.solvers.result import Status

PARAMETERS = ("alpha", "beta", "shrinkage", "penalty", "eps")  # that a fit may have chosen
SHARES = ("missed", "standard_error")
# Shares of the variance of hidden entries of held-out signals.
PREDICTED = (
    "predicted",
    "predicted_standard_error",
    "predicted_by_ledoit_wolf",
    "difference_standard_error",
)
LITTLE = 0.1  # share of the heat below which a scale may be none
CLOSE = 1.2  # times another one, a scale may be the same
SURE = 0.95  # confidence from which an edge is called nearly certain
STOPPED = (
    "stopped before there was a graph, and nothing was written; with --checkpoint FILE, the same "
    "command continues where it was stopped"
)
SIGNALS = (
    "Signals as CSV, Parquet or NPY: one row per signal, one column per node. Several Parquet "
    "files, or a folder of them, are read by Dask."
)


@with_shared_options
def learn(
    signals: Annotated[list[Path], typer.Argument(help=SIGNALS)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")],
    method: Annotated[
        str, typer.Option(help=f"Method that learns the graph: {', '.join(METHODS)}.")
    ] = "heat",
    model: Annotated[
        str | None,
        typer.Option(
            help="Where heat is released: sparse (at a few nodes), gaussian (everywhere), or auto, "
            "the default: what predicts hidden values better."
        ),
    ] = None,
    alpha: Annotated[
        str | None, typer.Option(help="Penalty of sources: a number or auto (sparse).")
    ] = None,
    beta: Annotated[
        str | None, typer.Option(help="Penalty of uneven weights: a number or auto (sparse).")
    ] = None,
    shrinkage: Annotated[
        str | None,
        typer.Option(help="Shrinkage of the covariance: below 1, or auto (gaussian)."),
    ] = None,
    scales: Annotated[
        str | None, typer.Option(help="Diffusion times to start from, such as 2.5,4 (sparse).")
    ] = None,
    hold_scales: Annotated[
        bool,
        typer.Option(
            "--hold-scales", help="Do not learn the times: keep those of --scales (sparse)."
        ),
    ] = False,
    n_scales: Annotated[
        str | None,
        typer.Option(help="Number of diffusion times; 1 (gaussian), 2 or auto (sparse)."),
    ] = None,
    atoms: Annotated[
        str | None, typer.Option(help="Atoms of the penalty: unit (of norm 1) or raw (sparse).")
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option(help="Solver: auto, dense, sparse, or paper (--model sparse only)."),
    ] = None,
    candidates: Annotated[
        str | None,
        typer.Option(
            help="Pairs that may be edges: a CSV file with two columns of nodes, or the number "
            "of nearest neighbours of each node."
        ),
    ] = None,
    intercept: Annotated[
        bool | None,
        typer.Option(help="Whether every node has a level of its own, which is learned."),
    ] = None,
    n_edges: Annotated[
        str | None,
        typer.Option(help="Approximate number of edges: a number, or 4N for 4 per node."),
    ] = None,
    penalty: Annotated[
        str | None,
        typer.Option(
            help="Form of the penalty of sources: log or l1 (sparse); how many standard errors an "
            "edge has to be above zero: a number or auto (gaussian)."
        ),
    ] = None,
    cut: Annotated[
        str | None,
        typer.Option(
            help="Smallest weight of an edge, or auto, typical, valley, mixture, otsu, or "
            "significance (gaussian)."
        ),
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            help=f"Kernel by which heat spreads: {', '.join(KERNELS)}; heat by default. With auto, "
            "HeatCovariance chooses one."
        ),
    ] = None,
    bootstrap: Annotated[
        int | None,
        typer.Option(min=0, help="Resampled fits that give every edge a confidence (sparse)."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="File from which a stopped fit continues; removed when results are written."
        ),
    ] = None,
    max_iter: Annotated[int | None, typer.Option(help="Largest number of iterations.")] = None,
    tol: Annotated[float | None, typer.Option(help="Residual at which the fit stops.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the random numbers.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Number of threads; -1 for all.")] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, whose workers do the work.")
    ] = None,
    coordinates: Coordinates = None,
    report: Annotated[
        bool, typer.Option(help="Write report.html, a page that shows the result.")
    ] = True,
    *,
    held_out: FitOptions,
    options: TableOptions,
    force: ForceFlag = False,
    out: Output,
) -> None:
    """Learn the graph on which signals diffused.

    Ctrl-C ends the fit early and keeps the best graph so far, once there is one.  With
    --checkpoint, the same command continues where it was stopped.  After Ctrl-C there are results
    already: add --force to replace them.
    """
    with out.errors_told(checkpoint, STOPPED):
        if jobs == 0:
            raise ValueError("--jobs must be a number of threads, or -1 for all, got 0")
        task = asked(
            method,
            model,
            {
                "alpha": value(alpha),
                "beta": value(beta),
                "shrinkage": value(shrinkage),
                "scales": read_scales(scales),
                "learn_scales": False if hold_scales else None,
                "n_scales": value(n_scales),
                "atoms": atoms,
                "solver": solver,
                "candidates": candidates,
                "fit_intercept": intercept,
                "n_edges": value(n_edges),
                "penalty": value(penalty),
                "cut": value(cut),
                "n_bootstrap": bootstrap,
                "checkpoint": checkpoint,
                "n_jobs": jobs,
                "max_iter": max_iter,
                "tol": tol,
                "random_state": seed,
                "cv": held_out.cv,
                "groups": held_out.groups,
                "kernel": kernel,
            },
        )
        lags = held_out.lags
        if lags and coordinates is not None:
            raise ValueError(
                "--lag and --coordinates cannot be given together: columns of "
                "earlier values have no coordinates"
            )
        options = replace(options, groups=held_out.groups)
        with (
            result_folder(output, force) as folder,
            signals_of(signals, options, lags, scheduler, jobs, method, out) as table,
        ):
            out.note("; ".join([*table.notes, *task.notes]) + ".")
            for doubt in table.warnings:
                out.warning(doubt)
            task = task.with_candidates(_candidates(candidates, table))
            places = table.coordinates if coordinates is None else read_coordinates(coordinates)
            xy = _checked_places(places, table)  # before the fit, which may take long
            going_on = [path for path in task.checkpoints if path.exists()]
            if going_on:
                out.note(f"Going on from {', '.join(map(str, going_on))}.")
            fitted = fit(task, table, out)
            _warn_of_prediction(fitted, out)
            _warn_of_scales(fitted, out)
            write_fit(folder, fitted, table, out, xy)
            if report and isinstance(table, SignalTable):
                title = f"The graph learned from {signals[0].name}"
                write_page(folder, fitted, table, out, places, title)
            files = " ".join(map(str, signals))
            facts = {"command": "learn", "signals_file": files, **summary_of(fitted, table)}
            summary = write_summary(folder, output, facts, out)
        if fitted.status_ != Status.INTERRUPTED:
            for path in task.checkpoints:
                path.unlink(missing_ok=True)
        out.show(summary, [*human(fitted, table), *where(output, table)])
    if fitted.status_ == Status.INTERRUPTED:
        if checkpoint is not None:
            out.note(f"{checkpoint} is kept: the same command with --force goes on from there.")
        raise typer.Exit(INTERRUPTED)


@contextmanager
def signals_of(
    paths: list[Path],
    options: TableOptions,
    lags: tuple[int, ...],
    scheduler: str | None,
    jobs: int | None,
    method: str,
    out: Output,
) -> Iterator[SignalTable | ClusterTable]:
    """The signals, read here, or with the workers of a cluster for the time of the block."""
    if not asks_for_cluster(paths, scheduler):
        yield read_signals(paths[0], options).with_past(lags)
        return
    if lags or options.groups is not None or options.leave_out:
        raise ValueError(
            "--groups, --lag and --leave-out need signals in a single file, read as a whole"
        )
    if method != "heat":
        raise ValueError(f"--method {method} needs its signals in a single file, read as a whole")
    needed("distributed", "reading signals in several files", '"heatgraph[dask]"')
    table = read_parts(paths, options)  # before any worker is started for nothing
    with cluster(scheduler, effective_n_jobs(-1 if jobs is None else jobs), out):
        yield table


def fit(task: Task, table: SignalTable | ClusterTable, out: Output) -> Any:
    """Fit with a bar; Ctrl-C ends it with the best so far."""
    with out.warnings_told():
        if any(CONSTANT in doubt for doubt in table.warnings):  # told already
            warnings.filterwarnings("ignore", message="HeatCovariance: constant")
        fitted = task.fit(table.frame, int(out.shows_progress), table.groups)
    fitted.verbose = 0
    return fitted


def summary_of(model: Any, table: SignalTable | ClusterTable) -> dict[str, Any]:
    """A fit, for a machine."""
    shares = Predicted.of(model)
    return {
        **({} if shares is None else dict(zip(PREDICTED, shares, strict=True))),
        "method": method_of(model),
        "model": model_of(model),
        "comparison": _compared(getattr(model, "comparison_", None)),
        "n_signals": _n_signals(model, table),
        "n_nodes": model.graph_.n_nodes,
        "n_edges": model.graph_.n_edges,
        "n_components": model.graph_.n_components(),
        **_chosen(model),
        "objective": float(model.objective_[-1]),
        "status": str(model.status_),
        "advice": model.status_.advice,
        "residual": model.residual_,
        "n_iter": model.n_iter_,
        "strongest_edges": strongest(model.graph_),
    }


def _n_signals(model: Any, table: SignalTable | ClusterTable) -> int:
    if table.values is not None:
        return len(table.values)
    return int(model.n_signals_) if isinstance(model, HeatCovariance) else len(model.sources_)


def _compared(comparison: ModelComparison | None) -> dict[str, Any] | None:
    """The comparison of the two models by the share of hidden variance that each missed."""
    if comparison is None:
        return None
    both = {name: dict(zip(SHARES, comparison.missed(name), strict=True)) for name in MODELS}
    return {
        "kept": comparison.kept,
        **both,
        "difference": comparison.difference,
        "difference_standard_error": comparison.difference_error,
        "log_error_ratio": comparison.log_ratio,
        "log_error_ratio_standard_error": comparison.log_ratio_error,
        "n_signals": int(comparison.n_signals),
    }


def _chosen(model: Any) -> dict[str, Any]:
    """The parameters that the fit used, and the sources where there are any."""
    chosen = {key: getattr(model, f"{key}_") for key in PARAMETERS if hasattr(model, f"{key}_")}
    if isinstance(model, HeatCovariance):
        chosen["scales"] = model.scales_.tolist()
        chosen["source_variances"] = model.source_variances_.tolist()
        chosen["noise_variance"] = model.noise_variance_
    if isinstance(model, LearnHeat):
        chosen["scales"] = model.scales_.tolist()
        if isinstance(model.sources_, np.ndarray):
            n_sources = np.count_nonzero(model.sources_)
            chosen["sources_per_signal"] = float(n_sources / len(model.sources_))
            heat = np.abs(model.sources_).sum(axis=(0, 2))
            chosen["share_of_heat"] = (heat / (heat.sum() or 1.0)).tolist()
        if getattr(model, "held_out_", None) is not None:
            chosen["chosen_at_end"] = list(model.chosen_at_end_)
    return chosen


def human(model: Any, table: SignalTable | ClusterTable) -> list[str | Table]:
    """A fit, for a reader: how well it predicts, which model, the edges, how it was fitted."""
    facts = summary_of(model, table)
    chosen = [f"{key} {facts[key]:.3g}" for key in PARAMETERS if key in facts]
    return [
        *([f"The graph {predicted}."] if (predicted := Predicted.of(model)) else []),
        *([str(model.comparison_)] if facts["comparison"] else []),
        _told_graph(facts, model),
        *([edge_table(facts["strongest_edges"][:5])] if facts["n_edges"] else []),
        *([f"Parameters: {', '.join(chosen)}."] if chosen else []),
        f"Status: {facts['status']} after {counted(facts['n_iter'], 'iteration')}, residual "
        f"{facts['residual']:.1e}. {facts['advice']}",
    ]


def _warn_of_prediction(model: Any, out: Output) -> None:
    predicted = Predicted.of(model)
    if predicted is not None and predicted.is_worse:
        out.warning(
            "hidden values are predicted better without this graph, by LedoitWolf, and by more "
            "than chance: fill gaps by that, and do not rely on an edge without looking at its "
            "confidence"
        )


def _warn_of_scales(model: Any, out: Output) -> None:
    chosen = _chosen(model)
    shares, scales = chosen.get("share_of_heat", []), chosen.get("scales", [])
    if len(shares) < 2 or model.n_scales == "auto" or model.scales is not None:
        return
    least = int(np.argmin(shares))
    if shares[least] < LITTLE:
        doubt = f"the scale {scales[least]:.3g} has {shares[least]:.0%} of the heat"
    elif any(b < CLOSE * a for a, b in pairwise(sorted(scales))):
        doubt = f"the scales {' and '.join(f'{tau:.3g}' for tau in scales)} are close together"
    else:
        return
    out.warning(
        f"{doubt}, and may be one too many: --n-scales 1 learns a single one, --n-scales auto "
        "chooses the number"
    )


def _told_graph(facts: dict[str, Any], model: Any) -> str:
    sources = ""
    if "scales" in facts:
        scales, each = facts["scales"], facts.get("sources_per_signal")
        found = "" if each is None else f"{each:.2g} sources each, "
        times = [f"{tau:.3g}" for tau in scales]
        if len(scales) > 1 and each is not None:
            shares = facts["share_of_heat"]
            times = [
                f"{tau} ({share:.0%} of the heat)" for tau, share in zip(times, shares, strict=True)
            ]
        sources = f", {found}at {'scale' if len(scales) == 1 else 'scales'} {', '.join(times)}"
    return (
        f"Learned a graph of {counted(facts['n_nodes'], 'node')} and "
        f"{counted(facts['n_edges'], 'edge')} from {counted(facts['n_signals'], 'signal')}"
        f"{sources}{_told_confidence(model)}."
    )


def _told_confidence(model: Any) -> str:
    """How many edges are nearly certain, where that was measured."""
    confidence = model.graph_.confidence
    if confidence is None or not np.isfinite(confidence).any():
        return ""
    how = "a p-value below" if isinstance(model, HeatCovariance) else "a confidence above"
    bound = 1.0 - SURE if isinstance(model, HeatCovariance) else SURE
    return f"; {counted(int(np.sum(confidence >= SURE)), 'edge')} with {how} {bound:.2g}"


def where(output: Path, table: SignalTable | ClusterTable) -> list[str]:
    """Where the results are, the page to look at, and what to do if it looks wrong."""
    lines = [f"Results are in {output}", *address_of(output)]
    if not isinstance(table, SignalTable):
        lines.append(
            f"There is no sources.csv and no {REPORT}: signals that Dask reads stay with its "
            "workers. heatgraph sources and heatgraph report make them of a single file."
        )
    lines.append(
        "If the graph looks wrong: heatgraph compare shows how other methods do on the same "
        "signals, and --n-edges or --cut keep more or fewer edges."
    )
    return lines


def _checked_places(places: pd.DataFrame | None, table: SignalTable | ClusterTable) -> Array | None:
    """The coordinates of the nodes in their order, or None where none are known."""
    if places is None:
        return None
    nodes = Graph(np.empty((0, 2)), [], n_nodes=table.n_nodes, names=table.names)
    return place(nodes, places, outlines=()).xy


def _candidates(text: str | None, table: SignalTable | ClusterTable) -> Any:
    if text is None:
        return None
    if text.isdecimal() and not Path(text).exists():
        return int(text)
    if not Path(text).exists():
        raise ValueError(
            f"--candidates must be a number of neighbours or a CSV file of pairs, and {text!r} is "
            "neither"
        )
    names = table.names or tuple(map(str, range(table.n_nodes)))
    pairs = read_pairs(Path(text), names)
    if table.names is None:
        return [(int(one), int(other)) for one, other in pairs]
    return pairs
