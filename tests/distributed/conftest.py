"""A cluster of threads in this process, and signals small enough for it."""

from __future__ import annotations

import numpy as np
import pytest

from heatgraph.datasets import make_graph, make_heat_signals

pytest.importorskip("distributed", reason='needs pip install "heatgraph[dask]"')


@pytest.fixture(scope="module")
def client():
    """Closed after a module: the threads of a cluster slow down all tests that follow."""
    from distributed import Client

    with Client(
        processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0"
    ) as client:
        yield client


@pytest.fixture(scope="session")
def signals() -> np.ndarray:
    X, _ = make_heat_signals(make_graph("er", 6, 0), (2.0,), 20, 2, 0.05, 0)
    return X
