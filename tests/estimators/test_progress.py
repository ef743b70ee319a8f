"""What a user sees while a fit runs."""

import io
import re

import pytest
from rich.console import Console

from heatgraph.estimators import progress
from heatgraph.estimators.progress import watch_fit
from heatgraph.solvers.result import Progress


@pytest.fixture
def terminal(monkeypatch):
    """Standard error as a terminal of 80 columns, and what was written on it."""
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=80, color_system=None)
    monkeypatch.setattr(progress, "Console", lambda stderr: console)
    return written


def test_something_is_shown_before_the_first_iteration(terminal):
    with watch_fit(1, None):
        pass
    assert "preparing" in terminal.getvalue()


def test_a_line_fits_on_a_terminal(terminal):
    with watch_fit(1, None, tol=1e-6) as watch:
        watch.step(Progress(123, 2000, 1234.5, 4321, 3.2e-4))
    lines = re.split(r"[\r\n]", terminal.getvalue())
    told = [line for line in lines if "learning" in line]
    assert "step 123, 4321 edges, residual 3e-04" in told[-1]


@pytest.mark.parametrize(
    ("residuals", "tol", "share"),
    [
        ([1.0, 1e-2], 1e-4, 0.5),
        ([1.0, 1e-2, 1e-1], 1e-4, 0.5),  # it never goes back
        ([1.0, 1e-5], 1e-4, 1.0),
        ([float("nan")], 1e-4, 0.01),  # no residual is stated: by the limit of the iterations
        ([1e-5], 1e-4, 0.01),
    ],
)
def test_the_share_done_follows_the_residual(residuals, tol, share, terminal, monkeypatch):
    shown = []
    monkeypatch.setattr(progress.Progress, "update", lambda self, *a, **k: shown.append(k))
    with watch_fit(1, None, tol=tol) as watch:
        for residual in residuals:
            watch.step(Progress(1, 100, 1.0, 3, residual))
    done = shown[-1]
    assert done["completed"] / done["total"] == pytest.approx(share, abs=1e-3)
