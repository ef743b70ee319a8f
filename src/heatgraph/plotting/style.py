"""What every picture shares: colours, marks, figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heatgraph.graph import Graph

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Okabe and Ito's colours, which remain apart for every kind of colour vision.
BLUE, ORANGE, VERMILION, INK = "#0072B2", "#E69F00", "#D55E00", "#222222"
SEQUENCE = (BLUE, ORANGE, VERMILION, "#009E73", "#CC79A7", "#56B4E9", INK)
SIGNED, POSITIVE, NEGATIVE = "PuOr_r", "cividis", "cividis_r"
MARKERS = "osD^v<>p"
MAX_NAMES, MAX_NAMES_ALONE = 40, 70  # nodes whose names are written, in rows and in one picture
LONGEST = 20  # name that is written in full
# Text that is the user's is drawn as written: a dollar sign in a name opens no formula.
LITERAL: dict[str, Any] = {"parse_math": False, "usetex": False}
FONT = 10.0


def new_axes(width: float, height: float) -> Axes:
    """Axes on a figure of their own."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def new_row(n: int, height: float = 3.6) -> list[Axes]:
    """``n`` axes side by side."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(
        1, n, figsize=(3.4 * n + 0.9, height), layout="constrained", squeeze=False
    )
    return list(axes[0])


def figure_of(ax: Axes) -> Figure:
    """The figure that axes are on, at the bottom of all subfigures."""
    figure: Any = ax.get_figure(root=True)
    return figure


def bare(ax: Axes) -> None:
    """No frame where there is no axis."""
    ax.spines[["top", "right"]].set_visible(False)


def texts(graph: Graph) -> list[str]:
    """The names of the nodes, or their numbers, as they are written."""
    return [shortened(str(name)) for name in (graph.names or range(graph.n_nodes))]


def shortened(text: str, at_most: int = LONGEST) -> str:
    """Text of at most so many characters; of longer ones both ends, where names differ."""
    if len(text) <= at_most:
        return text
    tail = at_most // 2 - 1
    return text[: at_most - tail - 1].rstrip() + "\u2026" + text[-tail:].lstrip()
