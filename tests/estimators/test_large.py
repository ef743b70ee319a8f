"""LearnHeat on large graphs: the graph of HeatCovariance, and sparse sources on it."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from heatgraph import HeatCovariance, LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators import fitted_graph, large
from heatgraph.metrics import edge_scores
from heatgraph.models.heat import PENALTIES, LogSum
from heatgraph.selection.source_choice import SourceChoice
from heatgraph.storage import load_model, save_model

N, M = 20, 100
GIVEN = {"alpha": 0.05, "scales": (2.5, 4.0), "learn_scales": False}
TRACED = ("laplacian_", "sources_", "objective_", "scales_")


@pytest.fixture(scope="module")
def problem():
    graph = make_graph("geometric", N, random_state=1)
    X, sources = make_heat_signals(graph, (2.5, 4.0), M, n_sources=2, random_state=1)
    return graph, X, sources


@pytest.fixture(scope="module")
def fitted(problem):
    return LearnHeat(solver="sparse", **GIVEN).fit(problem[1])


def learn(X, **how):
    return LearnHeat(solver="sparse", **{**GIVEN, **how}).fit(X)


class TestFit:
    def test_the_graph_is_that_of_the_covariance(self, problem, fitted):
        graph, X, _ = problem
        covariance = HeatCovariance(solver="sparse").fit(X)
        assert fitted.graph_ == covariance.graph_
        assert fitted.weights_ == covariance.weights_
        assert fitted.cut_ == covariance.cut_
        assert edge_scores(graph, fitted.graph_).f_measure > 0.85
        assert np.trace(fitted.laplacian_) == pytest.approx(N)

    def test_sources_explain_the_signals(self, problem, fitted):
        _, X, _ = problem
        assert fitted.status_ == "converged"
        assert fitted.sources_.shape == (M, 2, N)
        left = X - fitted.inverse_transform(fitted.sources_)
        assert np.square(left).sum() < 0.1 * np.square(X).sum()
        assert fitted.objective_[-1] < fitted.objective_[0] == pytest.approx(np.square(X).sum())
        assert 0.0 <= fitted.residual_ < 0.05

    def test_they_are_those_of_the_exact_lasso_on_that_graph(self, problem, fitted):
        _, X, _ = problem
        exact = fitted.transform(X).reshape(M, 2, N)  # on so few nodes by the dense lasso
        same = ((exact != 0) == (fitted.sources_ != 0)).all(axis=(1, 2))
        assert same.mean() > 0.8

    def test_scales_and_alpha_are_chosen(self, problem):
        _, X, _ = problem
        model = LearnHeat(solver="sparse").fit(X)
        assert 1.0 < model.scales_[0] < model.scales_[1] < 8.0
        assert {"alpha", "missed", "standard_error"} <= set(model.selection_)
        assert "stretch" in model.stretches_
        assert model.alpha_ in model.selection_["alpha"].to_numpy()
        assert model.predicting_alpha_ <= model.alpha_
        assert model.score(X) > 0.4

    def test_scales_to_start_from_are_tried_too(self, problem):
        graph, X, _ = problem
        model = learn(X, learn_scales=True, scales=(2.5, 4.0), candidates=graph, tol=0.1)
        assert (model.stretches_["scale1"] == 2.5).any()

    def test_names_candidates_and_a_number_of_edges(self, problem):
        graph, X, _ = problem
        names = [f"node {k}" for k in range(N)]
        pairs = [(names[i], names[j]) for i, j in graph.edges]
        model = learn(pd.DataFrame(X, columns=names), candidates=pairs, n_edges=15, tol=0.1)
        assert model.graph_.names == tuple(names)
        assert model.graph_.n_edges == 15
        assert set(map(tuple, model.weights_.edges)) <= set(map(tuple, graph.edges))

    def test_scaling_signals_and_alpha_leaves_the_graph(self, problem, fitted):
        _, X, _ = problem
        other = learn(1024.0 * X, alpha=1024.0 * GIVEN["alpha"])
        assert (fitted.laplacian_ == other.laplacian_).all()
        assert other.sources_ == pytest.approx(1024.0 * fitted.sources_)

    def test_sources_of_one_sign_at_the_paper_s_penalty(self, problem):
        _, X, _ = problem
        model = learn(np.abs(X[:50]), positive=True, atoms="raw", tol=0.1, candidates=3)
        assert model.alpha_ == pytest.approx(GIVEN["alpha"])
        assert model.sources_.min() >= 0.0
        assert model.sources_.max() > 0.0

    def test_missing_entries(self, problem):
        graph, X, _ = problem
        hidden = np.random.default_rng(0).random(X.shape) < 0.1
        holes = np.where(hidden, np.nan, X)
        model = learn(holes, tol=1e-2)
        assert edge_scores(graph, model.graph_).f_measure > 0.6
        filled = model.impute(holes)
        assert (filled[~hidden] == X[~hidden]).all()
        assert np.mean((filled - X)[hidden] ** 2) < 0.7 * np.mean(X[hidden] ** 2)

    def test_parameters_that_predict_nothing_are_told(self, problem, monkeypatch):
        nothing = SourceChoice(0.5, np.array([2.5, 4.0]), missed=0.99, standard_error=0.02)
        monkeypatch.setattr(large, "choose_sources", lambda *_: nothing)
        with pytest.warns(UserWarning, match="show no diffusion"):
            LearnHeat(solver="sparse", tol=0.5, candidates=problem[0]).fit(problem[1])


class TestStops:
    def test_ctrl_c_in_the_graph_keeps_the_best_so_far(self, problem):
        def stop(step):
            if step.iteration == 2:
                raise KeyboardInterrupt

        model = LearnHeat(solver="sparse", **GIVEN).fit(problem[1], monitor=stop)
        assert model.status_ == "interrupted"
        assert model.graph_.n_nodes == N
        assert not model.sources_.any()

    def test_ctrl_c_among_the_sources_keeps_those_found(self, problem, fitted):
        def stop(step):
            if step.max_iter == M:  # of the signals
                raise KeyboardInterrupt

        model = LearnHeat(solver="sparse", **GIVEN).fit(problem[1], monitor=stop)
        assert model.status_ == "interrupted"
        n = np.flatnonzero(model.sources_.any(axis=(1, 2))).max() + 1
        assert 0 < n < M
        assert (model.sources_[:n] == fitted.sources_[:n]).all()

    def test_a_fit_goes_on_from_its_checkpoint(self, problem, fitted, tmp_path, monkeypatch):
        _, X, _ = problem
        path = tmp_path / "fit.npz"
        monkeypatch.setattr("heatgraph.estimators.checkpoint.EVERY", 0.0)

        class Killed(BaseException):
            pass

        def kill(step):
            if step.max_iter == M and step.iteration > 32:
                raise Killed

        with pytest.raises(Killed):
            LearnHeat(solver="sparse", checkpoint=path, **GIVEN).fit(X, monitor=kill)
        steps = []
        resumed = LearnHeat(solver="sparse", checkpoint=path, **GIVEN)
        resumed.fit(X, monitor=lambda step: steps.append(step))
        assert min(step.iteration for step in steps) > 64  # neither graph nor first signals again
        for name in TRACED:
            assert (getattr(resumed, name) == getattr(fitted, name)).all()
        assert (resumed.graph_.confidence == fitted.graph_.confidence).all()
        assert [p.name for p in tmp_path.iterdir()] == ["fit.npz"]

    def test_what_was_chosen_is_in_the_checkpoint(self, problem, tmp_path):
        path = tmp_path / "fit.npz"
        first = learn(problem[1], alpha="auto", tol=0.1, checkpoint=path)
        again = learn(problem[1], alpha="auto", tol=0.1, checkpoint=path)
        pd.testing.assert_frame_equal(first.selection_, again.selection_, check_dtype=False)
        assert first.predicting_alpha_ == again.predicting_alpha_

    def test_sources_that_do_not_settle_are_told(self, problem, monkeypatch):
        monkeypatch.setattr("heatgraph.solvers.lasso.TURNS", 1)
        with pytest.warns(ConvergenceWarning):
            model = learn(problem[1], tol=1e-6)
        assert model.status_ == "stalled"


@pytest.fixture(scope="class")
def few_are_dense():
    """As if so few nodes were too many for an array of all pairs."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fitted_graph, "DENSE_NODES", 10)
        yield


@pytest.fixture(scope="class")
def thin(problem, few_are_dense):
    return learn(problem[1], tol=1e-2)


class TestLargeModel:
    def test_signals_are_coded_without_an_array_of_all_pairs(self, problem, thin):
        _, X, _ = problem
        model = thin
        assert sparse.issparse(model.laplacian_)
        coded = model.code(X[:6])
        assert coded.gap.max() < 1e-5
        dense = LearnHeat(**GIVEN)
        vars(dense).update(vars(model) | {"laplacian_": model.laplacian_.toarray()})
        exact = dense.code(X[:6]).sources
        assert ((coded.sources != 0) == (exact != 0)).all(axis=(1, 2)).mean() > 0.8
        again = model.inverse_transform(model.transform(X[:6]))
        assert again == pytest.approx(dense.inverse_transform(coded.sources), abs=1e-6)
        assert model.score(X[:20]) == pytest.approx(dense.score(X[:20]), abs=0.02)

    def test_it_can_be_saved(self, problem, thin, tmp_path):
        _, X, _ = problem
        model = thin
        save_model(model, tmp_path / "model.npz")
        again = load_model(tmp_path / "model.npz")
        assert (again.laplacian_ != model.laplacian_).nnz == 0
        assert (again.transform(X[:3]) == model.transform(X[:3])).all()

    def test_auto_takes_it_for_many_nodes_and_keeps_many_sources_sparse(
        self, problem, thin, monkeypatch
    ):
        monkeypatch.setattr("heatgraph.estimators.parameters.MANY_NODES", 10)
        monkeypatch.setattr(large, "ENTRIES", 10)
        model = LearnHeat(tol=1e-2, **GIVEN).fit(problem[1])
        assert sparse.issparse(model.laplacian_)
        assert model.sources_.shape == (M, 2, N)
        assert (model.sources_.toarray() == thin.sources_).all()
        with pytest.raises(ValueError, match="start must be None"):
            model.code(problem[1], start=model.sources_)


class TestRefuses:
    @pytest.mark.parametrize(
        ("how", "match"),
        [
            ({"n_scales": "auto", "scales": None, "learn_scales": True}, r"n_scales=2"),
            ({"beta": 0.1}, r'beta=0.1 needs solver="dense".*beta=\'auto\''),
            ({"n_bootstrap": 3}, "n_bootstrap=0"),
            ({"init": "random"}, "init='uniform'"),
            ({"cv": 3}, "cv=None"),
            ({"fit_intercept": True}, "fit_intercept=False"),
            ({"tol": 0.0}, "tol must be"),
        ],
    )
    def test_what_it_does_not_do(self, problem, how, match):
        with pytest.raises(ValueError, match=match):
            learn(problem[1], **how)

    def test_a_dask_collection(self, problem):
        array = pytest.importorskip("dask.array", reason="an extra")
        with pytest.raises(ValueError, match='solver="sparse" needs the signals in memory'):
            learn(array.from_array(problem[1], chunks=(50, N)))


class TestNearest:
    def test_candidates_are_nearest_in_direction(self, rng):
        """A node that shows little is not near to all others that show little."""
        from heatgraph.estimators.validation import resolve_candidates

        patterns = rng.normal(size=(3, 30))
        X = np.repeat(patterns, 4, axis=0).T + 0.01 * rng.normal(size=(30, 12))
        X[:, ::4] *= 1e-3
        candidates = resolve_candidates(3, X, None)
        assert (candidates.i // 4 == candidates.j // 4).all()

    @pytest.mark.slow  # compiles the library's own code
    def test_of_many_rows_nearly_all_nearest_are_found(self, rng, monkeypatch):
        pytest.importorskip("pynndescent", reason="an extra")
        from heatgraph.estimators import validation

        X = rng.normal(size=(20, 800))
        exact = validation.resolve_candidates(10, X, None)
        monkeypatch.setattr(validation, "MANY_ROWS", 500)
        nearly = validation.resolve_candidates(10, X, None)
        assert (nearly.i != nearly.j).all()
        keys = [c.i * 800 + c.j for c in (exact, nearly)]
        assert np.isin(keys[0], keys[1]).mean() > 0.9
        again = validation.resolve_candidates(10, X, None)
        assert (again.i == nearly.i).all()
        assert (again.j == nearly.j).all()


@pytest.mark.parametrize("solver", ["sparse", "paper"])
def test_a_penalty_that_a_solver_does_not_know_is_refused(problem, monkeypatch, solver):
    monkeypatch.setitem(PENALTIES, "new", LogSum())
    atoms = "raw" if solver == "paper" else "unit"
    with pytest.raises(ValueError, match="penalty"):
        LearnHeat(solver=solver, penalty="new", atoms=atoms, **GIVEN).fit(problem[1])
