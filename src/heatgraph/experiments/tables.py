"""Tables 1 and 2: how well three methods recover graphs, from clean signals and from noisy ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np
import pandas as pd

from heatgraph.experiments.base import Outcome, Readings, Settings
from heatgraph.experiments.paper_fits import LEAST, MOST, learned_results, paper_results
from heatgraph.experiments.paper_settings import (
    N_NODES,
    QUICK_NODES,
    TABLES,
    decibels,
    grid,
    implied_density,
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
    draw_table,
    line_of_estimator,
    line_of_path,
    long_table,
)
from heatgraph.experiments.tables_page import NOISES, TITLES, page_of


@dataclass(frozen=True)
class Row:
    """A method under a protocol: how it is called, its cells, and its row in the paper."""

    label: str
    method: str
    oracle: bool
    paper: str


ROWS = (
    Row(PAPER, "paper", True, "heat"),
    Row(LEARNED, "paper, scales learned", True, "heat"),
    Row(OURS, "heat", True, "heat"),
    Row("LearnHeat()", "heat", False, "heat"),
    Row("templates, within ε", "templates", True, "templates"),
    Row("templates, penalised", "penalised", True, "templates"),
    Row("SpectralTemplates()", "templates", False, "templates"),
    Row("smooth", "smooth", True, "smooth"),
    Row("SmoothGraph()", "smooth", False, "smooth"),
)
# The other readings are told in F alone, by fewer rows; the paper's own words by the most.
SPOKEN = (PAPER, OURS, "LearnHeat()", "smooth")
OTHER_ROWS = tuple(row for row in ROWS if row.label in (OURS, "templates, within ε", "smooth"))


@dataclass(frozen=True)
class Block:
    """Rows on the graphs of one model, read in one way."""

    kind: str
    readings: Readings
    name: str
    rows: tuple[Row, ...]

    def n_graphs(self, settings: Settings) -> int:
        """On how many graphs; fewer in the other readings, where settings say so."""
        n = n_instances(settings)
        return min(n, settings.other_instances or n) if self.name else n

    def n_graphs_of(self, row: Row, settings: Settings) -> int:
        """On how many of them a row is; fewer where it takes long and settings say so."""
        asked = {
            PAPER: settings.paper_instances,
            LEARNED: settings.learned_instances,
            "LearnHeat()": settings.no_truth_instances,
        }
        n = self.n_graphs(settings)
        return min(n, asked.get(row.label) or n)

    def has(self, label: str) -> bool:
        """Whether one of its rows has this label."""
        return any(row.label == label for row in self.rows)

    def problems(self, settings: Settings, noisy: bool) -> list[Spec]:
        """Its graphs and signals."""
        return [
            problem(settings, self.kind, k, noisy=noisy, readings=self.readings)
            for k in range(self.n_graphs(settings))
        ]


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
    labels = SPOKEN if settings.paper_grid == "whole" else SPOKEN[1:]
    spoken = tuple(row for row in ROWS if row.label in labels)
    blocks = [Block("rbf", by_length, f"RBF edges kept by {rbf}", spoken)]
    for noise, name in NOISES.items() if noisy else ():
        if noise == readings.noise:
            continue
        rows = OTHER_ROWS if noise == "variance" else spoken
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
    """The results of all rows."""
    oracle: Found = {}
    free: Found = {}
    for block in blocks:
        specs = block.problems(settings, noisy)
        for row in (row for row in block.rows if row.label not in (PAPER, LEARNED)):
            for instance in range(block.n_graphs_of(row, settings)):
                cell: dict[str, Any] = {"problem": specs[instance], "method": row.method}
                if row.oracle:
                    cell["grid"] = grid(row.method, settings.quick)
                (oracle if row.oracle else free)[_key(block, row, instance)] = cell
    estimated = sweep(no_truth, list(free.values()), settings, "estimators as they come")
    tried = sweep(path, list(oracle.values()), settings, "grids, tuned by the truth")
    found = dict(zip(free, estimated, strict=True))
    for (key, cell), result in zip(oracle.items(), tried, strict=True):
        found[key] = {**result, "grid": cell["grid"]}
    return found | _of_the_paper(blocks, settings, noisy)


def _of_the_paper(blocks: Sequence[Block], settings: Settings, noisy: bool) -> Found:
    """The rows of the paper's own algorithm."""
    graphs = {block: block.problems(settings, noisy) for block in blocks if block.has(PAPER)}
    held = paper_results(graphs, settings)
    free = {block: specs for block, specs in graphs.items() if block.has(LEARNED)}
    learned = learned_results(free, held, settings)
    return {
        _key(block, row, instance): result
        for label, results in ((PAPER, held), (LEARNED, learned))
        for block, of_graphs in results.items()
        for row in block.rows
        if row.label == label
        for instance, result in enumerate(of_graphs)
    }


def _lines(
    block: Block, settings: Settings, name: str, found: Mapping[Key, dict[str, Any]]
) -> list[Line]:
    lines = []
    for row in block.rows:
        results = [found[_key(block, row, k)] for k in range(block.n_graphs_of(row, settings))]
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
        "best_outside_the_middle": _outside(found),
        "scales_learned": _scales_learned(lines, found),
        "density": {kind: _density(found, "", kind, settings) for kind in MODELS},
        "density_implied_by_the_paper": _implied(name),
    }
    if name == "table2":
        numbers["signal_to_noise_db"] = {
            kind: _decibels(found, "", kind, settings.readings) for kind in MODELS
        }
    return numbers


def _outside(found: Mapping[Key, dict[str, Any]]) -> float:
    """The best mean F of our solver at the rows that a screened grid leaves out."""
    best = 0.0
    for kind in MODELS:
        results = [c for key, c in found.items() if key[:3] == ("", f"heat {kind}", True)]
        f = np.mean([[scores[0] for scores in result["scores"]] for result in results], axis=0)
        middle = [LEAST < row[0] < MOST for row in results[0]["grid"]]
        best = max(best, float(np.max(f[~np.array(middle)], initial=0.0)))
    return best


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
