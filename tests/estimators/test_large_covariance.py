"""HeatCovariance by the sparse engine, as a user meets it."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

from heatgraph import HeatCovariance, load_model, save_model
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.metrics import edge_scores
from heatgraph.solvers.result import Status

N = 40


@pytest.fixture(scope="module")
def data():
    graph = make_graph("geometric", N, random_state=3)
    X, _ = make_heat_signals(graph, [2.0], 400, N, 0.05, random_state=3)
    return graph, X[:300], X[300:]


@pytest.fixture(scope="module")
def model(data):
    return HeatCovariance(solver="sparse").fit(data[1])


def test_the_graph_the_scale_and_the_noise_are_found(data, model):
    assert model.solver_ == "sparse"
    assert model.status_ == Status.CONVERGED
    assert edge_scores(data[0], model.graph_).f_measure > 0.97
    assert model.scales_[0] == pytest.approx(2.0, rel=0.15)
    assert np.sqrt(model.noise_variance_) == pytest.approx(0.05, rel=0.4)
    assert model.weights_.weights.sum() == pytest.approx(N / 2)


def test_most_edges_are_found_in_noise_of_a_third_of_the_variance():
    graph = make_graph("geometric", 300, random_state=1)
    X, _ = make_heat_signals(graph, [2.5, 4.0], 300, 3, 0.02, random_state=1)
    model = HeatCovariance(solver="sparse").fit(X)
    # With a prior around the nearest nodes, all of one weight: 0.807.
    assert edge_scores(graph, model.graph_).f_measure > 0.815


def test_the_two_engines_predict_alike(data, model):
    dense = HeatCovariance(solver="dense", shrinkage=0.01, penalty=2.0).fit(data[1])
    assert dense.solver_ == "dense"
    assert model.score_hidden(data[2]) == pytest.approx(dense.score_hidden(data[2]), abs=0.03)
    assert model.score(data[2]) == pytest.approx(dense.score(data[2]), abs=0.03 * N)


def test_imputed_values_have_standard_deviations_that_hold(data, model):
    rng = np.random.default_rng(0)
    X = data[2][:30]
    hidden = rng.random(X.shape) < 0.2
    hidden[:] = hidden[0]  # one pattern of gaps: standard deviations take a system for each
    gaps = np.where(hidden, np.nan, X)
    filled, std = model.impute(gaps, return_std=True)
    z = (filled - X)[hidden] / std[hidden]
    assert 0.85 < z.std() < 1.15
    np.testing.assert_array_equal(filled[~hidden], X[~hidden])


def test_edges_have_standard_errors_and_p_values():
    graph = make_graph("geometric", 80, random_state=3)
    X, _ = make_heat_signals(graph, [2.0], 300, 80, 0.05, random_state=3)
    model = HeatCovariance(solver="sparse").fit(X)
    table = model.edge_statistics()
    assert list(table.columns[:4]) == ["source", "target", "weight", "standard_error"]
    assert len(table) == model.graph_.n_edges
    np.testing.assert_allclose(model.graph_.confidence, 1.0 - table["p_value"])
    truth = graph.adjacency().toarray()
    true = truth[table["source"], table["target"]]
    z = (table["weight"] - true) / table["standard_error"]
    assert 0.8 < z[true > 0.0].std() < 1.3
    assert abs(z[true > 0.0].mean()) < 0.2
    assert (table["p_value"] < 0.01).mean() > 0.95


def test_significant_edges_are_few_and_right(data):
    model = HeatCovariance(solver="sparse", cut="significance").fit(data[1])
    assert np.isnan(model.cut_)
    assert edge_scores(data[0], model.graph_).precision > 0.99
    assert edge_scores(data[0], model.graph_).recall > 0.5


def test_gaps_are_filled_on_the_way(data, model):
    rng = np.random.default_rng(0)
    X = np.where(rng.random(data[1].shape) < 0.2, np.nan, data[1])
    gaps = HeatCovariance(solver="sparse").fit(X)
    assert edge_scores(data[0], gaps.graph_).f_measure > 0.97
    assert np.sqrt(gaps.noise_variance_) == pytest.approx(0.05, rel=0.3)
    # The same entries set to zero lose a quarter of a nat per node.
    assert gaps.score(data[2]) > model.score(data[2]) - 0.05 * N
    assert gaps.n_effective_ == pytest.approx(0.64 * len(X), rel=0.1)


def test_a_node_that_was_never_observed_is_named(data):
    X = data[1][:100, :20].copy()
    X[:, 7] = np.nan
    with pytest.warns(UserWarning, match=r"never observed.*\[7\]"):
        model = HeatCovariance(solver="sparse", tol=0.1).fit(X)
    with pytest.warns(UserWarning, match=r"without knowledge.*\[7\]"):
        assert np.isfinite(model.impute(X)).all()


def test_chunks_of_dask_give_the_model_of_the_rows(data, model):
    array = pytest.importorskip("dask.array")
    chunks = array.from_array(data[1], chunks=(60, N))  # the last of them is the last fifth
    other = HeatCovariance(solver="sparse").fit(chunks)
    np.testing.assert_array_equal(other.graph_.edges, model.graph_.edges)
    assert other.noise_variance_ == pytest.approx(model.noise_variance_, rel=1e-2)
    assert other.score(data[2]) == pytest.approx(model.score(data[2]), abs=0.5)
    with pytest.raises(ValueError, match="missing or not finite"):
        HeatCovariance(solver="sparse").fit(array.where(chunks > 1.0, np.nan, chunks))


@pytest.mark.parametrize("kernel", ["tikhonov", "matern"])
def test_other_kernels_are_learned(data, kernel):
    sparse = HeatCovariance(solver="sparse", kernel=kernel).fit(data[1])
    assert sparse.status_ == Status.CONVERGED
    # The signals are heat: the other kernels are wrong for them, and still find most edges.
    assert edge_scores(data[0], sparse.graph_).f_measure > 0.75
    H = sparse.transform(data[2][:3])
    assert np.square(sparse.inverse_transform(H) - data[2][:3]).mean() < 0.3 * data[2][:3].var()


def test_names_and_frames_come_back(data):
    names = [f"station {k}" for k in range(N)]
    frame = pd.DataFrame(data[1], columns=names)
    model = HeatCovariance(solver="sparse", n_edges=20).fit(frame)
    assert model.graph_.n_edges == 20
    assert model.graph_.names == tuple(names)
    gaps = frame.iloc[:3].mask(frame.iloc[:3] < 0.0)
    filled = model.impute(gaps)
    assert list(filled.columns) == names
    assert not filled.isna().any().any()


def test_a_saved_model_computes_the_same(data, model, tmp_path):
    save_model(model, tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    gaps = np.where(data[2][:4] > 0.5, np.nan, data[2][:4])
    np.testing.assert_array_equal(loaded.impute(gaps), model.impute(gaps))
    assert loaded.score(data[2]) == model.score(data[2])
    assert loaded.solver_ == "sparse"
    pd.testing.assert_frame_equal(loaded.edge_statistics(), model.edge_statistics())


def test_sources_samples_and_distances(data, model):
    H = model.transform(data[2][:3])
    assert H.shape == (3, N)
    near = model.inverse_transform(H)
    assert np.square(near - data[2][:3]).mean() < 0.2 * data[2][:3].var()
    X = model.sample(2000, random_state=0)
    assert X.std() == pytest.approx(data[1].std(), rel=0.1)
    assert model.mahalanobis(X).mean() == pytest.approx(N, rel=0.02)


def test_a_checkpoint_resumes_to_the_same_model(data, model, tmp_path):
    path = tmp_path / "fit.npz"

    def stop(progress):
        if path.exists() and progress.iteration == 2:
            raise KeyboardInterrupt

    first = HeatCovariance(solver="sparse", checkpoint=path).fit(data[1], monitor=stop)
    assert first.status_ == Status.INTERRUPTED
    assert np.isfinite(first.score(data[2]))
    second = HeatCovariance(solver="sparse", checkpoint=path).fit(data[1])
    np.testing.assert_allclose(second.weights_.weights, model.weights_.weights)


def test_a_resumed_fit_that_started_from_edges_found_has_the_same_graph(tmp_path):
    path = tmp_path / "fit.npz"
    graph = make_graph("geometric", 80, random_state=4)
    X, _ = make_heat_signals(graph, [2.0], 300, 80, 0.05, random_state=4)

    reports = []
    whole = HeatCovariance(solver="sparse").fit(X, monitor=reports.append)
    left = iter(reports[1:])

    def stop(progress):  # at the last report, long after the noise was found
        if next(left, None) is None:
            raise KeyboardInterrupt

    first = HeatCovariance(solver="sparse", checkpoint=path).fit(X, monitor=stop)
    assert first.status_ == Status.INTERRUPTED
    resumed = HeatCovariance(solver="sparse", checkpoint=path).fit(X)
    np.testing.assert_array_equal(resumed.graph_.edges, whole.graph_.edges)
    np.testing.assert_allclose(resumed.graph_.weights, whole.graph_.weights)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"solver": "fast"}, "solver"),
        ({"n_scales": 0}, "n_scales"),
        ({"kernel": "cubic"}, "kernel"),
        ({"shrinkage": 0.3}, "shrinkage"),
        ({"penalty": 2.0}, "penalty"),
        ({"cut": "sharp"}, "cut"),
    ],
)
def test_what_it_does_not_do_is_refused_by_name(data, parameters, named):
    with pytest.raises(ValueError, match=named):
        HeatCovariance(**{"solver": "sparse", **parameters}).fit(data[1])


def test_what_a_fitted_model_does_not_do_is_refused_by_name(data, model):
    with pytest.raises(ValueError, match="pairs='all'"):
        model.edge_statistics(pairs="all")
    with pytest.raises(ValueError, match="partial_fit"):
        model.partial_fit(data[1])
    with pytest.raises(ValueError, match="NaN"):
        model.score(np.where(data[2] > 1.0, np.nan, data[2]))


def test_all_pairs_are_looked_at_where_that_is_asked_for(data, model):
    every = HeatCovariance(solver="sparse", candidates="all").fit(data[1])
    assert every.status_ == Status.CERTIFIED
    assert edge_scores(model.graph_, every.graph_).f_measure > 0.97


def test_given_candidates_are_all_that_is_learned_on(data):
    allowed = data[0].edges[::2]
    model = HeatCovariance(solver="sparse", candidates=allowed).fit(data[1])
    pairs = {tuple(sorted(e)) for e in allowed.tolist()}
    assert {tuple(sorted(e)) for e in model.weights_.edges.tolist()} <= pairs


@pytest.mark.parametrize(("size", "level"), [(1e-100, 0.0), (1e3, 5.0), (1e100, 0.0)])
def test_signals_of_any_size_and_level_give_the_same_model(data, model, size, level):
    other = HeatCovariance(solver="sparse").fit(size * data[1] + level)
    # Rounding differs, and an edge whose weight is that of the cut may be on either side of it.
    assert edge_scores(model.graph_, other.graph_).f_measure > 0.98
    assert other.noise_variance_ / size**2 == pytest.approx(model.noise_variance_, rel=1e-2)
    gaps = np.where(data[2][:4] > 0.5, np.nan, data[2][:4])
    filled = (other.impute(size * gaps + level) - level) / size
    np.testing.assert_allclose(filled, model.impute(gaps), atol=1e-3)


def test_signals_beyond_floating_point_are_refused(data):
    with pytest.raises(ValueError, match="multiply X by"):
        HeatCovariance(solver="sparse").fit(1e200 * data[1])


def test_a_fitted_model_can_be_copied_between_processes(data, model):
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.covariance_ @ data[2][0], model.covariance_ @ data[2][0])


@pytest.mark.parametrize("case", ["two edges", "identical nodes", "two nodes", "zeros"])
def test_odd_input_ends_in_a_finite_model(data, case):
    rng = np.random.default_rng(0)
    X, options = data[1][:60, :20].copy(), {"tol": 0.1}
    if case == "two edges":
        options["candidates"] = [(0, 1), (1, 2)]
    elif case == "identical nodes":
        X[:, :6] = X[:, :1]
    elif case == "two nodes":
        X = rng.standard_normal((12, 2))
    else:
        X[-20:], options["fit_intercept"] = 0.0, False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HeatCovariance(solver="sparse", **options).fit(X)
    assert np.isfinite(model.score(X))
    assert np.isfinite(model.weights_.weights).all()


def test_few_signals_and_two_scales_are_fitted(data):
    few = HeatCovariance(solver="sparse", tol=0.1).fit(data[1][:6])
    assert np.isfinite(few.score(data[2]))
    two = HeatCovariance(solver="sparse", n_scales=2, tol=0.1).fit(data[1])
    assert two.scales_.shape == (2,)
    assert np.isfinite(two.score(data[2]))
