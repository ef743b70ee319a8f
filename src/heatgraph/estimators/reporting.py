"""The way from a fitted model to the page that shows it."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["ReportMixin"]


class ReportMixin:
    """Gives an estimator :meth:`report`."""

    def report(
        self,
        path: str | os.PathLike[str],
        signals: Any = None,
        *,
        coordinates: Any = None,
        title: str = "A learned graph",
        comparison: Any = None,
    ) -> None:
        """Write a page that shows the model: one file of HTML, which needs no network to open.

        Parameters
        ----------
        path : str or path-like
            The file, by custom ending in ``.html``.
        signals : array-like or data frame (n_signals, n_nodes), optional
            What to show on the nodes, with the sources and the fit that the model finds.
        coordinates : optional
            Where the nodes are: an array (n_nodes, 2), a mapping from names to pairs, or a data
            frame with the columns longitude and latitude, or x and y.
        title : str
            The heading.
        comparison : Comparison, optional
            What :func:`heatgraph.compare` found on the same nodes, to be shown on the page.

        Notes
        -----
        Needs Bokeh: ``pip install "heatgraph[report]"``.
        """
        # The one import upwards, when asked for: the page draws models, models do not need it.
        from heatgraph.report import write_report

        shown = {"coordinates": coordinates, "title": title, "comparison": comparison}
        write_report(self, path, signals, **shown)
