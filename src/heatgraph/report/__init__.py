"""A model as one page of HTML that explains itself: open it, look, move the cut, step a signal.

The page holds all it needs, the plotting library among it, and asks nothing of a network.
"""

from heatgraph.report.page import write_report

__all__ = ["write_report"]
