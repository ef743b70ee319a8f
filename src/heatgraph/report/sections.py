"""The parts of the page below the graph: pictures with their tables, each under a title."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from heatgraph.estimators.comparison import ESTIMATOR_OF, ModelComparison
from heatgraph.plotting.curves import chosen_row, chosen_strength, chosen_stretch, n_chosen
from heatgraph.report.gaussian import p_value
from heatgraph.report.markup import paragraphs, table
from heatgraph.report.page_data import Content

__all__ = ["sections"]

MAX_EDGES = 500  # rows of a table
PICTURES = {
    "reach": (
        "How far heat spreads",
        "One unit of heat is released at a node: what arrives how many edges away, on average, "
        "for each diffusion time that was learned. The bands hold four fifths of the nodes.",
    ),
    "convergence": (
        "Convergence",
        "How far the objective was above its best, step by step.",
    ),
    "selection": (
        "How the parameters were chosen",
        "Signals were held out. The likelier they are under the covariance of the graph and the "
        "diffusion times learned from the others, the better; on large graphs, the less of their "
        "hidden values is missed. Chosen is the sparsest choice within one standard error of the "
        "best. Diffusion times are then multiplied, where that is better.",
    ),
}
ROUNDS = "It falls steeply where the penalty of a new round is less on strong sources."
LIKELIHOOD = (
    "Blocks of signals were held out. The likelier they are under the model of the others, the "
    "better. Shrinkage draws the covariance towards that of nodes without ties; the penalty is how "
    "many standard errors a weight has to be from zero. A penalty that is then left out chose the "
    "edges, and their weights were fitted without it. Bars are standard errors over "
    "the blocks."
)
COMPARISON = (
    "Two models were fitted on the same blocks of signals: a sparse one, with heat released at a "
    "few nodes, and a Gaussian one, with heat released everywhere. A fifth of the values of the "
    "signals held out was hidden from both. Missed is the share of their variance that was not "
    "predicted; 1 is no better than the mean of each node."
)
CONFIDENCE = (
    "The p-value is the chance of so large a weight if there were no such edge, given the other "
    "edges. Of pairs without an edge, 5% have a p-value below 0.05."
)
GAPS = (
    "Values that were not observed, by their mean given what was observed of the same signal; the "
    "interval holds the true value with a probability of 95%."
)


def sections(model: Any, content: Content, drawn: Sequence[str]) -> str:
    """Pictures that were drawn and tables that there are, in HTML."""
    parts = []
    for name, (title, hint) in PICTURES.items():
        if name in drawn:
            picture = f'<div id="{name}" class="picture" role="img" aria-label="{title}"></div>'
            more = _selection_table(model, content) if name == "selection" else ""
            parts.append(_section(name, title, _hint(name, hint, content), picture + more))
    comparison = getattr(model, "comparison_", None)
    if comparison is not None:
        parts.insert(0, _section("comparison", "Which model", COMPARISON, _compared(comparison)))
    if content.gaussian and content.edges.confidence is not None:
        parts.append(_section("edges", "Edges by confidence", CONFIDENCE, _edges(content)))
    if content.gaps and content.shown is not None:
        parts.append(_section("gaps", "Missing values", GAPS, _gaps(content)))
    return "\n".join(parts)


def _section(name: str, title: str, hint: str, inner: str) -> str:
    return (
        f'<section aria-labelledby="{name}-title"><h2 id="{name}-title">{title}</h2>'
        f"{paragraphs([hint], 'hint')}{inner}</section>"
    )


def _hint(name: str, usual: str, content: Content) -> str:
    if name == "selection" and content.gaussian:
        return LIKELIHOOD
    return f"{usual} {ROUNDS}" if name == "convergence" and not content.gaussian else usual


def _compared(comparison: ModelComparison) -> str:
    rows = []
    for name in ("sparse", "gaussian"):
        missed, error = comparison.missed(name)
        known = [f"{missed:.4f}", f"{error:.4f}"] if np.isfinite(missed) else ["not compared", ""]
        kept = "kept" if name == comparison.kept else ""
        rows.append([f"{name} ({ESTIMATOR_OF[name]})", *known, kept])
    if comparison.is_complete:
        paired = f"{comparison.difference:+.4f}", f"{comparison.difference_error:.4f}"
        rows.append(["difference, signal by signal", *paired, ""])
    if np.isfinite(comparison.no_graph):
        rows.append(["no graph (LedoitWolf)", f"{comparison.no_graph:.4f}", "", ""])
    chosen = 0 if comparison.kept == "sparse" else 1
    return table(["model", "missed", "standard error", ""], rows, chosen)


def _edges(content: Content) -> str:
    """The edges of the graph, those with the smallest p-values first."""
    edges = content.edges
    confidence = edges.confidence if edges.confidence is not None else np.empty(0)
    tested = np.flatnonzero(np.isfinite(confidence))
    order = tested[np.lexsort((-edges.weights[tested], -confidence[tested]))]
    rows = [
        [
            content.names[edges.pairs[k, 0]],
            content.names[edges.pairs[k, 1]],
            f"{edges.weights[k]:.3g}",
            p_value(float(confidence[k])),
        ]
        for k in order[:MAX_EDGES].tolist()
    ]
    left = len(order) - len(rows)
    more = paragraphs([f"… and {left} more with larger p-values."] if left else [], "hint")
    return _scrolled(table(["from", "to", "weight", "p-value"], rows)) + more


def _gaps(content: Content) -> str:
    shown = content.shown
    by_row = {} if shown is None else dict(zip(shown.rows.tolist(), shown.labels, strict=True))
    rows = [
        [
            by_row.get(gap.signal, f"signal {gap.signal + 1}"),
            content.names[gap.node],
            f"{gap.mean:.4g}",
            f"{gap.low:.4g} to {gap.high:.4g}",
        ]
        for gap in content.gaps
    ]
    left = content.n_gaps - len(rows)
    told = f"… and {left} more, which heatgraph impute fills as well."
    more = paragraphs([told] if left else [], "hint")
    return _scrolled(table(["signal", "node", "mean", "95% interval"], rows)) + more


def _selection_table(model: Any, content: Content) -> str:
    tried: pd.DataFrame = model.selection_
    told = f"All {len(tried)} that were tried"
    if content.gaussian:
        row = chosen_strength(tried, model.shrinkage_, model.penalty_, model.relaxed_)
        return _tried(tried, row, told)
    tables = _tried(tried, chosen_row(tried, model.alpha_, model.beta_, n_chosen(model)), told)
    then: pd.DataFrame | None = getattr(model, "stretches_", None)
    if then is not None:
        found = chosen_stretch(then, model.scales_[-1], model.beta_)
        tables += _tried(then, found, f"All {len(then)} stretches of the diffusion times")
    return tables


def _tried(tried: pd.DataFrame, chosen: int | None, summary: str) -> str:
    rows = [
        [f"{value:.3g}" if np.isfinite(value) else "" for value in row]
        for row in tried.to_numpy(dtype=np.float64).tolist()
    ]
    for k, row in enumerate(rows):
        row.append("chosen" if k == chosen else "")
    heads = [str(column).replace("_", " ") for column in tried.columns]
    inner = _scrolled(table([*heads, ""], rows, chosen))
    return f"<details><summary>{summary}</summary>{inner}</details>"


def _scrolled(inner: str) -> str:
    return f'<div class="scroll" tabindex="0">{inner}</div>'
