"""What the pictures of the experiments have in common."""

from __future__ import annotations

from matplotlib.axes import Axes

from heatgraph.plotting.style import INK, SIGNED, VERMILION, bare

__all__ = ["COLOURS", "INK", "MARKERS", "SIGNED", "VERMILION", "plain"]

# Okabe and Ito's colours in an order of their own; a line has a marker of its own besides.
COLOURS = ("#0072B2", "#E69F00", "#009E73", VERMILION, "#CC79A7", "#56B4E9")
MARKERS = "osD^vP"


def plain(ax: Axes) -> None:
    """A faint grid and no box."""
    ax.grid(alpha=0.3)
    bare(ax)
