"""What a user sees while a fit runs."""

import io
import itertools
import re
from types import SimpleNamespace

import pytest
from rich.console import Console

from heatgraph import LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators import fit_warnings, progress
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


def test_the_name_of_a_stage_is_not_cut(terminal):
    with progress.stage("sparse model, fold 3/3"), watch_fit(1, None, tol=1e-6) as watch:
        watch.step(Progress(123, 2000, 1234.5, 4321, 3.2e-4))
    told = " ".join(terminal.getvalue().split())
    assert "\u2026" not in told
    assert "step 123, 4321 edges, residual 3e-04 0:00:0" in told


@pytest.mark.parametrize(("end", "left"), [(None, "--:--"), (125.0, "02:05"), (-5.0, "00:00")])
def test_a_bar_counts_down_to_a_time_that_is_known(terminal, monkeypatch, end, left):
    monkeypatch.setattr(progress.time, "monotonic", lambda: 0.0)
    with progress.counting_bar("comparing") as show:
        show(3, 9, "LearnHeat", end=end)
    assert f"{left} LearnHeat" in terminal.getvalue()


def test_what_is_done_after_the_last_iteration_is_named(terminal):
    with watch_fit(1, None, tol=1e-6) as watch:
        watch.step(Progress(123, 2000, 1234.5, 4321, 3.2e-4))
        terminal.truncate(0)
        watch.begin("drawing conclusions")
    assert "drawing conclusions" in terminal.getvalue()
    assert "learning" not in terminal.getvalue()


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


GIVEN = {"alpha": 0.05, "beta": 0.05, "max_iter": 1}


@pytest.mark.filterwarnings("ignore:LearnHeat")
class TestHowLong:
    @pytest.fixture
    def told(self, terminal, monkeypatch):
        """What a fit of 30 signals tells where a step takes so many seconds."""
        X, _ = make_heat_signals(make_graph("er", 6, random_state=0), [2.0], 30, random_state=0)

        def fit(step, **settings):
            clock = itertools.count(0.0, step)
            ticking = SimpleNamespace(perf_counter=lambda: next(clock))
            monkeypatch.setattr(fit_warnings, "time", ticking)
            terminal.truncate(0)
            LearnHeat(n_scales=1, verbose=1, **settings).fit(X)
            found = re.findall(r"on 6 nodes take LearnHeat about (.*)\.", terminal.getvalue())
            assert len(found) <= 1
            return found[0].strip() if found else None

        return fit

    def test_nothing_is_said_of_a_short_fit(self, told):
        assert told(0.01, **GIVEN) is None

    def test_one_line_before_a_long_one(self, told):
        assert told(0.25, **GIVEN) == "20 s or more"
        assert told(0.25, **GIVEN, n_bootstrap=9) == "3 min or more"
        assert told(0.25, **GIVEN, n_jobs=2) == "20 s"
        assert told(10.0) == "2 h or more"

    def test_nothing_where_some_of_it_is_done(self, told, tmp_path):
        kept = {**GIVEN, "checkpoint": tmp_path / "fit"}
        assert told(0.25, **kept) == "20 s or more"
        assert told(0.25, **kept) is None
