"""The tables, the summary and the pictures of ``make bench-real``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.real_data import makers
from benchmarks.real_methods import METHODS
from benchmarks.real_score import HIDINGS, SIZES
from heatgraph.experiments.base import COLOURS, plain

OURS = "HeatCovariance"
VARIANTS = (OURS, "HeatCovariance-auto")  # with the heat kernel, and with one that is chosen
RIVALS = ("LedoitWolf", "OAS", "GraphicalLassoCV", "KNNImputer", "IterativeImputer")
FIGURES = ("AP", "F", "seconds")
PANELS = 5  # of a picture, side by side
GREY = "0.75"
WORST = 2.0  # of a picture: the mean of each node misses 1
ROUNDING = 1e-9  # two AP that differ by less are equal

Row = dict[str, Any]


def line(cell: Row) -> str:
    """A finished cell, in a line."""
    name = f"{cell['data']} {cell['size']} seed {cell['seed']} {cell['method']}"
    figures = [f"{h} {cell[h]['missed']:.4f}" for h in HIDINGS if h in cell]
    figures += [f"{f} {cell[f]:.3f}" for f in FIGURES if f in cell]
    return f"{name}: {', '.join([*figures, cell['status']])}"


def rows_of(cells: Iterable[Row]) -> list[Row]:
    """Means over seeds, a row for each data set, size and method.

    The standard error of what is missed is that over test signals or over seeds, the larger.
    """
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for cell in cells:
        groups.setdefault((cell["data"], cell["size"], cell["method"]), []).append(cell)
    return [_row(key, group) for key, group in groups.items()]


def _row(key: tuple[str, str, str], cells: list[Row]) -> Row:
    row: Row = dict(zip(("data", "size", "method"), key, strict=True))
    row["status"] = "; ".join(sorted({cell["status"] for cell in cells}))
    done = [cell for cell in cells if "seconds" in cell]
    row["seeds"], row["of"] = len(done), len(cells)
    row["n_train"] = cells[0].get("n_train")
    # A mean over some of the seeds is no match for one over all.
    if len(done) < len(cells):
        return row
    for figure in FIGURES:
        if figure in done[0]:
            row[figure] = float(np.mean([cell[figure] for cell in done]))
    for hiding in HIDINGS:
        if all(hiding in cell for cell in done):
            shares = np.array([cell[hiding]["missed"] for cell in done])
            within = math.hypot(*(cell[hiding]["error"] for cell in done)) / len(done)
            between = shares.std(ddof=1) / math.sqrt(len(done)) if len(done) > 1 else 0.0
            row[hiding] = {"missed": float(shares.mean()), "error": float(max(within, between))}
    return row


def by_problem(rows: Iterable[Row]) -> dict[tuple[str, str], dict[str, Row]]:
    """The rows of each data set and size, by method, in the order of the tables."""
    sets, order = list(makers()), list(METHODS)

    def place(row: Row) -> tuple[int, int, int]:
        return sets.index(row["data"]), SIZES.index(row["size"]), order.index(row["method"])

    problems: dict[tuple[str, str], dict[str, Row]] = {}
    for row in sorted(rows, key=place):
        problems.setdefault((row["data"], row["size"]), {})[row["method"]] = row
    return problems


def tables(rows: Iterable[Row], told: dict[str, str]) -> str:
    """A Markdown table a data set and size."""
    problems = by_problem(rows)
    parts = []
    for name, provenance in told.items():
        parts.append(f"### {name}\n\n{provenance[0].upper()}{provenance[1:]}.\n")
        for (data, size), methods in problems.items():
            if data == name:
                n = next((r["n_train"] for r in methods.values() if r["n_train"]), "?")
                parts.append(_table(f"{size} signals: {n}", methods))
    return "\n".join(parts)


def _table(title: str, methods: dict[str, Row]) -> str:
    lines = [
        f"| {title} | missed, random | missed, block | AP | F | seconds | status |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in methods.items():
        missed = [_pair(row.get(hiding)) for hiding in HIDINGS]
        figures = [_number(row.get(f), f"{{:.{2 if f == 'seconds' else 3}f}}") for f in FIGURES]
        lines.append("| " + " | ".join([name, *missed, *figures, row["status"]]) + " |")
    return "\n".join(lines) + "\n"


def _pair(value: dict[str, float] | None) -> str:
    return "" if value is None else f"{value['missed']:.4f} ± {value['error']:.4f}"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _geometric(values: list[float]) -> float | None:
    return float(np.exp(np.mean(np.log(values)))) if values else None


def summary(rows: Iterable[Row], variant: str = OURS) -> dict[str, Any]:
    """How a variant stands; a row of the comparison is a data set, a size and a hiding."""
    rest = set(VARIANTS) - {variant}
    problems = [
        {m: row for m, row in p.items() if m not in rest}
        for p in by_problem(rows).values()
        if "seconds" in p.get(variant, {})
    ]
    against = {"best": [], **{rival: [] for rival in RIVALS}}
    least = 0
    for methods in problems:
        for hiding in HIDINGS:
            ours = methods[variant][hiding]
            others = {
                m: methods[m][hiding]["missed"] for m in RIVALS if hiding in methods.get(m, {})
            }
            for rival, value in others.items():
                against[rival].append(ours["missed"] / value)
            against["best"].append(ours["missed"] / min(others.values(), default=math.nan))
            every = [
                r[hiding]["missed"] for m, r in methods.items() if m != variant and hiding in r
            ]
            least += ours["missed"] - ours["error"] <= min(every, default=math.inf)
    return {
        "of": variant,
        "rows": len(problems) * len(HIDINGS),
        "ratio_to": {name: _geometric(ratios) for name, ratios in against.items()},
        "least_missed_within_error": int(least),
        **_highest(problems, variant),
        "seconds_over_GraphicalLassoCV": _geometric(
            [
                p[variant]["seconds"] / p["GraphicalLassoCV"]["seconds"]
                for p in problems
                if "seconds" in p.get("GraphicalLassoCV", {})
            ]
        ),
    }


def _highest(problems: list[dict[str, Row]], variant: str) -> dict[str, int]:
    """Of the networks that are known, on how many no other method has a higher AP."""
    known = [{m: r["AP"] for m, r in p.items() if "AP" in r} for p in problems]
    known = [p for p in known if variant in p]
    wins = sum(p[variant] > max(p.values()) - ROUNDING for p in known)
    return {"AP_rows": len(known), "AP_wins": wins}


def summary_text(numbers: dict[str, Any]) -> str:
    if not numbers["rows"]:
        return f"{numbers['of']} has no finished row: there is nothing to sum up."
    ratio, n = numbers["ratio_to"], numbers["rows"]
    lines = [
        f"{numbers['of']} misses, in the geometric mean of {n} rows,",
        *(f"- {_number(value, '{:.3f}')} of what {name} misses," for name, value in ratio.items()),
        f"and the least of all methods, within a standard error, in "
        f"{numbers['least_missed_within_error']} of {n} rows.",
        f"It has the highest AP in {numbers['AP_wins']} of {numbers['AP_rows']}, and takes "
        f"{_number(numbers['seconds_over_GraphicalLassoCV'], '{:.2g}')} of the time of "
        "GraphicalLassoCV.",
    ]
    return "\n".join(lines).replace("what best misses", "what the best of these misses")


def pictures(rows: list[Row]) -> dict[str, Figure]:
    """What each method missed, and its AP, on every data set."""
    drawn = {
        f"missed-{hiding}": _missed_picture(rows, hiding)
        for hiding in HIDINGS
        if any(hiding in row for row in rows)
    }
    if any("AP" in row for row in rows):
        drawn["ap"] = _picture(rows, "average precision of the weights", lambda r: r.get("AP"))
    return drawn


def _missed_picture(rows: list[Row], hiding: str) -> Figure:
    where = "at random" if hiding == "random" else "in blocks"
    title = f"share of the hidden entries' energy missed, a fifth hidden {where}"
    return _picture(rows, title, lambda r: r.get(hiding, {}).get("missed"), log=True)


def _picture(rows: list[Row], title: str, value_of, log: bool = False) -> Figure:
    """A panel for each method: its values on every data set, over those of all methods in grey."""
    problems = by_problem(r for r in rows if value_of(r) is not None)
    labels = list(problems)
    dots = {
        method: [
            (value_of(problems[problem][method]), y)
            for y, problem in enumerate(labels)
            if method in problems[problem]
        ]
        for method in METHODS
    }
    drawn = {method: np.array(at).T for method, at in dots.items() if at}
    every = np.concatenate(list(drawn.values()), axis=1)
    n_rows = math.ceil(len(drawn) / PANELS)
    height = 0.9 + n_rows * (0.45 + 0.16 * len(labels))
    figure = Figure(figsize=(2.4 * PANELS, height), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(n_rows, PANELS, sharex=True, sharey=True, squeeze=False)
    for ax, (method, own) in zip(grid.flat, drawn.items(), strict=False):
        ax.plot(*every, "|", color=GREY, markersize=7, zorder=2)
        ax.plot(*own, "o", color=COLOURS[method in VARIANTS], markersize=5, zorder=3)
        ax.set_title(method, loc="left", fontsize="medium")
        plain(ax)
        ax.tick_params(labelsize="small")
    first = grid[0, 0]
    first.set_yticks(range(len(labels)), [f"{data}, {size}" for data, size in labels])
    first.invert_yaxis()
    if log:
        first.set_xscale("log")
    worst = every[0].max() > WORST
    if worst:
        first.set_xlim(right=WORST)
    for ax in grid.flat[len(drawn) :]:
        ax.set_visible(False)
    beyond = f"; more than {WORST:g} is not shown" if worst else ""
    figure.supxlabel(f"{title} (grey: every method{beyond})", fontsize="medium")
    return figure
