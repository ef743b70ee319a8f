"""What the pictures of the experiments have in common: colours for every eye, and marks."""

from __future__ import annotations

from matplotlib.axes import Axes

__all__ = ["COLOURS", "INK", "MARKERS", "SIGNED", "VERMILION", "plain"]

# Okabe and Ito's colours, which remain apart for every kind of colour vision; a line has a
# marker of its own besides.
BLUE, ORANGE, GREEN, VERMILION, PINK, SKY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
)
COLOURS = (BLUE, ORANGE, GREEN, VERMILION, PINK, SKY)
MARKERS = "osD^vP"
INK = "#222222"
SIGNED = "PuOr_r"


def plain(ax: Axes) -> None:
    """A faint grid and no box."""
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
