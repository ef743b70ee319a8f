"""LearnHeat on either engine: what holds for the one has to hold for the other."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from heatgraph import LearnHeat
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators import fitted_graph, large
from heatgraph.estimators.large import memory_needed
from heatgraph.estimators.parameters import resolve
from heatgraph.metrics import edge_scores
from heatgraph.models.heat import Signals
from heatgraph.solvers.heat import as_sources, solve_heat
from heatgraph.solvers.result import Status
from heatgraph.solvers.sparse_signals import SparseSignals
from heatgraph.storage import load_model, save_model

GIVEN = {"alpha": 0.05, "beta": 0.02, "tol": 1e-2}
HELD = {**GIVEN, "scales": (2.5, 4.0), "learn_scales": False}


@pytest.fixture(scope="module")
def problem():
    graph = make_graph("geometric", 40, random_state=1)
    X, _ = make_heat_signals(graph, (2.5, 4.0), 90, n_sources=2, random_state=1)
    return graph, X


@pytest.fixture(params=["dense", "sparse"])
def engine(request):
    return request.param


def learn(engine, X, **how):
    return LearnHeat(solver=engine, **{"candidates": 12, **HELD, **how}).fit(X)


class TestEither:
    def test_it_finds_the_graph(self, engine, problem):
        graph, X = problem
        model = learn(engine, X)
        assert edge_scores(graph, model.graph_).f_measure > 0.9
        assert model.status_ == "converged"
        assert (np.diff(model.objective_[:-1]) <= 1e-9 * model.objective_[0]).all()
        L = model.laplacian_
        assert np.abs(L.sum(axis=0)).max() < 1e-10
        assert np.trace(L) == pytest.approx(40)

    def test_scales_are_learned(self, engine, problem):
        _, X = problem
        model = learn(engine, X, **GIVEN, scales=None, learn_scales=True)
        assert 1.0 < model.scales_[0] < model.scales_[1] < 6.0

    def test_names_come_back(self, engine, problem):
        _, X = problem
        names = [f"node {k}" for k in range(40)]
        model = learn(engine, pd.DataFrame(X, columns=names), tol=10.0)
        assert model.graph_.names == tuple(names)

    def test_permuting_nodes_permutes_the_graph(self, engine, problem):
        _, X = problem
        by = np.random.default_rng(0).permutation(40)
        L, P = learn(engine, X).laplacian_, learn(engine, X[:, by]).laplacian_
        assert L[np.ix_(by, by)] == pytest.approx(P, abs=0.05)

    def test_scaling_signals_and_penalties_leaves_the_graph(self, engine, problem):
        _, X = problem
        one = learn(engine, X, tol=1.0)
        other = learn(engine, 1024.0 * X, tol=1.0, alpha=0.05 * 1024.0, beta=0.02 * 1024.0**2)
        assert (one.laplacian_ == other.laplacian_).all()
        assert other.sources_ == pytest.approx(1024.0 * one.sources_)

    def test_the_same_again_and_with_threads_to_the_bit(self, engine, problem):
        _, X = problem
        one, other = learn(engine, X), learn(engine, X, n_jobs=2)
        assert (one.laplacian_ == other.laplacian_).all()
        assert (one.sources_ == other.sources_).all()

    def test_sources_explain_new_signals(self, engine, problem):
        _, X = problem
        model = learn(engine, X)
        coded = model.code(X[:5])
        assert coded.sources.shape == (5, 2, 40)
        assert coded.gap.max() < 1e-4
        again = model.inverse_transform(model.transform(X[:5]))
        assert np.linalg.norm(again - X[:5]) < 0.3 * np.linalg.norm(X[:5])
        assert model.score(X) > 0.5

    def test_missing_entries_are_found(self, engine, problem):
        graph, X = problem
        holes = X.copy()
        hidden = np.random.default_rng(0).random(X.shape) < 0.15
        holes[hidden] = np.nan
        model = learn(engine, holes, tol=5e-2)
        assert edge_scores(graph, model.graph_).f_measure > 0.75
        filled = model.impute(holes)
        assert (filled[~hidden] == X[~hidden]).all()
        assert np.mean((filled - X)[hidden] ** 2) < 0.5 * np.mean(X[hidden] ** 2)

    def test_ctrl_c_keeps_the_best_so_far(self, engine, problem):
        _, X = problem

        def stop(step):
            if step.iteration == 3:
                raise KeyboardInterrupt

        model = LearnHeat(solver=engine, candidates=12, **HELD).fit(X, monitor=stop)
        assert model.status_ is Status.INTERRUPTED
        assert model.graph_.n_nodes == 40

    def test_a_fit_goes_on_from_its_checkpoint(self, engine, problem, tmp_path):
        _, X = problem
        path = tmp_path / "fit.npz"

        def stop(step):
            if step.iteration == 4:
                raise KeyboardInterrupt

        LearnHeat(solver=engine, candidates=12, checkpoint=path, **HELD).fit(X, monitor=stop)
        resumed = LearnHeat(solver=engine, candidates=12, checkpoint=path, **HELD).fit(X)
        assert (resumed.laplacian_ == learn(engine, X).laplacian_).all()


class TestBoth:
    def test_they_agree(self, problem):
        _, X = problem
        how = {"tol": 1e-4, "penalty": "l1"}
        dense, matrix_free = learn("dense", X, **how), learn("sparse", X, **how)
        assert matrix_free.objective_[-1] == pytest.approx(dense.objective_[-1], rel=1e-5)
        top = dense.laplacian_.max()
        assert np.abs(matrix_free.laplacian_ - dense.laplacian_).max() < 0.02 * top

    def test_what_the_sparse_one_learned_the_dense_one_codes_alike(self, problem):
        _, X = problem
        model = learn("sparse", X, tol=0.1)
        dense = model.transform(X[:4])
        model.laplacian_ = sparse.csr_array(model.laplacian_)
        assert model.inverse_transform(model.transform(X[:4])) == pytest.approx(
            model.inverse_transform(dense), abs=1e-3
        )


class TestLarge:
    def test_every_pair_is_priced_and_certified(self, problem):
        graph, X = problem
        few = LearnHeat(solver="sparse", candidates=3, penalty="l1", **HELD).fit(X)
        every = LearnHeat(solver="sparse", penalty="l1", **{**HELD, "tol": 1e-3}).fit(X)
        assert np.isnan(few.certificate_)
        assert every.status_ is Status.CERTIFIED
        assert every.certificate_ <= large.GAP
        assert every.objective_[-1] < few.objective_[-1]
        assert edge_scores(graph, every.graph_).recall > edge_scores(graph, few.graph_).recall

    def test_what_no_price_has_certified_is_not_said_to_have_converged(self, problem, monkeypatch):
        _, X = problem
        monkeypatch.setattr(large, "ROUNDS_OF_PRICING", 1)
        with pytest.warns(ConvergenceWarning):
            model = learn("sparse", X, candidates="all", penalty="l1", tol=1e-4)
        assert model.status_ == "max_iter"
        assert model.certificate_ > large.GAP

    @pytest.mark.parametrize("at", ["price_all", "price_tangent"])
    def test_ctrl_c_while_pairs_are_priced_keeps_the_fit(self, problem, monkeypatch, at):
        def stop(*_, **__):
            raise KeyboardInterrupt

        home = (
            "heatgraph.solvers.edge_generation"
            if at == "price_all"
            else "heatgraph.estimators.large"
        )
        monkeypatch.setattr(f"{home}.{at}", stop)
        model = learn("sparse", problem[1], candidates="all")
        assert model.status_ == "interrupted"
        assert np.trace(model.laplacian_) == pytest.approx(40)

    @pytest.mark.parametrize("nth", [1, 2, 3])
    def test_ctrl_c_in_the_tangent_keeps_the_fit(self, problem, monkeypatch, nth):
        calls = []
        tangent = SparseSignals.discount

        def stop(*arguments):
            calls.append(1)
            if len(calls) == nth:
                raise KeyboardInterrupt
            return tangent(*arguments)

        monkeypatch.setattr(SparseSignals, "discount", stop)
        model = learn("sparse", problem[1])
        assert model.status_ == "interrupted"
        assert np.isfinite(model.objective_).all()

    def test_ctrl_c_at_the_start_of_a_later_round_keeps_the_last(self, problem, monkeypatch):
        calls = []

        def stop(*arguments, **how):
            calls.append(1)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return solve_heat(*arguments, **how)

        monkeypatch.setattr("heatgraph.solvers.edge_generation.solve_by_stages", stop)
        monkeypatch.setattr(large, "GAP", 1e-5)
        model = learn("sparse", problem[1], candidates="all", penalty="l1")
        assert len(calls) == 2
        assert model.status_ == "interrupted"

    def test_signals_of_nothing_do_not_change_the_penalty(self, problem):
        _, X = problem
        sizes = [
            large.typical_atom(resolve(LearnHeat(solver="sparse", candidates=12), Y, 1.0, None))
            for Y in (X, np.vstack([X, np.zeros((2 * len(X), 40))]))
        ]
        assert sizes[0] == pytest.approx(sizes[1], rel=1e-6)

    def test_a_number_of_scales_to_choose_is_refused(self, problem):
        with pytest.raises(ValueError, match=r'n_scales="auto".*n_scales=2'):
            learn("sparse", problem[1], n_scales="auto", scales=None, learn_scales=True)

    def test_a_start_on_the_plateau_is_not_where_it_ends(self, problem):
        scales = [
            learn("sparse", problem[1], scales=start, learn_scales=True).scales_
            for start in (None, (20.0, 40.0))
        ]
        np.testing.assert_array_equal(*scales)

    def test_heat_that_is_everywhere_is_told(self, monkeypatch):
        X, _ = make_heat_signals(make_graph("er", 60, 0), (2.5, 4.0), 40, 2, random_state=0)
        monkeypatch.setattr(large, "REACHES", {np.dtype(np.float64): {np.inf: 0.05}})
        with pytest.warns(UserWarning, match=r"heat spreads.*of it is too thin.*solver=.dense"):
            learn("sparse", X, tol=10.0)

    def test_atoms_diffuse_what_they_code(self, monkeypatch):
        X, _ = make_heat_signals(make_graph("geometric", 60, 0), (2.5, 4.0), 40, 2, random_state=0)
        monkeypatch.setattr(large, "REACHES", {np.dtype(np.float64): {np.inf: 0.02}})
        monkeypatch.setattr(fitted_graph, "DENSE_NODES", 10)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = learn("sparse", X, tol=10.0)
        machine = model._model()
        coding = machine.code(Signals(np.ascontiguousarray(X.T)), 1e-4)
        left = X.T - machine.synthesis(as_sources(coding.h, 2))
        # What is left is what the coder believes to leave, but for the penalty.
        assert (np.square(left).sum(axis=0) <= coding.value + 1e-9).all()

    def test_a_checkpoint_in_another_precision_is_refused(self, problem, tmp_path):
        _, X = problem
        single = X.astype(np.float32)
        learn("sparse", single, tol=10.0, checkpoint=tmp_path / "c.npz")
        with pytest.raises(ValueError, match="X"):
            learn("sparse", single.astype(np.float64), tol=10.0, checkpoint=tmp_path / "c.npz")

    def test_penalties_that_are_not_given_follow_the_signals(self, problem):
        _, X = problem
        how = {"solver": "sparse", "candidates": 12, "n_scales": 2, "tol": 1e3}
        one, other = LearnHeat(**how).fit(X), LearnHeat(**how).fit(4.0 * X)
        assert other.alpha_ == pytest.approx(4.0 * one.alpha_)
        assert other.beta_ == pytest.approx(16.0 * one.beta_)
        assert one.selection_ is None

    @pytest.mark.slow  # compiles everything once more
    def test_single_precision_finds_the_same_graph(self, problem):
        graph, X = problem
        model = learn("sparse", X.astype(np.float32))
        assert edge_scores(graph, model.graph_).f_measure > 0.9

    def test_auto_takes_it_for_many_nodes(self, problem, monkeypatch):
        _, X = problem
        monkeypatch.setattr("heatgraph.estimators.parameters.MANY_NODES", 30)
        monkeypatch.setattr(fitted_graph, "DENSE_NODES", 30)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LearnHeat(candidates=8, max_iter=3, **GIVEN).fit(X)
        assert sparse.issparse(model.laplacian_)

    def test_many_sources_are_kept_sparse(self, problem, monkeypatch):
        _, X = problem
        whole = learn("sparse", X)
        monkeypatch.setattr(large, "ENTRIES", 10)
        thin = learn("sparse", X)
        assert sparse.issparse(thin.sources_)
        assert thin.sources_.shape == (90, 2, 40)
        assert (thin.sources_.toarray() == whole.sources_).all()

    def test_a_fit_that_would_not_fit_is_refused(self, problem, monkeypatch):
        _, X = problem
        monkeypatch.setattr(large, "memory_needed", lambda p: 10**18)
        with pytest.raises(ValueError, match=r"needs about .* GB.*float32"):
            learn("sparse", X)

    def test_memory_grows_with_nodes_signals_and_precision(self, problem):
        _, X = problem

        def needed(dtype, share):
            model = LearnHeat(solver="sparse", candidates=5, **HELD)
            return memory_needed(resolve(model, X[: share * 30], 1.0, None, dtype))

        assert needed(np.float64, 3) > needed(np.float64, 1)
        assert needed(np.float64, 1) > needed(np.float32, 1)

    def test_resampling_is_refused_with_a_remedy(self, problem):
        _, X = problem
        with pytest.raises(ValueError, match="n_bootstrap=0"):
            learn("sparse", X, n_bootstrap=3)

    def test_a_large_model_can_be_saved(self, problem, monkeypatch, tmp_path):
        _, X = problem
        monkeypatch.setattr(fitted_graph, "DENSE_NODES", 30)
        model = learn("sparse", X, tol=0.1)
        assert sparse.issparse(model.laplacian_)
        save_model(model, tmp_path / "model.npz")
        again = load_model(tmp_path / "model.npz")
        assert (again.laplacian_ != model.laplacian_).nnz == 0
        assert (again.transform(X[:3]) == model.transform(X[:3])).all()


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
