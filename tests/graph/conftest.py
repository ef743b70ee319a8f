"""Random graphs of every shape, for the tests of this room."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from heatgraph.graph import Graph

TEXT = st.text(
    st.characters(min_codepoint=32, exclude_categories=("Cs", "Cc", "Cn", "Co")), min_size=1
)


@st.composite
def _graphs(draw, names=TEXT, min_edges=0, directed=False):
    n = draw(st.integers(2 if min_edges else 1, 8))
    pairs = np.column_stack(np.triu_indices(n, k=1))
    if directed:
        pairs = np.concatenate([pairs, pairs[:, ::-1]])
    size = len(pairs)
    kept = draw(st.sets(st.integers(0, size - 1), min_size=min_edges)) if size else set()
    edges = pairs[sorted(kept)]
    positive = st.floats(1e-6, 1e6)
    unit = st.floats(0, 1)

    def column(values):
        return draw(st.lists(values, min_size=len(edges), max_size=len(edges)))

    def maybe(value):
        return value() if draw(st.booleans()) else None

    return Graph(
        edges,
        column(positive),
        n,
        maybe(lambda: draw(st.lists(names, min_size=n, max_size=n, unique=True))),
        maybe(lambda: column(unit)),
        maybe(lambda: draw(st.lists(st.tuples(unit, unit), min_size=n, max_size=n))),
        directed,
    )


@pytest.fixture(scope="session")
def graphs():
    """The strategy: ``data.draw(graphs(names=..., min_edges=...))``."""
    return _graphs
