"""Curves and histograms: convergence, the choice of parameters, the weights."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from heatgraph.graph import Graph
from heatgraph.plotting.style import BLUE, INK, MARKERS, SEQUENCE, VERMILION, bare, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_MISSED = 1.05  # that is shown, of the hidden energy: predicting zero misses 1


def plot_convergence(objective: ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw how far above its best value the objective was at each iteration.

    Parameters
    ----------
    objective : array-like
        Its history, the start first.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> plot_convergence([4.0, 2.0, 1.5, 1.4]).get_yscale()
    'log'
    """
    history = np.asarray(objective, dtype=np.float64)
    if history.ndim != 1 or not history.size or not np.isfinite(history).all():
        raise ValueError("objective must be a list of finite numbers, one per iteration")
    ax = new_axes(6.0, 3.6) if ax is None else ax
    best = float(history.min())
    above = history - best
    # The last fall is to the best itself, which has no place on a logarithmic axis.
    shown = np.flatnonzero(above > 0)
    if shown.size > 1:
        ax.semilogy(shown, above[shown], color=BLUE, linewidth=2, marker=".", markersize=5)
        ax.set_ylabel(f"objective above {best:.6g}")
    else:
        ax.plot(history, color=BLUE, linewidth=2, marker=".", markersize=8)
        ax.set_ylabel("objective")
    ax.set_xlabel("iteration")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.grid(alpha=0.3)
    bare(ax)
    return ax


def plot_selection(
    selection: pd.DataFrame,
    ax: Axes | None = None,
    *,
    alpha: float | None = None,
    beta: float | None = None,
    n_scales: int | None = None,
) -> Axes:
    """Draw how likely held-out signals were with each choice of parameters.

    Where the choice was by prediction, on large graphs, it is the share of hidden entries missed.

    Parameters
    ----------
    selection : data frame
        ``selection_`` of a fitted :class:`~heatgraph.LearnHeat`.
    ax : matplotlib axes, optional
        Where to draw.
    alpha, beta : float, optional
        What was chosen, ``alpha_`` and ``beta_`` of the model: its place is ringed.
    n_scales : int, optional
        The number of scales chosen, where several were tried.

    Returns
    -------
    matplotlib axes
        With a line for every beta (and number of scales), over alpha; bars are standard errors.

    Examples
    --------
    >>> import pandas as pd
    >>> tried = pd.DataFrame({"n_scales": 1, "alpha": [0.1, 0.2], "beta": 1.0, "missed": 0.5,
    ...                       "standard_error": 0.05, "log_likelihood": [7.0, 8.0]})
    >>> ax = plot_selection(tried, alpha=0.2, beta=1.0)
    >>> ax.get_ylabel(), ax.get_legend().texts[0].get_text()
    ('held-out log-likelihood per signal', 'chosen')
    """
    ax = new_axes(6.0, 3.6) if ax is None else ax
    several = len(set(selection["n_scales"])) > 1
    value, title = _judged_by(selection)
    groups = selection.groupby(["n_scales", "beta"])
    for k, ((size, spread), rows) in enumerate(groups):
        label = f"beta {two_digits(spread)}" + (f", {size} scales" if several else "")
        path, bars = rows.sort_values("alpha"), value == "missed"
        _errors_along(ax, k, path, "alpha", label, value, bars=bars)
    if alpha is not None and beta is not None:
        _ring(ax, selection, chosen_row(selection, alpha, beta, n_scales), "alpha", value)
    if value == "missed":
        ax.axhline(1.0, color="0.4", linestyle=":", linewidth=1.2)
    _tick(ax, selection["alpha"])
    return labelled(ax, "alpha", title)


def _judged_by(tried: pd.DataFrame) -> tuple[str, str]:
    """The column that parameters of a sparse model were chosen by, and its title."""
    if "log_likelihood" in tried:
        return "log_likelihood", "held-out log-likelihood per signal"
    return "missed", "share of hidden energy missed"


def plot_likelihood(
    selection: pd.DataFrame,
    ax: Axes | None = None,
    *,
    shrinkage: float | None = None,
    penalty: float | None = None,
    relaxed: bool = False,
) -> Axes:
    """Draw how likely each shrinkage and penalty made the signals that were held out.

    Parameters
    ----------
    selection : data frame
        ``selection_`` of a fitted :class:`~heatgraph.HeatCovariance`.
    ax : matplotlib axes, optional
        Where to draw.
    shrinkage, penalty, relaxed : optional
        What was chosen, ``shrinkage_``, ``penalty_`` and ``relaxed_`` of the model: its place is
        ringed.

    Returns
    -------
    matplotlib axes
        With a line for every penalty, over the shrinkage; bars are standard errors
        over the blocks of signals held out.

    Examples
    --------
    >>> import pandas as pd
    >>> tried = pd.DataFrame({"shrinkage": [0.01, 0.1], "penalty": 2.0, "relaxed": 0,
    ...                       "log_likelihood": [3.0, 2.0], "standard_error": 0.2})
    >>> ax = plot_likelihood(tried, shrinkage=0.01, penalty=2.0)
    >>> ax.get_ylabel(), ax.get_legend().texts[0].get_text()
    ('held-out log-likelihood per signal', 'chosen')
    """
    ax = new_axes(6.0, 3.6) if ax is None else ax
    for k, (label, rows) in enumerate(_strength_lines(selection)):
        _errors_along(ax, k, rows, "shrinkage", label, "log_likelihood")
    if shrinkage is not None and penalty is not None:
        row = chosen(selection, shrinkage=shrinkage, penalty=penalty, relaxed=relaxed)
        _ring(ax, selection, row, "shrinkage", "log_likelihood")
    _tick(ax, selection["shrinkage"])
    return labelled(ax, "shrinkage", "held-out log-likelihood per signal")


def _strength_lines(selection: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """What was tried, a line for every penalty, each with its name and by shrinkage."""
    return [
        (
            f"penalty {size:.2g}" + (", then left out" if bool(relaxed) else ""),
            rows.sort_values("shrinkage"),
        )
        for (relaxed, size), rows in selection.groupby(["relaxed", "penalty"])
    ]


def plot_stretches(
    stretches: pd.DataFrame,
    ax: Axes | None = None,
    *,
    scale: float | None = None,
    beta: float | None = None,
) -> Axes:
    """Draw how likely held-out signals were with multiples of the learned scales.

    Where the choice was by prediction, on large graphs, it is the share of hidden entries missed.

    Parameters
    ----------
    stretches : data frame
        ``stretches_`` of a fitted :class:`~heatgraph.LearnHeat`.
    ax : matplotlib axes, optional
        Where to draw.
    scale, beta : float, optional
        What was chosen, the last of ``scales_`` and ``beta_`` of the model: its place is ringed.

    Returns
    -------
    matplotlib axes
        With a line for every beta, over the factor; bars are standard errors.  What missed much
        more than predicting zero would is above the axes.

    Examples
    --------
    >>> import pandas as pd
    >>> tried = pd.DataFrame({"beta": 1.0, "stretch": [1.0, 1.0, 1.2], "coding": [1.0, 0.5, 0.5],
    ...                       "missed": [0.5, 0.4, 0.3], "standard_error": 0.05})
    >>> plot_stretches(tried).lines[0].get_ydata().tolist()
    [0.4, 0.3]
    """
    ax = new_axes(6.0, 3.6) if ax is None else ax
    every = stretches.loc[stretches.groupby(["beta", "stretch"])["missed"].idxmin()]
    value, title = _judged_by(stretches)
    bars = value == "missed"
    for k, (spread, best) in enumerate(every.groupby("beta")):
        _errors_along(ax, k, best, "stretch", f"beta {two_digits(spread)}", value, bars=bars)
    if scale is not None and beta is not None:
        _ring(ax, every, chosen_stretch(every, scale, beta), "stretch", value)
    if bars:  # a dictionary that is far off can miss many times what there is
        top = max(MOST_MISSED, MOST_MISSED * float(every["missed"].min()))
        ax.set_ylim(top=min(ax.get_ylim()[1], top))
    return labelled(ax, "scales, over those that were learned", title)


def _tick(ax: Axes, tried: pd.Series[float]) -> None:
    """A tick for each value that was tried, on a logarithmic axis where none is 0."""
    values = sorted(set(tried))
    if values[0] > 0.0:
        ax.set_xscale("log")
    ax.set_xticks(values, [*map(two_digits, values)])
    ax.minorticks_off()


def _errors_along(
    ax: Axes,
    k: int,
    rows: pd.DataFrame,
    along: str,
    label: str,
    value: str,
    *,
    bars: bool = True,
) -> None:
    """The ``k``-th line, with bars where ``standard_error`` is that of the value."""
    ax.errorbar(
        rows[along],
        rows[value],
        yerr=rows["standard_error"] if bars else None,
        color=SEQUENCE[k % len(SEQUENCE)],
        marker=MARKERS[k % len(MARKERS)],
        markersize=5,
        capsize=2,
        label=label,
    )


def labelled(ax: Axes, along: str, value: str) -> Axes:
    """Names of the axes, and a legend over them, where it covers nothing."""
    ax.set_xlabel(along)
    ax.set_ylabel(value)
    ax.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=3,
        frameon=False,
        fontsize="small",
    )
    ax.grid(alpha=0.3)
    bare(ax)
    return ax


def plot_choice(model: Any, ax: Axes) -> Axes:
    """How the parameters of a model of heat were chosen, of either kind."""
    if hasattr(model, "shrinkage_"):
        strength, penalty = model.shrinkage_, model.penalty_
        given = {"shrinkage": strength, "penalty": penalty, "relaxed": model.relaxed_}
        return plot_likelihood(model.selection_, ax, **given)
    given = {"alpha": model.alpha_, "beta": model.beta_, "n_scales": n_chosen(model)}
    return plot_selection(model.selection_, ax, **given)


def n_chosen(model: Any) -> int | None:
    """How many scales were chosen among several numbers, or None where that is not known.

    Some of ``scales_`` may have become one since.
    """
    stretches = getattr(model, "stretches_", None)
    return None if stretches is None else len(_scales(stretches))


def _scales(tried: pd.DataFrame) -> list[str]:
    """The columns of the scales, the shortest first."""
    return [name for name in map(str, tried.columns) if re.fullmatch(r"scale\d+", name)]


def chosen_stretch(stretches: pd.DataFrame, scale: float, beta: float) -> int | None:
    """Which row of ``stretches_`` has this longest scale and this beta; None if none has."""
    return chosen(stretches, beta=beta, **{_scales(stretches)[-1]: scale})


def chosen_row(
    selection: pd.DataFrame, alpha: float, beta: float, n_scales: int | None = None
) -> int | None:
    """Which row of ``selection_`` has these parameters; None if none has.

    Beta may have moved afterwards, along with the scales or to meet a number of edges: then it
    was the best for its alpha.
    """
    same = {"alpha": alpha} if n_scales is None else {"alpha": alpha, "n_scales": n_scales}
    found = chosen(selection, beta=beta, **same)
    return chosen(selection, **same) if found is None else found


def chosen(tried: pd.DataFrame, **values: float) -> int | None:
    """Which row of a table has these values; None if none has.

    Of several it is the one that missed least: so the penalty to predict with was chosen.
    """
    same = [np.isclose(tried[key], value, rtol=1e-9, atol=0.0) for key, value in values.items()]
    found = np.flatnonzero(np.all(same, axis=0))
    if found.size and "missed" in tried:
        found = found[[np.argmin(tried["missed"].to_numpy()[found])]]
    return int(found[0]) if found.size else None


def _ring(ax: Axes, tried: pd.DataFrame, row: int | None, along: str, value: str) -> None:
    if row is None:
        return
    place = tried.iloc[row]
    ax.scatter(
        [place[along]],
        [place[value]],
        s=190,
        facecolors="none",
        edgecolors=INK,
        linewidths=2.0,
        zorder=5,
        label="chosen",
    )


def plot_weights(graph: Graph, cut: float | None = None, ax: Axes | None = None) -> Axes:
    """Draw the histogram of the weights, and where they are cut.

    Parameters
    ----------
    graph : Graph
        With at least one edge.
    cut : float, optional
        The lightest weight kept.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> ax = plot_weights(Graph([(0, 1), (1, 2)], [0.01, 2.0]), cut=0.1)
    >>> ax.get_legend().texts[0].get_text()
    'cut at 0.1: 1 of 2 edges kept'
    """
    if not graph.n_edges:
        raise ValueError("graph must have an edge for its weights to be drawn")
    ax = new_axes(6.0, 3.6) if ax is None else ax
    low, high = float(graph.weights.min()), float(graph.weights.max())
    n_bins = int(np.clip(np.sqrt(4 * graph.n_edges), 10, 60))
    if high > 30 * low:
        bins = np.geomspace(low, high * (1 + 1e-12), n_bins + 1)
        ax.set_xscale("log")
    else:
        bins = np.linspace(low, max(high, low * (1 + 1e-9)), n_bins + 1)
    ax.hist(graph.weights, bins=bins.tolist(), color=BLUE, edgecolor="white", linewidth=0.5)
    if cut is not None:
        kept = int((graph.weights >= cut).sum())
        label = f"cut at {cut:.3g}: {kept} of {graph.n_edges} edges kept"
        ax.axvline(cut, color=VERMILION, linewidth=2, linestyle="--", label=label)
        ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False)
    ax.set_xlabel("weight of an edge")
    ax.set_ylabel("number of edges")
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    bare(ax)
    return ax


def two_digits(value: Any) -> str:
    """A number to two digits: 140, not 1.4e+02."""
    return f"{float(f'{value:.1e}'):g}"
