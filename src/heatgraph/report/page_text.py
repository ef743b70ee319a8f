"""What the page says in words: the model in a sentence, its parameters, what to beware of."""

from __future__ import annotations

import platform
from datetime import date
from importlib.metadata import version
from typing import Any

import numpy as np

from heatgraph.graph import Graph
from heatgraph.report.page_data import Content
from heatgraph.solvers.result import Status

__all__ = ["cautions", "lead", "omissions", "parameters", "story", "what_was_run"]

COLLAPSED = 1e-2  # a scale below this moves no heat
POOR = 0.5  # a fit that explains less than this of the signals is worth a word
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
    n_signals = int(getattr(model, "n_signals_", 0 if sources is None else len(sources)))
    if n_signals:
        text += f" from {_count(n_signals, 'signal')}"
    return f"{text}. {_prediction(model)}".strip()


def _prediction(model: Any) -> str:
    """How much the model predicts of held-out signals, beside what needs no graph."""
    comparison, score = getattr(model, "comparison_", None), getattr(model, "held_out_", None)
    if comparison is not None:
        known = 1.0 - comparison.missed(comparison.kept)[0], 1.0 - comparison.no_graph
    elif score is not None:
        known = score.predicted, score.ledoit_wolf
    else:
        return ""
    told = f"It predicts {known[0]:.1%} of the variance of hidden values"
    without = f"; a covariance without a graph, {known[1]:.1%}" if np.isfinite(known[1]) else ""
    return f"{told}{without}."


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
            found.append(
                f"Half of the signals shown have less than {max(typical, 0.0):.0%} of their "
                "energy explained."
            )
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
    return f"{n:,} {_plural(n, thing, thing + 's')}"


def _plural(n: int, one: str, many: str) -> str:
    return one if n == 1 else many
