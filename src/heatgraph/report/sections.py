"""The sections of the page, and the sentences in them."""

from __future__ import annotations

import platform
from collections.abc import Callable
from datetime import date
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from heatgraph.estimators.hidden import ESTIMATOR_OF, ModelComparison, Predicted
from heatgraph.graph import Graph
from heatgraph.plotting.curves import (
    chosen,
    chosen_row,
    chosen_stretch,
    labelled,
    n_chosen,
    plot_choice,
    plot_convergence,
)
from heatgraph.plotting.style import MARKERS, SEQUENCE
from heatgraph.report.canvas import paragraphs, still_picture, table
from heatgraph.report.page_data import Content
from heatgraph.report.shown_signals import p_value
from heatgraph.solvers.result import Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLLAPSED = 1e-2  # a scale below this moves no heat
POOR = 0.5  # a fit that explains less of the signals than this is mentioned
# What a fit may have chosen.
RESULTS = ("alpha_", "beta_", "shrinkage_", "penalty_", "eps_", "noise_variance_", "cut_")


def lead(model: Any, content: Content) -> str:
    """The model in a sentence or two."""
    graph = content.graph
    kind = "directed edge" if graph.directed else "edge"
    text = f"{_count(graph.n_nodes, 'node')} and {_count(graph.n_edges, kind)}"
    components = graph.n_components()
    text += " in one piece" if components == 1 else f" in {components} separate pieces"
    if isinstance(model, Graph):
        return f"A graph of {text}."
    text = f"A graph of {text}, learned by {type(model).__name__}"
    sources = getattr(model, "sources_", None)
    n_signals = int(getattr(model, "n_signals_", 0 if sources is None else sources.shape[0]))
    if n_signals:
        text += f" from {_count(n_signals, 'signal')}"
    known = Predicted.of(model)
    return f"{text}." if known is None else f"{text}. It {known}."


def story(content: Content) -> str:
    """What the model says happened, for a reader who has not met it."""
    if content.scales is None:
        return ""
    times = _list([f"{tau:.3g}" for tau in content.scales])
    which = f"the time {times}" if content.scales.size == 1 else f"one of the times {times}"
    if content.everywhere:
        noise = ", with noise" if content.gaussian else ""
        return (
            "In its words: heat was released at every node, at random, and spread along the edges, "
            f"faster along heavy ones, for {which}; then it was measured at the nodes{noise}."
        )
    return (
        "In its words: heat started at a few nodes, the sources, and spread along the edges, "
        f"faster along heavy ones, for {which}; then it was measured at the nodes."
    )


def cautions(model: Any, content: Content) -> list[str]:
    """What the reader has to know before believing the page."""
    found = []
    status = getattr(model, "status_", Status.CONVERGED)
    if status not in (Status.CONVERGED, Status.CERTIFIED):
        found.append(f"The fit ended as “{status}”. {status.advice.replace('`', '')}")
    selection = getattr(model, "selection_", None)
    if getattr(model, "stretches_", None) is not None:
        selection = model.stretches_
    if selection is not None and len(selection) and "missed" in selection:
        best = selection.loc[selection["missed"].idxmin()]
        if best["missed"] + 2.0 * best["standard_error"] >= 1.0:
            found.append(
                "No parameters predicted hidden values better than zero does: these signals show "
                "no diffusion on a graph. Do not trust the edges."
            )
    if content.scales is not None and content.scales.min() < COLLAPSED:
        found.append(
            "A scale fell to zero, where heat stays at one node and any signal is explained "
            "without a graph."
        )
    comparison = getattr(model, "comparison_", None)
    if comparison is not None and comparison.is_complete:
        missed, error = comparison.missed(comparison.kept)
        if missed + 2.0 * error >= 1.0:
            found.append(
                "Neither model predicted hidden values better than the mean of each node does: "
                "these signals show no diffusion on a graph. Do not trust the edges."
            )
    alone = np.flatnonzero(content.graph.degrees() == 0)
    if alone.size and content.graph.n_nodes > 1:
        names = [content.names[k] for k in alone[:5]]
        more = f" and {alone.size - 5} more" if alone.size > 5 else ""
        found.append(f"Without an edge: {', '.join(names)}{more}.")
    shown = content.shown
    if shown is not None and shown.explained is not None:
        typical = float(np.median(shown.explained))
        if typical < POOR:
            share = f"less than {typical:.0%}" if typical >= 0.01 else "nothing"
            found.append(f"In half of the signals shown, the model explains {share} of the energy.")
    return found


def omissions(content: Content) -> list[str]:
    """What the page leaves out to stay small, and how to see it."""
    found = []
    edges, shown = content.edges, content.shown
    if len(edges.pairs) < edges.n_learned:
        missing = edges.n_learned - len(edges.pairs)
        found.append(
            f"Of {edges.n_learned:,} learned edges the {len(edges.pairs):,} heaviest are in this "
            f"page, so that it opens quickly; {missing:,} lighter ones are left out, and pieces "
            "are counted without them."
        )
    if shown is not None and len(shown.labels) < shown.n_signals:
        found.append(
            f"Of {shown.n_signals:,} signals {len(shown.labels):,}, evenly spaced, are in this "
            "page. Pass fewer to choose which."
        )
    if shown is not None and shown.values is None:
        found.append(
            "The signals were not given, so the page shows what their sources diffuse into, as "
            "the model has it. Pass the signals to see how well that fits."
        )
    return found


Rows = list[tuple[str, str]]


def what_was_run(model: Any, content: Content) -> Rows:
    """The method, what was given, what came of it, and by which versions."""
    rows = [("method", "a given graph" if isinstance(model, Graph) else type(model).__name__)]
    if not isinstance(model, Graph):
        usual = type(model)().get_params(deep=False)
        rows += [
            (f"{key}, given", _short(value))
            for key, value in model.get_params(deep=False).items()
            if key != "verbose" and not _same(value, usual[key])
        ]
        rows += [
            (f"{k[:-1].replace('_', ' ')}, used", _short(getattr(model, k)))
            for k in RESULTS
            if hasattr(model, k)
        ]
        if content.scales is not None:
            rows.append(("scales, used", _list([f"{tau:.4g}" for tau in content.scales])))
        if content.gaussian:
            variances = [f"{variance:.4g}" for variance in model.source_variances_]
            rows.append(("source variances, used", _list(variances)))
        rows += [
            ("status", str(model.status_)),
            ("iterations", str(model.n_iter_)),
            ("residual", f"{model.residual_:.2g}"),
        ]
    return [
        *rows,
        ("heatgraph", version("heatgraph")),
        ("Python", platform.python_version()),
        ("page written", date.today().isoformat()),
    ]


def parameters(model: Any) -> Rows:
    """Every parameter of the estimator, the usual ones too."""
    if isinstance(model, Graph):
        return []
    return [(key, _short(value)) for key, value in model.get_params(deep=False).items()]


def _same(value: Any, other: Any) -> bool:
    plain = value is None or isinstance(value, (int, float, str))
    return plain and type(value) is type(other) and bool(value == other)


def _short(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.4g}"
    if isinstance(value, Graph):
        return f"a graph of {_count(value.n_edges, 'edge')}"
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def _list(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _count(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


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
    "predicted; 1 is no better than the mean of each node. A few signals can hold most of what is "
    "missed, so the model is kept by the logarithm of the ratio of the two squared errors, in the "
    "mean over signals: below 0, the sparse model predicts a typical signal better."
)
CONFIDENCE = (
    "The p-value is the chance of so large a weight if there were no such edge, given the other "
    "edges. Of pairs without an edge, 5% have a p-value below 0.05. Where each signal resembles "
    "the one before, as in a time series, they count as fewer independent ones."
)
GAPS = (
    "Values that were not observed, by their mean given what was observed of the same signal; the "
    "interval holds the true value with a probability of 95%."
)


def sections(model: Any, content: Content) -> str:
    """Pictures and tables of what is known of the model, in HTML."""
    parts = []
    for name, draw in _pictures(model, content).items():
        title, hint = PICTURES[name]
        more = _selection_table(model, content) if name == "selection" else ""
        picture = still_picture(title, draw)
        parts.append(_section(name, title, _hint(name, hint, content), picture + more))
    comparison = getattr(model, "comparison_", None)
    if comparison is not None:
        parts.insert(0, _section("comparison", "Which model", COMPARISON, _compared(comparison)))
    if content.gaussian and content.edges.confidence is not None:
        parts.append(_section("edges", "Edges by confidence", CONFIDENCE, _edges(content)))
    if content.gaps and content.shown is not None:
        parts.append(_section("gaps", "Missing values", GAPS, _gaps(content)))
    return "\n".join(parts)


def _pictures(model: Any, content: Content) -> dict[str, Callable[[Axes], object]]:
    """What there is to draw, in this order."""
    drawn: dict[str, Callable[[Axes], object]] = {}
    if content.reach:
        drawn["reach"] = partial(_draw_reach, content)
    history = np.asarray(getattr(model, "objective_", []), dtype=np.float64)
    if history.size > 1 and np.isfinite(history).all():
        drawn["convergence"] = partial(plot_convergence, history)
    tried = getattr(model, "selection_", None)
    if tried is not None and len(tried):
        drawn["selection"] = partial(plot_choice, model)
    return drawn


def _draw_reach(content: Content, ax: Axes) -> None:
    """Heat against distance, one line per scale, with a band for most nodes."""
    scales = () if content.scales is None else content.scales
    for s, (curve, tau) in enumerate(zip(content.reach, scales, strict=True)):
        colour, (d, low, mean, high) = SEQUENCE[s % len(SEQUENCE)], curve.T
        ax.fill_between(d, low, high, color=colour, alpha=0.15, linewidth=0.0)
        marker, label = MARKERS[s % len(MARKERS)], f"time {tau:.3g}"
        ax.plot(d, mean, color=colour, linewidth=2.5, marker=marker, label=label)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    labelled(ax, "edges away from the source", "heat there, of 1 released")


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
        kept = ", kept" if name == comparison.kept else ""
        rows.append([f"{name} ({ESTIMATOR_OF[name]}){kept}", *known])
    if comparison.is_complete:
        paired = f"{comparison.difference:+.4f}", f"{comparison.difference_error:.4f}"
        rows.append(["sparse less gaussian", *paired])
        if np.isfinite(comparison.log_ratio):  # older files do not have it
            ratio = f"{comparison.log_ratio:+.2f}", f"{comparison.log_ratio_error:.2f}"
            rows.append(["log of the ratio of squared errors, mean over signals", *ratio])
    if np.isfinite(comparison.no_graph):
        rows.append(["no graph (LedoitWolf)", f"{comparison.no_graph:.4f}", ""])
    chosen = 0 if comparison.kept == "sparse" else 1
    return table(["model", "missed", "standard error"], rows, chosen)


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
        names = "shrinkage", "penalty", "relaxed"
        found = chosen(tried, **{name: getattr(model, f"{name}_") for name in names})
        return _tried(tried, found, told)
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
