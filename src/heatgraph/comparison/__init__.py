"""Which method to believe: all of them on the same signals, judged by what they predict."""

from heatgraph.comparison.groups import Difference, difference
from heatgraph.comparison.run import compare
from heatgraph.comparison.table import Comparison, MethodResult

__all__ = ["Comparison", "Difference", "MethodResult", "compare", "difference"]
