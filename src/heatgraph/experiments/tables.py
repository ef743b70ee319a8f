"""Tables 1 and 2: how well three methods recover graphs, from clean signals and from noisy ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np
import pandas as pd

from heatgraph.experiments.base import Outcome, Readings, Settings
from heatgraph.experiments.paper_settings import (
    N_NODES,
    QUICK_NODES,
    TABLES,
    decibels,
    grid,
    implied_density,
    n_free_instances,
    n_instances,
    problem,
)
from heatgraph.experiments.sweep import sweep
from heatgraph.experiments.synthetic_runs import MODELS, Spec, no_truth, path
from heatgraph.experiments.table_rows import (
    LEARNED,
    OURS,
    PAPER,
    Line,
    best_rows,
    draw_table,
    line_of_estimator,
    line_of_path,
    long_table,
)
from heatgraph.experiments.tables_page import NOISES, TITLES, page_of

KEPT = 3  # rows of a grid


@dataclass(frozen=True)
class Row:
    """A method under a protocol: how it is called, its cells, and its row in the paper.

    With ``leader``, the label of another row, only the `KEPT` best rows of that one's grid are
    tried: a fit of the paper's algorithm takes half a second.
    """

    label: str
    method: str
    oracle: bool
    paper: str
    leader: str = ""


ROWS = (
    Row(PAPER, "paper", True, "heat"),
    Row(LEARNED, "paper, scales learned", True, "heat", PAPER),
    Row(OURS, "heat", True, "heat"),
    Row("LearnHeat()", "heat", False, "heat"),
    Row("templates, within ε", "templates", True, "templates"),
    Row("templates, penalised", "penalised", True, "templates"),
    Row("SpectralTemplates()", "templates", False, "templates"),
    Row("smooth", "smooth", True, "smooth"),
    Row("SmoothGraph()", "smooth", False, "smooth"),
)
# The other readings are reported by F alone and with fewer rows; the paper's literal one with most.
SPOKEN = (
    replace(ROWS[0], leader=OURS),
    *(row for row in ROWS if row.label in (OURS, "LearnHeat()", "smooth")),
)
OTHER_ROWS = tuple(row for row in ROWS if row.label in (OURS, "templates, within ε", "smooth"))


@dataclass(frozen=True)
class Block:
    """Rows on the graphs of one model, read in one way."""

    kind: str
    readings: Readings
    name: str
    rows: tuple[Row, ...]

    def problems(self, settings: Settings, noisy: bool) -> list[Spec]:
        """Its graphs and signals."""
        return [
            problem(settings, self.kind, k, noisy=noisy, readings=self.readings)
            for k in range(n_instances(settings))
        ]


def _n_graphs(row: Row, settings: Settings) -> int:
    """On how many graphs a row is; fewer where it takes long and settings say so."""
    free = row.label == "LearnHeat()"
    return n_free_instances(settings) if free else n_instances(settings)


def run(name: str, settings: Settings) -> Outcome:
    """Measure all rows, and those of the other readings."""
    noisy = name == "table2"
    blocks = [Block(kind, settings.readings, "", ROWS) for kind in MODELS]
    others = _other_readings(settings, noisy)
    found = _measured([*blocks, *others], settings, noisy)

    lines = [line for block in blocks for line in _lines(block, settings, name, found)]
    other_lines = [(b, line) for b in others for line in _lines(b, settings, name, found)]
    numbers = _numbers(name, lines, found, settings)
    numbers["other_readings"] = _other_rows(other_lines, found, settings, noisy)
    tables = {name: long_table(lines), "other_readings": pd.DataFrame(numbers["other_readings"])}
    figure = draw_table(lines, TITLES[name])
    page = page_of(name, settings, lines, numbers)
    return Outcome(name, TITLES[name], tables, numbers, {name: figure}, page)


def _other_readings(settings: Settings, noisy: bool) -> list[Block]:
    """Each ambiguity read in the other ways, where it matters."""
    readings = settings.readings
    rbf = "distance" if readings.rbf == "weight" else "weight"
    by_length = replace(readings, rbf=rbf)
    blocks = [Block("rbf", by_length, f"RBF edges kept by {rbf}", SPOKEN)]
    for noise, name in NOISES.items() if noisy else ():
        if noise == readings.noise:
            continue
        rows = OTHER_ROWS if noise == "variance" else SPOKEN
        blocks += [Block(kind, replace(readings, noise=noise), name, rows) for kind in MODELS]
        if noise == "13dB":
            both = f"{name}, RBF edges kept by {rbf}"
            blocks.append(Block("rbf", replace(by_length, noise=noise), both, rows))
    ba = 3 - readings.ba
    name = f"BA with {ba} {'edge' if ba == 1 else 'edges'} for each new node"
    return [*blocks, Block("ba", replace(readings, ba=ba), name, OTHER_ROWS)]


Key = tuple[str, str, bool, int]  # reading, method and model, whether an oracle, instance
Found = dict[Key, dict[str, Any]]


def _key(block: Block, row: Row, instance: int) -> Key:
    return block.name, f"{row.method} {block.kind}", row.oracle, instance


def _measured(blocks: Sequence[Block], settings: Settings, noisy: bool) -> Found:
    """The results of all rows; those with a leader come last."""
    cells: Found = {}
    led: list[tuple[Block, Row]] = []
    for block in blocks:
        for row in block.rows:
            if row.leader:
                led.append((block, row))
            else:
                tried = grid(row.method, settings.quick) if row.oracle else None
                cells |= _cells(block, row, settings, noisy, tried)
    found = _swept(cells, settings)
    cells = {}
    for block, row in led:
        leader = next(other for other in block.rows if other.label == row.leader)
        results = [found[_key(block, leader, k)] for k in range(n_instances(settings))]
        tried = [results[0]["grid"][k] for k in best_rows(results, KEPT)]
        cells |= _cells(block, row, settings, noisy, tried)
    return found | _swept(cells, settings)


def _cells(
    block: Block, row: Row, settings: Settings, noisy: bool, tried: Sequence[Any] | None
) -> Found:
    """What a row of a block is computed from; ``tried`` are rows of a grid, for an oracle."""
    specs = block.problems(settings, noisy)[: _n_graphs(row, settings)]
    on_grid = {} if tried is None else {"grid": tried}
    return {
        _key(block, row, k): {"problem": spec, "method": row.method, **on_grid}
        for k, spec in enumerate(specs)
    }


def _swept(cells: Found, settings: Settings) -> Found:
    """The results of cells, with the grids that they were run on."""
    found: Found = {}
    tasks = ((no_truth, False, "estimators as they come"), (path, True, "grids, by the truth"))
    for function, oracle, text in tasks:
        some = {key: cell for key, cell in cells.items() if key[2] == oracle}
        results = sweep(function, list(some.values()), settings, text)
        for (key, cell), result in zip(some.items(), results, strict=True):
            found[key] = {**result, "grid": cell.get("grid")}
    return found


def _lines(
    block: Block, settings: Settings, name: str, found: Mapping[Key, dict[str, Any]]
) -> list[Line]:
    lines = []
    for row in block.rows:
        results = [found[_key(block, row, k)] for k in range(_n_graphs(row, settings))]
        paper = TABLES[name][block.kind, row.paper]
        if row.oracle:
            tried = results[0]["grid"]
            lines.append(line_of_path(block.kind, row.label, results, tried, paper))
        else:
            lines.append(line_of_estimator(block.kind, row.label, results, paper))
    return lines


def _numbers(
    name: str, lines: Sequence[Line], found: Mapping[Key, dict[str, Any]], settings: Settings
) -> dict[str, Any]:
    f: dict[str, dict[str, float]] = {}
    graphs: dict[str, dict[str, int]] = {}
    for line in lines:
        f.setdefault(f"{line.method}, {line.protocol}", {})[line.graph] = line.mean.f_measure
        graphs.setdefault(f"{line.method}, {line.protocol}", {})[line.graph] = len(line.scores)
    heat = [line for line in lines if line.method in (PAPER, LEARNED, OURS)]
    numbers: dict[str, Any] = {
        "mean_f_measure": f,
        "graphs": graphs,
        "paper_f_measure": {
            f"{kind}, {method}": scores.f_measure for (kind, method), scores in TABLES[name].items()
        },
        "instances": n_instances(settings),
        "best_for_each_graph": {f"{x.method}, {x.graph}": x.own for x in heat},
        "parameters": {f"{x.method}, {x.graph}": x.parameters for x in heat},
        "grid_points_converged": {
            row.label: _converged(found, row.method)
            for row in ROWS
            if row.label in (PAPER, LEARNED, OURS)
        },
        "rows_of_the_grid": {line.method: line.tried for line in heat},
        "scales_learned": _scales_learned(lines, found),
        "density": {kind: _density(found, "", kind, settings) for kind in MODELS},
        "density_implied_by_the_paper": _implied(name),
    }
    if name == "table2":
        numbers["signal_to_noise_db"] = {
            kind: _decibels(found, "", kind, settings.readings) for kind in MODELS
        }
    return numbers


def _implied(name: str) -> dict[str, list[float]]:
    """The least and the largest density that the rows of a model in the paper's table imply."""
    densities = {
        kind: [implied_density(s) for (k, _), s in TABLES[name].items() if k == kind]
        for kind in MODELS
    }
    return {kind: [min(d), max(d)] for kind, d in densities.items()}


def _converged(found: Mapping[Key, dict[str, Any]], method: str) -> float:
    """The share of the grid points of a method at which its solver converged."""
    ends = [
        status
        for key, cell in found.items()
        if key[0] == "" and key[1] in [f"{method} {kind}" for kind in MODELS] and key[2]
        for status in cell["statuses"]
    ]
    return ends.count("converged") / len(ends)


def _scales_learned(
    lines: Sequence[Line], found: Mapping[Key, dict[str, Any]]
) -> dict[str, list[float]]:
    """The mean of the scales that the paper's algorithm ends with, at its best row of the grid."""
    result = {}
    for line in lines:
        if line.method == LEARNED and line.row is not None:
            cells = [
                cell
                for key, cell in found.items()
                if key[:3] == ("", f"paper, scales learned {line.graph}", True)
            ]
            result[line.graph] = np.mean([c["scales"][line.row] for c in cells], axis=0).tolist()
    return result


def _of_our_solver(found: Mapping[Key, dict[str, Any]], reading: str, kind: str, what: str) -> Any:
    """What the cells of our solver say of the graphs of a model, read in one way."""
    return [c[what] for key, c in found.items() if key[:3] == (reading, f"heat {kind}", True)]


def _decibels(
    found: Mapping[Key, dict[str, Any]], reading: str, kind: str, readings: Readings
) -> float:
    """The power of the signals without the noise over that of the noise."""
    return decibels(float(np.mean(_of_our_solver(found, reading, kind, "power"))), readings)


def _density(
    found: Mapping[Key, dict[str, Any]], reading: str, kind: str, settings: Settings
) -> float:
    """The share of the pairs that are edges, in the mean over the graphs."""
    n_nodes = QUICK_NODES if settings.quick else N_NODES
    return float(np.mean(_of_our_solver(found, reading, kind, "n_true"))) / comb(n_nodes, 2)


def _other_rows(
    lines: Sequence[tuple[Block, Line]],
    found: Mapping[Key, dict[str, Any]],
    settings: Settings,
    noisy: bool,
) -> list[dict[str, Any]]:
    return [
        {
            "reading": block.name,
            "graph": line.graph,
            "method": line.method,
            "protocol": line.protocol,
            "f_measure": line.mean.f_measure,
            "std": line.std.f_measure,
            "paper": None if line.paper is None else line.paper.f_measure,
            "instances": len(line.scores),
            "density": _density(found, block.name, block.kind, settings),
            "signal_to_noise_db": (
                _decibels(found, block.name, block.kind, block.readings) if noisy else None
            ),
        }
        for block, line in lines
    ]
