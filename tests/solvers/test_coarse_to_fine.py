"""Rough atoms first: the same end as with fine ones from the start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators.validation import resolve_candidates, start_near
from heatgraph.kernels.layout import Layout
from heatgraph.models.heat import Signals
from heatgraph.models.sparse import SparseObjective
from heatgraph.solvers import coarse_to_fine
from heatgraph.solvers.checkpoint_protocol import Record
from heatgraph.solvers.coarse_to_fine import rough_enough, solve_by_stages
from heatgraph.solvers.heat import solve_heat
from heatgraph.solvers.result import Status
from heatgraph.solvers.sparse_signals import SparseSignals

TAU = np.array([2.5, 4.0])
FINE = 1e-6


@pytest.fixture(scope="module")
def problem():
    graph = make_graph("geometric", 60, random_state=0)
    X, _ = make_heat_signals(graph, TAU, 60, n_sources=2, random_state=0)
    candidates = resolve_candidates(12, X, None)
    layout = Layout.of(candidates)
    signals = Signals(np.ascontiguousarray(X.T))
    objective = SparseObjective(layout, 0.1, 1e-3, unit_atoms=True, reach=FINE)
    return objective, SparseSignals(layout, signals), start_near(candidates, X)


def solve(problem, solver=solve_by_stages, **how: Any):
    objective, ensemble, w = problem
    given = {"learn_scales": False, "max_iter": 300, "tol": 1e-3, **how}
    return solver(objective, ensemble, w, TAU, **given)


@dataclass
class Drawer:
    """A keeper in memory, which drops nothing."""

    records: dict[str, Record] = field(default_factory=dict)
    name: str = "fit"
    due: bool = False

    def within(self, name: str, /) -> Drawer:
        return Drawer(self.records, f"{self.name}/{name}", self.due)

    def get(self) -> Record | None:
        return self.records.get(self.name)

    def put(self, record: Record, /) -> None:
        self.records[self.name] = record


def watched(monkeypatch: pytest.MonkeyPatch, stop_at: int = -1) -> list[tuple[float, float]]:
    """The atoms and tolerances that the stages are solved with."""
    seen: list[tuple[float, float]] = []

    def solver(objective: Any, *given: Any, **how: Any) -> Any:
        seen.append((objective.reach, how["tol"]))
        if len(seen) == stop_at:
            raise KeyboardInterrupt
        return solve_heat(objective, *given, **how)

    monkeypatch.setattr(coarse_to_fine, "solve_heat", solver)
    return seen


def test_ends_where_fine_atoms_alone_end(problem, monkeypatch):
    seen = watched(monkeypatch)
    staged, whole = solve(problem), solve(problem, solve_heat)
    assert seen == [(1e-3, 0.015), (3e-4, 0.0015), (FINE, 1e-3)]
    assert staged.status == whole.status == Status.CONVERGED
    assert staged.residual <= 1e-3
    assert staged.objective[-1] == pytest.approx(whole.objective[-1], rel=2e-3)
    assert np.abs(staged.w - whole.w).sum() <= 0.02 * whole.w.sum()
    assert len(staged.objective) == staged.n_iter + 1


def test_stages_that_would_not_be_rougher_are_left_out(problem, monkeypatch):
    seen = watched(monkeypatch)
    solve(problem, tol=0.01)
    assert seen == [(1e-3, 0.015), (FINE, 0.01)]
    seen.clear()
    objective, ensemble, w = problem
    exact = SparseObjective(objective.layout, 0.1, 1e-3, unit_atoms=True)
    solve((exact, ensemble, w), tol=0.01)
    assert seen == [(0.0, 0.01)]


def test_as_rough_as_a_residual_allows(problem):
    objective = problem[0]
    reaches = [rough_enough(objective, residual).reach for residual in (1.0, 0.015, 0.01, 1e-3)]
    assert reaches == [1e-3, 1e-3, 3e-4, FINE]
    assert rough_enough(objective, 0.5).layout is objective.layout


def test_rough_atoms_are_in_single_precision(problem):
    objective, ensemble, _ = problem
    rough = rough_enough(objective, 0.5)
    assert rough.dtype == np.float32
    assert rough.tol == pytest.approx(1e-5)
    assert rough_enough(objective, 1e-3) is objective
    assert objective.dtype == np.float64
    narrow = ensemble.of_type(rough.dtype)
    assert narrow.rows.dtype == np.float32
    assert narrow.rows == pytest.approx(ensemble.rows, rel=1e-6)
    assert ensemble.of_type(np.float64) is ensemble


def test_iterations_are_counted_over_all_stages(problem):
    told = []
    fit = solve(problem, max_iter=8, tol=1e-9, monitor=lambda step: told.append(step.iteration))
    assert fit.n_iter == 8
    assert fit.status == Status.MAX_ITER
    assert told == sorted(told)
    assert told[-1] == 8


def test_ctrl_c_before_a_later_stage_has_begun_keeps_the_last(problem, monkeypatch):
    seen = watched(monkeypatch, stop_at=2)
    fit = solve(problem)
    assert len(seen) == 2
    assert fit.status == Status.INTERRUPTED
    assert fit.w.sum() == pytest.approx(30.0)
    with pytest.raises(KeyboardInterrupt):
        watched(monkeypatch, stop_at=1)
        solve(problem)


def test_what_was_kept_is_the_whole(problem, monkeypatch):
    drawer = Drawer()
    fit = solve(problem, keeper=drawer)
    seen = watched(monkeypatch)
    again = solve(problem, keeper=drawer)
    assert not seen
    np.testing.assert_array_equal(again.objective, fit.objective)
    np.testing.assert_array_equal(again.w, fit.w)
    del drawer.records["fit"]
    # Stopped before its end, the stages that were finished are not solved again.
    resumed = solve(problem, keeper=drawer)
    np.testing.assert_array_equal(resumed.objective, fit.objective)


@pytest.mark.parametrize("max_iter", [0, 2, 5])
def test_the_last_value_is_that_of_the_objective_itself(problem, max_iter):
    objective, ensemble, _ = problem
    fit = solve(problem, max_iter=max_iter, tol=1e-9)
    D = objective.dictionary(fit.w, TAU)
    _, moments = ensemble.code(objective, D, fit.codes, None)
    assert fit.objective[-1] == pytest.approx(objective.value(D, fit.w, moments), rel=1e-9)
    assert len(fit.objective) == fit.n_iter + 1
